"""Private memory of kernels: how much it is, and who is told.

Source: sizes as NVIDIA's user drivers are seen to set them (facts of the compute class
methods SET_SHADER_LOCAL_MEMORY_*): each TPC has a part for all warps its SMs can hold.
"""

from collections.abc import Callable
from dataclasses import dataclass

from hcq.bits import align
from hcq.memory import Buffer
from hcq.nv.defs.compute import LOCAL_BYTES_GRANULE
from hcq.nv.gpu import Shape
from hcq.private_memory import PrivateMemory

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


class LocalMemory(PrivateMemory[LocalSize]):
    """`changed` tells the compute channel."""

    def __init__(
        self,
        shape: Shape,
        allocate: Callable[[int], Buffer],
        free: Callable[[Buffer], None],
        changed: Callable[[int, int], None],
    ) -> None:
        super().__init__(allocate, free)
        self._shape = shape
        self._tell = changed

    def _size(self, bytes_per_thread: int) -> LocalSize:
        return local_size(self._shape, bytes_per_thread)

    def _changed(self, buffer: Buffer, size: LocalSize, old: Buffer | None) -> None:
        # The channel takes the new buffer before its next launch, after all before it.
        self._tell(buffer.address, size.bytes_per_tpc)
        if old is not None:
            self._free(old)
