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
""")
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
    local = _ffi.new("struct iovec *", {"base": data, "size": size})
    remote = _ffi.new("struct iovec *", {"base": _ffi.cast("void *", address), "size": size})
    if _libc.process_vm_readv(os.getpid(), local, 1, remote, 1, 0) != size:
        raise UserFault(address, size)
    return bytes(_ffi.buffer(data, size))


def write(address: int, data: bytes) -> None:
    """Store bytes in this process; UserFault where there is no memory."""
    read(address, len(data))
    _ffi.memmove(_ffi.cast("char *", address), data, len(data))
