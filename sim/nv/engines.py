"""What the methods of an engine class are handed to: latches that keep a value, and actions.

A method that is neither is refused; nothing is a no-op by default.
"""

from array import array
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from hcq.errors import SimFault

if TYPE_CHECKING:
    from sim.nv.channel import Channel

Action = Callable[[Any, int], bool]


class Engine:
    """One class bound to one subchannel of a channel."""

    unit: ClassVar[str] = ""
    latches: ClassVar[Collection[int]] = ()
    actions: ClassVar[Mapping[int, Action]] = {}
    bulk: ClassVar[Collection[int]] = ()  # methods that take many words at once

    def __init__(self, channel: "Channel", number: int) -> None:
        self.channel = channel
        self.number = number
        self.state: dict[int, int] = {}

    def is_bulk(self, offset: int) -> bool:
        """Whether a method takes all its words in one piece."""
        return offset in self.bulk

    def write(self, offset: int, data: "array[int]") -> bool:
        """Carry out a method; False: it waits."""
        if offset in self.bulk:
            self.take(offset, data)
            return True
        if offset in self.latches:
            self.state[offset] = data[0]
            return True
        action = self.actions.get(offset)
        if action is None:
            raise SimFault(f"class {self.number:#06x}: method {offset:#06x} is not simulated")
        return action(self, data[0])

    def take(self, offset: int, data: "array[int]") -> None:
        """Many words for one method."""
        raise SimFault(f"class {self.number:#06x}: method {offset:#06x} is not simulated")

    def latched(self, offset: int, name: str) -> int:
        """What a latch holds; SimFault when it was never set."""
        if offset not in self.state:
            raise SimFault(f"{name} is used, but was never set")
        return self.state[offset]

    def address(self, upper: int, lower: int, name: str) -> int:
        """An address from two latches."""
        return self.latched(upper, name) << 32 | self.latched(lower, name)


def action(table: dict[int, Action], *offsets: int) -> Callable[[Action], Action]:
    """Register what methods do."""

    def register(function: Action) -> Action:
        for offset in offsets:
            if offset in table:
                raise SimFault(f"method {offset:#06x} has two owners")
            table[offset] = function
        return function

    return register
