"""Doorbell pages: one slice of 64-bit cells for each GPU and process.

A doorbell is memory here, so that compiled code rings it with a plain store. A
cell that nobody rang holds NEVER, which no queue position reaches; a new queue
starts there, so that the last value of the queue before it cannot ring for it.
"""

from hcq.host import MappedRegion
from hcq.ioctl_defs import kfd
from sim.space import AddressSpace

CELL_SIZE = 8
NEVER = (1 << 64) - 1
# Where the slice begins to serve copy queues. Source: Linux amdkfd/kfd_doorbell.c keeps
# fixed places for them, away from the compute queues' low ones.
FIRST_COPY_CELL = 512


class Doorbells:
    """The slice of one GPU."""

    def __init__(self, space: AddressSpace) -> None:
        self._space = space
        self.address = space.anonymous(kfd.DOORBELL_SLICE)
        self._cells = MappedRegion(self.address, kfd.DOORBELL_SLICE).view().cast("Q")
        self._used: set[int] = set()

    def take(self, *, copy: bool) -> int | None:
        """A free cell number, or None when all are taken."""
        count = kfd.DOORBELL_SLICE // CELL_SIZE
        cells = range(FIRST_COPY_CELL, count) if copy else range(FIRST_COPY_CELL)
        free = next((cell for cell in cells if cell not in self._used), None)
        if free is not None:
            self._used.add(free)
            self._cells[free] = NEVER
        return free

    def give_back(self, cell: int) -> None:
        """The queue is gone; what it rang last is forgotten."""
        self._used.discard(cell)
        self._cells[cell] = NEVER

    def value(self, cell: int) -> int:
        """What was rung last, or NEVER."""
        return self._cells[cell]

    def cell_address(self, cell: int) -> int:
        """Where native code watches."""
        return self.address + cell * CELL_SIZE

    def close(self) -> None:
        """Unmap the simulator's own view."""
        self._cells.release()
        self._space.drop(self.address, kfd.DOORBELL_SLICE)
