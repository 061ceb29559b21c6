"""exp, log, pow and what is made of them, in float64, as terms.

`fine`: to a few ulp of float64; else with an error below 2^-30, which is more than
enough where the result is rounded to float32. Only correctly rounded operations
are used, so that every device gives the same bits.

Coefficients are Taylor's.
"""

from math import factorial, inf, nan

from jit.dtype import dtypes
from jit.term import Term, polynomial

LN2, LN2_LOW = 0.6931471805599453, 2.3190468138462996e-17
# ln 2 in two parts, the first of 41 bits: times an exponent it is exact.
LN2_HEAD, LN2_TAIL = 0.693147180559663, 2.8235290563031577e-13
INVERSE_LN2, INVERSE_LN2_LOW = 1.4426950408889634, 2.0355273740931033e-17
# Adding this rounds to an integer, which then lies in the low bits.
ROUNDER, ROUNDER_BITS = 6755399441055744.0, 0x4338000000000000
SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
LEAST_NORMAL = 2.2250738585072014e-308


def _integer(rounded: Term) -> Term:
    """Of a float64 to which ROUNDER was added: the integer, as int64."""
    return rounded.bits(dtypes.int64) - ROUNDER_BITS


def _to_float(integer: Term) -> Term:
    """A small int64 as float64. Exact."""
    return (integer + ROUNDER_BITS).bits(dtypes.float64) - ROUNDER


def _power_of_two(exponent: Term) -> Term:
    """2^exponent for an int64 in -1022..1023."""
    return ((exponent + 1023) << 52).bits(dtypes.float64)


def _scaled(value: Term, exponent: Term, *, fine: bool) -> Term:
    """value * 2^exponent; in two steps where the exponent may leave the range."""
    if not fine:
        return value * _power_of_two(exponent)
    half = exponent >> 1
    return value * _power_of_two(half) * _power_of_two(exponent - half)


def _exp_of_small(r: Term, low: Term | float, *, fine: bool) -> Term:
    """exp(r + low), |r| <= ln(2)/2."""
    most = 14 if fine else 9
    tail = polynomial(r, tuple(1 / factorial(k) for k in range(2, most)))
    return 1.0 + (r + (low + r * r * tail))


def exp(x: Term, *, fine: bool, shift: int = 0) -> Term:
    """e^x * 2^shift."""
    x = x.clip(-760.0, 720.0) if fine else x.clip(-200.0, 200.0)
    rounded = x * INVERSE_LN2 + ROUNDER
    k = rounded - ROUNDER
    r = x - k * LN2_HEAD
    low = -(k * LN2_TAIL)
    whole = r + low
    rest = (r - whole) + low if fine else 0.0
    return _scaled(_exp_of_small(whole, rest, fine=fine), _integer(rounded) + shift, fine=fine)


def exp2(x: Term, *, fine: bool) -> Term:
    """2^x."""
    x = x.clip(-1100.0, 1030.0) if fine else x.clip(-300.0, 300.0)
    rounded = x + ROUNDER
    r = (x - (rounded - ROUNDER)) * LN2
    return _scaled(_exp_of_small(r, 0.0, fine=fine), _integer(rounded), fine=fine)


def _split(x: Term, *, fine: bool) -> tuple[Term, Term]:
    """x = m * 2^e, m between sqrt(1/2) and sqrt(2); (m - 1, e as float64)."""
    lost: Term | int = 0
    if fine:
        tiny = x < LEAST_NORMAL
        x = tiny.where(x * 2.0**54, x)
        lost = tiny.where(x.bits(dtypes.int64).like(54), 0)
    bits = x.bits(dtypes.int64)
    e = (bits - SQRT_HALF_BITS) >> 52
    m = (bits - (e << 52)).bits(dtypes.float64)
    return m - 1.0, _to_float(e - lost)


def _log_parts(f: Term, *, fine: bool) -> Term:
    """f - log(1 + f): small beside f. With s = f/(2+f), log is 2 atanh(s) = f - s (f - R)."""
    s = f / (2.0 + f)
    z = s * s
    most = 10 if fine else 5
    rest = z * polynomial(z, tuple(2 / (2 * k + 1) for k in range(1, most + 1)))
    return s * (f - rest)


def log_ends(x: Term, value: Term) -> Term:
    """The logarithm outside the finite positive numbers."""
    inside = (x > 0.0) & (x < inf)
    outside = x.equals(0.0).where(-inf, (x < 0.0).where(nan, x))
    return inside.where(value, outside)


def log(x: Term, *, fine: bool) -> Term:
    """The natural logarithm."""
    f, e = _split(x, fine=fine)
    return log_ends(x, e * LN2_HEAD + (f - (_log_parts(f, fine=fine) - e * LN2_TAIL)))


def log2(x: Term, *, fine: bool) -> Term:
    """The logarithm to base 2; exact for powers of two."""
    f, e = _split(x, fine=fine)
    return log_ends(x, e + (f - _log_parts(f, fine=fine)) * INVERSE_LN2)


def log1p(y: Term, *, fine: bool) -> Term:
    """log(1 + y) without losing a small y."""
    u = 1.0 + y
    back = u - 1.0
    lost = (1.0 - (u - back)) + (y - back)
    return log(u, fine=fine) + (y < 2.0**60).where(lost / u, 0.0)


def _sinh_of_small(x: Term, *, fine: bool) -> Term:
    """sinh for |x| <= 1."""
    most = 10 if fine else 7
    z = x * x
    tail = polynomial(z, tuple(1 / factorial(2 * k + 1) for k in range(1, most)))
    return x + x * z * tail


def sinh_and_cosh(x: Term, *, fine: bool) -> tuple[Term, Term]:
    """Both, of |x|. Halves are taken in the exponent, so nothing overflows early."""
    a = x.of("abs")
    half = exp(a, fine=fine, shift=-1)
    inverse = 0.25 / half
    return (a < 1.0).where(_sinh_of_small(a, fine=fine), half - inverse), half + inverse


# pow in float64 needs the logarithm to more than float64: pairs of a value and what it lacks.

Pair = tuple[Term, Term]
SPLITTER = 134217729.0  # 2^27 + 1


def two_sum(a: Term, b: Term) -> Pair:
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


def two_product(a: Term, b: Term) -> Pair:
    """a * b and what the rounding lost; exact unless something over- or underflows."""
    total = a * b
    (ah, al), (bh, bl) = (_halves(v) for v in (a, b))
    return total, ((ah * bh - total) + ah * bl + al * bh) + al * bl


def _halves(a: Term) -> Pair:
    scaled = a * SPLITTER
    high = scaled - (scaled - a)
    return high, a - high


def _times(a: Pair, b: Pair) -> Pair:
    high, low = two_product(a[0], b[0])
    return _normal(high, low + (a[0] * b[1] + a[1] * b[0]))


def _normal(high: Term, low: Term) -> Pair:
    total = high + low
    return total, low - (total - high)


def _plus(a: Pair, b: Pair) -> Pair:
    high, low = two_sum(a[0], b[0])
    return _normal(high, low + (a[1] + b[1]))


def _log2_pair(x: Term) -> Pair:
    """log2 of a positive finite number, to about 2^-64 of it."""
    f, e = _split(x, fine=True)
    den, den_low = two_sum(f.like(2.0), f)
    s = f / den
    back, back_low = two_product(s, den)
    s_low = (((f - back) - back_low) - s * den_low) / den
    z = _times((s, s_low), (s, s_low))
    # 2 s (1 + z/3 + z^2/5 + ...): the first terms as pairs, the rest is small.
    tail = z[0] * z[0] * z[0] * polynomial(z[0], tuple(1 / (2 * k + 1) for k in range(3, 13)))
    third = _times(z, (f.like(1 / 3), f.like(1.850371707708594e-17)))
    fifth = _times(_times(z, z), (f.like(0.2), f.like(-1.1102230246251566e-17)))
    series = _plus(_plus(third, fifth), (tail, f.like(0.0)))
    log = _plus((s, s_low), _times((s, s_low), series))
    log = (log[0] * 2.0, log[1] * 2.0)
    scaled = _times(log, (f.like(INVERSE_LN2), f.like(INVERSE_LN2_LOW)))
    return _plus((e, f.like(0.0)), scaled)


def _power_fine(a: Term, y: Term) -> Term:
    """a^y for positive finite a and finite y."""
    high, low = _log2_pair(a)
    # Beyond this 2^.. is 0 or inf anyway; it keeps the product of halves finite.
    y = y.clip(-1e290, 1e290)
    big = (y * high).of("abs") > 1e5
    total, rest = two_product(high, y)
    rest = rest + low * y
    total = big.where(y * high, total).clip(-1200.0, 1100.0)
    rest = big.where(0.0, rest)
    rounded = total + ROUNDER
    r = total - (rounded - ROUNDER)
    scaled, lost = two_product(r, r.like(LN2))
    exponent = _normal(scaled, rest * LN2 + (lost + r * LN2_LOW))
    return _scaled(_exp_of_small(*exponent, fine=True), _integer(rounded), fine=True)


def power(x: Term, y: Term, *, fine: bool) -> Term:
    """x^y with the special values of C's pow."""
    a = x.of("abs")
    if fine:
        inside = (a > 0.0) & (a < inf) & (y.of("abs") < inf)
        r = inside.where(_power_fine(a, y), exp2(y * log2(a, fine=True), fine=True))
    else:
        r = exp2(y * log2(a, fine=False), fine=False)
    r = (a.equals(1.0) & y.of("abs").equals(inf)).where(1.0, r)
    whole = y.of("floor").equals(y)
    half = y * 0.5
    odd = whole & half.of("floor").differs(half)
    negative = x.bits(dtypes.int64) < 0
    r = (negative & odd).where(-r, r)
    r = ((x < 0.0) & (x > -inf) & ~whole).where(nan, r)
    return (x.equals(1.0) | y.equals(0.0)).where(1.0, r)
