"""Pages of this process with other rights than usual, for tests of what a kernel does to them."""

import ctypes
import mmap

PAGE = 4096
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
]  # fmt: skip
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Pages:
    """Private zeros at `address`."""

    def __init__(self, count=1, rights=mmap.PROT_READ | mmap.PROT_WRITE):
        self.size = count * PAGE
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self.address = _libc.mmap(None, self.size, rights, flags, -1, 0)

    def unmap(self, first=0, count=None):
        size = self.size - first * PAGE if count is None else count * PAGE
        _libc.munmap(self.address + first * PAGE, size)

    def protect(self, rights):
        _libc.mprotect(self.address, self.size, rights)

    def read(self, offset, size):
        return ctypes.string_at(self.address + offset, size)

    def write(self, offset, data):
        ctypes.memmove(self.address + offset, data, len(data))


def read_only(count=1):
    """Pages that can only be read."""
    return Pages(count, mmap.PROT_READ)
