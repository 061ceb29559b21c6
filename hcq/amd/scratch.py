"""Private memory of kernels: one buffer per device that grows with the neediest program.

All launches use the same wave size, so that launches in flight together agree on
where each wave's part lies. Source: Mesa ac_shader_util.c (waves are counted per
shader engine from gfx11 on).
"""

from collections.abc import Callable

from hcq.amd.arch import Arch
from hcq.amd.program import Scratch
from hcq.amd.topology import Node
from hcq.bits import align
from hcq.errors import OutOfMemory
from hcq.memory import Buffer

MAX_WAVES = (1 << 12) - 1
LANES = 64  # a wave's part is sized for the wider wave


class ScratchMemory:
    """Grown by `need()` when a program is loaded; `current` is what launches use."""

    def __init__(
        self,
        arch: Arch,
        node: Node,
        allocate: Callable[[int], Buffer],
        free: Callable[[Buffer], None],
    ) -> None:
        self._arch = arch
        self._node = node
        self._allocate = allocate
        self._free = free
        self._buffer: Buffer | None = None
        self.bytes_per_thread = 0
        self.current = Scratch(0, 0)
        self.is_pinned = False  # bound words hold its address: an old buffer stays

    def need(self, kernel: str, bytes_per_thread: int) -> None:
        """Have at least this much; OutOfMemory with the kernel's name, the old size staying."""
        if bytes_per_thread <= self.bytes_per_thread:
            return
        wave = align(bytes_per_thread * LANES, self._arch.scratch_unit)
        waves = self._node.get("max_slots_scratch_cu") * self._node.compute_units
        per_engine = self._arch.scratch_waves_per_engine
        engines = self._node.engines if per_engine else 1
        counted = min(waves // engines, MAX_WAVES)
        units = wave // self._arch.scratch_unit
        try:
            tmpring = self._arch.tmpring.pack(waves=counted, wavesize=units)
            buffer = self._allocate(wave * counted * engines)
        except (OutOfMemory, ValueError) as error:
            raise OutOfMemory(
                f"kernel {kernel}: {bytes_per_thread} bytes of private memory per thread "
                "cannot be had",
                facts={
                    "kernel": kernel,
                    "bytes_per_thread": bytes_per_thread,
                    "needed": wave * counted * engines,
                    "have_per_thread": self.bytes_per_thread,
                    "reason": str(error).splitlines()[0],
                },
                hint="use fewer or smaller private arrays in the kernel, or free buffers",
            ) from None
        old, self._buffer = self._buffer, buffer
        self.bytes_per_thread = bytes_per_thread
        self.current = Scratch(buffer.address, tmpring)
        if old is not None and not self.is_pinned:
            self._free(old)
