"""Which device the setting or the machine gives: ways, renderers, fallbacks and their warnings."""

import errno
import sys

import pytest

from hcq.amd.arch import ARCHES
from hcq.errors import (
    ConfigError,
    DeviceBanned,
    DeviceNotFound,
    DeviceOpenError,
    FallbackWarning,
    IoctlError,
    Unsupported,
    UnsupportedDevice,
    missing_node,
)
from hcq.settings import Context
from runtime.device import Device, Registry, Way


@pytest.mark.row("REG-07")
@pytest.mark.row("ENV-01")
def test_first_target_of_the_setting_is_the_default(fake):
    with Context(DEVICE="fake:1;CPU"):
        assert Device.DEFAULT == "FAKE:1"


@pytest.mark.row("ENV-01")
def test_dev_is_an_alias(monkeypatch):
    monkeypatch.delenv("DEVICE", raising=False)
    monkeypatch.setenv("DEV", "cpu:2")
    assert Device.DEFAULT == "CPU:2"


@pytest.mark.row("ENV-01")
@pytest.mark.refusal
def test_device_and_its_alias_must_agree(monkeypatch):
    monkeypatch.setenv("DEVICE", "AMD")
    monkeypatch.setenv("DEV", "CPU")
    with pytest.raises(ConfigError, match="DEVICE and DEV are both set and differ"):
        _ = Device.DEFAULT


def module_that_fails(monkeypatch, name, text, count=1):
    def fail(index):
        raise DeviceOpenError(text, hint=f"fix {name}")

    module = type(sys)(name)
    module.open_backend, module.count = fail, lambda: count
    monkeypatch.setitem(sys.modules, name, module)
    return Way(name.upper(), name)


def test_unset_default_is_the_first_that_opens(monkeypatch, fake):
    monkeypatch.delenv("DEVICE", raising=False)
    monkeypatch.delenv("DEV", raising=False)
    broken = module_that_fails(monkeypatch, "broken", "no node", count=0)
    registry = Registry({"GPU": (broken,), "FAKE": (Way("", "fake_backend"),)})
    assert registry.DEFAULT == "FAKE"


@pytest.mark.row("REG-06")
def test_passing_over_hardware_that_is_there_is_announced(monkeypatch, fake):
    monkeypatch.delenv("DEVICE", raising=False)
    monkeypatch.delenv("DEV", raising=False)
    broken = module_that_fails(monkeypatch, "broken", "no rights on its node")
    registry = Registry({"GPU": (broken,), "FAKE": (Way("", "fake_backend"),)})
    with pytest.warns(FallbackWarning, match="FAKE is used: GPU: no rights on its node"):
        assert registry.DEFAULT == "FAKE"


def uncountable(monkeypatch, error):
    """A way whose GPUs can be neither opened nor counted."""

    def fail(index=0):
        raise error

    module = type(sys)("uncountable")
    module.open_backend = module.count = fail
    monkeypatch.setitem(sys.modules, "uncountable", module)
    monkeypatch.delenv("DEVICE", raising=False)
    monkeypatch.delenv("DEV", raising=False)
    return Registry({"GPU": (Way("W", "uncountable"),), "FAKE": (Way("", "fake_backend"),)})


@pytest.mark.row("REG-06")
def test_hardware_that_cannot_even_be_counted_is_announced(monkeypatch, fake):
    registry = uncountable(monkeypatch, DeviceOpenError("no rights on /dev/gpu"))
    with pytest.warns(FallbackWarning, match="FAKE is used: GPU: no rights on /dev/gpu"):
        assert registry.DEFAULT == "FAKE"


def test_a_machine_without_the_device_file_needs_no_warning(monkeypatch, fake):
    registry = uncountable(monkeypatch, missing_node("/dev/gpu", "gpumod", "GPU"))
    assert registry.DEFAULT == "FAKE"


@pytest.mark.row("REG-06")
@pytest.mark.refusal
def test_an_unlisted_chip_that_is_named_is_refused(machine, monkeypatch):
    monkeypatch.delitem(ARCHES, 110000)
    machine("gfx1100")
    with pytest.raises(UnsupportedDevice, match="gfx1100"):
        Device["AMD"]


@pytest.mark.row("REG-06")
def test_an_unlisted_chip_by_default_is_passed_over_with_a_warning(machine, monkeypatch):
    monkeypatch.delenv("DEVICE", raising=False)
    monkeypatch.delenv("DEV", raising=False)
    monkeypatch.delitem(ARCHES, 110000)
    machine("gfx1100")
    with pytest.warns(FallbackWarning, match="CPU is used: AMD: .*gfx1100"):
        assert Device.DEFAULT == "CPU"


@pytest.mark.row("REG-06")
@pytest.mark.parametrize(
    ("node", "number", "reason"),
    [
        ("/dev/nvidiactl", errno.EACCES, "no rights on /dev/nvidiactl"),
        ("/dev/nvidia0", errno.EBUSY, "/dev/nvidia0 is busy"),
        ("/dev/nvidia-uvm", errno.ENOENT, "/dev/nvidia-uvm does not exist"),
    ],
)
def test_a_gpu_behind_nodes_that_do_not_open_is_announced(
    machine, monkeypatch, node, number, reason
):
    monkeypatch.delenv("DEVICE", raising=False)
    monkeypatch.delenv("DEV", raising=False)
    machine("sm_90").deny(node, number)
    with pytest.warns(FallbackWarning, match=f"CPU is used: NV: .*{reason}"):
        assert Device.DEFAULT == "CPU"


@pytest.mark.row("REG-06")
def test_an_nvidia_chip_without_a_row_is_announced(machine, monkeypatch):
    monkeypatch.delenv("DEVICE", raising=False)
    monkeypatch.delenv("DEV", raising=False)
    monkeypatch.setattr("hcq.nv.arch.ARCHES", ())
    machine("sm_90")
    with pytest.warns(FallbackWarning, match="CPU is used: NV: the GPU is an sm_90"):
        assert Device.DEFAULT == "CPU"


@pytest.mark.refusal
def test_named_device_is_never_replaced(monkeypatch, fake):
    broken = module_that_fails(monkeypatch, "broken", "no node")
    registry = Registry({"GPU": (broken,), "FAKE": (Way("", "fake_backend"),)})
    with pytest.raises(DeviceOpenError, match="no node"):
        registry["GPU"]


@pytest.mark.row("REG-08")
@pytest.mark.refusal
def test_ways_that_all_fail_give_one_error_with_a_line_each(monkeypatch):
    ways = (
        module_that_fails(monkeypatch, "first", "no first node"),
        module_that_fails(monkeypatch, "second", "no second node"),
    )
    with pytest.raises(DeviceOpenError, match="GPU does not open by any way") as caught:
        Registry({"GPU": ways})["GPU"]
    assert str(caught.value).splitlines() == [
        "GPU does not open by any way",
        "FIRST: no first node",
        "SECOND: no second node",
        "hint: fix first; fix second",
    ]


@pytest.mark.row("REG-08")
@pytest.mark.refusal
@pytest.mark.parametrize("way", ["PCI", "USB", "REMOTE"])
def test_reserved_interfaces_are_unsupported(fake, way):
    with (
        Context(DEVICE=f"{way}+FAKE"),
        pytest.raises(Unsupported, match="only the kernel driver's path"),
    ):
        Device["FAKE"]


@pytest.mark.row("REG-08")
@pytest.mark.refusal
def test_unknown_interface_gets_the_nearest(fake):
    with (
        Context(DEVICE="SOKET+FAKE"),
        pytest.raises(ConfigError, match="no interface 'SOKET', did you mean 'SOCKET'"),
    ):
        Device["FAKE"]


def test_named_interface_opens(fake):
    with Context(DEVICE="SOCKET+FAKE"):
        assert Device["FAKE"].name == "FAKE:0"


def test_setting_chooses_the_renderer():
    with Context(DEVICE="CPU:LLVM:x86-64-v2"):
        assert Device["CPU"].target == "LLVM:x86-64-v2"


@pytest.mark.refusal
def test_unknown_renderer_gets_the_nearest(fake):
    with (
        Context(DEVICE="FAKE:FAKER"),
        pytest.raises(ConfigError, match="no renderer 'FAKER', did you mean 'FAKE'"),
    ):
        Device["FAKE"]


@pytest.mark.refusal
def test_what_is_no_index_and_no_renderer_is_called_neither(fake):
    with (
        Context(DEVICE="FAKE:x"),
        pytest.raises(ConfigError, match="has no renderer 'X', and an index is a number"),
    ):
        Device["FAKE"]


@pytest.mark.row("REG-07")
@pytest.mark.refusal
def test_unknown_name_behind_the_first_target_is_refused_too(fake):
    with Context(DEVICE="FAKE;CPUU"), pytest.raises(DeviceNotFound, match="no device 'CPUU'"):
        _ = Device.DEFAULT


@pytest.mark.refusal
def test_malformed_lookup_does_not_blame_the_setting():
    with pytest.raises(ConfigError, match=r"^device 'AMD:-1' is malformed at '-1'"):
        Device["AMD:-1"]


@pytest.mark.row("REG-08")
@pytest.mark.refusal
@pytest.mark.parametrize(
    "error",
    [
        IoctlError("CREATE: Permission denied; size=1", number=13, facts={"errno": "EACCES"}),
        PermissionError(13, "mmap: Permission denied; size=1"),
    ],
)
def test_what_the_kernel_refuses_while_opening_is_a_failed_way(monkeypatch, error):
    def refuse(index):
        raise error

    module = type(sys)("refusing")
    module.open_backend, module.count = refuse, lambda: 1
    monkeypatch.setitem(sys.modules, "refusing", module)
    registry = Registry({"GPU": (Way("ONE", "refusing"),)})
    with pytest.raises(DeviceOpenError, match=r"GPU does not open: .*Permission denied") as caught:
        registry["GPU"]
    assert "step" in caught.value.facts
    assert caught.value.hint


@pytest.mark.row("ENV-08")
@pytest.mark.refusal
def test_where_devices_are_forbidden_none_opens(fake):
    with (
        Context(ALLOW_DEVICE_USAGE=0),
        pytest.raises(DeviceBanned, match="FAKE cannot be used here: ALLOW_DEVICE_USAGE=0"),
    ):
        Device["FAKE"]
    assert Device["FAKE"].health() == "ok"
