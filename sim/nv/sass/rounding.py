"""Rounding other than to nearest even, and formats that the host does not have.

Sums and products are computed in double precision and *rounded to odd*: where something was
cut off, the last bit is one. Rounding such a double to 24, 11 or 8 bits in any direction
rounds the exact value.

Source: Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008;
Boldo and Muller, "Some functions computable with a fused-mac", 2005 (error of a fma).
"""

from sim.isa.value import F32, F64, U16, U32, U64, Type, Value, fma, where

MODES = ("RM", "RP", "RZ")


def sum_error(a: Value, b: Value, total: Value) -> Value:
    """The part of a + b that the rounded total lacks, exact."""
    back = total - a
    return (a - (total - back)) + (b - back)


def to_odd(total: Value, error: Value) -> Value:
    """A rounded F64 total, whose exact value is total + error, rounded to odd."""
    raw = total.bits(U64)
    finite = (total - total) == 0.0
    inexact = finite & (error != 0.0) & ((raw & 1) == 0)
    away = ~((error > 0.0) ^ (total > 0.0))
    return where(inexact, where(away, raw + 1, raw - 1), raw).bits(F64)


def odd_sum(a: Value, b: Value) -> Value:
    """a + b in F64, rounded to odd."""
    total = a + b
    return to_odd(total, sum_error(a, b, total))


def _is_above(rounded: Value, error: Value, mode: str) -> tuple[Value, Value]:
    """(step down, step up): where a value rounded to nearest must move by one place.

    error is exact minus rounded.
    """
    over, under = error < 0.0, error > 0.0
    never = error != error
    if mode == "RM":
        return over, never
    if mode == "RP":
        return never, under
    negative = rounded.bits(rounded.type.unsigned) >> (rounded.type.bits - 1) != 0
    return over & ~negative, under & negative


def _step(value: Value, down: Value, up: Value) -> Value:
    """The neighbour of a float; from zero to the least number of that sign."""
    kind = value.type.unsigned
    raw = value.bits(kind)
    sign = 1 << (value.type.bits - 1)
    negative = raw >= sign
    zero = (raw & (sign - 1)) == 0
    outward, inward = raw + 1, raw - 1
    higher = where(zero, 1, where(negative, inward, outward))
    lower = where(zero, sign + 1, where(negative, outward, inward))
    return where(up, higher, where(down, lower, raw)).bits(value.type)


def directed(exact: Value, target: Type, mode: str) -> Value:
    """A F64, exact or rounded to odd, as F32 or F16 in one of MODES; "" is to nearest."""
    near = exact.to(target)
    if mode not in MODES:
        return near
    back = near.to(F64)
    # inf - inf would be a NaN: an overflow is an error of the other sign.
    error = where(back == exact, 0.0, where(exact > back, exact.constant(F64, 1.0), -1.0))
    finite = (exact - exact) == 0.0
    down, up = _is_above(near, error, mode)
    return _step(near, down & finite, up & finite)


def single_odd(exact: Value) -> Value:
    """A F64 as F32, rounded to odd."""
    near = exact.to(F32)
    back = near.to(F64)
    raw = near.bits(U32)
    outward = back.absolute() > exact.absolute()
    inward = where(outward, raw - 1, raw)
    inexact = (back != exact) & ~exact.is_nan()
    return where(inexact, inward | 1, raw).bits(F32)


def brain(exact: Value, mode: str = "") -> Value:
    """A F64, exact or rounded to odd, as the bits of a bfloat16 (U16)."""
    return brain_of_single(single_odd(exact), mode)


def brain_of_single(value: Value, mode: str = "") -> Value:
    """A F32, exact or rounded to odd, as the bits of a bfloat16 (U16)."""
    raw = value.bits(U32)
    if mode == "RZ":
        rounded = raw
    else:
        rounded = raw + 0x7FFF + ((raw >> 16) & 1)
    rounded = where((raw & 0x7FFF_FFFF) == 0x7F80_0000, raw, rounded)
    return where(value.is_nan(), 0x7FFF, rounded >> 16).to(U16)


def sum64(a: Value, b: Value, mode: str) -> Value:
    """a + b in double precision in one of MODES."""
    total = a + b
    return _adjusted(total, sum_error(a, b, total), mode)


def product64(a: Value, b: Value, mode: str) -> Value:
    """a * b; the direction is lost where the product's low half is too small for a double."""
    total = a * b
    return _adjusted(total, fma(a, b, total.negate()), mode)


def fma64(a: Value, b: Value, c: Value, mode: str) -> Value:
    """a * b + c; the direction is lost as in product64."""
    total = fma(a, b, c)
    high = a * b
    low = fma(a, b, high.negate())
    alpha = c + low
    alpha_error = sum_error(c, low, alpha)
    beta = high + alpha
    beta_error = sum_error(high, alpha, beta)
    error = ((beta - total) + beta_error) + alpha_error
    return _adjusted(total, error, mode)


def _adjusted(total: Value, error: Value, mode: str) -> Value:
    down, up = _is_above(total, error, mode)
    finite = (total - total) == 0.0
    return _step(total, down & finite, up & finite)
