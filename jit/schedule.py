"""Graph to calls: `schedule`. A graph of a known shape is planned only once.

A plan holds no buffers. Using one makes the buffers it needs, settles the nodes whose
values will lie in them, and lists the calls. Setting SCACHE=0 plans every time.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hcq.errors import BufferUseError
from hcq.settings import get
from jit.emit import options
from jit.graph import Node, Op
from jit.kernels import counters, node_key
from jit.plan import Planner, Problem, Span
from jit.steps import Fresh, Launch, Plan
from runtime.call import Call, CopyCall, ProgramCall

if TYPE_CHECKING:
    from runtime.buffer import Buffer

_LIMIT = 1024  # plans remembered
_plans: OrderedDict[tuple[Any, ...], Plan] = OrderedDict()


def schedule(outputs: Sequence[Node], assigns: Sequence[tuple[Node, Node]] = ()) -> list[Call]:
    """The calls that give every output its value and carry out the assigns.

    Outputs are settled: `.realized` is set, though the bytes are there only once the
    calls have run. An assign is (target, value); the target is a node with memory or a
    view of one (no PAD, no EXPAND). All values are what they were before any assign; where
    targets overlap the last assign wins. BufferUseError for a target without memory or
    of another shape, dtype or device than its value.
    """
    for target, value in assigns:
        _check(target, value)
    wanted = [node for node in dict.fromkeys(outputs) if node.realized is None]
    if not wanted and not assigns:
        return []
    graph = _Graph(wanted, assigns)
    plan = _plans.get(graph.key) if get("SCACHE") else None
    if plan is None:
        plan = Planner(graph.problem()).run()
        counters.scheduled += 1
        if get("SCACHE"):
            _plans[graph.key] = plan
            if len(_plans) > _LIMIT:
                _plans.popitem(last=False)
    else:
        counters.found += 1
    return _bind(plan, graph)


class _Graph:
    """A graph taken apart: its key, and the buffers and variables that the key leaves out."""

    def __init__(self, outputs: Sequence[Node], assigns: Sequence[tuple[Node, Node]]) -> None:
        roots = [*outputs, *(node for pair in assigns for node in pair)]
        self.outputs = outputs
        self.assigns = assigns
        self.buffers: list[Buffer] = []
        self.variables: dict[str, int] = {}
        self.slots: dict[int, int] = {}
        self._known: dict[tuple[Any, ...], int] = {}
        at: dict[Node, int] = {}
        rows = self._rows(roots, at)
        self.nodes = list(at)
        ends = tuple(at[node] for node in roots)
        # Without assigns no memory is written that is also read, so overlaps do not matter.
        overlaps = tuple(self._spans()) if assigns else ()
        devices = tuple(buffer.device for buffer in self.buffers)
        placed = [node.device for node in self.nodes]
        placed = placed if len(set(placed)) > 1 else placed[:1]
        self.key = (tuple(rows), ends, len(outputs), overlaps, devices, tuple(placed), options())

    def _rows(self, roots: Sequence[Node], at: dict[Node, int]) -> list[tuple[Any, ...]]:
        """One row of the key per node, sources first; fills in the nodes' positions.

        The hot loop of a cached schedule, therefore not made of smaller functions.
        """
        rows: list[tuple[Any, ...]] = []
        stack = [*reversed(roots)]
        while stack:
            node = stack.pop()
            if node in at:
                continue
            if node.realized is not None:
                at[node] = len(rows)
                rows.append(
                    ("memory", node.dtype.name, node.shape, self._slot(node, node.realized))
                )
                continue
            missing = [source for source in node.src if source not in at]
            if missing:
                stack.append(node)
                stack += reversed(missing)
                continue
            at[node] = len(rows)
            if node.src:
                places = [at[source] for source in node.src]
                rows.append((node.op, node.dtype.name, node.shape, node.arg, *places))
                continue
            if node.op is Op.VARIABLE:
                self._bind_variable(*node.arg)
            rows.append(node_key(node))
        return rows

    def problem(self) -> Problem:
        """The graph as the planner takes it."""
        return Problem(self.nodes, self.outputs, self.assigns, self.slots, self._spans())

    def _slot(self, node: Node, buffer: "Buffer") -> int:
        """The number of the node's memory: the same for the same bytes read as the same type."""
        key = (id(buffer.base), buffer.offset, node.size, node.dtype.name)
        slot = self._known.get(key)
        if slot is None:
            slot = self._known[key] = len(self.buffers)
            self.buffers.append(buffer)
        self.slots[id(node)] = slot
        return slot

    def _spans(self) -> list[Span]:
        bases: dict[int, int] = {}
        return [
            Span(bases.setdefault(id(b.base), len(bases)), b.offset, b.offset + b.size)
            for b in self.buffers
        ]

    def _bind_variable(self, name: str, least: int, most: int, value: int) -> None:
        if self.variables.setdefault(name, value) != value:
            raise BufferUseError(
                f"variable {name!r} is bound to two values in one graph",
                facts={"first": self.variables[name], "second": value},
                hint="realize one result before binding the variable again",
            )


def _bind(plan: Plan, graph: _Graph) -> list[Call]:
    """The plan's calls on this graph's buffers."""
    from runtime.buffer import Buffer

    buffers = list(graph.buffers)
    for slot in plan.made:
        if isinstance(slot, Fresh):
            buffers.append(Buffer(slot.device, slot.count, slot.dtype))
        else:
            buffers.append(buffers[slot.slot].view(slot.count, slot.dtype, slot.offset))
    calls: list[Call] = []
    for step in plan.steps:
        if isinstance(step, Launch):
            calls.append(_program_call(step, buffers, graph.variables))
        else:
            calls.append(CopyCall(buffers[step.target], buffers[step.source]))
    for position, number in plan.settled:
        graph.nodes[position].settle(buffers[number])
    return calls


def _program_call(
    step: Launch, buffers: Sequence["Buffer"], variables: Mapping[str, int]
) -> ProgramCall:
    return ProgramCall(
        step.kernel,
        tuple([buffers[slot] for slot in step.slots]),
        step.device,
        step.outputs,
        {name: variables[name] for name in step.kernel.variables},
        step.estimate,
    )


def _check(target: Node, value: Node) -> None:
    same = (target.shape, target.dtype, target.device) == (value.shape, value.dtype, value.device)
    if not same:
        raise BufferUseError(
            f"{value} cannot be assigned to {target}",
            device=target.device,
            facts={"target": target.device, "value": value.device},
            hint="shape, dtype and device of both must be equal",
        )
