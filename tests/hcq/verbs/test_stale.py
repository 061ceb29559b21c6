"""Queues, programs and batches whose time is over, and binding that fails: on every chip."""

import pytest

from hcq.batch import Batch
from hcq.errors import BufferUseError, LaunchError, OutOfMemory, QueueError
from hcq.queue import Slot, SlotKind

ONE = (1, 1, 1)


@pytest.fixture
def bump(device, compiled):
    """A program that counts up, its cell, and a queue that launches it once."""
    program = device.load(compiled("bump"), "bump")
    cell = device.allocate(16, host=True, zero=True)
    arguments = device.arguments(program, (cell.address,), ONE, ONE)
    return program, cell, device.queue().launch(program, arguments, ONE, ONE)


@pytest.mark.refusal
@pytest.mark.parametrize("is_bound", [False, True])
def test_a_queue_of_a_freed_program_is_refused_though_other_code_lies_there(
    device, compiled, bump, is_bound
):
    program, cell, queue = bump
    if is_bound:
        device.bind(queue)
    device.wait(device.submit(queue))
    place = program.address
    program.free()
    assert device.load(compiled("bump"), "bump").address == place
    for submit in (device.submit, device.channels["compute"].submit):
        with pytest.raises(LaunchError, match="kernel bump was freed") as caught:
            submit(queue)
    assert caught.value.hint == "load the code again, and build the queue anew"
    device.synchronize()
    assert cell.region.read32(0) == 1


@pytest.mark.refusal
def test_a_batch_of_a_freed_program_is_refused(device, bump):
    program, cell, _ = bump
    batch = Batch(device)
    batch.queue("compute").launch(program, batch.arguments(program, (cell.address,)), ONE, ONE)
    device.wait(batch.submit())
    program.free()
    with pytest.raises(LaunchError, match="kernel bump was freed"):
        batch.submit()
    batch.free()


@pytest.mark.refusal
def test_a_freed_batch_takes_and_runs_nothing_more(device):
    to = device.allocate(64, host=True, zero=True)
    batch = Batch(device)
    batch.queue("copy").fill(to.address, 7, 4)
    device.wait(batch.submit())
    to.region.write32(0, 0)
    batch.free()
    batch.free()
    calls = (
        batch.submit,
        batch.seal,
        lambda: batch.queue("copy"),
        lambda: batch.arguments(None, ()),
    )
    for call in calls:
        with pytest.raises(QueueError, match="the batch was freed") as caught:
            call()
    assert caught.value.hint == "build it anew: Batch(device)"
    device.synchronize()
    assert to.region.read32(0) == 0


@pytest.mark.row("HCQ-02")
def test_an_unbound_queue_runs_from_the_ring_again(device, bump):
    _, cell, queue = bump
    words = list(queue.words)
    device.wait(device.submit(device.bind(queue)))
    device.unbind(queue)
    assert len(queue.words) == len(words)
    device.wait(device.submit(queue))
    assert cell.region.read32(0) == 2


@pytest.mark.refusal
def test_a_queue_that_could_not_be_bound_is_as_before(device, bump, monkeypatch):
    _, cell, queue = bump
    words = list(queue.words)

    def short(*_, **__):
        raise OutOfMemory("none left")

    with monkeypatch.context() as patch:
        patch.setattr(device, "allocate", short)
        with pytest.raises(OutOfMemory, match="none left"):
            device.bind(queue)
    assert queue.bound is None
    assert queue.words == words
    device.wait(device.submit(queue))
    assert cell.region.read32(0) == 1
    device.wait(device.submit(device.bind(queue)))
    assert cell.region.read32(0) == 2


@pytest.mark.refusal
def test_binding_that_fails_gives_its_memory_back(device, monkeypatch):
    queue = device.queue("copy").fill(0x10_0000, 1, 4)
    before = device.stats.live
    with monkeypatch.context() as patch:
        patch.setattr(device.ring, "pin", lambda queue: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            device.bind(queue)
    device.synchronize()
    assert (device.stats.live, queue.bound) == (before, None)


@pytest.mark.row("BAT-03")
def test_a_batch_whose_sealing_failed_is_sealed_at_the_next_try(device, bump, monkeypatch):
    program, cell, _ = bump
    n = Slot("n", SlotKind.VARIABLE, bits=8)
    batch = Batch(device)
    block = batch.arguments(program, (cell.address,))
    batch.queue("compute").launch(program, block, (n, 1, 1), ONE)
    real = device.bind

    def short(queue):
        raise OutOfMemory("none left")

    monkeypatch.setattr(device, "bind", short)
    with pytest.raises(OutOfMemory, match="none left"):
        batch.submit({n: 2})
    monkeypatch.setattr(device, "bind", real)
    device.wait(batch.submit({n: 3}))
    assert cell.region.read32(0) == 3
    batch.free()


@pytest.mark.refusal
def test_a_queue_with_slots_is_a_batchs_also_once_it_is_bound(device):
    queue = device.bind(device.queue("copy").fill(Slot("to"), 1, 16))
    with pytest.raises(QueueError, match="has slots: submit it as a batch"):
        device.submit(queue)
    device.unbind(queue)


@pytest.mark.refusal
def test_memory_and_programs_of_another_gpu_are_refused(place, vendor, compiled):
    place(count=2)
    with vendor.open(0) as first, vendor.open(1) as second:
        program = first.load(compiled("bump"), "bump")
        for buffer in (first.allocate(64, host=True), first.allocate(64, cpu_access=False)):
            text = f"{second.name}: buffer {buffer.label} is memory of {first.name}"
            for call in (second.copy_in, second.copy_out):
                with pytest.raises(BufferUseError, match=text) as caught:
                    call(buffer, 0, bytearray(4))
                assert "copy between devices through the host" in caught.value.hint
        with pytest.raises(LaunchError, match=f"bump was loaded on <{first.name} "):
            second.launch(program, (0x1000,), ONE, ONE)
        second.synchronize()


def test_two_devices_of_one_gpu_use_each_others_memory(place, vendor):
    place()
    with vendor.open(0) as first, vendor.open(0) as second:
        for options in ({"host": True}, {"cpu_access": False}):
            buffer = first.allocate(64, **options)
            second.copy_in(buffer, 0, b"abcd")
            second.synchronize()
            back = bytearray(4)
            first.copy_out(buffer, 0, back)
            assert bytes(back) == b"abcd"
