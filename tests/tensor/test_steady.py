"""A training loop settles: after three steps nothing is allocated any more."""

import pytest

from runtime.device import Device as Registry
from tensor import Tensor, nn


def step(model, optimizer):
    x, y = Tensor.rand(16, 8), Tensor.randint(16, high=4)
    optimizer.zero_grad()
    loss = model[1](model[0](x).relu()).sparse_categorical_crossentropy(y).backward()
    optimizer.step()
    return loss.item()


@pytest.mark.row("ALC-05")
@pytest.mark.parametrize("device", ["CPU", "AMD"])
def test_after_three_steps_no_memory_is_asked_for(machine, monkeypatch, device):
    monkeypatch.setenv("DEVICE", device)
    monkeypatch.delenv("DEV", raising=False)
    Registry.close_all()
    if device == "AMD":
        machine()
    Tensor.manual_seed(0)
    model = [nn.Linear(8, 16), nn.Linear(16, 4)]
    optimizer = nn.optim.Adam(nn.state.get_parameters(model), lr=0.01)
    with Tensor.train():
        for _ in range(3):
            step(model, optimizer)
        before = Registry[device].allocator.statistics
        for _ in range(10):
            step(model, optimizer)
    after = Registry[device].allocator.statistics
    assert (after.calls, after.reserved) == (before.calls, before.reserved)
    Registry.close_all()
