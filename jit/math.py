"""Math functions as expressions of correctly rounded operations.

LLVM has no instruction for most of them, and what hardware has is approximate. Here
each is add, mul, div, sqrt, integer operations, bit casts and selects, in the
order written and without contraction, so every device gives the same bits. float32 functions are
computed in float64 and rounded once, within 1 ulp, but for those of jit.single, within
1.5. float64 ones are within a few ulp.
float16 and bfloat16 go through float32.
"""

from collections.abc import Callable

from jit import exponential, single, trigonometric
from jit.dtype import DType, dtypes
from jit.kernel import Expr, Pool
from jit.term import Term, polynomial, with_sign

# erf(x)/x in x^2 up to 1, and erfc(x) exp(x^2) in 1/x - 7/12 from 1 to 6 (coarse: in
# 1/x - 5/8 from 1 to 4), each interpolated at Chebyshev nodes.
ERF = (
    1.1283791670955126, -0.3761263890318375, 0.11283791670954879, -0.026866170645076792,
    0.0052239776248180145, -0.000854832698083379, 0.0001205533111164271, -1.4925595266831182e-05,
    1.6461000484121368e-06, -1.6350312701054695e-07, 1.4659775274047436e-08,
    -1.1372848856791674e-09, 5.957176147748911e-11,
)  # fmt: skip
ERF_COARSE = (
    1.1283791670615435, -0.3761263846802871, 0.11283782495236845, -0.026865430727670243,
    0.005221031807858023, -0.0008484080405535107, 0.00011265959025606609, -9.667044571486996e-06,
)  # fmt: skip
ERFC = (
    0.2897221163234642, 0.3968704560302751, -0.1775868509285143, 0.038999327356093585,
    0.034319978620917034, -0.05879495995315363, 0.05075799640963184, -0.0253569989606195,
    -0.0044543789315782106, 0.028750144548516602, -0.041198638230533595, 0.03929875250499522,
    -0.024255795071217705, 0.000252750252778213, 0.026965325060750125, -0.04922198415905474,
    0.05397757621385616, -0.044748647653066555, 0.05474666184919451, -0.03741634129231037,
    -0.12983593562362408, 0.2510169158039844, -0.04385624586799439, -0.10669280535574305,
)  # fmt: skip
ERFC_COARSE = (
    0.3059529923271667, 0.3822837550929886, -0.17239476766065306, 0.04376931183862468,
    0.023330552936655112, -0.04703782763886579, 0.04322072144559762, -0.0253760081526456,
    0.004630760054216399, 0.015010736883309155, -0.033386496174859316, 0.028486298958643835,
)  # fmt: skip


def erf(x: Term, *, fine: bool) -> Term:
    """The error function."""
    a = x.of("abs")
    z = a * a
    small = a * polynomial(z, ERF if fine else ERF_COARSE)
    center = 7 / 12 if fine else 5 / 8
    # Past the interval exp(-x^2) has left nothing; the polynomial must only stay finite.
    u = 1.0 / a.of("max", 1.0).of("min", 6.0 if fine else 4.0) - center
    rest = exponential.exp(-z, fine=fine) * polynomial(u, ERFC if fine else ERFC_COARSE)
    return with_sign((a < 1.0).where(small, 1.0 - rest), x)


def _sinh(x: Term, *, fine: bool) -> Term:
    sine, _ = exponential.sinh_and_cosh(x, fine=fine)
    return with_sign(sine, x)


def _cosh(x: Term, *, fine: bool) -> Term:
    return exponential.sinh_and_cosh(x, fine=fine)[1]


def _tanh(x: Term, *, fine: bool) -> Term:
    sine, cosine = exponential.sinh_and_cosh(x.clip(-22.0, 22.0), fine=fine)
    return with_sign(sine / cosine, x)


def _asinh(x: Term, *, fine: bool) -> Term:
    a = x.of("abs")
    square = a * a
    inside = exponential.log1p(a + square / (1.0 + (square + 1.0).of("sqrt")), fine=fine)
    far = exponential.log(a, fine=fine) + exponential.LN2
    return with_sign((a > 1e9).where(far, inside), x)


def _acosh(x: Term, *, fine: bool) -> Term:
    t = x - 1.0
    inside = exponential.log1p(t + (t * (t + 2.0)).of("sqrt"), fine=fine)
    far = exponential.log(x, fine=fine) + exponential.LN2
    value = (x > 1e9).where(far, inside)
    return (x < 1.0).where(float("nan"), value)


def _atanh(x: Term, *, fine: bool) -> Term:
    a = x.of("abs")
    return with_sign(0.5 * exponential.log1p(2.0 * a / (1.0 - a), fine=fine), x)


def _sin(x: Term, *, fine: bool) -> Term:
    return trigonometric.sin_and_cos(x, fine=fine)[0]


def _cos(x: Term, *, fine: bool) -> Term:
    return trigonometric.sin_and_cos(x, fine=fine)[1]


def _tan(x: Term, *, fine: bool) -> Term:
    sine, cosine = trigonometric.sin_and_cos(x, fine=fine)
    return sine / cosine


FUNCTIONS: dict[str, Callable[..., Term]] = {
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "log": exponential.log,
    "log2": exponential.log2,
    "pow": exponential.power,
    "sin": _sin,
    "cos": _cos,
    "tan": _tan,
    "asin": trigonometric.asin,
    "acos": trigonometric.acos,
    "atan": trigonometric.atan,
    "atan2": trigonometric.atan2,
    "sinh": _sinh,
    "cosh": _cosh,
    "tanh": _tanh,
    "asinh": _asinh,
    "acosh": _acosh,
    "atanh": _atanh,
    "erf": erf,
}


# What float32 has a function of its own for.
SINGLE: dict[str, Callable[[Term], Term]] = {
    "exp": single.exp,
    "exp2": single.exp2,
    "log": single.log,
}


def _odd_sum(a: Term, b: Term) -> Term:
    """a + b rounded to odd: a later rounding to fewer bits is then as if it were the only one."""
    total, lost = exponential.two_sum(a, b)
    bits = total.bits(dtypes.int64)
    inexact = (lost > 0.0) | (lost < 0.0)
    outward = (lost > 0.0) ^ (bits < 0)
    odd = bits + outward.where(bits.like(1), -1)
    return (inexact & (bits & 1).equals(0)).where(odd, bits).bits(dtypes.float64)


def fused(a: Term, b: Term, c: Term) -> Term:
    """a * b + c rounded once, without an instruction for it (Boldo and Melquiond).

    float64: where the product neither overflows nor underflows.
    """
    if a.dtype is dtypes.float32:
        wide = [t.to(dtypes.float64) for t in (a, b, c)]
        return _odd_sum(wide[0] * wide[1], wide[2]).to(dtypes.float32)
    high, low = exponential.two_product(a, b)
    top, rest = exponential.two_sum(c, low)
    total, lost = exponential.two_sum(high, top)
    found = total + _odd_sum(rest, lost)
    return (found - found).equals(0.0).where(found, a * b + c)


def needs_expansion(e: Expr, *, has_fma: bool) -> bool:
    """Whether an operation is rewritten before code is made for it."""
    return e.op in FUNCTIONS or (e.op == "fma" and not has_fma)


def expand(e: Expr, pool: Pool) -> Expr:
    """The expression in terms of operations that need no expansion."""
    # 16-bit floats are computed in float32.
    narrow: DType = dtypes.float32 if e.dtype.bits == 16 else e.dtype
    terms = [Term(pool, s).to(narrow) for s in e.src]
    if e.op == "fma":
        return fused(*terms).to(e.dtype).expr
    if narrow is dtypes.float32 and e.op in SINGLE:
        return SINGLE[e.op](*terms).to(e.dtype).expr
    wide = [t.to(dtypes.float64) for t in terms]
    found = FUNCTIONS[e.op](*wide, fine=e.dtype is dtypes.float64)
    return found.to(narrow).to(e.dtype).expr
