"""Plans as plain data, and the memory that their temporaries share.

A plan has slots instead of buffers. The first ones are the buffers that a graph is
given; the others are made anew each time the plan is used, or are views.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from jit.dtype import DType
from jit.kernel import Kernel
from runtime.call import Estimate
from runtime.log import say


@dataclass(frozen=True)
class Fresh:
    """A buffer to be made."""

    device: str
    count: int
    dtype: DType


@dataclass(frozen=True)
class View:
    """Some elements of another slot, from a byte offset."""

    slot: int
    count: int
    dtype: DType
    offset: int


@dataclass(frozen=True)
class Launch:
    """Run a kernel on slots, outputs first."""

    kernel: Kernel
    slots: tuple[int, ...]
    device: str
    outputs: int
    estimate: Estimate


@dataclass(frozen=True)
class Transfer:
    """Copy one slot to another, maybe on another device."""

    target: int
    source: int


@dataclass(frozen=True)
class Plan:
    """What to do for one graph. settled: positions in the graph's walk and their slots."""

    made: tuple[Fresh | View, ...]
    steps: tuple[Launch | Transfer, ...]
    settled: tuple[tuple[int, int], ...]


def share_temporaries(plan: Plan, inputs: int) -> Plan:
    """The plan with temporaries put where earlier ones lay that nothing needs any more.

    inputs: how many slots are given. Steps run in order, so a slot is free after the last
    step that names it. Only slots of the same device, count and dtype are exchanged.
    """
    sharing = _Sharing(plan, inputs)
    for n, step in enumerate(plan.steps):
        sharing.step(n, step)
    numbers = sharing.numbers
    steps = tuple(_moved(step, numbers) for step in plan.steps)
    settled = tuple((at, numbers[slot]) for at, slot in plan.settled)
    shared = Plan(tuple(sharing.made), steps, settled)
    _say_saved(plan, shared)
    return shared


def _say_saved(plan: Plan, shared: Plan) -> None:
    """DEBUG=1: what sharing saved, if it did."""
    before, after = (
        [made for made in which.made if isinstance(made, Fresh)] for which in (plan, shared)
    )
    if len(after) < len(before):
        old, new = (sum(m.count * m.dtype.itemsize for m in which) for which in (before, after))
        text = f"memory plan: {len(before)} buffers in {len(after)}, {old} bytes in {new}"
        say(1, text, "jit")


class _Sharing:
    """Gives slots new numbers, step by step."""

    def __init__(self, plan: Plan, inputs: int) -> None:
        self.plan = plan
        self.inputs = inputs
        self.made: list[Fresh | View] = []
        self.numbers = {slot: slot for slot in range(inputs)}
        self._free: dict[Fresh | View, list[int]] = {}
        self._last = {slot: n for n, step in enumerate(plan.steps) for slot in _slots(step)}
        lasting = {slot for _, slot in plan.settled}
        lasting |= {made.slot for made in plan.made if isinstance(made, View)}
        for slot in sorted(lasting - set(self.numbers)):
            self._place(slot)
        self._lasting = lasting | set(self.numbers)

    def step(self, n: int, step: Launch | Transfer) -> None:
        """Place what a step names first; free what it names last."""
        slots = dict.fromkeys(_slots(step))
        for slot in slots:
            if slot not in self.numbers:
                free = self._free.get(self.plan.made[slot - self.inputs])
                if free:
                    self.numbers[slot] = free.pop()
                else:
                    self._place(slot)
        for slot in slots:
            if slot not in self._lasting and self._last[slot] == n:
                kind = self.plan.made[slot - self.inputs]
                self._free.setdefault(kind, []).append(self.numbers[slot])

    def _place(self, slot: int) -> None:
        made = self.plan.made[slot - self.inputs]
        if isinstance(made, View):
            made = replace(made, slot=self.numbers[made.slot])
        self.numbers[slot] = self.inputs + len(self.made)
        self.made.append(made)


def _slots(step: Launch | Transfer) -> Sequence[int]:
    return step.slots if isinstance(step, Launch) else (step.target, step.source)


def _moved(step: Launch | Transfer, numbers: Mapping[int, int]) -> Launch | Transfer:
    if isinstance(step, Launch):
        return replace(step, slots=tuple(numbers[slot] for slot in step.slots))
    return Transfer(numbers[step.target], numbers[step.source])
