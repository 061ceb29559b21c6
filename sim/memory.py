"""GPU page tables: what a simulated GPU may touch, and the accesses that are checked.

Simulated GPU addresses are addresses of this process, so translated code loads
and stores directly. Nothing is touched before the table of ranges says so: a
bad address is a PageFault, never a crash. Memory itself is made elsewhere
(`sim/space.py`); this file only knows which ranges are mapped, and how. Pages that
are `lent` are the program's own: before they are touched, they are looked for.

The table lies in native memory, so that native code can search it: at
`table_pointer` a u64 holds the address of
    u64 count, u64 version, count x {u64 start, u64 end, u64 flags}
sorted by start, `end` exclusive, neighbours of equal flags merged. A change
writes a new table and swaps the pointer; `version` grows with every change.
"""

import threading
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cffi import FFI

from hcq.errors import SimFault
from sim.lent import NOTE, Lent, Span

PAGE = 4096
ADDRESSES = 1 << 64
READ, WRITE, EXECUTE = 1, 2, 4
ACCESSES = {"read": READ, "write": WRITE, "execute": EXECUTE}

_ffi = FFI()
_ffi.cdef("void *memmove(void *to, const void *from, size_t size);")


class PageFault(SimFault):
    """An access that the page table does not allow.

    `kind` is "not-present", "read-only" or "no-execute"; `address` is the first bad byte;
    `note` why the page is not there, where that is known.
    """

    def __init__(self, address: int, access: str, kind: str, note: str = "") -> None:
        super().__init__(f"{access} of {address:#x}: page is {kind}{note and f'; {note}'}")
        self.address = address
        self.access = access
        self.kind = kind
        self.note = note


class GpuMemory:
    """The page table of one GPU, and accesses through it."""

    def __init__(self) -> None:
        self._libc: Any = _ffi.dlopen(None)
        # Starts, and start, end, flags of every range. Both are replaced together and never
        # changed in place: a reader in another thread sees all of a change or nothing.
        self._state: tuple[list[int], array[int]] = ([], array("Q"))
        self._change = threading.RLock()  # held while the table is replaced
        self._lent = Lent()
        self._version = 0
        self._users = 0
        self._retired: list[Any] = []
        self._cell = _ffi.new("uint64_t *")
        self._table: Any = None
        self.table_pointer = _address(self._cell)
        self._publish()

    def map(
        self, address: int, size: int, *, writable: bool = True, executable: bool = False,
        lent: bool = False,
    ) -> None:  # fmt: skip
        """Make whole pages accessible. SimFault when unaligned, empty or partly mapped already.

        lent: they are the program's own, which may take them away.
        """
        self._check_pages(address, size)
        with self._change:
            index = bisect_right(self._state[0], address)
            if self._overlaps(index, address, address + size):
                raise SimFault(f"{address:#x}+{size:#x} is mapped already, in whole or in part")
            flags = READ | WRITE * writable | EXECUTE * executable
            self._replace(index, index, [(address, address + size, flags)])
            if lent:
                self._lent.add(address, address + size)

    def unmap(self, address: int, size: int) -> None:
        """Take whole pages away. SimFault when any of them is not mapped."""
        self._check_pages(address, size)
        if not self._lent.covers(address, address + size):
            self.check(address, size, "read")
        self.discard(address, size)

    def discard(self, address: int, size: int) -> None:
        """Take away whatever of these pages is mapped."""
        with self._change:
            self._lent.remove(address, address + size)
            self._cut(address, address + size)

    def check(self, address: int, size: int, access: str) -> None:
        """PageFault unless every byte allows `access` ("read", "write" or "execute")."""
        need = ACCESSES[access]
        end = address + size
        starts, flat = self._state
        index = bisect_right(starts, address) - 1
        while True:
            if index < 0 or index >= len(starts):
                raise PageFault(address, access, "not-present", self.note_of(address))
            start, stop, flags = flat[3 * index : 3 * index + 3]
            if not start <= address < stop:
                raise PageFault(address, access, "not-present", self.note_of(address))
            if not flags & need:
                kind = "read-only" if access == "write" else "no-execute"
                raise PageFault(address, access, kind)
            if end <= stop:
                break
            address = stop
            index += 1
        if self._lent.spans:
            self._check_lent(end - size, end, access)

    def note_of(self, address: int) -> str:
        """Why a page that was mapped is not there any more; empty when nothing is known."""
        return NOTE if self._lent.covers(address, address + 1) else ""

    def is_mapped(self, address: int, size: int) -> bool:
        """Whether every byte is mapped for reading."""
        try:
            self.check(address, size, "read")
        except PageFault:
            return False
        return True

    def ranges(self) -> list[tuple[int, int, int]]:
        """(start, end, flags) of everything mapped, sorted."""
        return [self._range(i) for i in range(len(self._state[0]))]

    def ranges_within(self, start: int, end: int) -> list[tuple[int, int, int]]:
        """ranges() cut to a span."""
        starts = self._state[0]
        first = max(bisect_right(starts, start) - 1, 0)
        found = map(self._range, range(first, bisect_right(starts, end - 1)))
        return [(max(a, start), min(b, end), flags) for a, b, flags in found if b > start]

    def read(self, address: int, size: int) -> bytes:
        """Bytes through the page table."""
        self.check(address, size, "read")
        return bytes(_ffi.buffer(_ffi.cast("char *", address), size)) if size else b""

    def write(self, address: int, data: bytes) -> None:
        """Store bytes through the page table."""
        self.check(address, len(data), "write")
        if data:
            _ffi.memmove(_ffi.cast("char *", address), data, len(data))

    def read32(self, address: int) -> int:
        """One aligned 32-bit load."""
        return self._load(address, 4, "uint32_t *")

    def read64(self, address: int) -> int:
        """One aligned 64-bit load."""
        return self._load(address, 8, "uint64_t *")

    def write32(self, address: int, value: int) -> None:
        """One aligned 32-bit store."""
        self._store(address, 4, "uint32_t *", value)

    def write64(self, address: int, value: int) -> None:
        """One aligned 64-bit store."""
        self._store(address, 8, "uint64_t *", value)

    def move(self, destination: int, source: int, size: int) -> None:
        """Copy as memmove does, with the interpreter lock released. Both ranges are checked."""
        self.check(source, size, "read")
        self.check(destination, size, "write")
        if size:
            self._libc.memmove(
                _ffi.cast("void *", destination), _ffi.cast("void *", source), size
            )

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """While native code may be reading the table: replaced tables are kept until it is over.

        Native code does not ask for lent pages: those that are not there leave the table first.
        """
        if self._lent.spans:
            self._drop_lost(0, ADDRESSES)
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:
                self._retired.clear()

    def _check_lent(self, start: int, end: int, access: str) -> None:
        lost = self._drop_lost(start, end)
        if lost:
            raise PageFault(max(lost[0][0], start), access, "not-present", NOTE)

    def _drop_lost(self, start: int, end: int) -> list[Span]:
        """Take lent pages away that are not there any more; which ones."""
        lost = self._lent.lost(start, end)
        for first, last in lost:
            with self._change:
                self._cut(first, last)
        return lost

    def _cut(self, address: int, end: int) -> None:
        starts = self._state[0]
        first = max(bisect_right(starts, address) - 1, 0)
        last = max(bisect_right(starts, end - 1), first)
        parts: list[tuple[int, int, int]] = []
        for start, stop, flags in map(self._range, range(first, last)):
            parts.append((start, min(stop, address), flags))
            parts.append((max(start, end), stop, flags))
        if last > first:
            self._replace(first, last, parts)

    def _load(self, address: int, size: int, kind: str) -> int:
        _check_aligned(address, size)
        self.check(address, size, "read")
        return int(_ffi.cast(kind, address)[0])

    def _store(self, address: int, size: int, kind: str, value: int) -> None:
        _check_aligned(address, size)
        self.check(address, size, "write")
        _ffi.cast(kind, address)[0] = value

    def _range(self, index: int) -> tuple[int, int, int]:
        start, end, flags = self._state[1][3 * index : 3 * index + 3]
        return start, end, flags

    def _check_pages(self, address: int, size: int) -> None:
        if size <= 0 or address % PAGE or size % PAGE:
            raise SimFault(f"{address:#x}+{size:#x} is not a positive number of whole pages")

    def _overlaps(self, index: int, start: int, end: int) -> bool:
        if index and self._range(index - 1)[1] > start:
            return True
        starts = self._state[0]
        return index < len(starts) and starts[index] < end

    def _replace(self, first: int, last: int, parts: list[tuple[int, int, int]]) -> None:
        """Put parts in the place of ranges first..last-1, merged with their neighbours."""
        starts, flat = self._state
        low, high = max(first - 1, 0), min(last + 1, len(starts))
        around = [self._range(i) for i in range(low, first)]
        around += [part for part in parts if part[0] < part[1]]
        around += [self._range(i) for i in range(last, high)]
        merged: list[tuple[int, int, int]] = []
        for start, end, flags in around:
            if merged and merged[-1][1] == start and merged[-1][2] == flags:
                merged[-1] = (merged[-1][0], end, flags)
            else:
                merged.append((start, end, flags))
        words = array("Q", [word for part in merged for word in part])
        self._state = (
            starts[:low] + [part[0] for part in merged] + starts[high:],
            flat[: 3 * low] + words + flat[3 * high :],
        )
        self._publish()

    def _publish(self) -> None:
        self._version += 1
        starts, flat = self._state
        table = _ffi.new("uint64_t[]", len(flat) + 2)
        table[0], table[1] = len(starts), self._version
        if flat:
            _ffi.memmove(table + 2, flat, 8 * len(flat))
        self._cell[0] = _address(table)
        if self._users:
            self._retired.append(self._table)
        self._table = table


def _address(data: Any) -> int:
    return int(_ffi.cast("uintptr_t", data))


def _check_aligned(address: int, size: int) -> None:
    if address % size:
        raise SimFault(f"{size}-byte access at {address:#x} is not aligned")
