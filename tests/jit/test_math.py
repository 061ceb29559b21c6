"""Math functions against numpy in higher precision, over all bit patterns and special values."""

import math

import numpy as np
import pytest
from kernel_maker import elementwise, host_levels, run_native

from jit.dtype import dtypes
from jit.math import FUNCTIONS, SINGLE

RANDOM = np.random.default_rng(11)
UNARY = [name for name in FUNCTIONS if name not in ("pow", "atan2")]
NUMPY = {
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "pow": np.power, "atan2": np.arctan2,
    "erf": lambda x: np.vectorize(math.erf, otypes=[x.dtype])(x),
}  # fmt: skip
SPECIAL = [
    0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4028235e38, -3.4028235e38, 0.5,
    -0.5, 2, 3, -3, 88.7, 89, -87.4, -103, -104, -149, -150, 127.99, 128, 1e-20, 6, 16367173, 1e22,
]  # fmt: skip
SPECIAL64 = [
    *SPECIAL, 5e-324, 1.7976931348623157e308, 709.78, 709.79, 710.4, -708.5, -745.1, -746.0, 1e300,
    # The double closest to a multiple of pi/2.
    6381956970095103.0 * 2.0**797, 2.0**-1022, 1 - 2.0**-53, 1 + 2.0**-52,
]  # fmt: skip


def numpy_function(name):
    return NUMPY.get(name) or getattr(np, name)


def arguments(dtype, count):
    """Special values, random bit patterns, and values where functions are not trivial."""
    if dtype is dtypes.float32:
        special, bits = SPECIAL, RANDOM.integers(0, 2**32, count, dtype=np.uint32)
    else:
        special, bits = SPECIAL64, RANDOM.integers(0, 2**64, count, dtype=np.uint64)
    ranges = [(-1.2, 1.2), (-10, 10), (0.5, 2), (0.99, 1.01), (-750, 720)]
    with np.errstate(all="ignore"):
        parts = [np.array(special, dtype.numpy), bits.view(dtype.numpy)]
        parts += [RANDOM.uniform(a, b, count).astype(dtype.numpy) for a, b in ranges]
    return np.concatenate(parts)


def errors(got, want):
    """Distance in units of the last place; infinite where one is NaN, infinite or of
    another sign of zero and the other is not."""
    with np.errstate(all="ignore"):
        nearest = want.astype(got.dtype)
        unit = np.spacing(np.abs(nearest)).astype(want.dtype)
        found = np.abs(got.astype(want.dtype) - want) / unit
    exact = (got == nearest) & (np.signbit(got) == np.signbit(nearest))
    exact |= np.isnan(got) & np.isnan(nearest)
    ordinary = np.isfinite(got) & np.isfinite(nearest) & ((got != 0) | (nearest != 0))
    return np.where(ordinary, found, np.where(exact, 0, np.inf))


def worst(name, dtype, wide, *given, level=None):
    kernel = elementwise(name, dtype, dtype, len(given[0]), len(given))
    out, *_ = run_native(kernel, [np.zeros_like(given[0]), *given], level)
    with np.errstate(all="ignore"):
        want = numpy_function(name)(*(g.astype(wide) for g in given))
    found = errors(out, want)
    at = int(np.argmax(found))
    return found[at], [g[at] for g in given], out[at], want[at]


@pytest.mark.row("TEN-10")
@pytest.mark.parametrize("name", UNARY)
def test_float32_functions_are_within_their_bound_everywhere(name):
    error, *where = worst(name, dtypes.float32, np.float64, arguments(dtypes.float32, 20000))
    assert error <= (1.5 if name in SINGLE else 1), where


@pytest.mark.parametrize("name", UNARY)
def test_float64_functions_are_within_four_ulp_everywhere(name):
    error, *where = worst(name, dtypes.float64, np.longdouble, arguments(dtypes.float64, 3000))
    assert error <= 4, where


@pytest.mark.row("TEN-10")
@pytest.mark.parametrize("name", ["pow", "atan2"])
@pytest.mark.parametrize(("dtype", "wide", "bound"), [
    (dtypes.float32, np.float64, 1),
    (dtypes.float64, np.longdouble, 4),
], ids=["float32", "float64"])  # fmt: skip
def test_functions_of_two_arguments(name, dtype, wide, bound):
    x, y = arguments(dtype, 3000), arguments(dtype, 3000)
    special = np.array(SPECIAL, dtype.numpy)
    pairs = np.array([[a, b] for a in special for b in special], dtype.numpy)
    x = np.concatenate([x, pairs[:, 0], RANDOM.uniform(0, 100, 3000).astype(dtype.numpy)])
    y = np.concatenate([RANDOM.permutation(y), pairs[:, 1],
                        RANDOM.uniform(-150, 150, 3000).astype(dtype.numpy)])  # fmt: skip
    error, *where = worst(name, dtype, wide, x, y)
    assert error <= bound, where


@pytest.mark.parametrize(
    ("x", "y", "power"),
    [
        (np.nan, 0.0, 1.0),
        (1.0, np.nan, 1.0),
        (-1.0, np.inf, 1.0),
        (-8.0, 3.0, -512.0),
        (-8.0, 0.5, np.nan),
        (-0.0, -3.0, -np.inf),
        (0.0, -2.0, np.inf),
        (-np.inf, 3.0, -np.inf),
        (-np.inf, -3.0, -0.0),
        (-np.inf, 0.5, np.inf),
        (0.5, np.inf, 0.0),
        (2.0, -np.inf, 0.0),
    ],
)
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=lambda t: t.name)
def test_powers_of_special_values(x, y, power, dtype):
    a, b = np.array([x], dtype.numpy), np.array([y], dtype.numpy)
    out, *_ = run_native(elementwise("pow", dtype, dtype, 1, 2), [a, a, b])
    assert out.tobytes() == np.array([power], dtype.numpy).tobytes() or np.isnan([out, power]).all()


def test_the_sine_of_a_huge_number_is_reduced_exactly():
    # sin(2^100) = 0.8721836054182673...
    out, _ = run_native(
        elementwise("sin", dtypes.float32, dtypes.float32, 1),
        [np.zeros(1, np.float32), np.array([2.0**100], np.float32)],
    )
    assert out[0] == np.float32(np.sin(2.0**100))


@pytest.mark.parametrize("name", ["exp2", "log2"])
def test_powers_of_two_are_exact(name):
    whole = np.arange(-1074 if name == "log2" else -1022, 1024).astype(np.float64)
    given = np.exp2(whole) if name == "log2" else whole
    kernel = elementwise(name, dtypes.float64, dtypes.float64, len(given))
    out, _ = run_native(kernel, [np.zeros_like(given), given])
    assert np.array_equal(out, whole if name == "log2" else np.exp2(whole))


@pytest.mark.skipif(len(host_levels()) < 2, reason="one level to execute")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_all_levels_give_the_same_bits(name):
    # From 128-bit registers without fma to the widest ones: nothing may be contracted.
    arity = 2 if name in ("pow", "atan2") else 1
    given = [RANDOM.permutation(arguments(dtypes.float32, 300)) for _ in range(arity)]
    kernel = elementwise(name, dtypes.float32, dtypes.float32, len(given[0]), arity)
    found = [
        run_native(kernel, [np.zeros_like(given[0]), *given], level)[0].tobytes()
        for level in host_levels()
    ]
    assert set(found) == {found[0]}


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=lambda t: t.name)
def test_functions_of_halves_go_through_float32(dtype):
    x = np.linspace(-3, 3, 50).astype(np.float32)
    if dtype is dtypes.float16:
        given = x.astype(np.float16)
        want = np.exp(given.astype(np.float32)).astype(np.float16).view(np.uint16)
    else:
        given = (x.view(np.uint32) >> 16).astype(np.uint16)
        wide = np.exp((given.astype(np.uint32) << 16).view(np.float32).astype(np.float64))
        bits = wide.astype(np.float32).view(np.uint32)
        want = (bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype(np.uint16)
    out, _ = run_native(elementwise("exp", dtype, dtype, 50), [np.zeros_like(given), given])
    assert np.array_equal(out.view(np.uint16), want)
