"""Which kept nodes share a kernel, and in what order kernels run.

A unit is one kept node with what it reads. Units of one shape join into a group, one
kernel with several stores, where nothing between them has to run first. Groups are
then put in an order in which everything is written before it is read.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from jit.effort import MAX_EFFORT, effort
from jit.fuse import Fusion
from jit.graph import ELEMENTWISE, LEAVES, Node, Op

_MAX_STORES = 12
_MAX_BUFFERS = 28  # of one kernel
_CANDIDATES = 8  # how many earlier groups of the same shape are tried
# How a kernel reads a value that has memory; the larger wins.
_SAME = 0  # at its own index
_RESHAPED = 1  # at its own place in row-major order, in another shape
_MOVED = 2  # elsewhere


@dataclass
class Unit:
    """One kept node. reads: per position read, whether elsewhere than at its own place."""

    root: int
    reads: dict[int, bool] = field(default_factory=dict)
    after: set[int] = field(default_factory=set)  # roots of units that must have run
    effort: int = 0
    reductions: list[int] = field(default_factory=list)


@dataclass
class Group:
    """Units that become one kernel."""

    units: list[Unit]
    needs: set[int] = field(default_factory=set)  # numbers of groups that must have run
    behind: int = 0  # bit set of all groups that must have run, through any number of others

    @property
    def roots(self) -> list[int]:
        return [unit.root for unit in self.units]


def make_unit(fusion: Fusion, root: int) -> Unit:
    """What the kernel of a kept node reads and computes."""
    unit = Unit(root)
    how = {root: _SAME}
    waiting = [-root]
    nodes = fusion.nodes
    while waiting:
        i = -heappop(waiting)
        node = nodes[i]
        if i != root and fusion.has_memory(i):
            unit.reads[i] = how[i] == _MOVED or node.size != nodes[root].size or i in fusion.apart
            continue
        if node.op in LEAVES:
            continue
        unit.effort += effort(node)
        if fusion.reduces(i):
            unit.reductions.append(i)
        for position, source in enumerate(fusion.sources[i]):
            if source not in how:
                heappush(waiting, -source)
            step = max(how[i], _step(node, position))
            how[source] = max(how.get(source, _SAME), step)
    return unit


def _step(node: Node, position: int) -> int:
    """How an operand is read, compared to the result."""
    if node.op in ELEMENTWISE or node.op is Op.CONTIGUOUS or (node.op is Op.INDEX and position):
        return _SAME
    return _RESHAPED if node.op is Op.RESHAPE else _MOVED


def in_order(units: Sequence[Unit]) -> list[Unit]:
    """Units, each after those it reads and those it must follow."""
    number = {unit.root: n for n, unit in enumerate(units)}
    needs = [
        {number[r] for r in (*unit.reads, *unit.after) if r in number and r != unit.root}
        for unit in units
    ]
    return [units[n] for n in _sorted(needs)]


def _sorted(needs: Sequence[set[int]]) -> list[int]:
    """Numbers such that each comes after what it needs; the smallest first."""
    left = [len(n) for n in needs]
    users: list[list[int]] = [[] for _ in needs]
    for n, wanted in enumerate(needs):
        for other in wanted:
            users[other].append(n)
    ready = [n for n, count in enumerate(left) if count == 0]
    heapify(ready)
    order = []
    while ready:
        n = heappop(ready)
        order.append(n)
        for user in users[n]:
            left[user] -= 1
            if left[user] == 0:
                heappush(ready, user)
    if len(order) != len(needs):
        raise ValueError("kernels need each other in a circle")
    return order


class Grouping:
    """Joins units into groups."""

    def __init__(self, fusion: Fusion, clash: Iterable[tuple[int, int]] = ()) -> None:
        self.fusion = fusion
        self.clash = set(clash)  # pairs of roots that must not share a kernel
        self.groups: list[Group] = []
        self._group_of: dict[int, int] = {}
        self._alike: dict[tuple[object, ...], list[int]] = {}

    def run(self, units: Sequence[Unit]) -> list[Group]:
        """The groups in the order they can run."""
        for unit in units:
            self._add(unit)
        return [self.groups[n] for n in _sorted([group.needs for group in self.groups])]

    def _add(self, unit: Unit) -> None:
        node = self.fusion.nodes[unit.root]
        needs = {
            self._group_of[root] for root in (*unit.reads, *unit.after) if root in self._group_of
        }
        alike = self._alike.setdefault(_loops(node), [])
        if node.op is not Op.COPY:
            for n in self._candidates(unit, alike):
                if self._may_join(unit, n, needs):
                    self._join(unit, n, needs - {n})
                    return
            alike.append(len(self.groups))
        self._group_of[unit.root] = len(self.groups)
        self.groups.append(Group([unit], needs, self._all_behind(needs)))

    def _candidates(self, unit: Unit, alike: list[int]) -> list[int]:
        """Groups to try: those it reads element by element, then the latest with its loops."""
        read = [
            self._group_of[root]
            for root, moved in unit.reads.items()
            if not moved and root in self._group_of
        ]
        return list(dict.fromkeys([*reversed(read), *reversed(alike[-_CANDIDATES:])]))

    def _all_behind(self, needs: Iterable[int]) -> int:
        behind = 0
        for n in needs:
            behind |= 1 << n | self.groups[n].behind
        return behind

    def _may_join(self, unit: Unit, n: int, needs: set[int]) -> bool:
        group = self.groups[n]
        bit = 1 << n
        if self.fusion.nodes[group.units[0].root].op is Op.COPY:
            return False
        if any(other != n and self.groups[other].behind & bit for other in needs):
            return False
        roots = set(group.roots)
        if any(unit.reads.get(root, False) for root in roots):
            return False
        if any((root, unit.root) in self.clash for root in roots):
            return False
        if len(group.units) >= _MAX_STORES or not self._small(group, unit):
            return False
        return self._reductions_fit(unit, group, reading=not roots.isdisjoint(unit.reads))

    def _small(self, group: Group, unit: Unit) -> bool:
        units = [*group.units, unit]
        if sum(u.effort for u in units) > MAX_EFFORT:
            return False
        return len({r for u in units for r in u.reads} | set(group.roots)) <= _MAX_BUFFERS

    def _reductions_fit(self, unit: Unit, group: Group, *, reading: bool) -> bool:
        theirs = [r for u in group.units for r in u.reductions]
        if not unit.reductions:
            roots = [*group.roots, unit.root]
            return not theirs or (reading and self.fusion.fits_with(theirs, roots))
        if not theirs:
            return False
        return all(self._alike_reductions(a, b) for a in unit.reductions for b in theirs)

    def _alike_reductions(self, a: int, b: int) -> bool:
        """Two reductions over the same loops, neither of the kind that is worth tiling."""
        fusion = self.fusion
        one, two = fusion.nodes[a], fusion.nodes[b]
        same = one.src[0].shape == two.src[0].shape and one.arg[1] == two.arg[1]
        plain = id(one) not in fusion.absorbed and id(two) not in fusion.absorbed
        return same and plain and not (fusion.reuses(a) or fusion.reuses(b))

    def _join(self, unit: Unit, n: int, needs: set[int]) -> None:
        group = self.groups[n]
        group.units.append(unit)
        group.needs |= needs
        group.behind |= self._all_behind(needs)
        self._group_of[unit.root] = n
        for other in self.groups:
            if other.behind >> n & 1:
                other.behind |= group.behind


def _loops(node: Node) -> tuple[object, ...]:
    """What units must have in common to share loops without reading each other."""
    return tuple(n for n in node.shape if n != 1), node.device
