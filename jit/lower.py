"""Graph to loops: one kernel's roots become values over loop and reduce axes.

Walks from the roots down with an index in hand. Movement operations change the
index, elementwise operations pass it on, a node that has memory ends the walk as a
load. Without recursion. What does not fit one kernel raises `Conflict` with the
node that needs memory of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from jit.dtype import DType, dtypes
from jit.graph import ELEMENTWISE, MOVEMENT, Node, Op
from jit.movement import Index, reshaped, row_major, source_index
from jit.simplify import Algebra, Sum
from jit.value import Condition, Value, Values, compute_dtype, keeps_zero

FIRST_REDUCE = 1 << 20  # reduce axes are numbered from here until axes are chosen


class Conflict(Exception):
    """The node cannot be computed inside this kernel. The scheduler gives it memory instead."""

    def __init__(self, node: Node) -> None:
        super().__init__(repr(node))
        self.node = node


@dataclass(frozen=True)
class Root:
    """A value to compute and where it goes: all of a slot, or a view of it."""

    node: Node
    slot: int
    view: Node | None = None  # movement operations over the leaf that the slot is


@dataclass
class Body:
    """A kernel as values."""

    algebra: Algebra
    values: Values
    loops: list[Sum]
    reduces: list[Sum] = field(default_factory=list)
    stores: list[tuple[int, Sum, Value]] = field(default_factory=list)


class Place:
    """Where in the iteration the walk is: the index, what must hold, inside a reduction."""

    __slots__ = ("conditions", "index", "reducing")

    def __init__(self, index: Index, conditions: tuple[Condition, ...], reducing: bool) -> None:
        self.index = index
        self.conditions = conditions
        self.reducing = reducing


Step = tuple[Node, Place]


class Lowering:
    """Lowers the roots of one kernel.

    slot_of says which slot a node's value lies in (None: it must be computed);
    absorbed maps a reduction to those beneath it that are done in the same loops.
    """

    def __init__(
        self,
        slot_of: Callable[[Node], int | None],
        absorbed: Mapping[int, tuple[Node, ...]],
    ) -> None:
        self.algebra = Algebra()
        self.values = Values(self.algebra)
        self.slot_of = slot_of
        self.absorbed = absorbed
        self._inner: dict[int, tuple[Sum, ...]] = {}
        self._places: dict[tuple[Index, tuple[Condition, ...], bool], Place] = {}
        self._done: dict[tuple[int, int], Value] = {}
        self._reduce_sizes: tuple[int, ...] | None = None
        self._roots: dict[int, Place] = {}

    def run(self, roots: Sequence[Root]) -> Body:
        """The kernel's values. All roots have as many elements, walked in row-major order."""
        shape = roots[0].node.shape
        index = tuple(self.algebra.axis(i, n) for i, n in enumerate(shape))
        for root in roots:
            own = reshaped(index, shape, root.node.shape, self.algebra)
            self._roots[id(root.node)] = self._place(own, (), False)
        body = Body(self.algebra, self.values, [axis for axis in index if axis.terms])
        for root in roots:
            start = self._roots[id(root.node)]
            value = self._value(root.node, start)
            target = row_major(start.index, root.node.shape, self.algebra)
            if root.view is not None:
                target = self._place_in_leaf(root.view, start.index)
            body.stores.append((root.slot, target, self.values.round(value, root.node.dtype)))
        sizes = self._reduce_sizes or ()
        body.reduces = [self._reduce_axis(i, n) for i, n in enumerate(sizes)]
        return body

    def _place_in_leaf(self, view: Node, index: Index) -> Sum:
        while view.op in MOVEMENT and view.realized is None:
            moved = source_index(view, index, self.algebra)
            if moved is None or view.op is Op.PAD:
                raise ValueError(f"cannot store through {view}")
            view, index = view.src[0], moved[0]
        return row_major(index, view.shape, self.algebra)

    def _place(self, index: Index, conditions: tuple[Condition, ...], reducing: bool) -> Place:
        key = (index, conditions, reducing)
        found = self._places.get(key)
        if found is None:
            found = self._places[key] = Place(*key)
        return found

    def _value(self, root: Node, start: Place) -> Value:
        """Depth first with its own stack: what a node wants is done before the node."""
        done = self._done
        stack: list[tuple[Node, Place, list[Step] | None]] = [(root, start, None)]
        while stack:
            node, place, wanted = stack.pop()
            key = (id(node), id(place))
            if key in done:
                continue
            steps = self._begin(node, place) if wanted is None else wanted
            if not isinstance(steps, Value):
                missing = [(n, p, None) for n, p in steps if (id(n), id(p)) not in done]
                if missing:
                    stack.append((node, place, steps))
                    stack.extend(reversed(missing))
                    continue
                steps = self._complete(node, place, steps)
            if isinstance(steps, Value):
                done[key] = steps
            else:
                stack.append((node, place, steps))
        return done[id(root), id(start)]

    def _complete(self, node: Node, place: Place, steps: list[Step]) -> Value | list[Step]:
        """The node's value, now that the steps are done; or, for an INDEX, one step more."""
        if len(steps) < len(node.src):
            return self._fetch(node, place, steps)
        value = self._finish(node, tuple(self._done[id(n), id(p)] for n, p in steps))
        value = self._zeroed(value, place, steps[-1][1])
        if id(node) in self._roots:  # others in this kernel see what memory will hold
            value = self.values.widen(self.values.round(value, node.dtype))
        return value

    def _begin(self, node: Node, place: Place) -> Value | list[Step]:
        """A value that needs no other, or what must be known first."""
        if 0 in node.shape:  # seen only through a condition that never holds
            return self._zero(node.dtype)
        at_root = self._roots.get(id(node))
        if at_root not in (None, place):
            raise Conflict(node)
        slot = self.slot_of(node) if at_root is None else None
        if slot is not None:
            where = row_major(place.index, node.shape, self.algebra)
            return self.values.load(slot, node.dtype, where, place.conditions)
        if node.op in MOVEMENT:
            return self._move(node, place)
        if node.op is Op.REDUCE:
            return self._reduce(node, place)
        if node.op in ELEMENTWISE or node.op in (Op.CONTIGUOUS, Op.INDEX):
            return [(source, place) for source in node.src[node.op is Op.INDEX :]]
        return self._leaf(node, place)

    def _leaf(self, node: Node, place: Place) -> Value:
        if node.op is Op.CONST:
            # A float16 constant is rounded like any float16 value.
            exact = self.values.const(node.arg, compute_dtype(node.dtype))
            return self.values.widen(self.values.round(exact, node.dtype))
        if node.op is Op.IOTA:
            return self.values.widen(self.values.index(place.index[node.arg], node.dtype))
        if node.op is Op.VARIABLE:
            name, least, most = node.arg[:3]
            raw = self.values.make("variable", dtypes.int64, (), name)
            known = self.algebra.value(raw, least, most)
            return self.values.widen(self.values.index(known, node.dtype))
        raise Conflict(node)

    def _zero(self, dtype: DType) -> Value:
        return self.values.const(False if dtype.kind == "b" else 0, compute_dtype(dtype))

    def _move(self, node: Node, place: Place) -> Value | list[Step]:
        moved = source_index(node, place.index, self.algebra)
        if moved is None:
            return self._zero(node.dtype)
        index, conditions = moved
        held = place.conditions
        if conditions:
            held = tuple(dict.fromkeys((*held, *conditions)))
        return [(node.src[0], self._place(index, held, place.reducing))]

    def _reduce_axis(self, number: int, size: int) -> Sum:
        return self.algebra.axis(FIRST_REDUCE + number, size)

    def _reduce(self, node: Node, place: Place) -> Value | list[Step]:
        axes = node.arg[1]
        own = self._inner.get(id(node))
        if own is None:
            sizes = _reduced_sizes(node)
            if 0 in sizes:
                return self.values.const(_identity(node), compute_dtype(node.dtype))
            own = self._share_axes(node, sizes, place)
        rest = iter(place.index)
        mine = iter(own)
        index = tuple(
            next(mine) if a in axes else next(rest) for a in range(len(node.src[0].shape))
        )
        return [(node.src[0], self._place(index, place.conditions, place.reducing or _any(own)))]

    def _share_axes(self, node: Node, sizes: tuple[int, ...], place: Place) -> tuple[Sum, ...]:
        """The kernel's reduce axes for this reduction and those it absorbed."""
        family = (node, *self.absorbed.get(id(node), ()))
        needed = tuple(n for member in family for n in _reduced_sizes(member) if n != 1)
        if not needed:
            return (self.algebra.zero,) * len(sizes)
        if place.reducing or self._reduce_sizes not in (None, needed):
            raise Conflict(node)
        self._reduce_sizes = needed
        number = 0
        for member in family:
            axes = []
            for size in _reduced_sizes(member):
                axes.append(self._reduce_axis(number, size))
                number += size != 1
            self._inner[id(member)] = tuple(axes)
        return self._inner.pop(id(node))  # so that another place checks again

    def _fetch(self, node: Node, place: Place, known: list[Step]) -> Value | list[Step]:
        """Where an INDEX reads its data, now that its indexes have values."""
        conditions = list(place.conditions)
        index = []
        for step, size in zip(known, node.src[0].shape, strict=True):
            value = self._done[id(step[0]), id(step[1])]
            part, needs = self._one_index(value, size)
            if part is None:
                return self._zero(node.dtype)
            index.append(part)
            conditions += needs
        held = tuple(dict.fromkeys(conditions))
        return [*known, (node.src[0], self._place(tuple(index), held, place.reducing))]

    def _one_index(self, value: Value, size: int) -> tuple[Sum | None, list[Condition]]:
        algebra, values = self.algebra, self.values
        known = values.as_sum(value)
        if size == 0:
            return None, []
        if known is not None:
            below = algebra.below_zero(algebra.shift(algebra.scale(known, -1), -1))
            above = algebra.below_zero(algebra.shift(known, -size))
            if below is False or above is False:
                return None, []
            inside = algebra.within(known, 0, size - 1)
            return inside, [c for c in (below, above) if isinstance(c, Sum)]
        dtype = value.dtype
        needs: list[Condition] = []
        if dtype.kind == "i":
            minus_one = values.const(-1, dtype)
            needs.append(values.make("lt", dtypes.bool, (minus_one, value)))
        if size <= dtype.most:
            needs.append(values.make("lt", dtypes.bool, (value, values.const(size, dtype))))
        return algebra.value(value, 0, size - 1), needs

    def _finish(self, node: Node, got: tuple[Value, ...]) -> Value:
        values, op = self.values, node.op
        if op is Op.CAST or op is Op.BITCAST:
            raw = values.round(got[0], node.src[0].dtype)
            if op is Op.CAST:
                return values.widen(values.cast(raw, node.dtype))
            return values.widen(values.make("bitcast", node.dtype, (raw,)))
        if op in ELEMENTWISE:
            return values.elementwise(op.value, compute_dtype(node.dtype), got)
        if op is Op.REDUCE and id(node) not in self._inner and prod(_reduced_sizes(node)) != 1:
            return values.make("reduce", compute_dtype(node.dtype), (got[0],), node.arg[0])
        return got[-1]

    def _zeroed(self, value: Value, place: Place, source: Place) -> Value:
        """The value where the conditions that the source place adds hold, elsewhere zero."""
        if source.conditions is place.conditions:
            return value
        added = tuple(c for c in source.conditions if c not in place.conditions)
        if not added or keeps_zero(value, added):
            return value
        zero = self.values.const(False if value.dtype.kind == "b" else 0, value.dtype)
        return self.values.make("where", value.dtype, (self.values.test(added), value, zero))


def _reduced_sizes(node: Node) -> tuple[int, ...]:
    return tuple(node.src[0].shape[a] for a in node.arg[1])


def _any(axes: tuple[Sum, ...]) -> bool:
    return any(axis.terms for axis in axes)


def _identity(node: Node) -> int | float | bool:
    """What a reduction of nothing gives."""
    kind = node.arg[0]
    if kind in ("sum", "prod"):
        return int(kind == "prod")
    return node.dtype.least if kind == "max" else node.dtype.most
