"""Freed device memory kept for reuse, least recently freed given up first.

Only a container: which blocks may enter, and giving blocks back to the driver,
is the allocator's business (runtime/allocator.py).
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, TypeVar

Key = tuple[int, int]  # (bytes, a number for the options); a cache belongs to one device
T = TypeVar("T")


@dataclass(frozen=True)
class Statistics:
    """One device's memory in bytes, and what it took.

    live: held by buffers. cached: freed, kept for reuse. reserved: both. peak:
    the most that was live. calls: allocations asked of the driver. retries:
    driver calls made again after the cache was dropped. failures: OutOfMemory raised.
    """

    live: int
    cached: int
    peak: int
    calls: int
    retries: int
    failures: int

    @property
    def reserved(self) -> int:
        """Bytes taken from the driver: live and cached."""
        return self.live + self.cached


class ReuseCache(Generic[T]):
    """Blocks by (bytes, options). Not thread-safe: the allocator's lock covers it."""

    def __init__(self) -> None:
        self.size = 0  # bytes held
        self._order: OrderedDict[int, tuple[Key, T]] = OrderedDict()  # oldest first
        self._by_key: dict[Key, list[int]] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._order)

    def put(self, key: Key, block: T) -> None:
        """Keep a freed block."""
        number = self._next
        self._next += 1
        self._order[number] = (key, block)
        self._by_key.setdefault(key, []).append(number)
        self.size += key[0]

    def take(self, key: Key) -> T | None:
        """A block of exactly this size and options, the most recently freed; None if none."""
        numbers = self._by_key.get(key)
        if not numbers:
            return None
        _, block = self._order.pop(numbers.pop())
        if not numbers:
            del self._by_key[key]
        self.size -= key[0]
        return block

    def evict(self, limit: int) -> list[T]:
        """Give up the oldest blocks until at most `limit` bytes are held."""
        out: list[T] = []
        while self.size > limit and self._order:
            number, (key, block) = self._order.popitem(last=False)
            numbers = self._by_key[key]
            numbers.remove(number)
            if not numbers:
                del self._by_key[key]
            self.size -= key[0]
            out.append(block)
        return out

    def blocks(self) -> list[T]:
        """What is held now, oldest first."""
        return [block for _, block in self._order.values()]

    @property
    def largest(self) -> int:
        """Bytes of the largest block held; 0 if empty."""
        return max((key[0] for key, _ in self._order.values()), default=0)
