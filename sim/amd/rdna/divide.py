"""Scaling by powers of two, and the three steps around a refined division.

The compiler divides by: scale numerator and denominator out of the danger zone (div_scale),
refine with fma, undo the scaling (div_fmas), put in the special cases (div_fixup).

Source: AMD "RDNA3" Instruction Set Architecture, section 16.10 (V_DIV_SCALE_F32 and following,
V_LDEXP_F32). Two places where the text cannot be meant literally: a huge denominator with a
denormal quotient is scaled down (the text would overflow it), and V_DIV_FMAS undoes the
scaling in the direction that the quotient shows.
"""

from dataclasses import dataclass

from sim.amd.rdna.semantics import vector
from sim.amd.rdna.vop1 import biased_exponent
from sim.amd.rdna.vop2 import default_nan
from sim.isa.functions import power_of_two
from sim.isa.value import F16, F32, F64, I16, I32, Type, Value, constant, fma, where


def clamp_exponent(exponent: Value, limit: int) -> Value:
    """An I32 exponent kept within -limit and limit."""
    return where(exponent < -limit, -limit, where(exponent > limit, limit, exponent))


@vector("v_ldexp_f16", F16, I16, to=F16)
def v_ldexp_f16(a: Value, exponent: Value) -> Value:
    # Exact in F32, rounded once: no half is below 2**-24 or above 2**16.
    scale = power_of_two(clamp_exponent(exponent.to(I32), 60)).to(F32)
    return (a.to(F32) * scale).to(F16)


@vector("v_ldexp_f32", F32, I32, to=F32)
def v_ldexp_f32(a: Value, exponent: Value) -> Value:
    return (a.to(F64) * power_of_two(clamp_exponent(exponent, 300))).to(F32)


@vector("v_ldexp_f64", F64, I32, to=F64)
def v_ldexp_f64(a: Value, exponent: Value) -> Value:
    """Steps down stay in the normal range until the last, so that only the last rounds."""
    rest = clamp_exponent(exponent, 2200)
    for _ in range(2):
        up = rest > 1023
        # 2**-969 leaves 53 bits above the denormals.
        down = rest < -1022
        factor = where(up, 2.0**1023, where(down, 2.0**-969, constant(a, F64, 1.0)))
        taken = where(up, constant(rest, I32, 1023), where(down, -969, constant(rest, I32, 0)))
        a, rest = a * factor, rest - taken
    return a * power_of_two(rest)


@dataclass(frozen=True)
class Range:
    """Where a float type needs help in a division, by biased exponents."""

    bias: int
    far: int  # numerator over denominator near the largest number
    tiny: int  # numerator too small to refine
    shift: int  # powers of two to scale by
    fewest: int  # quotient certainly below half the smallest denormal


RANGES = {32: Range(127, 96, 23, 64, -150), 64: Range(1023, 768, 53, 128, -1075)}


def _power(like: Value, exponent: int) -> Value:
    return constant(like, like.type, 2.0**exponent)


def is_denormal(a: Value) -> Value:
    """BOOL: below the normal numbers, not 0."""
    tiny: Value = biased_exponent(a) == 0
    nonzero: Value = a != 0.0
    return tiny & nonzero


def div_scale(a: Value, denominator: Value, numerator: Value) -> tuple[Value, Value]:
    """a (one of the two others) scaled, and a mask of lanes whose quotient needs unscaling."""
    limits = RANGES[a.type.bits]
    one = constant(a, a.type, 1.0)
    top, bottom = biased_exponent(numerator), biased_exponent(denominator)
    is_denominator = a == denominator
    is_numerator = a == numerator
    huge = is_denormal(one / denominator)
    small = is_denormal(numerator / denominator)
    up, down = a * _power(a, limits.shift), a * _power(a, -limits.shift)
    far = (top - bottom) >= limits.far

    # The last condition that holds in the text's order wins: build from the end.
    scaled = where(top <= limits.tiny, up, a)
    scaled = where(small, where(is_numerator, up, a), scaled)
    scaled = where(huge, down, scaled)
    scaled = where(huge & small, where(is_denominator, down, a), scaled)
    scaled = where(is_denormal(denominator), up, scaled)
    scaled = where(far, where(is_denominator, up, a), scaled)
    zero = (numerator == 0.0) | (denominator == 0.0)
    flagged = far | (~is_denormal(denominator) & small)
    return where(zero, default_nan(a), scaled), flagged & ~zero


def div_fmas(a: Value, b: Value, quotient: Value, scaled: Value) -> Value:
    """fma(a, b, quotient), unscaled where div_scale said so."""
    limits = RANGES[a.type.bits]
    result = fma(a, b, quotient)
    # A quotient above 1 was scaled down (the denominator up), one below 1 was scaled up.
    large = biased_exponent(quotient) > limits.bias
    factor = where(large, _power(a, limits.shift), _power(a, -limits.shift))
    inverse = where(large, _power(a, -limits.shift), _power(a, limits.shift))
    unscaled = result * factor
    # Sum and scaling are rounded once. To a denormal it would be twice, which matters where
    # the sum lies in the middle of two denormals: then what its rounding lost decides.
    nearest = unscaled * inverse
    other = result + (result - nearest)
    lost = fma(a, b, quotient - result)
    between = (nearest - result).absolute() == _power(a, limits.fewest + limits.shift)
    upward = (other > nearest) & (lost > 0.0)
    downward = (other < nearest) & (lost < 0.0)
    unscaled = where(between & (upward | downward), other * factor, unscaled)
    return where(scaled, unscaled, result)


def div_fixup(quotient: Value, denominator: Value, numerator: Value) -> Value:
    """The quotient with sign, and what zeros, infinities, NaNs and range ends require."""
    kind = quotient.type
    sign_bit = 1 << (kind.bits - 1)
    raw = denominator.bits(kind.unsigned) ^ numerator.bits(kind.unsigned)
    sign = raw & sign_bit
    infinity = constant(quotient, kind, float("inf"))
    size = _sized(quotient, denominator, numerator)

    over_zero, of_zero = denominator == 0.0, numerator == 0.0
    by_infinity = denominator.absolute() == float("inf")
    of_infinity = numerator.absolute() == float("inf")
    size = where(by_infinity | of_zero, 0.0, size)
    size = where(over_zero | of_infinity, infinity, size)
    result = (size.bits(kind.unsigned) | sign).bits(kind)
    undefined = (over_zero & of_zero) | (by_infinity & of_infinity)
    result = where(undefined, default_nan(quotient).negate(), result)
    return where(denominator.is_nan() | numerator.is_nan(), default_nan(quotient), result)


def _sized(quotient: Value, denominator: Value, numerator: Value) -> Value:
    # Refining a quotient beyond the range ends in NaN: it stands for overflow.
    infinity = constant(quotient, quotient.type, float("inf"))
    size = where(quotient.is_nan(), infinity, quotient.absolute())
    limits = RANGES.get(quotient.type.bits)
    if limits is None:
        return size
    apart = biased_exponent(numerator) - biased_exponent(denominator)
    return where(apart < limits.fewest, 0.0, size)


def _register(kind: Type, suffix: str) -> None:
    vector(f"v_div_scale_{suffix}", kind, kind, kind, to=(kind, "mask"))(div_scale)
    vector(f"v_div_fmas_{suffix}", kind, kind, kind, to=kind, reads=("vcc",))(div_fmas)


_register(F32, "f32")
_register(F64, "f64")
for _kind, _suffix in ((F16, "f16"), (F32, "f32"), (F64, "f64")):
    vector(f"v_div_fixup_{_suffix}", _kind, _kind, _kind, to=_kind)(div_fixup)
