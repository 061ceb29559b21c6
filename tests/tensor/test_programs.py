"""Tensor programs agree with numpy on every device, each on three odd shapes."""

import math

import numpy as np
import pytest

from tensor import Tensor, dtypes

SHAPES = [(3,), (5, 7), (2, 3, 11)]


def data(shape, seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed + len(shape))
    if np.issubdtype(dtype, np.floating):
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(-100, 100, shape).astype(dtype)


def check(tensor, expected, rtol=1e-5, atol=1e-6):
    found = tensor.numpy()
    assert found.shape == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)


def exact(tensor, expected):
    found = tensor.numpy()
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_elementwise_chain(device, shape):
    a, b = data(shape), data(shape, 1)
    x, y = Tensor(a, device=device), Tensor(b, device=device)
    check(
        ((x * 2 + y).exp() - y / (x.abs() + 1)).tanh(),
        np.tanh(np.exp(a * 2 + b) - b / (abs(a) + 1)),
    )


@pytest.mark.parametrize(
    ("left", "right"), [((5, 1), (7,)), ((3, 1, 5), (1, 4, 1)), ((1,), (3, 3))]
)
def test_broadcasting(device, left, right):
    a, b = data(left), data(right, 1)
    check(Tensor(a, device=device) + Tensor(b, device=device), a + b)


@pytest.mark.parametrize("shape", SHAPES)
def test_reduction_over_each_axis(device, shape):
    a = data(shape)
    x = Tensor(a, device=device)
    for axis in (None, *range(len(shape))):
        check(x.sum(axis), a.sum(axis), atol=1e-5)
        check(x.max(axis), a.max(axis))
        check(x.mean(axis), a.mean(axis), atol=1e-6)


@pytest.mark.parametrize("size", [1, 1000, 4099])
def test_long_reduction(device, size):
    a = data((3, size))
    check(Tensor(a, device=device).sum(1), a.sum(1, dtype=np.float64), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("shape", SHAPES)
def test_max_and_argmax(device, shape):
    a = np.round(data(shape))  # with ties: the first wins
    x = Tensor(a, device=device)
    exact(x.argmax(), np.int32(a.argmax()).reshape(()))
    for axis in range(len(shape)):
        exact(x.argmax(axis), a.argmax(axis).astype(np.int32))
        exact(x.argmin(axis), a.argmin(axis).astype(np.int32))


@pytest.mark.parametrize(("m", "k", "n"), [(3, 5, 7), (33, 65, 17), (64, 64, 64), (1, 9, 1)])
def test_matmul(device, m, k, n):
    a, b = data((m, k)), data((k, n), 1)
    check(Tensor(a, device=device) @ Tensor(b, device=device), a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("batch", [(1,), (3,), (2, 3)])
def test_batched_matmul(device, batch):
    a, b = data((*batch, 5, 7)), data((*batch, 7, 3), 1)
    check(Tensor(a, device=device) @ Tensor(b, device=device), a @ b, rtol=1e-4, atol=1e-5)


def reference_conv(x, w, stride, padding):
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    n, _, h, v = x.shape
    o, _, kh, kw = w.shape
    out = np.zeros((n, o, (h - kh) // stride + 1, (v - kw) // stride + 1), np.float64)
    for i in range(out.shape[2]):
        for j in range(out.shape[3]):
            part = x[:, :, i * stride : i * stride + kh, j * stride : j * stride + kw]
            out[:, :, i, j] = np.tensordot(part, w, ((1, 2, 3), (1, 2, 3)))
    return out


@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "padding"),
    [
        ((1, 1, 5, 5), (2, 1, 3, 3), 1, 1),
        ((2, 3, 7, 9), (4, 3, 3, 2), 2, 1),
        ((1, 2, 6, 6), (3, 2, 1, 1), 1, 0),
    ],
)
def test_convolution(device, shape, kernel, stride, padding):
    a, w = data(shape), data(kernel, 1)
    found = Tensor(a, device=device).conv2d(
        Tensor(w, device=device), stride=stride, padding=padding
    )
    check(found, reference_conv(a, w, stride, padding), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [(1, 1, 4, 4), (2, 3, 7, 5), (1, 2, 9, 6)])
def test_max_pool(device, size):
    a = data(size)
    h, w = size[2] // 2, size[3] // 2
    blocks = a[:, :, : 2 * h, : 2 * w].reshape(*size[:2], h, 2, w, 2)
    check(Tensor(a, device=device).max_pool2d(), blocks.max((3, 5)))


def test_max_pool_pads_with_the_least(device):
    a = -np.ones((1, 1, 3, 3), np.float32)
    check(Tensor(a, device=device).max_pool2d(2, padding=1), np.full((1, 1, 2, 2), -1.0))


@pytest.mark.parametrize("shape", SHAPES)
def test_gather(device, shape):
    a = data(shape)
    i = np.random.default_rng(3).integers(0, shape[-1], shape)
    x = Tensor(a, device=device).gather(len(shape) - 1, Tensor(i.astype(np.int32), device=device))
    check(x, np.take_along_axis(a, i, -1))


@pytest.mark.parametrize("count", [1, 4, 7])
def test_rows_by_number(device, count):
    a = data((9, 5))
    i = np.random.default_rng(3).integers(-9, 9, count).astype(np.int32)
    check(Tensor(a, device=device)[Tensor(i, device=device)], a[i])


@pytest.mark.parametrize("shape", [(3,), (2, 5), (1, 1)])
def test_one_hot(device, shape):
    i = np.random.default_rng(3).integers(0, 7, shape).astype(np.int32)
    exact(Tensor(i, device=device).one_hot(7), np.eye(7, dtype=np.int32)[i])


def softmax(a):
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("shape", SHAPES)
def test_softmax(device, shape):
    a = data(shape) * 10
    check(Tensor(a, device=device).softmax(), softmax(a))


@pytest.mark.parametrize(("rows", "classes"), [(1, 3), (7, 10), (33, 5)])
def test_cross_entropy(device, rows, classes):
    a = data((rows, classes))
    y = np.random.default_rng(1).integers(0, classes, rows).astype(np.int32)
    expected = -np.log(softmax(a)[np.arange(rows), y]).mean()
    x, labels = Tensor(a, device=device), Tensor(y, device=device)
    check(x.sparse_categorical_crossentropy(labels), expected)
    check(x.cross_entropy(labels), expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_layer_norm(device, shape):
    a = data(shape)
    expected = (a - a.mean(-1, keepdims=True)) / np.sqrt(a.var(-1, keepdims=True) + 1e-5)
    check(Tensor(a, device=device).layernorm(), expected, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_float16(device, shape):
    a, b = data(shape, 0, np.float16), data(shape, 1, np.float16)
    x, y = Tensor(a, device=device), Tensor(b, device=device)
    exact(x * y, a * b)
    check((x * y + x).sum(), (a * b + a).sum(dtype=np.float64), rtol=2e-2, atol=2e-2)


def test_sum_of_4096_halves_is_exact(device):
    ones = Tensor(np.ones(4096, np.float16), device=device)
    assert ones.sum().item() == 4096.0


@pytest.mark.parametrize("shape", SHAPES)
def test_bfloat16(device, shape):
    a = data(shape)
    x = Tensor(a, device=device).cast(dtypes.bfloat16)
    bits = a.view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    exact(x.cast(dtypes.float32), rounded)
    check((x * 2).cast(dtypes.float32), rounded * 2)


@pytest.mark.parametrize("shape", SHAPES)
def test_int64(device, shape):
    a, b = data(shape, 0, np.int64) << 40, data(shape, 1, np.int64) | 1
    x, y = Tensor(a, device=device), Tensor(b, device=device)
    exact(x + y, a + b)
    exact(x * y, a * b)
    exact(x // y, a // b)
    exact(x % y, a % b)


@pytest.mark.parametrize("shape", SHAPES)
def test_uint8_wraps(device, shape):
    a = data(shape, 0, np.int32).astype(np.uint8)
    x = Tensor(a, device=device)
    exact(x + 200, a + np.uint8(200))
    exact(x * x, a * a)


def test_zero_size(device):
    x = Tensor(np.zeros((2, 0, 3), np.float32), device=device)
    assert (x + 1).numpy().shape == (2, 0, 3)
    check(x.sum(1), np.zeros((2, 3)))
    check(x.sum(), 0.0)
    assert x.sum(2).numpy().shape == (2, 0)


def test_0d(device):
    x = Tensor(3.0, device=device)
    assert (x * 2 + 1).item() == 7.0
    assert x.sum().item() == 3.0
    assert x.reshape(1, 1).numpy().tolist() == [[3.0]]


@pytest.mark.parametrize("shape", [(7,), (5, 7), (4, 3, 11)])
def test_views_of_views_with_negative_steps(device, shape):
    a = data(shape)
    x, v = Tensor(a, device=device)[::-1], a[::-1]
    exact(x, v)
    exact(x[1::2], v[1::2])
    exact(x[1::2][::-1], v[1::2][::-1])
    x, v = x.transpose(0, -1)[::-2], np.swapaxes(v, 0, -1)[::-2]
    exact(x, v)
    exact(x.flatten()[::-3], v.flatten()[::-3])


@pytest.mark.parametrize("shape", SHAPES)
def test_where(device, shape):
    a, b = data(shape), data(shape, 1)
    x, y = Tensor(a, device=device), Tensor(b, device=device)
    exact((x > y).where(x, y * 2), np.where(a > b, a, b * 2))


CASTS = ["bool", "uint8", "int32", "int64", "float16", "float32", "float64"]


@pytest.mark.parametrize("target", CASTS)
@pytest.mark.parametrize("source", CASTS)
def test_casts(device, source, target):
    values = np.array([0, 1, 2, 100, 250] if source in ("uint8", "bool") else [-3, 0, 1, 100, 250])
    a = values.astype(source)
    expected = a.astype(np.int64).astype(target) if target[0] in "ui" else a.astype(target)
    exact(Tensor(a, device=device).cast(getattr(dtypes, target)), expected)


def test_casts_of_edge_values(device):
    a = np.array([-1.5, 300.7, math.nan, 70000.0], np.float32)
    x = Tensor(a, device=device)
    assert x[:2].cast(dtypes.uint8).tolist() == [255, 44]
    assert x.cast(dtypes.int32).tolist() == [-1, 300, 0, 70000]
    assert x[3:].cast(dtypes.float16).item() == math.inf


@pytest.mark.parametrize("shape", SHAPES)
def test_padding_joining_splitting(device, shape):
    a = data(shape)
    x = Tensor(a, device=device)
    ends = [(1, 2)] * len(shape)
    exact(x.pad(ends), np.pad(a, ends))
    exact(x.cat(x * 2), np.concatenate([a, a * 2]))
    exact(x.stack(x), np.stack([a, a]))
    exact(x.roll(1, 0), np.roll(a, 1, 0))
    exact(x.repeat(*(2 for _ in shape)), np.tile(a, [2] * len(shape)))


def test_triangles(device):
    a = data((5, 7))
    x = Tensor(a, device=device)
    exact(x.triu(1), np.triu(a, 1))
    exact(x.tril(-1), np.tril(a, -1))


def test_scatter(device):
    x = Tensor.zeros(3, 5, device=device)
    i = Tensor(np.array([[0, 1, 2, 0]], np.int32), device=device)
    v = Tensor(np.array([[1.0, 2.0, 3.0, 4.0]], np.float32), device=device)
    assert x.scatter(0, i, v).tolist() == [[1, 0, 0, 4, 0], [0, 2, 0, 0, 0], [0, 0, 3, 0, 0]]
    added = x.scatter_reduce(1, i, v, "sum").tolist()
    assert added == [[5, 2, 3, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]]
