"""Memory of one GPU: video memory, memory of the machine, pages of this process.

One address on CPU and GPU: the span is reserved in this process, the object mapped
there on the GPU, and where a view is wanted, on the CPU as well.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum
from typing import Any

from hcq.bits import align
from hcq.buffers import Buffers
from hcq.errors import IoctlError, OutOfMemory
from hcq.host import PAGE, Region
from hcq.ioctl_defs import nv_escape, nv_rm
from hcq.nv.defs import classes
from hcq.nv.driver import LOW
from hcq.nv.gpu import Gpu
from hcq.nv.rm import RmError
from hcq.undo import Undo

HUGE_PAGE = 2 << 20
HUGE_FROM = 8 << 20  # smaller video memory takes pages of 4 KiB


class Kind(Enum):
    """Where memory lies, and how it is cached."""

    VRAM = "video memory"
    CONTIGUOUS = "contiguous video memory"
    HOST = "host memory"
    UNCACHED_HOST = "uncached host memory"
    USER = "memory of the process"


@dataclass(eq=False)
class Allocation:
    """Memory the kernel gave: one object, one address on host and GPU."""

    address: int
    size: int
    handle: int
    kind: Kind
    region: Region | None

    @property
    def is_vram(self) -> bool:
        """Whether it lies on the GPU."""
        return self.kind in (Kind.VRAM, Kind.CONTIGUOUS)


def allocate(gpu: Gpu, size: int, kind: Kind, *, view: bool = True, low: bool = True) -> Allocation:
    """Whole pages, mapped on the GPU, and with `view` on the CPU.

    Below 2**40, where channels and launch records can name them, unless `low` is False
    and no such address is left.
    """
    driver = gpu.driver
    is_vram = kind in (Kind.VRAM, Kind.CONTIGUOUS)
    page = HUGE_PAGE if kind is Kind.VRAM and size >= HUGE_FROM else PAGE
    size = align(size, page)
    with ExitStack() as undo:
        if view and is_vram:
            _reserve_bar1(gpu, size)
            undo.callback(_release_bar1, gpu, size)
        address = _reserve(gpu, size, page, low)
        release = Undo(driver.host.release, address, size)
        undo.callback(release)
        handle = _object(gpu, size, kind, page)
        undo.callback(gpu.rm.free, handle)
        region = None
        if view:
            node = gpu.node if is_vram else nv_escape.CONTROL_NODE
            region = driver.map_object(gpu.device, handle, size, node, address)
            release.change(driver.host.munmap, region)
        _map(undo, gpu, address, size, handle)
        undo.pop_all()
    return Allocation(address, size, handle, kind, region)


def adopt(gpu: Gpu, address: int, size: int) -> Allocation:
    """Pages of this process made addressable by the GPU, at the same address."""
    flags = (
        nv_escape.OS02_PHYSICALITY_NONCONTIGUOUS
        | nv_escape.OS02_COHERENCY_CACHED
        | nv_escape.OS02_MAPPING_NO_MAP
    )
    with ExitStack() as undo:
        handle = gpu.rm.alloc_user_memory(gpu.fd, gpu.device, address, size, flags)
        undo.callback(gpu.rm.free, handle)
        _map(undo, gpu, address, size, handle)
        undo.pop_all()
    return Allocation(address, size, handle, Kind.USER, None)


def free(gpu: Gpu, allocation: Allocation) -> None:
    """Unmap, free, release: the way allocate() came, backwards."""
    host = gpu.driver.host
    gpu.driver.uvm.free_range(allocation.address, allocation.size)
    gpu.rm.free(allocation.handle)
    if allocation.kind is Kind.USER:
        return
    if allocation.region is not None:
        host.munmap(allocation.region)
        if allocation.is_vram:
            _release_bar1(gpu, allocation.size)
    else:
        host.release(allocation.address, allocation.size)


def _reserve(gpu: Gpu, size: int, page: int, low: bool) -> int:
    try:
        return gpu.driver.host.reserve(size, page, LOW)
    except OSError:
        if low:
            raise
        return gpu.driver.host.reserve(size, page)


def _map(undo: ExitStack, gpu: Gpu, address: int, size: int, handle: int) -> None:
    uvm = gpu.driver.uvm
    uvm.create_range(address, size)
    undo.callback(uvm.free_range, address, size)
    uvm.map(address, size, gpu.uuid, gpu.driver.ctl, (gpu.rm.client, handle))


def _object(gpu: Gpu, size: int, kind: Kind, page: int) -> int:
    fields = {
        "owner": gpu.rm.client,
        "size": size,
        "alignment": page,
        "limit": size - 1,
        "format": 0,
    }
    flags = nv_rm.MEMORY_IGNORE_BANK_PLACEMENT | nv_rm.MEMORY_ALIGNMENT_FORCE
    flags |= nv_rm.MEMORY_MAP_NOT_REQUIRED
    if kind in (Kind.VRAM, Kind.CONTIGUOUS):
        is_huge = page == HUGE_PAGE
        contiguous = kind is Kind.CONTIGUOUS
        return gpu.rm.alloc(
            gpu.device,
            classes.NV01_MEMORY_LOCAL_USER,
            nv_rm.MEMORY,
            **fields,
            type=nv_rm.MEMORY_TYPE_IMAGE,
            flags=flags | nv_rm.MEMORY_PERSISTENT,
            attr=(nv_rm.ATTR_PAGE_SIZE_HUGE if is_huge else nv_rm.ATTR_PAGE_SIZE_4K)
            | (
                nv_rm.ATTR_PHYSICALITY_CONTIGUOUS
                if contiguous
                else nv_rm.ATTR_PHYSICALITY_ALLOW_NONCONTIGUOUS
            ),
            attr2=nv_rm.ATTR2_ZBC_PREFER_NONE
            | nv_rm.ATTR2_GPU_CACHEABLE_YES
            | (nv_rm.ATTR2_HUGE_2M if is_huge else 0),
        )
    is_cached = kind is Kind.HOST
    return gpu.rm.alloc(
        gpu.device,
        classes.NV01_MEMORY_SYSTEM,
        nv_rm.MEMORY,
        **fields,
        type=nv_rm.MEMORY_TYPE_NOTIFIER,
        flags=flags,
        attr=nv_rm.ATTR_LOCATION_PCI
        | nv_rm.ATTR_PAGE_SIZE_4K
        | nv_rm.ATTR_PHYSICALITY_ALLOW_NONCONTIGUOUS
        | (nv_rm.ATTR_COHERENCY_WRITE_BACK if is_cached else nv_rm.ATTR_COHERENCY_UNCACHED),
        attr2=nv_rm.ATTR2_ZBC_PREFER_NONE | nv_rm.ATTR2_GPU_CACHEABLE_NO,
    )


def _reserve_bar1(gpu: Gpu, size: int) -> None:
    if gpu.bar1_bytes and gpu.bar1_used + size > gpu.bar1_bytes:
        raise OutOfMemory(
            f"{gpu.name}: {size} more bytes of video memory do not fit through BAR1",
            device=gpu.name,
            facts={"asked": size, "bar1_size": gpu.bar1_bytes, "bar1_used": gpu.bar1_used},
            hint="turn on resizable BAR in the firmware, or use cpu_access=False or host=True",
        )
    gpu.bar1_used += size


def _release_bar1(gpu: Gpu, size: int) -> None:
    gpu.bar1_used -= size


class Memory(Buffers):
    """Buffers of one device."""

    def __init__(
        self, gpu: Gpu, device: Any, passed: Callable[[], int], drain: Callable[[], None]
    ) -> None:
        super().__init__(device, passed, drain)
        self._gpu = gpu

    def obtain(self, size: int, kind: Kind, *, view: bool) -> Allocation:
        """Whole pages from the kernel."""
        return allocate(self._gpu, size, kind, view=view, low=False)

    def give_back(self, owner: Allocation) -> None:
        """Take memory back to the kernel."""
        free(self._gpu, owner)

    def take_over(self, address: int, size: int) -> Allocation:
        """Pages of this process for the GPU too."""
        return adopt(self._gpu, address, size)

    def is_shortage(self, error: Exception) -> bool:
        """Out of memory, of address space, or of room in BAR1."""
        import errno

        if isinstance(error, RmError):
            return error.status == nv_escape.INSUFFICIENT_RESOURCES
        if isinstance(error, IoctlError):
            return False
        if isinstance(error, OutOfMemory):
            return True
        return getattr(error, "errno", None) == errno.ENOMEM

    def shortage(self, asked: int, kind: Kind) -> tuple[str, dict[str, object]]:
        """What the kernel says is left."""
        is_vram = kind in (Kind.VRAM, Kind.CONTIGUOUS)
        return kind.value, {
            "largest": self._gpu.free_bytes() if is_vram else "unknown",
            "limit": self._gpu.memory_bytes if is_vram else "unknown",
            "bar1_size": self._gpu.bar1_bytes or "unknown",
        }
