"""Tiles of loads in local memory: read from global memory once per work-group, used by many.

Each turn of the innermost reduce loop covers `unroll` steps of its axis. All threads of
the group fetch the elements of the next turn into registers, then put them where the
whole group reads them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from math import gcd, prod
from typing import TYPE_CHECKING

from jit.codegen import memory
from jit.codegen.number import from_memory, to_memory
from jit.codegen.operation import Operations
from jit.codegen.text import Value, literal, memory_type
from jit.kernel import Expr
from jit.tile_staged import staged_axes, staged_strides

if TYPE_CHECKING:
    from jit.codegen.llvm import Builder, Point

LOCAL = "ptr addrspace(3)"


class Staging:
    """The tiles of one kernel."""

    def __init__(self, b: "Builder") -> None:
        self.b = b
        self.tiles = {id(e): _Tile(b, e, n) for n, e in enumerate(b.plan.staged)}
        self._is_filled = False

    def holds(self, e: Expr) -> bool:
        """Whether a load is to be read from its tile here."""
        return self._is_filled and id(e) in self.tiles

    def fetch(self, step: Value) -> None:
        """Read the elements of the turn that begins at a step of the reduce axis."""
        for tile in self.tiles.values():
            tile.fetch(step)

    @contextmanager
    def turn(self, step: Value, last: Value) -> Iterator[None]:
        """One turn: what was fetched can be read; what begins at step is fetched meanwhile.

        step may be past the last turn's, which is then fetched once more.
        """
        b = self.b
        b.target.barrier(b)  # nobody reads the turn before any more
        for tile in self.tiles.values():
            tile.put()
        b.target.barrier(b)
        out = b.out()
        self.fetch(out.select(out.compare("icmp ult", step, last), step, last))
        self._is_filled = True
        yield
        self._is_filled = False

    def read(self, e: Expr, point: "Point", level: int) -> Value:
        """The value of a load at a point of this thread."""
        return self.tiles[id(e)].read(point, level)


class _Tile:
    """The elements that one load reads in one turn, in any thread of the group.

    Along an axis, points lie as a thread reads them: those of a thread side by side where
    the threads of a wave are not neighbours.
    """

    def __init__(self, b: "Builder", e: Expr, number: int) -> None:
        assert b.plan.inner is not None
        self.b, self.e = b, e
        self.dtype = b.kernel.arguments[e.arg].dtype
        self.axes = staged_axes(b.strides, b.plan, e)
        extents = {a: b.plan.splits[a].extent for a in self.axes}
        self.strides = staged_strides(b.strides, b.plan, e, self.dtype.itemsize)
        count = self.strides[b.plan.inner] * extents[b.plan.inner]
        element = memory_type(self.dtype)
        self.name = f"@tile{number}"
        b.function.globals.append(
            f"{self.name} = internal addrspace(3) global [{count} x {element}] poison, align 16"
        )
        # Neighbouring threads fetch along the axis that lies side by side in global memory.
        near = [a for a in self.axes if b.strides.stride(e.src[0], a) == 1][-1:]
        self.order = [a for a in self.axes if a not in near] + near
        rounds = prod(extents.values()) // b.plan.threads
        self.places = [self._place(r) for r in range(rounds)]
        self.slots = [b.function.alloca(element, 1, b.target.stack_space) for _ in self.places]
        self._base: Value | None = None
        self._granule = 0  # that all threads' first elements are a multiple of

    def _outside(self) -> Operations:
        """Operations before all loops."""
        return Operations(self.b.function, self.b.levels[0][0])

    def _place(self, turn: int) -> tuple[dict[int, Value], str]:
        """Offsets along the axes, and where in the tile, of what this thread fetches."""
        b, out = self.b, self._outside()
        first = literal("i32", turn * b.plan.threads)
        rest = out.binary("add nuw nsw", Value("i32", "%item"), first)
        offsets = {}
        for a in reversed(self.order):
            extent = literal("i32", b.plan.splits[a].extent)
            offsets[a] = out.binary("urem", rest, extent)
            rest = out.binary("udiv", rest, extent)
        at = literal("i32", 0)
        for a, offset in offsets.items():
            along = self._position(out, a, offset)
            stride = literal("i32", self.strides[a])
            at = out.binary("add nuw nsw", at, out.binary("mul nuw nsw", along, stride))
        return offsets, self._pointer(out, at)

    def _position(self, out: Operations, a: int, offset: Value) -> Value:
        """Where along an axis of the tile a point lies."""
        split = self.b.plan.splits[a]
        if not split.is_scattered:
            return offset
        threads = literal("i32", split.threads)
        thread, step = (out.binary(op, offset, threads) for op in ("urem", "udiv"))
        mine = out.binary("mul nuw nsw", thread, literal("i32", split.unroll))
        return out.binary("add nuw nsw", mine, step)

    def _pointer(self, out: Operations, at: Value) -> str:
        code = f"getelementptr {memory_type(self.dtype)}, {LOCAL} {self.name}, {at}"
        return str(out.function.add(out.region, LOCAL, 1, code))

    def fetch(self, step: Value) -> None:
        """Global memory to registers."""
        b = self.b
        stack = f"ptr{b.target.stack_space.removeprefix(',')}"
        for (offsets, _), slot in zip(self.places, self.slots, strict=True):
            positions = {}
            for a, offset in offsets.items():
                out = b.out()
                base = step if a == b.plan.inner else b.bases[a]
                here = out.convert("zext", offset, base.element)
                positions[a] = out.binary("add nuw nsw", base, here)
            with b.at(positions):
                value = memory.load(b, self.e, (0,) * len(b.kernel.axes), 1, len(b.levels) - 1)
                b.region.append(f"  store {to_memory(b.out(), value, self.dtype)}, {stack} {slot}")

    def put(self) -> None:
        """Registers to the tile."""
        b, element = self.b, memory_type(self.dtype)
        stack = f"ptr{b.target.stack_space.removeprefix(',')}"
        for (_, pointer), slot in zip(self.places, self.slots, strict=True):
            value = b.function.add(b.region, element, 1, f"load {element}, {stack} {slot}")
            b.region.append(f"  store {value}, {pointer}, align {self.dtype.itemsize}")

    def read(self, point: "Point", level: int) -> Value:
        """The element at one of this thread's points."""
        b, element = self.b, memory_type(self.dtype)
        if self._base is None:
            self._base = Value(LOCAL, self._own().rsplit(" ", 1)[1])
        distance = 0
        for a in self.axes:
            apart = 1 if b.plan.splits[a].is_scattered else b.step(a)
            distance += self.strides[a] * point[a] * apart
        out = b.out(level)
        code = f"getelementptr {element}, {self._base}, i32 {distance}"
        pointer = out.function.add(out.region, LOCAL, 1, code)
        # A multiple of this: then loads side by side become one.
        together = gcd(self._granule, distance, 16 // self.dtype.itemsize)
        code = f"load {element}, {pointer}, align {together * self.dtype.itemsize}"
        return from_memory(out, out.function.add(out.region, element, 1, code), self.dtype)

    def _own(self) -> str:
        """A pointer to the first element that this thread reads."""
        b, out = self.b, self._outside()
        at = literal("i32", 0)
        for a in self.axes:
            thread, offset = b.threads[a], b.offsets[a]
            if thread is None or offset is None:
                continue
            along = out.convert("trunc", offset, "i32")
            own = 1
            if b.plan.splits[a].is_scattered:
                own = b.plan.splits[a].unroll
                along = out.convert("trunc", thread, "i32")
                along = out.binary("mul nuw nsw", along, literal("i32", own))
            self._granule = gcd(self._granule, own * self.strides[a])
            part = out.binary("mul nuw nsw", along, literal("i32", self.strides[a]))
            at = out.binary("add nuw nsw", at, part)
        return self._pointer(out, at)
