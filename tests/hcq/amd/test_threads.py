"""Many threads on one device; the order things are published in; the way out of a fork."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.row("HCQ-25")
def test_no_producer_exposes_words_that_are_not_written(device, run_all):
    """Two threads, 500 submissions each: whenever the doorbell moves, all below it is laid down."""
    channel = device.channels["compute"]
    seen = []
    doorbell = channel.doorbell

    class Watched:
        def write64(self, offset, value):
            # What lies in the ring right before the pointer, at the moment of publishing.
            last = channel._ring_view.read32((value - 1) % channel.ring_units * 4)
            seen.append((value, channel.pointers.region.read64(128), last))
            doorbell.write64(offset, value)

    channel.doorbell = Watched()

    def work(number):
        for i in range(500):
            channel_lock_free = device.queue("compute").write(device.loader._ring.address, [i])
            device.submit(channel_lock_free)

    run_all([lambda n=n: work(n) for n in range(2)])
    device.synchronize()
    puts = [put for put, _, _ in seen]
    assert len(seen) == 1000
    assert puts == sorted(puts)
    assert all(put == pointer for put, pointer, _ in seen)
    # Each submission ends with the interrupt's context word: the event's id.
    assert {last for _, _, last in seen} == {device.work.events.signal_id}


@pytest.mark.row("HCQ-25")
@pytest.mark.row("AMD-08")
def test_contents_then_pointer_then_doorbell(device, noted):
    log = []
    channel = device.channels["copy"]

    channel._ring_view = noted(log, "ring", channel._ring_view)
    channel._pointer_view = noted(log, "pointer", channel._pointer_view)
    channel.doorbell = noted(log, "doorbell", channel.doorbell)
    device.synchronize()
    device.wait(device.submit(device.queue("copy").barrier()))
    # One aligned 64-bit store each for pointer and doorbell.
    stores = [(name, verb) for name, verb, _ in log]
    assert stores == [("ring", "write"), ("pointer", "write64"), ("doorbell", "write64")]


@pytest.mark.row("REG-17")
@pytest.mark.refusal
def test_a_forked_child_is_refused_and_tears_nothing_down(tmp_path):
    script = tmp_path / "forks.py"
    script.write_text(
        """
import os
from hcq import amd, host
from hcq.errors import DeviceBanned
from sim.machine import Machine

machine = Machine()
host.use(machine)
device = amd.open(0)
buffer = device.allocate(4096)
child = os.fork()
if child == 0:
    refused = 0
    for use in (lambda: device.allocate(4), lambda: device.free(buffer), device.synchronize,
                lambda: device.submit(device.queue("compute").barrier()), device.close,
                lambda: amd.open(0)):
        try:
            use()
        except DeviceBanned as error:
            refused += "opened before fork" in str(error)
    os._exit(refused)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status))
device.wait(device.submit(device.queue("copy").fill(buffer.address, 7, 4096)))
print(buffer.view()[4095])
machine.shut_down()
"""
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.split() == ["6", "7"], done.stderr
