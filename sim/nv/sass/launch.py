"""Native records for one grid launch: constant banks, thread numbers, warps.

Source: CUDA "Programming Guide" (thread numbering in a block); facts of the constant banks
and the shared and local windows: NVIDIA open-gpu-doc, the compute classes' QMD headers.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from hcq.bits import align
from sim.isa import state
from sim.isa.native import Library
from sim.isa.record import Record, aligned
from sim.memory import GpuMemory
from sim.nv.sass import frame

LAUNCH = struct.Struct("<16Q")
BANKS = 18
RESERVED_SHARED = 0x400  # bytes at the start of a block's shared memory that the system keeps
LOCAL_TOP = 1 << 24  # local addresses end here: the stack pointer starts near it
LARGEST_SHARED = 228 << 10


class Shape(Protocol):
    """What a launch is made from: sim.nv.warp.Launch meets it."""

    @property
    def code(self) -> int: ...
    @property
    def registers(self) -> int: ...
    @property
    def grid(self) -> tuple[int, int, int]: ...
    @property
    def block(self) -> tuple[int, int, int]: ...
    @property
    def shared_bytes(self) -> int: ...
    @property
    def local_bytes(self) -> int: ...
    @property
    def local_base(self) -> int: ...
    @property
    def constants(self) -> tuple[tuple[int, int] | None, ...]: ...
    @property
    def shared_window(self) -> int: ...
    @property
    def local_window(self) -> int: ...
    @property
    def sm(self) -> str: ...


def shared_size(shape: Shape) -> int:
    """Bytes of shared memory that addresses reach: before sm_90 they leave out what is reserved."""
    if int(shape.sm[3:].rstrip("af")) >= 90:
        return shape.shared_bytes
    return max(0, shape.shared_bytes - RESERVED_SHARED)


@dataclass(frozen=True)
class Lanes:
    """What the warps of every block start with: thread numbers, and which lanes exist."""

    ids: np.ndarray[Any, np.dtype[np.uint32]]  # (warps, 32): x, y << 10, z << 20; 64-byte aligned
    masks: np.ndarray[Any, np.dtype[np.uint64]]  # (warps,)
    kinds: frozenset[bool]  # of the warps there are: with all lanes (True), with fewer (False)

    @property
    def count(self) -> int:
        """Warps of one block."""
        return len(self.masks)


def starting_lanes(block: tuple[int, int, int]) -> Lanes:
    """Threads in order, x first, 32 to a warp."""
    x, y, z = block
    total = x * y * z
    count = -(-total // 32)
    ids = aligned(count * 128).view(np.uint32).reshape(count, 32)
    thread = np.arange(count * 32, dtype=np.uint32)
    packed = thread % x | thread // x % y << 10 | thread // (x * y) << 20
    ids[:] = packed.reshape(count, 32)
    left = [min(32, total - first) for first in range(0, total, 32)]
    masks = np.array([(1 << lanes) - 1 for lanes in left], dtype=np.uint64)
    return Lanes(ids, masks, frozenset(lanes == 32 for lanes in left))


class LaunchRecord(Record):
    """The record that all threads of one launch share; used again for the next one."""

    def __init__(self) -> None:
        super().__init__(state.LAUNCH_SIZE)
        self._template = Record(512)
        self._banks = Record(24 * BANKS)
        self._copies: list[Record] = []
        self.stride = 0
        self.total = 0
        self.scratch_size = 0

    @property
    def banks(self) -> int:
        """The address of the constant banks' descriptions."""
        return self._banks.address

    def prepare(self, shape: Shape, lanes: Lanes, registers: int) -> None:
        """Describe a launch: no block taken yet, code addresses not known yet."""
        self.stride = align(frame.record_size(registers), 64)
        x, y, z = shape.grid
        self.total = x * y * z
        self.scratch_size = shape.local_bytes * 32
        places = (frame.BLOCK_ID, frame.BLOCK_ID + 1, frame.BLOCK_ID + 2)
        LAUNCH.pack_into(
            self.view, 0, 0, 0, self.total, x, y, lanes.count, self.stride,
            self._template.address, int(lanes.ids.ctypes.data), int(lanes.masks.ctypes.data),
            *places, 0, 0, self.scratch_size,
        )  # fmt: skip

    def copy_banks(self, shape: Shape, memory: GpuMemory) -> None:
        """Constant banks as they are at launch. PageFault for one that cannot be read."""
        self._copies = []
        for number in range(BANKS):
            bank = shape.constants[number] if number < len(shape.constants) else None
            address, size, copy = 0, 0, 0
            if bank is not None and bank[1]:
                address, size = bank
                room = Record(size + 64)
                room.view[:size] = memory.read(address, size)
                self._copies.append(room)
                copy = room.address
            for at, value in enumerate((address, size, copy)):
                self._banks.set(24 * number + 8 * at, value)


class ThreadRecord(Record):
    """What one host thread needs to run blocks: warps, shared memory, counters."""

    def __init__(self, number: int) -> None:
        super().__init__(state.THREAD_SIZE)
        self.number = number
        self._shared = Record(LARGEST_SHARED)
        self._warps = Record(64)
        self._table: tuple[int, ...] = ()
        self.set(state.LDS, self._shared.address)
        self.set(state.STRICT_LDS, 1)

    def prepare(self, shape: Shape, launch: LaunchRecord, table: int, library: Library) -> None:
        """Make ready for a launch; counters start at zero."""
        warps = launch.get(state.WAVES)
        size = launch.stride * warps
        if len(self._warps.view) < size:
            self._warps = Record(size)
        local = shape.local_base + self.number * warps * launch.scratch_size
        fields = {
            state.WAVES_AT: self._warps.address, state.LAUNCH: launch.address,
            state.TABLE: table, state.LDS_SIZE: shared_size(shape), state.CODE: shape.code,
            state.BANKS: launch.banks, state.SHARED_APERTURE: shape.shared_window >> 32,
            state.PRIVATE_APERTURE: shape.local_window >> 32,
            # Lane words lie together, as in AMD's scratch; addresses count down from the top.
            state.SCRATCH: (local - 32 * (LOCAL_TOP - shape.local_bytes)) & (1 << 64) - 1,
            state.PRIVATE_START: LOCAL_TOP - shape.local_bytes, state.PRIVATE_END: LOCAL_TOP,
            state.STARTED: 0,
        }  # fmt: skip
        for field, value in fields.items():
            self.set(field, value)
        cleared = state.INSTRUCTIONS, state.WAVE_COUNT, state.FAULT, state.ACTIVE, state.SEEN_TABLE
        for field in cleared:
            self.set(field, 0)
        if self._table is not library.table:
            self._table = library.table
            for index, address in enumerate(library.table):
                self.set(state.FUNCTIONS + 8 * index, address)

    def in_shared(self, address: int) -> int:
        """A host address in the block's shared memory as an offset; any other as it is."""
        start = self._shared.address
        inside = start <= address < start + LARGEST_SHARED
        return address - start if inside else address

    def warp_word(self, offset: int) -> int:
        """A u64 of the record of the warp that ran last."""
        return self._warps.get(self.get(state.WAVE) - self.get(state.WAVES_AT) + offset)
