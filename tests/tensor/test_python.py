"""Tensors among Python's and numpy's own things: copies, pickles, types, indexes, text."""

import copy
import pickle

import numpy as np
import pytest

from tensor import GlobalCounters, Tensor, nn


def test_a_deep_copy_is_written_alone():
    x = Tensor([1.0, 2.0])
    twin = copy.deepcopy(x)
    twin.assign(twin * 3)
    assert (x.tolist(), twin.tolist()) == ([1.0, 2.0], [3.0, 6.0])


def test_a_deep_copy_has_its_own_gradient():
    x = Tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    twin = copy.deepcopy(x)
    (twin * 3).sum().backward()
    assert (x.grad.tolist(), twin.grad.tolist()) == ([2.0, 4.0], [5.0, 7.0])


def test_a_deep_copy_of_something_computed_ends_its_gradient():
    x = Tensor([1.0, 2.0], requires_grad=True)
    copy.deepcopy(x * 2).requires_grad_().sum().backward()
    assert x.grad is None


@pytest.mark.parametrize("make", [lambda: Tensor(3), lambda: Tensor.zeros(0, 3)])
def test_scalars_and_empty_tensors_are_copied(make):
    assert copy.deepcopy(make()).tolist() == make().tolist()


def test_a_view_is_copied_in_its_order():
    assert copy.deepcopy(Tensor([1, 2, 3])[::-1]).tolist() == [3, 2, 1]


def test_a_model_is_copied_with_its_parameters():
    model = nn.Linear(2, 1)
    twin = copy.deepcopy(model)
    assert twin.weight.tolist() == model.weight.tolist()
    twin.weight.assign(twin.weight + 1)
    assert twin.weight.tolist() != model.weight.tolist()


def test_a_tensor_that_occurs_twice_is_copied_once():
    x = Tensor([1.0])
    first, second = copy.deepcopy([x, x])
    assert first is second


def test_a_shallow_copy_is_another_handle():
    x = Tensor([1.0, 2.0], requires_grad=True)
    handle = copy.copy(x)
    x.assign([5.0, 6.0])
    assert (handle.tolist(), handle.requires_grad) == ([5.0, 6.0], True)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "float64"])
def test_a_pickle_keeps_contents_dtype_and_shape(dtype):
    x = Tensor([[1, 0, 3]], dtype=dtype)
    again = pickle.loads(pickle.dumps(x))
    assert (again.dtype, again.shape, again.tolist()) == (x.dtype, (1, 3), x.tolist())


def test_a_pickle_keeps_device_and_requires_grad():
    again = pickle.loads(pickle.dumps(Tensor([1.0], device="CPU", requires_grad=True)))
    assert (again.device, again.requires_grad, again.grad) == ("CPU", True, None)


def test_a_model_goes_through_a_pickle():
    model = nn.Linear(3, 2)
    x = Tensor([[1.0, 2.0, 3.0]])
    assert pickle.loads(pickle.dumps(model))(x).tolist() == model(x).tolist()


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (int, "int32"),
        (float, "float32"),
        (bool, "bool"),
        (np.float32, "float32"),
        (np.dtype("int16"), "int16"),
        (np.bool_, "bool"),
        (np.uint8, "uint8"),
        ("half", "float16"),
    ],
)
def test_types_of_python_and_numpy_name_dtypes(kind, name):
    assert Tensor([1], dtype=kind).dtype.name == name
    assert Tensor([1, 2]).cast(kind).dtype.name == name
    assert Tensor.zeros(2, dtype=kind).dtype.name == name


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (np.int64(1), 20),
        (np.array(1), 20),
        (np.array([0, 2]), [10, 30]),
        (np.array([[2], [1]], np.uint8), [[30], [20]]),
        ([-1, 0], [30, 10]),
    ],
)
def test_numpy_numbers_and_arrays_are_indexes(key, value):
    assert Tensor([10, 20, 30])[key].tolist() == value


def test_lists_of_tensors_are_joined_like_arguments():
    a, b = Tensor([1, 2]), Tensor([3, 4])
    assert Tensor.stack([a, b]).tolist() == Tensor.stack(a, b).tolist() == [[1, 2], [3, 4]]
    assert Tensor.cat([a, b]).tolist() == Tensor.cat(a, b).tolist() == [1, 2, 3, 4]


def test_ranges_and_lists_of_arrays_are_data():
    assert Tensor(range(3)).tolist() == [0, 1, 2]
    assert Tensor([np.arange(2), np.arange(2)]).tolist() == [[0, 1], [0, 1]]


def test_numpy_sizes_are_sizes():
    assert Tensor.zeros(np.int64(2), 3).reshape(np.int32(3), -1).shape == (3, 2)


def test_a_tensor_of_one_element_formats_as_a_number():
    assert f"{Tensor(1.2345):.2f} {Tensor([7]):03d}" == "1.23 007"


def test_abs_is_known_to_python():
    assert abs(Tensor([-1.5, 2.0])).tolist() == [1.5, 2.0]


def test_a_repr_shows_a_few_values():
    assert repr(Tensor([1 / 3, 2.0], device="CPU")) == "<Tensor float32[2] on CPU [0.3333, 2.    ]>"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Tensor([1.0], device="CPU") + 1,
        lambda: Tensor([1.0] * 9, device="CPU"),
        lambda: Tensor.empty(2, device="CPU"),
        lambda: Tensor([1.0], dtype="bfloat16", device="CPU"),
    ],
)
def test_a_repr_shows_no_values_that_would_have_to_be_computed(make):
    x = make()
    before = GlobalCounters.kernel_count
    assert repr(x) == f"<Tensor {x.dtype.name}{list(x.shape)} on CPU>"
    assert GlobalCounters.kernel_count == before


@pytest.mark.parametrize(("p", "value"), [(1, 7.0), (2, 5.0), (3, 4.4979414), (float("inf"), 4.0)])
def test_norms(p, value):
    assert Tensor([3.0, -4.0]).norm(p).item() == pytest.approx(value, rel=1e-6)


def test_a_norm_of_rows_keeps_their_axis():
    assert Tensor([[3.0, 4.0], [0.0, 2.0]]).norm(axis=1, keepdim=True).tolist() == [[5.0], [2.0]]


def test_layers_run_one_after_the_other():
    assert Tensor([-1.0, 2.0]).sequential([Tensor.relu, lambda x: x + 1]).tolist() == [1.0, 3.0]
