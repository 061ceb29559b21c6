"""Plans: how the axes of a kernel map to grid, block, vector lanes and registers.

A plan changes the order of work, never what is computed. An axis is cut into tiles
of unroll * threads * lanes points; a run of threads (at most a wave) takes
neighbouring points, then the next ones of its unroll. Where a tile's extent does not
divide the size, the last tile is moved back inside, so that it repeats points of its
neighbour instead of leaving the tensor.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod

from jit.access import Strides
from jit.kernel import Expr, Kernel, expressions

RUN = 32


@dataclass(frozen=True)
class Machine:
    """What a plan must know of a target. `wave` is 0 where there are no GPU threads."""

    wave: int
    vector_bytes: int  # of one CPU vector register
    registers: int  # accumulators that one thread may keep
    most_threads: int = 256
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
    accumulators: int = 1  # independent ones per point, along inner
    chunk: int = 1  # tiles per work-group where a work-group runs tiles in a loop

    @property
    def threads(self) -> int:
        return prod(s.threads for s in self.splits)


def make_plan(kernel: Kernel, machine: Machine) -> Plan:
    """The plan for a kernel: untiled where NOOPT is among its options."""
    strides = Strides(kernel)
    splits = [Split(axis.size) for axis in kernel.axes]
    reduces = [a for a, axis in enumerate(kernel.axes) if axis.reduce]
    plan = Plan(tuple(splits), inner=reduces[-1] if reduces else None)
    if not all(axis.size for axis in kernel.axes):
        return plan
    if machine.wave:
        return _gpu(kernel, machine, strides, plan)
    if dict(kernel.options).get("NOOPT"):
        return _chunked(kernel, plan)
    return _chunked(kernel, _cpu(kernel, machine, strides, plan))


def balanced(size: int, most: int) -> int:
    """The least extent that needs no more tiles than `most` does."""
    return -(-size // -(-size // min(most, size)))


def power_below(number: int) -> int:
    """The largest power of two that is not above number."""
    return 1 << number.bit_length() - 1


def _with(plan: Plan, axis: int, **changes: int) -> Plan:
    splits = list(plan.splits)
    splits[axis] = replace(splits[axis], **changes)
    return replace(plan, splits=tuple(splits))


def _loops(kernel: Kernel) -> list[int]:
    return [a for a, axis in enumerate(kernel.axes) if not axis.reduce]


def _loads(kernel: Kernel) -> list[Expr]:
    return [e for e in expressions(kernel) if e.op == "load"]


def _reused(kernel: Kernel, strides: Strides) -> list[int]:
    """Loop axes along which some load of the reduction stays the same, biggest first."""
    inner = [e for e in _loads(kernel) if strides.mask(e) & strides.reduce_mask]
    found = [a for a in _loops(kernel) if any(not strides.depends(e, a) for e in inner)]
    return sorted(found, key=lambda a: -kernel.axes[a].size)


def _width(kernel: Kernel) -> int:
    """Bytes of the widest element."""
    return max(a.dtype.itemsize for a in kernel.arguments)


def _reduce_count(kernel: Kernel) -> int:
    return sum(e.op == "reduce" for e in expressions(kernel)) or 1


# CPU


def _cpu(kernel: Kernel, machine: Machine, strides: Strides, plan: Plan) -> Plan:
    axis = _vector_axis(kernel, strides)
    if axis is None:
        return plan
    size = kernel.axes[axis].size
    lanes = min(max(machine.vector_bytes // _width(kernel), 2), power_below(size))
    plan = replace(_with(plan, axis, lanes=lanes), vector=axis)
    if plan.inner is None:
        work = sum(1 for e in expressions(kernel) if e.op not in ("const", "axis"))
        return _with(plan, axis, unroll=min(size // lanes, 4 if work < 16 else 1))
    if kernel.axes[axis].reduce:
        plan = replace(plan, inner=axis)
    return _cpu_reduce(kernel, machine, strides, plan)


def _vector_axis(kernel: Kernel, strides: Strides) -> int | None:
    """The axis along which most accesses are contiguous."""
    best, best_score = None, 0.0
    for a, axis in enumerate(kernel.axes):
        if axis.size < 2:
            continue
        score = sum(_contiguity(strides.stride(e.src[0], a)) for e in _loads(kernel))
        if not axis.reduce:
            score += sum(2 * _contiguity(strides.stride(s.index, a)) for s in kernel.stores)
        score *= min(axis.size, 16) / 16
        # The last loop axis wins ties: stores are contiguous along it.
        if score > best_score or (score == best_score and not axis.reduce):
            best, best_score = a, score
    return best


def _contiguity(stride: int | None) -> float:
    return {1: 2.0, 0: 1.0}.get(-1 if stride is None else stride, 0.2)


def _cpu_reduce(kernel: Kernel, machine: Machine, strides: Strides, plan: Plan) -> Plan:
    inner, vector = plan.inner, plan.vector
    assert inner is not None
    assert vector is not None
    room = machine.registers // _reduce_count(kernel)
    reused = _reused(kernel, strides)
    if vector in reused and len(reused) > 1:
        split = plan.splits[vector]
        unroll = min(2, max(split.size // split.lanes, 1))
        plan = _with(plan, vector, unroll=unroll)
        room //= unroll
    for a in reused:
        if a != vector and room > 1:
            unroll = balanced(kernel.axes[a].size, min(room, 8))
            plan = _with(plan, a, unroll=unroll)
            room //= unroll
    points = prod(plan.splits[a].unroll for a in _loops(kernel))
    split = plan.splits[inner]
    unroll = min(4 if points <= 4 else 1, split.size // split.lanes)
    plan = _with(plan, inner, unroll=unroll)
    return replace(plan, accumulators=unroll if points <= 4 else 1)


def _chunked(kernel: Kernel, plan: Plan) -> Plan:
    """Tiles per group so that a group is worth handing to a thread."""
    loops = _loops(kernel)
    points = prod(plan.splits[a].extent for a in loops)
    depth = prod(axis.size for axis in kernel.axes if axis.reduce)
    tiles = prod(plan.splits[a].tiles for a in loops)
    return replace(plan, chunk=max(1, min(16384 // max(points * depth, 1), tiles)))


# GPU


def _gpu(kernel: Kernel, machine: Machine, strides: Strides, plan: Plan) -> Plan:
    loops = _loops(kernel)
    outputs = prod(kernel.axes[a].size for a in loops)
    if dict(kernel.options).get("NOOPT"):
        return _lane_threads(plan, loops, machine.wave)
    if plan.inner is None:
        return _gpu_elementwise(kernel, machine, plan)
    axis = _tree_axis(kernel, strides)
    # Where registers can reuse loads, a tree only pays when there is too little else to do.
    few = 256 if _reused(kernel, strides) else 4096
    if axis is not None and outputs < few:
        return _gpu_tree(kernel, machine, replace(plan, inner=axis), outputs)
    return _gpu_contract(kernel, machine, strides, plan)


def _lane_threads(plan: Plan, loops: Iterable[int], most: int) -> Plan:
    """Consecutive threads along the last loop axes."""
    for a in reversed(list(loops)):
        threads = min(plan.splits[a].size, most)
        plan = _with(plan, a, threads=threads)
        most //= threads
        if most <= 1:
            break
    return plan


def _gpu_elementwise(kernel: Kernel, machine: Machine, plan: Plan) -> Plan:
    loops = _loops(kernel)
    if not loops:
        return plan
    outputs = prod(kernel.axes[a].size for a in loops)
    enough = outputs >= machine.least_tiles * machine.most_threads
    plan = _lane_threads(plan, loops, machine.most_threads if enough else machine.wave)
    last = plan.splits[loops[-1]]
    work = sum(1 for e in expressions(kernel) if e.op not in ("const", "axis"))
    unroll = 8 if work < 8 else 4 if work < 16 else 2 if work < 64 else 1
    while unroll > 1 and (
        last.threads * unroll > last.size or outputs < machine.least_tiles * plan.threads * unroll
    ):
        unroll //= 2
    return _with(plan, loops[-1], unroll=unroll)


def _tree_axis(kernel: Kernel, strides: Strides) -> int | None:
    """The reduce axis that threads share: the contiguous one if long, else the longest."""
    reduces = [a for a, axis in enumerate(kernel.axes) if axis.reduce]

    def rank(a: int) -> tuple[int, int]:
        contiguous = sum(strides.stride(e.src[0], a) == 1 for e in _loads(kernel))
        return (contiguous if kernel.axes[a].size >= 64 else 0, kernel.axes[a].size)

    best = max(reduces, key=rank)
    return best if kernel.axes[best].size >= 64 else None


def _gpu_tree(kernel: Kernel, machine: Machine, plan: Plan, outputs: int) -> Plan:
    assert plan.inner is not None
    size = plan.splits[plan.inner].size
    threads = machine.wave
    if outputs * machine.wave < 2048:
        threads = min(machine.most_threads, power_below(size))
    unroll = max(1, min(4, size // threads))
    plan = _with(plan, plan.inner, threads=threads, unroll=unroll)
    return replace(plan, accumulators=unroll)


def _gpu_contract(kernel: Kernel, machine: Machine, strides: Strides, plan: Plan) -> Plan:
    inner = plan.inner
    assert inner is not None
    loops = _loops(kernel)
    room = machine.registers // _reduce_count(kernel) // max(_width(kernel) // 4, 1)
    plan = _lane_threads(plan, loops, machine.wave)
    reused = [a for a in _reused(kernel, strides) if kernel.axes[a].size > 1]
    for a, most in _tile_order(plan, reused):
        split = plan.splits[a]
        most = min(most, room, max(split.size // split.threads, 1))
        best = 1
        for unroll in range(2, most + 1):
            bigger = _with(plan, a, unroll=unroll)
            if _tiles(bigger, loops) >= machine.least_tiles and _waste(bigger.splits[a]) <= 1.1:
                best = unroll
        plan = _with(plan, a, unroll=best)
        room //= best
    points = prod(plan.splits[a].unroll for a in loops)
    unroll = min(4, plan.splits[inner].size)
    plan = _with(plan, inner, unroll=unroll)
    return replace(plan, accumulators=unroll if points <= 4 else 1)


def _tile_order(plan: Plan, reused: list[int]) -> list[tuple[int, int]]:
    """Axes to keep in registers and how much at most: those without threads first."""
    single = [(a, 16) for a in reused if plan.splits[a].threads == 1]
    return single[:1] + [(a, 4) for a in reused if plan.splits[a].threads > 1][:1]


def _tiles(plan: Plan, loops: list[int]) -> int:
    return prod(plan.splits[a].tiles for a in loops)


def _waste(split: Split) -> float:
    return split.tiles * split.extent / split.size
