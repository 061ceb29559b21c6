"""Activations and reductions of infinite, NaN and very large numbers."""

import math

import numpy as np
import pytest

from tensor import Tensor

INF, NAN = math.inf, math.nan


def of(values):
    return Tensor(np.array(values, np.float32), device="CPU", requires_grad=True)


@pytest.mark.row("TEN-11")
@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [
        ("relu", [NAN, INF, -INF, -0.0], [NAN, INF, 0, 0]),
        ("relu6", [NAN, INF, -INF, 1e8, 6.5, 3], [NAN, 6, 0, 6, 6, 3]),
        ("softplus", [NAN, INF, -INF, 1e8], [NAN, INF, 0, 1e8]),
        ("mish", [NAN, INF, 1e8], [NAN, INF, 1e8]),
        ("logsigmoid", [NAN, INF, -INF, -1e8], [NAN, 0, -INF, -1e8]),
        ("hardsigmoid", [NAN, INF, -INF], [NAN, 1, 0]),
        ("tanh", [NAN, INF, -INF], [NAN, 1, -1]),
    ],
)
def test_an_activation_of_an_extreme(name, given, wanted):
    np.testing.assert_array_equal(getattr(of(given), name)().numpy(), np.array(wanted, np.float32))


@pytest.mark.row("TEN-11")
@pytest.mark.parametrize(("name", "at"), [("relu", 0), ("relu6", 0), ("relu6", 6)])
def test_the_gradient_at_a_kink_is_that_of_the_flat_side(name, at):
    x = of([at])
    getattr(x, name)().sum().backward()
    assert x.grad.tolist() == [0]


@pytest.mark.row("TEN-17")
def test_logsumexp_of_infinities():
    x = of([[-INF, -INF], [INF, 1], [-INF, 2], [NAN, 1]])
    np.testing.assert_array_equal(x.logsumexp(1).numpy(), np.float32([-INF, INF, 2, NAN]))


@pytest.mark.row("TEN-12")
def test_logaddexp_of_infinities():
    x, y = of([INF, -INF, -INF, INF]), of([1, 2, -INF, INF])
    np.testing.assert_array_equal(x.logaddexp(y).numpy(), np.float32([INF, 2, -INF, INF]))
