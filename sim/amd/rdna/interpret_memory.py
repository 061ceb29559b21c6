"""Memory instructions of the interpreter: addresses per lane, then bytes, one lane at a time.

Global memory goes through the page table (PageFault). LDS is a bytearray of the
work-group: reads beyond it give 0 and writes beyond it vanish, as on hardware. Atomics are
plain loads and stores: the interpreter runs alone.

Source: AMD "RDNA3" Instruction Set Architecture, chapters 8 (scalar memory), 10 (flat, global,
scratch addressing), 12 (LDS).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.amd.rdna.buffer import buffer_places, scalar_buffer_places
from sim.amd.rdna.instruction import Instruction, Operand
from sim.amd.rdna.memory_ops import OPERATIONS, MemoryOp
from sim.amd.rdna.operands import read_value, read_word
from sim.amd.rdna.spaces import (
    BufferSpace,
    FlatSpace,
    GlobalSpace,
    LocalSpace,
    ScratchSpace,
    Space,
)
from sim.isa.numpy_value import NumpyValue, dtype_of
from sim.isa.value import U32, U64, Value
from sim.memory import GpuMemory

if TYPE_CHECKING:
    from sim.amd.rdna.interpret import Wave

Array = np.ndarray[Any, np.dtype[Any]]

ADDRESS_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class _Access:
    """One memory instruction of one wave, while it runs."""

    instruction: Instruction
    operation: MemoryOp
    wave: "Wave"
    space: Space
    active: list[int]

    def addresses(self) -> list[int]:
        """The address of every lane, the first offset included."""
        return _ADDRESSES[self.operation.space](self.instruction, self.wave)

    def data(self, position: int, words: int) -> Array:
        """A data operand: uint32, shape (words, width)."""
        operand = self._data_operands()[position]
        rows = [read_word(self.wave, operand, part) for part in range(words)]
        return np.stack([_lanes(row) for row in rows])

    def put(self, operand: Operand, lane: int, words: Array) -> None:
        """Write a lane's result words."""
        self.wave.vgprs[operand.index : operand.index + len(words), lane] = words

    def _data_operands(self) -> tuple[Operand, ...]:
        sources = self.instruction.sources
        if self.operation.space == "buffer" or self.operation.add_thread_id:
            return sources[:1]
        if self.operation.space in ("lds", "flat"):
            return sources[1:]
        return sources[1:-1]


def access_memory(
    instruction: Instruction, operation: MemoryOp, wave: "Wave", memory: GpuMemory
) -> None:
    """Execute one memory instruction of a wave."""
    if operation.space == "scalar":
        _load_scalar(instruction, operation, wave, memory)
        return
    if operation.space == "scalar_buffer":
        _load_scalar_buffer(instruction, wave, memory)
        return
    active = [int(lane) for lane in np.nonzero(wave.exec_mask().spread())[0]]
    space = _space(instruction, operation, wave, memory)
    access = _Access(instruction, operation, wave, space, active)
    _ACTIONS[operation.action](access)


def _space(
    instruction: Instruction, operation: MemoryOp, wave: "Wave", memory: GpuMemory
) -> Space:
    if operation.space == "buffer":
        places = buffer_places(instruction, operation, wave)
        return BufferSpace(memory, [(_lanes(at), _lanes(inside)) for at, inside in places])
    local, scratch = LocalSpace(wave.lds), ScratchSpace(memory, wave.scratch, wave.width)
    spaces: dict[str, Space] = {
        "global": GlobalSpace(memory),
        "lds": local,
        "scratch": scratch,
        "flat": FlatSpace(memory, local, scratch),
    }
    return spaces[operation.space]


def _load_scalar(
    instruction: Instruction, operation: MemoryOp, wave: "Wave", memory: GpuMemory
) -> None:
    base, offset = instruction.sources
    address = _number(read_value(wave, base, U64)) + instruction.offset
    address += _number(read_word(wave, offset))
    data = memory.read(address & ADDRESS_MASK & ~3, 4 * operation.count)
    destination = instruction.destinations[0]
    for part, word in enumerate(np.frombuffer(data, np.uint32)):
        if destination.kind != "null":
            value = wave.constant(U32, int(word))
            wave.write(destination.kind, destination.index + part, value, None)


def _load_scalar_buffer(instruction: Instruction, wave: "Wave", memory: GpuMemory) -> None:
    places, inside = (_lanes(value) for value in scalar_buffer_places(instruction, wave))
    destination = instruction.destinations[0]
    for part in range(destination.count):
        data = memory.read(int(places[part]), 4) if inside[part] else bytes(4)
        if destination.kind != "null":
            value = wave.constant(U32, int.from_bytes(data, "little"))
            wave.write(destination.kind, destination.index + part, value, None)


# --- addresses


def _global_addresses(instruction: Instruction, wave: "Wave") -> list[int]:
    vector, base = instruction.sources[0], instruction.sources[-1]
    if OPERATIONS[instruction.name].add_thread_id:
        start = _number(read_value(wave, base, U64)) + instruction.offset
        lanes = 4 * np.arange(wave.width)
    elif base.kind == "null":
        start, lanes = instruction.offset, _lanes(read_value(wave, vector, U64))
    else:
        start = _number(read_value(wave, base, U64)) + instruction.offset
        lanes = _lanes(read_word(wave, vector))
    return [(start + int(lane)) & ADDRESS_MASK for lane in lanes]


def _flat_addresses(instruction: Instruction, wave: "Wave") -> list[int]:
    lanes = _lanes(read_value(wave, instruction.sources[0], U64))
    return [(instruction.offset + int(lane)) & ADDRESS_MASK for lane in lanes]


def _scratch_addresses(instruction: Instruction, wave: "Wave") -> list[int]:
    vector, base = instruction.sources[0], instruction.sources[-1]
    start = instruction.offset + _number(read_word(wave, base))
    return [(start + int(lane)) & 0xFFFF_FFFF for lane in _lanes(read_word(wave, vector))]


def _local_addresses(instruction: Instruction, wave: "Wave") -> list[int]:
    if "addtid" in instruction.name:
        start = instruction.offset + _number(wave.read("m0", 0))
        return [start + 4 * lane for lane in range(wave.width)]
    start = 0 if "2addr" in instruction.name else instruction.offset
    bases = _lanes(read_word(wave, instruction.sources[0]))
    return [(start + int(lane)) & 0xFFFF_FFFF for lane in bases]


def _no_addresses(_: Instruction, wave: "Wave") -> list[int]:
    """For spaces that know by themselves where each lane goes."""
    return [0] * len(wave.vgprs[0])


_ADDRESSES: dict[str, Callable[[Instruction, "Wave"], list[int]]] = {
    "global": _global_addresses,
    "flat": _flat_addresses,
    "scratch": _scratch_addresses,
    "lds": _local_addresses,
    "buffer": _no_addresses,
}


def element_offsets(instruction: Instruction, operation: MemoryOp) -> tuple[int, ...]:
    """What each element of an access adds to the address, in bytes."""
    if not operation.two_addresses:
        return (0,)
    unit = operation.bits // 8 * (64 if operation.stride64 else 1)
    return (instruction.offset * unit, instruction.offset1 * unit)


# --- actions


def _load(access: _Access) -> None:
    operation = access.operation
    destination = access.instruction.destinations[0]
    size = operation.bits // 8
    offsets = element_offsets(access.instruction, operation)
    loaded = {}
    addresses = access.addresses()
    for lane in access.active:
        parts = [access.space.load(lane, addresses[lane] + extra, size) for extra in offsets]
        loaded[lane] = b"".join(parts)
    for lane, data in loaded.items():
        words = _extended(data, operation)
        if operation.half:
            old = access.wave.vgprs[destination.index, lane]
            words = _with_half(old, words, operation.half)
        access.put(destination, lane, words)


def _extended(data: bytes, operation: MemoryOp) -> Array:
    if operation.bits >= 32:
        return np.frombuffer(data, np.uint32)
    number = int.from_bytes(data, "little", signed=operation.extend == "sign")
    wide = 0xFFFF if operation.half else 0xFFFF_FFFF
    return np.array([number & wide], np.uint32)


def _with_half(old: Any, words: Array, half: str) -> Array:
    kept, shift = (0xFFFF, 16) if half == "hi" else (0xFFFF_0000, 0)
    merged: Array = (old & np.uint32(kept)) | (words << np.uint32(shift))
    return merged


def _store(access: _Access) -> None:
    operation = access.operation
    addresses = access.addresses()
    for position, extra in enumerate(element_offsets(access.instruction, operation)):
        words = access.data(position, operation.count)
        if operation.half == "hi":
            words = words >> np.uint32(16)
        for lane in access.active:
            data = np.ascontiguousarray(words[:, lane]).tobytes()[: operation.bits // 8]
            access.space.store(lane, addresses[lane] + extra, data)


def _atomic(access: _Access) -> None:
    operation = access.operation
    size = operation.bits // 8
    first, second = _atomic_data(access)
    addresses = access.addresses()
    previous = {}
    for lane in access.active:
        old = access.space.load(lane, addresses[lane], size)
        new = _combine(access, old, first[lane], None if second is None else second[lane])
        access.space.store(lane, addresses[lane], new)
        previous[lane] = old
    if access.instruction.destinations:
        for lane, old in previous.items():
            access.put(access.instruction.destinations[0], lane, np.frombuffer(old, np.uint32))


def _atomic_data(access: _Access) -> tuple[list[bytes], list[bytes] | None]:
    """Each lane's data and, for compare and masked forms, its second data."""
    count = access.operation.count
    first = access.data(0, count)
    second = None
    if access.operation.kind in ("cmpxchg", "fcmpxchg", "mskor", "wrap"):
        if access.operation.space == "lds":
            second = access.data(1, count)
        else:
            second = access.data(0, 2 * count)[count:]
    return _per_lane(first), None if second is None else _per_lane(second)


def _per_lane(words: Array) -> list[bytes]:
    return [np.ascontiguousarray(words[:, lane]).tobytes() for lane in range(words.shape[1])]


def _combine(access: _Access, old: bytes, first: bytes, second: bytes | None) -> bytes:
    operation = access.operation
    if operation.operation is None:
        raise TypeError(f"{operation.name} has no operation")

    def typed(data: bytes) -> NumpyValue:
        return NumpyValue(
            operation.type, np.frombuffer(data, dtype_of(operation.type)), access.wave.width
        )

    result = operation.operation(
        typed(old), typed(first), None if second is None else typed(second)
    )
    return bytes(_data(result).tobytes())


def _append(access: _Access) -> None:
    """One change for the wave; every active lane gets what was there before."""
    wave = access.wave
    if not access.active:
        return
    at = (_number(wave.read("m0", 0)) & 0xFFFF) + access.instruction.offset
    old = access.space.load(0, at, 4)
    count = len(access.active).to_bytes(4, "little")
    access.space.store(0, at, _combine(access, old, count, None))
    for lane in access.active:
        access.put(access.instruction.destinations[0], lane, np.frombuffer(old, np.uint32))


_ACTIONS: dict[str, Callable[[_Access], None]] = {
    "load": _load,
    "store": _store,
    "atomic": _atomic,
    "append": _append,
}


def _data(value: Value) -> Array:
    if not isinstance(value, NumpyValue):
        raise TypeError("a value of another engine")
    return value.data


def _lanes(value: Value) -> Array:
    if not isinstance(value, NumpyValue):
        raise TypeError("a value of another engine")
    return value.spread()


def _number(value: Value) -> int:
    return int(_data(value)[0])
