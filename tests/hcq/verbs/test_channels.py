"""Submitting past the timeline, through channels: from threads, after a close, in a child."""

import os
import sys
import threading

import pytest

from hcq.errors import BufferUseError, DeviceBanned, DeviceLost

COUNT = 400


@pytest.mark.row("HCQ-25")
@pytest.mark.row("HCQ-28")
def test_threads_submit_past_the_timeline_and_on_it(device):
    cells = device.allocate(64, host=True, zero=True)
    errors = []

    def work(number, submit):
        try:
            for value in range(1, COUNT + 1):
                submit(device.queue().write(cells.address + 4 * number, [value]))
        except Exception as error:
            errors.append(error)

    raw = device.channels["compute"].submit
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [
            threading.Thread(target=work, args=(number, submit))
            for number, submit in enumerate((raw, raw, device.submit, device.submit))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert errors == []
    device.wait(device.submit(device.queue().write(cells.address + 32, [1])))
    assert list(cells.view().cast("I")[:4]) == [COUNT] * 4


@pytest.mark.refusal
@pytest.mark.row("HCQ-28")
def test_a_channel_of_a_closed_device_takes_nothing(device):
    channel = device.channels["compute"]
    queue = device.queue().barrier()
    device.close()
    for use in (lambda: channel.submit(queue), channel.ring_doorbell):
        with pytest.raises(DeviceLost, match="is closed"):
            use()
    with pytest.raises(BufferUseError, match="outside a mapped window"):
        _ = channel.get


@pytest.mark.refusal
@pytest.mark.row("REG-17")
def test_a_forked_child_does_not_ring_its_parents_doorbell(device):
    channel, queue = device.channels["compute"], device.queue().barrier()
    child = os.fork()
    if child == 0:
        answers = []
        for use in (lambda: channel.submit(queue), channel.ring_doorbell):
            try:
                use()
            except DeviceBanned:
                answers.append(True)
        os._exit(0 if answers == [True, True] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    device.wait(device.submit(device.queue().barrier()))
