"""How a process that uses a GPU ends: hung, failed, forked."""

import subprocess
import sys
import time

import pytest

HANG = """
import time
from gpu_calls import BUFFER, GpuKernel
from runtime.backend import MemoryOptions
from runtime.buffer import Buffer
from runtime.call import ProgramCall
from runtime.execute import run_linear
class E: name='int32'; itemsize=4
kept = [Buffer(NAME, 1000, E).ensure_allocated() for _ in range(10)]
flag = Buffer(NAME, 1, E, options=MemoryOptions(host=True)).allocate()
flag.host_view()[:] = bytes(4)
run_linear([ProgramCall(GpuKernel('hold', (BUFFER,)), (flag,), NAME)])
print('end', time.monotonic(), flush=True)
"""
FAULT = """
from gpu_calls import BUFFER, GpuKernel
from hcq.errors import GpuFault
from runtime.buffer import Buffer
from runtime.call import ProgramCall
from runtime.execute import run_linear
from tensor import Device, Tensor
class E: name='int32'; itemsize=4
kept = [(Tensor([1.0, 2.0]) * n).realize() for n in range(10)]
target = Buffer(NAME, 4, E).allocate()
run_linear([ProgramCall(GpuKernel('bad', (BUFFER,)), (target,), NAME)])
try:
    kept[3].numpy()
except GpuFault as error:
    print(error.facts['kernel'] if 'kernel' in error.facts else error.what)
"""
FORK = """
import os
from runtime.buffer import Buffer
from hcq.errors import DeviceBanned
class E: name='uint8'; itemsize=1
buffer = Buffer(NAME, 4, E).copy_in(b'abcd')
child = os.fork()
if child == 0:
    try:
        buffer.copy_out()
    except DeviceBanned as error:
        print(error.what, flush=True)
    raise SystemExit(0)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(status, bytes(buffer.copy_in(b'wxyz').copy_out()))
"""


@pytest.fixture
def simulated(tmp_path, name, chip):
    """simulated(script): run it under the launcher: (status, lines, errors)."""
    if name == "NV":
        pytest.importorskip("nvidia", reason="nvidia-nvjitlink (extra nv) is not installed")

    def run(script):
        path = tmp_path / "script.py"
        path.write_text(f"NAME = {name!r}\n{script}")
        done = subprocess.run(
            [sys.executable, "-m", "sim", "--gpu", chip, str(path)],
            capture_output=True,
            text=True,
            timeout=60,
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(["", *sys.path]), "DEVICE": name},
            check=False,
        )
        return done.returncode, done.stdout.splitlines(), done.stderr

    return run


@pytest.mark.row("REG-15")
def test_process_with_a_hung_kernel_and_live_buffers_ends(simulated):
    status, lines, error = simulated(HANG)
    assert (status, len(lines)) == (0, 1), error
    ended = float(lines[0].removeprefix("end "))
    assert time.monotonic() - ended < 5
    assert "did not finish before it was closed" not in error  # logged, not printed


@pytest.mark.row("REG-15")
@pytest.mark.row("EXE-14")
def test_process_with_a_failed_device_and_live_tensors_ends_in_peace(simulated):
    status, lines, error = simulated(FAULT)
    assert (status, error) == (0, "")
    assert len(lines) == 1
    assert "bad" in lines[0]


@pytest.mark.row("REG-17")
def test_parent_goes_on_after_a_fork(simulated, name):
    status, lines, error = simulated(FORK)
    assert (status, lines) == (
        0,
        [f"{name}:0 cannot be used here: it was opened before fork", "0 b'wxyz'"],
    ), error
