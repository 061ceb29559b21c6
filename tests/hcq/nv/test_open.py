"""Opening: what must be there, what each refusal says, and that nothing is left behind."""

import errno
import warnings

import pytest

from hcq import nv
from hcq.errors import (
    DeviceLost,
    DeviceOpenError,
    FallbackWarning,
    IoctlError,
    OutOfMemory,
    Unsupported,
    UnsupportedDevice,
)
from hcq.ioctl_defs import nv_ctrl, nv_escape
from hcq.settings import Context


@pytest.mark.row("NV-01")
@pytest.mark.refusal
def test_a_missing_unified_memory_node_names_its_module(machine):
    machine("sm_90", uvm=False)
    with pytest.raises(DeviceOpenError, match="/dev/nvidia-uvm does not exist") as caught:
        nv.open(0)
    assert caught.value.facts["module"] == "nvidia_uvm"
    assert "modprobe nvidia_uvm" in caught.value.hint


def test_an_open_device_knows_what_compiles_for_it(device):
    assert device.renderers == ("PTX:sm_90",)


# Driver series.


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


@pytest.mark.row("NV-03")
def test_a_version_file_that_may_not_be_read_is_done_without(machine):
    machine("sm_90").deny(nv_escape.UVM_MODULE_VERSION_FILE, errno.EACCES)
    nv.open(0).close()


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
