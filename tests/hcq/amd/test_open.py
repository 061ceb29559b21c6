"""Opening: what must be there, what each refusal says, and that nothing is left behind."""

import errno
import threading

import pytest

from hcq import amd, host
from hcq.errors import (
    DeviceLost,
    DeviceNotFound,
    DeviceOpenError,
    HcqError,
    IoctlError,
    OutOfMemory,
    UnsupportedDevice,
)
from hcq.ioctl_defs import kfd


class Bare(host.LinuxHost):
    """A machine without GPUs."""

    def exists(self, path):
        return not path.startswith("/dev/kfd") and super().exists(path)


@pytest.fixture
def bare():
    before = host.use(Bare())
    yield
    host.use(before)


@pytest.mark.row("AMD-01")
@pytest.mark.refusal
@pytest.mark.parametrize("call", [amd.count, amd.open])
def test_no_node_names_node_module_and_simulator(bare, call):
    with pytest.raises(DeviceOpenError) as caught:
        call()
    text = str(caught.value)
    assert "/dev/kfd" in text
    assert "module=amdgpu" in text
    assert text.splitlines()[-1].startswith("hint: check that")
    assert "python -m sim" in text


@pytest.mark.row("AMD-01")
def test_an_open_device_knows_its_name_and_target(device):
    assert (device.name, device.index, device.target) == ("AMD:0", 0, "gfx1100")
    assert amd.count() == 1


@pytest.mark.row("AMD-01")
@pytest.mark.refusal
def test_no_rights_name_node_and_group_and_how_to_join(machine):
    sim = machine()
    sim.deny("/dev/kfd", errno.EACCES)
    group = sim.group("/dev/kfd")
    match = f"no rights on /dev/kfd: it belongs to group {group}"
    with pytest.raises(DeviceOpenError, match=match) as e:
        amd.open(0)
    assert f"usermod -aG {group}" in e.value.hint


@pytest.mark.row("AMD-01")
@pytest.mark.refusal
def test_a_group_without_a_name_is_its_number(monkeypatch, tmp_path):
    import grp

    def nobody(number):
        raise KeyError(number)

    monkeypatch.setattr(grp, "getgrgid", nobody)
    assert host.LinuxHost().group(str(tmp_path)) == str(tmp_path.stat().st_gid)


@pytest.mark.row("AMD-01")
@pytest.mark.row("AMD-23")
@pytest.mark.refusal
def test_a_taken_address_space_says_who_may_have_it(machine):
    machine().refuse("KFD_ACQUIRE_VM", errno.EBUSY)
    with pytest.raises(IoctlError, match=r"KFD_ACQUIRE_VM: .*busy") as caught:
        amd.open(0)
    assert "another part of this process" in caught.value.hint


@pytest.mark.refusal
@pytest.mark.parametrize("index", [1, -1])
def test_no_such_index_says_how_many_there_are(machine, index):
    machine()
    with pytest.raises(DeviceNotFound, match=f"no AMD:{index}: 1 AMD GPU"):
        amd.open(index)


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
@pytest.mark.parametrize("version", [(1, 11), (1, 14), (1, 16), (1, 17)])
def test_interfaces_from_1_11_on_open_and_run(machine, compiled, words, version):
    machine(kfd=version)
    device = amd.open(0)
    program = device.load(compiled("bump"), "bump")
    cell = device.allocate(4, zero=True)
    device.launch(program, [cell.address], (1, 1, 1), (1, 1, 1))
    assert words(device, cell, 1) == [1]
    device.close()


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


@pytest.mark.row("AMD-07")
@pytest.mark.refusal
@pytest.mark.parametrize(
    "name",
    ["KFD_GET_VERSION", "KFD_ACQUIRE_VM", "KFD_MAP_MEMORY_TO_GPU", "KFD_CREATE_QUEUE"],
)
def test_needed_requests_hint_at_a_sandbox(machine, name):
    machine().refuse(name, errno.EPERM)
    with pytest.raises(IoctlError, match=f"{name}: Operation not permitted") as caught:
        amd.open(0)
    assert "sandbox or container" in caught.value.hint


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


@pytest.mark.row("AMD-23")
@pytest.mark.refusal
def test_no_free_descriptor_says_so(machine):
    machine().deny("/dev/dri/renderD128", errno.EMFILE)
    with pytest.raises(DeviceOpenError, match="no file descriptor is free") as caught:
        amd.open(0)
    assert "ulimit -n" in caught.value.hint


@pytest.mark.row("AMD-06")
@pytest.mark.refusal
def test_a_refused_queue_names_every_size(machine):
    machine().refuse("KFD_CREATE_QUEUE", errno.EINVAL)
    with pytest.raises(IoctlError, match=r"ring_size=0x100000 .*eop_buffer_size=0x1000") as caught:
        amd.open(0)
    assert "ctx_save_restore_size=0x2bea000 ctl_stack_size=0xa000" in str(caught.value)
    assert caught.value.errno == errno.EINVAL


def held(sim):
    """What the process holds: descriptors, buffers of the kernel, queues, events."""
    return (
        sim.open_files,
        len(sim.kfd.buffers._by_handle),
        len(sim.kfd.queues),
        len(sim.kfd.events._events),
    )


@pytest.mark.row("HCQ-31")
def test_every_failing_call_of_open_leaves_nothing_more_than_the_process_keeps(machine):
    """Fail the Nth host call of an open, for all N."""
    sim = machine()
    amd.open(0).close()  # from here on the process keeps what the kernel ties to it
    kept = held(sim)
    before = len(sim.calls)
    device = amd.open(0)
    total = len(sim.calls) - before
    device.close()
    assert total > 40
    failures = 0
    for nth in range(1, total + 1):
        sim.fail(nth, errno.EIO)
        try:
            amd.open(0).close()
        except (HcqError, OSError):
            failures += 1
        sim.injection = type(sim.injection)()
        assert held(sim) == kept, f"call {nth}"
    assert failures > 40
    device = amd.open(0)
    assert device.health() == "ok"
    device.close()


@pytest.mark.row("HCQ-31")
def test_a_first_open_that_fails_can_be_tried_again(machine):
    sim = machine()
    for nth in range(1, 40):
        sim.fail(nth, errno.EIO)
        try:
            amd.open(0).close()
        except (HcqError, OSError):
            continue
        finally:
            sim.injection = type(sim.injection)()
    device = amd.open(0)
    device.synchronize()
    device.close()


@pytest.mark.row("HCQ-31")
@pytest.mark.refusal
def test_close_is_idempotent_and_a_closed_device_says_so_and_opens_again(machine, compiled):
    machine()
    device = amd.open(0)
    device.close()
    device.close()
    with pytest.raises(DeviceLost, match="AMD:0 is closed"):
        device.allocate(4)
    again = amd.open(0)
    again.synchronize()
    again.close()


@pytest.mark.row("HCQ-31")
def test_two_opens_of_one_gpu_share_its_address_space(machine, compiled, words):
    machine()
    one, two = amd.open(0), amd.open(0)
    program = two.load(compiled("bump"), "bump")
    cell = one.allocate(4, zero=True)
    two.launch(program, [cell.address], (1, 1, 1), (1, 1, 1), wait=True)
    assert words(one, cell, 1) == [1]
    two.close()
    one.synchronize()
    one.close()


@pytest.mark.row("HCQ-06")
def test_signal_pages_are_mapped_on_devices_that_open_later(machine, compiled):
    machine(count=2)
    first = amd.open(0)
    signal = first.signals.take()
    second = amd.open(1)
    # The second GPU signals a cell of a page that was made before it opened.
    second.wait(second.submit(second.queue("compute").signal(signal.address, 7)))
    assert signal.value == 7
    second.close()
    first.wait(first.submit(first.queue("compute").signal(signal.address, 8)))
    assert signal.value == 8
    first.close()


@pytest.mark.row("AMD-16")
def test_events_run_out_and_waits_poll(machine):
    machine().refuse("KFD_CREATE_EVENT", errno.ENOSPC)
    device = amd.open(0)
    device.wait(device.submit(device.queue("compute").barrier()))
    assert device.work.waits.sleeps == 0
    device.close()


@pytest.mark.row("HCQ-31")
def test_closing_a_hung_device_takes_its_queues_before_its_memory(machine, compiled, words):
    """Else the kernel that never ends would fault, and nothing would run on the GPU any more."""
    from hcq.errors import GpuTimeout
    from hcq.settings import Context

    host = machine()
    device = amd.open(0)
    flag = device.allocate(4096, host=True, zero=True)
    with Context(HCQ_TIMEOUT_MS=60), pytest.raises(GpuTimeout, match=r"for 0\.06 s"):
        device.launch(
            device.load(compiled("spin"), "spin"), [flag.address], (1, 1, 1), (1, 1, 1), wait=True
        )
    device.close()
    assert not host.kfd.queues
    assert not host.faults
    device = amd.open(0)
    cell = device.allocate(4, zero=True)
    device.launch(device.load(compiled("bump"), "bump"), [cell.address], (1, 1, 1), (1, 1, 1))
    assert words(device, cell, 1) == [1]
    device.close()
