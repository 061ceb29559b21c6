"""Argument blocks of launches in a ring of device-visible memory; used again when done."""

from typing import Any

from hcq.errors import BufferUseError, LaunchError
from hcq.memory import Buffer, BumpAllocator
from hcq.work import Work

LEAST_BLOCK = 16


class ArgumentRing:
    """Blocks of one device; `memory` has a host view."""

    def __init__(self, work: Work, memory: Buffer) -> None:
        self._work = work
        self._ring = memory
        self.blocks = BumpAllocator(memory.address, memory.size, work.wait_reused)

    def place(self, data: bytes, alignment: int, kernel: str) -> int:
        """The GPU address of a block with these bytes, good for launches of one submit."""
        with self._work.lock:
            self._work.usable()
            size = max(LEAST_BLOCK, len(data))
            if size > self.blocks.limit:
                raise LaunchError(
                    f"kernel {kernel}: argument bytes {size} is outside the limit "
                    f"{self.blocks.limit}",
                    facts={"kernel": kernel, "value": size, "limit": self.blocks.limit},
                )
            address = self.blocks.take(size, alignment)
            if self._ring.region is None:
                raise BufferUseError("the argument ring has no host view")
            self._ring.region.write(address - self._ring.address, data)
        return address

    def commit(self, queue: Any, value: int) -> None:
        """The argument blocks of a queue are in use until the timeline passes a value."""
        commit = self.blocks.commit
        if queue.laps:
            for block, lap in zip(queue.blocks, queue.laps, strict=False):
                commit(block, value, lap)
        queue.laps = [commit(block, value) for block in queue.blocks]

    def pin(self, queue: Any, count: int = 1) -> None:
        """Keep the argument blocks of a queue that is bound; with -1 no longer."""
        self.commit(queue, 0)
        for block in queue.blocks:
            self.blocks.pin(block, count)
