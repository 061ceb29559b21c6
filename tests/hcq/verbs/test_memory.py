"""Memory of a device: running out of it, and memory of the process."""

import pytest

from hcq.errors import BufferUseError, OutOfMemory


@pytest.fixture(params=["gfx1100", "sm_90"])
def chip(request):
    """One of each vendor."""
    return request.param


@pytest.mark.refusal
def test_running_out_names_what_was_asked_and_what_lives(place, vendor, chip):
    place(vram=1 << 30)
    device = vendor.open(0)
    kind = "video memory" if chip == "sm_90" else "VRAM"
    with pytest.raises(OutOfMemory, match=f"2147483648 bytes of {kind} cannot be had") as caught:
        device.allocate(2 << 30)
    assert caught.value.device == device.name
    assert caught.value.facts["asked"] == 2 << 30
    assert caught.value.facts["live"] == device.stats.live > 0
    device.close()


@pytest.mark.row("NV-18")
@pytest.mark.refusal
@pytest.mark.parametrize(
    ("address", "size"), [(4097, 4096), (4096, 100), (4096, 0), (0, 4096), (-4096, 4096), ("a", 1)]
)
def test_user_memory_that_is_no_whole_pages_is_refused(device, address, size):
    with pytest.raises(BufferUseError, match="user memory must be whole pages"):
        device.adopt(address, size)


@pytest.mark.row("ALC-06")
def test_the_peak_of_memory_stays_when_memory_goes_back(device):
    device.synchronize()
    live = device.stats.live
    buffer = device.allocate(4 << 20)
    assert device.stats.peak == live + (4 << 20)
    device.free(buffer)
    device.allocate(4096)
    assert (device.stats.live, device.stats.peak) == (live + 4096, live + (4 << 20))


@pytest.mark.row("HCQ-12")
def test_an_address_is_inside_a_buffer_up_to_its_last_byte(device):
    buffer = device.allocate(100, name="weights")
    device.synchronize()
    last, end = buffer.address + 99, buffer.address + 100
    assert device.buffers_at(last) == "weights (100 bytes), offset 99"
    assert device.buffers_at(end) == "weights (100 bytes), 0 bytes past its end"


@pytest.mark.row("ALC-04")
def test_memory_the_gpu_is_done_with_goes_back_before_more_is_had(held):
    device, flag = held
    device.free(device.allocate(1 << 20))  # which the submission may still use
    flag.region.write32(0, 1)
    device.wait(1)
    live = device.stats.live
    device.allocate(4096)
    assert device.stats.live == live - (1 << 20) + 4096


@pytest.mark.refusal
def test_more_than_any_address_space_is_refused_without_asking_for_it(place, vendor, chip):
    sim = place()
    device = vendor.open(0)
    before = len(sim.calls)
    with pytest.raises(OutOfMemory, match=f"{1 << 47} bytes of .* cannot be had") as caught:
        device.allocate(1 << 47)
    assert caught.value.facts["reason"] == "address space is 47 bits"
    assert [c for c in list(sim.calls)[before:] if "ALLOC" in c or c == "reserve"] == []
    device.close()
