"""Where the bytes of a lane lie: global memory, LDS, scratch, a buffer, or by flat address.

Source: AMD "RDNA3" Instruction Set Architecture, chapters 9 to 12; LLVM AMDGPUUsage (apertures,
swizzled scratch).
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sim.amd.rdna.operands import PRIVATE_APERTURE, SHARED_APERTURE
from sim.memory import GpuMemory

Array = np.ndarray[Any, np.dtype[Any]]


class Space(Protocol):
    """Where the bytes of a lane lie."""

    def load(self, lane: int, address: int, size: int) -> bytes:
        """Bytes at an address."""

    def store(self, lane: int, address: int, data: bytes) -> None:
        """Replace bytes at an address."""


@dataclass(frozen=True)
class GlobalSpace:
    """GPU virtual memory."""

    memory: GpuMemory

    def load(self, lane: int, address: int, size: int) -> bytes:
        """Bytes at an address; PageFault."""
        return self.memory.read(address, size)

    def store(self, lane: int, address: int, data: bytes) -> None:
        """Replace bytes at an address; PageFault."""
        self.memory.write(address, data)


@dataclass(frozen=True)
class LocalSpace:
    """LDS of the work-group."""

    data: bytearray

    def load(self, lane: int, address: int, size: int) -> bytes:
        """Bytes at an offset; zeros when any lies outside."""
        if address + size > len(self.data):
            return bytes(size)
        return bytes(self.data[address : address + size])

    def store(self, lane: int, address: int, data: bytes) -> None:
        """Replace bytes at an offset; nothing happens when any lies outside."""
        if address + len(data) <= len(self.data):
            self.data[address : address + len(data)] = data


@dataclass(frozen=True)
class ScratchSpace:
    """Private memory of a wave: consecutive dwords of one lane lie `width` dwords apart."""

    memory: GpuMemory
    base: int
    width: int

    def load(self, lane: int, address: int, size: int) -> bytes:
        """Bytes at a lane's offset."""
        return b"".join(self.memory.read(at, part) for at, part in self._parts(lane, address, size))

    def store(self, lane: int, address: int, data: bytes) -> None:
        """Replace bytes at a lane's offset."""
        done = 0
        for at, part in self._parts(lane, address, len(data)):
            self.memory.write(at, data[done : done + part])
            done += part

    def _parts(self, lane: int, address: int, size: int) -> list[tuple[int, int]]:
        parts = []
        while size:
            part = min(size, 4 - address % 4)
            at = self.base + (address // 4 * self.width + lane) * 4 + address % 4
            parts.append((at, part))
            address, size = address + part, size - part
        return parts


@dataclass(frozen=True)
class BufferSpace:
    """What one buffer instruction reaches: for each piece, a place and whether it is inside."""

    memory: GpuMemory
    places: list[tuple[Array, Array]]

    def load(self, lane: int, address: int, size: int) -> bytes:
        """Bytes of a lane; zeros for pieces outside."""
        each = size // len(self.places)
        return b"".join(
            self.memory.read(int(at[lane]), each) if inside[lane] else bytes(each)
            for at, inside in self.places
        )

    def store(self, lane: int, address: int, data: bytes) -> None:
        """Replace a lane's bytes; pieces outside are left out."""
        each = len(data) // len(self.places)
        for number, (at, inside) in enumerate(self.places):
            if inside[lane]:
                self.memory.write(int(at[lane]), data[number * each : (number + 1) * each])


@dataclass(frozen=True)
class FlatSpace:
    """Global memory, with LDS and scratch in two apertures of it."""

    memory: GpuMemory
    local: LocalSpace
    scratch: ScratchSpace

    def load(self, lane: int, address: int, size: int) -> bytes:
        """Bytes at a flat address."""
        space, inside = self._space(address)
        return space.load(lane, inside, size)

    def store(self, lane: int, address: int, data: bytes) -> None:
        """Replace bytes at a flat address."""
        space, inside = self._space(address)
        space.store(lane, inside, data)

    def _space(self, address: int) -> tuple[Space, int]:
        high, low = address >> 32, address & 0xFFFF_FFFF
        if high == SHARED_APERTURE:
            return self.local, low
        if high == PRIVATE_APERTURE:
            return self.scratch, low
        return GlobalSpace(self.memory), address
