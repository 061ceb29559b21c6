"""Flushing what the host wrote through the BAR: one store to a remapped register.

Source: Linux amdkfd (KFD_MMIO_REMAP_HDP_MEM_FLUSH_CNTL at offset 0 of the page).
"""

from hcq.amd.kfd import Allocation, Kfd
from hcq.errors import IoctlError
from hcq.host import PAGE, Region
from hcq.ioctl_defs import kfd

FLUSH_OFFSET = 0
FLAGS = kfd.ALLOC_MMIO_REMAP | kfd.ALLOC_COHERENT | kfd.ALLOC_NO_SUBSTITUTE | kfd.ALLOC_WRITABLE


class HdpFlush:
    """The page of one GPU; without it host views of VRAM are not handed out."""

    def __init__(self, process: Kfd, gpu_id: int) -> None:
        self._process = process
        self._page: Allocation | None = None
        self._register: Region | None = None
        try:
            self._page = process.allocate(gpu_id, PAGE, FLAGS)
            self._register = self._page.region
        except IoctlError as error:
            process.note(error)

    @property
    def works(self) -> bool:
        """Whether host writes to VRAM can be flushed."""
        return self._register is not None

    def flush(self) -> None:
        """Let the GPU see what was written before."""
        if self._register is not None:
            self._register.write32(FLUSH_OFFSET, 1)

    def close(self) -> None:
        """Give the page back."""
        if self._page is not None:
            self._process.free(self._page)
        self._page = self._register = None
