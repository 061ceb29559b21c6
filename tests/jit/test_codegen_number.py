"""Conversions between all element types on x86-64, to the last bit."""

import io
from itertools import product

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from kernel_maker import Maker, elementwise, host_levels, run_native

from jit.codegen.cpu import LEVELS
from jit.compile import renderer
from jit.dtype import ALL, dtypes
from jit.math import FUNCTIONS
from jit.term import with_sign

RANDOM = np.random.default_rng(5)
VALUES = np.array([
    0, -0.0, 1, -1, 1.5, -1.5, 2.5, 255, 256, -129, 65504, 65519.9, 65520, 65535, 1e5, 6e-8,
    2.9e-8, 3e-8, 1e-7, 6.1e-5, np.inf, -np.inf, np.nan, 3e9, -3e9, 5e9, 1e18, 9e18, 1e19, 2e19,
    -1e19, 1e30, 3.4e38, 1e39, 1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-8,
    1 + 2.0**-8 + 2.0**-40, 1 + 3 * 2.0**-11 - 2.0**-40, *RANDOM.normal(0, 1, 100),
    *(RANDOM.normal(0, 1, 100) * 10.0 ** RANDOM.integers(-8, 8, 100)),
])  # fmt: skip
FLOATS = [d for d in ALL.values() if d.is_float]
PAIRS = [(s, t) for s in ALL.values() for t in ALL.values() if s is not t]


def bfloat16_bits(values):
    """float32 to the bits of the nearest bfloat16."""
    bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    nearest = bits + 0x7FFF + (bits >> 16 & 1) >> 16
    return np.where(np.isnan(values), bits >> 16 | 0x40, nearest).astype(np.uint16)


def given(source):
    """Values of a type as stored, and as numpy numbers."""
    with np.errstate(all="ignore"):
        if source is dtypes.bfloat16:
            stored = bfloat16_bits(VALUES.astype(np.float32))
            return stored, (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        if source.is_float:
            stored = VALUES.astype(source.numpy)
            return stored, stored.astype(np.float64)
    if source is dtypes.bool:
        stored = np.array([False, True] * 20)
        return stored, stored
    info = np.iinfo(source.numpy)
    stored = RANDOM.integers(info.min, info.max, 200, dtype=source.numpy, endpoint=True)
    stored[:4] = [info.min, info.max, 0, 1]
    return stored, stored


def integer(value, target):
    """Toward zero, saturated to what 64 bits hold, modulo 2^n; NaN is 0."""
    if np.isnan(value):
        return 0
    most = 2**64 - 1 if target is dtypes.uint64 else 2**63 - 1
    whole = (most if value > 0 else -(2**63)) if np.isinf(value) else int(value)
    whole = max(min(whole, most), -(2**63)) % (1 << target.bits)
    return whole - (1 << target.bits) if target.kind == "i" and whole >> target.bits - 1 else whole


def to_bfloat16(values):
    """float64 to bfloat16 in one rounding: first to float32, rounded to odd."""
    near = values.astype(np.float32)
    back, bits = near.astype(np.float64), near.view(np.uint32)
    inexact = (back != values) & ~np.isnan(values)
    down = bits - (np.abs(back) > np.abs(values)).astype(np.uint32)
    return bfloat16_bits(np.where(inexact, down | 1, bits).astype(np.uint32).view(np.float32))


def wanted(numbers, source, target):
    with np.errstate(all="ignore"):
        if target is dtypes.bfloat16:
            return to_bfloat16(numbers.astype(np.float64))
        if target.kind == "b":
            return numbers != 0
        if target.is_int and source.is_float:
            return np.array([integer(v, target) for v in numbers], target.numpy)
        return numbers.astype(target.numpy)


@pytest.mark.row("TEN-14")
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("source", "target"), PAIRS, ids=lambda t: t.name)
def test_a_cast_gives_the_same_bits_on_every_level(source, target, level):
    if level not in host_levels():
        pytest.skip("not executed here")
    stored, numbers = given(source)
    want = wanted(numbers, source, target)
    kernel = elementwise("cast", source, target, len(stored))
    out, _ = run_native(kernel, [np.zeros(len(stored), target.numpy), stored], level)
    if target is dtypes.bfloat16:
        assert np.array_equal(out, want)
    else:
        assert np.array_equal(out, want, equal_nan=target.is_float)


@pytest.mark.parametrize(
    ("value", "source", "target", "stored"),
    [
        (-1.5, dtypes.float32, dtypes.uint8, 255),
        (300.0, dtypes.float32, dtypes.uint8, 44),
        (np.nan, dtypes.float64, dtypes.int32, 0),
        (5e9, dtypes.float64, dtypes.int32, 705032704),
        (65520.0, dtypes.float32, dtypes.float16, 0x7C00),
        (1.00390625, dtypes.float32, dtypes.bfloat16, 0x3F80),
        (1.01171875, dtypes.float32, dtypes.bfloat16, 0x3F82),
    ],
)
def test_edges_of_casts(value, source, target, stored):
    x = np.array([value], source.numpy)
    out, _ = run_native(elementwise("cast", source, target, 1), [np.zeros(1, target.numpy), x])
    assert int(out.view(np.uint16 if target.is_float else out.dtype)[0]) == stored


def test_any_byte_but_zero_is_true():
    x = np.array([0, 1, 2, 255], np.uint8)
    kernel = elementwise("cast", dtypes.bool, dtypes.int32, 4)
    assert run_native(kernel, [np.zeros(4, np.int32), x])[0].tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize(
    ("source", "target", "value", "bits"),
    [
        (dtypes.float32, dtypes.int32, 1.0, 0x3F800000),
        (dtypes.float16, dtypes.uint16, 1.0, 0x3C00),
        (dtypes.uint64, dtypes.float64, 0x3FF0000000000000, 1.0),
    ],
)
def test_a_bitcast_keeps_the_bits(source, target, value, bits):
    x = np.array([value], source.numpy)
    out, _ = run_native(elementwise("bitcast", source, target, 1), [np.zeros(1, target.numpy), x])
    assert out[0] == bits


# The processor's code may call nothing: its loader has no library.


def needed(kernel, level):
    """Names that the object leaves to others."""
    image = renderer(f"LLVM:{level}").render(kernel).finish().image
    symbols = ELFFile(io.BytesIO(image)).get_section_by_name(".symtab").iter_symbols()
    return [s.name for s in symbols if s["st_shndx"] == "SHN_UNDEF" and s.name]


def through(*types):
    """out[i] = in[i] cast to one type after the other."""
    m = Maker()
    value = m.load(1, types[0], m.axis(0))
    for dtype in types[1:]:
        value = value.to(dtype)
    return m.kernel([(types[-1], 1), (types[0], 1)], [1], [(0, m.axis(0), value)])


def signed(first, second):
    """A float64 with the computed sign of another, cast to one type after the other."""
    m = Maker()
    x, y = (m.load(a, dtypes.float64, m.axis(0)) for a in (1, 2))
    value = with_sign(x, x * y).to(first).to(second)
    arguments = [(second, 1), (dtypes.float64, 1), (dtypes.float64, 1)]
    return m.kernel(arguments, [1], [(0, m.axis(0), value)])


@pytest.mark.row("TEN-10")
@pytest.mark.parametrize("dtype", FLOATS, ids=repr)
@pytest.mark.parametrize("level", LEVELS)
def test_no_function_and_no_cast_calls_a_library(level, dtype):
    operations = ["neg", "abs", "sqrt", "trunc", "floor", "ceil", "round", "lt", "max", "min"]
    for name in [*FUNCTIONS, *operations]:
        arity = 2 if name in ("pow", "atan2", "lt", "max", "min") else 1
        result = dtypes.bool if name == "lt" else dtype
        assert needed(elementwise(name, dtype, result, 1, arity), level) == [], name
    for first, second in product([*FLOATS, dtypes.int64, dtypes.bool], FLOATS):
        assert needed(through(first, second, dtype), level) == [], (first, second)
    for first in FLOATS:
        assert needed(signed(first, dtype), level) == [], first


@pytest.mark.row("TEN-14")
def test_a_sign_survives_two_roundings():
    numbers = [np.float64([1.0 + 2.0**-11 + 2.0**-30]), np.float64([-1e-300])]
    (out, *_) = run_native(signed(dtypes.float32, dtypes.float16), [np.float16([0]), *numbers])
    assert out.tolist() == [-1.0]
