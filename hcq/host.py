"""The machine, as the driver sees it: device files, mappings and a clock.

`LinuxHost` is a real one. `use()` puts another in its place before a device
opens; a simulated machine does. There is no other way out of the process in hcq.
EINTR is retried and EAGAIN waited out here, once.
"""

import errno
import mmap as _mmap
import os
import select
import time
from contextlib import suppress
from typing import Any, Protocol
from weakref import WeakSet

from cffi import FFI

from hcq import interrupt
from hcq.errors import BufferUseError, FieldError, IoctlError
from hcq.ioctl_defs import Ioctl

_ffi = FFI()
_ffi.cdef("""
    int ioctl(int fd, unsigned long request, ...);
    void *mmap(void *address, size_t length, int prot, int flags, int fd, int64_t offset);
    int munmap(void *address, size_t length);
""")
_MAX64 = _FAILED = (1 << 64) - 1
_GONE = -16  # as the last offset of a 64-bit word, of a window whose memory went
_NORESERVE = 0x4000  # Source: Linux include/uapi/asm-generic/mman-common.h
_FIXED = 0x10
_FIXED_NOREPLACE = 0x100000
_LOW_START, _LOW_STEP = 0x10_0000_0000, 1 << 21  # where low address space is looked for
PAGE = 4096
EAGAIN_SECONDS = 5.0


class Region(Protocol):
    """Memory or registers mapped into this process; one aligned access per call."""

    address: int  # in this process
    size: int

    def read8(self, offset: int) -> int: ...
    def read16(self, offset: int) -> int: ...
    def read32(self, offset: int) -> int: ...
    def read64(self, offset: int) -> int: ...
    def write8(self, offset: int, value: int) -> None: ...
    def write16(self, offset: int, value: int) -> None: ...
    def write32(self, offset: int, value: int) -> None: ...
    def write64(self, offset: int, value: int) -> None: ...
    def read(self, offset: int, size: int) -> bytes: ...
    def write(self, offset: int, data: bytes) -> None: ...
    def view(self) -> memoryview: ...
    def window(self, offset: int, size: int) -> "Region": ...
    def invalidate(self) -> None: ...


class Host(Protocol):
    """A machine with device files and a clock."""

    def open(self, path: str) -> int:
        """Open a device file for reading and writing; OSError as the kernel gives it."""

    def close(self, fd: int) -> None: ...

    def ioctl(self, fd: int, call: Ioctl, args: Any) -> None:
        """Carry out one call, results in args; IoctlError when refused."""

    def reserve(self, size: int, alignment: int = PAGE, below: int = 1 << 47) -> int:
        """Address space nobody else gets, inaccessible until mapped over."""

    def mmap(self, fd: int, size: int, offset: int, address: int | None = None) -> Region:
        """Map a device file, at exactly `address` when given. fd -1: anonymous memory."""

    def munmap(self, region: Region) -> None: ...

    def release(self, address: int, size: int) -> None:
        """Give reserved address space back."""

    def read(self, path: str) -> bytes: ...
    def list(self, path: str) -> list[str]: ...
    def exists(self, path: str) -> bool: ...

    def group(self, path: str) -> str:
        """The group a file belongs to: its name, its number where it has none."""

    def poll(self, fd: int, seconds: float) -> bool: ...

    def now(self) -> float:
        """Seconds; every deadline is measured with this."""

    def relax(self) -> None:
        """What to do while waiting: give the core away, or advance a simulated clock."""


class HostFront:
    """A host in front of another, `inner`: what it does not do itself it passes on."""

    def __init__(self, inner: Host) -> None:
        self.inner = inner

    def open(self, path: str) -> int:
        return self.inner.open(path)

    def close(self, fd: int) -> None:
        self.inner.close(fd)

    def ioctl(self, fd: int, call: Ioctl, args: Any) -> None:
        self.inner.ioctl(fd, call, args)

    def reserve(self, size: int, alignment: int = PAGE, below: int = 1 << 47) -> int:
        return self.inner.reserve(size, alignment, below)

    def mmap(self, fd: int, size: int, offset: int, address: int | None = None) -> Region:
        return self.inner.mmap(fd, size, offset, address)

    def munmap(self, region: Region) -> None:
        self.inner.munmap(region)

    def release(self, address: int, size: int) -> None:
        self.inner.release(address, size)

    def read(self, path: str) -> bytes:
        return self.inner.read(path)

    def list(self, path: str) -> list[str]:
        return self.inner.list(path)

    def exists(self, path: str) -> bool:
        return self.inner.exists(path)

    def group(self, path: str) -> str:
        return self.inner.group(path)

    def poll(self, fd: int, seconds: float) -> bool:
        return self.inner.poll(fd, seconds)

    def now(self) -> float:
        return self.inner.now()

    def relax(self) -> None:
        self.inner.relax()


class MappedRegion:
    """A span of this process's memory, with accesses of 8 to 64 bits checked against its size."""

    def __init__(self, address: int, size: int) -> None:
        self.address = address
        self.size = size
        # One memoryview per width: an item store through a cast view is a single aligned store.
        raw = memoryview(_ffi.buffer(_ffi.cast("char *", address), size)).cast("B")
        self._bytes = raw
        self._words64 = raw[: size // 8 * 8].cast("Q")
        self._last64 = size - 8
        self._parts: WeakSet[MappedRegion] = WeakSet()  # windows of this one
        self._views: dict[int, memoryview[int]] = {
            1: raw,
            2: raw[: size // 2 * 2].cast("H"),
            4: raw[: size // 4 * 4].cast("I"),
            8: self._words64,
        }

    def _at(self, offset: int, size: int) -> int:
        if offset < 0 or offset + size > self.size:
            raise BufferUseError(
                "access outside a mapped window",
                facts={"offset": offset, "size": size, "window": self.size},
            )
        if offset % size:
            raise BufferUseError(
                "access is not aligned", facts={"offset": offset, "alignment": size}
            )
        return offset // size

    def _load(self, offset: int, size: int) -> int:
        return int(self._views[size][self._at(offset, size)])

    def _store(self, offset: int, size: int, value: int) -> None:
        if not 0 <= value < 1 << 8 * size:
            raise FieldError(f"{value:#x} does not fit in {8 * size} bits")
        self._views[size][self._at(offset, size)] = value

    def read8(self, offset: int) -> int:
        return self._load(offset, 1)

    def read16(self, offset: int) -> int:
        return self._load(offset, 2)

    def read32(self, offset: int) -> int:
        return self._load(offset, 4)

    def read64(self, offset: int) -> int:
        # As _load; polls and submissions come here.
        if offset % 8 or not 0 <= offset <= self._last64:
            self._at(offset, 8)
        return self._words64[offset >> 3]

    def write8(self, offset: int, value: int) -> None:
        self._store(offset, 1, value)

    def write16(self, offset: int, value: int) -> None:
        self._store(offset, 2, value)

    def write32(self, offset: int, value: int) -> None:
        self._store(offset, 4, value)

    def write64(self, offset: int, value: int) -> None:
        if offset % 8 or not 0 <= offset <= self._last64 or not 0 <= value <= _MAX64:
            self._store(offset, 8, value)
        self._words64[offset >> 3] = value

    def read(self, offset: int, size: int) -> bytes:
        return bytes(self._span(offset, size))

    def write(self, offset: int, data: bytes) -> None:
        self._span(offset, len(data))[:] = data

    def view(self) -> memoryview:
        """The whole window as writable bytes, without copying; gone with its memory."""
        if self._last64 == _GONE:
            raise BufferUseError("the memory behind this window was given back")
        return self._bytes

    def window(self, offset: int, size: int) -> "MappedRegion":
        """A part of this window."""
        self._span(offset, size)
        part = MappedRegion(self.address + offset, size)
        self._parts.add(part)
        return part

    def invalidate(self) -> None:
        """Its memory goes: further access through it and its windows is BufferUseError."""
        self.size, self._last64 = 0, _GONE
        for part in self._parts:
            part.invalidate()

    def _span(self, offset: int, size: int) -> memoryview:
        if offset < 0 or size < 0 or offset + size > self.size:
            raise BufferUseError(
                "access outside a mapped window",
                facts={"offset": offset, "size": size, "window": self.size},
            )
        return self._bytes[offset : offset + size]


def _system_error(name: str, **facts: object) -> OSError:
    detail = " ".join(f"{key}={value}" for key, value in facts.items())
    return OSError(_ffi.errno, f"{name}: {os.strerror(_ffi.errno)}; {detail}")


class LinuxHost:
    """This machine."""

    def __init__(self) -> None:
        self._libc: Any = _ffi.dlopen(None)
        self._low = _LOW_START

    def open(self, path: str) -> int:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def close(self, fd: int) -> None:
        os.close(fd)

    def ioctl(self, fd: int, call: Ioctl, args: Any) -> None:
        request = _ffi.cast("unsigned long", call.number)
        limit = self.now() + EAGAIN_SECONDS
        while self._libc.ioctl(fd, request, args) == -1:
            number = _ffi.errno
            if number == errno.EINTR or (number == errno.EAGAIN and self.now() < limit):
                interrupt.point()
                self.relax()
                continue
            raise refused(call, args, number)

    def reserve(self, size: int, alignment: int = PAGE, below: int = 1 << 47) -> int:
        """Address space nobody else gets, inaccessible until mapped over."""
        if below < 1 << 47:
            return self._reserve_low(size, alignment, below)
        flags = _mmap.MAP_PRIVATE | _mmap.MAP_ANONYMOUS | _NORESERVE
        start = self._mmap(0, size + alignment - PAGE, 0, flags, -1, 0)
        address = -(-start // alignment) * alignment
        if address > start:
            self.release(start, address - start)
        tail = start + alignment - PAGE - address
        if tail:
            self.release(address + size, tail)
        if address + size > below:
            self.release(address, size)
            raise OSError(errno.ENOMEM, f"no address space below {below:#x}")
        return address

    def _reserve_low(self, size: int, alignment: int, below: int) -> int:
        # The kernel itself places everything high: low addresses are asked for one by one.
        flags = _mmap.MAP_PRIVATE | _mmap.MAP_ANONYMOUS | _NORESERVE | _FIXED_NOREPLACE
        for start in (self._low, _LOW_START):
            address = -(-start // alignment) * alignment
            while address + size <= below:
                try:
                    found = self._mmap(address, size, 0, flags, -1, 0)
                except OSError as error:
                    if error.errno != errno.EEXIST:
                        raise
                else:
                    if found == address:
                        self._low = address + size
                        return address
                    self.release(found, size)  # a kernel that does not know the flag
                address += max(alignment, _LOW_STEP)
        raise OSError(errno.ENOMEM, f"no address space below {below:#x}")

    def mmap(self, fd: int, size: int, offset: int, address: int | None = None) -> Region:
        kind = _mmap.MAP_SHARED if fd >= 0 else _mmap.MAP_PRIVATE | _mmap.MAP_ANONYMOUS
        fixed = _FIXED if address is not None else 0
        protection = _mmap.PROT_READ | _mmap.PROT_WRITE
        # A kfd offset has bit 63 set; mmap takes it as a signed number.
        signed = offset - (1 << 64) if offset >> 63 else offset
        return MappedRegion(
            self._mmap(address or 0, size, protection, kind | fixed, fd, signed), size
        )

    def _mmap(self, *args: int) -> int:
        address, size, protection, flags, fd, offset = args
        where = _ffi.cast("void *", address)
        result = self._libc.mmap(where, size, protection, flags, fd, offset)
        found = int(_ffi.cast("uintptr_t", result))
        if found == _FAILED:
            raise _system_error("mmap", fd=fd, size=size, offset=hex(offset), address=hex(address))
        return found

    def munmap(self, region: Region) -> None:
        address, size = region.address, region.size
        region.invalidate()
        self.release(address, size)

    def release(self, address: int, size: int) -> None:
        if self._libc.munmap(_ffi.cast("void *", address), size) == -1:
            raise _system_error("munmap", address=hex(address), size=size)

    def read(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def list(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def group(self, path: str) -> str:
        import grp

        number = os.stat(path).st_gid
        try:
            return grp.getgrgid(number).gr_name
        except KeyError:
            return str(number)

    def poll(self, fd: int, seconds: float) -> bool:
        with suppress(InterruptedError):
            return bool(select.select([fd], [], [], seconds)[0])
        return False

    def now(self) -> float:
        return time.monotonic()

    def relax(self) -> None:
        os.sched_yield()


def refused(call: Ioctl, args: Any, number: int) -> IoctlError:
    """The error for a call that the kernel answered with errno `number`."""
    facts = {"request": hex(call.number), "errno": errno.errorcode.get(number, number)}
    reason = f"{call.name}: {os.strerror(number)}; {call.describe(args)}"
    return IoctlError(reason, number=number, facts=facts)


_current: list[Host] = []


def current() -> Host:
    """The machine in use; this one unless use() said otherwise."""
    if not _current:
        _current.append(LinuxHost())
    return _current[0]


def use(host: Host | None) -> Host | None:
    """Put another machine in place (None: back to this one); the one before is returned."""
    before = _current[0] if _current else None
    _current[:] = [host] if host is not None else []
    return before
