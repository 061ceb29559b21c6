"""Random numbers: the published generator, fixed at creation, equal on every device."""

import numpy as np
import pytest

from jit import graph
from jit.dtype import dtypes
from tensor import Tensor, TensorError
from tensor.random import threefry


@pytest.mark.parametrize(
    ("key", "counter", "expected"),
    [
        # Source: Random123 tests/kat_vectors, threefry2x32 with 20 rounds.
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry_known_answers(key, counter, expected):
    def word(value):
        return graph.const(value, dtypes.uint32, (1,), Tensor([0], device="CPU").device)

    found = threefry((word(key[0]), word(key[1])), (word(counter[0]), word(counter[1])))
    assert tuple(Tensor(x).item() for x in found) == expected


def test_values_do_not_depend_on_the_order_of_reading():
    Tensor.manual_seed(3)
    a, b = Tensor.rand(5, device="CPU"), Tensor.rand(5, device="CPU")
    second, first = b.tolist(), a.tolist()
    Tensor.manual_seed(3)
    c, d = Tensor.rand(5, device="CPU"), Tensor.rand(5, device="CPU")
    assert (c.tolist(), d.tolist()) == (first, second)


def test_every_device_draws_the_same_bits(device):
    drawn = Tensor.rand(1000, device=device).numpy()
    Tensor.manual_seed(0)
    np.testing.assert_array_equal(drawn, Tensor.rand(1000, device="CPU").numpy())


def test_normal_numbers_are_equal_on_every_device(device):
    drawn = Tensor.randn(100, device=device).numpy()
    Tensor.manual_seed(0)
    np.testing.assert_array_equal(drawn, Tensor.randn(100, device="CPU").numpy())


def test_uniform_range_and_moments():
    Tensor.manual_seed(0)
    a = Tensor.rand(100_003, device="CPU").numpy()
    assert 0 <= a.min() < a.max() < 1
    assert abs(a.mean() - 0.5) < 0.005
    assert abs(a.var() - 1 / 12) < 0.002


def test_normal_moments():
    Tensor.manual_seed(0)
    a = Tensor.randn(100_003, device="CPU").numpy()
    assert abs(a.mean()) < 0.01
    assert abs(a.std() - 1) < 0.01


@pytest.mark.parametrize("size", [2**16, 2**20 + 3])
def test_draws_do_not_repeat(size):
    Tensor.manual_seed(1)
    a = Tensor.randint(size, low=0, high=2**62, dtype=dtypes.int64, device="CPU").numpy()
    assert len(np.unique(a)) == size


def test_randint_stays_in_range():
    Tensor.manual_seed(0)
    a = Tensor.randint(1000, low=-3, high=4, device="CPU").numpy()
    assert set(a.tolist()) == set(range(-3, 4))


def test_randperm_is_a_permutation():
    Tensor.manual_seed(0)
    a = Tensor.randperm(101, device="CPU").tolist()
    assert sorted(a) == list(range(101))
    assert a != list(range(101))


@pytest.mark.refusal
def test_integers_are_not_drawn_uniformly():
    with pytest.raises(TensorError, match="random numbers of dtype int32"):
        Tensor.rand(3, dtype=dtypes.int32, device="CPU")


def test_dropout_scales_what_it_keeps():
    Tensor.manual_seed(0)
    x = Tensor.ones(10_000, device="CPU")
    assert x.dropout(0.25) is x
    with Tensor.train():
        a = x.dropout(0.25).numpy()
    assert set(np.round(a, 4).tolist()) == {0.0, np.float32(1.3333).item()}
    assert abs((a == 0).mean() - 0.25) < 0.02
