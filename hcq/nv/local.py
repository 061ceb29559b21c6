"""Private memory of kernels: one buffer per device that grows with the neediest program.

Source: sizes as NVIDIA's user drivers are seen to set them (facts of the compute class
methods SET_SHADER_LOCAL_MEMORY_*): each TPC has a part for all warps its SMs can hold.
"""

from collections.abc import Callable
from dataclasses import dataclass

from hcq.bits import align
from hcq.errors import OutOfMemory
from hcq.memory import Buffer
from hcq.nv.defs.compute import LOCAL_BYTES_GRANULE
from hcq.nv.gpu import Shape

LANES = 32
THREAD_GRANULE = 32
WARP_GRANULE = 0x200
BUFFER_GRANULE = 0x20000


@dataclass(frozen=True)
class LocalSize:
    """How much private memory a chip needs for some bytes per thread."""

    bytes_per_tpc: int
    total: int


def local_size(shape: Shape, bytes_per_thread: int) -> LocalSize:
    """Sizes from the counts the driver reports."""
    warp = align(align(bytes_per_thread, THREAD_GRANULE) * LANES, WARP_GRANULE)
    per_tpc = align(warp * shape.max_warps_per_sm * shape.sms_per_tpc, LOCAL_BYTES_GRANULE)
    return LocalSize(per_tpc, align(per_tpc * shape.tpcs_per_gpc * shape.gpcs, BUFFER_GRANULE))


class LocalMemory:
    """Grown by `need()` when a program is loaded; `changed` tells the compute channel."""

    def __init__(
        self,
        shape: Shape,
        allocate: Callable[[int], Buffer],
        free: Callable[[Buffer], None],
        changed: Callable[[int, int], None],
    ) -> None:
        self._shape = shape
        self._allocate = allocate
        self._free = free
        self._changed = changed
        self._buffer: Buffer | None = None
        self.bytes_per_thread = 0

    def need(self, kernel: str, bytes_per_thread: int) -> None:
        """Have at least this much; OutOfMemory with the kernel's name, the old size staying."""
        if bytes_per_thread <= self.bytes_per_thread:
            return
        size = local_size(self._shape, bytes_per_thread)
        try:
            buffer = self._allocate(size.total)
        except OutOfMemory as error:
            raise OutOfMemory(
                f"kernel {kernel}: {bytes_per_thread} bytes of private memory per thread "
                "cannot be had",
                facts={
                    "kernel": kernel,
                    "bytes_per_thread": bytes_per_thread,
                    "needed": size.total,
                    "have_per_thread": self.bytes_per_thread,
                    "reason": str(error).splitlines()[0],
                },
                hint="use fewer or smaller private arrays in the kernel, or free buffers",
            ) from None
        old, self._buffer = self._buffer, buffer
        self.bytes_per_thread = bytes_per_thread
        # The channel takes the new buffer before its next launch, after all before it.
        self._changed(buffer.address, size.bytes_per_tpc)
        if old is not None:
            self._free(old)
