"""Opening: what must be there, what each refusal says, and that nothing is left behind."""

import errno
import threading

import pytest

from hcq import amd, host
from hcq.errors import (
    DeviceOpenError,
    IoctlError,
    OutOfMemory,
    UnsupportedDevice,
)
from hcq.ioctl_defs import kfd


@pytest.mark.row("AMD-01")
@pytest.mark.row("AMD-23")
@pytest.mark.refusal
def test_a_taken_address_space_says_who_may_have_it(machine):
    machine().refuse("KFD_ACQUIRE_VM", errno.EBUSY)
    with pytest.raises(IoctlError, match=r"KFD_ACQUIRE_VM: .*busy") as caught:
        amd.open(0)
    assert "another part of this process" in caught.value.hint


@pytest.mark.row("AMD-03")
@pytest.mark.refusal
def test_an_unknown_chip_names_itself_and_those_supported(machine):
    sim = machine()
    path = f"{kfd.TOPOLOGY}/nodes/1/properties"
    sim.files.add(path, sim.files.read(path).replace(b"version 110000", b"version 90006"))
    with pytest.raises(UnsupportedDevice, match="the GPU is a gfx906, which is not supported") as e:
        amd.open(0)
    assert e.value.facts["supported"] == "gfx1100"


@pytest.mark.row("AMD-07")
@pytest.mark.refusal
def test_an_old_interface_names_both_versions(machine):
    machine(kfd=(1, 10))
    with pytest.raises(DeviceOpenError, match=r"interface is 1\.10, 1\.11 or a later") as caught:
        amd.open(0)
    assert "update the Linux kernel" in caught.value.hint


@pytest.mark.row("AMD-07")
@pytest.mark.parametrize("name", ["KFD_CREATE_EVENT", "KFD_WAIT_EVENTS"])
def test_optional_requests_are_noted_and_done_without(machine, compiled, words, name):
    machine().refuse(name, errno.EPERM)
    device = amd.open(0)
    program = device.load(compiled("bump"), "bump")
    cell = device.allocate(4, zero=True)
    flag = device.allocate(4, host=True, uncached=True, zero=True)
    device.submit(device.queue("compute").poll(flag.address, 1))
    device.launch(program, [cell.address], (1, 1, 1), (1, 1, 1))
    threading.Timer(0.02, flag.region.write32, [0, 1]).start()
    assert words(device, cell, 1) == [1]
    assert any(name in note for note in device.notes)
    device.close()


class WithoutFlush:
    """A host whose kernel has no page to flush host writes with."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def ioctl(self, fd, call, args):
        if call is kfd.ALLOC_MEMORY_OF_GPU and args.flags & kfd.ALLOC_MMIO_REMAP:
            raise host.refused(call, args, errno.EINVAL)
        self.inner.ioctl(fd, call, args)


@pytest.mark.row("AMD-05")
@pytest.mark.row("AMD-07")
def test_without_a_way_to_flush_no_view_of_vram_is_handed_out(machine):
    host.use(WithoutFlush(machine()))
    device = amd.open(0)
    buffer = device.allocate(4096)
    assert buffer.region is None
    device.copy_in(buffer, 0, b"abc")
    back = bytearray(3)
    device.copy_out(buffer, 0, back)
    assert back == b"abc"
    assert any("KFD_ALLOC_MEMORY_OF_GPU" in note for note in device.notes)
    device.close()


@pytest.mark.row("AMD-23")
@pytest.mark.refusal
@pytest.mark.parametrize(
    ("name", "number", "hint"),
    [
        ("KFD_CREATE_QUEUE", errno.ENOMEM, "no hardware queue or doorbell is free"),
        ("KFD_MAP_MEMORY_TO_GPU", errno.ENOMEM, "ulimit -l"),
    ],
)
def test_each_shortage_has_its_own_fix(machine, name, number, hint):
    machine().refuse(name, number)
    with pytest.raises((IoctlError, OutOfMemory)) as caught:
        amd.open(0)
    assert hint in str(caught.value)


@pytest.mark.row("AMD-06")
@pytest.mark.refusal
def test_a_refused_queue_names_every_size(machine):
    machine().refuse("KFD_CREATE_QUEUE", errno.EINVAL)
    with pytest.raises(IoctlError, match=r"ring_size=0x100000 .*eop_buffer_size=0x1000") as caught:
        amd.open(0)
    assert "ctx_save_restore_size=0x2bea000 ctl_stack_size=0xa000" in str(caught.value)
    assert caught.value.errno == errno.EINVAL


@pytest.mark.row("AMD-16")
def test_events_run_out_and_waits_poll(machine):
    machine().refuse("KFD_CREATE_EVENT", errno.ENOSPC)
    device = amd.open(0)
    device.wait(device.submit(device.queue("compute").barrier()))
    assert device.work.waits.sleeps == 0
    device.close()
