"""Rings of a channel: entries, the pushbuffer, the order of publishing, semaphores."""

import threading

import pytest

from hcq import nv
from hcq.errors import GpuTimeout, QueueError
from hcq.settings import Context


def parts(channel):
    """Where the channel's next submission will be written."""
    return channel.put, channel._head


@pytest.mark.row("NV-12")
def test_a_pushbuffer_goes_round_and_is_used_again_when_read(device, words):
    channel = device.channels["compute"]
    cells = device.allocate(4 * 400, zero=True)
    for job in range(400):
        queue = device.queue("compute").write(cells.address + 4 * job, [job])
        for _ in range(3):
            queue.write(cells.address, [0] * 1 + [1] * 0)
        queue.write(device.ring._ring.address, [7] * 4000)
        device.submit(queue)
    assert words(device, cells, 400)[1:] == list(range(1, 400))
    assert channel._head > 2 * (2 << 20)


@pytest.mark.row("NV-12")
def test_a_part_of_the_pushbuffer_that_was_not_read_is_not_written_over(machine, words):
    machine("sm_90")
    device = nv.open(0)
    flag = device.allocate(16, host=True, uncached=True, zero=True)
    cells = device.allocate(4 * 80, zero=True)
    rest = device.allocate(4 * 8000)
    device.submit(device.queue("compute").poll(flag.address, 1))
    jobs = []
    for job in range(80):  # 2.5 MB of words: more than there is room for
        queue = device.queue("compute").write(cells.address + 4 * job, [job + 1])
        jobs.append(queue.write(rest.address, [job] * 8000))
    timer = threading.Timer(0.1, lambda: flag.region.write32(0, 1))
    timer.start()
    for queue in jobs:
        device.submit(queue)
    timer.join()
    assert words(device, cells, 80) == list(range(1, 81))
    device.close()


@pytest.mark.row("NV-12")
@pytest.mark.refusal
def test_a_pushbuffer_is_filled_to_its_last_byte_and_no_further(machine):
    machine("sm_90")
    device = nv.open(0)
    channel = device.channels["compute"]
    flag = device.allocate(16, host=True, uncached=True, zero=True)
    device.synchronize()
    first = channel._head
    device.submit(device.queue("compute").poll(flag.address, 1))
    held = channel._push_view.read(first, 256)

    class FullError(Exception):
        pass

    def full(*_):
        raise FullError

    def fill(count):  # 256 bytes hold a wait, a signal and one word; this many more
        while True:
            device.submit(device.queue("compute").write(flag.address, [0] * count))

    channel.wait_for_space = full
    for count in (961, 1):  # pieces of 4096 bytes, then of 256
        with pytest.raises(FullError):
            fill(count)
    assert channel._head - first == 2 << 20
    assert channel._push_view.read(first, 256) == held
    channel.wait_for_space = None
    flag.region.write32(0, 1)
    device.close()


@pytest.mark.row("NV-11")
def test_the_ring_of_entries_wraps(machine):
    machine("sm_90")
    device = nv.open(0)
    channel = device.channels["copy"]
    signal = device.signals.take()
    for value in range(1, 5000):
        channel.submit(device.queue("copy").signal(signal.address, value))
    device.wait_signal(signal, 4999)
    assert channel.put > 4096
    assert channel.used <= 1
    device.close()


@pytest.mark.row("NV-11")
def test_queues_past_the_timeline_count_in_a_cell_of_their_own(machine):
    machine("sm_90")
    device = nv.open(0)
    channel = device.channels["compute"]
    flag = device.allocate(16, host=True, uncached=True, zero=True)
    for _ in range(3):
        channel.submit(device.queue("compute").barrier())
    device.wait_signal(channel._progress, 3)
    assert channel.used == 0
    channel.submit(device.queue("compute").poll(flag.address, 1))
    assert channel.used == 1  # the fourth is not done for what the others signaled
    flag.region.write32(0, 1)
    device.wait_signal(channel._progress, 4)
    assert channel.used == 0
    device.close()


@pytest.mark.row("NV-11")
@pytest.mark.row("HCQ-24")
@pytest.mark.refusal
def test_open_entries_are_counted_here_and_a_full_ring_is_waited_for(machine):
    machine("sm_90")
    device = nv.open(0)
    channel = device.channels["compute"]
    flag = device.allocate(16, host=True, uncached=True, zero=True)
    device.submit(device.queue("compute").poll(flag.address, 1))
    device.channels["compute"].submit(device.queue("compute").poll(flag.address, 1))

    def fill():
        for _ in range(5000):
            channel.submit(device.queue("compute").barrier())

    with Context(HCQ_TIMEOUT_MS=60), pytest.raises(GpuTimeout, match="space in queue comp") as e:
        fill()
    assert channel.used == 4095
    assert "put" in str(e.value)
    device.close()


@pytest.mark.row("HCQ-24")
@pytest.mark.row("NV-12")
@pytest.mark.refusal
def test_a_job_too_big_for_the_pushbuffer_is_refused_and_runs_bound(device, words):
    cell = device.allocate(8000 * 4, zero=True)
    queue = device.queue("compute")
    for job in range(40):
        queue.write(cell.address, [job] * 8000)
    before = parts(device.channels["compute"])
    with pytest.raises(QueueError, match="too many for queue compute0") as caught:
        device.submit(queue)
    assert caught.value.facts["limit"] == 1 << 20
    assert parts(device.channels["compute"]) == before
    device.submit(device.bind(queue))
    assert words(device, cell, 8000) == [39] * 8000


@pytest.mark.row("NV-12")
def test_bound_words_over_one_entrys_length_are_cut_at_packets(machine, monkeypatch):
    from hcq.nv import queue as queues

    machine("sm_90")
    device = nv.open(0)
    monkeypatch.setattr(queues, "MAX_SEGMENT_WORDS", 100)
    cell = device.allocate(64, host=True, uncached=True, zero=True)
    queue = device.queue("compute")
    for job in range(60):
        queue.write(cell.address + job % 16 * 4, [job])
    device.bind(queue)
    pieces = queue.segments(queue.bound.address)
    assert len(pieces) > 4
    assert all(count <= 100 for _, count in pieces)
    assert sum(count for _, count in pieces) == queue.method_count
    device.wait(device.submit(queue))
    assert [cell.region.read32(4 * i) for i in range(16)] == [
        max(j for j in range(60) if j % 16 == i) for i in range(16)
    ]
    device.close()


@pytest.mark.row("NV-11")
@pytest.mark.row("HCQ-25")
def test_words_entry_fence_index_fence_doorbell(machine, monkeypatch, noted):
    from hcq.nv import channel as channels

    class Fence:
        def __enter__(self):
            log.append(("fence",))

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(channels, "_fence", Fence())
    machine("sm_90")
    device = nv.open(0)
    device.synchronize()
    log = []
    channel = device.channels["compute"]

    channel._push_view = noted(log, "words", channel._push_view)
    channel._ring_view = noted(log, "ring", channel._ring_view)
    channel._userd = noted(log, "index", channel._userd)
    device.gpu.doorbell = noted(log, "doorbell", device.gpu.doorbell)
    put, head = parts(channel)
    log.clear()
    device.wait(device.submit(device.queue("compute").barrier()))
    assert log == [
        ("words", "write", head),
        ("ring", "write64", 8 * put),
        ("fence",),
        ("index", "write32", 0x8C),
        ("fence",),
        ("doorbell", "write32", 0x90),
    ]
    device.close()


@pytest.mark.row("NV-11")
def test_the_token_goes_into_the_doorbell(machine):
    machine("sm_90")
    device = nv.open(0)
    seen = []

    class Doorbell:
        def write32(self, offset, value):
            seen.append((offset, value))

    real, device.gpu.doorbell = device.gpu.doorbell, Doorbell()
    device.submit(device.queue("copy").barrier())
    device.gpu.doorbell = real
    device.channels["copy"].ring_doorbell()
    device.synchronize()
    assert seen == [(0x90, device.channels["copy"].token)]
    device.close()


@pytest.mark.row("NV-14")
def test_a_wait_survives_the_wrap_of_64_bits(machine):
    machine("sm_90")
    device = nv.open(0)
    cell = device.allocate(16, host=True, uncached=True, zero=True)
    cell.region.write64(0, 1)  # one past the wrap
    device.wait(device.submit(device.queue("compute").wait(cell.address, 2**64 - 1)), timeout=5)
    device.close()


@pytest.mark.row("NV-14")
def test_a_signal_holds_64_bits_and_a_time_that_grows(machine):
    machine("sm_90")
    device = nv.open(0)
    cell = device.signals.take()
    times = []
    for value in (1, 1 << 33, (1 << 64) - 1):
        device.wait(device.submit(device.queue("compute").signal(cell.address, value)))
        assert cell.value == value
        times.append(cell.time)
    assert times == sorted(times)
    assert 0 < times[0] < times[2]
    assert times[2] <= device.gpu.clock()
    device.close()
