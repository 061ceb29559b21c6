"""Copies between host and device and inside a device, on every chip."""

import os
import threading
import time

import pytest

from hcq import staging
from hcq.errors import BufferUseError

SLOT = staging.SLOT_BYTES


@pytest.mark.row("HCQ-17")
@pytest.mark.row("HCQ-18")
@pytest.mark.parametrize("size", [1, 3, 4097, SLOT - 1, SLOT, SLOT + 1, 3 * SLOT + 7])
def test_bytes_come_back_through_staging(device, size, round_trip):
    buffer = device.allocate(size + 5, cpu_access=False)
    data = os.urandom(size)
    assert round_trip(device, buffer, data, offset=5) == data


@pytest.mark.row("HCQ-17")
def test_the_source_may_change_once_copy_in_returns(device):
    buffer = device.allocate(2 * SLOT, cpu_access=False)
    source = bytearray(os.urandom(2 * SLOT))
    kept = bytes(source)
    device.copy_in(buffer, 0, source)
    source[:] = bytes(len(source))
    back = bytearray(len(kept))
    device.copy_out(buffer, 0, back)
    assert bytes(back) == kept


@pytest.mark.row("HCQ-17")
def test_more_bytes_than_all_slots_use_each_slot_again(device, round_trip):
    size = (staging.SLOT_COUNT + 2) * SLOT + 11
    buffer = device.allocate(size, cpu_access=False)
    data = os.urandom(1 << 16) * (size // (1 << 16) + 1)
    assert round_trip(device, buffer, data[:size]) == data[:size]


@pytest.fixture
def stalled(device):
    """A device whose copy engine waits for word 0 of a buffer to become 1, slots at hand."""
    buffer = device.allocate(4 * SLOT, cpu_access=False)
    device.copy_in(buffer, 0, bytes(SLOT))
    device.synchronize()
    flag = device.allocate(16, host=True, uncached=True, zero=True)
    device.submit(device.queue("copy").poll(flag.address, 1))
    yield device, buffer, flag
    flag.region.write32(0, 1)
    device.synchronize()


@pytest.mark.row("HCQ-17")
def test_the_host_fills_slots_while_the_copy_engine_is_busy(stalled):
    device, buffer, _ = stalled
    before = device.work.timeline.submitted
    device.copy_in(buffer, 0, bytes(4 * SLOT))  # returns although nothing was copied yet
    assert device.work.timeline.submitted == before + 4
    assert device.work.timeline.reached < before


@pytest.mark.row("HCQ-18")
def test_several_slots_are_in_flight_on_the_way_back(stalled):
    device, buffer, flag = stalled
    before = device.work.timeline.submitted
    back = bytearray(4 * SLOT)
    thread = threading.Thread(target=device.copy_out, args=(buffer, 0, back))
    thread.start()
    limit = time.monotonic() + 5
    while device.work.timeline.submitted < before + 4 and time.monotonic() < limit:
        time.sleep(0.001)
    assert device.work.timeline.submitted == before + 4
    assert thread.is_alive()
    flag.region.write32(0, 1)
    thread.join(10)
    assert not thread.is_alive()


@pytest.mark.row("HCQ-20")
@pytest.mark.parametrize("shift", [1, 16, 1000, 5000, -1, -16, -5000])
def test_overlapping_copies_behave_like_memmove(device, shift):
    data = bytearray(os.urandom(16384))
    buffer = device.allocate(16384, cpu_access=False)
    device.copy_in(buffer, 0, data)
    source = 6000
    device.wait(device.copy(buffer.address + source + shift, buffer.address + source, 4000))
    data[source + shift : source + shift + 4000] = data[source : source + 4000]
    back = bytearray(16384)
    device.copy_out(buffer, 0, back)
    assert back == data


@pytest.mark.row("HCQ-20")
@pytest.mark.row("ALC-06")
def test_the_buffer_behind_an_overlapping_copy_goes_back(device):
    buffer = device.allocate(65536, cpu_access=False)
    device.synchronize()
    live, calls = device.stats.live, device.stats.allocations
    device.copy(buffer.address + 16, buffer.address, 60000)
    assert device.stats.allocations == calls + 1
    device.synchronize()
    assert device.stats.live == live


@pytest.mark.row("AMD-12")
def test_fill_leaves_the_neighbours_alone(device):
    buffer = device.allocate(64, zero=True)
    device.submit(device.queue("copy").fill(buffer.address + 3, 0xEE, 7))
    back = bytearray(16)
    device.copy_out(buffer, 0, back)
    assert back.hex() == "000000" + "ee" * 7 + "00" * 6


@pytest.mark.row("AMD-05")
def test_gpu_addresses_are_host_addresses(device):
    buffer = device.allocate(8192, host=True)
    assert buffer.region.address == buffer.address
    assert buffer.address % 4096 == 0


@pytest.mark.row("AMD-05")
def test_user_pages_are_seen_by_the_copy_engine(device):
    import mmap

    from cffi import FFI

    pages = mmap.mmap(-1, 8192)
    pages[:4] = b"user"
    address = int(FFI().cast("uintptr_t", FFI().from_buffer(pages)))
    adopted = device.adopt(address, 8192)
    assert adopted.address == address
    target = device.allocate(4, cpu_access=False)
    device.copy(target.address, adopted.address, 4)
    back = bytearray(4)
    device.copy_out(target, 0, back)
    assert bytes(back) == b"user"
    device.free(adopted)
    device.synchronize()


@pytest.mark.refusal
@pytest.mark.row("HCQ-03")
def test_copies_outside_a_buffer_are_refused(device):
    buffer = device.allocate(16, name="small")
    with pytest.raises(BufferUseError, match="outside buffer small"):
        device.copy_in(buffer, 10, bytes(7))
    with pytest.raises(BufferUseError, match="outside buffer small"):
        device.copy_out(buffer, -1, bytearray(1))


def test_zero_fills_memory_that_the_host_cannot_address(device):
    buffer = device.allocate(3000, cpu_access=False, zero=True)
    back = bytearray(b"x" * 3000)
    device.copy_out(buffer, 0, back)
    assert back == bytes(3000)


@pytest.mark.row("HCQ-23")
def test_results_are_seen_by_the_copy_engine_and_the_host(device, add, words):
    program, out, a, b = add
    far = device.allocate(256, cpu_access=False)
    args = [out.address, a.address, b.address, 1]
    for k in range(20):
        args[3] = k
        device.launch(program, args, (1, 1, 1), (64, 1, 1))
        device.copy(far.address, out.address, 256)
        assert words(device, far, 2) == [5 + k, 6 + k]


@pytest.mark.row("HCQ-22")
@pytest.mark.refusal
def test_freeing_twice_or_elsewhere_is_refused(device):
    buffer = device.allocate(64, name="once")
    device.free(buffer)
    with pytest.raises(BufferUseError, match=f"once is not one of {device.name}'s, or was freed"):
        device.free(buffer)


def test_memory_is_not_given_back_while_the_gpu_may_use_it(device, compiled):
    program = device.load(compiled("spin"), "spin")
    flag = device.allocate(4, host=True, uncached=True, zero=True)
    frees = device.stats.frees
    device.launch(program, [flag.address], (1, 1, 1), (1, 1, 1))
    other = device.allocate(4096)
    device.free(other)
    assert device.stats.frees == frees
    flag.view()[0] = 1
    device.synchronize()
    assert device.stats.frees == frees + 1


def test_memory_waiting_to_be_freed_is_waited_for_before_running_out(place, vendor, compiled):
    place(vram=256 << 20)
    device = vendor.open(0)
    big = device.allocate(120 << 20, cpu_access=False)
    device.submit(device.queue("copy").fill(big.address, 1, 120 << 20))
    device.free(big)
    assert device.allocate(120 << 20).size == 120 << 20
    device.close()


@pytest.mark.row("HCQ-23")
@pytest.mark.parametrize(("waits", "seen"), [(True, 7), (False, 0)])
def test_a_copy_sees_a_late_write_only_when_it_waits_for_it(device, waits, seen):
    """The twin without the wait reads what was there before."""
    cells = device.allocate(64, host=True, uncached=True, zero=True)
    flag, cell, target = cells.address, cells.address + 16, cells.address + 32
    signal, done = device.signals.take(), device.signals.take()
    late = device.queue("compute").poll(flag, 1).write(cell, [7]).signal(signal.address, 1)
    device.channels["compute"].submit(late)
    early = device.queue("copy")
    if waits:
        early.wait(signal.address, 1)
    else:
        cells.region.write32(48, 1)  # nothing holds the copy back
    device.channels["copy"].submit(early.copy(target, cell, 4).signal(done.address, 1))
    if waits:
        cells.region.write32(0, 1)
    device.wait_signal(done, 1)
    assert cells.region.read32(32) == seen
    cells.region.write32(0, 1)
    device.wait_signal(signal, 1)


@pytest.mark.refusal
def test_a_freed_buffer_has_no_view_any_more(device):
    buffer = device.allocate(64, name="late")
    device.free(buffer)
    assert buffer.region is None
    with pytest.raises(BufferUseError, match="late was freed"):
        buffer.view()


@pytest.mark.row("HCQ-33")
def test_after_ctrl_c_no_slot_is_used_before_all_copies_are_over(device, monkeypatch):
    staging = device.copies.staging
    far = device.allocate(SLOT, cpu_access=False)
    device.copy_in(far, 0, bytes(SLOT))
    submit = device.copies.submit_copy

    def interrupted(*args):
        submit(*args)
        raise KeyboardInterrupt  # after the engine was told, before the slot was noted

    monkeypatch.setattr(device.copies, "submit_copy", interrupted)
    with pytest.raises(KeyboardInterrupt):
        device.copy_in(far, 0, bytes(SLOT))
    assert set(staging._values) == {device.work.timeline.submitted}


@pytest.mark.refusal
def test_copies_need_bytes_in_one_piece_that_may_be_written(device):
    buffer = device.allocate(8)
    with pytest.raises(BufferUseError, match="copies need bytes that lie one after the other"):
        device.copy_in(buffer, 0, memoryview(bytes(8))[::2])
    with pytest.raises(BufferUseError, match="copy_out needs bytes it may write to"):
        device.copy_out(buffer, 0, bytes(8))


@pytest.mark.row("HCQ-17")
def test_the_host_waits_for_a_slot_whose_copy_has_not_run(stalled):
    device, far, flag = stalled
    before = device.work.timeline.submitted
    thread = threading.Thread(target=device.copy_in, args=(far, 0, bytes(SLOT)), daemon=True)
    for slot in range(staging.SLOT_COUNT):
        device.copy_in(far, 0, bytes([slot]) * 4)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    assert device.work.timeline.submitted - before == staging.SLOT_COUNT
    flag.region.write32(0, 1)
    thread.join(10)
    assert not thread.is_alive()
