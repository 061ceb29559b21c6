"""Launch sizes in argument blocks that were laid down without them.

Bank 0 holds the sizes of its launch. A block in the ring is written by the host while no
launch in flight wants other sizes there. Everything else the GPU writes, in front of the
queue and once earlier work is done: a block that is in use, and one in a buffer of the
caller's own, which the host may not see and which copies in flight may still change.
"""

from collections.abc import Callable

from hcq.errors import BufferUseError
from hcq.memory import Buffer
from hcq.nv import methods
from hcq.nv.queue import ComputeQueue, stores
from hcq.queue import plain

Sizes = tuple[tuple[int, ...], tuple[int, ...]]  # grid, block
SizeWords = list[tuple[int, int]]  # address, value

MOST_HELD = 4096


class LaunchSizes:
    """The argument blocks of one device; `at` finds the buffer over an address."""

    def __init__(
        self, name: str, ring: Buffer, at: Callable[[int], tuple[Buffer, int] | None]
    ) -> None:
        self.filled: dict[int, Sizes] = {}  # of blocks that were laid down with them
        self._name = name
        self._ring = ring
        self._at = at
        # What else was laid down last, and whether the launches that read it are done.
        self._held: dict[int, tuple[SizeWords, Callable[[], bool]]] = {}

    def laid_down(self, block: int, sizes: Sizes | None) -> None:
        """A block of the ring is a new one."""
        self._held.pop(block, None)
        if sizes is None:
            self.filled.pop(block, None)
        else:
            self.filled[block] = sizes

    def fill(self, queue: ComputeQueue, is_done: Callable[[], bool]) -> None:
        """Give the blocks of a queue that is about to be published the sizes of its launches.

        What the GPU has to write goes into `queue.first`. BufferUseError for a block that
        lies nowhere.
        """
        queue.first = []
        for block, needed in queue.argument_words.items():
            words = [(address, value) for address, value in needed if isinstance(value, int)]
            if self._may_write(block, words):
                for address, value in words:
                    self._write(address, value)
            else:
                self._check(block, words)
                queue.first += plain(stores(words))
            self._held[block] = words, is_done
        if queue.first:
            queue.first += plain([*methods.wait_idle(), *methods.invalidate_caches()])
        if len(self._held) > MOST_HELD:
            self._held = {block: held for block, held in self._held.items() if not held[1]()}

    def _may_write(self, block: int, words: SizeWords) -> bool:
        if not 0 <= block - self._ring.address < self._ring.size:
            return False
        held = self._held.get(block)
        return held is None or held[0] == words or held[1]()

    def _write(self, address: int, value: int) -> None:
        if self._ring.region is None:
            raise BufferUseError("the argument ring has no host view")
        self._ring.region.write32(address - self._ring.address, value)

    def _check(self, block: int, words: SizeWords) -> None:
        found = self._at(block)
        if found is None or not 0 <= found[1] < found[0].size:
            raise BufferUseError(
                f"{self._name}: the arguments of a launch lie at {block:#x}, in no buffer of it",
                device=self._name,
                facts={"address": hex(block)},
                hint="give what device.arguments() returned, or an address in a buffer",
            )
        buffer, offset = found
        buffer.check(offset, max(address for address, _ in words) + 4 - block)
