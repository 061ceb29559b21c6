"""The copy engine: copies, fills by remapping, semaphores.

Source: NVIDIA open-gpu-doc, classes/dma-copy/clc6b5.h to clcab5.h.
"""

from collections.abc import Callable
from typing import ClassVar

from hcq.bits import Layout
from hcq.errors import SimFault
from hcq.nv.defs import classes, copy
from sim.fields import fields
from sim.nv.engines import Action, Engine, action

ACTIONS: dict[int, Action] = {}
_MAX_FILL_PIECE = 1 << 20
LINES_BETWEEN_LOOKS = 64  # whether the channel is to stop
_UPPER = {
    False: Layout("OFFSET_UPPER", 32, {"value": (16, 0)}),
    True: Layout("OFFSET_UPPER", 32, {"value": (24, 0)}),
}
_WIDE_PAYLOAD_SINCE = classes.HOPPER_DMA_COPY_A
# Bits of LAUNCH_DMA whose effect is not simulated: they have to be 0.
_UNTOUCHED = (
    "memory_scrub_enable", "vprmode", "copy_type", "semaphore_reduction_enable",
    "dst_type", "src_type",
)  # fmt: skip


class Copy(Engine):
    """A copy class."""

    unit: ClassVar[str] = "copy"
    actions = ACTIONS
    latches = frozenset({
        copy.SET_SEMAPHORE_A, copy.SET_SEMAPHORE_B, copy.SET_SEMAPHORE_PAYLOAD,
        copy.SET_SEMAPHORE_PAYLOAD_UPPER, copy.OFFSET_IN_UPPER, copy.OFFSET_IN_LOWER,
        copy.OFFSET_OUT_UPPER, copy.OFFSET_OUT_LOWER, copy.PITCH_IN, copy.PITCH_OUT,
        copy.LINE_LENGTH_IN, copy.LINE_COUNT, copy.SET_REMAP_CONST_A, copy.SET_REMAP_CONST_B,
        copy.SET_REMAP_COMPONENTS,
    })  # fmt: skip

    @property
    def is_wide(self) -> bool:
        """Hopper and later: addresses of 57 bits, semaphores of two words."""
        return self.number >= _WIDE_PAYLOAD_SINCE

    def place(self, upper: int, lower: int, name: str) -> int:
        """An address from two methods; SimFault beyond what the class can hold."""
        high = fields(_UPPER[self.is_wide], self.latched(upper, name))["value"]
        return high << 32 | self.latched(lower, name)


@action(ACTIONS, copy.NOP)
def nop(engine: Copy, word: int) -> bool:
    return True


@action(ACTIONS, copy.LAUNCH_DMA)
def launch_dma(engine: Copy, word: int) -> bool:
    found = fields(copy.LAUNCH_DMA_WORD, word)
    for name in _UNTOUCHED:
        if found[name]:
            raise SimFault(f"LAUNCH_DMA {name} {found[name]} is not simulated")
    kind = found["data_transfer_type"]
    if kind not in (copy.TRANSFER_NONE, copy.TRANSFER_PIPELINED, copy.TRANSFER_NON_PIPELINED):
        raise SimFault(f"LAUNCH_DMA data_transfer_type {kind} is not simulated")
    if kind and not _transfer(
        engine, remap=bool(found["remap_enable"]), lines=found["multi_line_enable"],
        pitches=(found["src_memory_layout"], found["dst_memory_layout"]),
    ):  # fmt: skip
        return False
    if found["semaphore_type"]:
        _semaphore(engine, found["semaphore_type"], wide=bool(found["semaphore_payload_size"]))
    if found["interrupt_type"]:
        engine.channel.gpu.notify()
    return True


def _transfer(engine: Copy, *, remap: bool, lines: int, pitches: tuple[int, int]) -> bool:
    """Carry out all lines; False when that was stopped before the end."""
    if pitches[1] != copy.PITCH or (pitches[0] != copy.PITCH and not remap):
        raise SimFault("LAUNCH_DMA of a block-linear layout is not simulated")
    length = engine.latched(copy.LINE_LENGTH_IN, "LINE_LENGTH_IN")
    count = engine.latched(copy.LINE_COUNT, "LINE_COUNT") if lines else 1
    destination = engine.place(copy.OFFSET_OUT_UPPER, copy.OFFSET_OUT_LOWER, "OFFSET_OUT")
    step = engine.latched(copy.PITCH_OUT, "PITCH_OUT") if lines else 0
    if remap:
        element = _element(engine)
        size = len(element) * length

        def move(line: int) -> None:
            _fill(engine, destination + line * step, element, length)

    else:
        source = engine.place(copy.OFFSET_IN_UPPER, copy.OFFSET_IN_LOWER, "OFFSET_IN")
        pitch = engine.latched(copy.PITCH_IN, "PITCH_IN") if lines else 0
        size = length

        def move(line: int) -> None:
            engine.channel.memory.move(destination + line * step, source + line * pitch, length)

    # Lines of no bytes need no look at memory, however many there are.
    if size and not _each_line(engine, count, move):
        return False
    gpu = engine.channel.gpu
    gpu.board.count("copied_bytes", size * count)
    gpu.spend_copy(size * count)
    gpu.notify()
    return True


def _each_line(engine: Copy, count: int, move: Callable[[int], None]) -> bool:
    """Move lines until all are done, the channel goes away or it took too long (False)."""
    if count <= LINES_BETWEEN_LOOKS:
        for line in range(count):
            move(line)
        return True
    channel = engine.channel
    with channel.gpu.occupied(channel) as patience:
        for line in range(count):
            if line % LINES_BETWEEN_LOOKS == 0 and patience.is_over():
                channel.gpu.give_up(channel, f"a copy of {count} lines", patience)
                return False
            move(line)
    return True


def _element(engine: Copy) -> bytes:
    """The bytes that a fill repeats: constants only, no source."""
    word = engine.latched(copy.SET_REMAP_COMPONENTS, "SET_REMAP_COMPONENTS")
    found = fields(copy.REMAP_COMPONENTS_WORD, word)
    size = found["component_size"] + 1
    constants = {
        copy.REMAP_CONST_A: copy.SET_REMAP_CONST_A, copy.REMAP_CONST_B: copy.SET_REMAP_CONST_B,
    }  # fmt: skip
    element = b""
    for name in ("dst_x", "dst_y", "dst_z", "dst_w")[: found["num_dst_components"] + 1]:
        if found[name] not in constants:
            raise SimFault(f"SET_REMAP_COMPONENTS {name} {found[name]} is not simulated")
        value = engine.latched(constants[found[name]], "SET_REMAP_CONST")
        element += value.to_bytes(4, "little")[:size]
    return element


def _fill(engine: Copy, destination: int, element: bytes, count: int) -> None:
    memory, size = engine.channel.memory, len(element) * count
    if destination % len(element):
        raise SimFault(f"a fill of {len(element)}-byte elements at {destination:#x}")
    memory.check(destination, size, "write")
    most = _MAX_FILL_PIECE // len(element) * len(element)
    piece = element * (min(size, most) // len(element))
    for start in range(0, size, most):
        memory.write(destination + start, piece[: min(most, size - start)])


def _semaphore(engine: Copy, kind: int, *, wide: bool) -> None:
    if kind not in (copy.SEMAPHORE_ONE_WORD, copy.SEMAPHORE_FOUR_WORD):
        raise SimFault(f"LAUNCH_DMA semaphore_type {kind} is not simulated")
    if wide and not engine.is_wide:
        raise SimFault(f"class {engine.number:#06x} has no semaphores of two words")
    address = engine.place(copy.SET_SEMAPHORE_A, copy.SET_SEMAPHORE_B, "SET_SEMAPHORE")
    timestamp = kind == copy.SEMAPHORE_FOUR_WORD
    size = 16 if timestamp else 8 if wide else 4
    if address % size:
        raise SimFault(f"semaphore at {address:#x} is not aligned to {size} bytes")
    payload = engine.latched(copy.SET_SEMAPHORE_PAYLOAD, "SET_SEMAPHORE_PAYLOAD")
    if wide:
        upper = engine.latched(copy.SET_SEMAPHORE_PAYLOAD_UPPER, "SET_SEMAPHORE_PAYLOAD_UPPER")
        payload |= upper << 32
    engine.channel.release(address, payload, wide=wide, timestamp=timestamp)
