"""What one launch hands to native code: the first lanes, the shared record, each thread's memory.

Whatever differs between instruction sets is passed in as values of fields.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hcq.bits import align
from sim.isa import state
from sim.isa.native import Library
from sim.isa.record import Record, aligned

TEMPLATE_SIZE = 512  # bytes of the scalar registers at entry
LAUNCH = struct.Struct("<16Q")  # the launch record


@dataclass(frozen=True)
class Lanes:
    """What the waves of every work-group start with: ids, and which lanes exist."""

    ids: np.ndarray[Any, np.dtype[np.uint32]]  # (waves, width): x, y << 10, z << 20; aligned
    masks: np.ndarray[Any, np.dtype[np.uint64]]  # (waves,)
    kinds: frozenset[bool]  # of the waves there are: with all lanes (True), with fewer (False)

    @property
    def count(self) -> int:
        """Waves of one work-group."""
        return len(self.masks)


def starting_lanes(threads: tuple[int, int, int], width: int = 32) -> Lanes:
    """The ids of a work-group's threads in order, x first, `width` to a wave."""
    x, y, z = threads
    total = x * y * z
    count = -(-total // width)
    ids = aligned(count * width * 4).view(np.uint32).reshape(count, width)
    thread = np.arange(count * width, dtype=np.uint32)
    packed = thread % x | thread // x % y << 10 | thread // (x * y) << 20
    ids[:] = packed.reshape(count, width)
    left = [min(width, total - first) for first in range(0, total, width)]
    masks = np.array([(1 << lanes) - 1 for lanes in left], dtype=np.uint64)
    return Lanes(ids, masks, frozenset(lanes == width for lanes in left))


class SharedRecord(Record):
    """The record that all threads of one launch share; used again for the next one."""

    def __init__(self) -> None:
        super().__init__(state.LAUNCH_SIZE)
        self.template = Record(TEMPLATE_SIZE)
        self.stride = 0
        self.total = 0
        self.scratch_size = 0

    def describe(
        self, groups: tuple[int, int, int], lanes: Lanes, places: tuple[int, ...],
        *, wave_size: int, scratch_size: int,
    ) -> None:  # fmt: skip
        """A launch of which no group is taken and no code address known yet.

        places: the scalar registers of the group's three ids; wave_size: bytes of a wave's
        record; scratch_size: bytes of a wave's scratch.
        """
        self.stride = align(wave_size, 64)
        x, y, z = groups
        self.total = x * y * z
        self.scratch_size = scratch_size
        LAUNCH.pack_into(
            self.view, 0, 0, 0, self.total, x, y, lanes.count, self.stride,
            self.template.address, int(lanes.ids.ctypes.data), int(lanes.masks.ctypes.data),
            *places, 0, 0, scratch_size,
        )  # fmt: skip


class ThreadMemory(Record):
    """What one host thread needs to run work-groups: registers, LDS, counters."""

    def __init__(self, number: int, lds_size: int) -> None:
        super().__init__(state.THREAD_SIZE)
        self.number = number
        self.lds = Record(lds_size)
        self._waves = Record(64)
        self._table: tuple[int, ...] = ()
        self.set(state.LDS, self.lds.address)

    def begin(self, launch: SharedRecord, library: Library, fields: Mapping[int, int]) -> None:
        """Make ready for a launch, with the fields that it decides; counters start at zero."""
        size = launch.stride * launch.get(state.WAVES)
        if len(self._waves.view) < size:
            self._waves = Record(size)
        self.set(state.WAVES_AT, self._waves.address)
        self.set(state.LAUNCH, launch.address)
        for field, value in fields.items():
            self.set(field, value)
        cleared = state.INSTRUCTIONS, state.WAVE_COUNT, state.FAULT, state.ACTIVE, state.SEEN_TABLE
        for field in cleared:
            self.set(field, 0)
        if self._table is not library.table:
            self._table = library.table
            for index, address in enumerate(library.table):
                self.set(state.FUNCTIONS + 8 * index, address)

    def scratch_offset(self, launch: SharedRecord) -> int:
        """Where this thread's scratch starts: bytes from the launch's."""
        return self.number * launch.get(state.WAVES) * launch.scratch_size

    def wave_word(self, offset: int) -> int:
        """A u64 of the record of the wave that ran last."""
        return self._waves.get(self.get(state.WAVE) - self.get(state.WAVES_AT) + offset)
