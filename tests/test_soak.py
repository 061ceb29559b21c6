"""A thousand training steps: nothing grows. Its own command: pytest -m long"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

TRAIN = """
import gc, json, os, sys
sys.path.insert(0, "examples")
from train import BATCH, Mlp, digits
from tensor import Device, GlobalCounters, Tensor, nn

Tensor.manual_seed(0)
model = Mlp()
images, labels, *_ = digits()
optimizer = nn.optim.Adam(nn.state.get_parameters(model), lr=0.005)
device = Device[Device.DEFAULT]

def state():
    gc.collect()
    device.synchronize()
    memory = device.allocator.statistics
    with open("/proc/self/smaps_rollup") as file:
        pages = next(int(line.split()[1]) for line in file if line.startswith("Rss:"))
    raw = getattr(device.backend, "device", None)
    return {
        "live": GlobalCounters.mem_used,
        "reserved": memory.reserved,
        "driver": raw.stats.live if raw is not None else 0,
        "descriptors": len(os.listdir("/proc/self/fd")),
        "process": pages,
    }

calls = []
with Tensor.train():
    for step in range(1, 1001):
        chosen = Tensor.randint(BATCH, high=len(images))
        x, y = images[chosen], labels[chosen]
        optimizer.zero_grad()
        loss = model(x).sparse_categorical_crossentropy(y).backward()
        optimizer.step()
        if step % 10 == 0:
            loss.item()
        if step in (100, 1000):
            calls.append(device.allocator.statistics.calls)
            print(json.dumps(state()))
print(json.dumps({"loss": loss.item(), "allocations": calls[1] - calls[0]}))
"""


@pytest.mark.long
@pytest.mark.row("ALC-05")
@pytest.mark.parametrize("device", ["CPU", "AMD"])
def test_a_thousand_steps_leave_everything_where_it_was(tmp_path, device):
    script = tmp_path / "soak.py"
    script.write_text(TRAIN)
    launcher = ["-m", "sim", "--gpu", "gfx1100"] if device == "AMD" else []
    done = subprocess.run(
        [sys.executable, *launcher, str(script)],
        cwd=ROOT,
        env={**os.environ, "DEVICE": device, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    early, late, end = map(json.loads, done.stdout.splitlines())
    for name, before in early.items():
        assert abs(late[name] - before) <= 0.02 * before, (name, early, late)
    assert end["allocations"] == 0
    assert end["loss"] < 0.5
