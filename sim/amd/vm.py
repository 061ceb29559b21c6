"""Buffers of the simulated kfd process: allocate, map, unmap, free.

Source: Linux amdkfd/kfd_chardev.c (order of checks) and amdgpu/amdgpu_amdkfd_gpuvm.c.
A buffer's memory lies at its GPU address in this process from allocation until it is
freed and the program's view of it is unmapped.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from errno import EBUSY, EFAULT, EINVAL, ENODEV, ENOMEM, EPERM

from hcq.host import MappedRegion, Region
from hcq.ioctl_defs import kfd
from sim import user
from sim.amd.gpu import Gpu
from sim.memory import PAGE
from sim.refusal import Refusal
from sim.space import AddressSpace

GPUVM_BASE = 0x1_0000
GPUVM_LIMIT = (1 << 47) - 1
MMIO_PAGE = 4096
# Offsets for mmap on the render node. Guess: any distinct page-aligned numbers do.
FIRST_OFFSET, OFFSET_STEP = 1 << 32, 1 << 40


@dataclass
class Buffer:
    """One allocation. `mapped` holds the gpu_ids that may use it."""

    handle: int
    gpu: Gpu
    address: int
    size: int
    flags: int
    offset: int
    mapped: set[int] = field(default_factory=set)
    queues: int = 0  # queues that need it
    is_viewed: bool = False  # the program has it mapped at its own address
    is_freed: bool = False

    @property
    def kind(self) -> int:
        """The one flag of VRAM, GTT, USERPTR, DOORBELL, MMIO_REMAP that decides."""
        return next(flag for flag in _KINDS if self.flags & flag)

    @property
    def end(self) -> int:
        """Address after the last byte."""
        return self.address + self.size


_KINDS = (kfd.ALLOC_VRAM, kfd.ALLOC_GTT, kfd.ALLOC_USERPTR, kfd.ALLOC_DOORBELL,
          kfd.ALLOC_MMIO_REMAP)  # fmt: skip


class Buffers:
    """Every buffer of the process."""

    def __init__(self, gpus: Sequence[Gpu], space: AddressSpace) -> None:
        self.gpus = {gpu.gpu_id: gpu for gpu in gpus}
        self.acquired: dict[int, int] = {}  # gpu_id -> the render file whose VM it is
        self.event_page: Buffer | None = None
        self._space = space
        self._by_handle: dict[int, Buffer] = {}
        self._by_offset: dict[int, Buffer] = {}
        self._by_address: dict[int, Buffer] = {}  # those whose memory we placed
        self._doomed: list[Buffer] = []
        self._next = 1
        self._used: dict[tuple[int, int], int] = {}
        self._mmio = {gpu.gpu_id: space.anonymous(MMIO_PAGE) for gpu in gpus}

    def gpu(self, gpu_id: int) -> Gpu:
        """A GPU by its number; EINVAL for an unknown one."""
        if gpu_id not in self.gpus or self.gpus[gpu_id].masked:
            raise Refusal(EINVAL, f"there is no GPU {gpu_id:#x}")
        return self.gpus[gpu_id]

    def bound(self, gpu_id: int, number: int = ENODEV) -> Gpu:
        """A GPU whose VM was acquired; errno `number` otherwise."""
        gpu = self.gpu(gpu_id)
        if gpu_id not in self.acquired:
            raise Refusal(number, f"the VM of GPU {gpu_id:#x} was not acquired")
        return gpu

    def available(self, gpu: Gpu) -> int:
        """Free VRAM in bytes."""
        return gpu.vram - self._used.get((gpu.gpu_id, kfd.ALLOC_VRAM), 0)

    def allocate(self, gpu_id: int, address: int, size: int, flags: int, cpu: int) -> Buffer:
        """ALLOC_MEMORY_OF_GPU; `cpu` is the address of user memory."""
        if not size:
            raise Refusal(EINVAL, "a buffer of no bytes")
        gpu = self.gpu(gpu_id)
        if flags & kfd.ALLOC_PUBLIC and flags & kfd.ALLOC_VRAM and not gpu.large_bar:
            raise Refusal(EINVAL, "CPU-visible VRAM needs a large BAR, this GPU has a small one")
        self.bound(gpu_id)
        if not any(flags & kind for kind in _KINDS):
            raise Refusal(EINVAL, f"flags {flags:#x} name no kind of memory")
        number = self._next
        handle = kfd.HANDLE.pack(gpu_id=gpu_id, idr=number)
        buffer = Buffer(handle, gpu, address, size, flags, self._offset(gpu, flags, number))
        self._check(buffer, cpu)
        self._next += 1
        self._place(buffer)
        self._charge(buffer, size)
        self._by_handle[handle] = buffer
        self._by_offset[buffer.offset] = buffer
        return buffer

    def free(self, handle: int) -> None:
        """FREE_MEMORY_OF_GPU."""
        self.gpu(handle >> 32)
        if self.event_page and self.event_page.handle == handle:
            raise Refusal(EPERM, "the event page cannot be freed")
        buffer = self._by_handle.get(handle)
        if buffer is None:
            raise Refusal(EINVAL, f"there is no buffer {handle:#x}")
        if buffer.mapped:
            raise Refusal(EBUSY, f"buffer {handle:#x} is still mapped")
        del self._by_handle[handle]
        self._by_offset.pop(buffer.offset, None)
        buffer.is_freed = True
        self._charge(buffer, -buffer.size)
        self._settle(buffer)

    def find(self, handle: int) -> Buffer:
        """A buffer for mapping and unmapping."""
        self.gpu(handle >> 32)
        if handle not in self._by_handle:
            raise Refusal(ENOMEM, f"there is no buffer {handle:#x}")
        return self._by_handle[handle]

    def map(self, buffer: Buffer, gpu_id: int) -> None:
        """Let one GPU use a buffer; nothing to do when it may already."""
        gpu = self.bound(gpu_id)
        if gpu_id in buffer.mapped:
            return
        size = -(-buffer.size // PAGE) * PAGE
        if any(gpu.memory.ranges_within(buffer.address, buffer.address + size)):
            raise Refusal(EINVAL, f"{buffer.address:#x}+{size:#x} overlaps another mapping")
        writable = bool(buffer.flags & kfd.ALLOC_WRITABLE)
        executable = bool(buffer.flags & kfd.ALLOC_EXECUTABLE)
        lent = buffer.kind == kfd.ALLOC_USERPTR
        gpu.memory.map(
            buffer.address, size, writable=writable, executable=executable, lent=lent
        )
        buffer.mapped.add(gpu_id)

    def unmap(self, buffer: Buffer, gpu_id: int) -> None:
        """Take a buffer away from one GPU."""
        gpu = self.bound(gpu_id)
        if gpu_id not in buffer.mapped:
            return
        if buffer.queues:
            raise Refusal(EBUSY, f"buffer {buffer.handle:#x} belongs to a queue that lives")
        gpu.memory.unmap(buffer.address, buffer.size)
        buffer.mapped.remove(gpu_id)

    def exact(self, gpu: Gpu, address: int, size: int, what: str) -> Buffer:
        """The mapping a queue needs: EINVAL unless it begins in this page and has this size."""
        page = address // PAGE * PAGE
        for buffer in self._by_handle.values():
            if buffer.address == page and gpu.gpu_id in buffer.mapped:
                if buffer.size != size:
                    found = f"is mapped with {buffer.size:#x} bytes, not {size:#x}"
                    raise Refusal(EINVAL, f"{what} at {address:#x} {found}")
                return buffer
        raise Refusal(EINVAL, f"{what}: no mapping begins at {page:#x}")

    def view(self, gpu: Gpu, size: int, offset: int, address: int | None) -> Region:
        """mmap on a render node."""
        buffer = self._by_offset.get(offset)
        if buffer is None or buffer.gpu is not gpu or size > buffer.size:
            raise Refusal(EINVAL, f"offset {offset:#x} with {size:#x} bytes names no buffer")
        if buffer.kind == kfd.ALLOC_VRAM and not buffer.flags & kfd.ALLOC_PUBLIC:
            raise Refusal(EPERM, "this VRAM was allocated without CPU access")
        if address == buffer.address:
            buffer.is_viewed = True
            return MappedRegion(address, size)
        return MappedRegion(self._space.alias(buffer.address, size, address), size)

    def mmio_view(self, gpu_id: int, size: int, address: int | None) -> Region:
        """mmap of the page with the HDP flush registers, on the kfd node."""
        if size != MMIO_PAGE:
            raise Refusal(EINVAL, f"the MMIO page has {MMIO_PAGE} bytes, not {size:#x}")
        return MappedRegion(self._space.alias(self._mmio[gpu_id], size, address), size)

    def released(self, address: int, size: int) -> None:
        """The program unmapped a span: views in it are gone."""
        for start in [a for a in self._by_address if address <= a < address + size]:
            buffer = self._by_address[start]
            buffer.is_viewed = False
            if buffer.is_freed:
                self._settle(buffer)

    def sweep(self) -> None:
        """Give back memory that a working GPU might still have touched."""
        for buffer in list(self._doomed):
            if not any(gpu.is_working for gpu in self.gpus.values()):
                self._doomed.remove(buffer)
                self._vacate(buffer)

    def close(self) -> None:
        """Give everything back."""
        for page in self._mmio.values():
            self._space.drop(page, MMIO_PAGE)
        for buffer in list(self._by_address.values()):
            self._vacate(buffer)

    def cached(self, gpu: Gpu) -> list[tuple[int, int]]:
        """Address and size of mapped buffers whose content a GPU keeps in its caches."""
        uncached = kfd.ALLOC_UNCACHED | kfd.ALLOC_COHERENT
        return [
            (buffer.address, buffer.size)
            for buffer in list(self._by_handle.values())
            if gpu.gpu_id in buffer.mapped and not buffer.queues and not buffer.flags & uncached
            and buffer.kind in (kfd.ALLOC_VRAM, kfd.ALLOC_GTT)
        ]  # fmt: skip

    def live(self) -> int:
        """How many buffers there are."""
        return len(self._by_handle)

    def _check(self, buffer: Buffer, cpu: int) -> None:
        if buffer.address % PAGE or buffer.size % PAGE:
            raise Refusal(EINVAL, f"{buffer.address:#x}+{buffer.size:#x} are no whole pages")
        if buffer.address < GPUVM_BASE or buffer.end - 1 > GPUVM_LIMIT:
            raise Refusal(EINVAL, f"{buffer.address:#x} lies outside the GPU's address space")
        kind = buffer.kind
        if kind == kfd.ALLOC_DOORBELL and buffer.size != kfd.DOORBELL_SLICE:
            raise Refusal(EINVAL, f"a doorbell slice has {kfd.DOORBELL_SLICE} bytes")
        if kind == kfd.ALLOC_MMIO_REMAP and buffer.size != MMIO_PAGE:
            raise Refusal(EINVAL, f"the MMIO page has {MMIO_PAGE} bytes")
        if kind == kfd.ALLOC_USERPTR:
            _check_user(buffer, cpu)
        gpu = buffer.gpu
        limit = {kfd.ALLOC_VRAM: gpu.vram, kfd.ALLOC_GTT: gpu.limits.gtt}.get(kind)
        if limit is not None and self._used.get((buffer.gpu.gpu_id, kind), 0) + buffer.size > limit:
            raise Refusal(ENOMEM, f"{buffer.size:#x} bytes more than are left of {limit:#x}")

    def _offset(self, gpu: Gpu, flags: int, number: int) -> int:
        if flags & kfd.ALLOC_DOORBELL:
            return kfd.MMAP_OFFSET.pack(type=kfd.MMAP_TYPE_DOORBELL, gpu_id=gpu.gpu_id & 0xFFFF)
        if flags & kfd.ALLOC_MMIO_REMAP:
            return kfd.MMAP_OFFSET.pack(type=kfd.MMAP_TYPE_MMIO, gpu_id=gpu.gpu_id & 0xFFFF)
        return FIRST_OFFSET + OFFSET_STEP * number

    def _place(self, buffer: Buffer) -> None:
        old = self._by_address.get(buffer.address)
        if old in self._doomed:
            self._doomed.remove(old)
            self._vacate(old)
        kind = buffer.kind
        if kind == kfd.ALLOC_USERPTR:
            return
        try:
            if kind == kfd.ALLOC_DOORBELL:
                self._space.place_alias(buffer.address, buffer.size, buffer.gpu.doorbells.address)
            elif kind == kfd.ALLOC_MMIO_REMAP:
                mmio = self._mmio[buffer.gpu.gpu_id]
                self._space.place_alias(buffer.address, buffer.size, mmio)
            else:
                self._space.place(buffer.address, buffer.size)
        except OSError as error:
            raise Refusal(error.errno or EINVAL, str(error)) from error
        self._by_address[buffer.address] = buffer

    def _charge(self, buffer: Buffer, size: int) -> None:
        key = buffer.gpu.gpu_id, buffer.kind
        self._used[key] = self._used.get(key, 0) + size

    def _settle(self, buffer: Buffer) -> None:
        """Give the memory of a freed buffer back when nobody can touch it any more."""
        if buffer.is_viewed or buffer.kind == kfd.ALLOC_USERPTR:
            return
        if any(gpu.is_working for gpu in self.gpus.values()):
            self._doomed.append(buffer)
        else:
            self._vacate(buffer)

    def _vacate(self, buffer: Buffer) -> None:
        if self._by_address.get(buffer.address) is buffer:
            del self._by_address[buffer.address]
            self._space.vacate(buffer.address, buffer.size)


def _check_user(buffer: Buffer, cpu: int) -> None:
    """Every page of user memory has to be there, for writing.

    Source: Linux amdgpu_ttm.c, amdgpu_ttm_tt_get_user_pages; mm/hmm.c.
    """
    if cpu != buffer.address:
        # One address for both is what makes simulated memory accesses plain loads.
        where = f"{cpu:#x} has the GPU address {buffer.address:#x}"
        raise Refusal(EINVAL, f"user memory at {where}")
    missing = user.missing(cpu, buffer.size)
    if not missing:
        return
    start, _ = missing[0]
    try:
        user.read(start, 1)
    except user.UserFault:
        raise Refusal(EFAULT, f"there is no user memory at {start:#x}") from None
    raise Refusal(EPERM, f"user memory at {start:#x} is only for reading")
