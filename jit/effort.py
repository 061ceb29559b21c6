"""What operations cost a compiler: how many plain ones each stands for.

Functions are expanded to arithmetic (jit/math.py), and a compiler takes longer over a
long kernel than over two short ones. Twice as much in float64, which has longer series.
"""

from jit.dtype import dtypes
from jit.graph import ELEMENTWISE, Node, Op

MAX_EFFORT = 256  # of one kernel: it compiles in about a fifth of a second

# Measured on functions of float32, one after the other in one kernel, on the slowest target.
_FUNCTIONS = {
    Op.EXP: 11,
    Op.EXP2: 11,
    Op.LOG: 8,
    Op.LOG2: 8,
    Op.SIN: 28,
    Op.COS: 28,
    Op.TAN: 36,
    Op.ASIN: 12,
    Op.ACOS: 12,
    Op.ATAN: 6,
    Op.ATAN2: 8,
    Op.SINH: 9,
    Op.COSH: 9,
    Op.TANH: 12,
    Op.ASINH: 18,
    Op.ACOSH: 18,
    Op.ATANH: 12,
    Op.ERF: 11,
    Op.POW: 16,
    Op.IDIV: 3,
    Op.MOD: 3,
}
_TO_INTEGER = 5  # a cast from float: it saturates, and NaN is 0


def effort(node: Node) -> int:
    """About how many plain operations the node is to a compiler; 0 where it only moves data."""
    if node.op not in ELEMENTWISE:
        return int(node.op is Op.INDEX)
    if node.op is Op.CAST:
        return _TO_INTEGER if node.dtype.is_int and node.src[0].dtype.is_float else 1
    weight = _FUNCTIONS.get(node.op, 1)
    return 2 * weight if weight > 1 and node.dtype is dtypes.float64 else weight
