"""Where code lies: memory for programs in chunks, shared by them."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from hcq.bits import align
from hcq.copies import Copies
from hcq.errors import OutOfMemory
from hcq.memory import Buffer, RangeAllocator
from hcq.work import Work

CHUNK_BYTES = 2 << 20
CODE_ALIGNMENT = 256


class Placed(Protocol):
    """A program: its code, and where that lies; 0 when it was freed."""

    address: int
    image: bytes


P = TypeVar("P", bound=Placed)


class CodeMemory:
    """Hands out code memory; a part given back is free once the GPU is done with it."""

    def __init__(self, work: Work, copies: Copies, allocate: Callable[[int], Buffer]) -> None:
        self._work = work
        self._copies = copies
        self._allocate = allocate
        self._chunks: list[tuple[Buffer, RangeAllocator]] = []
        self._waiting: list[tuple[int, int]] = []  # (last use, address)

    def upload(self, size: int, make: Callable[[int], P]) -> P:
        """The program that `make` builds for an address, its code uploaded."""
        with self._work.lock:
            address, chunk = self._take(size)
        try:
            program = make(address)
            # Not under the lock: it may wait for the GPU and for other threads' copies.
            self._copies.copy_in(chunk, address - chunk.address, program.image)
        except BaseException:  # Ctrl-C too must not cost code memory
            self._give(address)
            raise
        return program

    def unload(self, program: Placed) -> None:
        """Take a program's code back; idempotent."""
        if program.address and not self._work.is_closed:
            self._give(program.address)
        program.address = 0

    def _take(self, size: int) -> tuple[int, Buffer]:
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

    def _give(self, address: int) -> None:
        with self._work.lock:
            self._waiting.append((self._work.timeline.submitted, address))
            self._collect()

    def _collect(self) -> None:
        passed = self._work.timeline.reached
        while self._waiting and self._waiting[0][0] <= passed:
            _, address = self._waiting.pop(0)
            for buffer, free in self._chunks:
                if buffer.address <= address < buffer.address + buffer.size:
                    free.give(address)
