"""Indexes that do not fit 32 bits are outside, not somewhere else."""

import numpy as np
import pytest

from tensor import Tensor

FAR = [("int64", 2**32), ("int64", -(2**32)), ("uint64", 2**63), ("uint64", 2**32 + 1)]
FAR += [("uint32", 2**32 - 1), ("uint32", 2**31)]


@pytest.fixture
def x():
    return Tensor(np.arange(1, 7, dtype=np.int32), device="CPU")


@pytest.mark.row("TEN-16")
@pytest.mark.parametrize(("name", "place"), FAR)
def test_what_is_read_far_outside_is_zero(x, name, place):
    index = Tensor(np.array([place, 1], name), device="CPU")
    assert x[index].tolist() == [0, 2]
    assert x.gather(0, index).tolist() == [0, 2]


@pytest.mark.row("TEN-16")
@pytest.mark.parametrize(("name", "place"), FAR)
def test_what_is_written_far_outside_is_dropped(x, name, place):
    index = Tensor(np.array([place, 1], name), device="CPU")
    assert x.scatter(0, index, 9).tolist() == [1, 9, 3, 4, 5, 6]
    x[index] = 8
    assert x.tolist() == [1, 8, 3, 4, 5, 6]
