"""Opening: what must be there, what each refusal says, and that nothing is left behind."""

import errno
import warnings

import pytest

from hcq import host, nv
from hcq.errors import (
    BufferUseError,
    DeviceLost,
    DeviceNotFound,
    DeviceOpenError,
    FallbackWarning,
    HcqError,
    IoctlError,
    OutOfMemory,
    Unsupported,
    UnsupportedDevice,
)
from hcq.ioctl_defs import nv_ctrl, nv_escape
from hcq.settings import Context

NODES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm")


class Bare(host.LinuxHost):
    """A machine without GPUs."""

    def open(self, path):
        if path.startswith("/dev/nvidia"):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return super().open(path)


@pytest.fixture
def bare():
    before = host.use(Bare())
    yield
    host.use(before)


@pytest.mark.row("NV-01")
@pytest.mark.refusal
@pytest.mark.parametrize("call", [nv.count, nv.open])
def test_no_node_names_node_module_and_simulator(bare, call):
    with pytest.raises(DeviceOpenError) as caught:
        call()
    text = str(caught.value)
    assert "/dev/nvidiactl" in text
    assert "module=nvidia" in text
    assert text.splitlines()[-1].startswith("hint: check that")
    assert "python -m sim" in text


@pytest.mark.row("NV-01")
@pytest.mark.refusal
@pytest.mark.parametrize("node", NODES)
def test_no_rights_name_node_and_group_and_how_to_join(machine, node):
    sim = machine("sm_90")
    sim.deny(node, errno.EACCES)
    with pytest.raises(DeviceOpenError, match=f"no rights on {node}: it belongs to") as caught:
        nv.open(0)
    assert "usermod -aG" in caught.value.hint
    assert sim.nvidia.rm.handles() == 0


@pytest.mark.row("NV-01")
@pytest.mark.refusal
@pytest.mark.parametrize(
    ("number", "text"),
    [
        (errno.EBUSY, "is busy: another program has the GPU"),
        (errno.EMFILE, "no file descriptor is free"),
        (errno.EIO, "cannot be opened"),
        (errno.ENOENT, "does not exist"),
    ],
)
def test_reasons_why_a_node_does_not_open_are_told_apart(machine, number, text):
    sim = machine("sm_90")
    sim.deny("/dev/nvidia0", number)
    with pytest.raises(DeviceOpenError, match=text) as caught:
        nv.open(0)
    assert caught.value.facts["node"] == "/dev/nvidia0"


@pytest.mark.row("NV-01")
@pytest.mark.refusal
def test_a_missing_unified_memory_node_names_its_module(machine):
    machine("sm_90", uvm=False)
    with pytest.raises(DeviceOpenError, match="/dev/nvidia-uvm does not exist") as caught:
        nv.open(0)
    assert caught.value.facts["module"] == "nvidia_uvm"
    assert "modprobe nvidia_uvm" in caught.value.hint


def test_an_open_device_knows_its_name_and_target(machine):
    machine("sm_90")
    assert nv.count() == 1
    device = nv.open(0)
    assert (device.name, device.index, device.target) == ("NV:0", 0, "sm_90")
    assert device.renderers == ("PTX:sm_90",)
    assert repr(device) == "<NV:0 sm_90>"
    device.close()


@pytest.mark.refusal
@pytest.mark.parametrize("index", [1, -1])
def test_no_such_index_says_how_many_there_are(machine, index):
    machine("sm_90")
    with pytest.raises(DeviceNotFound, match=f"no NV:{index}: 1 NVIDIA GPU"):
        nv.open(index)


# Driver series.


@pytest.mark.row("NV-02")
@pytest.mark.parametrize("driver", ["550", "570", "580", "590", "610"])
def test_every_series_opens_copies_and_launches(machine, compiled, words, driver):
    machine("sm_90", driver=driver)
    device = nv.open(0)
    assert device.notes == []
    program = device.load(compiled("bump"), "bump")
    cell = device.allocate(4, zero=True)
    for _ in range(3):
        device.launch(program, [cell.address], (1, 1, 1), (1, 1, 1))
    assert words(device, cell, 1) == [3]
    device.close()


@pytest.mark.row("NV-02")
@pytest.mark.refusal
def test_parts_of_unequal_version_are_refused(machine):
    machine("sm_90", uvm_version="580.126.20")
    with pytest.raises(DeviceOpenError, match="modules are of unequal version") as caught:
        nv.open(0)
    assert caught.value.facts == {"nvidia": "580.159.03", "nvidia_uvm": "580.126.20"}
    assert "reload the modules" in caught.value.hint
    assert "reboot" in caught.value.hint


@pytest.fixture
def reported(monkeypatch):
    """reported(version): what the driver says of itself from now on."""
    from hcq.nv import driver

    def set_version(version):
        monkeypatch.setattr(driver, "version_of", lambda host, fd: version)
        monkeypatch.setattr(driver, "_check_parts", lambda host, version: None)
        monkeypatch.setattr(driver, "_warned", set())

    return set_version


@pytest.mark.row("NV-02")
@pytest.mark.refusal
def test_an_unknown_series_is_refused_with_found_and_known(machine, reported):
    sim = machine("sm_90")
    reported("640.10")
    with pytest.raises(UnsupportedDevice, match=r"driver 640\.10 is of a series") as caught:
        nv.open(0)
    assert "580 (up to 580.159.03)" in caught.value.facts["known"]
    assert sim.nvidia.rm.handles() == 0


@pytest.mark.row("NV-02")
def test_a_newer_patch_warns_once(machine, reported):
    machine("sm_90")
    reported("580.999.01")
    with pytest.warns(FallbackWarning, match=r"580\.999\.01 is newer than 580\.159\.03"):
        nv.open(0).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nv.open(0).close()


@pytest.mark.row("NV-03")
@pytest.mark.refusal
def test_parameters_of_another_series_tell_version_found_and_known(machine, monkeypatch):
    from hcq.ioctl_defs import nv_abi

    machine("sm_90", driver="550")
    monkeypatch.setitem(nv_abi._BRANCHES, 550, nv_abi.ABI_580)
    with pytest.raises(IoctlError, match=r"NV_ERR_INVALID_PARAM_STRUCT \(0x3a\)") as caught:
        nv.open(0)
    assert caught.value.facts["control"] == "0xa06c0101"
    assert caught.value.facts["driver"] == "550.163.01"
    assert "550 (up to" in caught.value.facts["known"]


# What is in the way.


@pytest.mark.row("NV-23")
@pytest.mark.refusal
def test_a_gpu_in_slices_is_refused_by_name(machine):
    sim = machine("sm_90", mig=True)
    with pytest.raises(Unsupported, match="NV:0 is cut into MIG slices"):
        nv.open(0)
    assert sim.nvidia.rm.handles() == 0


@pytest.mark.row("NV-01")
@pytest.mark.refusal
def test_prohibited_compute_is_told(machine):
    machine("sm_90", compute_mode=2)
    with pytest.raises(DeviceOpenError, match="compute is prohibited") as caught:
        nv.open(0)
    assert "nvidia-smi --compute-mode" in caught.value.hint


@pytest.mark.row("NV-01")
@pytest.mark.refusal
def test_a_gpu_another_process_has_for_itself_is_told(machine):
    sim = machine("sm_90", compute_mode=3, occupied=True)
    with pytest.raises(DeviceOpenError, match="another process has the GPU for itself"):
        nv.open(0)
    assert sim.nvidia.rm.handles() == 0


@pytest.mark.row("NV-01")
@pytest.mark.refusal
def test_too_many_clients_are_told(machine):
    machine("sm_90", clients=0)
    with pytest.raises(IoctlError, match="NV_ERR_INSUFFICIENT_RESOURCES") as caught:
        nv.open(0)
    assert "close other programs" in caught.value.hint


@pytest.mark.row("NV-18")
@pytest.mark.refusal
def test_confidential_computing_is_refused_by_name(machine):
    machine("sm_90", confidential=True)
    with pytest.raises(UnsupportedDevice, match="confidential computing on"):
        nv.open(0)


@pytest.mark.row("NV-05")
@pytest.mark.refusal
@pytest.mark.parametrize(
    ("version", "classes", "text"),
    [
        (0x705, (0xC46F, 0xC5C0, 0xC5B5, 0xC461), "an sm_75, which is not supported"),
        (0x700, (0xC36F, 0xC3C0, 0xC3B5, 0xC361), "an sm_70, which is not supported"),
        (0x900, (0xC86F, 0xC8B5, 0xC661), "offers no compute class"),
    ],
)
def test_chips_and_class_lists_that_do_not_fit_are_refused(machine, version, classes, text):
    sim = machine("sm_90", sm_version=version, classes=classes)
    with pytest.raises(UnsupportedDevice, match=text) as caught:
        nv.open(0)
    assert caught.value.facts["classes"] == " ".join(f"{c:04x}" for c in sorted(classes))
    assert sim.nvidia.rm.handles() == 0


@pytest.mark.row("NV-22")
def test_a_slow_first_open_is_told_and_not_an_error(machine, capfd):
    machine("sm_90", seed=1, open_seconds=12.0)
    with Context(DEBUG=1, HCQ_TIMEOUT_MS=500):
        nv.open(0).close()
    assert "NV:0: /dev/nvidia0 took 12." in capfd.readouterr().err


@pytest.mark.row("NV-03")
@pytest.mark.parametrize(
    "control",
    [nv_ctrl.PERF_BOOST, nv_ctrl.GPU_GET_INFO, nv_ctrl.QUERY_COMPUTE_MODE, nv_ctrl.FB_GET_INFO],
)
def test_a_refused_optional_query_is_noted(machine, monkeypatch, control):
    refuse_control(machine("sm_90"), monkeypatch, control, nv_escape.NOT_SUPPORTED)
    device = nv.open(0)
    assert device.notes == [f"{control.name}: NV_ERR_NOT_SUPPORTED (0x56)"]
    device.close()


def refuse_control(sim, monkeypatch, control, status):
    """The resource manager answers one control with a status."""
    ioctl = sim.ioctl

    def answer(fd, call, args):
        if call is nv_escape.RM_CONTROL and args.cmd == control.number:
            args.status = status
            return
        ioctl(fd, call, args)

    monkeypatch.setattr(sim, "ioctl", answer)


@pytest.mark.row("NV-03")
@pytest.mark.refusal
@pytest.mark.parametrize("status", sorted(set(nv_escape.STATUS_NAMES) - {0, 0x51}))
def test_each_status_of_a_needed_call_is_named(machine, monkeypatch, status):
    sim = machine("sm_90")
    refuse_control(sim, monkeypatch, nv_ctrl.GET_GID_INFO, status)
    name = nv_escape.STATUS_NAMES[status]
    with pytest.raises(IoctlError, match=name) as caught:
        nv.open(0)
    assert caught.value.facts["control"] == "0x2080014a"
    assert "NV20_SUBDEVICE_0" in caught.value.facts["object"]
    assert sim.nvidia.rm.handles() == 0


@pytest.mark.row("NV-03")
@pytest.mark.refusal
def test_no_memory_is_out_of_memory(machine, monkeypatch):
    refuse_control(machine("sm_90"), monkeypatch, nv_ctrl.GET_GID_INFO, nv_escape.NO_MEMORY)
    with pytest.raises(OutOfMemory, match="NV_ERR_NO_MEMORY"):
        nv.open(0)


@pytest.mark.row("NV-03")
@pytest.mark.refusal
def test_a_sandbox_that_refuses_a_needed_call_is_named(machine):
    machine("sm_90").refuse("NV_ESC_RM_ALLOC", errno.EINVAL)
    with pytest.raises(IoctlError, match="NV_ESC_RM_ALLOC: Invalid argument") as caught:
        nv.open(0)
    assert "sandbox or container" in caught.value.hint


# Opening and closing.


def held(sim):
    """What the simulated machine and the process still hold."""
    rm = sim.nvidia.rm
    return rm.handles(), sorted(sim._opened)


@pytest.mark.row("NV-04")
@pytest.mark.row("HCQ-31")
@pytest.mark.refusal
def test_close_leaves_no_object_and_no_file(machine, compiled):
    sim = machine("sm_90")
    device = nv.open(0)
    device.launch(device.load(compiled("bump"), "bump"), [device.allocate(4).address], (1, 1, 1),
                  (1, 1, 1))  # fmt: skip
    assert sim.nvidia.rm.handles() > 20
    device.close()
    device.close()
    assert held(sim) == (0, [])
    with pytest.raises(DeviceLost, match="NV:0 is closed"):
        device.allocate(4)
    nv.open(0).close()


@pytest.mark.row("NV-04")
@pytest.mark.row("HCQ-31")
def test_every_failing_call_of_open_leaves_nothing(machine):
    """Fail the Nth host call of an open, for all N."""
    sim = machine("sm_90")
    before = len(sim.calls)
    device = nv.open(0)
    names = list(sim.calls)[before:]
    device.close()
    assert len(names) > 60
    failures = 0
    for nth, name in enumerate(names, 1):
        if name.startswith("close"):
            continue  # Linux closes a file even when it reports an error
        sim.fail(nth, errno.EIO)
        try:
            nv.open(0).close()
        except (HcqError, OSError):
            failures += 1
        sim.injection = type(sim.injection)()
        assert held(sim) == (0, []), f"call {nth}"
    assert failures > 50
    device = nv.open(0)
    assert device.health() == "ok"
    device.close()


@pytest.mark.row("NV-04")
@pytest.mark.refusal
@pytest.mark.parametrize("call", ["UVM_FREE", "UVM_UNREGISTER_GPU"])
def test_a_close_that_the_kernel_hinders_still_gives_files_and_objects_back(machine, call):
    sim = machine("sm_90")
    device = nv.open(0)
    sim.refuse(call, errno.EIO)
    with pytest.raises(IoctlError, match=f"{call}|NV_ERR_OBJECT_NOT_FOUND"):
        device.close()
    assert held(sim) == (0, [])
    device.close()


@pytest.mark.row("NV-04")
def test_objects_are_freed_in_reverse(machine):
    sim = machine("sm_90")
    device = nv.open(0)
    made = list(device.gpu.rm.objects)
    freed = []
    ioctl = sim.ioctl

    def watched(fd, call, args):
        if call is nv_escape.RM_FREE:
            freed.append(args.hObjectOld)
        ioctl(fd, call, args)

    sim.ioctl = watched
    device.close()
    assert sorted(freed) == sorted(made)
    parents = {handle: freed.index(handle) for handle in made}
    # The client is made first and freed last, the device before it, and so on.
    assert [parents[h] for h in made[:3]] == [len(made) - 1, len(made) - 2, len(made) - 3]


@pytest.mark.row("HCQ-31")
def test_two_opens_of_one_gpu_share_its_address_space(machine, compiled, words):
    sim = machine("sm_90")
    one, two = nv.open(0), nv.open(0)
    program = two.load(compiled("bump"), "bump")
    cell = one.allocate(4, zero=True)
    one.synchronize()
    two.launch(program, [cell.address], (1, 1, 1), (1, 1, 1), wait=True)
    assert words(one, cell, 1) == [1]
    two.close()
    one.synchronize()
    one.close()
    assert held(sim) == (0, [])


@pytest.mark.row("HCQ-06")
def test_signal_pages_are_mapped_on_devices_that_open_later(machine):
    sim = machine("sm_90", count=2)
    first = nv.open(0)
    signal = first.signals.take()
    second = nv.open(1)
    second.wait(second.submit(second.queue("compute").signal(signal.address, 7)))
    assert signal.value == 7
    second.close()
    first.wait(first.submit(first.queue("compute").signal(signal.address, 8)))
    assert signal.value == 8
    first.close()
    assert held(sim) == (0, [])


@pytest.mark.row("HCQ-06")
def test_the_owner_of_a_signal_page_may_close_first(machine):
    sim = machine("sm_90", count=2)
    first, second = nv.open(0), nv.open(1)
    signal = second.signals.take()
    first.close()
    second.wait(second.submit(second.queue("copy").signal(signal.address, 7)))
    assert signal.value == 7
    second.close()
    assert held(sim) == (0, [])


# Memory.


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


@pytest.mark.refusal
def test_running_out_names_what_was_asked_and_what_lives(machine):
    machine("sm_90", vram=1 << 30)
    device = nv.open(0)
    text = "NV:0: 2147483648 bytes of video memory cannot be had"
    with pytest.raises(OutOfMemory, match=text) as caught:
        device.allocate(2 << 30)
    assert caught.value.device == "NV:0"
    assert caught.value.facts["asked"] == 2 << 30
    assert caught.value.facts["live"] == device.stats.live > 0
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


@pytest.mark.row("NV-03")
@pytest.mark.refusal
@pytest.mark.parametrize(
    "call",
    [
        "NV_ESC_CARD_INFO",
        "NV_ESC_CHECK_VERSION_STR",
        "UVM_INITIALIZE",
        "UVM_REGISTER_GPU",
        "UVM_MAP_EXTERNAL_ALLOCATION",
    ],
)
def test_calls_of_every_node_name_the_sandbox_when_refused(machine, call):
    machine("sm_90").refuse(call, errno.EPERM)
    with pytest.raises(IoctlError, match=f"{call}: Operation not permitted") as caught:
        nv.open(0)
    assert "sandbox or container" in caught.value.hint


@pytest.mark.row("NV-01")
@pytest.mark.refusal
@pytest.mark.parametrize("index", [-1, 1, 1.5, "0", None])
def test_an_index_that_is_none_of_a_gpu_is_refused(machine, index):
    machine("sm_90")
    with pytest.raises(DeviceNotFound, match=rf"no NV:{index}: 1 NVIDIA GPU\(s\) here"):
        nv.open(index)


@pytest.mark.row("NV-03")
def test_a_version_file_that_may_not_be_read_is_done_without(machine):
    machine("sm_90").deny(nv_escape.UVM_MODULE_VERSION_FILE, errno.EACCES)
    nv.open(0).close()


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


@pytest.mark.row("NV-18")
@pytest.mark.refusal
@pytest.mark.parametrize(
    ("address", "size"), [(4097, 4096), (4096, 100), (4096, 0), (0, 4096), (-4096, 4096), ("a", 1)]
)
def test_user_memory_that_is_no_whole_pages_is_refused(machine, address, size):
    machine("sm_90")
    device = nv.open(0)
    with pytest.raises(BufferUseError, match="user memory must be whole pages"):
        device.adopt(address, size)
    device.close()
