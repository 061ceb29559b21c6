"""The kernel builder: loop IR and a plan to LLVM IR, the same for every target.

A tile is computed so: positions of its axes, loops over the reduce axes around
the unrolled body, then values and stores of every point. An expression is
written once per distinct position it depends on, in the outermost loop level
where it can be.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Protocol

from jit import math
from jit.access import Strides
from jit.codegen import memory, number, reduction
from jit.codegen.operation import Operations, apply
from jit.codegen.sign import against_zero
from jit.codegen.staging import Staging
from jit.codegen.text import Function, Value, literal, value_type
from jit.dtype import DType, dtypes
from jit.kernel import Expr, Kernel, Pool, Store, expressions
from jit.tile import Plan, Split

Point = tuple[int, ...]  # per axis, which of its unrolled positions

_LEAVES = ("const", "axis", "variable", "reduce", "load")
# Instructions for integers that are known to be in range and not negative.
_INDEX = {"add": "add nuw nsw", "mul": "mul nuw nsw", "idiv": "udiv", "mod": "urem"}


class Target(Protocol):
    """What the builder asks of a target."""

    pointer: str  # type of a pointer to a buffer
    stack_space: str  # what an alloca says of its address space
    has_fma: bool
    has_half: bool
    has_fences: bool
    has_mixed_products: bool

    def address(self, b: "Builder", out: Operations, argument: int, index: Value) -> str:
        """A pointer, with its type, to an element; index is a scalar."""

    def share(self, b: "Builder", e: Expr, value: Value) -> Value:
        """A value combined over the threads along the inner reduce axis."""

    def barrier(self, b: "Builder") -> None:
        """All threads of the group see each other's stores to local memory."""


class Builder:
    """Writes the body of one kernel."""

    def __init__(self, kernel: Kernel, plan: Plan, target: Target) -> None:
        self.kernel = kernel
        self.plan = plan
        self.target = target
        self.function = Function(
            has_half=target.has_half,
            has_fences=target.has_fences,
            has_mixed_products=target.has_mixed_products,
        )
        self.strides = Strides(kernel)
        self.pool = Pool()
        self.pointers: list[str] = []
        self.variables: dict[str, Value] = {}
        # Per axis this thread's number, and its first point in a tile.
        self.threads: list[Value | None] = [None] * len(kernel.axes)
        self.offsets: list[Value | None] = [None] * len(kernel.axes)
        # Per axis where the tile begins, and where this thread is.
        self.bases: list[Value] = [self.index(0)] * len(kernel.axes)
        self.positions: list[Value] = [self.index(0)] * len(kernel.axes)
        self.fresh: list[Value | None] = [None] * len(kernel.axes)
        self.lanes = plan.splits[plan.vector].lanes if plan.vector is not None else 1
        # Per loop level the region being written and what it already holds.
        self.levels: list[tuple[list[str], dict[tuple[object, ...], Value]]] = []
        self.results: dict[tuple[int, Point], Value] = {}
        # Whether something read is also written: then no point may be computed twice, not
        # even into another argument, since its second value would come of new contents.
        self._updates = any(
            e.op == "load" and kernel.arguments[e.arg].written for e in expressions(kernel)
        )
        self._axis_level = [0] * len(kernel.axes)
        self._orders: dict[int, list[Expr]] = {}
        self._expanded: dict[int, Expr] = {}
        self.staging: Staging | None = None

    # Small things

    def index(self, value: int) -> Value:
        """A constant of the index type."""
        return literal(value_type(self.kernel.index_dtype), value)

    @property
    def region(self) -> list[str]:
        return self.levels[-1][0]

    def out(self, level: int = -1) -> Operations:
        """Operations into the region of a loop level."""
        return Operations(self.function, self.levels[level][0])

    def label(self, stem: str) -> str:
        """Begin a block in a new region of the innermost level; its name."""
        name = self.function.name(stem)
        region = self.function.open()
        region.append(f"{name}:")
        self.levels[-1] = (region, self.levels[-1][1])
        return name

    def project(self, e: Expr, point: Point) -> Point:
        """A point with 0 for every axis that an expression does not depend on."""
        mask = self.strides.mask(e)
        return tuple(p if mask >> a & 1 else 0 for a, p in enumerate(point))

    def step(self, a: int) -> int:
        """How far apart the unrolled positions of an axis are."""
        return self.plan.splits[a].run * (self.lanes if a == self.vector_bit else 1)

    def level(self, e: Expr) -> int:
        """The outermost loop level in which everything that e depends on is known."""
        mask = self.strides.mask(e)
        return max((n for a, n in enumerate(self._axis_level) if mask >> a & 1), default=0)

    # The tile

    def place(self, tile: Value) -> None:
        """Positions of the loop axes in the tile of this number (row-major)."""
        out = self.out()
        for a in reversed([a for a, axis in enumerate(self.kernel.axes) if not axis.reduce]):
            split = self.plan.splits[a]
            if split.tiles == 1:
                number_here = None
            else:
                tiles = out.constant(tile, split.tiles)
                number_here = out.binary("urem", tile, tiles)
                tile = out.binary("udiv", tile, tiles)
            self.positions[a] = self._position(a, split, number_here)

    def _position(self, a: int, split: Split, tile: Value | None) -> Value:
        out = self.out()
        element = value_type(self.kernel.index_dtype)
        position = self.index(0)
        if tile is not None:
            smaller = int(element[1:]) < int(tile.element[1:])
            here = out.convert("trunc" if smaller else "zext", tile, element)
            position = out.binary("mul nuw nsw", here, self.index(split.extent))
            if split.ragged:
                self.fresh[a] = position
                last = self.index(split.size - split.extent)
                position = out.select(out.compare("icmp ult", position, last), position, last)
        self.bases[a] = position
        offset = self.offsets[a]
        if offset is not None:
            position = out.binary("add nuw nsw", position, offset)
        return position

    def write(self) -> None:
        """Everything a tile computes, into the current region; it may end in another."""
        loops = [
            range(1) if axis.reduce else range(split.unroll)
            for axis, split in zip(self.kernel.axes, self.plan.splits, strict=True)
        ]
        points = list(product(*loops))
        if self.plan.staged:
            self.staging = Staging(self)
        if self.plan.inner is not None:
            reduction.write(self, points)
        # All loads before the first store: they may overlap on the device.
        ready = [(s, self._prepared(s, p)) for p in points for s in self.kernel.stores]
        for store, (pointers, value, valid) in ready:
            dtype = self.kernel.arguments[store.argument].dtype
            memory.store(self, pointers, value, valid, dtype)

    def _prepared(self, store: Store, point: Point) -> tuple[list[str], Value, Value | None]:
        value = self.evaluate(store.value, point)
        out = self.out()
        value = number.to_memory(out, value, store.value.dtype)
        valid = self._may_store(store, point)
        whole = self.strides.mask(store.index) >> self.vector_bit & 1 and self.lanes > 1
        lanes = self.lanes if whole else 1
        if lanes > 1:
            value = out.splat(value, lanes)
            valid = None if valid is None else out.splat(valid, lanes)
        return memory.addresses(self, store.argument, store.index, point, lanes), value, valid

    @property
    def vector_bit(self) -> int:
        return self.plan.vector if self.plan.vector is not None else len(self.kernel.axes)

    def _may_store(self, store: Store, point: Point) -> Value | None:
        """The condition of a store: its own, and for kernels that update in place, that
        the point is not one a neighbouring tile owns.
        """
        conditions = [] if store.valid is None else [self.evaluate(store.valid, point)]
        out = self.out()
        if self._updates:
            for a, fresh in enumerate(self.fresh):
                if fresh is not None:
                    here = self.axis_value(a, point, self.lanes)
                    conditions.append(out.compare("icmp uge", here, out.splat(fresh, here.lanes)))
        leader = self._leader()
        if leader is not None:
            conditions.append(leader)
        if not conditions:
            return None
        lanes = max(c.lanes for c in conditions)
        first, *rest = (out.splat(c, lanes) for c in conditions)
        for c in rest:
            first = out.binary("and", first, c)
        return first

    def _leader(self) -> Value | None:
        inner = self.plan.inner
        thread = None if inner is None else self.threads[inner]
        if thread is None:
            return None
        return self.out().compare("icmp eq", thread, self.index(0))

    # Expressions

    def axis_value(self, a: int, point: Point, lanes: int) -> Value:
        """The index along an axis at a point: a vector along the vector axis if lanes > 1."""
        lanes = lanes if a == self.vector_bit else 1
        out = self.out(self._axis_level[a])
        offset = point[a] * self.step(a)
        value = self.positions[a]
        if offset:
            value = out.binary("add nuw nsw", value, self.index(offset))
        if lanes > 1:
            element = value.element
            steps = ", ".join(f"{element} {i}" for i in range(lanes))
            value = out.binary(
                "add nuw nsw", out.splat(value, lanes), Value(element, f"<{steps}>", lanes)
            )
        return value

    def evaluate(self, root: Expr, point: Point, lanes: int | None = None) -> Value:
        """The value of an expression at a point. lanes 1: of the first lane alone."""
        lanes = self.lanes if lanes is None else lanes
        for e in self._order(root):
            self._one(e, point, lanes)
        return self._one(root, point, lanes)

    def _order(self, root: Expr) -> list[Expr]:
        """What root is made of, sources first; not what loads and reduces are made of."""
        found = self._orders.get(id(root))
        if found is None:
            found, seen = [], set()
            stack = [(root, False)]
            while stack:
                e, done = stack.pop()
                if done:
                    found.append(e)
                elif id(e) not in seen:
                    seen.add(id(e))
                    stack.append((e, True))
                    leaf = e.op in ("load", "reduce") or self.is_expanded(e)
                    stack.extend((s, False) for s in (() if leaf else reversed(e.src)))
            self._orders[id(root)] = found
        return found

    def is_expanded(self, e: Expr) -> bool:
        """Whether the target has no code for the operation and it is rewritten."""
        return math.needs_expansion(e, has_fma=self.target.has_fma)

    def _one(self, e: Expr, point: Point, lanes: int) -> Value:
        mask = self.strides.mask(e)
        if not mask >> self.vector_bit & 1:
            lanes = 1
        key = (id(e), lanes, *(p for a, p in enumerate(point) if mask >> a & 1))
        level = self.level(e)
        memo = self.levels[level][1]
        found = memo.get(key)
        if found is None:
            found = memo[key] = self._write_one(e, point, lanes, level)
        return found

    def _write_one(self, e: Expr, point: Point, lanes: int, level: int) -> Value:
        if e.op in _LEAVES:
            return self._leaf(e, point, lanes, level)
        if self.is_expanded(e):
            if id(e) not in self._expanded:
                self._expanded[id(e)] = math.expand(e, self.pool)
                self.strides.learn(self._expanded[id(e)])
            return self.evaluate(self._expanded[id(e)], point, lanes)
        values = [self._one(s, point, lanes) for s in e.src]
        out = self.out(level)
        width = max(v.lanes for v in values)
        return self._operate(e, out, [out.splat(v, width) for v in values])

    def _leaf(self, e: Expr, point: Point, lanes: int, level: int) -> Value:
        if e.op == "const":
            return self._constant(e)
        if e.op == "axis":
            return self.axis_value(e.arg, point, lanes)
        if e.op == "variable":
            return self.variables[e.arg]
        if e.op == "reduce":
            return self.results[(id(e), self.project(e, point))]
        if self.staging is not None and self.staging.holds(e):
            return self.staging.read(e, point, level)
        return memory.load(self, e, point, lanes, level)

    def _constant(self, e: Expr) -> Value:
        if e.dtype.is_float and e.dtype.bits == 16:
            wide = literal("float", e.arg)
            return number.cast(self.out(0), wide, dtypes.float32, e.dtype)
        return literal(value_type(e.dtype), e.arg)

    def _operate(self, e: Expr, out: Operations, values: list[Value]) -> Value:
        source = e.src[-1].dtype
        if e.op in ("cast", "bitcast"):
            convert = number.cast if e.op == "cast" else number.bitcast
            return convert(out, values[0], source, e.dtype)
        if e.op == "where":
            return out.select(*values)
        if e.op == "intrinsic":
            return out.intrinsic(e.arg, *values)
        if source.is_float and source.bits == 16:
            wide = [number.widen(out, v, source) for v in values]
            found = against_zero(e, out, wide) or apply(e.op, dtypes.float32, out, wide)
            return number.cast(out, found, dtypes.float32, source) if e.dtype is source else found
        if self._is_index(e):
            return out.binary(_INDEX[e.op], *values)
        return against_zero(e, out, values) or apply(e.op, source, out, values)

    def _is_index(self, e: Expr) -> bool:
        """Whether an integer operation is known to stay in range and not to be negative."""
        if not e.dtype.is_int or e.op not in _INDEX:
            return False
        if e.op in ("idiv", "mod") and not (e.src[1].op == "const" and e.src[1].arg > 0):
            return False
        ranges = [self.strides.bounds(s) for s in (*e.src, e)]
        return all(r is not None and r[0] >= 0 for r in ranges)

    def combine(self, kind: str, dtype: DType, out: Operations, a: Value, b: Value) -> Value:
        """Two partial results of a reduction as one."""
        op = {"sum": "add", "prod": "mul"}.get(kind, kind)
        if dtype.is_float and dtype.bits == 16:
            wide = [number.widen(out, v, dtype) for v in (a, b)]
            found = apply(op, dtypes.float32, out, wide)
            return number.cast(out, found, dtypes.float32, dtype)
        return apply(op, dtype, out, [a, b])

    # Loops

    @contextmanager
    def at(self, positions: dict[int, Value]) -> Iterator[None]:
        """Other positions along some axes, for what is written meanwhile."""
        outside = self.positions[:], self._axis_level[:]
        for a, position in positions.items():
            self.positions[a] = position
            self._axis_level[a] = len(self.levels)
        self.levels.append((self.region, {}))
        yield
        region, _ = self.levels.pop()
        self.positions, self._axis_level = outside
        self.levels[-1] = (region, self.levels[-1][1])

    @contextmanager
    def once(self, a: int, position: Value) -> Iterator[None]:
        """A loop of an axis that runs exactly once, at a position."""
        outside, self.positions[a] = self.positions[a], position
        self._axis_level[a] = len(self.levels)
        self.levels.append((self.region, {}))
        yield
        region, _ = self.levels.pop()
        self.positions[a] = outside
        self.levels[-1] = (region, self.levels[-1][1])

    @contextmanager
    def loop(
        self, a: int, begin: Value, end: int | Value, step: int, *, check: bool = False
    ) -> Iterator[None]:
        """A loop of an axis's position from begin below end; check: begin may be past end."""
        element = begin.element
        limit = literal(element, end) if isinstance(end, int) else end
        before = self.function.name("before")
        region = self.function.open()
        region.append(f"  br label %{before}")
        head, latch, after = (self.function.name(n) for n in ("head", "latch", "after"))
        counter, following = f"%{self.function.name('i')}", f"%{self.function.name('n')}"
        region.append(f"{before}:")
        if check:
            enter = Operations(self.function, region).compare("icmp ult", begin, limit)
            region.append(f"  br {enter}, label %{head}, label %{after}")
        else:
            region.append(f"  br label %{head}")
        body = self.function.open()
        body += [
            f"{head}:",
            f"  {counter} = phi {element} [ {begin.name}, %{before} ], [ {following}, %{latch} ]",
        ]
        outside, self.positions[a] = self.positions[a], Value(element, counter)
        self._axis_level[a] = len(self.levels)
        self.levels.append((body, {}))
        yield
        tail = self.function.open()
        tail.append(f"  br label %{latch}")
        again = self.function.name("c")
        tail += [
            f"{latch}:",
            f"  {following} = add nuw nsw {element} {counter}, {step}",
            f"  %{again} = icmp ult {element} {following}, {limit.name}",
            f"  br i1 %{again}, label %{head}, label %{after}",
        ]
        self.levels.pop()
        self.positions[a] = outside
        region = self.function.open()
        region.append(f"{after}:")
        self.levels[-1] = (region, self.levels[-1][1])
