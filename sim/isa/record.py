"""Native memory that Python fills and translated code reads."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

U64 = struct.Struct("<Q")


class Record:
    """Native memory that is read and written as u64 fields."""

    def __init__(self, size: int) -> None:
        data = aligned(size)
        self.address = int(data.ctypes.data)
        self.view: memoryview = data.data

    def set(self, offset: int, value: int) -> None:
        """Write one field."""
        U64.pack_into(self.view, offset, value)

    def get(self, offset: int) -> int:
        """Read one field."""
        return int(U64.unpack_from(self.view, offset)[0])


def aligned(size: int) -> Bytes:
    """Zeroed bytes at an address that is a multiple of 64."""
    data = np.zeros(size + 64, dtype=np.uint8)
    start = -data.ctypes.data % 64
    return data[start : start + size]
