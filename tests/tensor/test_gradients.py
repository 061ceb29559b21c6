"""Gradients agree with finite differences in float64."""

import numpy as np
import pytest

from tensor import Tensor, TensorError, dtypes

RNG = np.random.default_rng(7)
STEP = 1e-6


def finite(function, arrays, which):
    """d(sum of function)/d(arrays[which]) by central differences."""
    result = np.zeros_like(arrays[which])
    for place in np.ndindex(result.shape):
        ends = []
        for sign in (1, -1):
            moved = [a.copy() for a in arrays]
            moved[which][place] += sign * STEP
            ends.append(function(*(Tensor(a, device="CPU") for a in moved)).sum().item())
        result[place] = (ends[0] - ends[1]) / (2 * STEP)
    return result


def arrays(*shapes, positive=False):
    made = [RNG.uniform(0.5, 2, s) if positive else RNG.standard_normal(s) for s in shapes]
    return [a.astype(np.float64) for a in made]


WEIGHTS = RNG.standard_normal(7)

CASES = {
    "chain": (lambda x, y: (x * 2 + y).tanh() * y, arrays((3,), (3,))),
    "broadcast": (lambda x, y: x * y, arrays((2, 1), (3,))),
    "div": (lambda x, y: x / y, arrays((3,), (3,), positive=True)),
    "exp log": (lambda x: x.exp() + x.log() + x.log2() + x.exp2(), arrays((3,), positive=True)),
    "trig": (lambda x: x.sin() * x.cos() + x.tan(), arrays((3,))),
    "hyperbolic": (lambda x: x.sinh() + x.cosh() + x.asinh(), arrays((3,))),
    "sqrt rsqrt": (lambda x: x.sqrt() + x.rsqrt(), arrays((3,), positive=True)),
    "erf": (lambda x: x.erf(), arrays((3,))),
    "pow": (lambda x, y: x.pow(y), arrays((3,), (3,), positive=True)),
    "abs": (lambda x: x.abs() * x, arrays((3,))),
    "maximum": (lambda x, y: x.maximum(y) * x.minimum(y * 2), arrays((3,), (3,))),
    "where": (lambda x, y: (x > y).where(x * x, y), arrays((3,), (3,))),
    "sum axis": (lambda x: x.sum(1) ** 2, arrays((2, 3))),
    "max axis": (lambda x: x.max(1) ** 2, arrays((2, 3))),
    "prod axis": (lambda x: x.prod(1), arrays((2, 3))),
    "mean var": (lambda x: x.mean(0) * x.var(0), arrays((4, 2))),
    "matmul": (lambda x, y: (x @ y) ** 2, arrays((2, 3), (3, 2))),
    "conv": (
        lambda x, w: x.conv2d(w, stride=2, padding=1) ** 2,
        arrays((1, 2, 4, 4), (2, 2, 3, 3)),
    ),
    "max pool": (lambda x: x.max_pool2d() ** 2, arrays((1, 1, 4, 4))),
    "max pool with gaps": (
        lambda x: (x.max_pool2d(2, stride=3) ** 2).sum() + x.max_pool2d(3, stride=1).sum(),
        arrays((1, 1, 7, 8)),
    ),
    "avg pool": (lambda x: x.avg_pool2d(2) ** 2, arrays((1, 1, 5, 4))),
    "softmax": (lambda x: x.softmax() ** 2, arrays((2, 3))),
    "log softmax": (lambda x: x.log_softmax() ** 2, arrays((2, 3))),
    "layer norm": (lambda x: x.layernorm() ** 3, arrays((2, 3))),
    "movement": (lambda x: x.permute(1, 0).reshape(6)[::-2].pad([(1, 1)]) ** 2, arrays((2, 3))),
    "cat": (lambda x, y: x.cat(y) ** 2, arrays((2, 2), (1, 2))),
    "gather": (lambda x: x[Tensor([0, 2, 0], device="CPU")] ** 2, arrays((3, 2))),
    "cast": (lambda x: (x.cast(dtypes.float64) * 3) ** 2, arrays((3,))),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_gradient_agrees_with_finite_differences(name):
    function, given = CASES[name]
    tensors = [Tensor(a, device="CPU", requires_grad=True) for a in given]
    function(*tensors).sum().backward()
    for which, t in enumerate(tensors):
        np.testing.assert_allclose(
            t.grad.numpy(), finite(function, given, which), rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("rows", [1, 5])
def test_cross_entropy_gradient(device, rows):
    a = RNG.standard_normal((rows, 4)).astype(np.float32)
    y = RNG.integers(0, 4, rows).astype(np.int32)
    x = Tensor(a, device=device, requires_grad=True)
    x.sparse_categorical_crossentropy(Tensor(y, device=device)).backward()
    e = np.exp(a - a.max(1, keepdims=True))
    expected = (e / e.sum(1, keepdims=True) - np.eye(4)[y]) / rows
    np.testing.assert_allclose(x.grad.numpy(), expected, atol=1e-6)


def test_gradients_accumulate():
    x = Tensor([3.0], device="CPU", requires_grad=True)
    (x * x).sum().backward()
    (x * x * 3).sum().backward()
    assert x.grad.item() == 24.0


def test_gradient_is_in_the_parameters_dtype():
    x = Tensor([1.0], device="CPU", dtype=dtypes.float16, requires_grad=True)
    (x.cast(dtypes.float32) * 2).sum().backward()
    assert x.grad.dtype is dtypes.float16


@pytest.mark.refusal
def test_integer_parameter_is_refused():
    with pytest.raises(TensorError, match="a tensor of int32 has no gradient"):
        Tensor([1], device="CPU", requires_grad=True)


def test_equal_constants_stay_separate():
    a, b = Tensor(2.0, device="CPU"), Tensor(2.0, device="CPU")
    grads = (a * a * b).gradient(a, b)
    assert [g.item() for g in grads] == [8.0, 4.0]


def test_60_diamonds_take_linear_time():
    x = Tensor([1.0], device="CPU", requires_grad=True)
    y = x
    for _ in range(60):
        y = (y + y) * 0.5
    y.sum().backward()
    assert x.grad.item() == 1.0


def test_ties_of_max_share_evenly():
    x = Tensor([1.0, 2.0, 2.0, 0.0], device="CPU", requires_grad=True)
    x.max().backward()
    assert x.grad.tolist() == [0.0, 0.5, 0.5, 0.0]


def test_branch_not_taken_gives_zero():
    x = Tensor([0.0, -1.0, 4.0], device="CPU", requires_grad=True)
    (x > 0).where(x.log() + x.sqrt(), 0.0).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.5]


@pytest.mark.refusal
def test_unreached_target_is_named():
    x, y = Tensor([1.0], device="CPU"), Tensor([1.0], device="CPU")
    with pytest.raises(TensorError, match="does not depend on"):
        x.sum().gradient(y)


@pytest.mark.refusal
def test_backward_needs_one_element():
    x = Tensor([1.0, 2.0], device="CPU", requires_grad=True)
    with pytest.raises(TensorError, match="reduce it to one element"):
        x.backward()


@pytest.mark.refusal
def test_backward_through_overwritten_values_is_refused():
    w = Tensor([2.0], device="CPU", requires_grad=True)
    loss = (w * w).sum().realize()
    w.assign([3.0])
    with pytest.raises(TensorError, match="was overwritten"):
        loss.backward()


@pytest.mark.parametrize(("n", "c", "o", "size"), [(16, 16, 32, 4), (8, 1, 16, 8), (3, 2, 5, 7)])
def test_gradient_of_convolution_weights(device, n, c, o, size):
    x = RNG.standard_normal((n, c, size, size)).astype(np.float32)
    g = RNG.standard_normal((n, o, size, size)).astype(np.float32)
    w = Tensor(np.zeros((o, c, 3, 3), np.float32), device=device)
    y = Tensor(x, device=device).conv2d(w, padding=1)
    (found,) = y.gradient(w, gradient=Tensor(g, device=device))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    expected = np.zeros((o, c, 3, 3))
    for i in range(3):
        for j in range(3):
            part = padded[:, :, i : i + size, j : j + size]
            expected[:, :, i, j] = np.tensordot(g, part, ((0, 2, 3), (0, 2, 3)))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-4)


def test_what_was_computed_before_it_asked_for_a_gradient_has_one():
    x = (Tensor([1.0, 2.0, 3.0]) * 2).contiguous().realize().requires_grad_()
    (x * x).sum().backward()
    assert x.grad.tolist() == [4.0, 8.0, 12.0]
