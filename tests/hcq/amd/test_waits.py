"""Waiting of the host: limits, sleep, Ctrl-C, full rings, the timeline's wrap."""

import _thread
import threading
import time

import pytest

from hcq import amd
from hcq.amd.channel import ComputeChannel, CopyChannel
from hcq.errors import GpuTimeout, QueueError, WaitTimeout
from hcq.settings import Context

# A NOP of 16,000 words: type 3, count 15998.
LONG_NOP = [0xFE7E1002, *[0] * 15999]


def let_go(flag):
    flag.region.write32(0, 1)


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
@pytest.mark.parametrize("waiting", ["synchronize", "wait_signal", "space"])
def test_ctrl_c_ends_a_wait_within_a_tenth_of_a_second(held, waiting):
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
                waits[waiting]()
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


def test_bound_copy_words_are_padded_as_indirect_buffers_must_be(device):
    queue = device.bind(device.queue("copy").fill(device.allocate(64).address, 1, 64))
    assert len(queue.words) == 8


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
