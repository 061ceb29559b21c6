"""GPU buffers as values, and allocators that hand out parts of an address range.

The allocators know numbers only: no device, no mapping. `RangeAllocator` is a
two-level segregated fit; `BumpAllocator` hands out a ring of bytes whose owners
finish in their own time.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hcq.bits import align
from hcq.errors import BufferUseError, OutOfMemory, QueueError

if TYPE_CHECKING:
    from hcq.host import Region

BLOCK = 256


@dataclass(eq=False)
class Buffer:
    """Memory a GPU can address; `region` is the host's view of it where there is one.

    `owner` is what the driver keeps for it; None for a buffer of no bytes. `freed` is the
    timeline value after which it went back, None while it is in use.
    """

    device: Any
    address: int
    size: int
    region: "Region | None"
    name: str = ""
    owner: Any = None
    freed: int | None = None

    def __repr__(self) -> str:
        state = ", freed" if self.freed is not None else ""
        name = f" {self.name!r}" if self.name else ""
        return f"<Buffer{name} {self.size} bytes at {self.address:#x}{state}>"

    def view(self) -> memoryview:
        """The bytes themselves; BufferUseError when the host cannot address them."""
        self.check(0, 0)
        if self.region is None:
            raise BufferUseError(
                f"buffer {self.label} has no host view",
                facts={"size": self.size},
                hint="copy through device.copy_out(), or allocate it with host=True",
            )
        return self.region.view()

    @property
    def label(self) -> str:
        """Its name, else its address."""
        return self.name or hex(self.address)

    def check(self, offset: int, size: int) -> None:
        """Refuse what lies outside, and any use after free."""
        if self.freed is not None:
            raise BufferUseError(
                f"buffer {self.label} was freed", facts={"freed_at_submission": self.freed}
            )
        if not isinstance(offset, int):
            raise BufferUseError(
                f"buffer {self.label}: an offset is a whole number of bytes, not {offset!r}"
            )
        if offset < 0 or size < 0 or offset + size > self.size:
            raise BufferUseError(
                f"access outside buffer {self.label}",
                facts={"offset": offset, "size": size, "buffer_size": self.size},
            )


class RangeAllocator:
    """Two-level segregated fit over [start, start + size): free lists by size class.

    Blocks are multiples of 256 bytes, alignments are kept, neighbours merge when
    they come back, and running out is OutOfMemory with what was asked and is left.
    """

    SECOND_LEVEL = 16  # classes per power of two

    def __init__(self, start: int, size: int) -> None:
        self.start, self.size = start, size // BLOCK * BLOCK
        self._free: dict[int, int] = {}  # start -> size
        self._ends: dict[int, int] = {}  # end -> start
        self._classes: dict[int, set[int]] = {}
        self._order: list[int] = []  # classes that hold a block, ascending
        self._used: dict[int, int] = {}
        if self.size:
            self._insert(start, self.size)

    @property
    def used(self) -> int:
        """Bytes handed out, as rounded."""
        return sum(self._used.values())

    @property
    def largest(self) -> int:
        """Bytes of the largest free block."""
        return max(self._free.values(), default=0)

    def take(self, size: int, alignment: int = BLOCK) -> int:
        """The address of `size` free bytes."""
        if size <= 0 or alignment & (alignment - 1):
            raise BufferUseError("bad allocation", facts={"size": size, "alignment": alignment})
        size = align(size, BLOCK)
        found = self._find(size, max(alignment, BLOCK))
        if found is None:
            raise OutOfMemory(
                "no free block is large enough",
                facts={"asked": size, "used": self.used, "largest": self.largest},
            )
        block, address = found
        length = self._free[block]
        self._remove(block)
        if address > block:
            self._insert(block, address - block)
        if block + length > address + size:
            self._insert(address + size, block + length - address - size)
        self._used[address] = size
        return address

    def give(self, address: int) -> None:
        """Take a block back and merge it with free neighbours."""
        if address not in self._used:
            raise BufferUseError("this address is not handed out", facts={"address": hex(address)})
        size = self._used.pop(address)
        before = self._ends.get(address)
        if before is not None:
            size += self._free[before]
            self._remove(before)
            address = before
        if address + size in self._free:
            after = address + size
            size += self._free[after]
            self._remove(after)
        self._insert(address, size)

    def _find(self, size: int, alignment: int) -> tuple[int, int] | None:
        first = bisect_left(self._order, self._class(size))
        for level in self._order[first:]:
            for block in self._classes[level]:
                address = align(block, alignment)
                if address + size <= block + self._free[block]:
                    return block, address
        return None

    def _class(self, size: int) -> int:
        blocks = size // BLOCK
        power = blocks.bit_length() - 1
        fraction = (blocks - (1 << power)) * self.SECOND_LEVEL // (1 << power)
        return power * self.SECOND_LEVEL + fraction

    def _insert(self, address: int, size: int) -> None:
        self._free[address] = size
        self._ends[address + size] = address
        level = self._class(size)
        members = self._classes.setdefault(level, set())
        if not members:
            insort(self._order, level)
        members.add(address)

    def _remove(self, address: int) -> None:
        size = self._free.pop(address)
        del self._ends[address + size]
        level = self._class(size)
        self._classes[level].discard(address)
        if not self._classes[level]:
            self._order.remove(level)


@dataclass
class _Segment:
    open: set[int] = field(default_factory=set)  # handed out, not yet submitted
    value: int = 0  # timeline value after which it is free again
    lap: int = 0  # how often it was entered again
    pins: int = 0  # owners that may use their blocks at any time


class BumpAllocator:
    """Bytes handed out one after the other; with `wait`, round and round.

    Without `wait` a full range is OutOfMemory. With it the range is cut into
    segments, and a segment is entered again only when every block in it was
    submitted and `wait(value)` returned for its last submission.
    """

    def __init__(
        self,
        start: int,
        size: int,
        wait: Callable[[int], None] | None = None,
        segments: int = 64,
    ) -> None:
        self.start, self.size = start, size
        self._wait = wait
        self._length = size // segments if wait else size
        self._segments = [_Segment() for _ in range(segments if wait else 1)]
        self._current = 0
        self._offset = 0  # inside the current segment
        self.limit = self._length

    def take(self, size: int, alignment: int = 16) -> int:
        """The address of `size` bytes; commit() tells when their user is done."""
        if size > self._length:
            raise OutOfMemory(
                "block is larger than a segment", facts={"asked": size, "limit": self._length}
            )
        offset = self._aligned(alignment)
        if offset + size > self._length:
            self._advance(size)
            offset = self._aligned(alignment)
            if offset + size > self._length:
                raise OutOfMemory(
                    "block does not fit into a segment at its alignment",
                    facts={"asked": size, "alignment": alignment, "limit": self._length},
                )
        self._offset = offset + size
        address = self.start + self._current * self._length + offset
        if self._wait:
            self._segments[self._current].open.add(address)
        return address

    def commit(self, address: int, value: int, lap: int | None = None) -> int:
        """The block at `address` is in use until the timeline passes `value`.

        Returns the lap to give when the same block is committed again; QueueError when its
        bytes have been handed to someone else since.
        """
        segment = self._segment(address)
        if segment is None:
            return 0
        if lap is not None and lap != segment.lap:
            raise QueueError(
                "the arguments of this queue's launches have been overwritten since",
                facts={"address": hex(address), "ring": self.size},
                hint="bind a queue that is submitted again, or build it anew",
            )
        segment.open.discard(address)
        if value > segment.value:
            segment.value = value
        return segment.lap

    def pin(self, address: int, count: int = 1) -> None:
        """Keep a block's bytes until as many `count=-1` calls have come."""
        segment = self._segment(address)
        if segment is not None:
            segment.pins += count

    def _segment(self, address: int) -> _Segment | None:
        index = (address - self.start) // self._length
        return self._segments[index] if 0 <= index < len(self._segments) else None

    def _aligned(self, alignment: int) -> int:
        base = self.start + self._current * self._length
        return align(base + self._offset, alignment) - base

    def _advance(self, size: int) -> None:
        if self._wait is None:
            raise OutOfMemory(
                "range is full", facts={"asked": size, "left": self._length - self._offset}
            )
        # A segment with pinned blocks, or some that nobody submitted yet, is left out.
        for step in range(1, len(self._segments) + 1):
            index = (self._current + step) % len(self._segments)
            segment = self._segments[index]
            if not segment.open and not segment.pins:
                self._wait(segment.value)
                segment.lap += 1
                self._current, self._offset = index, 0
                return
        raise QueueError(
            "every part of the ring holds blocks of bound queues, or some never submitted",
            facts={"size": self.size, "asked": size},
            hint="submit the queues that were built, unbind some, or build fewer at once",
        )


class FreedBuffers:
    """The last buffers that went back, so that a fault can name them."""

    def __init__(self, count: int = 256) -> None:
        self._last: deque[Buffer] = deque(maxlen=count)

    def add(self, buffer: Buffer) -> None:
        """Remember a buffer that was freed."""
        self._last.append(buffer)

    def at(self, address: int) -> Buffer | None:
        """The last buffer that lay over an address."""
        covering = [b for b in self._last if b.address <= address < b.address + b.size]
        return covering[-1] if covering else None
