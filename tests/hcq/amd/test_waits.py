"""Waiting of the host: limits, sleep, Ctrl-C, full rings, the timeline's wrap."""

import _thread
import threading
import time

import pytest

from hcq import amd
from hcq.amd.channel import ComputeChannel, CopyChannel
from hcq.errors import DeviceLost, GpuTimeout, QueueError, WaitTimeout
from hcq.settings import Context

# A NOP of 16,000 words: type 3, count 15998.
LONG_NOP = [0xFE7E1002, *[0] * 15999]


@pytest.fixture
def held(device):
    """A device whose compute queue waits for word 0 of a buffer to become 1; and the buffer."""
    flag = device.allocate(16, host=True, uncached=True, zero=True, name="flag")
    device.submit(device.queue("compute").poll(flag.address, 1))
    return device, flag


def let_go(flag):
    flag.region.write32(0, 1)


@pytest.mark.row("HCQ-09")
@pytest.mark.refusal
def test_a_callers_limit_leaves_the_device_good(held):
    device, flag = held
    started = time.monotonic()
    with pytest.raises(WaitTimeout, match=r"AMD:0: value 1 did not come within 0.05 s") as caught:
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
def test_a_users_signal_is_waited_for(device):
    signal = device.signals.take()
    device.submit(device.queue("copy").signal(signal.address, 9))
    device.wait_signal(signal, 9)
    assert signal.time > 0


@pytest.mark.row("HCQ-05")
@pytest.mark.row("HCQ-10")
@pytest.mark.row("HCQ-11")
@pytest.mark.refusal
def test_no_progress_is_a_hang_once_and_then_the_device_is_lost(held):
    device, flag = held
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
            with pytest.raises(DeviceLost, match="AMD:0 is lost since: GpuTimeout on AMD:0"):
                use()
            assert time.monotonic() - started < 0.1
        started = time.monotonic()
        device.close()
        assert time.monotonic() - started < 0.5


@pytest.mark.row("HCQ-05")
def test_progress_starts_the_limit_over(device):
    flags = device.allocate(64, host=True, uncached=True, zero=True)
    for at in range(6):
        device.submit(device.queue("compute").poll(flags.address + 4 * at, 1))

    def release():
        for at in range(6):
            time.sleep(0.05)
            flags.region.write32(4 * at, 1)

    thread = threading.Thread(target=release)
    thread.start()
    with Context(HCQ_TIMEOUT_MS=200):  # all six take 300 ms, none of them 200
        device.synchronize()
    thread.join()


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
    thread.join(1)
    assert "is lost since" in str(caught[0])


@pytest.mark.row("AMD-16")
def test_after_a_short_spin_the_host_sleeps(held):
    device, flag = held
    threading.Timer(0.05, let_go, [flag]).start()
    device.synchronize()
    # 50 ms in sleeps of at most 20 ms, not thousands of looks.
    assert 1 <= device.work.waits.sleeps < 20


@pytest.mark.row("AMD-16")
def test_a_lost_interrupt_still_ends_the_wait(machine):
    sim = machine()
    device = amd.open(0)
    sim.drop_interrupts()
    flag = device.allocate(16, host=True, uncached=True, zero=True)
    device.submit(device.queue("compute").poll(flag.address, 1))
    threading.Timer(0.03, let_go, [flag]).start()
    started = time.monotonic()
    device.synchronize()
    assert time.monotonic() - started < 0.5
    device.close()


@pytest.mark.row("HCQ-33")
@pytest.mark.parametrize("place", ["synchronize", "wait_signal", "space"])
def test_ctrl_c_ends_a_wait_within_a_tenth_of_a_second(held, place):
    device, flag = held
    signal = device.signals.take()

    def fill_the_ring():
        while True:
            device.channels["compute"].publish(LONG_NOP)

    waits = {
        "synchronize": device.synchronize,
        "wait_signal": lambda: device.wait_signal(signal, 1),
        "space": fill_the_ring,
    }
    late = []
    # Virtual seconds pass quickly: the default limit must not end the wait first. Three
    # tries, since the test's own timer may be late on a busy machine.
    with Context(HCQ_TIMEOUT_MS=10**9):
        for _ in range(3):
            pressed = []

            def press(pressed=pressed):
                pressed.append(time.monotonic())
                _thread.interrupt_main()

            threading.Timer(0.1, press).start()
            with pytest.raises(KeyboardInterrupt):
                waits[place]()
            late.append(time.monotonic() - pressed[0])
    assert min(late) < 0.1
    let_go(flag)
    device.synchronize()
    device.wait(device.submit(device.queue("compute").barrier()))


@pytest.mark.row("HCQ-24")
@pytest.mark.refusal
def test_a_full_ring_that_stays_full_names_queue_put_and_get(held):
    device, _ = held
    channel = device.channels["compute"]
    while channel.used + len(LONG_NOP) < channel.ring_units:
        channel.publish(LONG_NOP)
    with Context(HCQ_TIMEOUT_MS=60), pytest.raises(GpuTimeout, match="space in queue comp") as e:
        channel.publish(LONG_NOP)
    assert "put" in str(e.value)
    assert "get" in str(e.value)


@pytest.mark.row("HCQ-24")
@pytest.mark.parametrize("kind", ["compute", "copy"])
def test_three_rings_full_of_jobs_all_run(device, kind, words):
    """3N + 1 jobs of N bytes each: the ring goes round and waits for space."""
    buffer = device.allocate(65536, cpu_access=False, zero=True)
    jobs = 3 * device.channels[kind].ring_bytes // 40000 + 1
    for job in range(jobs):
        device.submit(device.queue(kind).write(buffer.address + 4 * job, [job] + [7] * 9990))
    assert words(device, buffer, jobs + 1) == [*range(jobs), 7]
    assert device.channels[kind].put * device.channels[kind].unit > 3 << 20


@pytest.mark.row("HCQ-24")
@pytest.mark.refusal
@pytest.mark.parametrize("kind", ["compute", "copy"])
def test_a_job_too_big_for_the_ring_is_refused_before_any_write(device, kind):
    queue = device.queue(kind)
    for _ in range(40):
        queue.write(0x1000, [0] * 16000)
    put = device.channels[kind].put
    with pytest.raises(QueueError, match=f"too many for queue {kind}0") as caught:
        device.submit(queue)
    assert caught.value.facts["limit"] == 524288
    assert device.channels[kind].put == put
    assert device.work.timeline.submitted == 0


@pytest.mark.row("AMD-12")
def test_no_copy_packet_crosses_the_ring_end(device):
    channel = device.channels["copy"]
    buffer = device.allocate(64, cpu_access=False, zero=True)
    paddings = []
    padding = channel._padding
    channel._padding = lambda count: paddings.append(padding(count)) or paddings[-1]
    # About 107 packets each: their size does not divide the ring, whose end comes in the middle.
    while channel.put <= 2 * channel.ring_bytes:
        queue = device.queue("copy")
        for _ in range(100):
            queue.fill(buffer.address, 1, 64)
        device.submit(queue)
    device.synchronize()
    assert any(paddings)
    assert channel.put % 32 == 0


@pytest.mark.row("AMD-16")
@pytest.mark.row("HCQ-33")
def test_the_kernel_is_never_slept_in_for_long(held):
    """So that a lost interrupt costs little and Ctrl-C is seen wherever it arrives."""
    device, flag = held
    lengths = []
    call = device.work.process.call

    def noted(ioctl, **fields):
        if ioctl.name == "KFD_WAIT_EVENTS":
            lengths.append(fields["timeout"])
        return call(ioctl, **fields)

    device.work.process.call = noted
    try:
        with pytest.raises(WaitTimeout, match="did not come"):
            device.synchronize(timeout=0.3)
    finally:
        device.work.process.call = call
    let_go(flag)
    assert lengths
    assert max(lengths) <= 50


@pytest.mark.row("AMD-08")
@pytest.mark.parametrize(("kind", "unit"), [(ComputeChannel, 4), (CopyChannel, 1)])
def test_pointers_cross_2_to_the_32_and_are_never_wrapped(device, kind, unit):
    start = (1 << 32) - 64
    channel = kind(device._process, device._node, device.arch, start=start)
    cell = device.signals.take()
    for value in range(1, 30):
        queue = device.queue(kind.kind).signal(cell.address, value)
        channel.submit(queue)
    device.wait_signal(cell, 29)
    assert channel.put > 1 << 32
    assert channel.pointers.region.read64(128) == channel.put
    assert channel.doorbell.read64(0) == channel.put
    channel.close()


@pytest.mark.row("HCQ-08")
@pytest.mark.parametrize("limit", [1 << 31, 1 << 32, 1 << 64])
def test_the_timeline_goes_past_the_hardware_payload(machine, limit):
    machine()
    device = amd.open(0, timeline_start=limit - 4)
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


@pytest.mark.row("HCQ-26")
def test_bound_words_are_submitted_by_pointer_and_stay_patchable(device, compiled, words):
    program = device.load(compiled("bump"), "bump")
    cells = device.allocate(8, zero=True)
    block = device.allocate(64, host=True, uncached=True)
    block.region.write64(0, cells.address)
    queue = device.queue("compute").launch(program, block.address, (1, 1, 1), (1, 1, 1))
    device.bind(queue)
    put = device.channels["compute"].put
    for _ in range(5):
        device.submit(queue)
    assert (device.channels["compute"].put - put) // 5 < len(queue.words) + 20
    device.synchronize()
    block.region.write64(0, cells.address + 4)
    device.submit(queue)
    assert words(device, cells, 2) == [5, 1]
    device.unbind(queue)
    with pytest.raises(QueueError, match="is bound: its words"):
        device.bind(queue).barrier()


@pytest.mark.row("HCQ-26")
def test_a_bound_copy_queue_ends_its_pointer_packet_where_it_must(device):
    one = device.allocate(4096, cpu_access=False, zero=True)
    queue = device.bind(device.queue("copy").fill(one.address, 9, 4096))
    for _ in range(7):
        device.submit(queue)
    back = bytearray(4096)
    device.copy_out(one, 0, back)
    assert back == bytes([9]) * 4096


def test_an_empty_bound_queue_runs_nothing(device):
    queue = device.bind(device.queue("compute"))
    device.wait(device.submit(queue))
    assert device.health() == "ok"


def test_bound_copy_words_are_padded_as_indirect_buffers_must_be(device):
    queue = device.bind(device.queue("copy").fill(device.allocate(64).address, 1, 64))
    assert len(queue.words) == 8


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
def test_signals_inside_bound_words_are_progress(device):
    """Neither timeline nor ring position move while the pointer packet runs, the signal does."""
    flag = device.allocate(256, host=True, uncached=True, zero=True)
    signal = device.signals.take()
    queue = device.queue("compute")
    for step in range(8):
        queue.poll(flag.address, step).signal(signal.address, step + 1)
    queue.poll(flag.address, 8)
    device.submit(device.bind(queue))

    def advance():
        for step in range(1, 9):
            time.sleep(0.1)
            flag.region.write32(0, step)

    thread = threading.Thread(target=advance)
    thread.start()
    with Context(HCQ_TIMEOUT_MS=400):
        device.synchronize()
    thread.join()


@pytest.mark.row("HCQ-10")
def test_a_fault_reaches_waiters_while_another_thread_waits_for_space(held, compiled):
    device, flag = held
    let_go(flag)
    program = device.load(compiled("bump"), "bump")
    flag.region.write32(0, 0)
    device.submit(device.queue("compute").poll(flag.address, 1))
    device.launch(program, [1 << 16], (1, 1, 1), (1, 1, 1))
    errors = []

    def fill():
        while True:
            queue = device.queue("compute")
            for _ in range(2):
                queue._packet(*LONG_NOP)
            device.submit(queue)

    def guarded(work):
        try:
            work()
        except Exception as error:
            errors.append(type(error).__name__)

    # More waiters than one, so that some sleep in the kernel while `fill` holds the device.
    threads = [threading.Thread(target=guarded, args=(fill,))]
    threads += [threading.Thread(target=guarded, args=(device.synchronize,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    let_go(flag)
    started = time.monotonic()
    for thread in threads:
        thread.join(20)
    assert time.monotonic() - started < 2
    assert sorted(errors) == ["DeviceLost"] * 3 + ["GpuFault"]


@pytest.mark.row("AMD-09")
def test_caches_of_code_are_dropped_after_the_wait_for_its_upload(device, compiled):
    device.load(compiled("bump"), "bump")
    channel = device.channels["compute"]
    seen = []
    publish = channel.publish
    channel.publish = lambda words, *rest: (seen.append(list(words)), publish(words, *rest))
    device.synchronize()
    device.wait(device.submit(device.queue("compute").barrier()))
    # ACQUIRE_MEM of 8 words: the wait's comes first, then the one that drops instructions (bit 0).
    starts = [at for at, word in enumerate(seen[0]) if word == 0xC0065802]
    assert [seen[0][at + 7] & 3 for at in starts][:2] == [0, 1]
    assert seen[0].index(0xC0053C02) < starts[0]  # WAIT_REG_MEM
    assert channel.prelude == []


@pytest.mark.row("HCQ-33")
def test_an_interrupted_submission_still_drops_caches_of_code_later(held, compiled):
    device, flag = held
    let_go(flag)
    device.load(compiled("bump"), "bump")
    channel = device.channels["compute"]
    prelude = list(channel.prelude)

    def interrupted(done, which):
        raise KeyboardInterrupt

    real, channel.wait_for_space = channel.wait_for_space, interrupted
    units, channel.ring_units = channel.ring_units, 1
    with pytest.raises(KeyboardInterrupt):
        device.submit(device.queue("compute").barrier())
    channel.wait_for_space, channel.ring_units = real, units
    assert prelude
    assert channel.prelude == prelude
    device.wait(device.submit(device.queue("compute").barrier()))
    assert channel.prelude == []
