"""What is NVIDIA's own on a running device: bank 0, private and shared memory, chains, rings."""

import threading

import pytest

from hcq import nv
from hcq.batch import Batch
from hcq.errors import DeviceBanned, GpuTimeout, LaunchError, OutOfMemory, QueueError
from hcq.queue import Slot, SlotKind
from hcq.settings import Context

CHIPS = ("sm_86", "sm_90", "sm_120")
ONE = (1, 1, 1)


@pytest.fixture(params=CHIPS)
def chip(request):
    return request.param


@pytest.fixture
def load(device, compiled):
    """load(name): a program on the device."""
    return lambda name: device.load(compiled(name), name)


# Constant bank 0.


@pytest.mark.row("NV-08")
def test_a_kernel_reads_the_sizes_of_its_launch(device, load, words):
    out = device.allocate(24)
    device.launch(load("sizes"), [out.address], (5, 3, 2), (32, 2, 4))
    assert words(device, out, 6) == [32, 2, 4, 5, 3, 2]


@pytest.mark.row("NV-08")
def test_sizes_are_filled_in_when_arguments_came_without(device, load, words):
    program = load("sizes")
    out = device.allocate(24)
    arguments = device.arguments(program, [out.address])
    device.submit(device.queue("compute").launch(program, arguments, (7, 1, 1), (64, 1, 1)))
    assert words(device, out, 6) == [64, 1, 1, 7, 1, 1]


@pytest.mark.row("NV-08")
@pytest.mark.refusal
def test_arguments_of_another_size_are_refused(device, load):
    program = load("sizes")
    arguments = device.arguments(program, [0x1000], ONE, ONE)
    with pytest.raises(LaunchError, match="laid down for another launch size"):
        device.queue("compute").launch(program, arguments, (2, 1, 1), ONE)


@pytest.mark.row("NV-08")
@pytest.mark.row("BAT-03")
def test_a_batch_patches_the_sizes_in_bank_0(device, load, words):
    program = load("sizes")
    out = device.allocate(24)
    batch = Batch(device)
    n = Slot("n", SlotKind.VARIABLE, bits=16)
    block = batch.arguments(program, [out.address])
    batch.queue("compute").launch(program, block, (n, 2, 1), (32, 1, 1))
    for value in (3, 9):
        batch.submit({"n": value})
        assert words(device, out, 6) == [32, 1, 1, value, 2, 1]
    batch.free()


# Code, data, shared and private memory.


@pytest.mark.row("NV-09")
@pytest.mark.row("CMP-16")
def test_data_of_a_module_lies_where_the_code_says(device, load, words):
    program = load("data")
    out = device.allocate(4)
    found = []
    for index in (0, 2, 3):
        device.launch(program, [out.address, index], ONE, ONE)
        found += words(device, out, 1)
    assert found == [10 + 7, 30 + 8, 50 + 9]


@pytest.mark.row("NV-09")
def test_two_loads_have_data_of_their_own(device, load, words):
    out = device.allocate(8)
    for at, program in enumerate((load("data"), load("data"))):
        device.launch(program, [out.address + 4 * at, 0], ONE, ONE)
    assert words(device, out, 2) == [17, 17]


@pytest.mark.row("NV-16")
@pytest.mark.parametrize("name", ["shared", "shared_most"])
def test_shared_memory_is_given(device, load, words, name):
    out = device.allocate(256)
    device.launch(load(name), [out.address], ONE, (64, 1, 1))
    assert words(device, out, 64) == [3 * (t ^ 1) for t in range(64)]


@pytest.mark.row("NV-17")
def test_private_memory_of_threads_is_their_own(device, load, words):
    out = device.allocate(256)
    device.launch(load("spill"), [out.address, 7], ONE, (64, 1, 1))
    assert words(device, out, 64) == [7 * t for t in range(64)]


@pytest.mark.row("NV-17")
@pytest.mark.row("ALC-11")
def test_private_memory_grows_with_the_neediest_program(device, load, words):
    small = load("spill")
    before = device.local.bytes_per_thread
    big = load("spill_huge")
    assert before == small.local_size < device.local.bytes_per_thread == big.local_size
    out = device.allocate(256)
    device.launch(big, [out.address, 3999], ONE, (64, 1, 1))
    assert words(device, out, 3) == [0, 3999, 7998]
    device.launch(small, [out.address, 2], ONE, (64, 1, 1))
    assert words(device, out, 3) == [0, 2, 4]


@pytest.mark.row("NV-17")
@pytest.mark.row("ALC-11")
@pytest.mark.refusal
@pytest.mark.parametrize("chip", ["sm_90"])
def test_private_memory_that_cannot_be_had_names_kernel_and_bytes(place, compiled, words):
    place(vram=1 << 30)
    device = nv.open(0)
    program = device.load(compiled("spill"), "spill")
    rest = device.allocate(64 << 20, cpu_access=False)
    with pytest.raises(OutOfMemory, match=r"kernel spill_huge: 16\d\d\d bytes of private") as e:
        device.load(compiled("spill_huge"), "spill_huge")
    assert e.value.facts["have_per_thread"] == program.local_size
    out = device.allocate(256)
    device.launch(program, [out.address, 2], ONE, (64, 1, 1))
    assert words(device, out, 3) == [0, 2, 4]
    device.free(rest)
    device.close()


@pytest.mark.row("AMD-09")
def test_code_at_a_used_address_is_seen(device, load, words):
    """Code that lay there before must not run again."""
    out = device.allocate(24)
    for _ in range(3):
        program = load("data")
        address = program.address
        device.launch(program, [out.address, 1], ONE, ONE)
        program.free()
        device.synchronize()
        other = load("sizes")
        assert other.address == address
        device.launch(other, [out.address], ONE, ONE)
        assert words(device, out, 2) == [1, 1]
        other.free()
        device.synchronize()


# Chains.


@pytest.mark.row("NV-13")
@pytest.mark.parametrize("chained", [False, True])
def test_a_hundred_dependent_kernels(device, load, words, chained):
    program = load("bump")
    cell = device.allocate(4, zero=True)
    queue = device.queue("compute")
    queue.chained = chained
    for _ in range(100):
        arguments = device.arguments(program, [cell.address], ONE, ONE)
        queue.launch(program, arguments, ONE, ONE).barrier()
    device.submit(queue)
    assert words(device, cell, 1) == [100]


@pytest.mark.row("NV-13")
def test_a_bound_chain_runs_again(device, load, words):
    program = load("bump")
    cell = device.allocate(4, zero=True)
    queue = device.queue("compute")
    queue.chained = True
    for _ in range(10):
        arguments = device.arguments(program, [cell.address], ONE, ONE)
        queue.launch(program, arguments, ONE, ONE).barrier()
    device.bind(queue)
    for _ in range(3):
        device.submit(queue)
    assert words(device, cell, 1) == [30]


# Rings.


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
def test_words_entry_fence_index_fence_doorbell(machine, monkeypatch):
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

    class Noted:
        def __init__(self, name, region):
            self.name, self.region = name, region

        def __getattr__(self, verb):
            inner = getattr(self.region, verb)
            if not verb.startswith("write"):
                return inner

            def call(*args):
                log.append((self.name, verb, args[0]))
                return inner(*args)

            return call

    channel._push_view = Noted("words", channel._push_view)
    channel._ring_view = Noted("ring", channel._ring_view)
    channel._userd = Noted("index", channel._userd)
    device.gpu.doorbell = Noted("doorbell", device.gpu.doorbell)
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


@pytest.mark.refusal
@pytest.mark.row("REG-17")
def test_a_forked_child_is_refused(machine, monkeypatch):
    machine("sm_90")
    device = nv.open(0)
    monkeypatch.setattr(device.gpu.driver, "process", -1)
    for use in (lambda: device.allocate(4), device.synchronize, lambda: nv.open(0)):
        with pytest.raises(DeviceBanned, match="opened before fork"):
            use()
    monkeypatch.undo()
    device.close()


@pytest.mark.row("NV-06")
@pytest.mark.parametrize("chip", ["sm_90"])
def test_plain_buffers_may_lie_above_2_to_the_40(place, compiled, words, monkeypatch):
    sim = place()
    device = nv.open(0)
    reserve = sim.reserve

    def no_low(size, alignment=4096, below=1 << 47):
        if below <= 1 << 40:
            raise OSError(12, "no address space")
        return reserve(size, alignment, below)

    monkeypatch.setattr(sim, "reserve", no_low)
    program = device.load(compiled("bump"), "bump")
    cell, far = device.allocate(4, zero=True), device.allocate(4, cpu_access=False)
    assert cell.address > 1 << 40
    device.launch(program, [cell.address], ONE, ONE)
    device.copy(far.address, cell.address, 4)
    assert words(device, far, 1) == [1]
    with pytest.raises(QueueError, match=r"no address below 2\*\*40 is left"):
        device.bind(device.queue("compute").write(cell.address, [2]))
    device.close()
