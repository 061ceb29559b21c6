"""Long sums in blocks: accumulators count for a block only, and blocks add up in float64.

An accumulator that takes in a million float32 numbers loses what is small beside it, and
always in the same direction where the numbers are alike. Within a block it takes in 32.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from jit.codegen.operation import Operations
from jit.codegen.text import Value
from jit.dtype import dtypes
from jit.kernel import Expr
from jit.tile import Plan

if TYPE_CHECKING:
    from jit.codegen.llvm import Builder

_TURNS = 32
_POINTS = 4  # with more points per thread their totals would not fit in registers


def block(b: "Builder", inner: int, counts: Iterable[int]) -> tuple[int, int] | None:
    """The reduce axis whose loop is cut into blocks, and how many of its steps are one.

    counts: how many points each sum has. None where accumulators stay short, or are many.
    """
    if b.staging is not None or max(counts, default=_POINTS + 1) > _POINTS:
        return None
    return cut(b.plan, [a for a, axis in enumerate(b.kernel.axes) if axis.reduce], inner)


def cut(plan: Plan, axes: list[int], inner: int) -> tuple[int, int] | None:
    """The innermost loop that makes accumulators long, and the steps of it in one block."""
    turns = 1
    for a in [inner, *(a for a in reversed(axes) if a != inner)]:
        split = plan.splits[a]
        steps = split.size // split.extent if a == inner else split.size
        if turns * steps > _TURNS:
            return a, max(_TURNS // turns, 1)
        turns *= max(steps, 1)
    return None


def is_inexact(e: Expr) -> bool:
    """Whether a reduction loses digits that float64 has."""
    return e.arg == "sum" and e.dtype is dtypes.float32


def widen(out: Operations, value: Value) -> Value:
    """float32 as float64."""
    return out.convert("fpext", value, "double")


def narrow(out: Operations, value: Value) -> Value:
    """float64 as float32, to nearest."""
    return out.convert("fptrunc", value, "float")
