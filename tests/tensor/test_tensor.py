"""Construction, access and misuse of tensors."""

import math

import numpy as np
import pytest

import tensor
from hcq.settings import Context
from jit.graph import Op
from tensor import Tensor, TensorError, dtypes

CPU = {"device": "CPU"}


@pytest.mark.parametrize(
    ("given", "dtype", "shape"),
    [
        (3, dtypes.int32, ()),
        (2.5, dtypes.float32, ()),
        (True, dtypes.bool, ()),
        ([1, 2], dtypes.int32, (2,)),
        ([1, 2.0], dtypes.float32, (2,)),
        ([[True], [False]], dtypes.bool, (2, 1)),
        ([], dtypes.float32, (0,)),
        (2**40, dtypes.int64, ()),
        ([1, 2**40], dtypes.int64, (2,)),
        (b"\x01\x02\x03", dtypes.uint8, (3,)),
        (None, dtypes.float32, (0,)),
        (np.zeros((2, 3), np.float64), dtypes.float64, (2, 3)),
    ],
)
def test_dtype_and_shape_follow_the_data(given, dtype, shape):
    t = Tensor(given, **CPU)
    assert (t.dtype, t.shape) == (dtype, shape)


def test_strided_and_big_endian_arrays():
    a = np.arange(12, dtype=">i4").reshape(3, 4)[::-1, ::2]
    assert Tensor(a, **CPU).tolist() == a.tolist()


def test_integers_beyond_32_bit_are_exact():
    assert Tensor([2**62 + 1], **CPU).item() == 2**62 + 1


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([[1, 2], [3]], r"ragged data: data\[0\] has shape \[2\], data\[1\] \[1\]"),
        ([1, "x"], r"data\[1\] is str, not a number"),
        ({1: 2}, "cannot make a tensor of dict"),
        (2**70, "does not fit in 64 bits"),
        (np.array(["a"]), "has no tensor dtype"),
    ],
)
def test_bad_data_is_refused_with_its_place(given, text):
    with pytest.raises(TensorError, match=text):
        Tensor(given, **CPU)


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("misuse", "text"),
    [
        (lambda x: x.reshape(7), r"reshape: \[2, 3\] has 6 elements"),
        (lambda x: x + Tensor.ones(4, **CPU), r"shapes \[2, 3\] and \[4\] do not broadcast"),
        (lambda x: x @ x, r"dot: shapes \[2, 3\] and \[2, 3\] do not match"),
        (lambda x: x[2], "index 2 is outside dimension 0 of size 2"),
        (lambda x: x[0, 0, 0], "3 indexes for 2 dimensions"),
        (lambda x: x[x > 0], "shape that depends on values"),
        (lambda x: x[1.5], "cannot index with float"),
        (lambda x: x.sum(2), "dimension 2 of a tensor with 2"),
        (lambda x: x.sum((0, 0)), "dimension given twice"),
        (lambda x: x & 1, "only integers and bool have bits"),
        (lambda x: x.item(), "item\\(\\) of 6 elements"),
        (lambda x: x.cat(x.reshape(3, 2)), "cat: shapes"),
        (lambda x: x.permute(0, 0), "permute"),
        (lambda x: x.shrink([(0, 3), None]), "shrink"),
        (lambda x: x.split([1, 3], 1), "do not add up to 3"),
        (lambda x: Tensor.zeros(0, 2, **CPU).max(0), "max over an axis of size 0"),
        (lambda x: x.clamp(), "a lower or an upper limit"),
        (lambda x: x.bitcast(dtypes.int64), "differ in width"),
        (lambda x: x.conv2d(x), "conv2d"),
        (lambda x: x.dropout(2), "is not in"),
        (lambda x: x.one_hot(3), "class numbers are integers"),
        (lambda x: x + "a", "cannot combine"),
    ],
)
def test_misuse_names_operation_and_shapes(misuse, text):
    with pytest.raises(TensorError, match=text):
        misuse(Tensor.ones(2, 3, **CPU))


def test_truth_of_a_tensor_is_refused():
    with pytest.raises(TypeError, match="not defined"):
        bool(Tensor([True], **CPU))


def test_properties():
    x = Tensor.zeros(2, 3, **CPU)
    assert (x.ndim, x.numel(), len(x), x.nbytes(), x.size(1)) == (2, 6, 2, 24, 3)
    assert x.is_floating_point()
    assert x.T.shape == (3, 2)
    assert repr(x) == f"<Tensor float32[2, 3] on {x.device}>"


def test_numpy_returns_a_writable_copy():
    x = Tensor([1.0, 2.0], **CPU).realize()
    a = x.numpy()
    a[0] = 9
    assert x.tolist() == [1.0, 2.0]


def test_nothing_runs_before_a_value_is_asked_for():
    x = Tensor([1.0], **CPU)
    y = x + 1
    assert y.node.realized is None
    assert y.node.op is Op.ADD
    y.realize()
    assert y.node.realized is not None


def test_every_handle_sees_an_assignment():
    x = Tensor([1.0, 2.0, 3.0], **CPU).realize()
    view = x[1:]
    x.assign([4.0, 5.0, 6.0])
    assert view.tolist() == [5.0, 6.0]
    view.assign([0.0, 0.0])
    assert x.tolist() == [4.0, 0.0, 0.0]


def test_waiting_values_keep_old_contents():
    x = Tensor([1.0, 2.0], **CPU).realize()
    y = x * 10
    x.assign([5.0, 6.0])
    assert y.tolist() == [10.0, 20.0]


def test_shift_by_one_acts_as_if_copied_first():
    x = Tensor(np.arange(1000, dtype=np.float32), **CPU)
    x[1:] = x[:-1]
    assert x.tolist() == [0.0, *map(float, range(999))]


def test_slices_are_written_once_in_place():
    x = Tensor(np.arange(6, dtype=np.float32), **CPU)
    x[1:4] *= 10
    x[5] = -1
    x[::-2] += 1
    assert x.tolist() == [0.0, 11.0, 20.0, 31.0, 4.0, 0.0]


def test_items_at_positions_given_by_a_tensor():
    x = Tensor.zeros(4, **CPU)
    x[Tensor([3, 1], **CPU)] = Tensor([1.0, 2.0], **CPU)
    assert x.tolist() == [0.0, 2.0, 0.0, 1.0]


def test_augmented_assignment_is_in_place():
    x = Tensor([1.0], **CPU).realize()
    other = Tensor(x)
    x += 1
    assert other.item() == 2.0


@pytest.mark.parametrize("name", ["TinyJit", "function"])
def test_recording_says_that_it_is_not_built_yet(name):
    with pytest.raises(AttributeError, match="not part of this version"):
        getattr(tensor, name)


def test_creators():
    assert Tensor.arange(2, 11, 3, **CPU).tolist() == [2, 5, 8]
    assert Tensor.arange(3, -1, -2, **CPU).tolist() == [3, 1]
    assert Tensor.arange(0.0, 1.0, 0.25, **CPU).tolist() == [0.0, 0.25, 0.5, 0.75]
    assert Tensor.eye(2, 3, **CPU).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert Tensor.linspace(0, 1, 5, **CPU).tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert Tensor.full((2,), 7, **CPU).tolist() == [7, 7]
    assert Tensor.ones(2, **CPU).full_like(3).tolist() == [3.0, 3.0]


def test_default_float_is_a_setting():
    with Context(DEFAULT_FLOAT="float64"):
        assert Tensor(1.5, **CPU).dtype is dtypes.float64


def test_special_values_of_predicates():
    x = Tensor([math.inf, -math.inf, math.nan, 1.0], **CPU)
    assert x.isinf().tolist() == [True, True, False, False]
    assert x.isnan().tolist() == [False, False, True, False]
    assert x.isfinite().tolist() == [False, False, False, True]


def test_floor_division_and_remainder_follow_python():
    a, b = np.array([7, -7, 7, -7], np.int32), np.array([2, 2, -2, -2], np.int32)
    x, y = Tensor(a, **CPU), Tensor(b, **CPU)
    assert (x // y).tolist() == [3, -4, -4, 3]
    assert (x % y).tolist() == [1, 1, -1, -1]
    assert x.div(y, rounding_mode="trunc").tolist() == [3, -3, -3, 3]
    assert x.fmod(y).tolist() == [1, -1, 1, -1]
