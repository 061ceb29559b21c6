"""The runtime on a simulated GPU of each vendor: `name` says which."""

import pytest
from gpu_calls import BUFFER, GpuKernel, adder, words

from runtime.backend import MemoryOptions
from runtime.buffer import Buffer
from runtime.call import ProgramCall
from runtime.device import Device
from runtime.execute import run_linear

CHIPS = {"AMD": "gfx1100", "NV": "sm_90"}


@pytest.fixture(params=list(CHIPS))
def name(request):
    """The kind of device."""
    return request.param


@pytest.fixture
def chip(name):
    """What it has."""
    return CHIPS[name]


@pytest.fixture
def place(machine, chip):
    """place(**options): a machine with such a GPU; devices are closed before it goes away."""

    def make(gpu=chip, **options):
        return machine(gpu, **options)

    yield make
    Device.close_all()


@pytest.fixture
def adding(name, int32):
    """adding(): a call out = a + b over 4 int32, and its buffers."""

    def make(block=(4, 1, 1)):
        a, b, out = (Buffer(name, 4, int32) for _ in range(3))
        a.copy_in(words(1, 2, 3, 4))
        b.copy_in(words(10, 20, 30, 40))
        return ProgramCall(adder(block), (out, a, b), name), a, b, out

    return make


@pytest.fixture
def held(name, int32):
    """held(): launch a kernel that runs until what this returns is called."""

    def make():
        flag = Buffer(name, 1, int32, options=MemoryOptions(host=True, nolru=True)).allocate()
        view = flag.host_view()
        view[:] = bytes(4)
        run_linear([ProgramCall(GpuKernel("hold", (BUFFER,)), (flag,), name)])

        def release():
            view[:] = words(1)

        return release

    return make
