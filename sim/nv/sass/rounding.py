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
    if mode in ("RM", "RP"):
        grows = (raw >> 31 != 0) ^ (mode == "RP")
        rounded = where(grows, raw + 0xFFFF, raw)
    else:
        rounded = raw if mode == "RZ" else raw + 0x7FFF + ((raw >> 16) & 1)
    rounded = where((raw & 0x7FFF_FFFF) == 0x7F80_0000, raw, rounded)
    return where(value.is_nan(), 0x7FFF, rounded >> 16).to(U16)


def sum64(a: Value, b: Value, mode: str) -> Value:
    """a + b in double precision in one of MODES."""
    total = a + b
    if mode == "RM":  # the sum of opposite numbers is -0
        total = where((a.bits(U64) != b.bits(U64)) & (total == 0.0), -0.0, total)
    return _adjusted(total, sum_error(a, b, total), mode, _finite(a) & _finite(b))


TINY, LARGE, SCALE = 2.0**-900, 2.0**-300, 2.0**600


def _apart(a: Value, b: Value, product: Value) -> tuple[Value, Value, Value]:
    """(a, b, factor): both scaled so that the error of their product is a double, too."""
    tiny = product.absolute() < TINY
    first = a.absolute() < b.absolute()
    small, other = where(first, a, b), where(first, b, a)
    again = tiny & (other.absolute() < LARGE)
    one = a.constant(F64, 1.0)
    scale, second = where(tiny, SCALE, one), where(again, SCALE, one)
    return small * scale, other * second, scale * second


def product64(a: Value, b: Value, mode: str) -> Value:
    """a * b in double precision in one of MODES."""
    total = a * b
    x, y, factor = _apart(a, b, total)
    # In two steps: the factor may be too large for a double, the scaled product is not.
    root = where(factor > SCALE, SCALE, a.constant(F64, 1.0))
    error = fma(x, y, (total * root * where(factor >= SCALE, SCALE, root)).negate())
    return _adjusted(total, error, mode, _finite(a) & _finite(b))


def fma64(a: Value, b: Value, c: Value, mode: str) -> Value:
    """a * b + c in double precision in one of MODES.

    Within a factor of 2 of the largest double a step of the error's sum may overflow: then the
    last place is that of rounding to nearest.
    """
    total = fma(a, b, c)
    high = a * b
    tiny = (high.absolute() < TINY) & (c.absolute() < TINY)
    small = where(a.absolute() < b.absolute(), a, b)
    other = where(a.absolute() < b.absolute(), b, a)
    scale = where(tiny, SCALE, a.constant(F64, 1.0))
    small, addend, result = small * scale, c * scale, total * scale
    high = small * other
    low = fma(small, other, high.negate())
    alpha = addend + low
    alpha_error = sum_error(addend, low, alpha)
    beta = high + alpha
    beta_error = sum_error(high, alpha, beta)
    error = ((beta - result) + beta_error) + alpha_error
    # A product too small to be seen beside c still says where the exact sum lies.
    unseen = (high == 0.0) & (a != 0.0) & (b != 0.0)
    minus = (a.bits(U64) ^ b.bits(U64)) >> 63 != 0
    error = where(unseen, where(minus, -1.0, a.constant(F64, 1.0)), error)
    if mode == "RM":  # the sum of opposite numbers is -0
        opposite = minus ^ (c.bits(U64) >> 63 != 0)
        total = where((total == 0.0) & (error == 0.0) & opposite, -0.0, total)
    return _adjusted(total, error, mode, _finite(a) & _finite(b) & _finite(c))


def _finite(value: Value) -> Value:
    result: Value = (value - value) == 0.0
    return result


def _adjusted(total: Value, error: Value, mode: str, finite: Value) -> Value:
    """total moved by one place where the exact value, total + error, asks for it.

    An infinite total of finite operands is beyond the exact value.
    """
    beyond = ~_finite(total)
    error = where(beyond, where(total > 0.0, -1.0, total.constant(F64, 1.0)), error)
    down, up = _is_above(total, error, mode)
    return _step(total, down & finite, up & finite)
