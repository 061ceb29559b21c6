"""Private memory of kernels: how much it is, and what launches are told of it.

All launches use the same wave size, so that launches in flight together agree on
where each wave's part lies. Source: Mesa ac_shader_util.c (waves are counted per
shader engine from gfx11 on).
"""

from collections.abc import Callable
from dataclasses import dataclass

from hcq.amd.arch import Arch
from hcq.amd.program import Scratch
from hcq.amd.topology import Node
from hcq.bits import align
from hcq.memory import Buffer
from hcq.private_memory import PrivateMemory

MAX_WAVES = (1 << 12) - 1
LANES = 64  # a wave's part is sized for the wider wave


@dataclass(frozen=True)
class ScratchSize:
    """How much private memory a chip needs for some bytes per thread."""

    waves: int  # as TMPRING_SIZE counts them
    units: int  # of one wave
    total: int


class ScratchMemory(PrivateMemory[ScratchSize]):
    """`current` is what launches use."""

    def __init__(
        self,
        arch: Arch,
        node: Node,
        allocate: Callable[[int], Buffer],
        free: Callable[[Buffer], None],
    ) -> None:
        super().__init__(allocate, free)
        self._arch = arch
        self._node = node
        self.current = Scratch(0, 0)
        self.is_pinned = False  # bound words hold its address: an old buffer stays

    def _size(self, bytes_per_thread: int) -> ScratchSize:
        wave = align(bytes_per_thread * LANES, self._arch.scratch_unit)
        waves = self._node.get("max_slots_scratch_cu") * self._node.compute_units
        per_engine = self._arch.scratch_waves_per_engine
        engines = self._node.engines if per_engine else 1
        counted = min(waves // engines, MAX_WAVES)
        return ScratchSize(counted, wave // self._arch.scratch_unit, wave * counted * engines)

    def _check(self, size: ScratchSize) -> None:
        self._ring(size)

    def _ring(self, size: ScratchSize) -> int:
        return self._arch.tmpring.pack(waves=size.waves, wavesize=size.units)

    def _changed(self, buffer: Buffer, size: ScratchSize, old: Buffer | None) -> None:
        self.current = Scratch(buffer.address, self._ring(size))
        if old is not None and not self.is_pinned:
            self._free(old)
