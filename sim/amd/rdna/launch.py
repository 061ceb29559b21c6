"""Records for one launch: the initial registers of its waves, and each thread's memory.

Source: LLVM AMDGPUUsage, "Initial Kernel Execution State"; AMD GC 11 register
reference (COMPUTE_PGM_RSRC1, COMPUTE_PGM_RSRC2, COMPUTE_TMPRING_SIZE).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from hcq.bits import Layout, align
from sim.amd.rdna.interpret import LDS_GRANULE, RSRC2
from sim.amd.rdna.operands import PRIVATE_APERTURE, SHARED_APERTURE
from sim.isa import state
from sim.isa.native import Library

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

RSRC1_VGPRS = Layout("COMPUTE_PGM_RSRC1", 32, {"vgprs": (5, 0)})
TMPRING_SIZE = Layout("COMPUTE_TMPRING_SIZE", 32, {"wavesize": (26, 12), "waves": (11, 0)})
VGPR_GRANULE = {32: 8, 64: 4}
SCRATCH_GRANULE = 256  # bytes of TMPRING_SIZE.WAVESIZE
LDS_LIMIT = 65536
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


def vector_registers(shape: Shape) -> int:
    """VGPRs that the launch allocates for each lane."""
    granules = RSRC1_VGPRS.unpack(shape.rsrc1 & 0x3F)["vgprs"] + 1
    return granules * VGPR_GRANULE[shape.wave_size]


def lds_bytes(shape: Shape) -> int:
    """Bytes of LDS that the launch allocates for each work-group."""
    return RSRC2.unpack(shape.rsrc2)["lds_size"] * LDS_GRANULE


@dataclass(frozen=True)
class Lanes:
    """What the waves of every work-group start with: v0, and which lanes exist."""

    ids: np.ndarray[Any, np.dtype[np.uint32]]  # (waves, wave size), 64-byte aligned
    masks: np.ndarray[Any, np.dtype[np.uint64]]  # (waves,)

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
    left = np.clip(total - np.arange(count) * wave_size, 0, wave_size)
    masks = np.array([(1 << int(lanes)) - 1 for lanes in left], dtype=np.uint64)
    return Lanes(ids, masks)


class LaunchRecord:
    """The record that all threads of one launch share."""

    def __init__(self, shape: Shape, lanes: Lanes) -> None:
        self._data = aligned(state.LAUNCH_SIZE)
        self._words = self._data.view(np.uint64)
        self._template = aligned(512).view(np.uint32)
        self._lanes = lanes
        self.address = int(self._data.ctypes.data)
        self.vectors = vector_registers(shape)
        self.stride = align(state.VECTORS + self.vectors * shape.wave_size * 4, 64)
        x, y, z = shape.groups
        self.total = x * y * z
        ring = TMPRING_SIZE.unpack(shape.tmpring_size)
        self.scratch_size = ring["wavesize"] * SCRATCH_GRANULE
        self.set(state.GROUP_COUNT, self.total)
        self.set(state.GROUPS_X, max(x, 1))
        self.set(state.GROUPS_Y, max(y, 1))
        self.set(state.WAVES, lanes.count)
        self.set(state.WAVE_STRIDE, self.stride)
        self.set(state.TEMPLATE, int(self._template.ctypes.data))
        self.set(state.IDS, int(lanes.ids.ctypes.data))
        self.set(state.MASKS, int(lanes.masks.ctypes.data))
        self.set(state.SCRATCH_SIZE, self.scratch_size)
        self._fill_scalars(shape)

    def set(self, offset: int, value: int) -> None:
        """Write one u64 field."""
        self._words[offset // 8] = value

    def get(self, offset: int) -> int:
        """Read one u64 field."""
        return int(self._words[offset // 8])

    def _fill_scalars(self, shape: Shape) -> None:
        fields = RSRC2.unpack(shape.rsrc2)
        at = fields["user_sgpr"]
        given = shape.user_data[:at]
        self._template[: len(given)] = given
        for axis, name in enumerate(("tgid_x_en", "tgid_y_en", "tgid_z_en")):
            self.set(state.GROUP_ID_AT + 8 * axis, at if fields[name] else NOWHERE)
            at += fields[name]


class ThreadRecord:
    """What one host thread needs to run work-groups: registers, LDS, counters."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._data = aligned(state.THREAD_SIZE)
        self._words = self._data.view(np.uint64)
        self._lds = aligned(LDS_LIMIT)
        self._waves = aligned(64)
        self.address = int(self._data.ctypes.data)
        self.set(state.LDS, int(self._lds.ctypes.data))
        self.set(state.SHARED_APERTURE, SHARED_APERTURE)
        self.set(state.PRIVATE_APERTURE, PRIVATE_APERTURE)

    def prepare(self, shape: Shape, launch: LaunchRecord, table: int, library: Library) -> None:
        """Make ready for a launch; counters start at zero."""
        waves = launch.get(state.WAVES)
        size = launch.stride * waves
        if len(self._waves) < size:
            self._waves = aligned(size)
        self.set(state.WAVES_AT, int(self._waves.ctypes.data))
        self.set(state.LAUNCH, launch.address)
        self.set(state.TABLE, table)
        self.set(state.LDS_SIZE, min(lds_bytes(shape), LDS_LIMIT))
        self.set(state.CODE, shape.code)
        self.set(state.SCRATCH, shape.scratch_base + self.number * waves * launch.scratch_size)
        for field in (state.INSTRUCTIONS, state.WAVE_COUNT, state.FAULT, state.ACTIVE):
            self.set(field, 0)
        first = state.FUNCTIONS // 8
        self._words[first : first + len(library.table)] = library.table

    def set(self, offset: int, value: int) -> None:
        """Write one u64 field."""
        self._words[offset // 8] = value

    def get(self, offset: int) -> int:
        """Read one u64 field."""
        return int(self._words[offset // 8])

    def wave_word(self, launch: LaunchRecord, offset: int) -> int:
        """A u64 of the wave record that ran last."""
        at = self.get(state.WAVE) - self.get(state.WAVES_AT) + offset
        if not 0 <= at < len(self._waves):
            raise IndexError(f"wave record {at} of a launch with stride {launch.stride}")
        return int(self._waves[at : at + 8].view(np.uint64)[0])


def aligned(size: int) -> Bytes:
    """Zeroed bytes at an address that is a multiple of 64."""
    data = np.zeros(size + 64, dtype=np.uint8)
    start = -data.ctypes.data % 64
    return data[start : start + size]
