"""Devices that tensor programs run on: the processor, and a simulated AMD GPU."""

import sys
from pathlib import Path

import pytest

from hcq import host
from runtime.device import Device
from sim.machine import Machine
from tensor import Tensor

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="module")
def simulated_amd():
    """One simulated GPU for all tests of a file: kernels stay translated."""
    Device.close_all()
    machine = Machine(["gfx1100"])
    before = host.use(machine)
    yield machine
    Device.close_all()
    host.use(before)
    machine.shut_down()


@pytest.fixture(params=["CPU", "AMD"])
def device(request):
    """The name of a device that tensor programs run on."""
    if request.param == "AMD":
        request.getfixturevalue("simulated_amd")
    Tensor.manual_seed(0)
    return request.param
