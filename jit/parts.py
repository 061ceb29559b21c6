"""A long reduction to few values as two kernels, so that all of a device works on it.

The first kernel reduces equal parts of one reduce axis, each to a partial result; the
second reduces those and does what follows. Results are those of one kernel but for the
order of additions.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from jit.dtype import DType
from jit.emit import Emitted, named
from jit.kernel import Argument, Axis, Expr, Kernel, Pool, Store, expressions
from jit.term import Term
from runtime.call import Estimate

_PART = 4096  # the least elements of a part


Given = tuple[int, Argument]  # a slot, and what it is for a kernel


@dataclass(frozen=True)
class _Limits:
    """What a kind of device wants."""

    groups: int  # so many parts of outputs keep it busy
    outputs: int  # with more outputs than this it is busy anyway
    worth: int  # elements to reduce that pay for one more launch
    uneven: bool  # parts may be of different sizes: costs selects, and neighbours in a vector


_GPU = _Limits(groups=2048, outputs=32, worth=1 << 20, uneven=True)
_CPU = _Limits(groups=32, outputs=4, worth=1 << 22, uneven=False)


def in_parts(emitted: Emitted, device: str, make: Callable[[DType, int], int]) -> list[Emitted]:
    """The kernel, or the two that take its place. make: a new slot of so many elements."""
    kernel = emitted.kernel
    cut = _cut(kernel, _CPU if device.partition(":")[0] == "CPU" else _GPU)
    if cut is None:
        return [emitted]
    reduces = [e for e in expressions(kernel) if e.op == "reduce"]
    count = cut.parts * prod(a.size for a in kernel.axes if not a.reduce)
    partial = [(make(e.dtype, count), Argument(e.dtype, count, written=True)) for e in reduces]
    return [_first(emitted, cut, reduces, partial), _second(emitted, reduces, partial, cut.parts)]


@dataclass(frozen=True)
class _Cut:
    """Which reduce axis is cut, into how many parts, and how long one is."""

    axis: int
    parts: int
    rest: int


def _cut(kernel: Kernel, limits: _Limits) -> _Cut | None:
    """How to cut a kernel; None where it does not pay."""
    outputs = prod(a.size for a in kernel.axes if not a.reduce)
    depth = prod(a.size for a in kernel.axes if a.reduce)
    is_short = outputs * depth < limits.worth
    if outputs > limits.outputs or is_short or dict(kernel.options).get("NOOPT"):
        return None
    longest = max(
        range(len(kernel.axes)), key=lambda a: (kernel.axes[a].reduce, kernel.axes[a].size)
    )
    size = kernel.axes[longest].size
    most = min(limits.groups // outputs, depth // _PART, size // 2)
    if most < 4:
        return None
    parts = max(n for n in range(1, most + 1) if size % n == 0)
    if 2 * parts < most:
        if not limits.uneven or size + most > kernel.index_dtype.most:
            return None
        parts = most
    return _Cut(longest, parts, -(-size // parts))


class _Rewriting:
    """Expressions of one kernel in those of another. numbers: its arguments there."""

    def __init__(self, numbers: dict[int, int], free: int) -> None:
        self.pool = Pool()
        self.numbers = numbers
        self.free = free  # the number of the next argument
        self._made: dict[int, Expr] = {}

    def term(self, op: str, dtype: DType, arg: object) -> Term:
        return Term(self.pool, self.pool.make(op, dtype, (), arg))

    def write(self, root: Expr, known: Callable[[Expr], Term | None]) -> Term:
        """The expression again, but for what is known."""
        stack = [(root, False)]
        while stack:
            e, done = stack.pop()
            if id(e) in self._made:
                continue
            given = known(e)
            if given is not None:
                self._made[id(e)] = given.expr
            elif done:
                sources = tuple(self._made[id(s)] for s in e.src)
                arg = self._number(e.arg) if e.op == "load" else e.arg
                self._made[id(e)] = self.pool.make(e.op, e.dtype, sources, arg)
            else:
                stack.append((e, True))
                stack.extend((s, False) for s in reversed(e.src))
        return Term(self.pool, self._made[id(root)])

    def _number(self, argument: int) -> int:
        if argument not in self.numbers:
            self.numbers[argument] = self.free
            self.free += 1
        return self.numbers[argument]


def _first(emitted: Emitted, cut: _Cut, reduces: list[Expr], partial: list[Given]) -> Emitted:
    """Reduces the parts. Its first axis counts them."""
    kernel, index = emitted.kernel, emitted.kernel.index_dtype
    loops = [a.size for a in kernel.axes if not a.reduce]
    size = kernel.axes[cut.axis].size
    out = _Rewriting({}, len(partial))
    position = out.term("axis", index, 0) * cut.rest + out.term("axis", index, cut.axis + 1)
    is_even = cut.parts * cut.rest == size

    def known(e: Expr) -> Term | None:
        if e.op != "axis":
            return None
        if e.arg == cut.axis:
            return position if is_even else position.of("min", size - 1)
        return out.term("axis", index, e.arg + 1)

    stores = []
    for n, e in enumerate(reduces):
        value = out.write(e.src[0], known)
        if not is_even:
            value = (position < size).where(value, value.like(_identity(e)))
        total = out.pool.make("reduce", e.dtype, (value.expr,), e.arg)
        stores.append(Store(n, _row_major(out, index, [cut.parts, *loops]).expr, total))
    axes = [Axis(cut.parts), *kernel.axes]
    axes[cut.axis + 1] = Axis(cut.rest, reduce=True)
    made = _emitted(emitted, out, partial, axes, stores)
    return replace(made, outputs=len(partial), estimate=emitted.estimate)


def _second(emitted: Emitted, reduces: list[Expr], partial: list[Given], parts: int) -> Emitted:
    """Reduces the partial results, and does what the kernel does with them."""
    kernel, index = emitted.kernel, emitted.kernel.index_dtype
    loops = [a.size for a in kernel.axes if not a.reduce]
    outputs = emitted.outputs
    out = _Rewriting({n: n for n in range(outputs)}, outputs + len(partial))
    place = out.term("axis", index, len(loops))
    if loops:
        place = place * prod(loops) + _row_major(out, index, loops)
    totals = {}
    for n, e in enumerate(reduces):
        load = out.pool.make("load", e.dtype, (place.expr,), outputs + n)
        totals[id(e)] = Term(out.pool, out.pool.make("reduce", e.dtype, (load,), e.arg))

    def again(e: Expr) -> Expr:
        return out.write(e, lambda e: totals.get(id(e))).expr

    stores = [
        Store(s.argument, again(s.index), again(s.value), again(s.valid) if s.valid else None)
        for s in kernel.stores
    ]
    given = list(zip(emitted.slots, kernel.arguments, strict=True))[:outputs]
    given += [(slot, replace(argument, written=False)) for slot, argument in partial]
    axes = [*(Axis(n) for n in loops), Axis(parts, reduce=True)]
    made = _emitted(emitted, out, given, axes, stores)
    sizes = sum(argument.count * argument.dtype.itemsize for _, argument in partial)
    operations = sum(argument.count for _, argument in partial)
    return replace(made, outputs=outputs, estimate=Estimate(operations, sizes))


def _emitted(
    whole: Emitted, out: _Rewriting, given: list[Given], axes: list[Axis], stores: list[Store]
) -> Emitted:
    """A kernel of some given arguments, and then of those of the whole that it loads."""
    kernel = whole.kernel
    rest = sorted((new, old) for old, new in out.numbers.items() if new >= len(given))
    given = given + [
        (whole.slots[old], replace(kernel.arguments[old], written=False)) for _, old in rest
    ]
    made = replace(
        kernel,
        name="kernel",
        arguments=tuple(argument for _, argument in given),
        axes=tuple(axes),
        stores=tuple(stores),
    )
    used = {e.arg for e in expressions(made) if e.op == "variable"}
    made = replace(made, variables=tuple(v for v in kernel.variables if v in used))
    return replace(whole, kernel=named(made), slots=tuple(slot for slot, _ in given))


def _identity(e: Expr) -> int | float | bool:
    start: dict[str, int | float | bool] = {
        "sum": 0,
        "prod": 1,
        "max": e.dtype.least,
        "min": e.dtype.most,
    }
    return start[e.arg]


def _row_major(out: _Rewriting, index: DType, sizes: list[int]) -> Term:
    """The row-major index over the first axes."""
    result = out.term("axis", index, 0)
    for a, size in enumerate(sizes[1:], 1):
        result = result * size + out.term("axis", index, a)
    return result
