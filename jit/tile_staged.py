"""Plans in which a work-group of several waves shares loads through local memory.

In each turn of the innermost reduce loop the group reads what all its threads need of
a load once, and every thread then has it from local memory: see jit/codegen/staging.py.
"""

from dataclasses import replace
from math import prod

from jit.access import Strides
from jit.kernel import Expr, Kernel
from jit.tile import Machine, Plan, loads, loop_axes, tile_count, waste, with_split

TURN = 8  # steps of the reduce axis for which a group loads at once


def staged(kernel: Kernel, machine: Machine, strides: Strides, plan: Plan, kept: int) -> Plan:
    """The plan with several waves along the register axis, and loads that they share.

    plan: of one wave. It stays as it is where there is nothing to share, or too little work
    for bigger tiles.
    """
    if plan.threads != machine.wave or plan.splits[kept].threads > 1 or plan.inner is None:
        return plan
    longest = max(
        (a for a, axis in enumerate(kernel.axes) if axis.reduce), key=lambda a: kernel.axes[a].size
    )
    inner = plan.inner if kernel.axes[plan.inner].size >= 2 * TURN else longest
    if kernel.axes[inner].size < 2 * TURN:
        return plan
    split = plan.splits[kept]
    for waves in (4, 2):
        bigger = replace(with_split(plan, plan.inner, unroll=1), inner=inner)
        bigger = with_split(with_split(bigger, inner, unroll=TURN), kept, threads=waves)
        fits = bigger.splits[kept].extent <= split.size and waste(bigger.splits[kept]) <= 1.1
        if fits and tile_count(kernel, bigger) >= machine.least_tiles:
            found = _shared(kernel, machine, strides, bigger, kept)
            return replace(bigger, staged=tuple(found)) if found else plan
    return plan


def _shared(
    kernel: Kernel, machine: Machine, strides: Strides, plan: Plan, kept: int
) -> list[Expr]:
    """The loads worth a tile in local memory: those that are alike in all waves or all lanes."""
    assert plan.inner is not None
    lanes = [a for a in loop_axes(kernel) if a != kept and plan.splits[a].threads > 1]
    found, room = [], machine.local_bytes // 4  # so that several groups find a place
    for e in loads(kernel):
        argument = kernel.arguments[e.arg]
        by_lane = any(strides.depends(e, a) for a in lanes)
        by_wave = strides.depends(e, kept)
        is_cheap = by_wave and machine.uniform_loads
        if argument.written or by_lane == by_wave or is_cheap or not strides.depends(e, plan.inner):
            continue
        size = argument.dtype.itemsize
        count = prod(plan.splits[a].extent for a in staged_axes(strides, plan, e))
        used = staged_strides(strides, plan, e, size)[plan.inner] * size * TURN
        if count % plan.threads == 0 and used <= room:
            found.append(e)
            room -= used
    return found


def staged_axes(strides: Strides, plan: Plan, e: Expr) -> list[int]:
    """The axes along which the elements differ that a load reads in one turn of the inner loop."""
    axes = strides.kernel.axes
    return [
        a
        for a, split in enumerate(plan.splits)
        if split.extent > 1 and strides.depends(e, a) and (a == plan.inner or not axes[a].reduce)
    ]


def staged_strides(strides: Strides, plan: Plan, e: Expr, itemsize: int) -> dict[int, int]:
    """How many elements apart neighbours along each of these axes lie in local memory.

    The reduce axis is slowest, and padded: else a column would lie in one bank.
    """
    found, stride = {}, 1
    for a in reversed(staged_axes(strides, plan, e)):
        if a != plan.inner:
            found[a] = stride
            stride *= plan.splits[a].extent
    if plan.inner is not None:
        found[plan.inner] = stride + 16 // itemsize
    return found
