"""Plans: how the axes of a kernel map to grid, block, vector lanes and registers.

A plan changes the order of work, never what is computed. An axis is cut into tiles
of unroll * threads * lanes points; a run of threads (at most a wave) takes
neighbouring points, then the next ones of its unroll. Where a tile's extent does not
divide the size, the last tile is moved back inside, so that it repeats points of its
neighbour instead of leaving the tensor.
"""

from dataclasses import dataclass, replace
from math import prod

from jit.access import Strides
from jit.kernel import Expr, Kernel, each, expressions
from jit.math import FUNCTIONS

RUN = 32


@dataclass(frozen=True)
class Machine:
    """What a plan must know of a target. `wave` is 0 where there are no GPU threads."""

    wave: int
    vector_bytes: int  # of one CPU vector register
    registers: int  # accumulators that one thread may keep
    most_threads: int = 256
    local_bytes: int = 48 << 10  # of local memory that a work-group may have
    uniform_loads: bool = False  # a load that a whole wave shares costs next to nothing
    group: int = 32  # threads of a work-group where its waves would share nothing
    most_body: int = 512  # operations, about, that one turn of the innermost loop may have
    least_tiles: int = 32  # do not make the grid smaller than this for the sake of big tiles


@dataclass(frozen=True)
class Split:
    """How one axis is cut up."""

    size: int
    unroll: int = 1
    threads: int = 1
    lanes: int = 1

    @property
    def extent(self) -> int:
        """Points of the axis that one tile covers."""
        return self.unroll * self.threads * self.lanes

    @property
    def run(self) -> int:
        """Threads whose points lie side by side, so that a wave stays in one place."""
        return RUN if self.threads % RUN == 0 else self.threads

    @property
    def is_scattered(self) -> bool:
        """Whether a thread's points have other threads' between them, all over the tile."""
        return self.threads % RUN != 0

    @property
    def tiles(self) -> int:
        return -(-self.size // self.extent)

    @property
    def ragged(self) -> bool:
        """Whether the last tile overlaps its neighbour."""
        return self.size % self.extent != 0


@dataclass(frozen=True)
class Plan:
    """The splits, one per axis, and which axes are special."""

    splits: tuple[Split, ...]
    vector: int | None = None  # the axis with lanes
    inner: int | None = None  # the reduce axis of the innermost loop; its threads form a tree
    loops_first: bool = False  # neighbouring threads differ along loop axes, not along inner
    accumulators: int = 1  # independent ones per point, along inner
    chunk: int = 1  # tiles per work-group where a work-group runs tiles in a loop
    staged: tuple[Expr, ...] = ()  # loads that a work-group shares through local memory

    @property
    def threads(self) -> int:
        return prod(s.threads for s in self.splits)


def untiled(kernel: Kernel) -> Plan:
    """One point after the other."""
    reduces = [a for a, axis in enumerate(kernel.axes) if axis.reduce]
    splits = tuple(Split(axis.size) for axis in kernel.axes)
    return Plan(splits, inner=reduces[-1] if reduces else None)


def has_points(kernel: Kernel) -> bool:
    """Whether there is anything to compute; planning what is empty is pointless."""
    return all(axis.size for axis in kernel.axes)


def is_plain(kernel: Kernel) -> bool:
    """Whether NOOPT is among the kernel's options."""
    return bool(dict(kernel.options).get("NOOPT"))


def balanced(size: int, most: int) -> int:
    """The least extent that needs no more tiles than `most` does."""
    return -(-size // -(-size // min(most, size)))


def power_below(number: int) -> int:
    """The largest power of two that is not above number."""
    return 1 << number.bit_length() - 1


def with_split(plan: Plan, axis: int, **changes: int) -> Plan:
    splits = list(plan.splits)
    splits[axis] = replace(splits[axis], **changes)
    return replace(plan, splits=tuple(splits))


def loop_axes(kernel: Kernel) -> list[int]:
    return [a for a, axis in enumerate(kernel.axes) if not axis.reduce]


def loads(kernel: Kernel) -> list[Expr]:
    return [e for e in expressions(kernel) if e.op == "load"]


def reused_axes(kernel: Kernel, strides: Strides) -> list[int]:
    """Loop axes along which some load of the reduction stays the same, biggest first."""
    inner = [e for e in loads(kernel) if strides.mask(e) & strides.reduce_mask]
    found = [a for a in loop_axes(kernel) if any(not strides.depends(e, a) for e in inner)]
    return sorted(found, key=lambda a: -kernel.axes[a].size)


def width(kernel: Kernel) -> int:
    """Bytes of the widest element."""
    return max(a.dtype.itemsize for a in kernel.arguments)


def reduce_count(kernel: Kernel) -> int:
    return sum(e.op == "reduce" for e in expressions(kernel)) or 1


def lane_axis(kernel: Kernel) -> int | None:
    """The last loop axis that has more than one point: neighbours in memory, mostly."""
    return max((a for a in loop_axes(kernel) if kernel.axes[a].size > 1), default=None)


def register_axis(kernel: Kernel, strides: Strides, lanes: int | None) -> int | None:
    """The loop axis besides that of the lanes which leaves most loads as they are.

    A load that differs from lane to lane is worth more than one that all lanes share.
    """
    inner = [e for e in loads(kernel) if strides.mask(e) & strides.reduce_mask]

    def saved(a: int) -> int:
        alike = [e for e in inner if not strides.depends(e, a)]
        shared = [lanes is None or not strides.depends(e, lanes) for e in alike]
        return sum(len(e.src) * (1 if s else 4) for e, s in zip(alike, shared, strict=True))

    others = [a for a in loop_axes(kernel) if a != lanes and kernel.axes[a].size > 1]
    best = max(others, key=lambda a: (saved(a), kernel.axes[a].size), default=None)
    return best if best is not None and saved(best) else None


def body_parts(kernel: Kernel) -> list[Expr]:
    """What is computed at every point of the reduce axes; without any: everything."""
    values = [e.src[0] for e in expressions(kernel) if e.op == "reduce"]
    return list(each(values)) if values else list(expressions(kernel))


def is_small(kernel: Kernel, strides: Strides, plan: Plan, most: int) -> bool:
    """Whether a plan's code stays small: one turn of the innermost loop, and what follows it."""
    body = body_parts(kernel)
    inside = {id(e) for e in body}
    turn = [e for e in body if strides.depends(e, plan.inner or 0)]
    after = [e for e in expressions(kernel) if id(e) not in inside]
    return _size(strides, plan, turn) <= most and _size(strides, plan, after) <= most


def _size(strides: Strides, plan: Plan, parts: list[Expr]) -> int:
    """About how many instructions expressions are: positions times length."""
    return sum(_copies(strides, plan, e) for e in parts)


def _copies(strides: Strides, plan: Plan, e: Expr) -> int:
    differs = prod(s.unroll for a, s in enumerate(plan.splits) if strides.depends(e, a))
    if e.op == "load" and plan.vector is not None:
        stride = strides.stride(e.src[0], plan.vector)
        return differs * (1 if stride in (0, 1) else 4 * plan.splits[plan.vector].lanes)
    return differs * weight(e)


def weight(e: Expr) -> int:
    """About how many instructions an operation takes."""
    if e.op in ("const", "axis"):
        return 0
    return 40 if e.op in FUNCTIONS else 10 if e.op in ("div", "sqrt") else 1


def tile_count(kernel: Kernel, plan: Plan) -> int:
    """How many tiles the loop axes make: 0 where one of them has no points."""
    return prod(plan.splits[a].tiles for a in loop_axes(kernel))


def waste(split: Split) -> float:
    """How much more than its points an axis's tiles compute: 1.0 where they do not overlap."""
    return split.tiles * split.extent / split.size
