"""x < 0 and x > 0 on LLVM values, such that no sign of zero is lost.

LLVM 22 takes a comparison with 0 and a select between its two sides for a minimum or maximum,
through casts, too, and then does not mind which zero comes out: `-0 < 0 ? -0 : 0` gave -0. So
numbers are compared with the one next to 0, which is the same, zeros and NaN included.
"""

from jit.codegen.operation import Operations
from jit.codegen.text import Value
from jit.kernel import Expr

_LEAST = {"float": 2.0**-149, "double": 2.0**-1074}


def against_zero(e: Expr, out: Operations, values: list[Value]) -> Value | None:
    """A "lt" of a float and the constant 0; None of anything else. Halves come as float32."""
    zeros = [s.op == "const" and s.arg == 0 for s in e.src]
    if e.op != "lt" or not e.src[0].dtype.is_float or not any(zeros):
        return None
    below = zeros[1]
    value = values[0 if below else 1]
    least = _LEAST[value.element]
    limit = out.constant(value, -least if below else least)
    return out.compare("fcmp ole" if below else "fcmp oge", value, limit)
