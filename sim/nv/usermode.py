"""The page of doorbell and clock that the driver maps, 64 KiB.

The doorbell is memory here, so that compiled code rings it with a plain store of a
work submit token. The device takes the token away again; a cell that nobody rang holds
NEVER. The clock stands still in memory and is brought up to date when it is read.
"""

from collections.abc import Callable

from hcq.bits import hi32, lo32
from hcq.host import MappedRegion
from hcq.nv.defs import host
from sim.clock import Clock
from sim.space import AddressSpace

NEVER = (1 << 64) - 1


class Usermode:
    """The page of one GPU."""

    def __init__(self, space: AddressSpace, clock: Clock) -> None:
        self._space = space
        self._clock = clock
        self.address = space.anonymous(host.USERMODE_BYTES)
        self._words = MappedRegion(self.address, host.USERMODE_BYTES)
        self._words.write64(host.NOTIFY_CHANNEL_PENDING, NEVER)

    @property
    def cell_address(self) -> int:
        """Where native code watches."""
        return self.address + host.NOTIFY_CHANNEL_PENDING

    @property
    def value(self) -> int:
        """What the doorbell holds."""
        return self._words.read64(host.NOTIFY_CHANNEL_PENDING)

    def take(self) -> int | None:
        """The token that was rung for last, once; None when nobody rang."""
        value = self.value
        if value == NEVER:
            return None
        # A store between the two is lost, but what it announced is in memory already.
        self._words.write64(host.NOTIFY_CHANNEL_PENDING, NEVER)
        return lo32(value)

    def tick(self) -> None:
        """Bring the clock in memory up to date."""
        now = self._clock.nanoseconds()
        self._words.write32(host.TIME_0, lo32(now))
        self._words.write32(host.TIME_1, hi32(now))

    def close(self) -> None:
        """Unmap the simulator's own view."""
        self._space.drop(self.address, host.USERMODE_BYTES)


class UsermodeRegion(MappedRegion):
    """A view of the page whose clock runs."""

    def __init__(self, address: int, size: int, tick: Callable[[], None]) -> None:
        super().__init__(address, size)
        self._tick = tick

    def read32(self, offset: int) -> int:
        self._tick()
        return super().read32(offset)

    def read64(self, offset: int) -> int:
        self._tick()
        return super().read64(offset)

    def window(self, offset: int, size: int) -> "UsermodeRegion":
        """A part of this view; its clock runs as well."""
        self._span(offset, size)
        return UsermodeRegion(self.address + offset, size, self._tick)
