"""Functions that lose all digits of small numbers where they are written down plainly."""

import numpy as np
import pytest

from tensor import Tensor, dtypes

SMALL = [-0.4, -1e-3, -1e-10, 0.0, 1e-20, 1e-7, 1e-3, 0.3]
WIDE = [-20.0, -0.9, 0.6, 5.0, 20.0]


def exact(function, values):
    """In float64, which is exact enough for float32."""
    with np.errstate(all="ignore"):
        return function(np.float32(values).astype(np.float64))


@pytest.mark.parametrize("values", [SMALL, WIDE[1:]])
def test_log1p_keeps_all_digits(values):
    np.testing.assert_allclose(Tensor(values).log1p().numpy(), exact(np.log1p, values), rtol=2.5e-7)


@pytest.mark.parametrize("values", [SMALL, WIDE])
def test_expm1_keeps_all_digits(values):
    np.testing.assert_allclose(Tensor(values).expm1().numpy(), exact(np.expm1, values), rtol=2.5e-7)


def test_log1p_of_float64_is_as_good():
    found = Tensor([1e-12, 0.3, 7.0], dtype=dtypes.float64).log1p().numpy()
    np.testing.assert_allclose(found, np.log1p([1e-12, 0.3, 7.0]), rtol=1e-15)


@pytest.mark.parametrize(
    ("name", "x", "value"),
    [
        ("softplus", -16, 1.1253516e-07),
        ("softplus", -18, 1.5229979e-08),
        ("softplus", 0, 0.6931472),
        ("softplus", 20, 20.0),
        ("logsigmoid", 20, -2.0611537e-09),
        ("logsigmoid", -20, -20.0),
        ("mish", -18, -2.7413962e-07),
        ("elu", -1e-6, -9.999995e-07),
        ("celu", -1e-6, -9.999995e-07),
        ("selu", -1e-6, -1.7580934e-06),
    ],
)
def test_activations_keep_small_values(name, x, value):
    assert getattr(Tensor(float(x)), name)().item() == pytest.approx(value, rel=3e-7)


def test_a_sure_guess_has_a_small_loss():
    loss = Tensor([20.0]).binary_crossentropy_logits(Tensor([1.0])).item()
    assert loss == pytest.approx(2.0611537e-09, rel=1e-6)


def test_logaddexp_of_infinities_is_no_nan():
    inf = float("inf")
    a, b = Tensor([inf, inf, -inf, 1.0]), Tensor([inf, 0.0, -inf, -inf])
    assert a.logaddexp(b).tolist() == [inf, inf, -inf, 1.0]


@pytest.mark.parametrize(
    ("name", "points", "slopes"),
    [
        ("softplus", [-np.inf, -16.0, 0.0, np.inf], [0.0, 1.1253517e-07, 0.5, 1.0]),
        ("expm1", [-np.inf, -16.0, 0.0, np.inf], [0.0, 1.1253517e-07, 1.0, np.inf]),
        ("elu", [-np.inf, -16.0, 0.0, np.inf], [0.0, 1.1253517e-07, 1.0, 1.0]),
        ("log1p", [-0.9, -0.2, 0.0, np.inf], [10.0, 1.25, 1.0, 0.0]),
    ],
)
def test_slopes_are_right_on_all_branches(name, points, slopes):
    x = Tensor(points, requires_grad=True)
    getattr(x, name)().sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), slopes, rtol=4e-7)
