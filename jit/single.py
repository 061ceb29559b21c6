"""exp, exp2 and log of float32 in float32 itself, as terms.

The functions that programs use most are worth it: GPUs are slow in float64. Within
1.5 ulp; only correctly rounded operations, and no fused ones, so every device gives
the same bits. As in jit.exponential, with the constants of the narrower format.
"""

from math import factorial

from jit.dtype import dtypes
from jit.exponential import log_ends
from jit.term import Term, polynomial

# ln 2 in two parts, the first of 15 bits: times an exponent it is exact.
LN2, LN2_HEAD, LN2_TAIL = 0.6931471805599453, 0.693145751953125, 1.4286068203094173e-06
INVERSE_LN2 = 1.4426950408889634
# Adding this rounds to an integer, which then lies in the low bits.
ROUNDER, ROUNDER_BITS = 12582912.0, 0x4B400000
SQRT_HALF_BITS = 0x3F3504F3
LEAST_NORMAL = 1.1754943508222875e-38


def _power_of_two(exponent: Term) -> Term:
    return ((exponent + 127) << 23).bits(dtypes.float32)


def _exp_of_small(r: Term, exponent: Term) -> Term:
    """exp(r) * 2^exponent, |r| <= ln(2)/2. Two steps: the result may be subnormal."""
    tail = polynomial(r, tuple(1 / factorial(k) for k in range(2, 8)))
    half = exponent >> 1
    value = 1.0 + (r + r * r * tail)
    return value * _power_of_two(half) * _power_of_two(exponent - half)


def _integer(rounded: Term) -> Term:
    """Of a float32 to which ROUNDER was added: the integer, as int32."""
    return rounded.bits(dtypes.int32) - ROUNDER_BITS


def exp(x: Term) -> Term:
    """e^x."""
    x = x.clip(-110.0, 100.0)
    rounded = x * INVERSE_LN2 + ROUNDER
    k = rounded - ROUNDER
    r = (x - k * LN2_HEAD) - k * LN2_TAIL
    return _exp_of_small(r, _integer(rounded))


def exp2(x: Term) -> Term:
    """2^x."""
    x = x.clip(-160.0, 140.0)
    rounded = x + ROUNDER
    return _exp_of_small((x - (rounded - ROUNDER)) * LN2, _integer(rounded))


def _split(x: Term) -> tuple[Term, Term]:
    """x = m * 2^e, m between sqrt(1/2) and sqrt(2); (m - 1, e as float32)."""
    tiny = x < LEAST_NORMAL
    x = tiny.where(x * 2.0**24, x)
    bits = x.bits(dtypes.int32)
    e = (bits - SQRT_HALF_BITS) >> 23
    m = (bits - (e << 23)).bits(dtypes.float32)
    e = e - tiny.where(e.like(24), 0)
    return m - 1.0, (e + ROUNDER_BITS).bits(dtypes.float32) - ROUNDER


def _log_parts(f: Term) -> Term:
    """f - log(1 + f): small beside f. With s = f/(2+f), log is 2 atanh(s) = f - s (f - R)."""
    s = f / (2.0 + f)
    z = s * s
    rest = z * polynomial(z, tuple(2 / (2 * k + 1) for k in range(1, 5)))
    return s * (f - rest)


def log(x: Term) -> Term:
    """The natural logarithm."""
    f, e = _split(x)
    return log_ends(x, e * LN2_HEAD + (f - (_log_parts(f) - e * LN2_TAIL)))
