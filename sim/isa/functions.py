"""exp2, log2, sine, cosine, reciprocals and roots from the operations of Value.

Everything is computed in double precision, so that both engines give the same bits and
a result rounded to single precision is within 1 ulp. Sine and cosine take revolutions, not
radians.

Source: the Taylor series of exp(t), atanh(t) and sin(t).
"""

from collections.abc import Sequence
from math import factorial, log, pi

from sim.isa.value import F64, I32, U64, Value, constant, where

LN2 = log(2.0)
SQRT2 = 2.0**0.5

# Lowest order first. Errors below 2**-31 relative on the reduced ranges.
EXP_TERMS = [LN2**k / factorial(k) for k in range(10)]
ATANH_TERMS = [1.0 / (2 * k + 1) for k in range(8)]
SINE_TERMS = [(-1) ** k * (2 * pi) ** (2 * k + 1) / factorial(2 * k + 1) for k in range(9)]

MANTISSA_MASK = (1 << 52) - 1
ONE = 1023 << 52


def horner(x: Value, terms: Sequence[float]) -> Value:
    """The polynomial with these coefficients, lowest order first."""
    total = constant(x, x.type, terms[-1])
    for term in reversed(terms[:-1]):
        total = total * x + term
    return total


def power_of_two(exponent: Value) -> Value:
    """2**exponent as F64; exponent is I32 between -1022 and 1023."""
    return ((exponent + 1023).bits(exponent.type.unsigned).to(U64) << 52).bits(F64)


def exp2(x: Value) -> Value:
    """2**x, F64, good for the range and precision of F32."""
    limited = where(x < -200.0, -200.0, where(x > 200.0, 200.0, x))
    whole = limited.round_even()
    return horner(limited - whole, EXP_TERMS) * power_of_two(whole.to(I32))


def log2(x: Value) -> Value:
    """log2(x), F64, good for the precision of F32; x is not a denormal double."""
    raw = x.bits(U64)
    exponent = (raw >> 52).to(F64) - 1023.0
    mantissa = ((raw & MANTISSA_MASK) | ONE).bits(F64)
    big = mantissa > SQRT2
    mantissa = where(big, mantissa * 0.5, mantissa)
    exponent = where(big, exponent + 1.0, exponent)
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    result = exponent + ratio * horner(ratio * ratio, ATANH_TERMS) * (2.0 / LN2)
    infinite = constant(x, F64, float("inf"))
    result = where(x == float("inf"), infinite, result)
    result = where(x == 0.0, infinite.negate(), result)
    return where((x < 0.0) | x.is_nan(), constant(x, F64, float("nan")), result)


def sine(revolutions: Value) -> Value:
    """sin(2*pi*x), F64."""
    return _sine_reduced(revolutions - revolutions.round_even(), revolutions)


def cosine(revolutions: Value) -> Value:
    """cos(2*pi*x), F64."""
    # cos(2*pi*r) = sin(2*pi*(1/4 - |r|)), which lies between -1/4 and 1/4 for |r| <= 1/2.
    rest = (revolutions - revolutions.round_even()).absolute()
    turned = constant(rest, F64, 0.25) - rest
    return turned * horner(turned * turned, SINE_TERMS)


def _sine_reduced(rest: Value, original: Value) -> Value:
    # Fold (1/4, 1/2] back: sin(pi - t) = sin(t).
    half = where(rest < 0.0, constant(rest, F64, -0.5), 0.5)
    folded = where(rest.absolute() > 0.25, half - rest, rest)
    result = folded * horner(folded * folded, SINE_TERMS)
    return where(original == 0.0, original, result)


def reciprocal(x: Value) -> Value:
    """1 / x."""
    return constant(x, x.type, 1.0) / x


def reciprocal_root(x: Value) -> Value:
    """1 / sqrt(x); -0 gives -inf."""
    return reciprocal(x.sqrt())
