"""What users get wrong is answered by an error that names it."""

import numpy as np
import pytest

from hcq.errors import ConfigError
from tensor import Tensor, TensorError, nn

pytestmark = pytest.mark.refusal


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda x: x.__iadd__(1.5), "float32 cannot be written into a tensor of int32"),
        (lambda x: x.__itruediv__(2), "float32 cannot be written into a tensor of int32"),
        (lambda x: x.assign(Tensor([0.5, 1.5])), "float32 cannot be .* int32"),
        (lambda x: x.__setitem__(0, 1.5), "float32 cannot be written into a tensor of int32"),
        (lambda x: x.__setitem__(Tensor([0]), 1.5), "float32 cannot be .* tensor of int32"),
        (lambda x: (x > 1).assign(x), "int32 cannot be written into a tensor of bool"),
    ],
)
def test_a_write_of_a_wider_kind_is_refused(write, message):
    x = Tensor([1, 2])
    with pytest.raises(TensorError, match=message):
        write(x)
    assert x.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("target", "value"),
    [("int32", "bool"), ("float32", "int64"), ("float32", "float64"), ("int8", "int64")],
)
def test_a_write_of_the_same_or_a_lesser_kind_is_cast(target, value):
    x = Tensor([5, 6], dtype=target).assign(Tensor([1, 0], dtype=value))
    assert (x.dtype.name, x.tolist()) == (target, [1, 0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tensor.zeros(-1), r"shape \[-1\]: no size can be negative"),
        (lambda: Tensor.ones(2, -3), r"shape \[2, -3\]"),
        (lambda: Tensor.empty(-1), r"shape \[-1\]"),
        (lambda: Tensor.rand(-1), r"shape \[-1\]"),
        (lambda: Tensor.zeros(2.5), "a whole number, not 2.5"),
        (lambda: Tensor.zeros("a"), "a whole number, not 'a'"),
        (lambda: Tensor.manual_seed("x"), "a seed is a whole number, not 'x'"),
        (lambda: Tensor.stack([1]), "stack joins tensors, not int"),
        (lambda: Tensor.cat([]), "cat joins tensors, not nothing"),
        (lambda: nn.optim.SGD([1]), "an optimizer takes tensors, not int"),
        (lambda: nn.state.safe_save({"a": 1}, "never"), "'a' is no tensor but int"),
        (lambda: Tensor([1, 2]).sum("a"), "a dimension is a whole number, not 'a'"),
        (lambda: Tensor([1.0]).norm(0), "norm: p is a number above 0, not 0"),
        (lambda: format(Tensor([1.0, 2.0]), ".2f"), r"item\(\) of 2 elements"),
    ],
)
def test_what_makes_no_tensor_is_named(make, message):
    with pytest.raises(TensorError, match=message):
        make()


def test_an_option_that_does_not_exist_is_refused():
    with pytest.raises(TypeError, match="unknown argument 'devcie' of a random tensor"):
        Tensor.rand(3, devcie="CPU")


@pytest.mark.parametrize("key", [[7], [0, -4], np.array([3]), np.array([[0], [9]])])
def test_a_known_index_outside_of_its_axis_is_an_error(key):
    with pytest.raises(TensorError, match=r"index (7|-4|3|9) is outside dimension 0 of size 3"):
        Tensor([1.0, 2.0, 3.0])[key]


def test_a_known_index_on_a_later_axis_names_it():
    with pytest.raises(TensorError, match="index 5 is outside dimension 1 of size 4"):
        Tensor.ones(3, 4)[:, [0, 5]]


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: Tensor.ones(1, 1, 2, 2).max_pool2d(3), r"windows of \[3, 3\] do not fit"),
        (lambda: Tensor.ones(1, 1, 2, 2).conv2d(Tensor.ones(1, 1, 3, 3)), r"windows of \[3, 3\]"),
        (lambda: Tensor.ones(3).unfold(0, 5, 1), "windows of 5 every 1"),
        (lambda: Tensor.ones(2, 3, 4) @ Tensor.ones(3, 4, 5), r"\[2, 3, 4\] and \[3, 4, 5\]"),
        (lambda: nn.BatchNorm(3)(Tensor.ones(2, 4)), r"BatchNorm of 3 channels, input \[2, 4\]"),
        (
            lambda: Tensor(1.0).sparse_categorical_crossentropy(Tensor(1)),
            r"class numbers of shape \[\] for logits of shape \[\]",
        ),
    ],
)
def test_shapes_that_do_not_fit_are_named_as_given(use, message):
    with pytest.raises(TensorError, match=message):
        use()


@pytest.mark.parametrize("kind", ["foo", complex, [1], np.dtype("complex64")])
def test_an_unknown_dtype_lists_the_known_ones(kind):
    with pytest.raises(ConfigError, match=r"(?s)unknown dtype .*known=bool,int8,.*float64"):
        Tensor([1]).cast(kind)
