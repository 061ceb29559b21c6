"""From a graph to its plan: what is computed, in which kernels, and into which slots.

Decides which outputs are views of memory that exists, which assigns can be written in
place, and in what order everything runs. jit/schedule.py keeps the plans.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hcq.errors import BufferUseError
from jit.emit import Memory
from jit.fuse import Fusion
from jit.graph import Node, Op, contiguous
from jit.kernels import lower_kernel
from jit.lower import Conflict, Root
from jit.movement import contiguous_base
from jit.order import Group, Grouping, Unit, in_order, make_unit
from jit.parts import in_parts
from jit.steps import Fresh, Launch, Plan, Transfer, View, share_temporaries


@dataclass(frozen=True)
class Span:
    """Bytes low..high-1 of some root memory."""

    root: int
    low: int
    high: int

    def meets(self, other: "Span") -> bool:
        """Whether they share a byte."""
        return self.root == other.root and self.low < other.high and other.low < self.high


@dataclass(frozen=True)
class Problem:
    """A graph to plan: nodes as walked; the slot of each node with memory, by id."""

    nodes: Sequence[Node]
    outputs: Sequence[Node]
    assigns: Sequence[tuple[Node, Node]]
    slots: Mapping[int, int]
    spans: Sequence[Span]  # per input slot


@dataclass
class Write:
    """An assignment: node is the value to store, leaf the memory that the view is over."""

    node: Node
    view: Node
    leaf: Node
    in_place: bool = True


_VIEWS = frozenset({Op.RESHAPE, Op.PERMUTE, Op.SLICE})  # each element at most once
# How a kernel reads memory that an assignment overwrites.
_SAME = "same"  # at the index it is computed for
_MOVED = "moved"  # at other indexes
_ALIASED = "aliased"  # as part of another buffer over the same bytes


class Planner:
    """Makes the plan of one problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.made: list[Fresh | View] = []
        self.slots = dict(problem.slots)  # by id of the node
        self.memory: dict[int, Memory] = {}
        for node in problem.nodes:
            if node.realized is not None:
                self.memory[self.slots[id(node)]] = Memory(node.dtype, node.size)
        self.writes = [
            Write(contiguous(value), target, leaf_of(target))
            for target, value in problem.assigns
            if value.size
        ]
        self._written = {id(w.node): w for w in self.writes}
        self.settled: dict[int, int] = {}  # id of node -> slot

    def run(self) -> Plan:
        """The plan."""
        required = self._outputs()
        nodes = [*self.problem.nodes, *(w.node for w in self.writes)]
        at = {id(node): i for i, node in enumerate(nodes)}
        fusion = Fusion(nodes, [at[id(node)] for node in required])
        steps = self._attempt(fusion)
        while steps is None:
            steps = self._attempt(fusion)
        settled = tuple((at[node], slot) for node, slot in self.settled.items())
        return share_temporaries(Plan(tuple(self.made), tuple(steps), settled), self._inputs)

    def _outputs(self) -> list[Node]:
        """Nodes that must be computed; outputs that are views of memory become views."""
        required = []
        aliases = []
        for output in self.problem.outputs:
            base, offset = contiguous_base(output)
            if base.realized is not None and not self._overwritten(base):
                self.settled[id(output)] = self._run_of(base, offset, output)
                continue
            if (
                base.realized is not None
                or base.size != output.size
                or base.dtype is not output.dtype
            ):
                base = output
            required.append(base)
            aliases.append((output, base))
        for node in self.problem.nodes:
            if node.op in (Op.CONTIGUOUS, Op.COPY) and node.realized is None:
                required.append(node)
        for node in required:
            self._give_slot(node)
            self.settled[id(node)] = self.slots[id(node)]
        for output, base in aliases:
            self.settled[id(output)] = self.slots[id(base)]
        return required

    def _run_of(self, base: Node, offset: int, node: Node) -> int:
        """The slot of a node that is a row-major run of a slot, from an element offset."""
        slot = self.slots[id(base)]
        if node.size == base.size and node.dtype is base.dtype:
            return slot
        return self._make(View(slot, node.size, node.dtype, offset * node.dtype.itemsize))

    def _overwritten(self, leaf: Node) -> bool:
        span = self.problem.spans[self.slots[id(leaf)]]
        return any(span.meets(self._span(w)) for w in self.writes)

    def _span(self, write: Write) -> Span:
        return self.problem.spans[self.slots[id(write.leaf)]]

    @property
    def _inputs(self) -> int:
        return len(self.problem.spans)

    def _make(self, slot: Fresh | View) -> int:
        self.made.append(slot)
        number = self._inputs + len(self.made) - 1
        self.memory[number] = Memory(slot.dtype, slot.count)
        return number

    def _give_slot(self, node: Node) -> None:
        if id(node) not in self.slots:
            self.slots[id(node)] = self._make(Fresh(node.device, node.size, node.dtype))

    def _attempt(self, fusion: Fusion) -> list[Launch | Transfer] | None:
        """All steps; None if a node turned out to need memory, which it now has."""
        kept, slots, made = set(fusion.kept), dict(self.slots), len(self.made)
        try:
            return self._all_steps(fusion)
        except Conflict as conflict:
            number = fusion.at[id(conflict.node)]
            if number in fusion.apart:
                raise
            if number in kept:
                fusion.apart.add(number)
            fusion.kept = kept | {number}
            self.slots = slots
            del self.made[made:]
            return None

    def _all_steps(self, fusion: Fusion) -> list[Launch | Transfer]:
        units = [
            make_unit(fusion, i)
            for i in sorted(fusion.kept)
            if not fusion.stored[i] and fusion.nodes[i].size
        ]
        clash = self._order_writes(fusion, units)
        groups = Grouping(fusion, clash).run(in_order(units))
        self._drop_unread(fusion, groups)
        steps = [step for group in groups for step in self._steps(fusion, group)]
        return steps + [self._copy_back(w) for w in self.writes if not w.in_place]

    def _order_writes(self, fusion: Fusion, units: list[Unit]) -> list[tuple[int, int]]:
        """Writes in place follow all reads of the old contents; where they cannot, a temporary.

        Returns pairs of units that may not share a kernel: one reads elsewhere what the
        other overwrites.
        """
        clash = []
        by_root = {unit.root: unit for unit in units}
        for n, write in enumerate(self.writes):
            span = self._span(write)
            mine = by_root[fusion.at[id(write.node)]]
            readers = {u.root: how for u in units if (how := self._reading(fusion, u, write))}
            following = [root for root in readers if root != mine.root]
            others = self.writes[:n] + self.writes[n + 1 :]
            if (
                readers.get(mine.root) == _ALIASED
                or any(span.meets(self._span(other)) for other in others)
                or _reaches(by_root, following, mine.root)
            ):
                write.in_place = False
            if write.in_place:
                mine.after.update(following)
                clash += [(root, mine.root) for root in following if readers[root] != _SAME]
        return clash + [(b, a) for a, b in clash]

    def _reading(self, fusion: Fusion, unit: Unit, write: Write) -> str:
        """How the unit reads what is written: not at all is ""."""
        span, slot = self._span(write), self.slots[id(write.leaf)]
        how = ""
        for i, moved in unit.reads.items():
            if fusion.stored[i]:
                read = self.slots[id(fusion.nodes[i])]
                if read != slot and self.problem.spans[read].meets(span):
                    return _ALIASED
                if read == slot:
                    how = _MOVED if moved or how == _MOVED else _SAME
        return how

    def _drop_unread(self, fusion: Fusion, groups: list[Group]) -> None:
        """What only its own kernel reads need not be stored."""
        wanted = set(self.settled) | set(self._written)
        readers: dict[int, set[int]] = {}
        for group in groups:
            for unit in group.units:
                for i in unit.reads:
                    readers.setdefault(i, set()).add(unit.root)
        for group in groups:
            inside = set(group.roots)
            for root in group.roots:
                read_by = readers.get(root, set())
                unseen = id(fusion.nodes[root]) not in wanted
                if unseen and read_by and read_by <= inside:
                    group.units = [unit for unit in group.units if unit.root != root]
                    fusion.kept.discard(root)

    def _steps(self, fusion: Fusion, group: Group) -> list[Launch | Transfer]:
        first = fusion.nodes[group.roots[0]]
        if first.op is Op.COPY:
            self._give_slot(first)
            base, offset = contiguous_base(first.src[0])
            if id(first.src[0]) in self.slots:
                base, offset = first.src[0], 0
            return [Transfer(self.slots[id(first)], self._run_of(base, offset, first))]
        self._check_devices(fusion, group, first)
        roots = [self._root(fusion.nodes[i]) for i in group.roots]
        emitted = lower_kernel(roots, self.slots, self.memory, fusion.absorbed)
        misread = [
            w
            for w in map(self._written.get, (id(root.node) for root in roots))
            if w is not None and w.in_place and self.slots[id(w.leaf)] in emitted.misread
        ]
        if misread:
            for write in misread:
                write.in_place = False
            return self._steps(fusion, group)
        device = first.device
        return [
            Launch(e.kernel, e.slots, device, e.outputs, e.estimate)
            for e in in_parts(emitted, device, lambda d, n: self._make(Fresh(device, n, d)))
        ]

    def _check_devices(self, fusion: Fusion, group: Group, first: Node) -> None:
        for i in (i for unit in group.units for i in unit.reads):
            node = fusion.nodes[i]
            if node.device != first.device:
                raise BufferUseError(
                    f"{first} on {first.device} reads {node} on {node.device}",
                    device=first.device,
                    hint=f"copy it to {first.device} first",
                )

    def _root(self, node: Node) -> Root:
        write = self._written.get(id(node))
        if write is not None and write.in_place:
            return Root(node, self.slots[id(write.leaf)], write.view)
        self._give_slot(node)
        return Root(node, self.slots[id(node)])

    def _copy_back(self, write: Write) -> Launch:
        root = Root(contiguous(write.node), self.slots[id(write.leaf)], write.view)
        emitted = lower_kernel([root], self.slots, self.memory, {})
        device = write.leaf.device
        return Launch(emitted.kernel, emitted.slots, device, emitted.outputs, emitted.estimate)


def _reaches(units: Mapping[int, Unit], starts: Sequence[int], goal: int) -> bool:
    """Whether any of the units needs the goal to have run."""
    seen = set(starts)
    stack = list(starts)
    while stack:
        unit = units.get(stack.pop())
        if unit is None:
            continue
        for other in (*unit.reads, *unit.after):
            if other == goal:
                return True
            if other not in seen:
                seen.add(other)
                stack.append(other)
    return False


def leaf_of(view: Node) -> Node:
    """The node with memory that a target of an assignment is, or is a view of."""
    node = view
    while node.realized is None:
        if node.op not in _VIEWS:
            raise BufferUseError(
                f"{view} is no memory that can be assigned to",
                device=view.device,
                hint="realize it first; the target may be sliced, reshaped or permuted",
            )
        node = node.src[0]
    return node
