"""The address space of the process: what the driver reserved, and simulated memory in it.

A simulated buffer lies at its GPU address in this process. It is there from
allocation to release, whatever the driver maps or unmaps in between, since the
GPU may use it; so this file remembers who still wants a span: the driver's
reservation, its view of a buffer, or the buffer itself.
"""

import mmap as _mmap
import os
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from errno import EEXIST, EINVAL, ENOMEM
from random import Random
from typing import Any

from cffi import FFI

from hcq.bits import align
from sim.memory import PAGE, GpuMemory

_ffi = FFI()
_ffi.cdef("""
    void *mmap(void *address, size_t length, int prot, int flags, int fd, int64_t offset);
    int munmap(void *address, size_t length);
    void *mremap(void *old, size_t old_size, size_t new_size, int flags, void *at);
    void *memcpy(void *to, const void *from, size_t size);
""")
# Source: Linux include/uapi/asm-generic/mman-common.h and include/uapi/linux/mman.h.
_FIXED = 0x10
_NORESERVE = 0x4000
_FIXED_NOREPLACE = 0x100000
_REMAP_MAYMOVE, _REMAP_FIXED = 1, 2
_FAILED = (1 << 64) - 1
_READ_WRITE = _mmap.PROT_READ | _mmap.PROT_WRITE
_SHARED = _mmap.MAP_SHARED | _mmap.MAP_ANONYMOUS

# Fresh memory holds noise: all of a buffer up to this size, else this much of its start and the
# last page. More would make every page of a big save area resident.
NOISE_SIZE = 1 << 20


# Reservations have a part of the address space to themselves: compiled code, which the
# system places elsewhere, has to stay within 2 GiB of its constants.
ARENA_START, ARENA_END = 0x1000_0000_0000, 0x4000_0000_0000
ARENA_SKIP = 1 << 36
# What has to lie low, where some engines reach, has a part of its own.
LOW_START, LOW_END = 0x10_0000_0000, 0x100_0000_0000
LOW_SKIP = 1 << 32
ARENA_TRIES = 2000


class _Arena:
    """A part of the address space; `next` is where to look first."""

    def __init__(self, start: int, end: int, skip: int) -> None:
        self.start, self.end, self.skip = start, end, skip
        self.next = start


class AddressSpace:
    """Reservations and simulated memory of one process."""

    def __init__(self, seed: int = 0) -> None:
        self._libc: Any = _ffi.dlopen(None)
        self._arenas = {
            False: _Arena(ARENA_START, ARENA_END, ARENA_SKIP),
            True: _Arena(LOW_START, LOW_END, LOW_SKIP),
        }
        self._reserved = GpuMemory()
        self._guards: set[int] = set()
        self._placed: list[tuple[int, int]] = []  # (address, size), sorted
        self._noise = _ffi.from_buffer(Random(seed).randbytes(NOISE_SIZE))

    def reserve(self, size: int, alignment: int, below: int) -> int:
        """Address space for the driver, inaccessible until memory is placed there.

        A page that nobody gets follows, so that running off the end faults.
        """
        address = self._find(size + PAGE, alignment, self._arenas[below <= ARENA_START])
        if address + size > below:
            self.drop(address, size + PAGE)
            raise OSError(ENOMEM, f"no address space below {below:#x}")
        self._reserved.map(address, size)
        self._guards.add(address + size)
        return address

    def close(self) -> None:
        """Unmap what is reserved still."""
        for start, end, _ in self._reserved.ranges():
            self.release(start, end - start)

    def release(self, address: int, size: int) -> None:
        """The driver gives up a span; simulated memory inside stays until it is vacated."""
        self._reserved.discard(address, size)
        if address + size in self._guards:
            self._guards.remove(address + size)
            self.drop(address + size, PAGE)
        for start, end in self._gaps(address, address + size):
            self._libc.munmap(_ffi.cast("void *", start), end - start)

    def place(self, address: int, size: int, *, noise: bool = True) -> None:
        """Memory at an address that is reserved or free; OSError EINVAL otherwise."""
        self._map_at(address, size)
        insort(self._placed, (address, size))
        if noise:
            self._fill(address, size)

    def place_alias(self, address: int, size: int, of: int) -> None:
        """The same pages as those at `of`, once more at an address that is reserved or free."""
        self._map_at(address, size)
        insort(self._placed, (address, size))
        self._remap(of, size, address)

    def vacate(self, address: int, size: int) -> None:
        """Take placed memory away; what is reserved stays so, inaccessible."""
        self._placed.remove((address, size))
        # Mapped over, not unmapped first: another thread must not get the span in between.
        flags = _mmap.MAP_PRIVATE | _mmap.MAP_ANONYMOUS | _NORESERVE | _FIXED
        for start, end, _ in self._reserved.ranges_within(address, address + size):
            self._mmap(start, end - start, 0, flags)
            if start > address:
                self.drop(address, start - address)
            size -= end - address
            address = end
        if size:
            self.drop(address, size)

    def anonymous(self, size: int, *, noise: bool = False) -> int:
        """Shared pages of the simulator's own, anywhere; zero unless noise is wanted."""
        address = self._mmap(0, size, _READ_WRITE, _SHARED)
        if noise:
            self._fill(address, size)
        return address

    def drop(self, address: int, size: int) -> None:
        """Unmap pages made by anonymous() or alias()."""
        self._libc.munmap(_ffi.cast("void *", address), size)

    def alias(self, of: int, size: int, address: int | None) -> int:
        """The same pages again, at `address` (the driver's own) or anywhere."""
        where = address if address is not None else self._mmap(0, size, 0, _SHARED)
        self._remap(of, size, where)
        return where

    def _find(self, size: int, alignment: int, arena: "_Arena") -> int:
        """Inaccessible pages in an arena."""
        flags = _mmap.MAP_PRIVATE | _mmap.MAP_ANONYMOUS | _NORESERVE | _FIXED_NOREPLACE
        for _ in range(ARENA_TRIES):
            address = align(arena.next, alignment)
            if address + size > arena.end:
                arena.next = arena.start
                continue
            try:
                self._mmap(address, size, 0, flags)
            except OSError as error:
                if error.errno != EEXIST:
                    raise
                arena.next = align(address + 1, arena.skip)
                continue
            arena.next = address + size
            return address
        raise OSError(ENOMEM, f"no address space for {size:#x} bytes")

    def _remap(self, of: int, size: int, address: int) -> None:
        # An old size of 0 asks Linux for a second mapping of shared pages.
        flags = _REMAP_MAYMOVE | _REMAP_FIXED
        old, new = _ffi.cast("void *", of), _ffi.cast("void *", address)
        self._check(self._libc.mremap(old, 0, size, flags, new), "mremap")

    def _map_at(self, address: int, size: int) -> None:
        fixed = _FIXED if self._reserved.is_mapped(address, size) else _FIXED_NOREPLACE
        try:
            self._mmap(address, size, _READ_WRITE, _SHARED | fixed)
        except OSError as error:
            raise OSError(EINVAL, f"{address:#x}+{size:#x} is in use in this process") from error

    def _mmap(self, address: int, size: int, protection: int, flags: int) -> int:
        where = _ffi.cast("void *", address)
        return self._check(self._libc.mmap(where, size, protection, flags, -1, 0), "mmap")

    @staticmethod
    def _check(result: Any, name: str) -> int:
        found = int(_ffi.cast("uintptr_t", result))
        if found == _FAILED:
            raise OSError(_ffi.errno, f"{name}: {os.strerror(_ffi.errno)}")
        return found

    def _fill(self, address: int, size: int) -> None:
        start = min(size, NOISE_SIZE)
        self._libc.memcpy(_ffi.cast("void *", address), self._noise, start)
        if size > start:
            self._libc.memcpy(_ffi.cast("void *", address + size - PAGE), self._noise, PAGE)

    def _gaps(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The parts of a span that hold no placed memory."""
        first = max(bisect_right(self._placed, (start, 0)) - 1, 0)
        last = bisect_left(self._placed, (end, 0))
        for address, size in self._placed[first:last]:
            if address + size <= start:
                continue
            if start < address:
                yield start, address
            start = address + size
        if start < end:
            yield start, end
