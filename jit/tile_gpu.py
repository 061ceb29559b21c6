"""Plans for GPUs: waves over neighbouring points, register tiles, trees over local memory."""

from collections.abc import Iterable
from dataclasses import replace
from math import prod

from jit.access import Strides
from jit.kernel import Kernel, expressions
from jit.tile import (
    RUN,
    Machine,
    Plan,
    has_points,
    is_plain,
    is_small,
    lane_axis,
    loads,
    loop_axes,
    power_below,
    reduce_count,
    register_axis,
    reused_axes,
    tile_count,
    untiled,
    waste,
    weight,
    width,
    with_split,
)
from jit.tile_staged import staged


def make_plan(kernel: Kernel, machine: Machine) -> Plan:
    """The plan for a kernel: one thread per point where NOOPT is among its options."""
    plan, loops = untiled(kernel), loop_axes(kernel)
    if not has_points(kernel):
        return plan
    if is_plain(kernel):
        return _lane_threads(plan, loops, machine.wave)
    if plan.inner is None:
        return _elementwise(kernel, machine, plan)
    strides = Strides(kernel)
    outputs = prod(kernel.axes[a].size for a in loops)
    axis = _tree_axis(kernel, strides)
    # Where registers can reuse loads, a tree only pays when there is too little else to do.
    few = 4096 if register_axis(kernel, strides, lane_axis(kernel)) is None else 256
    if axis is not None and outputs < few:
        plan = replace(plan, inner=axis)
        if _is_column(kernel, strides, axis):
            return _columns(kernel, machine, plan)
        return _tree(machine, plan, outputs)
    return _contraction(kernel, machine, strides, plan)


def _lane_threads(plan: Plan, loops: Iterable[int], most: int) -> Plan:
    """Consecutive threads along the last loop axes."""
    for a in reversed(list(loops)):
        threads = min(plan.splits[a].size, most)
        plan = with_split(plan, a, threads=threads)
        most //= threads
        if most <= 1:
            break
    return plan


def _elementwise(kernel: Kernel, machine: Machine, plan: Plan) -> Plan:
    loops = loop_axes(kernel)
    if not loops:
        return plan
    outputs = prod(kernel.axes[a].size for a in loops)
    plan = _lane_threads(plan, loops, machine.group)
    last = plan.splits[loops[-1]]
    work = sum(weight(e) for e in expressions(kernel))
    unroll = 8 if work < 8 else 4 if work < 16 else 2 if work < 64 else 1
    while unroll > 1 and (
        last.threads * unroll > last.size or outputs < machine.least_tiles * plan.threads * unroll
    ):
        unroll //= 2
    return with_split(plan, loops[-1], unroll=unroll)


def _tree_axis(kernel: Kernel, strides: Strides) -> int | None:
    """The reduce axis that threads share: the contiguous one if long, else the longest."""
    reduces = [a for a, axis in enumerate(kernel.axes) if axis.reduce]

    def rank(a: int) -> tuple[int, int]:
        contiguous = sum(strides.stride(e.src[0], a) == 1 for e in loads(kernel))
        return (contiguous if kernel.axes[a].size >= 64 else 0, kernel.axes[a].size)

    best = max(reduces, key=rank)
    return best if kernel.axes[best].size >= 64 else None


def _is_column(kernel: Kernel, strides: Strides, axis: int) -> bool:
    """Whether neighbours in memory lie along the last loop axis, not along the reduce axis."""
    last = lane_axis(kernel)
    if last is None or kernel.axes[last].size < RUN:
        return False
    inner = [e.src[0] for e in loads(kernel) if strides.depends(e, axis)]
    inner = [index for index in inner if strides.depends(index, last)]
    along = [sum(strides.stride(index, a) == 1 for index in inner) for a in (last, axis)]
    return along[0] > along[1]


def _columns(kernel: Kernel, machine: Machine, plan: Plan) -> Plan:
    """A wave over neighbouring points, several waves along the reduce axis."""
    last, inner = lane_axis(kernel), plan.inner
    assert last is not None
    assert inner is not None
    threads = machine.most_threads // machine.wave
    unroll = max(1, min(4, plan.splits[inner].size // threads))
    plan = with_split(plan, last, threads=machine.wave)
    plan = with_split(plan, inner, threads=threads, unroll=unroll)
    return replace(plan, accumulators=unroll, loops_first=True)


def _tree(machine: Machine, plan: Plan, outputs: int) -> Plan:
    assert plan.inner is not None
    size = plan.splits[plan.inner].size
    threads = machine.wave
    if outputs * machine.wave < 2048:
        threads = min(machine.most_threads, power_below(size))
    unroll = max(1, min(4, size // threads))
    plan = with_split(plan, plan.inner, threads=threads, unroll=unroll)
    return replace(plan, accumulators=unroll)


def _contraction(kernel: Kernel, machine: Machine, strides: Strides, plan: Plan) -> Plan:
    """Every thread computes a tile of points, so that what it loads is used more than once."""
    inner, loops = plan.inner, loop_axes(kernel)
    assert inner is not None
    room = machine.registers // reduce_count(kernel) // max(width(kernel) // 4, 1)
    kept = register_axis(kernel, strides, lane_axis(kernel))
    lanes = [a for a in loops if a != kept]
    plan = _lane_threads(plan, [a for a in loops if a == kept] + lanes, machine.wave)
    limits = [] if kept is None else [(kept, 16)]
    room_for = [a for a in reversed(lanes) if plan.splits[a].size >= 2 * plan.splits[a].threads]
    limits += [(a, 4) for a in room_for if a in reused_axes(kernel, strides)][:1]
    plan = with_split(plan, inner, unroll=min(4, plan.splits[inner].size))
    for a, most in limits:
        plan = _grown(kernel, machine, strides, plan, (a, min(most, room)))
        room //= plan.splits[a].unroll
    points = prod(plan.splits[a].unroll for a in loops)
    if points <= 4:
        return replace(plan, accumulators=plan.splits[inner].unroll)
    return plan if kept is None else staged(kernel, machine, strides, plan, kept)


def _grown(
    kernel: Kernel, machine: Machine, strides: Strides, plan: Plan, limit: tuple[int, int]
) -> Plan:
    """The most unrolling of an axis that leaves enough tiles, little waste, and a small body."""
    a, most = limit
    best = plan
    split = plan.splits[a]
    for unroll in range(2, min(most, split.size // split.threads) + 1):
        bigger = with_split(plan, a, unroll=unroll)
        fits = is_small(kernel, strides, bigger, machine.most_body)
        if (
            fits
            and tile_count(kernel, bigger) >= machine.least_tiles
            and waste(bigger.splits[a]) <= 1.1
        ):
            best = bigger
    return best
