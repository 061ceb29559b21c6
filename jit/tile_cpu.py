"""Plans for CPUs: vector lanes, register tiles, and chunks of tiles for threads."""

from dataclasses import replace
from math import prod

from jit.access import Strides
from jit.kernel import Expr, Kernel, expressions
from jit.math import FUNCTIONS, SINGLE
from jit.tile import (
    Machine,
    Plan,
    balanced,
    body_parts,
    has_points,
    is_plain,
    is_small,
    loop_axes,
    power_below,
    reduce_count,
    register_axis,
    reused_axes,
    untiled,
    weight,
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
    axis = _vector_axis(kernel, machine, strides)
    if axis is None:
        return plan
    lanes = _lanes(kernel, machine, axis)
    plan = replace(with_split(plan, axis, lanes=lanes), vector=axis)
    if plan.inner is None:
        work = sum(weight(e) for e in expressions(kernel))
        unroll = min(kernel.axes[axis].size // lanes, 4 if work < 16 else 1)
        return with_split(plan, axis, unroll=unroll)
    if kernel.axes[axis].reduce:
        plan = replace(plan, inner=axis)
    return _reduction(kernel, machine, strides, plan)


def _lanes(kernel: Kernel, machine: Machine, axis: int) -> int:
    # Most math functions compute in float64, whatever they are given.
    wide = FUNCTIONS.keys() - SINGLE.keys()
    size = 8 if any(e.op in wide for e in expressions(kernel)) else width(kernel)
    widest = max(machine.vector_bytes // size, 2)
    return min(widest, power_below(kernel.axes[axis].size))


def _vector_axis(kernel: Kernel, machine: Machine, strides: Strides) -> int | None:
    """The axis along which a point costs least; None if one after the other does."""
    axes = [a for a, axis in enumerate(kernel.axes) if axis.size > 1]
    costs = {a: _cost(kernel, machine, strides, a) for a in axes}
    # The last loop axis wins ties: stores are contiguous along it.
    return min(axes, key=lambda a: (costs[a], kernel.axes[a].reduce, -a), default=None)


def _cost(kernel: Kernel, machine: Machine, strides: Strides, axis: int) -> float:
    """About how many instructions one point takes with lanes along an axis."""
    lanes = _lanes(kernel, machine, axis)
    depth = prod(a.size for a in kernel.axes if a.reduce)
    body = {id(e) for e in body_parts(kernel)}
    total = 0.0
    for e in expressions(kernel):
        often = 1.0 if id(e) in body else 1 / depth
        if e.op == "load":
            total += often * _access(strides, e.src[0], axis, lanes)
        elif not e.dtype.is_int:
            total += often / lanes
    for store in kernel.stores:
        total += _access(strides, store.index, axis, lanes) / depth
    # A reduce axis has its lanes combined in the end.
    return total + (lanes / depth if kernel.axes[axis].reduce else 0)


def _access(strides: Strides, index: Expr, axis: int, lanes: int) -> float:
    return 1 / lanes if strides.stride(index, axis) in (0, 1) else 1.5


def _reduction(kernel: Kernel, machine: Machine, strides: Strides, plan: Plan) -> Plan:
    inner, vector = plan.inner, plan.vector
    assert inner is not None
    assert vector is not None
    room = machine.registers // reduce_count(kernel)
    reused = reused_axes(kernel, strides)
    kept = register_axis(kernel, strides, vector)
    limits = [(vector, 2)] if vector in reused and kept is not None else []
    limits += [] if kept is None else [(kept, 8)]
    limits += [(a, 4) for a in reused if a not in (vector, kept)][:1]
    for a, most in limits:
        plan = _grown(kernel, machine, strides, plan, (a, min(most, room)))
        room //= plan.splits[a].unroll
    points = prod(plan.splits[a].unroll for a in loop_axes(kernel))
    split = plan.splits[inner]
    unroll = min(4 if points <= 4 else 1, split.size // split.lanes)
    plan = with_split(plan, inner, unroll=unroll)
    return replace(plan, accumulators=unroll if points <= 4 else 1)


def _grown(
    kernel: Kernel, machine: Machine, strides: Strides, plan: Plan, limit: tuple[int, int]
) -> Plan:
    """As much unrolling of an axis as registers hold, if the body stays small."""
    a, most = limit
    split = plan.splits[a]
    for wanted in range(most, 1, -1):
        unroll = balanced(-(-split.size // split.lanes), wanted)
        bigger = with_split(plan, a, unroll=min(unroll, split.size // split.lanes))
        if is_small(kernel, strides, bigger, machine.most_body):
            return bigger
    return plan


def _chunked(kernel: Kernel, plan: Plan) -> Plan:
    """Tiles per group so that a group is worth handing to a thread."""
    loops = loop_axes(kernel)
    points = prod(plan.splits[a].extent for a in loops)
    depth = prod(axis.size for axis in kernel.axes if axis.reduce)
    tiles = prod(plan.splits[a].tiles for a in loops)
    return replace(plan, chunk=max(1, min(16384 // max(points * depth, 1), tiles)))
