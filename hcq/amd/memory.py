"""Memory of one device: what is allocated, what waits to be freed, what lies where."""

from bisect import bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hcq.amd.channel import RING_FLAGS, VRAM
from hcq.amd.kfd import PAGE, Allocation, Kfd
from hcq.amd.topology import Node
from hcq.bits import align
from hcq.errors import BufferUseError, IoctlError, OutOfMemory
from hcq.ioctl_defs import kfd
from hcq.memory import Buffer, FreedBuffers

USER_MEMORY_FLAGS = (
    kfd.ALLOC_USERPTR
    | kfd.ALLOC_COHERENT
    | kfd.ALLOC_NO_SUBSTITUTE
    | kfd.ALLOC_EXECUTABLE
    | kfd.ALLOC_WRITABLE
)
MAX_BYTES = 1 << 46


@dataclass
class Statistics:
    """Counters of a device's memory, in bytes and calls."""

    live: int = 0
    peak: int = 0
    allocations: int = 0
    frees: int = 0
    retries: int = 0
    failures: int = 0


class Memory:
    """Buffers of one device. `drain` waits for all of its work; `passed` is the last value done."""

    def __init__(
        self,
        process: Kfd,
        node: Node,
        device: Any,
        passed: Callable[[], int],
        drain: Callable[[], None],
    ) -> None:
        self._process = process
        self._node = node
        self._device = device
        self._passed = passed
        self._drain = drain
        self._live: dict[int, Buffer] = {}
        self._addresses: list[int] = []  # of live buffers, sorted
        self._waiting: list[tuple[int, Buffer]] = []
        self._gone = FreedBuffers()
        self.stats = Statistics()
        self.visible_vram = 0  # buffers whose host writes go through the BAR

    def allocate(self, size: int, flags: int, *, view: bool, name: str = "") -> Buffer:
        """A buffer; OutOfMemory after frees in flight were waited for and it was tried again."""
        if size < 0:
            raise BufferUseError(
                f"{self._device.name}: a buffer cannot have {size} bytes", facts={"size": size}
            )
        if size == 0:
            return Buffer(self._device, 0, 0, None, name)
        pages = align(size, PAGE)
        allocation = self._get(pages, flags, view, size)
        region = allocation.region
        if region is not None and size < region.size:
            region = region.window(0, size)
        buffer = Buffer(self._device, allocation.address, size, region, name, allocation)
        self._add(buffer)
        return buffer

    def adopt(self, address: int, size: int, name: str = "") -> Buffer:
        """Pages of this process that the GPU may use too; the caller keeps them alive."""
        if address % PAGE or size % PAGE or size <= 0:
            raise BufferUseError(
                "user memory must be whole pages", facts={"address": hex(address), "size": size}
            )
        allocation = self._process.adopt(self._node.gpu_id, address, size, USER_MEMORY_FLAGS)
        buffer = Buffer(self._device, address, size, None, name, allocation)
        self._add(buffer)
        return buffer

    def _add(self, buffer: Buffer) -> None:
        self._live[buffer.address] = buffer
        insort(self._addresses, buffer.address)
        self.visible_vram += self._is_visible_vram(buffer)
        self.stats.live += buffer.owner.size
        self.stats.peak = max(self.stats.peak, self.stats.live)
        self.stats.allocations += 1

    def _get(self, pages: int, flags: int, view: bool, asked: int) -> Allocation:
        if pages > MAX_BYTES:
            raise self._out_of_memory(asked, flags, "address space is 47 bits", None)
        self.collect()
        try:
            return self._process.allocate(self._node.gpu_id, pages, flags, view=view)
        except (IoctlError, OutOfMemory, OSError) as error:
            if not _is_shortage(error):
                raise
        self.stats.retries += 1
        self._drain()
        self.collect()
        try:
            return self._process.allocate(self._node.gpu_id, pages, flags, view=view)
        except (IoctlError, OutOfMemory, OSError) as error:
            if not _is_shortage(error):
                raise
            self.stats.failures += 1
            reason, hint = str(error).splitlines()[0], getattr(error, "hint", None)
            raise self._out_of_memory(asked, flags, reason, hint) from None

    def _out_of_memory(self, asked: int, flags: int, reason: str, hint: str | None) -> OutOfMemory:
        kind = "VRAM" if flags & kfd.ALLOC_VRAM else "host memory"
        return OutOfMemory(
            f"{self._device.name}: {asked} bytes of {kind} cannot be had",
            device=self._device.name,
            facts={
                "asked": asked,
                "live": self.stats.live,
                "largest": self.available() if flags & kfd.ALLOC_VRAM else "unknown",
                "limit": self._node.memory_bytes,
                "reason": reason,
            },
            hint=hint or "free buffers, or use a smaller batch; other programs may hold the rest",
        )

    def available(self) -> int:
        """Bytes of VRAM the kernel says are free; 0 when it does not say."""
        args = self._process.optional(kfd.AVAILABLE_MEMORY, gpu_id=self._node.gpu_id)
        return int(args.available) if args is not None else 0

    def free(self, buffer: Buffer, last_use: int) -> None:
        """Give a buffer back once the timeline passed its last use; BufferUseError twice."""
        if buffer.owner is None and buffer.size == 0:
            return
        if buffer.freed is not None or self._live.get(buffer.address) is not buffer:
            raise BufferUseError(
                f"buffer {buffer.label} is not one of {self._device.name}'s, or was freed",
                facts={"address": hex(buffer.address), "freed_at_submission": buffer.freed},
            )
        buffer.freed = last_use
        buffer.region = None  # its pages may go at any moment
        del self._live[buffer.address]
        self._addresses.remove(buffer.address)
        self._gone.add(buffer)
        self._waiting.append((last_use, buffer))
        self.collect()

    def collect(self) -> None:
        """Really free what the GPU is done with."""
        passed = self._passed()
        while self._waiting and self._waiting[0][0] <= passed:
            _, buffer = self._waiting.pop(0)
            self._release(buffer)

    def _release(self, buffer: Buffer) -> None:
        self.visible_vram -= self._is_visible_vram(buffer)
        self.stats.live -= buffer.owner.size
        self.stats.frees += 1
        self._process.free(buffer.owner)

    @staticmethod
    def _is_visible_vram(buffer: Buffer) -> int:
        flags = buffer.owner.flags
        return int(bool(flags & kfd.ALLOC_VRAM) and bool(flags & kfd.ALLOC_PUBLIC))

    def close(self) -> None:
        """Free everything, last allocated first."""
        rest = [b for _, b in self._waiting] + list(self._live.values())
        self._waiting, self._live, self._addresses = [], {}, []
        for buffer in reversed(rest):
            if buffer.freed is None:
                buffer.freed = self._passed()
            buffer.region = None
            self._release(buffer)

    def at(self, address: int) -> tuple[Buffer, int] | None:
        """The nearest buffer and the address's distance from its start, freed ones included."""
        below = bisect_right(self._addresses, address)
        if below:
            found = self._live[self._addresses[below - 1]]
            if address < found.address + found.size:
                return found, address - found.address
        gone = self._gone.at(address)
        if gone is not None:
            return gone, address - gone.address
        if not self._live:
            return None
        beside = [self._live[a] for a in self._addresses[max(0, below - 1) : below + 1]]
        nearest = min(beside, key=lambda b: _distance(b, address))
        return nearest, address - nearest.address

    def describe(self, address: int) -> str:
        """`weights (65536 bytes), 0 bytes past its end`, or what else is known of an address."""
        found = self.at(address)
        if found is None:
            return "no buffer of this device"
        buffer, offset = found
        what = f"{buffer.label} ({buffer.size} bytes)"
        if buffer.freed is not None:
            return f"{what}, freed at submission {buffer.freed}, offset {offset}"
        if offset < 0:
            return f"{what}, {-offset} bytes before its start"
        if offset >= buffer.size:
            return f"{what}, {offset - buffer.size} bytes past its end"
        return f"{what}, offset {offset}"


def _distance(buffer: Buffer, address: int) -> int:
    if address < buffer.address:
        return buffer.address - address
    return address - buffer.address - buffer.size


def _is_shortage(error: Exception) -> bool:
    import errno

    shortages = (errno.ENOMEM, errno.ENOSPC)
    return isinstance(error, OutOfMemory) or getattr(error, "errno", None) in shortages


# Data is never executable; code asks for it.
UNCACHED_HOST_FLAGS = RING_FLAGS & ~kfd.ALLOC_EXECUTABLE
HOST_FLAGS = UNCACHED_HOST_FLAGS & ~kfd.ALLOC_UNCACHED
VRAM_FLAGS = VRAM & ~kfd.ALLOC_EXECUTABLE
VISIBLE_VRAM_FLAGS = VRAM_FLAGS | kfd.ALLOC_PUBLIC
