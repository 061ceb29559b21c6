"""Open, copy and launch on chips of every generation; what every verb does."""

import importlib

import pytest

from hcq.errors import Unsupported

ALL = ("gfx1100", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")


@pytest.mark.row("HCQ-37")
@pytest.mark.row("HCQ-04")
@pytest.mark.parametrize("chip", ALL, indirect=True)
def test_open_copy_launch(device, add, words, chip):
    assert device.target == chip
    program, out, a, b = add
    device.launch(program, [out.address, a.address, b.address, 100], (1, 1, 1), (64, 1, 1))
    assert words(device, out, 64) == [105 + i for i in range(64)]


@pytest.mark.row("HCQ-04")
def test_every_verb_of_a_compute_queue(device, add, words):
    program, out, a, b = add
    flag = device.allocate(64, host=True, uncached=True, zero=True)
    done, time = device.signals.take(), device.signals.take()
    values = [out.address, a.address, b.address, 0]
    arguments = device.arguments(program, values, (1, 1, 1), (64, 1, 1))
    queue = (
        device.queue("compute")
        .poll(flag.address, 3)
        .timestamp(time.address + 8)
        .launch(program, arguments, (1, 1, 1), (64, 1, 1))
        .barrier()
        .write(flag.address + 16, [11, 12])
        .signal(done.address, 5)
        .wait(done.address, 5)
    )
    value = device.submit(queue)
    assert done.value == 0
    flag.region.write32(0, 3)
    device.wait(value)
    assert done.value == 5
    assert 0 < time.time < done.time
    assert [flag.region.read32(16), flag.region.read32(20)] == [11, 12]
    assert words(device, out, 3) == [5, 6, 7]


@pytest.mark.row("HCQ-04")
def test_every_verb_of_a_copy_queue(device):
    memory = device.allocate(256, host=True, uncached=True, zero=True)
    at = memory.address
    done, time = device.signals.take(), device.signals.take()
    queue = (
        device.queue("copy")
        .fill(at, 0xAB, 16)
        .copy(at + 32, at, 7)
        .write(at + 64, [1, 2, 3])
        .barrier()
        .timestamp(time.address + 8)
        .signal(done.address, 9)
        .wait(done.address, 9)
        .poll(at + 64, 1)
    )
    device.wait(device.submit(queue))
    data = bytes(memory.view()[:80])
    assert data[:16] == b"\xab" * 16
    assert data[32:40] == b"\xab" * 7 + b"\0"
    assert data[64:76] == bytes([1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0])
    assert done.value == 9
    assert 0 < time.time <= done.time


@pytest.mark.row("HCQ-04")
@pytest.mark.refusal
def test_a_verb_the_kind_lacks_names_both(device, add):
    with pytest.raises(Unsupported, match="a compute queue has no copy"):
        device.queue("compute").copy(0, 16, 4)
    with pytest.raises(Unsupported, match="a compute queue has no fill"):
        device.queue("compute").fill(0, 0, 4)
    with pytest.raises(Unsupported, match="a copy queue has no launch"):
        device.queue("copy").launch(add[0], 0, (1, 1, 1), (1, 1, 1))


def test_a_queue_past_the_timeline_runs(device):
    signal = device.signals.take()
    for value in range(1, 40):
        device.channels["compute"].submit(device.queue("compute").signal(signal.address, value))
    device.wait_signal(signal, 39)


@pytest.mark.row("HCQ-26")
def test_bound_queues_of_launches_run_again_and_again(device, compiled, words):
    program = device.load(compiled("bump"), "bump")
    cell = device.allocate(4, zero=True)
    queue = device.queue("compute")
    for _ in range(5):
        arguments = device.arguments(program, [cell.address], (1, 1, 1), (1, 1, 1))
        queue.launch(program, arguments, (1, 1, 1), (1, 1, 1)).barrier()
    device.bind(queue)
    for _ in range(4):
        device.submit(queue)
    assert words(device, cell, 1) == [20]
    device.unbind(queue)


@pytest.mark.row("HCQ-24")
@pytest.mark.parametrize("kind", ["compute", "copy"])
def test_many_jobs_go_round_the_ring(device, kind, words):
    cell = device.allocate(64, host=True, uncached=True, zero=True)
    for job in range(3000):
        device.submit(device.queue(kind).write(cell.address, [job] * 16))
    assert words(device, cell, 16) == [2999] * 16


def test_the_vendors_are_found_by_name():
    for name in ("amd", "nv"):
        assert importlib.import_module(f"hcq.{name}").open
