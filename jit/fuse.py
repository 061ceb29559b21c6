"""Which nodes get memory of their own; everything else is computed where it is used.

A node is kept when its value must outlive its kernel (outputs, copies), when a
reduction has to finish before its users can run, or when computing it again for each
user would cost more than storing it. The rest of the graph is inlined into the kept
nodes' kernels.
"""

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush

from jit.effort import MAX_EFFORT, effort
from jit.graph import ELEMENTWISE, LEAVES, MOVEMENT, Node, Op
from jit.movement import contiguous_base

MAX_INPUTS = 24  # buffers one kernel reads
_REGION = 96  # how many nodes after a reduction are considered for its kernel
_EPILOGUE = 11  # operations that may follow a big product in its kernel: they make its tiles small
_PRODUCT = 2  # operations of the product itself
_BIG = 1 << 22  # products of elements in a product of matrices that big tiles pay for
_CHEAP = 3  # below this many operations a broadcast value is always recomputed
_HEAVY = 24  # from this many operations a value used in several places may be stored
_WORTH = 16384  # operations saved that pay for one more launch
_PLACES = 16  # a value needed at more places than this is stored
_COSTLY = frozenset(
    {Op.EXP, Op.EXP2, Op.LOG, Op.LOG2, Op.SIN, Op.COS, Op.TAN, Op.ASIN, Op.ACOS, Op.ATAN, Op.SINH}
    | {Op.COSH, Op.TANH, Op.ASINH, Op.ACOSH, Op.ATANH, Op.ERF, Op.POW, Op.ATAN2}
    | {Op.INDEX}  # its index is checked, and a kernel that waits for it cannot be tiled
)
_COSTLY_WEIGHT = 11  # operations that a costly one stands for, besides itself
_KEEPS_COUNT = frozenset({Op.RESHAPE, Op.PERMUTE, Op.SLICE})


class Fusion:
    """The decisions for one graph, by position in its topological order.

    kept: positions of nodes with memory. absorbed: per reduction (by id) those
    beneath it whose loops it takes over.
    """

    def __init__(self, nodes: Sequence[Node], required: Iterable[int]) -> None:
        self.nodes = nodes
        self.at = {id(node): i for i, node in enumerate(nodes)}
        self.sources = [
            [] if n.realized is not None else [self.at[id(s)] for s in n.src] for n in nodes
        ]
        self.users: list[list[int]] = [[] for _ in nodes]
        for i, sources in enumerate(self.sources):
            for s in dict.fromkeys(sources):
                self.users[s].append(i)
        self.stored = [n.realized is not None for n in nodes]  # leaves over memory
        self.kept = set(required)
        self.apart: set[int] = set()  # kept nodes that no kernel may both store and use
        self.absorbed: dict[int, tuple[Node, ...]] = {}
        self._owner: dict[int, int] = {}
        self._moved: set[int] = set()
        self._require()
        self._spread = self._elements()
        self._absorb()
        for i, node in enumerate(nodes):
            if self.reduces(i) and i not in self._swallowed:
                self._finish_reduction(i, node)
        self._base = self._bases()
        self._weigh()
        self._share()

    def has_memory(self, i: int) -> bool:
        """Whether the node at i is read from memory by its users."""
        return self.stored[i] or i in self.kept

    def reuses(self, i: int) -> bool:
        """Whether a reduction reads its inputs more than twice over, like a product of matrices."""
        source = self.sources[i][0]
        return self.nodes[source].size > 2 * self._spread[source]

    def is_big_product(self, i: int) -> bool:
        """Whether what follows the reduction at i in its kernel has to be short."""
        return self.nodes[self.sources[i][0]].size >= _BIG and self.reuses(i)

    def fits_with(self, reductions: Iterable[int], members: Iterable[int]) -> bool:
        """Whether these kept nodes may share the kernel that computes the reductions."""
        if not any(self.is_big_product(r) for r in reductions):
            return True
        return sum(map(self._weight, members)) <= _EPILOGUE + _PRODUCT

    def _require(self) -> None:
        for i, node in enumerate(self.nodes):
            if self.stored[i]:
                continue
            if node.op in (Op.CONTIGUOUS, Op.COPY):
                self.kept.add(i)
            if node.op is Op.COPY:
                base, source = contiguous_base(node.src[0])[0], node.src[0]
                whole = base.size == source.size and base.dtype is source.dtype
                if base.realized is None:
                    self.kept.add(self.at[id(base if whole else source)])

    def _elements(self) -> list[int]:
        """Per node about how many distinct elements of memory it is made of."""
        spread: list[int] = []
        for i, node in enumerate(self.nodes):
            below = sum(spread[s] for s in self.sources[i])
            if self.stored[i] or node.op is Op.REDUCE:
                below = node.size
            elif node.op in MOVEMENT:
                below = min(below, node.size)
            spread.append(below)
        return spread

    def reduces(self, i: int) -> bool:
        """A reduction over more than one element, to be computed here."""
        node = self.nodes[i]
        return (
            node.op is Op.REDUCE
            and not self.stored[i]
            and any(node.src[0].shape[a] != 1 for a in node.arg[1])
        )

    def _absorb(self) -> None:
        """A sum of a sum is one sum, if nothing else needs the inner one."""
        self._swallowed: set[int] = set()
        for i, node in enumerate(self.nodes):
            if not self.reduces(i):
                continue
            inner = self._inner_reduction(i)
            if inner is not None:
                self._swallowed.add(inner)
                below = self.nodes[inner]
                self.absorbed[id(node)] = (below, *self.absorbed.pop(id(below), ()))

    def _inner_reduction(self, i: int) -> int | None:
        node, below = self.nodes[i], self.sources[i][0]
        while self.nodes[below].op in (Op.RESHAPE, Op.PERMUTE) and self._only_user(below):
            below = self.sources[below][0]
        inner = self.nodes[below]
        same = self.reduces(below) and inner.arg[0] == node.arg[0] and inner.dtype is node.dtype
        return below if same and self._only_user(below) else None

    def _only_user(self, i: int) -> bool:
        return len(self.users[i]) == 1 and not self.has_memory(i)

    def _finish_reduction(self, i: int, node: Node) -> None:
        """Keep the node at which everything that follows the reduction, in its loops, has met."""
        if i in self.kept:
            self._owner[i] = i
            return
        region = _Region(self, i)
        tip, trail = region.explore()
        for member in trail:
            self._owner.setdefault(member, i)
        while self.nodes[tip].op in (Op.RESHAPE, Op.PERMUTE) and tip not in self.kept:
            tip = self.sources[tip][0]
        self.kept.add(tip)

    def shares(self, i: int, member: int) -> bool:
        """Whether the reduction at i can be computed in the kernel that member is part of."""
        owner = self._owner.get(member)
        if owner is None or owner == i:
            return True
        mine, other = self.nodes[i], self.nodes[owner]
        return (
            mine.shape == other.shape
            and mine.arg[1] == other.arg[1]
            and mine.src[0].shape == other.src[0].shape
            and owner not in self._moved
            and not (id(mine) in self.absorbed or id(other) in self.absorbed)
            and not (self.reuses(i) or self.reuses(owner))
        )

    def owned(self, member: int) -> bool:
        """Whether some reduction's kernel already holds member."""
        return member in self._owner

    def note_moved(self, i: int) -> None:
        """The reduction at i is seen through a movement operation in its kernel."""
        self._moved.add(i)

    def is_moved(self, i: int) -> bool:
        """Whether note_moved was told of it."""
        return i in self._moved

    def _bases(self) -> list[int]:
        """Per node the nearest one below that is no movement operation."""
        base: list[int] = []
        for i, node in enumerate(self.nodes):
            moves = node.op in MOVEMENT and not self.has_memory(i)
            base.append(base[self.sources[i][0]] if moves else i)
        return base

    def _weigh(self) -> None:
        """Bound each kernel, and keep what a broadcast would repeat too often.

        Three bit sets per node: the operations, the costly ones among them, and the inputs
        that computing it takes.
        """
        self._operations = [0] * len(self.nodes)
        self._costly = [0] * len(self.nodes)
        self._inputs = [0] * len(self.nodes)
        self._hard: dict[int, int] = {}  # nodes of more effort than 1, by how much more
        for i, node in enumerate(self.nodes):
            if self.stored[i] or node.op in LEAVES:
                continue
            if node.op in (Op.EXPAND, Op.WINDOW):
                self._limit_repeats(self._base[i], node.size)
            elif node.op is Op.INDEX:
                self._limit_repeats(self._base[self.sources[i][0]], node.size)
            if self._base[i] == i:
                self._gather(i)

    def _limit_repeats(self, base: int, size: int) -> None:
        node = self.nodes[base]
        if self.has_memory(base) or node.op in LEAVES:
            return
        weight = self._weight(base)
        if weight >= _CHEAP and (size - node.size) * weight > _WORTH:
            self.kept.add(base)

    def _gather(self, i: int) -> None:
        """Unite what the sources take; keep the largest while that is too much."""
        while True:
            op = self.nodes[i].op
            operations = 1 << i if op in ELEMENTWISE or op is Op.INDEX else 0
            costly = operations if op in _COSTLY else 0
            more = effort(self.nodes[i]) - 1
            if more > 0:
                self._hard[more] = self._hard.get(more, 0) | operations
            inputs = 0
            for source in self.sources[i]:
                s = self._base[source]
                if self.has_memory(s):
                    inputs |= 1 << s
                else:
                    operations |= self._operations[s]
                    costly |= self._costly[s]
                    inputs |= self._inputs[s]
            few = self._effort(operations) <= MAX_EFFORT and inputs.bit_count() <= MAX_INPUTS
            open_sources = {self._base[s] for s in self.sources[i]}
            open_sources = {s for s in open_sources if not self.has_memory(s)}
            open_sources -= {s for s in open_sources if self.nodes[s].op in LEAVES}
            if few or not open_sources:
                break
            self.kept.add(max(open_sources, key=self._burden))
        self._operations[i], self._costly[i], self._inputs[i] = operations, costly, inputs

    def _burden(self, i: int) -> tuple[int, int]:
        return self._effort(self._operations[i]) + self._inputs[i].bit_count(), i

    def _effort(self, operations: int) -> int:
        """What a set of operations costs the compiler."""
        hard = ((operations & nodes).bit_count() * more for more, nodes in self._hard.items())
        return operations.bit_count() + sum(hard)

    def _weight(self, i: int) -> int:
        """About how many operations computing one element of the node at i takes."""
        operations = self._operations[i].bit_count()
        costly = self._costly[i].bit_count() * _COSTLY_WEIGHT
        return operations + costly + max(self._inputs[i].bit_count() - 1, 0)

    def _share(self) -> None:
        """Keep what several kernels, or several places of one, would compute again."""
        places: list[set[int]] = [set() for _ in self.nodes]
        for i in range(len(self.nodes) - 1, -1, -1):
            node = self.nodes[i]
            if self.stored[i] or node.op in LEAVES:
                continue
            if i not in self.kept and self._pays(i, len(places[i])):
                self.kept.add(i)
            mine = {i} if i in self.kept else places[i]
            for position, source in enumerate(self.sources[i]):
                same = node.op in ELEMENTWISE or (node.op is Op.INDEX and position > 0)
                there = mine if same else {hash((p, node.op, _arg(node))) for p in mine}
                if len(places[source]) <= _PLACES:
                    places[source] |= there

    def _pays(self, i: int, places: int) -> bool:
        node = self.nodes[i]
        if places < 2 or node.op in MOVEMENT or i in self._swallowed:
            return False
        if self.reduces(i):
            return True
        weight = self._weight(i)
        if places > _PLACES:
            return weight > 0
        heavy = weight >= _HEAVY or weight * places > 4 * _HEAVY
        return heavy and node.size * weight * (places - 1) > _WORTH


def _operations(node: Node) -> int:
    """About how many operations a node is."""
    return (node.op in ELEMENTWISE) + _COSTLY_WEIGHT * (node.op in _COSTLY)


def _arg(node: Node) -> object:
    return (node.arg, node.shape) if node.op is not Op.INDEX else id(node)


class _Region:
    """Follows the users of a reduction, in order, as far as they stay in its loops.

    At a node that all paths lead through, nothing after it needs the reduction itself:
    such a node may stand for the whole region.
    """

    def __init__(self, fusion: Fusion, start: int) -> None:
        self.fusion = fusion
        self.start = start
        self.pending = list(fusion.users[start])
        heapify(self.pending)
        self.seen = {start, *self.pending}
        self.trail = [start]
        self.tip = start
        self.agreed = 1  # how much of the trail lies before or at the tip
        self.own = (start, 1)  # tip and length before another reduction's nodes began

    def explore(self) -> tuple[int, list[int]]:
        """The furthest such node, and the nodes up to it."""
        fusion, shared = self.fusion, False
        is_big = fusion.is_big_product(self.start)
        room, cost = (_EPILOGUE, _operations) if is_big else (MAX_EFFORT, effort)
        while self.pending and len(self.trail) < _REGION:
            member = heappop(self.pending)
            alone = not self.pending
            room -= cost(fusion.nodes[member])
            if room < 0 or not self._fits(member, alone):
                break
            shared = shared or fusion.owned(member)
            self.trail.append(member)
            if alone:
                self.tip, self.agreed = member, len(self.trail)
                if not shared:
                    self.own = (self.tip, self.agreed)
            if member in fusion.kept:
                break
            for user in fusion.users[member]:
                if user not in self.seen:
                    self.seen.add(user)
                    heappush(self.pending, user)
        # Joining another reduction's kernel half way would compute this one twice.
        if self.tip not in fusion.kept:
            self.tip, self.agreed = self.own
        return self.tip, self.trail[: self.agreed]

    def _fits(self, member: int, alone: bool) -> bool:
        fusion, node = self.fusion, self.fusion.nodes[member]
        if node.op in _KEEPS_COUNT:
            if alone and not fusion.owned(member):
                fusion.note_moved(self.start)
                return True
            return False
        if node.op not in ELEMENTWISE and node.op is not Op.CONTIGUOUS:
            return False
        if fusion.is_moved(self.start) and fusion.owned(member):
            return False
        return fusion.shares(self.start, member)
