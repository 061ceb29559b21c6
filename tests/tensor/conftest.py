"""Devices that tensor programs run on: the processor, and simulated GPUs."""

import sys
from pathlib import Path

import pytest

from hcq import host
from runtime.device import KINDS, Device
from sim.machine import Machine
from tensor import Tensor

sys.path.insert(0, str(Path(__file__).parent))


# The chip that stands for each vendor whose devices can be opened.
CHIPS = {name: chip for name, chip in {"AMD": "gfx1100", "NV": "sm_90"}.items() if name in KINDS}


@pytest.fixture(scope="module")
def simulated_gpus():
    """One machine with a GPU of each vendor for all tests of a file: kernels stay translated."""
    Device.close_all()
    machine = Machine([*CHIPS.values()])
    before = host.use(machine)
    yield machine
    Device.close_all()
    host.use(before)
    machine.shut_down()


@pytest.fixture(params=["CPU", *CHIPS])
def device(request):
    """The name of a device that tensor programs run on."""
    if request.param in CHIPS:
        request.getfixturevalue("simulated_gpus")
    Tensor.manual_seed(0)
    return request.param
