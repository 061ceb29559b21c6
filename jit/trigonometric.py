"""sin, cos, tan and their inverses, in float64, as terms.

Arguments of any size are reduced exactly enough: x * 2/pi is formed in integers
from the bits of 2/pi that matter for the exponent of x (Payne and Hanek).
`fine` as in jit.exponential. Coefficients of sin and cos are Taylor's; those of
atan interpolate (atan(t)/t - 1)/t^2 in t^2 at Chebyshev nodes up to tan(pi/8)^2.
"""

from math import factorial, inf

from jit.dtype import dtypes
from jit.exponential import Pair, two_product
from jit.term import Term, polynomial, with_sign

HALF_PI, HALF_PI_LOW = 1.5707963267948966, 6.123233995736766e-17
PI, PI_LOW = 3.141592653589793, 1.2246467991473532e-16
QUARTER_PI, QUARTER_PI_LOW = 0.7853981633974483, 3.061616997868383e-17

# The first 1280 bits of 2/pi after the point.
TWO_OVER_PI = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e0"
    "06492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f4"
    "9c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d"
    "7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6babf0cfbc209af4361d",
    16,
)
BITS = 1280

ATAN = (
    -0.3333333333333333, 0.19999999999995516, -0.14285714284665682, 0.11111111015187018,
    -0.0909090457530649, 0.07692183125376892, -0.06664510525508936, 0.05858140904866328,
    -0.050854078345894844, 0.03923044778479309, -0.019175404711104935,
)  # fmt: skip
ATAN_COARSE = (
    -0.33333333331439496, 0.19999998916690562, -0.14285612465275252, 0.11107493853432703,
    -0.09028967562110418, 0.07135234647464041, -0.04043033696147107,
)  # fmt: skip


def _words(first: int, count: int) -> list[int]:
    """32-bit words of 2/pi from bit `first` on, bit 1 being the first after the point."""
    padded = TWO_OVER_PI << 64  # room at both ends: bits before the point are 0
    top = BITS + 64
    return [
        (padded >> top - (first - 1) - 32 * (i + 1)) & 0xFFFFFFFF
        if first - 1 + 32 * (i + 1) > 0
        else 0
        for i in range(count)
    ]


def _window(table: list[int], at: Term, count: int) -> list[Term]:
    """`count` 32-bit words that begin at bit `at` of a table of words, as uint64."""
    words: list[Term] = [at.like(w) for w in table]
    steps = range((len(table) - count - 1).bit_length() - 1, -1, -1)
    index = at >> 5
    needed = count + 1
    for step in steps:
        size = 1 << step
        taken = (index & size).differs(0)
        keep = needed + size - 1
        words = [
            taken.where(words[i + size], words[i]) if i + size < len(words) else words[i]
            for i in range(min(keep, len(words)))
        ]
    shift = at & 31
    pairs = [(words[i] << 32) | words[i + 1] for i in range(count)]
    return [(p >> (32 - shift)) & 0xFFFFFFFF for p in pairs]


def _scaled_fraction(x: Term, *, fine: bool) -> tuple[Term, Term, list[Term]]:
    """|x| * 2/pi modulo 4, as 32-bit words: the quadrant's two bits first.

    Returns the nearest quadrant, whether the fraction is to be taken as negative, and
    the words of the fraction after the two bits (its sign bit first).
    """
    bits = x.bits(dtypes.uint64)
    exponent = (bits >> 52) & 0x7FF
    mantissa = (bits & ((1 << 52) - 1)) | (1 << 52)
    # |x| = M * 2^(exponent - 1023 - size), M an integer of size + 1 bits.
    size = 52 if fine else 23
    count = 6 if fine else 3
    limbs = [mantissa & 0xFFFFFFFF, mantissa >> 32] if fine else [mantissa >> 29]
    # Bits of weight 4 and more do not matter: begin at 2^1 of the product.
    begin = -64
    largest = 2047 if fine else 1023 + 128
    least = 1021
    table = _words(begin, count + 1 + (largest - least) // 32 + 2)
    # Weight of table bit 0 is 2^(-begin); of the wanted first bit 2^(1 - e).
    e = exponent.of("max", least).of("min", largest) - (1023 + size)
    at = e.like(0) + e - (begin + 1) + 0
    window = _window(table, at, count)
    return _multiply(window, limbs)


def _multiply(window: list[Term], limbs: list[Term]) -> tuple[Term, Term, list[Term]]:
    """window (big-endian words) * limbs (little-endian) modulo the window's size."""
    count = len(window)
    columns: list[list[Term]] = [[] for _ in range(count)]
    for i, w in enumerate(reversed(window)):
        for j, limb in enumerate(limbs):
            if i + j < count:
                product = w * limb
                columns[i + j].append(product & 0xFFFFFFFF)
                if i + j + 1 < count:
                    columns[i + j + 1].append(product >> 32)
    words, carry = [], window[0].like(0)
    for column in columns:
        total = carry
        for term in column:
            total = total + term
        words.append(total & 0xFFFFFFFF)
        carry = total >> 32
    words.reverse()
    top = words[0]
    negative = (top & 0x20000000).differs(0)
    quadrant = ((top >> 30) + negative.to(dtypes.uint64)) & 3
    return quadrant, negative, [(top & 0x3FFFFFFF), *words[1:]]


def _fraction(negative: Term, words: list[Term]) -> Pair:
    """The fraction of the quadrant, between -1/2 and 1/2, as a pair."""
    # Negative: the words minus 1. Complementing every word is that up to the last bit.
    flipped = [
        negative.where(w ^ (0x3FFFFFFF if i == 0 else 0xFFFFFFFF), w) for i, w in enumerate(words)
    ]
    weight = 2.0**-30
    high = flipped[0].to(dtypes.float64) * weight
    low = high.like(0.0)
    for w in flipped[1:]:
        weight *= 2.0**-32
        term = w.to(dtypes.float64) * weight
        total = high + term
        low = low + ((high - total) + term)
        high = total
    return negative.where(-high, high), negative.where(-low, low)


def _reduced(x: Term, *, fine: bool) -> tuple[Term, Pair]:
    """Quadrant (0..3, of |x|) and what is left of |x|, between -pi/4 and pi/4, as a pair."""
    a = x.of("abs")
    quadrant, negative, words = _scaled_fraction(a, fine=fine)
    high, low = _fraction(negative, words)
    product = high * HALF_PI
    lost = high * HALF_PI_LOW + low * HALF_PI
    if fine:
        product, rest = two_product(high, high.like(HALF_PI))
        lost = rest + lost
    total = product + lost
    lost = lost - (total - product)
    small = a < QUARTER_PI
    return small.where(0, quadrant), (small.where(a, total), small.where(0.0, lost))


def _sin_of_small(r: Pair, *, fine: bool) -> Term:
    x, low = r
    z = x * x
    most = 10 if fine else 7
    tail = polynomial(z, tuple((-1) ** k / factorial(2 * k + 1) for k in range(1, most)))
    if not fine:
        return x + x * z * tail
    return x + (x * z * tail + low * (1.0 - 0.5 * z))


def _cos_of_small(r: Pair, *, fine: bool) -> Term:
    x, low = r
    z = x * x
    most = 10 if fine else 7
    tail = polynomial(z, tuple((-1) ** k / factorial(2 * k) for k in range(2, most)))
    if not fine:
        return 1.0 - (0.5 * z - z * z * tail)
    half = 0.5 * z
    head = 1.0 - half
    return head + (((1.0 - head) - half) + (z * z * tail - x * low))


def sin_and_cos(x: Term, *, fine: bool) -> tuple[Term, Term]:
    """Both; NaN for infinities and NaN."""
    quadrant, rest = _reduced(x, fine=fine)
    s, c = _sin_of_small(rest, fine=fine), _cos_of_small(rest, fine=fine)
    swap = (quadrant & 1).differs(0)
    sine, cosine = swap.where(c, s), swap.where(s, c)
    flip_sine = (quadrant & 2).differs(0)
    flip_cosine = ((quadrant + 1) & 2).differs(0)
    negative = x.bits(dtypes.int64) < 0
    sine = (flip_sine ^ negative).where(-sine, sine)
    cosine = flip_cosine.where(-cosine, cosine)
    bad = x - x  # NaN for what is not finite, else 0
    finite = bad.equals(0.0)
    return finite.where(sine, bad), finite.where(cosine, bad)


def _atan_of_quotient(a: Term, b: Term, *, fine: bool) -> Pair:
    """atan(a / b) of two that are not negative: the angle as base (with its lost part) and rest."""
    steep = a > 2.414213562373095 * b
    middle = a > 0.41421356237309503 * b
    num = steep.where(-b, middle.where(a - b, a))
    den = steep.where(a, middle.where(a + b, b))
    t = num / den
    z = t * t
    tail = polynomial(z, ATAN if fine else ATAN_COARSE)
    base = steep.where(HALF_PI, middle.where(QUARTER_PI, t.like(0.0)))
    low = steep.where(HALF_PI_LOW, middle.where(QUARTER_PI_LOW, t.like(0.0)))
    return base, t + (t * z * tail + low)


def atan(x: Term, *, fine: bool) -> Term:
    """The angle of a slope."""
    base, rest = _atan_of_quotient(x.of("abs"), x.like(1.0), fine=fine)
    return with_sign(base + rest, x)


def asin(x: Term, *, fine: bool) -> Term:
    """NaN outside -1..1."""
    return atan(x / ((1.0 - x) * (1.0 + x)).of("sqrt"), fine=fine)


def acos(x: Term, *, fine: bool) -> Term:
    """NaN outside -1..1."""
    return 2.0 * atan(((1.0 - x) / (1.0 + x)).of("sqrt"), fine=fine)


def atan2(y: Term, x: Term, *, fine: bool) -> Term:
    """The angle of the point (x, y), signed zeros and infinities as in C."""
    a, b = y.of("abs"), x.of("abs")
    if fine:  # sums must not overflow; halves of what is not tiny are exact
        large = (a > 1e300) | (b > 1e300)
        a, b = large.where(a * 0.25, a), large.where(b * 0.25, b)
    both = a.equals(inf) & b.equals(inf)
    none = a.equals(0.0) & b.equals(0.0)
    a = both.where(1.0, a)
    b = (both | none).where(1.0, b)
    base, rest = _atan_of_quotient(a, b, fine=fine)
    behind = x.bits(dtypes.int64) < 0
    angle = base + rest
    other = (PI - base) + (PI_LOW - rest)
    return with_sign(behind.where(other, angle), y)
