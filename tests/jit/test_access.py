"""How expressions depend on axes: strides and ranges."""

import pytest
from kernel_maker import Maker, matmul

from jit.access import Strides
from jit.dtype import dtypes


@pytest.fixture
def made():
    """A kernel over axes of 10, 20 and a reduce axis of 30, and its axes."""
    m = Maker()
    axes = [m.axis(a) for a in range(3)]
    total = m.reduce("sum", m.load(1, dtypes.float32, (axes[0] * 20 + axes[1]) * 30 + axes[2]))
    arguments = [(dtypes.float32, 200), (dtypes.float32, 6000)]
    kernel = m.kernel(arguments, [10, 20, -30], [(0, axes[0] * 20 + axes[1], total)])
    return Strides(kernel), axes, m


def test_a_reduce_does_not_depend_on_reduce_axes():
    kernel = matmul(3, 4, 5)
    strides = Strides(kernel)
    (store,) = kernel.stores
    assert [strides.depends(store.value, a) for a in range(3)] == [True, True, False]
    assert strides.depends(store.value.src[0], 2)


@pytest.mark.parametrize(
    ("formula", "wanted"),
    [
        (lambda i, j, k: i * 20 + j, [20, 1, 0]),
        (lambda i, j, k: (i + j * 3) * 2 - k, [2, 6, -1]),
        (lambda i, j, k: i.of("idiv", 2) + j, [None, 1, 0]),
        (lambda i, j, k: i * j, [None, None, 0]),
        (lambda i, j, k: j.like(7), [0, 0, 0]),
    ],
)
def test_strides(made, formula, wanted):
    strides, axes, _ = made
    expression = formula(*axes).expr
    strides.learn(expression)
    assert [strides.stride(expression, a) for a in range(3)] == wanted


@pytest.mark.parametrize(
    ("formula", "wanted"),
    [
        (lambda i, j, k: i * 20 + j, (0, 199)),
        (lambda i, j, k: i - j, (-19, 9)),
        (lambda i, j, k: (i * 20 + j).of("idiv", 7), (0, 28)),
        (lambda i, j, k: (i * 20 + j).of("mod", 7), (0, 6)),
        (lambda i, j, k: (i - j).of("mod", 7), None),  # may be negative
        (lambda i, j, k: (i * 1000000) * 1000, None),  # may wrap
        (lambda i, j, k: (i < 3).where(j, k + 5), (0, 34)),
        (lambda i, j, k: i.of("max", 4).of("min", k), (0, 9)),
        (lambda i, j, k: i.to(dtypes.int64) * 10**9 * 1000, (0, 9 * 10**12)),
    ],
)
def test_ranges(made, formula, wanted):
    strides, axes, _ = made
    assert strides.bounds(formula(*axes).expr) == wanted


def test_what_is_loaded_has_no_known_range(made):
    strides, axes, m = made
    assert strides.bounds(m.load(1, dtypes.int32, axes[0]).expr) is None
