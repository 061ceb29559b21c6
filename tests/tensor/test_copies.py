"""Moving and reading values: copy calls only, no kernel, no compiler."""

import pytest

from hcq.errors import CompileError
from jit.kernel import Kernel
from runtime.device import Device as Registry
from tensor import Device, GlobalCounters, Tensor


@pytest.fixture(params=["CPU", "AMD"])
def device(request, machine, monkeypatch):
    monkeypatch.setenv("DEVICE", request.param)
    monkeypatch.delenv("DEV", raising=False)
    if request.param == "AMD":
        Registry.close_all()
        machine()
    yield Device.DEFAULT
    if request.param == "AMD":
        Registry.close_all()


@pytest.fixture
def no_compiler(monkeypatch):
    def refuse(kernel, target):
        raise CompileError(f"{kernel.name} would be compiled")

    monkeypatch.setattr(Kernel, "compile", refuse)


@pytest.mark.row("BUF-09")
def test_values_move_and_are_read_by_copies_alone(device, no_compiler):
    tensor = Tensor([[1.0, 2.0], [3.0, 4.0]])
    tensor.realize()
    GlobalCounters.reset()
    assert tensor.numpy().tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert GlobalCounters.copy_count == 1
    there = tensor.to("CPU:1")
    assert there.numpy().tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert GlobalCounters.copy_count == 3
    assert there.to(device).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert (GlobalCounters.copy_count, GlobalCounters.kernel_count) == (5, 0)


@pytest.mark.row("BUF-09")
def test_part_of_a_tensor_moves_by_a_copy(device, no_compiler):
    tensor = Tensor([[1.0, 2.0], [3.0, 4.0]]).realize()
    GlobalCounters.reset()
    assert tensor[1:].to("CPU:1").tolist() == [[3.0, 4.0]]
    assert (GlobalCounters.copy_count, GlobalCounters.copy_bytes) == (2, 16)


@pytest.mark.row("EXE-12")
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)])
@pytest.mark.parametrize(
    "work",
    [
        lambda a: a + 1,
        lambda a: a.exp().relu(),
        lambda a: a.reshape(-1),
        lambda a: a.to("CPU:1") * 2,
        lambda a: a.cast("int32"),
        lambda a: a.contiguous(),
        lambda a: a.permute(*reversed(range(a.ndim))) * a.permute(*reversed(range(a.ndim))),
        lambda a: a.cat(a),
    ],
)
def test_work_on_nothing_launches_nothing(device, no_compiler, shape, work):
    empty = Tensor.zeros(*shape)
    GlobalCounters.reset()
    assert work(empty).numpy().size == 0
    assert (GlobalCounters.kernel_count, GlobalCounters.copy_count) == (0, 0)


def test_reading_twice_computes_once(device):
    total = Tensor([1.0, 2.0]).realize() + 1
    GlobalCounters.reset()
    assert total.tolist() == total.tolist() == [2.0, 3.0]
    assert GlobalCounters.kernel_count == 1


@pytest.mark.row("BUF-09")
def test_reading_a_view_follows_its_storage(device):
    tensor = Tensor([1.0, 2.0, 3.0]).realize()
    view = tensor.flip(0)
    assert view.tolist() == [3.0, 2.0, 1.0]
    tensor.assign(tensor + 1)
    assert view.tolist() == [4.0, 3.0, 2.0]
