"""Copies between host and device and inside a device."""

import os
import threading

import pytest

from hcq import amd, staging
from hcq.errors import OutOfMemory

SLOT = staging.SLOT_BYTES


@pytest.mark.row("HCQ-18")
def test_the_way_back_is_as_fast_as_the_way_in(machine):
    sim = machine(seed=2)
    device = amd.open(0)
    buffer = device.allocate(32 * SLOT, cpu_access=False)
    data = bytearray(32 * SLOT)
    device.copy_in(buffer, 0, data)
    device.synchronize()
    start = sim.now()
    device.copy_in(buffer, 0, data)
    device.synchronize()
    middle = sim.now()
    device.copy_out(buffer, 0, data)
    assert sim.now() - middle <= (middle - start) / 0.8
    device.close()


@pytest.mark.row("HCQ-17")
def test_a_host_view_is_written_directly_when_nothing_runs(device, round_trip):
    buffer = device.allocate(4096)
    before = device.work.timeline.submitted
    assert round_trip(device, buffer, b"abc", 7) == b"abc"
    assert device.work.timeline.submitted == before
    assert bytes(buffer.view()[7:10]) == b"abc"


@pytest.mark.row("AMD-12")
@pytest.mark.parametrize("size", [(4 << 20) - 1, 4 << 20, (4 << 20) + 1])
def test_device_copies_around_four_mebibytes(device, size):
    one, two = (device.allocate(size, cpu_access=False) for _ in range(2))
    data = os.urandom(1 << 20) * 5
    device.copy_in(one, 0, data[:size])
    device.copy(two.address, one.address, size)
    back = bytearray(size)
    device.copy_out(two, 0, back)
    assert bytes(back) == data[:size]


@pytest.mark.row("AMD-05")
def test_without_visible_vram_staging_is_used(machine, round_trip):
    machine(large_bar=False)
    device = amd.open(0)
    buffer = device.allocate(5000)
    assert buffer.region is None
    data = os.urandom(5000)
    assert round_trip(device, buffer, data) == data
    device.close()


@pytest.mark.row("AMD-05")
@pytest.mark.refusal
def test_a_demanded_view_without_visible_vram_points_at_resizable_bar(machine):
    machine(large_bar=False)
    device = amd.open(0)
    with pytest.raises(OutOfMemory, match="no VRAM that the CPU can address") as caught:
        device.allocate(4096, cpu_access=True)
    assert "resizable BAR" in caught.value.hint
    device.close()


@pytest.mark.row("AMD-05")
def test_host_writes_to_vram_are_flushed_before_each_submission(device):
    flushes = []
    device.hdp.flush = lambda: flushes.append(device.work.timeline.submitted)
    device.allocate(4096)
    value = device.submit(device.queue("compute").barrier())
    assert flushes == [value - 1]


@pytest.mark.row("AMD-12")
@pytest.mark.refusal
def test_without_the_copy_engine_raw_copies_are_unsupported(machine, round_trip):
    from hcq.errors import Unsupported
    from hcq.settings import Context

    machine()
    with Context(AMD_DISABLE_SDMA=1):
        device = amd.open(0)
    buffer = device.allocate(4 << 20)
    data = os.urandom(4 << 20)
    assert round_trip(device, buffer, data) == data
    with pytest.raises(Unsupported, match="AMD:0 has no copy queue: AMD_DISABLE_SDMA is set"):
        device.copy(buffer.address, buffer.address + 64, 64)
    device.close()


@pytest.mark.row("HCQ-28")
def test_loading_and_copying_threads_never_wait_for_each_other(machine, compiled):
    """Without a view of VRAM both go through the staging slots."""
    machine(large_bar=False)
    device = amd.open(0)
    far = device.allocate(4 << 20)
    data = bytes(4 << 20)

    def copy():
        for _ in range(40):
            device.copy_in(far, 0, data)

    def load():
        for _ in range(40):
            device.load(compiled("bump"), "bump").free()

    threads = [threading.Thread(target=work, daemon=True) for work in (copy, load)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)
    device.close()


@pytest.mark.row("AMD-23")
@pytest.mark.refusal
def test_no_address_space_is_out_of_memory_with_a_remedy(machine, monkeypatch):
    import errno

    host = machine()
    device = amd.open(0)
    live = host.kfd.buffers.live()

    def full(*args):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(host, "reserve", full)
    with pytest.raises(OutOfMemory, match="4096 bytes of VRAM cannot be had") as caught:
        device.allocate(4096)
    assert "ulimit" in caught.value.hint
    with pytest.raises(OutOfMemory, match="cannot be mapped into this process"):
        device.work.process.allocate(device._node.gpu_id, 4096, 0xD6000002)
    monkeypatch.undo()
    assert host.kfd.buffers.live() == live
    device.close()
