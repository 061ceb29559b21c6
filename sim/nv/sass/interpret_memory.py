"""Memory instructions of the interpreter: lane after lane, every byte checked."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sim.isa.numpy_value import NumpyValue
from sim.isa.value import BOOL, U32, U64, Value, where
from sim.nv.sass.access import Access, fixed_offset, is_indexed
from sim.nv.sass.instruction import ZERO_REGISTER, Operand
from sim.nv.sass.interpret import BadAccess, SassValue, Warp, local_place
from sim.nv.sass.launch import LOCAL_TOP
from sim.nv.sass.memory_ops import AtomicOp, MemoryOp, atomic_of, describe, whole_address
from sim.nv.sass.standing import LANES


def access_memory(x: Access, warp: Warp) -> None:
    """One instruction of memory_ops."""
    operation = describe(x.instruction)
    if x.instruction.name == "QSPC":
        _query(x, warp)
    elif operation.space == "constant":
        _constant(x, operation, warp)
    else:
        {
            "load": _load, "store": _store, "atomic": _atomic, "matrix": _matrix, "copy": _copy,
        }[operation.action](x, operation, warp)  # fmt: skip


# --- bytes of the spaces


class Space:
    """Bytes of one address space for the lanes of a warp."""

    def __init__(self, warp: Warp, name: str) -> None:
        self.warp = warp
        self.name = name

    def read(self, lane: int, address: int, size: int, access: str = "read") -> bytes:
        """Bytes of a lane; a fault says it was `access`."""
        name, at = self._resolve(address)
        self._check(name, at, size, access)
        block = self.warp.block
        if name == "shared":
            return bytes(block.shared[at : at + size])
        if name == "local":
            parts = [block.memory.read(local_place(self.warp, lane, at + n), 1)
                     for n in range(size)]
            return b"".join(parts)
        block.memory.check(at, size, access)
        return block.memory.read(at, size)

    def write(self, lane: int, address: int, data: bytes) -> None:
        """Bytes of a lane."""
        name, at = self._resolve(address)
        self._check(name, at, len(data), "write")
        block = self.warp.block
        if name == "shared":
            block.shared[at : at + len(data)] = data
        elif name == "local":
            for n, byte in enumerate(data):
                block.memory.write(local_place(self.warp, lane, at + n), bytes([byte]))
        else:
            block.memory.write(at, data)

    def _resolve(self, address: int) -> tuple[str, int]:
        if self.name == "shared":
            return self.name, address & 0xFFFF_FFFF  # the sum of base and offset has 32 bits
        if self.name != "generic":
            return self.name, address
        shape = self.warp.block.shape
        if address >> 32 == shape.shared_window >> 32:
            return "shared", address & 0xFFFF_FFFF
        if address >> 32 == shape.local_window >> 32:
            return "local", address & 0xFFFF_FFFF
        return "global", address

    def check(self, addresses: list[int], size: int, access: str) -> None:
        """Of a warp's accesses that one is refused which native code refuses.

        The first beyond the end of shared or local memory, else the first misaligned one.
        """
        places = [self._resolve(address) for address in addresses]
        for name, at in places:
            self._check_range(name, at, size, access)
        for _, at in places:
            self._check_alignment(at, size, access)

    def _check(self, name: str, at: int, size: int, access: str) -> None:
        self._check_range(name, at, size, access)
        self._check_alignment(at, size, access)

    def _check_range(self, name: str, at: int, size: int, access: str) -> None:
        if name == "shared" and not 0 <= at <= len(self.warp.block.shared) - size:
            raise BadAccess("shared", at, access, f"{access} of shared memory byte {at:#x}")
        start = LOCAL_TOP - self.warp.block.shape.local_bytes
        if name == "local" and not start <= at <= LOCAL_TOP - size:
            raise BadAccess("local", at, access, f"{access} of local byte {at:#x}")

    def _check_alignment(self, at: int, size: int, access: str) -> None:
        if at % size:
            raise BadAccess("misaligned", at, access, f"{access} of misaligned {at:#x}")


def _addresses(x: Access, operand: Operand, warp: Warp) -> list[int]:
    """One address per lane."""
    assert operand.base is not None
    low = x.word(operand.base)
    wide: Value = (low * operand.scale).to(U64)
    if operand.wide and operand.base.index != ZERO_REGISTER:
        wide = wide | (x.word(operand.base, 1).to(U64) << 32)
    if operand.ubase is not None:
        wide = wide + x.word(operand.ubase).to(U64)
        if operand.ubase.count == 2:
            wide = wide + (x.word(operand.ubase, 1).to(U64) << 32)
    wide = wide + operand.value
    assert isinstance(wide, NumpyValue)
    return [int(address) for address in wide.spread()]


def _lanes(x: Access, warp: Warp) -> Iterator[int]:
    allowed = warp.allowed(x.guard)
    return (lane for lane in range(LANES) if allowed[lane])


def _words(data: bytes, operation: MemoryOp) -> list[int]:
    if operation.bits >= 32:
        return [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]
    number = int.from_bytes(data, "little", signed=operation.signed)
    return [number & 0xFFFF_FFFF]


def _write_lanes(x: Access, warp: Warp, results: dict[int, list[int]], target: Operand) -> None:
    for lane, words in results.items():
        for part, word in enumerate(words):
            if target.index != ZERO_REGISTER:
                warp.registers[target.index + part, lane] = word


def _kept(x: Access, warp: Warp) -> None:
    for at in range(len(x.flag_results)):
        x.write_flag(at, x.number(BOOL, 1))


def _load(x: Access, operation: MemoryOp, warp: Warp) -> None:
    space, places = Space(warp, operation.space), _addresses(x, x.data[0], warp)
    size = operation.bits // 8
    space.check([places[lane] for lane in _lanes(x, warp)], size, "read")
    results = {
        lane: _words(space.read(lane, places[lane], size), operation) for lane in _lanes(x, warp)
    }
    _write_lanes(x, warp, results, x.results[0])
    _kept(x, warp)


def _data(x: Access, operand: Operand, count: int) -> list[list[int]]:
    """Words of an operand: [part][lane]."""
    rows = []
    for part in range(count):
        value = x.word(operand, part)
        assert isinstance(value, NumpyValue)
        rows.append([int(word) for word in value.spread()])
    return rows


def _store(x: Access, operation: MemoryOp, warp: Warp) -> None:
    space, places = Space(warp, operation.space), _addresses(x, x.data[0], warp)
    rows = _data(x, x.data[1], operation.count)
    size = operation.bits // 8
    space.check([places[lane] for lane in _lanes(x, warp)], size, "write")
    for lane in _lanes(x, warp):
        raw = b"".join(row[lane].to_bytes(4, "little") for row in rows)
        space.write(lane, places[lane], raw[:size])


def _constant(x: Access, operation: MemoryOp, warp: Warp) -> None:
    source, target = x.data[0], x.results[0]
    bank = warp.block.shape.constants[source.bank]
    if bank is None:
        raise BadAccess("memory", 0, "read", f"constant bank {source.bank} is not bound")
    offsets = [0] * LANES
    for register in (source.base, source.ubase):
        if register is not None:
            value = x.word(register)
            assert isinstance(value, NumpyValue)
            spread = value.spread()
            offsets = [offset + int(spread[lane]) for lane, offset in enumerate(offsets)]
    results = {}
    start = bank[0] + (source.value if is_indexed(source) else fixed_offset(source))
    for lane in _lanes(x, warp) if target.kind == "reg" else _first(x, warp):
        address = start + offsets[lane]
        results[lane] = _words(warp.block.memory.read(address, operation.bits // 8), operation)
    if target.kind == "reg":
        _write_lanes(x, warp, results, target)
        return
    for words in results.values():
        for part, word in enumerate(words):
            x.write_word(target, part, x.number(U32, word))


def _first(x: Access, warp: Warp) -> list[int]:
    return [int(np.argmax(warp.active))] if warp.somewhere(x.guard) else []


def _atomic(x: Access, operation: MemoryOp, warp: Warp) -> None:
    atomic = atomic_of(x.instruction)
    words = atomic.words
    space, places = Space(warp, operation.space), _addresses(x, x.data[0], warp)
    lanes = list(_lanes(x, warp))
    space.check([places[lane] for lane in lanes], atomic.size, "write")
    first = _data(x, x.data[1], words) if len(x.data) > 1 else [[1] * LANES]
    second = _data(x, x.data[2], words) if atomic.second else first
    results: dict[int, list[int]] = {}
    swapped = np.zeros(LANES, np.bool_)
    for lane in lanes:
        before = int.from_bytes(space.read(lane, places[lane], atomic.size, "write"), "little")
        data, other = (
            sum(row[lane] << 32 * part for part, row in enumerate(rows))
            for rows in (first, second)
        )
        after = _updated(atomic, before, data, other)
        space.write(lane, places[lane], after.to_bytes(atomic.size, "little"))
        swapped[lane] = before == data
        results[lane] = [before >> 32 * part & 0xFFFF_FFFF for part in range(words)]
        if atomic.cast:
            results[lane] = [int(swapped[lane]), 0][:words]
    if x.results:
        _write_lanes(x, warp, results, x.results[0])
    if atomic.cast and not x.results:
        x.write_flag(0, SassValue(BOOL, swapped, LANES))
    else:
        _kept(x, warp)


def _updated(atomic: AtomicOp, before: int, data: int, other: int) -> int:
    """What an atomic leaves, element after element."""
    mask, update = (1 << atomic.bits) - 1, _operated if atomic.operation else _direct
    if atomic.kind == "swap":
        return other if before == data else before
    return sum(
        update(atomic, before >> at & mask, data >> at & mask) << at
        for at in range(0, atomic.bits * atomic.parts, atomic.bits)
    )


def _operated(atomic: AtomicOp, before: int, data: int) -> int:
    assert atomic.operation is not None
    raw = atomic.type.unsigned
    memory, value = (SassValue.uniform(raw, v, LANES).bits(atomic.type) for v in (before, data))
    made = atomic.operation(memory, value, None).bits(raw)
    assert isinstance(made, NumpyValue)
    return int(made.element())


def _direct(atomic: AtomicOp, before: int, data: int) -> int:
    mask, top = (1 << atomic.bits) - 1, 1 << (atomic.bits - 1)
    signed = [(v ^ top) - top for v in (before, data)]
    results = {
        "add": before + data, "and": before & data, "or": before | data, "xor": before ^ data,
        "xchg": data, "umin": min(before, data), "umax": max(before, data),
        "min": min(signed), "max": max(signed),
    }  # fmt: skip
    return results[atomic.kind] & mask


def _matrix(x: Access, _: MemoryOp, warp: Warp) -> None:
    loads = x.instruction.name == "LDSM"
    count = next((int(m) for m in x.instruction.modifiers if m in ("2", "4")), 1)
    space, rows = Space(warp, "shared"), _addresses(x, x.data[0], warp)
    data = None if loads else _data(x, x.data[1], count)
    transposed = x.has("MT88")
    results: dict[int, list[int]] = {lane: [] for lane in _lanes(x, warp)}
    for number in range(count):
        for lane in results:
            if transposed:
                pieces = [(8 * number + 2 * (lane % 4) + n, lane // 4 * 2, 2) for n in (0, 1)]
            else:
                pieces = [(8 * number + lane // 4, lane % 4 * 4, 4)]
            places = [(rows[row] + offset, size) for row, offset, size in pieces]
            if data is None:
                raw = b"".join(space.read(lane, at, size) for at, size in places)
                results[lane].append(int.from_bytes(raw, "little"))
                continue
            raw = data[number][lane].to_bytes(4, "little")
            for n, (at, size) in enumerate(places):
                space.write(lane, at, raw[n * size : n * size + size])
    if loads:
        _write_lanes(x, warp, results, x.results[0])


def _copy(x: Access, operation: MemoryOp, warp: Warp) -> None:
    to, source = _addresses(x, x.data[0], warp), _addresses(x, x.data[1], warp)
    flag = warp.bits(x.flag(0)) if x.flags else np.ones(LANES, np.bool_)
    size = operation.bits // 8
    for lane in _lanes(x, warp):
        data = bytes(size)  # where the predicate does not hold, zeros are copied
        if flag[lane]:
            # With ZFILL the low bits of the address say how many bytes at the end are zeros.
            rest = source[lane] % size if x.has("ZFILL") else 0
            data = Space(warp, "global").read(lane, source[lane] - rest, size)
            data = data[: size - rest] + bytes(rest)
        Space(warp, "shared").write(lane, to[lane], data)


def _query(x: Access, warp: Warp) -> None:
    shape = warp.block.shape
    high = (whole_address(x, x.data[0]) >> 32).to(U32)
    shared = high == shape.shared_window >> 32
    local = high == shape.local_window >> 32
    spaces = {"S": shared, "L": local, "G": ~(shared | local)}
    name = x.instruction.modifiers[-1]
    if name not in spaces:
        raise x.refuse("of that space")
    found = spaces[name]
    x.write_flag(0, found)
    x.write(where(found, x.number(U32, 1), 0))
