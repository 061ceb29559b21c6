"""Waiting of the host on every chip: limits, hangs, the timeline."""

import os
import re
import threading
import time

import pytest

from hcq.errors import BufferUseError, DeviceBanned, DeviceLost, GpuTimeout, QueueError, WaitTimeout
from hcq.settings import Context


def let_go(flag):
    flag.region.write32(0, 1)


@pytest.mark.row("HCQ-09")
@pytest.mark.refusal
def test_a_callers_limit_leaves_the_device_good(held):
    device, flag = held
    started = time.monotonic()
    with pytest.raises(
        WaitTimeout, match=rf"{device.name}: value 1 did not come within 0.05 s"
    ) as caught:
        device.synchronize(timeout=0.05)
    assert time.monotonic() - started < 1
    assert (caught.value.facts["awaited"], caught.value.facts["seen"]) == (1, 0)
    let_go(flag)
    device.synchronize()
    assert device.health() == "ok"


@pytest.mark.row("HCQ-09")
def test_synchronize_with_nothing_pending_returns_at_once(device):
    device.synchronize(timeout=0)
    device.synchronize(timeout=0)


@pytest.mark.row("HCQ-05")
def test_a_value_that_has_passed_is_not_waited_for(device):
    for _ in range(3):
        device.submit(device.queue("compute").barrier())
    device.wait(3)
    device.wait(1, timeout=0)


@pytest.mark.row("HCQ-05")
def test_a_late_signal_ends_the_wait(held):
    device, flag = held
    threading.Timer(0.05, let_go, [flag]).start()
    device.wait(1, timeout=5)


@pytest.mark.row("HCQ-05")
@pytest.mark.refusal
def test_a_value_that_was_never_submitted_is_refused(device):
    with pytest.raises(QueueError, match="value 5 was never submitted"):
        device.wait(5)


@pytest.mark.row("HCQ-05")
def test_bytes_of_a_submission_that_was_refused_are_free_at_once(device):
    device.wait(device.submit(device.queue("compute").barrier()))
    device.work.wait_reused(2)  # the second was to use them, and did not come
    with pytest.raises(QueueError, match="value 2 was never submitted"):
        device.wait(2)


@pytest.mark.row("HCQ-05")
def test_a_users_signal_is_waited_for(device):
    signal = device.signals.take()
    device.submit(device.queue("copy").signal(signal.address, 9))
    device.wait_signal(signal, 9)
    assert signal.time > 0


@pytest.mark.row("HCQ-06")
def test_a_cell_that_is_reset_has_no_time_either(device):
    cell = device.signals.take()
    device.wait(device.submit(device.queue("compute").signal(cell.address, 9)))
    assert cell.time > 0
    cell.reset(4)
    assert (cell.value, cell.time) == (4, 0)


@pytest.mark.row("REG-17")
@pytest.mark.refusal
def test_a_forked_child_waits_for_no_signal(device):
    signal = device.signals.take()
    child = os.fork()
    if child == 0:
        try:
            device.wait_signal(signal, 0)  # which it holds already
        except DeviceBanned:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.row("HCQ-05")
@pytest.mark.parametrize("kind", ["compute", "copy"])
def test_a_cell_set_by_the_host_lets_the_gpu_go_on(device, kind):
    cell, done = device.signals.take(), device.signals.take()
    device.submit(device.queue(kind).wait(cell.address, 7).signal(done.address, 1))
    cell.reset(6)
    with pytest.raises(WaitTimeout):
        device.wait_signal(done, 1, timeout=0.02)
    cell.reset(7)
    device.wait_signal(done, 1, timeout=5)
    assert (cell.value, cell.time) == (7, 0)


def fail_behind(vendor, then):
    """Raise in a block of a device that waits for a cell to become 1."""
    with vendor.open(0) as device:
        cell = device.signals.take()
        device.submit(device.queue("compute").wait(cell.address, 1))
        then(cell)
        raise KeyError("mine")


@pytest.mark.row("HCQ-31")
@pytest.mark.refusal
def test_an_error_in_a_block_is_not_hidden_by_a_gpu_that_waits(place, vendor):
    sim = place()
    vendor.open(0).close()
    kept = sim.open_files, sim.nvidia.rm.handles(), len(sim.kfd.buffers._by_handle)
    started = time.monotonic()
    with pytest.raises(KeyError, match="mine") as caught:
        fail_behind(vendor, lambda cell: None)
    assert time.monotonic() - started < 3
    (note,) = caught.value.__notes__
    assert re.fullmatch(r"while (\w+:0) was closed: \1: value 1 did not come within 1 s", note)
    assert (sim.open_files, sim.nvidia.rm.handles(), len(sim.kfd.buffers._by_handle)) == kept
    assert not sim.faults
    with vendor.open(0) as again:
        again.wait(again.submit(again.queue("compute").barrier()), timeout=5)


@pytest.mark.row("HCQ-31")
def test_work_that_ends_soon_is_waited_for_after_an_error_in_a_block(place, vendor):
    place()
    with pytest.raises(KeyError, match="mine") as caught:
        fail_behind(vendor, lambda cell: threading.Timer(0.05, cell.reset, [1]).start())
    assert not hasattr(caught.value, "__notes__")


@pytest.mark.row("HCQ-31")
@pytest.mark.refusal
def test_a_hang_at_the_end_of_a_block_without_error_is_told(place, vendor):
    place()
    with (
        Context(HCQ_TIMEOUT_MS=60),
        pytest.raises(GpuTimeout, match="waiting for value 1"),
        vendor.open(0) as device,
    ):
        device.submit(device.queue("compute").wait(device.signals.take().address, 1))


def test_times_of_signal_cells_are_subtracted(device):
    start, end = device.signals.take(), device.signals.take()
    queue = device.queue("compute").signal(start.address, 1).signal(end.address, 1)
    device.wait(device.submit(queue))
    assert device.time(start.address + 8, start.address + 8) == 0
    took = device.time(start.address + 8, end.address + 8)
    assert took == -device.time(end.address + 8, start.address + 8) > 0


@pytest.mark.row("HCQ-12")
def test_what_lies_at_a_signal_cell_is_that_cell(device):
    cell = device.signals.take()
    text = f"signal cell {cell.address:#x} (16 bytes), offset 8"
    assert device.buffers_at(cell.address + 8) == text
    assert device.work.describe(cell.address + 8) == text  # as faults tell it
    device.signals.give(cell)
    text = f"signal cell {cell.address:#x} (16 bytes), in no use, offset 0"
    assert device.buffers_at(cell.address) == text


@pytest.mark.row("HCQ-12")
@pytest.mark.refusal
def test_a_time_is_not_read_from_where_nothing_lies(device):
    far = device.allocate(4096, host=True, name="far").address + (1 << 40)
    with pytest.raises(BufferUseError, match=f"no host memory at {far:#x}") as caught:
        device.time(far, far)
    assert caught.value.facts["nearest"].startswith("no buffer near: ")
    assert "cell.address + 8" in caught.value.hint


@pytest.mark.refusal
def test_a_time_is_not_read_from_a_freed_buffer(device):
    gone = device.allocate(4096, host=True, name="gone")
    device.free(gone)
    with pytest.raises(BufferUseError, match="buffer gone was freed"):
        device.time(gone.address, gone.address)


@pytest.mark.row("HCQ-05")
@pytest.mark.row("HCQ-10")
@pytest.mark.row("HCQ-11")
@pytest.mark.refusal
def test_no_progress_is_a_hang_once_and_then_the_device_is_lost(held):
    device, flag = held
    name = device.name
    with Context(HCQ_TIMEOUT_MS=60):
        with pytest.raises(GpuTimeout, match=r"for 0\.06 s waiting for value 1") as caught:
            device.synchronize()
        facts = caught.value.facts
        assert facts["verdict"] == "stuck in submission 1 on compute0 (no kernel)"
        assert (facts["finished"], facts["submitted"]) == (0, 1)
        assert "compute0 put" in facts["rings"]
        for use in (
            lambda: device.synchronize(),
            lambda: device.allocate(4),
            lambda: device.submit(device.queue("compute").barrier()),
            lambda: device.copy_in(flag, 0, b"x"),
            lambda: device.load(b"", "x"),
        ):
            started = time.monotonic()
            with pytest.raises(DeviceLost, match=f"{name} is lost since: GpuTimeout on {name}"):
                use()
            assert time.monotonic() - started < 0.1
        started = time.monotonic()
        device.close()
        assert time.monotonic() - started < 0.5


@pytest.mark.row("HCQ-12")
@pytest.mark.refusal
def test_a_hang_names_the_four_oldest_submissions_in_flight(held):
    device, _ = held
    for _ in range(5):
        device.submit(device.queue("compute").barrier())
    with Context(HCQ_TIMEOUT_MS=60), pytest.raises(GpuTimeout) as caught:
        device.synchronize()
    assert caught.value.facts["submission"] == 1
    assert caught.value.facts["last_submissions"] == (
        "1 on compute0 (no kernel); 2 on compute0 (no kernel); "
        "3 on compute0 (no kernel); 4 on compute0 (no kernel)"
    )


class SteppedClock:
    """The host's time for a device: at each look 0.15 s later, and one more step is done.

    So how fast this machine is does not matter.
    """

    def __init__(self, monkeypatch, device, steps):
        self.seconds = 1000.0
        self.steps = list(steps)
        monkeypatch.setattr(device.work.waits._host, "now", self)

    def __call__(self):
        self.seconds += 0.15
        assert self.seconds < 1100, "the limit never passes"
        if self.steps:
            act, is_over = self.steps.pop(0)
            act()
            limit = time.monotonic() + 60
            while not is_over() and time.monotonic() < limit:
                time.sleep(0.0005)
        return self.seconds


@pytest.mark.row("HCQ-05")
def test_progress_starts_the_limit_over(device, monkeypatch):
    flags = device.allocate(64, host=True, uncached=True, zero=True)
    steps = []
    for at in range(6):
        value = device.submit(device.queue("compute").poll(flags.address + 4 * at, 1))
        steps.append(
            (
                lambda at=at: flags.region.write32(4 * at, 1),
                lambda value=value: device.work.timeline.reached >= value,
            )
        )
    clock = SteppedClock(monkeypatch, device, steps)
    with Context(HCQ_TIMEOUT_MS=200):  # all six take 900 ms, none of them 200
        device.synchronize()
    assert clock.steps == []
    assert clock.seconds > 1000.85


@pytest.mark.row("HCQ-05")
@pytest.mark.refusal
def test_without_progress_the_limit_is_counted_from_the_last_one(device, monkeypatch):
    flags = device.allocate(64, host=True, uncached=True, zero=True)
    first = device.submit(device.queue("compute").poll(flags.address, 1))
    device.submit(device.queue("compute").poll(flags.address + 4, 1))
    step = (lambda: flags.region.write32(0, 1), lambda: device.work.timeline.reached >= first)
    nothing = (lambda: None, lambda: True)
    clock = SteppedClock(monkeypatch, device, [nothing, step])
    with Context(HCQ_TIMEOUT_MS=1000), pytest.raises(GpuTimeout, match="waiting for value 2"):
        device.synchronize()
    # It moved at the second look, 1000.3.
    assert clock.seconds >= 1001.3 - 1e-6
    flags.region.write32(4, 1)


@pytest.mark.row("HCQ-10")
def test_other_waiting_threads_wake_when_the_device_fails(held):
    device, _ = held
    caught = []

    def wait():
        try:
            device.wait(1, timeout=20)
        except DeviceLost as error:
            caught.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    with Context(HCQ_TIMEOUT_MS=50), pytest.raises(GpuTimeout):
        device.synchronize()
    thread.join(30)
    assert "is lost since" in str(caught[0])


@pytest.mark.row("HCQ-08")
@pytest.mark.parametrize("limit", [1 << 31, 1 << 32, 1 << 64])
def test_the_timeline_goes_past_the_hardware_payload(place, vendor, limit):
    place()
    device = vendor.open(0, timeline_start=limit - 4)
    buffer = device.allocate(1 << 20, cpu_access=False)
    data = bytes(range(256)) * 4096
    for _ in range(3):
        device.copy_in(buffer, 0, data)
        device.submit(device.queue("compute").barrier())
        back = bytearray(1 << 20)
        device.copy_out(buffer, 0, back)
        assert back == data
    assert device.work.timeline.submitted > limit
    device.synchronize()
    device.close()


@pytest.mark.row("HCQ-07")
def test_the_timeline_orders_both_queues(device, compiled, words):
    program = device.load(compiled("bump"), "bump")
    cell, copy = device.allocate(4, zero=True), device.allocate(400, zero=True)
    for i in range(100):
        device.launch(program, [cell.address], (1, 1, 1), (1, 1, 1))
        device.copy(copy.address + 4 * i, cell.address, 4)
    assert words(device, copy, 100) == list(range(1, 101))


def test_an_empty_bound_queue_runs_nothing(device):
    queue = device.bind(device.queue("compute"))
    device.wait(device.submit(queue))
    assert device.health() == "ok"


@pytest.mark.row("HCQ-26")
def test_a_bound_copy_queue_ends_its_pointer_packet_where_it_must(device):
    one = device.allocate(4096, cpu_access=False, zero=True)
    queue = device.bind(device.queue("copy").fill(one.address, 9, 4096))
    for _ in range(7):
        device.submit(queue)
    back = bytearray(4096)
    device.copy_out(one, 0, back)
    assert back == bytes([9]) * 4096


@pytest.mark.row("HCQ-05")
@pytest.mark.refusal
def test_a_hang_names_queue_signal_awaited_and_seen_value(held):
    device, _ = held
    signal = device.signals.take()
    with Context(HCQ_TIMEOUT_MS=60), pytest.raises(GpuTimeout, match="waiting for signal 0x") as e:
        device.wait_signal(signal, 9)
    facts = e.value.facts
    assert (facts["queue"], facts["awaited"], facts["seen"]) == ("compute0", 9, 0)
    assert facts["signal"] == hex(signal.address)
    assert facts["limit"] == 0.06


@pytest.mark.row("HCQ-05")
def test_signals_inside_bound_words_are_progress(device, monkeypatch):
    """Neither timeline nor ring position move while the pointer packet runs, the signal does."""
    flag = device.allocate(256, host=True, uncached=True, zero=True)
    signal = device.signals.take()
    queue = device.queue("compute")
    for step in range(8):
        queue.poll(flag.address, step).signal(signal.address, step + 1)
    queue.poll(flag.address, 8)
    device.submit(device.bind(queue))

    def is_over(step):
        return signal.value > step or device.work.timeline.reached == 1

    steps = [
        (lambda step=step: flag.region.write32(0, step), lambda step=step: is_over(step))
        for step in range(9)
    ]
    clock = SteppedClock(monkeypatch, device, steps)
    with Context(HCQ_TIMEOUT_MS=200):
        device.synchronize()
    assert clock.steps == []
