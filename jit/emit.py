"""A kernel's values become loop IR: axes chosen, arguments numbered, index width known.

Order is fixed by the values alone, so that equal graphs give equal kernels, whatever
was built before.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from hcq.settings import get
from jit.axes import Axes, nested
from jit.dtype import DType, dtypes
from jit.kernel import Argument, Axis, Expr, Kernel, Pool, Store
from jit.lower import Body
from jit.simplify import Atom, Sum
from jit.value import Condition, Value, each_value
from runtime.call import Estimate

_OPTIONS = ("FASTMATH", "NOOPT", "CHECK_OOB")  # settings that change code
_INT32 = (1 << 31) - 1
_FREE = frozenset({"const", "load", "index", "test", "variable"})


@dataclass(frozen=True)
class Memory:
    """A slot as a kernel sees it."""

    dtype: DType
    count: int


@dataclass(frozen=True)
class Emitted:
    """A kernel and the slots its arguments stand for."""

    kernel: Kernel
    slots: tuple[int, ...]
    outputs: int
    estimate: Estimate
    misread: frozenset[int]  # written slots that are also read elsewhere than where written


def options() -> tuple[tuple[str, Any], ...]:
    """The settings in force that change what is compiled."""
    return tuple((name, get(name)) for name in _OPTIONS if get(name))


def emit(body: Body, memory: Mapping[int, Memory]) -> Emitted:
    """The kernel of a body. memory describes every slot that it loads or stores."""
    order = each_value([value for _, _, value in body.stores])
    axes = Axes(body.algebra, body.loops, body.reduces)
    sums = dict.fromkeys(index for _, index, _ in body.stores)
    for value in order:
        sums.update(dict.fromkeys(_sums_of(value)))
    settled = axes.settle(sums)
    written = list(dict.fromkeys(slot for slot, _, _ in body.stores))
    read = dict.fromkeys(value.arg[0] for value in order if value.op == "load")
    slots = (*written, *(slot for slot in read if slot not in written))
    wide = _needs_int64(nested(settled.values())) or any(
        memory[slot].count > _INT32 for slot in slots
    )
    writer = _Writer(axes, settled, slots, dtypes.int64 if wide else dtypes.int32)
    for value in order:
        writer.write(value)
    stores = tuple(
        Store(slots.index(slot), writer.sum(index), writer.done[value])
        for slot, index, value in body.stores
    )
    loops = tuple(Axis(a.high + 1) for a in axes.groups[0])
    reduces = tuple(Axis(a.high + 1, reduce=True) for a in axes.groups[1])
    arguments = tuple(
        Argument(memory[slot].dtype, memory[slot].count, at < len(written))
        for at, slot in enumerate(slots)
    )
    kernel = Kernel(
        "kernel",
        arguments,
        loops + reduces,
        stores,
        writer.dtype,
        tuple(writer.variables),
        options(),
    )
    estimate = _estimate(body, order, kernel)
    return Emitted(named(kernel), slots, len(written), estimate, _misread(body, order))


def named(kernel: Kernel) -> Kernel:
    """The kernel called by its sizes and four digits of its content."""
    digest = hashlib.sha256(kernel.text().encode()).hexdigest()
    loops = [str(a.size) for a in kernel.axes if not a.reduce]
    reduces = [str(a.size) for a in kernel.axes if a.reduce]
    parts = ["r" if reduces else "e", *(loops or ["1"]), *reduces, digest[:4]]
    return replace(kernel, name="_".join(parts), _key=[digest])


def _sums_of(value: Value) -> list[Sum]:
    if value.op == "index":
        return [value.arg]
    if value.op == "load":
        _, index, conditions = value.arg
        return [index, *(c for c in conditions if isinstance(c, Sum))]
    if value.op == "test":
        return [c for c in value.arg if isinstance(c, Sum)]
    return []


def _misread(body: Body, order: list[Value]) -> frozenset[int]:
    places: dict[int, set[Sum]] = {}
    for slot, index, _ in body.stores:
        places.setdefault(slot, set()).add(index)
    bad = {slot for slot, found in places.items() if len(found) > 1}
    for value in order:
        if value.op == "load" and places.get(value.arg[0], {value.arg[1]}) != {value.arg[1]}:
            bad.add(value.arg[0])
    return frozenset(bad)


def _needs_int64(sums: list[Sum]) -> bool:
    """Whether any partial sum may leave int32."""
    for s in sums:
        reach = abs(s.const) + sum(
            abs(count) * max(abs(atom.low), abs(atom.high)) for atom, count in s.terms
        )
        if reach > _INT32:
            return True
    return False


def _estimate(body: Body, order: list[Value], kernel: Kernel) -> Estimate:
    points = prod(a.size for a in kernel.axes if not a.reduce)
    rounds = prod(a.size for a in kernel.axes if a.reduce)
    inner = each_value([v.src[0] for v in order if v.op == "reduce"])
    inside = set(inner)
    once = sum(v.op not in _FREE and v not in inside for v in order)
    repeated = sum(v.op not in _FREE for v in inner) + sum(v.op == "reduce" for v in order)
    once -= sum(v.op == "reduce" for v in order)
    loaded: dict[int, int] = {}
    for v in order:
        if v.op == "load":
            touches = points * (rounds if v in inside else 1)
            loaded[v.arg[0]] = max(loaded.get(v.arg[0], 0), touches * v.dtype.itemsize)
    sizes = [a.count * a.dtype.itemsize for a in kernel.arguments]
    writes = sum(points * s.value.dtype.itemsize for s in kernel.stores)
    slots = list(dict.fromkeys([slot for slot, _, _ in body.stores] + list(loaded)))
    reads = sum(min(sizes[slots.index(slot)], touched) for slot, touched in loaded.items())
    return Estimate(points * (max(once, 0) + rounds * repeated), writes + reads)


class _Writer:
    """Writes values as expressions of one pool."""

    def __init__(
        self, axes: Axes, settled: dict[Sum, Sum], slots: tuple[int, ...], dtype: DType
    ) -> None:
        self.pool = Pool()
        self.dtype = dtype
        self.done: dict[Value, Expr] = {}
        self.variables: list[str] = []
        self._settled = settled
        self._arguments = {slot: at for at, slot in enumerate(slots)}
        self._numbers = {atom: n for n, atom in enumerate([*axes.groups[0], *axes.groups[1]])}
        self._sums: dict[Sum, Expr] = {}

    def write(self, value: Value) -> None:
        """The expression of a value whose sources are written."""
        make, op = self.pool.make, value.op
        if op == "const":
            made = make("const", value.dtype, (), value.arg.value)
        elif op == "index":
            made = self._cast(self.sum(value.arg), value.dtype)
        elif op == "load":
            slot, index, conditions = value.arg
            parts = [self.sum(index)]
            if conditions:
                parts.append(self._all(conditions))
            made = make("load", value.dtype, tuple(parts), self._arguments[slot])
        elif op == "test":
            made = self._all(value.arg)
        elif op == "variable":
            if value.arg not in self.variables:
                self.variables.append(value.arg)
            made = make("variable", self.dtype, (), value.arg)
        else:
            made = make(op, value.dtype, tuple(self.done[v] for v in value.src), value.arg)
        self.done[value] = made

    def sum(self, original: Sum) -> Expr:
        """The expression of a sum in the chosen axes."""
        return self._sum(self._settled[original])

    def _sum(self, s: Sum) -> Expr:
        found = self._sums.get(s)
        if found is None:
            found = self._sums[s] = self._line(s.terms, s.const)
        return found

    def _line(self, terms: tuple[tuple[Atom, int], ...], const: int) -> Expr:
        """coefficient * atom + ... + const; axes first, outermost first."""
        result: Expr | None = None
        for atom, count in sorted(terms, key=self._rank):
            part = self._atom(atom)
            if count != 1:
                part = self.pool.make("mul", self.dtype, (part, self._number(count)))
            result = part if result is None else self._add(result, part)
        if result is None:
            return self._number(const)
        return self._add(result, self._number(const)) if const else result

    def _rank(self, term: tuple[Atom, int]) -> tuple[int, int]:
        number = self._numbers.get(term[0])
        return (1, term[0].serial) if number is None else (0, number)

    def _add(self, a: Expr, b: Expr) -> Expr:
        return self.pool.make("add", self.dtype, (a, b))

    def _number(self, value: int) -> Expr:
        return self.pool.make("const", self.dtype, (), value)

    def _cast(self, e: Expr, dtype: DType) -> Expr:
        return e if e.dtype is dtype else self.pool.make("cast", dtype, (e,))

    def _atom(self, atom: Atom) -> Expr:
        if atom.kind == "axis":
            return self.pool.make("axis", self.dtype, (), self._numbers[atom])
        if atom.kind == "value":
            return self._cast(self.done[atom.arg], self.dtype)
        inner, by = atom.arg
        op = "idiv" if atom.kind == "div" else "mod"
        return self.pool.make(op, self.dtype, (self._sum(inner), self._number(by)))

    def _all(self, conditions: tuple[Condition, ...]) -> Expr:
        result: Expr | None = None
        for condition in conditions:
            if isinstance(condition, Value):
                part = self.done[condition]
            else:
                part = self._below_zero(self._settled[condition])
            if result is None:
                result = part
            elif part is not result:
                result = self.pool.make("and", dtypes.bool, (result, part))
        if result is None:
            return self.pool.make("const", dtypes.bool, (), True)
        return result

    def _below_zero(self, s: Sum) -> Expr:
        """s < 0, with what is subtracted on the other side."""
        added = tuple((atom, count) for atom, count in s.terms if count > 0)
        taken = tuple((atom, -count) for atom, count in s.terms if count < 0)
        left = self._line(added, s.const if taken else 0)
        right = self._line(taken, 0) if taken else self._number(-s.const)
        return self.pool.make("lt", dtypes.bool, (left, right))
