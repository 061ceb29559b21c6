"""Which tensors share storage: what a write is seen by, and what keeps its value."""

import numpy as np
import pytest

from jit.dtype import dtypes
from tensor import Tensor


def counting(n=4):
    return Tensor(np.arange(n, dtype=np.int32), device="CPU")


def as_another_type(x):
    return x.bitcast(dtypes.uint32)


SHOWN = {
    "a detached tensor": lambda x: x.detach(),
    "the same bits as another type": as_another_type,
    "another type in another order": lambda x: as_another_type(x.reshape(2, 2)).permute(1, 0),
}


@pytest.mark.row("TEN-09")
@pytest.mark.parametrize("realized", [False, True])
@pytest.mark.parametrize("shown", SHOWN)
def test_what_shows_storage_sees_a_write_to_it(shown, realized):
    x = counting()
    view = SHOWN[shown](x)
    if realized:
        view.realize()
    x.assign(7)
    assert view.flatten().tolist() == [7] * 4


@pytest.mark.row("TEN-09")
@pytest.mark.parametrize("realized", [False, True])
@pytest.mark.parametrize("shown", SHOWN)
def test_a_write_through_a_view_leaves_what_was_computed_before(shown, realized):
    x = counting()
    view, before = SHOWN[shown](x), x + 1
    if realized:
        view.realize()
    view.assign(7)
    assert x.tolist() == [7] * 4
    assert before.tolist() == [1, 2, 3, 4]


@pytest.mark.row("TEN-09")
def test_a_write_to_a_view_of_what_is_not_computed_yet_is_seen():
    x = counting() + 1
    x[1:3].assign(9)
    assert x.tolist() == [1, 9, 9, 4]


@pytest.mark.row("TEN-09")
def test_setting_items_of_a_view_of_what_is_not_computed_yet_is_seen():
    x = counting(6) + 1
    view, twice = x.reshape(2, 3).permute(1, 0), x * 2
    view[0] = 9
    assert x.tolist() == [9, 2, 3, 9, 5, 6]
    assert twice.tolist() == [2, 4, 6, 8, 10, 12]


@pytest.mark.row("TEN-09")
def test_a_write_to_a_view_of_a_constant_is_seen():
    x = Tensor.zeros(4, device="CPU")
    view, more = x[1:3], x + 1
    view.assign(5)
    assert x.tolist() == [0, 5, 5, 0]
    assert more.tolist() == [1, 1, 1, 1]


@pytest.mark.row("TEN-09")
def test_computing_a_view_first_does_not_part_it_from_its_storage():
    x = counting() + 1
    view = x[1:3].realize()
    x.assign(0)
    assert view.tolist() == [0, 0]


@pytest.mark.row("TEN-09")
def test_views_that_waited_for_a_write_still_share_storage():
    x = counting()
    y = x + 1
    view = y[::-1]
    x.assign(0)
    view.assign(5)
    assert y.tolist() == [5] * 4


def test_an_update_by_no_positions_changes_nothing():
    x = counting()
    nowhere = Tensor(np.zeros(0, np.int32), device="CPU")
    assert x.scatter(0, nowhere, nowhere).tolist() == [0, 1, 2, 3]


def test_minus_zero_is_put_at_positions_as_it_is():
    x = Tensor([1.0, 2.0], device="CPU")
    x[Tensor([1], device="CPU")] = -0.0
    assert np.signbit(x.numpy()).tolist() == [False, True]


@pytest.mark.row("TEN-17")
@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64"])
def test_argmin_finds_the_least_integer_there_is(name):
    least = np.iinfo(name).min
    assert Tensor(np.array([3, least, 127], name), device="CPU").argmin().item() == 1


@pytest.mark.row("TEN-17")
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_place_of_the_first_nan_is_that_of_the_extreme(name):
    x = Tensor([1, np.nan, 3, np.nan], device="CPU")
    assert getattr(x, name)().item() == 1
