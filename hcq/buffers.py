"""Buffers of one device: what is allocated, what waits to be freed, what lies where.

How memory is had from the kernel is the vendor's: `obtain`, `give_back`.
"""

from bisect import bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from hcq.bits import align
from hcq.errors import BufferUseError, OutOfMemory
from hcq.host import PAGE, Region
from hcq.memory import Buffer, FreedBuffers

MAX_BYTES = 1 << 46
NEAR_BYTES = 64 << 20  # further from a buffer than this, an address has nothing to do with it


class Owned(Protocol):
    """What the kernel gave for a buffer."""

    address: int
    size: int
    region: Region | None

    @property
    def is_vram(self) -> bool: ...


def view_of(owner: Owned) -> Region:
    """What the CPU sees of memory that was asked for with a view."""
    if owner.region is None:
        raise BufferUseError("memory of a queue needs a host view")
    return owner.region


@dataclass
class Statistics:
    """Counters of a device's memory, in bytes and calls."""

    live: int = 0
    peak: int = 0
    allocations: int = 0
    frees: int = 0
    retries: int = 0
    failures: int = 0


class Buffers:
    """Base of a vendor's memory. `drain` waits for all work; `passed` is the last value done."""

    def __init__(self, device: Any, passed: Callable[[], int], drain: Callable[[], None]) -> None:
        self._device = device
        self._passed = passed
        self._drain = drain
        self._live: dict[int, Buffer] = {}
        self._addresses: list[int] = []  # of live buffers, sorted
        self._waiting: list[tuple[int, Buffer]] = []
        self._gone = FreedBuffers()
        self.stats = Statistics()
        self.visible_vram = 0  # buffers whose host writes go through the BAR

    # What a vendor fills in.

    def obtain(self, size: int, kind: Any, *, view: bool) -> Any:
        """Whole pages of a kind from the kernel."""
        raise NotImplementedError

    def give_back(self, owner: Any) -> None:
        """Take memory back to the kernel."""
        raise NotImplementedError

    def take_over(self, address: int, size: int) -> Any:
        """Whole pages of this process for the GPU too."""
        raise NotImplementedError

    def is_shortage(self, error: Exception) -> bool:
        """Whether an error says that memory ran out."""
        raise NotImplementedError

    def shortage(self, asked: int, kind: Any) -> tuple[str, dict[str, object]]:
        """The kind of memory in words, and facts about how much there is."""
        raise NotImplementedError

    def allocate(self, size: int, kind: Any, *, view: bool, name: str = "") -> Buffer:
        """A buffer; OutOfMemory after frees in flight were waited for and it was tried again."""
        if not isinstance(size, int):
            raise BufferUseError(
                f"{self._device.name}: a size is a whole number of bytes, not {size!r}",
                facts={"size": repr(size)},
            )
        if size < 0:
            raise BufferUseError(
                f"{self._device.name}: a buffer cannot have {size} bytes", facts={"size": size}
            )
        if size == 0:
            return Buffer(self._device, 0, 0, None, name)
        owner = self._get(align(size, PAGE), kind, view, size)
        # A window of its own: it is made invalid when the buffer goes, the mapping is not.
        region = None if owner.region is None else owner.region.window(0, size)
        buffer = Buffer(self._device, owner.address, size, region, name, owner)
        self.add(buffer)
        return buffer

    def adopt(self, address: int, size: int, name: str = "") -> Buffer:
        """Pages of this process that the GPU may use too; the caller keeps them alive."""
        are_numbers = isinstance(address, int) and isinstance(size, int)
        if not are_numbers or address % PAGE or size % PAGE or address <= 0 or size <= 0:
            raise BufferUseError(
                "user memory must be whole pages", facts={"address": address, "size": size}
            )
        owner = self.take_over(address, size)
        buffer = Buffer(self._device, address, size, None, name, owner)
        self.add(buffer)
        return buffer

    def add(self, buffer: Buffer) -> None:
        """Keep a buffer, so that faults can name it and it goes back in the end."""
        self._live[buffer.address] = buffer
        insort(self._addresses, buffer.address)
        self.visible_vram += _is_visible_vram(buffer)
        self.stats.live += buffer.owner.size
        self.stats.peak = max(self.stats.peak, self.stats.live)
        self.stats.allocations += 1

    def _get(self, pages: int, kind: Any, view: bool, asked: int) -> Any:
        if pages > MAX_BYTES:
            raise self._out_of_memory(asked, kind, "address space is 47 bits", None)
        self.collect()
        try:
            return self.obtain(pages, kind, view=view)
        except (OutOfMemory, OSError) as error:
            if not self.is_shortage(error):
                raise
        self.stats.retries += 1
        self._drain()
        self.collect()
        try:
            return self.obtain(pages, kind, view=view)
        except (OutOfMemory, OSError) as error:
            if not self.is_shortage(error):
                raise
            self.stats.failures += 1
            reason, hint = str(error).splitlines()[0], getattr(error, "hint", None)
            raise self._out_of_memory(asked, kind, reason, hint) from None

    def _out_of_memory(self, asked: int, kind: Any, reason: str, hint: str | None) -> OutOfMemory:
        what, facts = self.shortage(asked, kind)
        return OutOfMemory(
            f"{self._device.name}: {asked} bytes of {what} cannot be had",
            device=self._device.name,
            facts={"asked": asked, "live": self.stats.live, **facts, "reason": reason},
            hint=hint or "free buffers, or use a smaller batch; other programs may hold the rest",
        )

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
        _hide(buffer)  # its pages may go at any moment
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
        self.visible_vram -= _is_visible_vram(buffer)
        self.stats.live -= buffer.owner.size
        self.stats.frees += 1
        self.give_back(buffer.owner)

    def close(self) -> None:
        """Free everything, last allocated first."""
        rest = [b for _, b in self._waiting] + list(self._live.values())
        self._waiting, self._live, self._addresses = [], {}, []
        for buffer in reversed(rest):
            if buffer.freed is None:
                buffer.freed = self._passed()
            _hide(buffer)
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
        if _distance(buffer, address) > NEAR_BYTES:
            return f"no buffer near: {buffer.label} is the nearest, and far away"
        if offset < 0:
            return f"{what}, {-offset} bytes before its start"
        if offset >= buffer.size:
            return f"{what}, {offset - buffer.size} bytes past its end"
        return f"{what}, offset {offset}"


def _hide(buffer: Buffer) -> None:
    if buffer.region is not None:
        buffer.region.invalidate()
        buffer.region = None


def _is_visible_vram(buffer: Buffer) -> int:
    return int(buffer.owner.is_vram and buffer.owner.region is not None)


def _distance(buffer: Buffer, address: int) -> int:
    if address < buffer.address:
        return buffer.address - address
    return address - buffer.address - buffer.size
