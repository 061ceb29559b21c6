"""Records for one launch: the initial registers of its waves, and each thread's memory.

Source: LLVM AMDGPUUsage, "Initial Kernel Execution State"; AMD GC 11 register
reference (COMPUTE_PGM_RSRC1, COMPUTE_PGM_RSRC2, COMPUTE_TMPRING_SIZE).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np

from hcq.bits import Layout, align
from sim.amd.rdna.interpret import LDS_GRANULE, RSRC2
from sim.amd.rdna.operands import PRIVATE_APERTURE, SHARED_APERTURE
from sim.isa import state
from sim.isa.native import Library
from sim.isa.record import Record, aligned

RSRC1_VGPRS = Layout("COMPUTE_PGM_RSRC1", 32, {"vgprs": (5, 0)})
TMPRING_SIZE = Layout("COMPUTE_TMPRING_SIZE", 32, {"wavesize": (26, 12), "waves": (11, 0)})
VGPR_GRANULE = {32: 8, 64: 4}
SCRATCH_GRANULE = 256  # bytes of TMPRING_SIZE.WAVESIZE
LDS_LIMIT = 65536
SCALAR_COUNT = 16  # user words at most
SCALARS = struct.Struct(f"<{SCALAR_COUNT}I")
LAUNCH = struct.Struct("<16Q")  # the launch record
NOWHERE = 130  # a word of the wave record that is cleared after the registers are filled


class Shape(Protocol):
    """What a launch is made from: sim.amd.wave.Dispatch meets it."""

    @property
    def code(self) -> int: ...
    @property
    def rsrc1(self) -> int: ...
    @property
    def rsrc2(self) -> int: ...
    @property
    def user_data(self) -> tuple[int, ...]: ...
    @property
    def groups(self) -> tuple[int, int, int]: ...
    @property
    def threads(self) -> tuple[int, int, int]: ...
    @property
    def wave_size(self) -> int: ...
    @property
    def scratch_base(self) -> int: ...
    @property
    def tmpring_size(self) -> int: ...
    @property
    def started(self) -> int: ...


def vector_registers(shape: Shape) -> int:
    """VGPRs that the launch allocates for each lane."""
    granules = RSRC1_VGPRS.unpack(shape.rsrc1 & 0x3F)["vgprs"] + 1
    return granules * VGPR_GRANULE[shape.wave_size]


@cache
def lds_bytes(rsrc2: int) -> int:
    """Bytes of LDS that a launch allocates for each work-group."""
    return min(RSRC2.unpack(rsrc2)["lds_size"] * LDS_GRANULE, LDS_LIMIT)


def scratch_bytes(shape: Shape) -> int:
    """Bytes of scratch that a launch has for each wave."""
    return TMPRING_SIZE.unpack(shape.tmpring_size)["wavesize"] * SCRATCH_GRANULE


@dataclass(frozen=True)
class Lanes:
    """What the waves of every work-group start with: v0, and which lanes exist."""

    ids: np.ndarray[Any, np.dtype[np.uint32]]  # (waves, wave size), 64-byte aligned
    masks: np.ndarray[Any, np.dtype[np.uint64]]  # (waves,)
    kinds: frozenset[bool]  # of the waves there are: with all lanes (True), with fewer (False)

    @property
    def count(self) -> int:
        """Waves of one work-group."""
        return len(self.masks)


def starting_lanes(threads: tuple[int, int, int], wave_size: int) -> Lanes:
    """Work-item ids packed as x, y << 10, z << 20, lane after lane."""
    x, y, z = threads
    total = x * y * z
    count = -(-total // wave_size)
    ids = aligned(count * wave_size * 4).view(np.uint32).reshape(count, wave_size)
    item = np.arange(count * wave_size, dtype=np.uint32)
    packed = item % x | item // x % y << 10 | item // (x * y) << 20
    ids[:] = packed.reshape(count, wave_size)
    left = [min(wave_size, total - first) for first in range(0, total, wave_size)]
    masks = np.array([(1 << lanes) - 1 for lanes in left], dtype=np.uint64)
    return Lanes(ids, masks, frozenset(lanes == wave_size for lanes in left))


class LaunchRecord(Record):
    """The record that all threads of one launch share; used again for the next one."""

    def __init__(self) -> None:
        super().__init__(state.LAUNCH_SIZE)
        self._template = Record(512)
        self.stride = 0
        self.total = 0
        self.scratch_size = 0

    def prepare(self, shape: Shape, lanes: Lanes) -> None:
        """Describe a launch: no group taken yet, code addresses not known yet."""
        size = state.VECTORS + vector_registers(shape) * shape.wave_size * 4
        self.stride = align(size, 64)
        x, y, z = shape.groups
        self.total = x * y * z
        self.scratch_size = scratch_bytes(shape)
        user, places = scalar_places(shape.rsrc2)
        given = shape.user_data[:user]
        SCALARS.pack_into(self._template.view, 0, *given, *(0,) * (SCALAR_COUNT - len(given)))
        LAUNCH.pack_into(
            self.view, 0, 0, 0, self.total, x, y, lanes.count, self.stride,
            self._template.address, int(lanes.ids.ctypes.data), int(lanes.masks.ctypes.data),
            *places, 0, 0, self.scratch_size,
        )  # fmt: skip


def scratch_threads(shape: Shape, waves: int, most: int) -> int:
    """How many host threads may run work-groups of `waves` waves at once.

    Each needs a slot of the scratch ring per wave. The ring counts its waves per shader engine,
    so this is on the safe side.
    """
    ring = TMPRING_SIZE.unpack(shape.tmpring_size)
    return max(1, min(most, ring["waves"] // waves)) if ring["wavesize"] else most


@cache
def scalar_places(rsrc2: int) -> tuple[int, tuple[int, ...]]:
    """How many user words there are, and the scalar registers of the work-group ids."""
    fields = RSRC2.unpack(rsrc2)
    at = fields["user_sgpr"]
    places = []
    for name in ("tgid_x_en", "tgid_y_en", "tgid_z_en"):
        places.append(at if fields[name] else NOWHERE)
        at += fields[name]
    return fields["user_sgpr"], tuple(places)


class ThreadRecord(Record):
    """What one host thread needs to run work-groups: registers, LDS, counters."""

    def __init__(self, number: int) -> None:
        super().__init__(state.THREAD_SIZE)
        self.number = number
        self._lds = Record(LDS_LIMIT)
        self._waves = Record(64)
        self._table: tuple[int, ...] = ()
        self.set(state.LDS, self._lds.address)
        self.set(state.SHARED_APERTURE, SHARED_APERTURE)
        self.set(state.PRIVATE_APERTURE, PRIVATE_APERTURE)

    def prepare(self, shape: Shape, launch: LaunchRecord, table: int, library: Library) -> None:
        """Make ready for a launch; counters start at zero."""
        waves = launch.get(state.WAVES)
        size = launch.stride * waves
        if len(self._waves.view) < size:
            self._waves = Record(size)
        self.set(state.WAVES_AT, self._waves.address)
        self.set(state.LAUNCH, launch.address)
        self.set(state.TABLE, table)
        self.set(state.LDS_SIZE, lds_bytes(shape.rsrc2))
        self.set(state.CODE, shape.code)
        self.set(state.STARTED, shape.started)
        self.set(state.SCRATCH, shape.scratch_base + self.number * waves * launch.scratch_size)
        cleared = state.INSTRUCTIONS, state.WAVE_COUNT, state.FAULT, state.ACTIVE, state.SEEN_TABLE
        for field in cleared:
            self.set(field, 0)
        if self._table is not library.table:
            self._table = library.table
            for index, address in enumerate(library.table):
                self.set(state.FUNCTIONS + 8 * index, address)

    def wave_word(self, offset: int) -> int:
        """A u64 of the wave record that ran last."""
        return self._waves.get(self.get(state.WAVE) - self.get(state.WAVES_AT) + offset)
