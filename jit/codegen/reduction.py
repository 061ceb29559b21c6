"""Reduce loops: accumulators in registers, the body unrolled, partial results combined.

A sum of products is accumulated with fused multiply-add where the target has it. Long
sums of float32 go block by block into totals of float64.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jit.codegen import totals
from jit.codegen.memory import lane
from jit.codegen.operation import Operations
from jit.codegen.text import Value, literal, typed, value_type
from jit.dtype import DType, dtypes
from jit.kernel import Expr, expressions

if TYPE_CHECKING:
    from jit.codegen.llvm import Builder, Point

Slot = tuple[str, int]  # stack slot, lanes


def write(b: "Builder", points: list["Point"]) -> None:
    """Compute every reduce of the kernel at every point; the builder's results hold them."""
    Reduction(b, points).write()


class Reduction:
    """The reduce loops of one tile."""

    def __init__(self, b: "Builder", points: list["Point"]) -> None:
        assert b.plan.inner is not None
        self.b = b
        self.inner = b.plan.inner
        self.split = b.plan.splits[self.inner]
        self.reduces = [e for e in expressions(b.kernel) if e.op == "reduce"]
        self.points = {e: sorted({b.project(e, p) for p in points}) for e in self.reduces}
        self.slots: dict[tuple[Expr, Point, int], Slot] = {}
        self.tails: dict[tuple[Expr, Point, int], Slot] = {}
        self.totals: dict[tuple[Expr, Point], Slot] = {}
        counts = [len(self.points[e]) for e in self.reduces if totals.is_inexact(e)]
        self.block = totals.block(b, self.inner, counts)

    def write(self) -> None:
        b = self.b
        axes = [a for a, axis in enumerate(b.kernel.axes) if axis.reduce]
        if any(b.kernel.axes[a].size == 0 for a in axes):
            for e in self.reduces:
                for point in self.points[e]:
                    b.results[(id(e), point)] = self._identity(e)
            return
        self._make_slots()
        self._nest([a for a in axes if a != self.inner])
        for e in self.reduces:
            for point in self.points[e]:
                b.results[(id(e), point)] = self._finish(e, point)

    def _identity(self, e: Expr) -> Value:
        dtype = e.dtype
        start = {"sum": 0, "prod": 1, "max": dtype.least, "min": dtype.most}[e.arg]
        if dtype.is_float and dtype.bits == 16:
            return literal("i16", _SMALL[dtype.name][e.arg])
        return literal(value_type(dtype), start)

    @property
    def vectors_inner(self) -> bool:
        """Whether the lanes lie along the innermost reduce loop."""
        return self.b.plan.vector == self.inner and self.split.lanes > 1

    def _lanes(self, e: Expr) -> int:
        b = self.b
        depends = b.strides.mask(e.src[0]) >> b.vector_bit & 1
        return b.lanes if self.vectors_inner or depends else 1

    def _make_slots(self) -> None:
        tail = self.vectors_inner and self.split.ragged
        for e in self.reduces:
            for point in self.points[e]:
                for k in range(self.b.plan.accumulators):
                    self.slots[(e, point, k)] = self._slot(e, self._lanes(e))
                if tail:
                    self.tails[(e, point, 0)] = self._slot(e, 1)
                if self.block and totals.is_inexact(e):
                    zero = literal("double", 0)
                    self.totals[(e, point)] = self._slot(e, self._lanes(e), zero)

    def _slot(self, e: Expr, lanes: int, start: Value | None = None) -> Slot:
        b = self.b
        start = start or self._identity(e)
        name = b.function.alloca(start.element, lanes, b.target.stack_space)
        b.region.append(f"  store {b.out().splat(start, lanes)}, {self._pointer(name)}")
        return name, lanes

    def _pointer(self, name: str) -> str:
        return f"ptr{self.b.target.stack_space.removeprefix(',')} {name}"

    def _nest(self, outer: list[int]) -> None:
        if not outer:
            self._innermost()
            return
        size = self.b.kernel.axes[outer[0]].size
        with self._loop(outer[0], self.b.index(0), size, 1):
            self._nest(outer[1:])

    @contextmanager
    def _loop(self, a: int, begin: Value, end: int, step: int) -> Iterator[None]:
        """A loop; where its axis is the one cut into blocks, totals take in each block."""
        b = self.b
        if self.block is None or self.block[0] != a:
            with b.loop(a, begin, end, step):
                yield
            return
        extent = self.block[1] * step
        with b.loop(a, begin, end, extent):
            out, start, last = b.out(), b.positions[a], b.index(end - extent)
            low = out.select(out.compare("icmp ult", start, last), start, last)
            stop = out.binary("add nuw nsw", low, b.index(extent))
            with b.loop(a, start, stop, step):
                yield
            self._flush()

    def _flush(self) -> None:
        """Add what the accumulators hold to the totals, and clear them."""
        b = self.b
        for (e, point), slot in self.totals.items():
            total = self._total(e, point)
            b.region.append(f"  store {total}, {self._pointer(slot[0])}")
            for k in range(b.plan.accumulators):
                name, lanes = self.slots[(e, point, k)]
                zero = b.out().splat(self._identity(e), lanes)
                b.region.append(f"  store {zero}, {self._pointer(name)}")

    def _total(self, e: Expr, point: "Point") -> Value:
        """What was summed so far, as float64."""
        so_far = self._read("double", self.totals[(e, point)])
        recent = self._accumulated(e, point)
        out = self.b.out()
        return out.binary("fadd", so_far, totals.widen(out, recent))

    def _innermost(self) -> None:
        b, split = self.b, self.split
        thread = b.threads[self.inner]
        step = split.extent
        whole = split.size - split.size % step
        begin = b.offsets[self.inner] or b.index(0)
        if whole == step:
            with b.once(self.inner, begin):
                self._body(self.slots, split.unroll)
        elif whole:
            self._turns(begin, whole, step)
        if whole < split.size:
            self._rest(whole, thread)

    def _turns(self, begin: Value, whole: int, step: int) -> None:
        """The innermost loop as far as its steps are whole."""
        b, staging = self.b, self.b.staging
        if staging is None:
            with self._loop(self.inner, begin, whole, step):
                self._body(self.slots, self.split.unroll)
            return
        staging.fetch(begin)
        with b.loop(self.inner, begin, whole, step):
            following = b.out().binary("add nuw nsw", b.positions[self.inner], b.index(step))
            with staging.turn(following, b.index(whole - step)):
                self._body(self.slots, self.split.unroll)

    def _rest(self, whole: int, thread: Value | None) -> None:
        """What is left of the innermost loop: one element per thread and step."""
        b = self.b
        lanes = b.lanes
        if self.vectors_inner:
            b.lanes = 1
        begin = b.index(whole)
        if thread is not None:
            begin = b.out().binary("add nuw nsw", begin, thread)
        with b.loop(
            self.inner, begin, self.split.size, self.split.threads, check=thread is not None
        ):
            self._body(self.tails or self.slots, 1)
        b.lanes = lanes

    def _body(self, slots: dict[tuple[Expr, "Point", int], Slot], unroll: int) -> None:
        b = self.b
        current: dict[tuple[Expr, Point, int], Value] = {}
        for k in range(unroll):
            for e in self.reduces:
                for point in self.points[e]:
                    key = (e, point, 0 if slots is self.tails else k % b.plan.accumulators)
                    if key not in current:
                        current[key] = self._read(value_type(e.dtype), slots[key])
                    here = tuple(k if a == self.inner else p for a, p in enumerate(point))
                    current[key] = self._accumulate(e, here, current[key])
        for key, value in current.items():
            b.region.append(f"  store {value}, {self._pointer(slots[key][0])}")

    def _read(self, element: str, slot: Slot) -> Value:
        code = f"load {typed(element, slot[1])}, {self._pointer(slot[0])}"
        return self.b.function.add(self.b.region, element, slot[1], code)

    def _accumulate(self, e: Expr, point: "Point", so_far: Value) -> Value:
        b = self.b
        value = e.src[0]
        if b.target.has_fma and _is_sum_of_products(e):
            factors = [b.evaluate(s, point) for s in value.src]
            out = b.out()
            wide = [out.splat(f, so_far.lanes) for f in factors]
            return out.intrinsic("fma", *wide, so_far)
        found = b.evaluate(value, point)
        out = b.out()
        return b.combine(e.arg, e.dtype, out, so_far, out.splat(found, so_far.lanes))

    def _finish(self, e: Expr, point: "Point") -> Value:
        """All partial results of one reduce at one point as one value."""
        b, total = self.b, (e, point) in self.totals
        value = self._total(e, point) if total else self._accumulated(e, point)
        out = b.out()
        if self.vectors_inner:
            value = self._across(e, dtypes.float64 if total else e.dtype, out, value)
        value = totals.narrow(out, value) if total else value
        if self.tails:
            rest = self._read(value_type(e.dtype), self.tails[(e, point, 0)])
            value = b.combine(e.arg, e.dtype, out, value, rest)
        if self.split.threads > 1:
            value = b.target.share(b, e, value)
        return value

    def _accumulated(self, e: Expr, point: "Point") -> Value:
        """The accumulators of one reduce at one point combined, pairs at a time."""
        b, element = self.b, value_type(e.dtype)
        parts = [self._read(element, self.slots[(e, point, k)]) for k in range(b.plan.accumulators)]
        out = b.out()
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=False)
            odd = parts[-1:] if len(parts) % 2 else []
            parts = [b.combine(e.arg, e.dtype, out, *pair) for pair in pairs] + odd
        return parts[0]

    def _across(self, e: Expr, dtype: DType, out: Operations, value: Value) -> Value:
        """The lanes of a vector combined, halves at a time."""
        while value.lanes > 1:
            half = value.lanes // 2
            low, high = (self._half(out, value, range(start, start + half)) for start in (0, half))
            value = self.b.combine(e.arg, dtype, out, low, high)
        return value

    def _half(self, out: Operations, value: Value, lanes: range) -> Value:
        if len(lanes) == 1:
            return lane(out, value, lanes[0])
        picks = ", ".join(f"i32 {i}" for i in lanes)
        code = f"shufflevector {value}, {value.type} poison, <{len(lanes)} x i32> <{picks}>"
        return out.function.add(out.region, value.element, len(lanes), code)


def _is_sum_of_products(e: Expr) -> bool:
    value = e.src[0]
    is_product = value.op == "mul" and value.dtype.is_float and value.dtype.bits >= 32
    return e.arg == "sum" and is_product


# Bits of 0, 1, -inf and inf in the types that are held as bits.
_SMALL = {
    "float16": {"sum": 0, "prod": 0x3C00, "max": 0xFC00, "min": 0x7C00},
    "bfloat16": {"sum": 0, "prod": 0x3F80, "max": 0xFF80, "min": 0x7F80},
}
