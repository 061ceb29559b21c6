"""Casts are rounded once, from the exact value; constants and stored values alike."""

from fractions import Fraction

import numpy as np
import pytest
from fuzz_programs import ALL, INTEGERS, from_bits, leaf, stored, value_of

from jit import graph as g
from jit.dtype import dtypes
from jit.realize import realize

# Bits of precision, least exponent, largest finite value.
FORMATS = {
    "float16": (11, -14, 65504),
    "bfloat16": (8, -126, Fraction(255) * 2**120),
    "float32": (24, -126, Fraction(2**24 - 1) * 2**104),
    "float64": (53, -1022, Fraction(2**53 - 1) * 2**971),
}
WIDE = [dtypes.float32, dtypes.float64]
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, -1.5, 255.5, 65504, 65519.99, 65520, 3.4e38]
SPECIAL += [2.0**31, 2.0**32, 2.0**63, -(2.0**63), 2.0**64, 2.0**-25, 1e-40, 2.0**-133, 2.0**-134]


def ties():
    """Numbers at, just above and just below the middle of neighbours of each narrow format."""
    found = []
    for exponent in (-140, -133, -126, -25, -14, 0, 15, 127):
        for bits in (8, 9, 11, 12, 24, 25):
            for odd in (1, 3, 5):
                found += [
                    (1 + odd * 2.0**-bits + away) * 2.0**exponent
                    for away in (0, 2.0**-40, -(2.0**-40), 2.0**-23, -(2.0**-23))
                ]
    return [*found, *(-x for x in found)]


def values(dtype):
    if dtype.kind == "b":
        return np.array([False, True])
    rng = np.random.default_rng(1)
    if dtype.bits == 16 and dtype.is_float:
        bits = np.arange(0, 65536, 7, dtype=np.uint16)
        return from_bits(bits, dtype) if dtype is dtypes.bfloat16 else bits.view(np.float16)
    if dtype.is_float:
        wide = rng.uniform(-1, 1, 200) * 2.0 ** rng.integers(-30, 70, 200)
        with np.errstate(over="ignore"):
            return np.concatenate([SPECIAL, ties(), wide]).astype(dtype.numpy)
    found = [(1 << k) + (1 << j) + e for k in range(dtype.bits) for j in range(k) for e in (0, 1)]
    low = dtype.least
    wrapped = [(n - low) % (1 << dtype.bits) + low for n in (-1, -2, *found, *(-n for n in found))]
    return np.array(wrapped, dtype.numpy)


def to_integer(value, dtype):
    """Toward zero, limited to 64 bits, modulo 2^n; NaN gives 0."""
    most = 2**64 - 1 if dtype is dtypes.uint64 else 2**63 - 1
    if np.isnan(value):
        return 0
    whole = int(min(max(value, -(2.0**63)), 2.0**64)) if np.isinf(value) else int(value)
    whole = min(max(whole, -(2**63)), most) % (1 << dtype.bits)
    return whole - (whole >> dtype.bits - 1 << dtype.bits if dtype.kind == "i" else 0)


def rounded(value, dtype):
    """The nearest number of a format, ties to even, worked out with fractions."""
    if not np.isfinite(value) or value == 0:
        return float(value)
    precision, least, most = FORMATS[dtype.name]
    exact = abs(Fraction(value))
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > exact
    unit = Fraction(2) ** (max(exponent, least) - precision + 1)
    nearest = round(exact / unit) * unit
    return (-1 if value < 0 else 1) * (float(nearest) if nearest <= most else np.inf)


def wanted(array, source, target):
    if target.kind == "b":
        return array != 0
    if source.kind == "b" or (source.is_int and target.is_int):
        return array.astype(stored(target))
    numbers = array.tolist()
    if target.is_int:
        return np.array([to_integer(x, target) for x in numbers], target.numpy)
    with np.errstate(invalid="ignore"):
        return np.array([rounded(x, target) for x in numbers]).astype(stored(target))


def check(found, want, text):
    same = (found == want) | ((found != found) & (want != want))
    if want.dtype.kind == "f":
        same &= (np.signbit(found) == np.signbit(want)) | (want != want)
    assert same.all(), (text, found[~same][:3], want[~same][:3])


@pytest.mark.row("TEN-14")
@pytest.mark.parametrize("source", dict.fromkeys(ALL), ids=repr)
def test_a_stored_value_is_rounded_once(device, source):
    array = values(source)
    node = leaf(array, source, device)
    made = [g.cast(node, target) for target in dict.fromkeys(ALL) if target is not source]
    realize(made)
    for node in made:
        check(value_of(node), wanted(array, source, node.dtype), node.dtype)


@pytest.mark.row("TEN-14")
@pytest.mark.parametrize("source", [*WIDE, *INTEGERS[-2:]], ids=repr)
def test_a_constant_is_rounded_as_a_stored_value_is(source):
    array = np.random.default_rng(2).permutation(values(source))[:150]
    for target in (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.int32):
        if target is source:
            continue
        consts = [g.const(x, source, (1,), "CPU") for x in array.tolist()]
        made = [g.contiguous(g.cast(node, target)) for node in consts]
        realize(made)
        found = np.concatenate([value_of(node) for node in made])
        check(found, wanted(array, source, target), target)
