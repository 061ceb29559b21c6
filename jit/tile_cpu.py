"""Plans for CPUs: vector lanes, register tiles, and chunks of tiles for threads."""

from dataclasses import replace
from math import prod

from jit.access import Strides
from jit.kernel import Kernel, expressions
from jit.tile import (
    Machine,
    Plan,
    balanced,
    has_points,
    is_plain,
    loads,
    loop_axes,
    power_below,
    reduce_count,
    reused_axes,
    untiled,
    width,
    with_split,
)


def make_plan(kernel: Kernel, machine: Machine) -> Plan:
    """The plan for a kernel: untiled where NOOPT is among its options."""
    plan = untiled(kernel)
    if not has_points(kernel):
        return plan
    if not is_plain(kernel):
        plan = _vectorised(kernel, machine, Strides(kernel), plan)
    return _chunked(kernel, plan)


def _vectorised(kernel: Kernel, machine: Machine, strides: Strides, plan: Plan) -> Plan:
    axis = _vector_axis(kernel, strides)
    if axis is None:
        return plan
    size = kernel.axes[axis].size
    lanes = min(max(machine.vector_bytes // width(kernel), 2), power_below(size))
    plan = replace(with_split(plan, axis, lanes=lanes), vector=axis)
    if plan.inner is None:
        work = sum(1 for e in expressions(kernel) if e.op not in ("const", "axis"))
        return with_split(plan, axis, unroll=min(size // lanes, 4 if work < 16 else 1))
    if kernel.axes[axis].reduce:
        plan = replace(plan, inner=axis)
    return _reduction(kernel, machine, strides, plan)


def _vector_axis(kernel: Kernel, strides: Strides) -> int | None:
    """The axis along which most accesses are contiguous."""
    best, best_score = None, 0.0
    for a, axis in enumerate(kernel.axes):
        if axis.size < 2:
            continue
        score = sum(_contiguity(strides.stride(e.src[0], a)) for e in loads(kernel))
        if not axis.reduce:
            score += sum(2 * _contiguity(strides.stride(s.index, a)) for s in kernel.stores)
        score *= min(axis.size, 16) / 16
        # The last loop axis wins ties: stores are contiguous along it.
        if score > best_score or (score == best_score and not axis.reduce):
            best, best_score = a, score
    return best


def _contiguity(stride: int | None) -> float:
    return {1: 2.0, 0: 1.0}.get(-1 if stride is None else stride, 0.2)


def _reduction(kernel: Kernel, machine: Machine, strides: Strides, plan: Plan) -> Plan:
    inner, vector = plan.inner, plan.vector
    assert inner is not None
    assert vector is not None
    room = machine.registers // reduce_count(kernel)
    reused = reused_axes(kernel, strides)
    if vector in reused and len(reused) > 1:
        split = plan.splits[vector]
        unroll = min(2, max(split.size // split.lanes, 1))
        plan = with_split(plan, vector, unroll=unroll)
        room //= unroll
    for a in reused:
        if a != vector and room > 1:
            unroll = balanced(kernel.axes[a].size, min(room, 8))
            plan = with_split(plan, a, unroll=unroll)
            room //= unroll
    points = prod(plan.splits[a].unroll for a in loop_axes(kernel))
    split = plan.splits[inner]
    unroll = min(4 if points <= 4 else 1, split.size // split.lanes)
    plan = with_split(plan, inner, unroll=unroll)
    return replace(plan, accumulators=unroll if points <= 4 else 1)


def _chunked(kernel: Kernel, plan: Plan) -> Plan:
    """Tiles per group so that a group is worth handing to a thread."""
    loops = loop_axes(kernel)
    points = prod(plan.splits[a].extent for a in loops)
    depth = prod(axis.size for axis in kernel.axes if axis.reduce)
    tiles = prod(plan.splits[a].tiles for a in loops)
    return replace(plan, chunk=max(1, min(16384 // max(points * depth, 1), tiles)))
