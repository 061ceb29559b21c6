"""Where memory lies: BAR1, page sizes, addresses that the hardware can name, the doorbell."""

import pytest

from hcq import nv
from hcq.errors import IoctlError, OutOfMemory, QueueError
from hcq.ioctl_defs import nv_escape


@pytest.mark.row("NV-18")
@pytest.mark.refusal
def test_views_of_video_memory_end_at_bar1(machine):
    machine("sm_90", bar1=64 << 20)
    device = nv.open(0)
    with pytest.raises(OutOfMemory, match="bytes of video memory cannot be had") as caught:
        device.allocate(128 << 20, cpu_access=True)
    assert caught.value.facts["bar1_size"] == 64 << 20
    assert "resizable BAR" in caught.value.hint
    assert device.allocate(128 << 20).region is None
    device.close()


@pytest.mark.row("NV-18")
def test_room_in_bar1_comes_back_with_the_memory(machine):
    machine("sm_90", bar1=64 << 20)
    device = nv.open(0)
    for _ in range(4):
        buffer = device.allocate(30 << 20, cpu_access=True)
        assert buffer.region is not None
        device.free(buffer)
        device.synchronize()
    device.close()


@pytest.mark.row("NV-18")
@pytest.mark.parametrize(("size", "unit"), [(4096, 4096), (8 << 20, 2 << 20), (9 << 20, 2 << 20)])
def test_large_video_memory_takes_pages_of_2_mib(machine, size, unit):
    machine("sm_90")
    device = nv.open(0)
    buffer = device.allocate(size)
    assert buffer.address % unit == 0
    assert buffer.owner.size % unit == 0
    device.close()


@pytest.mark.row("NV-03")
@pytest.mark.refusal
@pytest.mark.parametrize("status", [0x1A, 0x51])  # INSUFFICIENT_RESOURCES, NO_MEMORY
def test_a_kernel_that_has_nothing_left_is_out_of_memory(machine, status):
    sim = machine("sm_90")
    device = nv.open(0)
    sim.answer(0x40, status)
    with pytest.raises(OutOfMemory, match="4096 bytes of video memory cannot be had") as caught:
        device.allocate(4096)
    assert (device.stats.retries, device.stats.failures) == (1, 1)
    assert f"({status:#x})" in caught.value.facts["reason"]
    sim.nvidia.rm.answers.clear()
    sim.answer(0x40, status, 1)  # once: the second try has it
    assert device.allocate(4096).size == 4096
    device.close()


@pytest.mark.row("NV-03")
@pytest.mark.refusal
def test_what_is_no_shortage_is_told_as_it_is_and_not_tried_again(machine):
    sim = machine("sm_90")
    device = nv.open(0)
    sim.answer(0x40, 0x1B)
    with pytest.raises(IoctlError, match=r"INSUFFICIENT_PERMISSIONS \(0x1b\)"):
        device.allocate(4096)
    assert (device.stats.retries, device.stats.failures) == (0, 0)
    device.close()


@pytest.mark.row("NV-06")
def test_what_the_hardware_reads_by_40_bit_addresses_lies_below(machine, compiled):
    machine("sm_90")
    device = nv.open(0)
    channel = device.channels["compute"]
    program = device.load(compiled("bump"), "bump")
    places = [channel.ring.address, channel.push.address, device.signals.take().address]
    places += [device.arguments(program, [0]), program.address]
    assert all(0 < place < 1 << 40 for place in places)
    device.close()


@pytest.mark.row("NV-06")
def test_ring_pushbuffer_and_userd_lie_in_video_memory_together(machine):
    machine("sm_90")
    device = nv.open(0)
    for channel in device.channels.values():
        assert channel.ring.is_vram
        assert channel.push.is_vram
        assert channel._userd.address == channel.ring.address + 0x8000
    device.close()


@pytest.mark.row("NV-06")
@pytest.mark.parametrize(
    ("chip", "parameters"),
    [("sm_86", None), ("sm_89", None), ("sm_90", b"\x01\x00"), ("sm_120", b"\x01\x00")],
)
def test_the_doorbell_goes_through_bar1_from_hopper_on(machine, monkeypatch, chip, parameters):
    sim = machine(chip)
    ioctl, seen = sim.ioctl, []

    def noted(fd, call, args):
        if call is nv_escape.RM_ALLOC and args.hClass in (0xC461, 0xC561, 0xC661, 0xC761):
            given = nv_escape.ffi.cast("uint8_t *", args.pAllocParms)
            size = args.paramsSize
            seen.append(bytes(nv_escape.ffi.buffer(given, size)) if size else None)
        return ioctl(fd, call, args)

    monkeypatch.setattr(sim, "ioctl", noted)
    nv.open(0).close()
    assert seen == [parameters]


@pytest.mark.row("NV-06")
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
    device.launch(program, [cell.address], (1, 1, 1), (1, 1, 1))
    device.copy(far.address, cell.address, 4)
    assert words(device, far, 1) == [1]
    with pytest.raises(QueueError, match=r"no address below 2\*\*40 is left"):
        device.bind(device.queue("compute").write(cell.address, [2]))
    device.close()
