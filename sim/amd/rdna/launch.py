"""Records for one launch: the initial registers of its waves, and each thread's memory.

Source: LLVM AMDGPUUsage, "Initial Kernel Execution State"; AMD GC 11 register
reference (COMPUTE_PGM_RSRC1, COMPUTE_PGM_RSRC2, COMPUTE_TMPRING_SIZE).
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Protocol

from hcq.bits import Layout
from sim.amd.rdna.interpret import LDS_GRANULE, RSRC2
from sim.amd.rdna.operands import PRIVATE_APERTURE, SHARED_APERTURE
from sim.isa import state
from sim.isa.launch import Lanes, SharedRecord, ThreadMemory
from sim.isa.native import Library

RSRC1_VGPRS = Layout("COMPUTE_PGM_RSRC1", 32, {"vgprs": (5, 0)})
TMPRING_SIZE = Layout("COMPUTE_TMPRING_SIZE", 32, {"wavesize": (26, 12), "waves": (11, 0)})
VGPR_GRANULE = {32: 8, 64: 4}
SCRATCH_GRANULE = 256  # bytes of TMPRING_SIZE.WAVESIZE
LDS_LIMIT = 65536
SCALAR_COUNT = 16  # user words at most
SCALARS = struct.Struct(f"<{SCALAR_COUNT}I")
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


class LaunchRecord(SharedRecord):
    """The record that all threads of one launch share; used again for the next one."""

    def prepare(self, shape: Shape, lanes: Lanes) -> None:
        """Describe a launch: no group taken yet, code addresses not known yet."""
        user, places = scalar_places(shape.rsrc2)
        given = shape.user_data[:user]
        SCALARS.pack_into(self.template.view, 0, *given, *(0,) * (SCALAR_COUNT - len(given)))
        self.describe(
            shape.groups, lanes, places, scratch_size=scratch_bytes(shape),
            wave_size=state.VECTORS + vector_registers(shape) * shape.wave_size * 4,
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


class ThreadRecord(ThreadMemory):
    """What one host thread needs to run work-groups: registers, LDS, counters."""

    def __init__(self, number: int) -> None:
        super().__init__(number, LDS_LIMIT)
        self.set(state.SHARED_APERTURE, SHARED_APERTURE)
        self.set(state.PRIVATE_APERTURE, PRIVATE_APERTURE)

    def prepare(self, shape: Shape, launch: LaunchRecord, table: int, library: Library) -> None:
        """Make ready for a launch; counters start at zero."""
        fields = {
            state.TABLE: table, state.LDS_SIZE: lds_bytes(shape.rsrc2), state.CODE: shape.code,
            state.STARTED: shape.started,
            state.SCRATCH: shape.scratch_base + self.scratch_offset(launch),
        }  # fmt: skip
        self.begin(launch, library, fields)
