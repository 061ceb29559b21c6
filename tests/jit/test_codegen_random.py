"""Random kernels give what numpy gives, on x86-64 and on a simulated gfx1100."""

import numpy as np
import pytest
from kernel_maker import host_levels, relabelled, run_native, run_oracle
from random_kernels import Draw

from hcq import host
from hcq.settings import Context
from jit.codegen.nvptx import NvRenderer
from jit.compile import renderer
from runtime.buffer import Buffer
from runtime.call import ProgramCall
from runtime.device import Device
from runtime.execute import run_linear
from sim.machine import Machine


@pytest.fixture(scope="module")
def simulated():
    """One simulated GPU for all tests here."""
    Device.close_all()
    machine = Machine(["gfx1100"])
    before = host.use(machine)
    yield
    Device.close_all()
    host.use(before)
    machine.shut_down()


def run_amd(kernel, arrays):
    buffers = []
    for argument, array in zip(kernel.arguments, arrays, strict=True):
        buffer = Buffer("AMD", argument.count, argument.dtype).ensure_allocated()
        buffers.append(buffer.copy_in(array.tobytes()) or buffer)
    with Context(CCACHE=0):
        run_linear([ProgramCall(kernel, tuple(buffers), "AMD")])
    return np.frombuffer(buffers[0].copy_out(), kernel.arguments[0].dtype.numpy)


@pytest.mark.parametrize("seed", range(60))
def test_a_random_kernel_on_the_cpu(seed):
    draw = Draw(seed)
    want, *_ = run_oracle(draw.plain, draw.arrays)
    levels = host_levels()
    out, *_ = run_native(draw.kernel, draw.arrays, levels[seed % len(levels)])
    assert np.array_equal(out, want)


@pytest.fixture(params=["gfx1100", "sm_90"])
def planned(request, monkeypatch):
    """Kernels for gfx1100 are planned as for this chip."""
    if request.param != "gfx1100":
        made = renderer("LLVM:gfx1100")
        monkeypatch.setattr(made, "machine", NvRenderer.machines[request.param])
    return request.param


@pytest.mark.parametrize("seed", range(100, 130))
def test_a_random_kernel_on_a_simulated_gpu(simulated, planned, seed):
    draw = Draw(seed)
    want, *_ = run_oracle(draw.plain, draw.arrays)
    kernel = relabelled(draw.kernel, planned)
    assert np.array_equal(run_amd(kernel, draw.arrays), want)
