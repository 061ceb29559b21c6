"""docs/tensors.md lists every public name, and none that does not exist."""

import inspect
import re
from pathlib import Path

import pytest

from tensor import Context, Device, Tensor, nn

TEXT = (Path(__file__).parents[2] / "docs" / "tensors.md").read_text()
LISTS = TEXT.partition("# Names of tensors and layers\n")[2]
PARTS = dict(re.findall(r"\*\*(.*?)\.\*\* (.*?)(?:\n\n|\Z)", LISTS, re.DOTALL))
OTHERS = {"Layers of `nn`": nn, "`nn.optim`": nn.optim, "`nn.state`": nn.state}


def names(text):
    return re.findall(r"`(\w+)`", text)


def test_every_name_of_a_tensor_is_listed_once():
    listed = [n for part, text in PARTS.items() if part not in OTHERS for n in names(text)]
    public = [n for n in dir(Tensor) if not n.startswith("_")]
    assert sorted(listed) == sorted(public)


@pytest.mark.parametrize(("part", "module"), OTHERS.items())
def test_every_name_of_a_module_is_listed(part, module):
    own = {
        name
        for name, value in vars(module).items()
        if (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
        and not name.startswith("_")
    }
    assert set(names(PARTS[part])) == own


def test_a_context_picks_the_device_of_new_tensors():
    with Context(DEVICE="CPU"):
        assert (Device.DEFAULT, Tensor([1]).device) == ("CPU", "CPU")


def test_an_argument_picks_the_device_of_one_tensor():
    assert Tensor.zeros(2, device="CPU").device == "CPU"


def test_without_requires_grad_backward_leaves_nothing():
    x = Tensor([1.0, 2.0])
    (x * x).sum().backward()
    assert x.grad is None


def test_a_label_outside_of_its_axis_has_no_class():
    assert Tensor([3]).one_hot(3).tolist() == [[0, 0, 0]]
    loss = Tensor([[1.0, 2.0, 3.0]]).sparse_categorical_crossentropy(Tensor([3]))
    assert loss.item() == 0.0
