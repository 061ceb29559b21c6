"""SDMA packets of a copy queue, generation 6.0, carried out.

Source: hcq/amd/defs/sdma.py names the documents. Positions count bytes; a word of
zero is a NOP; no packet crosses the end of the ring.
"""

from array import array
from collections.abc import Callable, Mapping
from typing import Any

from hcq.amd.defs import pm4, sdma
from hcq.amd.defs.sdma import Op
from hcq.bits import Layout
from hcq.errors import SimFault
from sim.amd.queue import Frame, Queue, compare
from sim.fields import fields, not_simulated

Handler = Callable[["SdmaQueue", "array[int]"], bool]
Length = Callable[["array[int]", int], int]

HANDLERS: dict[tuple[int, int], tuple[Handler, Length]] = {}
# Layouts that only name operation and sub-operation still refuse what else is set.
_MAX_FILL_PIECE = 1 << 20


def packet(op: Op, sub_op: int, length: int | Length) -> Callable[[Handler], Handler]:
    """Register what an operation does, and how many words its packet has."""
    measure = length if callable(length) else lambda words, at: length

    def register(handler: Handler) -> Handler:
        if (op, sub_op) in HANDLERS:
            raise SimFault(f"SDMA {op.name} {sub_op} has two owners")
        HANDLERS[op, sub_op] = handler, measure
        return handler

    return register


class SdmaQueue(Queue):
    """A copy queue. Positions count bytes."""

    unit = 1

    def length(self, frame: Frame) -> int:
        """Words of the packet, header included."""
        _, measure = self._find(frame.words[frame.position])
        return measure(frame.words, frame.position)

    def packet(self, words: "array[int]") -> bool:
        """Carry out one packet; False: it waits."""
        handler, _ = self._find(words[0])
        if words[0] and self.gpu.traces:
            self.gpu.record("packet", self.gpu.index, self.name, Op(words[0] & 0xFF).name)
        return handler(self, words)

    def check_ring_packet(self, frame: Frame, length: int) -> None:
        """Packets lie in one piece; an indirect one ends on a boundary of 8 words."""
        size = self.setup.ring_size
        offset = (frame.address - self.setup.ring + 4 * frame.position) % size
        end = offset + 4 * length
        header = frame.words[frame.position]
        if end > size and header & 0xFF != Op.NOP:
            raise SimFault(f"SDMA {Op(header & 0xFF).name} crosses the end of the ring")
        if header & 0xFF == Op.INDIRECT and end // 4 % sdma.INDIRECT_END_ALIGNMENT_WORDS:
            raise SimFault(f"SDMA INDIRECT ends at {end:#x}, not on a boundary of 8 words")

    @staticmethod
    def _find(header: int) -> tuple[Handler, Length]:
        op, sub_op = header & 0xFF, header >> 8 & 0xFF
        if (op, sub_op) not in HANDLERS:
            name = Op(op).name if op in _OPS else f"operation {op:#x}"
            raise SimFault(f"SDMA {name} sub-operation {sub_op} is not simulated: {header:#010x}")
        return HANDLERS[op, sub_op]


_OPS = frozenset(Op)


def _address(words: "array[int]", index: int) -> int:
    return words[index + 1] << 32 | words[index]


def _flag(known: Mapping[str, int], name: str, *allowed: int) -> None:
    if known[name] not in allowed:
        raise SimFault(f"SDMA {name} {known[name]} is not simulated")


def _nop_length(words: "array[int]", at: int) -> int:
    return 1 + (words[at] >> 16 & 0x3FFF)


@packet(Op.NOP, 0, _nop_length)
def nop(queue: SdmaQueue, words: "array[int]") -> bool:
    fields(sdma.NOP_HEADER, words[0])
    return True


@packet(Op.COPY, sdma.SUBOP_COPY_LINEAR, sdma.COPY_LINEAR_WORDS)
def copy_linear(queue: SdmaQueue, words: "array[int]") -> bool:
    header = fields(sdma.COPY_LINEAR_HEADER, words[0])
    for name in ("broadcast", "cpv", "tmz", "encrypt"):
        _flag(header, name, 0)
    size = fields(sdma.COPY_LINEAR_COUNT, words[1])["count"] + 1
    fields(sdma.COPY_LINEAR_PARAMETER, words[2])
    source, destination = _address(words, 3), _address(words, 5)
    _copy(queue, destination, source, size, backwards=bool(header["backwards"]))
    queue.gpu.count("sdma_bytes", size)
    queue.gpu.spend_copy(size)
    return True


def _copy(queue: SdmaQueue, destination: int, source: int, size: int, *, backwards: bool) -> None:
    """Copy as the engine does: in one direction, whether the ranges overlap or not.

    Going up into an overlap above the source repeats its first bytes, and going
    down into one below it the last ones: only the driver can prevent that.
    """
    memory = queue.gpu.memory
    distance = destination - source
    if backwards:
        distance = -distance
    if not 0 < distance < size:
        memory.move(destination, source, size)
        return
    memory.check(source, size, "read")
    memory.check(destination, size, "write")
    # The result repeats every `distance` bytes, so what is done already is a source as well:
    # pieces double, and none overlaps itself. A multiple of the distance is done before each.
    done = 0
    while done < size:
        piece = min(distance + done, size - done)
        to, near = (size - done - piece, size - piece) if backwards else (done, 0)
        memory.move(destination + to, source + near, piece)
        done += piece


def _write_length(words: "array[int]", at: int) -> int:
    if at + 3 >= len(words):
        return 5
    return 4 + (words[at + 3] & 0xF_FFFF) + 1


@packet(Op.WRITE, sdma.SUBOP_WRITE_LINEAR, _write_length)
def write(queue: SdmaQueue, words: "array[int]") -> bool:
    fields(sdma.HEADER, words[0])
    fields(sdma.WRITE_COUNT, words[3])
    destination = _address(words, 1)
    if destination % 4:
        raise SimFault(f"SDMA WRITE destination {destination:#x} is not aligned to a word")
    queue.gpu.memory.write(destination, words[4:].tobytes())
    queue.gpu.notify()
    return True


@packet(Op.CONST_FILL, 0, sdma.CONST_FILL_WORDS)
def const_fill(queue: SdmaQueue, words: "array[int]") -> bool:
    header = fields(sdma.CONST_FILL_HEADER, words[0])
    _flag(header, "fillsize", sdma.FILL_BYTE, sdma.FILL_DWORD)
    _flag(header, "sw", 0)
    count = fields(sdma.CONST_FILL_COUNT, words[4])["count"]
    destination = _address(words, 1)
    if header["fillsize"] == sdma.FILL_BYTE:
        size, pattern = count + 1, bytes([words[3] & 0xFF]) * 4
    else:
        if count % 4 or destination % 4:
            raise SimFault(f"SDMA CONST_FILL of words: count {count:#x} at {destination:#x}")
        size, pattern = count + 4, words[3].to_bytes(4, "little")
    memory = queue.gpu.memory
    memory.check(destination, size, "write")
    piece = pattern * (min(size, _MAX_FILL_PIECE) // 4 + 1)
    for start in range(0, size, _MAX_FILL_PIECE):
        memory.write(destination + start, piece[: min(_MAX_FILL_PIECE, size - start)])
    queue.gpu.count("sdma_bytes", size)
    queue.gpu.spend_copy(size)
    return True


@packet(Op.FENCE, 0, sdma.FENCE_WORDS)
def fence(queue: SdmaQueue, words: "array[int]") -> bool:
    header = fields(sdma.FENCE_HEADER, words[0])
    _flag(header, "gpa", 0)
    queue.gpu.memory.write32(_address(words, 1), words[3])
    queue.gpu.notify()
    return True


@packet(Op.POLL_REGMEM, 0, sdma.POLL_REGMEM_WORDS)
def poll_regmem(queue: SdmaQueue, words: "array[int]") -> bool:
    header = fields(sdma.POLL_REGMEM_HEADER, words[0])
    if not header["mem_poll"]:
        raise SimFault(f"SDMA POLL_REGMEM of register {words[1]:#x} is not simulated")
    _flag(header, "hdp_flush", 0)
    retry = fields(sdma.POLL_REGMEM_RETRY, words[5])
    if retry["retry_count"] != sdma.POLL_RETRY_FOREVER:
        raise SimFault(f"SDMA POLL_REGMEM retry_count {retry['retry_count']:#x} is not simulated")
    address, reference, mask = _address(words, 1), words[3], words[4]
    value = queue.gpu.memory.read32(address) & mask
    return compare(header["func"], value, reference)


@packet(Op.TRAP, 0, sdma.TRAP_WORDS)
def trap(queue: SdmaQueue, words: "array[int]") -> bool:
    fields(sdma.HEADER, words[0])
    queue.gpu.interrupt(fields(sdma.TRAP_CONTEXT, words[1])["int_context"])
    queue.gpu.notify()
    return True


@packet(Op.TIMESTAMP, sdma.SUBOP_TIMESTAMP_GET_GLOBAL, sdma.TIMESTAMP_WORDS)
def timestamp(queue: SdmaQueue, words: "array[int]") -> bool:
    fields(sdma.HEADER, words[0])
    queue.gpu.memory.write64(_address(words, 1), queue.gpu.ticks())
    queue.gpu.notify()
    return True


@packet(Op.ATOMIC, 0, sdma.ATOMIC_WORDS)
def atomic(queue: SdmaQueue, words: "array[int]") -> bool:
    header = fields(sdma.ATOMIC_HEADER, words[0])
    if header["atomic_op"] != sdma.ATOMIC_ADD_64:
        raise not_simulated("SDMA ATOMIC atomic_op", header["atomic_op"], {47: "add, 64 bits"})
    _flag(header, "loop", 0)
    address, memory = _address(words, 1), queue.gpu.memory
    memory.write64(address, (memory.read64(address) + _address(words, 3)) % 2**64)
    queue.gpu.notify()
    return True


@packet(Op.INDIRECT, 0, sdma.INDIRECT_WORDS)
def indirect(queue: SdmaQueue, words: "array[int]") -> bool:
    header = fields(sdma.INDIRECT_HEADER, words[0])
    _flag(header, "vmid", 0)
    address, count = _address(words, 1), fields(sdma.INDIRECT_SIZE, words[3])["ib_size"]
    if address % sdma.INDIRECT_BASE_ALIGNMENT:
        raise SimFault(f"SDMA INDIRECT base {address:#x} is not aligned to 32 bytes")
    if not count:
        raise SimFault("SDMA INDIRECT of no words")
    queue.call(address, count)
    return True


@packet(Op.GCR_REQ, sdma.SUBOP_USER_GCR, sdma.GCR_WORDS)
def gcr_req(queue: SdmaQueue, words: "array[int]") -> bool:
    fields(sdma.HEADER, words[0])
    layouts: tuple[Layout, ...] = (
        sdma.GCR_BASE_LOW, sdma.GCR_BASE_HIGH, sdma.GCR_LIMIT_LOW, sdma.GCR_LIMIT_HIGH
    )  # fmt: skip
    found: dict[str, Any] = {}
    for layout, word in zip(layouts, words[1:], strict=True):
        found |= fields(layout, word)
    control = found["gcr_control_18_16"] << 16 | found["gcr_control_15_0"]
    fields(pm4.ACQUIRE_MEM_GCR, control)
    return True
