"""Limits on a clock that only the simulator moves, through the driver."""

import time

import pytest

from hcq import amd
from hcq.errors import GpuTimeout


@pytest.fixture
def device(machine):
    machine(seed=1)
    found = amd.open(0)
    found.synchronize()
    return found


@pytest.mark.row("SIM-10")
@pytest.mark.refusal
def test_thirty_seconds_to_a_timeout_cost_no_real_time(device):
    cell = device.allocate(16, host=True, zero=True)
    value = device.submit(device.queue("compute").wait(cell.address, 1))
    started = time.thread_time()
    with pytest.raises(GpuTimeout):
        device.wait(value)
    assert time.thread_time() - started < 0.05
