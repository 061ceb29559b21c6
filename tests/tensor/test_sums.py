"""Long sums of float32: what is added last counts as much as what is added first."""

import numpy as np
import pytest

from hcq.settings import Context
from tensor import Tensor


@pytest.fixture(params=["CPU", "AMD"])
def device(request, simulated_gpus):
    with Context(DEVICE=request.param):
        yield request.param


# Enough that every accumulator is emptied into its total several times; the last block is short.
COUNTS = {"CPU": (1 << 20) + 40, "AMD": (1 << 17) + 40}


def test_a_mean_of_equal_numbers_is_that_number(device):
    mean = Tensor.full((COUNTS[device],), 0.1).contiguous().mean().item()
    assert mean == pytest.approx(0.1, rel=1e-6)


def test_a_sum_down_long_columns_keeps_its_digits(device):
    count = COUNTS[device] // 2
    sums = Tensor.full((count, 2), 0.1).contiguous().sum(0).numpy()
    np.testing.assert_allclose(sums, [count * 0.1] * 2, rtol=1e-6)


def test_a_long_scalar_product_keeps_its_digits(device):
    ones = Tensor.ones(COUNTS[device]).contiguous()
    assert (ones * (ones * 1.1)).sum().item() == pytest.approx(COUNTS[device] * 1.1, rel=1e-6)


def test_a_long_outer_loop_over_a_short_inner_one_keeps_its_digits():
    x = Tensor.full((40000, 9, 3), 0.1).contiguous()[:, 1:8]  # the reduced axes cannot be merged
    assert x.sum((0, 1)).numpy() == pytest.approx([28000.0] * 3, rel=1e-6)


def test_a_sum_of_four_million_keeps_its_digits():
    assert (Tensor.ones(1 << 22) * 1.1).sum().item() == pytest.approx(4613734.4, rel=1e-6)


def test_ones_are_counted_past_what_float32_can_count():
    assert Tensor.ones(100000, 10000).sum().item() == 1e9


def test_an_infinity_in_a_long_sum_stays_one(device):
    x = Tensor.ones(COUNTS[device]).contiguous()
    x[3] = float("inf")
    assert x.sum().item() == float("inf")
