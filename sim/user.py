"""Reading and writing the caller's memory as a kernel does: a bad pointer is EFAULT."""

import os
from errno import EFAULT
from typing import Any

from cffi import FFI

_ffi = FFI()
_ffi.cdef("""
    struct iovec { void *base; size_t size; };
    ssize_t process_vm_readv(int pid, const struct iovec *local, unsigned long local_count,
                             const struct iovec *remote, unsigned long remote_count,
                             unsigned long flags);
    ssize_t process_vm_writev(int pid, const struct iovec *local, unsigned long local_count,
                              const struct iovec *remote, unsigned long remote_count,
                              unsigned long flags);
""")
_MAPS = "/proc/self/maps"
_ADDRESSES = 1 << 64
_libc: Any = _ffi.dlopen(None)


class UserFault(OSError):
    """The caller's pointer leads nowhere."""

    def __init__(self, address: int, size: int) -> None:
        super().__init__(EFAULT, f"{size} bytes at {address:#x} are not the caller's memory")


def read(address: int, size: int) -> bytes:
    """Bytes of this process; UserFault where there are none."""
    if not size:
        return b""
    data = _ffi.new("char[]", size)
    # The call answers with an error where a load of ours would end the process.
    _transfer(_libc.process_vm_readv, data, address, size)
    return bytes(_ffi.buffer(data, size))


def write(address: int, data: bytes) -> None:
    """Store bytes in this process; UserFault where there is no memory, or only for reading."""
    if data:
        _transfer(_libc.process_vm_writev, _ffi.from_buffer(data), address, len(data))


def missing(address: int, size: int) -> list[tuple[int, int]]:
    """The parts (start, end) of a span that the program cannot both read and write."""
    end, parts = address + size, []
    with open(_MAPS, "rb") as maps:
        for line in maps:
            span, flags = line.split(b" ", 2)[:2]
            start, stop = (int(bound, 16) for bound in span.split(b"-"))
            if stop <= address or not flags.startswith(b"rw"):
                continue
            if start >= end:
                break
            if start > address:
                parts.append((address, start))
            address = stop
    if address < end:
        parts.append((address, end))
    return parts


def _transfer(call: Any, data: Any, address: int, size: int) -> None:
    """Move bytes between `data` and the caller's memory; UserFault."""
    if address + size > _ADDRESSES:
        raise UserFault(address, size)
    local = _ffi.new("struct iovec *", {"base": data, "size": size})
    remote = _ffi.new("struct iovec *", {"base": _ffi.cast("void *", address), "size": size})
    if call(os.getpid(), local, 1, remote, 1, 0) != size:
        raise UserFault(address, size)
