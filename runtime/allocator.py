"""Device memory for buffers: reuse first, then the driver, then again after dropping the cache.

`release` is called from finalizers, at any moment and from any thread, also while
this very thread is inside `allocate`. So it only appends to a deque, and settles
what lies there when the lock happens to be free; whoever holds the lock settles
the rest before or after letting go.

A cached block may still be used by queued work. That is safe because a backend
runs everything in the order it was called, and everything a new owner does to
the block is called later.
"""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from hcq.errors import BufferUseError, DeviceError, HcqError, OutOfMemory, Unsupported
from hcq.settings import get
from runtime.backend import Backend, Memory, MemoryOptions
from runtime.cache import Key, ReuseCache, Statistics

PLAIN = MemoryOptions()
# Memory kept for reuse is bounded by what has been live at once, so that changing sizes
# cannot fill a device that has no limit of its own; small devices may keep this much anyway.
CACHE_FLOOR = 64 << 20


class Owner(Protocol):
    """Who has a block, and is told when it is lost."""

    def lose(self, how: str) -> None: ...


def _nobody() -> None:
    return None


class Block:
    """Memory and who has it. `options` is what it was allocated with."""

    __slots__ = ("key", "memory", "name", "options", "owner", "size")

    def __init__(self, memory: Memory, key: Key, options: MemoryOptions) -> None:
        self.memory = memory
        self.key = key
        self.size = key[0]
        self.options = options
        self.name = ""
        self.owner: Callable[[], Owner | None] = _nobody


@dataclass(frozen=True)
class BlockInfo:
    """One line of a snapshot; state: "live" or "cached"."""

    name: str
    size: int
    address: int
    state: str


class Nothing:
    """The memory of a buffer of size zero: no bytes, no driver call."""

    address = 0
    size = 0


NOTHING = Nothing()


class Allocator:
    """Memory of one device. Counts in bytes as asked for."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.name = backend.name
        # Where the device can name buffers in its errors.
        self._label = getattr(backend, "label", None)
        self.owners = threading.Lock()  # held by a buffer while it gets its memory
        self._lock = threading.Lock()
        self._returned: deque[Block] = deque()
        self._cache: ReuseCache[Block] = ReuseCache()
        self._kinds: dict[MemoryOptions, int] = {PLAIN: 0}
        self._blocks: dict[int, Block] = {}  # live ones by id
        self._live = self._peak = self._calls = self._retries = self._failures = 0
        self._is_closed = False

    @property
    def live(self) -> int:
        """Bytes that buffers hold now."""
        self._settle()
        return self._live

    @property
    def statistics(self) -> Statistics:
        """Live, cached and peak bytes; driver calls, retries, failures."""
        self._settle()
        with self._lock:
            return Statistics(
                self._live,
                self._cache.size,
                self._peak,
                self._calls,
                self._retries,
                self._failures,
            )

    def snapshot(self) -> list[BlockInfo]:
        """Every block, live ones first, with the name of its owner."""
        self._settle()
        with self._lock:
            groups = (("live", list(self._blocks.values())), ("cached", self._cache.blocks()))
        return [
            BlockInfo(block.name, block.size, block.memory.address, state)
            for state, blocks in groups
            for block in blocks
        ]

    def allocate(self, size: int, options: MemoryOptions = PLAIN, name: str = "") -> Block:
        """Memory of `size` bytes; OutOfMemory with the device's state when there is none.

        Size 0 costs nothing. Reused blocks are not cleared, unless options.zero.
        """
        if size <= 0:
            if size < 0:
                raise BufferUseError(
                    f"a buffer on {self.name} cannot have {size} bytes",
                    device=self.name,
                    facts={"size": size},
                )
            return Block(NOTHING, (0, 0), options)
        key = size, 0 if options is PLAIN else self._number(options)
        with self._lock:
            if self._returned:
                self._settle_locked()
            block = self._cache.take(key)
            if block is None:
                block = Block(self._from_driver(size, options), key, options)
            block.name = name
            if self._label is not None:
                self._label(block.memory, name)
            if not options.external:
                self._blocks[id(block)] = block
                self._live += size
                if self._live > self._peak:
                    self._peak = self._live
        if self._returned:
            self._settle()
        return block

    def release(self, block: Block) -> None:
        """Take memory back, into the cache where that is allowed. Safe in a finalizer."""
        if block.size and not self._is_closed:
            self._returned.append(block)
            self._settle()

    def drop_cache(self) -> None:
        """Give all cached memory back to the driver."""
        self._settle()
        with self._lock:
            self._evict(0)

    def close(self, how: str) -> None:
        """The device is going away, and with it its memory; later releases do nothing.

        how: what owners say when they are used later.
        """
        self._is_closed = True
        for block in list(self._blocks.values()):
            owner = block.owner()
            if owner is not None:
                owner.lose(how)
        self._returned.clear()
        self._blocks.clear()
        self._live = 0

    def forget(self) -> None:
        """This process must not touch the memory; releases do nothing from here on."""
        self._is_closed = True
        self._returned.clear()

    def _settle(self) -> None:
        while self._returned and self._lock.acquire(blocking=False):
            try:
                self._settle_locked()
            finally:
                self._lock.release()

    def _settle_locked(self) -> None:
        while self._returned:
            block = self._returned.popleft()
            options = block.options
            if options.external:
                continue
            if self._blocks.pop(id(block), None) is None:
                continue
            self._live -= block.size
            if options.nolru or options.zero or not get("LRU"):
                self.backend.free(block.memory)
            else:
                self._cache.put(block.key, block)
                self._evict(max(self._peak, CACHE_FLOOR))

    def _number(self, options: MemoryOptions) -> int:
        """A small number for each set of options; equal options, equal numbers."""
        return self._kinds.setdefault(options, len(self._kinds))

    def _evict(self, limit: int) -> None:
        for block in self._cache.evict(limit):
            self.backend.free(block.memory)

    def _from_driver(self, size: int, options: MemoryOptions) -> Memory:
        self._calls += 1
        try:
            return self._ask(size, options)
        except OutOfMemory:
            pass
        self._retries += 1
        self._calls += 1
        self.backend.synchronize()
        self._evict(0)
        # What the cache gave up goes back only once the device has passed its last use.
        self.backend.synchronize()
        try:
            return self._ask(size, options)
        except OutOfMemory as error:
            self._failures += 1
            raise self._out_of_memory(size, error) from None

    def _ask(self, size: int, options: MemoryOptions) -> Memory:
        try:
            return self.backend.allocate(size, options)
        except (OutOfMemory, DeviceError, Unsupported, BufferUseError):
            raise
        except (HcqError, OSError, MemoryError) as error:
            facts: dict[str, Any] = {"cause": str(error)}
            what, hint = str(error).partition("\n")[0] or type(error).__name__, None
            if isinstance(error, HcqError):
                facts, hint = error.facts, error.hint
            raise OutOfMemory(what, device=self.name, facts=facts, hint=hint) from error

    def _out_of_memory(self, size: int, cause: OutOfMemory) -> OutOfMemory:
        facts: dict[str, Any] = {
            "device": self.name,
            "asked": size,
            "live": self._live,
            "cached": self._cache.size,
            "largest_free": getattr(self.backend, "largest_free", None),
            "limit": getattr(self.backend, "memory_size", None),
        }
        known = {name: value for name, value in facts.items() if value is not None}
        return OutOfMemory(
            f"{self.name} has no memory for {size} bytes: {cause.what}",
            device=self.name,
            facts={**cause.facts, **known},
            hint=cause.hint or "drop tensors that are no longer needed, or use smaller batches",
        )
