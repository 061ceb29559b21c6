"""Native records for one grid launch: constant banks, thread numbers, warps.

Source: CUDA "Programming Guide" (thread numbering in a block); facts of the constant banks
and the shared and local windows: NVIDIA open-gpu-doc, the compute classes' QMD headers.
"""

from __future__ import annotations

from typing import Protocol

from sim.isa import state
from sim.isa.launch import Lanes, SharedRecord, ThreadMemory
from sim.isa.native import Library
from sim.isa.record import Record
from sim.memory import GpuMemory
from sim.nv.sass import frame

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


class LaunchRecord(SharedRecord):
    """The record that all threads of one launch share; used again for the next one."""

    def __init__(self) -> None:
        super().__init__()
        self._banks = Record(24 * BANKS)
        self._copies: list[Record] = []

    @property
    def banks(self) -> int:
        """The address of the constant banks' descriptions."""
        return self._banks.address

    def prepare(self, shape: Shape, lanes: Lanes, registers: int) -> None:
        """Describe a launch: no block taken yet, code addresses not known yet."""
        places = (frame.BLOCK_ID, frame.BLOCK_ID + 1, frame.BLOCK_ID + 2)
        self.describe(
            shape.grid, lanes, places,
            wave_size=frame.record_size(registers), scratch_size=shape.local_bytes * 32,
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


class ThreadRecord(ThreadMemory):
    """What one host thread needs to run blocks: warps, shared memory, counters."""

    def __init__(self, number: int) -> None:
        super().__init__(number, LARGEST_SHARED)
        self.set(state.STRICT_LDS, 1)

    def prepare(self, shape: Shape, launch: LaunchRecord, table: int, library: Library) -> None:
        """Make ready for a launch; counters start at zero."""
        local = shape.local_base + self.scratch_offset(launch)
        fields = {
            state.TABLE: table, state.LDS_SIZE: shared_size(shape), state.CODE: shape.code,
            state.BANKS: launch.banks, state.SHARED_APERTURE: shape.shared_window >> 32,
            state.PRIVATE_APERTURE: shape.local_window >> 32,
            # Lane words lie together, as in AMD's scratch; addresses count down from the top.
            state.SCRATCH: (local - 32 * (LOCAL_TOP - shape.local_bytes)) & (1 << 64) - 1,
            state.PRIVATE_START: LOCAL_TOP - shape.local_bytes, state.PRIVATE_END: LOCAL_TOP,
            state.STARTED: 0,
        }  # fmt: skip
        self.begin(launch, library, fields)

    def in_shared(self, address: int) -> int:
        """A host address in the block's shared memory as an offset; any other as it is."""
        start = self.lds.address
        inside = start <= address < start + LARGEST_SHARED
        return address - start if inside else address
