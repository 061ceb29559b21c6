"""Where code lies: memory for programs in chunks, shared by them."""

from collections.abc import Callable

from hcq.bits import align
from hcq.errors import OutOfMemory
from hcq.memory import Buffer, RangeAllocator

CHUNK_BYTES = 2 << 20
CODE_ALIGNMENT = 256


class CodeMemory:
    """Hands out code memory; a part given back is free once the GPU is done with it."""

    def __init__(self, allocate: Callable[[int], Buffer], passed: Callable[[], int]) -> None:
        self._allocate = allocate
        self._passed = passed
        self._chunks: list[tuple[Buffer, RangeAllocator]] = []
        self._waiting: list[tuple[int, int]] = []  # (last use, address)

    def take(self, size: int) -> tuple[int, Buffer]:
        """(GPU address, the chunk it lies in) for size bytes of code."""
        self._collect()
        for buffer, free in self._chunks:
            try:
                return free.take(size, CODE_ALIGNMENT), buffer
            except OutOfMemory:
                continue
        buffer = self._allocate(align(max(size, CHUNK_BYTES), CHUNK_BYTES))
        free = RangeAllocator(buffer.address, buffer.size)
        self._chunks.append((buffer, free))
        return free.take(size, CODE_ALIGNMENT), buffer

    def give(self, address: int, last_use: int) -> None:
        """Take code back after a timeline value."""
        self._waiting.append((last_use, address))
        self._collect()

    def _collect(self) -> None:
        passed = self._passed()
        while self._waiting and self._waiting[0][0] <= passed:
            _, address = self._waiting.pop(0)
            for buffer, free in self._chunks:
                if buffer.address <= address < buffer.address + buffer.size:
                    free.give(address)
