"""Memory of one AMD device, by the flags the kernel is given for it."""

from collections.abc import Callable
from typing import Any

from hcq.amd.channel import RING_FLAGS, VRAM
from hcq.amd.kfd import Allocation, Kfd
from hcq.amd.topology import Node
from hcq.buffers import Buffers
from hcq.errors import OutOfMemory
from hcq.ioctl_defs import kfd

USER_MEMORY_FLAGS = (
    kfd.ALLOC_USERPTR
    | kfd.ALLOC_COHERENT
    | kfd.ALLOC_NO_SUBSTITUTE
    | kfd.ALLOC_EXECUTABLE
    | kfd.ALLOC_WRITABLE
)


class Memory(Buffers):
    """Buffers of one device; a kind is the kernel's flags."""

    def __init__(
        self,
        process: Kfd,
        node: Node,
        device: Any,
        passed: Callable[[], int],
        drain: Callable[[], None],
    ) -> None:
        super().__init__(device, passed, drain)
        self._process = process
        self._node = node

    def obtain(self, size: int, kind: int, *, view: bool) -> Allocation:
        """Whole pages from the kernel."""
        return self._process.allocate(self._node.gpu_id, size, kind, view=view)

    def give_back(self, owner: Allocation) -> None:
        """Take memory back to the kernel."""
        self._process.free(owner)

    def take_over(self, address: int, size: int) -> Allocation:
        """Pages of this process for the GPU too."""
        return self._process.adopt(self._node.gpu_id, address, size, USER_MEMORY_FLAGS)

    def is_shortage(self, error: Exception) -> bool:
        """Out of memory, of address space, or of locked pages."""
        import errno

        shortages = (errno.ENOMEM, errno.ENOSPC)
        return isinstance(error, OutOfMemory) or getattr(error, "errno", None) in shortages

    def shortage(self, asked: int, kind: int) -> tuple[str, dict[str, object]]:
        """What the kernel says is left."""
        is_vram = bool(kind & kfd.ALLOC_VRAM)
        return "VRAM" if is_vram else "host memory", {
            "largest": self.available() if is_vram else "unknown",
            "limit": self._node.memory_bytes,
        }

    def available(self) -> int:
        """Bytes of VRAM the kernel says are free; 0 when it does not say."""
        args = self._process.optional(kfd.AVAILABLE_MEMORY, gpu_id=self._node.gpu_id)
        return int(args.available) if args is not None else 0


# Data is never executable; code asks for it.
UNCACHED_HOST_FLAGS = RING_FLAGS & ~kfd.ALLOC_EXECUTABLE
HOST_FLAGS = UNCACHED_HOST_FLAGS & ~kfd.ALLOC_UNCACHED
VRAM_FLAGS = VRAM & ~kfd.ALLOC_EXECUTABLE
VISIBLE_VRAM_FLAGS = VRAM_FLAGS | kfd.ALLOC_PUBLIC
