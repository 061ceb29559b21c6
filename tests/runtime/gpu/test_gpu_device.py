"""GPUs as devices: what they say of themselves, how they are chosen and refused."""

import errno

import pytest
from gpu_calls import words

from hcq.errors import CodeObjectError, DeviceNotFound, DeviceOpenError, FallbackWarning
from hcq.settings import Context
from runtime.backend import Code
from runtime.buffer import Buffer
from runtime.device import Device
from runtime.execute import run_linear

TARGETS = {"AMD": "LLVM:gfx1100", "NV": "PTX:sm_90"}
NODES = {"AMD": "/dev/kfd", "NV": "/dev/nvidiactl"}


@pytest.mark.row("BKE-02")
@pytest.mark.row("BKE-03")
def test_device_says_what_it_is(place, name, chip):
    place()
    device = Device[name]
    assert (device.name, device.canonical, device.arch) == (f"{name}:0", name, chip)
    assert (device.renderers, device.target) == ((TARGETS[name],), TARGETS[name])
    assert (device.health(), device.count()) == ("ok", 1)


@pytest.mark.row("REG-16")
def test_device_object_has_what_a_user_needs(place, name):
    place(count=2)
    device = Device[f"{name}:1"]
    assert (device.name, device.index, device.canonical) == (f"{name}:1", 1, f"{name}:1")
    assert (device.count(), device.allocator.live, len(device.batch())) == (2, 0, 0)
    assert device.capabilities >= {"copy_in", "copy_out", "host_view", "transfer"}
    device.synchronize()


@pytest.mark.row("REG-08")
def test_interface_may_be_named(place, machine):
    machine("gfx1100")
    with Context(DEVICE="KFD+AMD:0:LLVM:gfx1100"):
        assert Device[Device.DEFAULT].target == "LLVM:gfx1100"


@pytest.mark.row("BKE-02")
def test_device_is_chosen_by_the_setting(place, name):
    place()
    with Context(DEVICE=name):
        assert Device[Device.DEFAULT].target == TARGETS[name]


@pytest.mark.row("REG-02")
def test_nothing_is_asked_of_the_machine_before_first_use(place, name, int32):
    machine = place()
    buffer = Buffer(name, 4, int32)
    assert list(machine.calls) == []
    buffer.ensure_allocated()
    assert f"open {NODES[name]}" in machine.calls


@pytest.mark.row("REG-03")
@pytest.mark.refusal
def test_index_beyond_the_gpus_gets_their_number(place, name):
    place(count=2)
    with pytest.raises(DeviceNotFound, match=f"no device '{name}:9': there are 2 {name} devices"):
        Device[f"{name}:9"]


@pytest.mark.row("BKE-02")
@pytest.mark.refusal
def test_named_device_without_hardware_is_an_error(name):
    with Context(DEVICE=name), pytest.raises(DeviceOpenError, match=NODES[name]) as caught:
        Device[Device.DEFAULT]
    assert "python -m sim" in caught.value.hint


@pytest.mark.row("REG-06")
@pytest.mark.row("REG-08")
@pytest.mark.refusal
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("AMD", "KFD_ACQUIRE_VM"),
        ("AMD", "KFD_CREATE_QUEUE"),
        ("AMD", "KFD_MAP_MEMORY_TO_GPU"),
        ("NV", "UVM_REGISTER_GPU"),
    ],
)
def test_gpu_whose_kernel_refuses_is_an_error_by_name_and_passed_over_by_default(
    place, monkeypatch, name, call
):
    monkeypatch.delenv("DEVICE", raising=False)
    place().refuse(call, errno.EBUSY)
    with pytest.raises(DeviceOpenError, match=f"{name} does not open: {call}: Device or") as caught:
        Device[name]
    assert (caught.value.facts["step"], caught.value.facts["errno"]) == (call, "EBUSY")
    with pytest.warns(FallbackWarning, match=f"CPU is used: {name}: {name} does not open: {call}"):
        assert Device.DEFAULT == "CPU"


def test_unset_default_is_the_gpu_where_there_is_one(place, name, monkeypatch):
    monkeypatch.delenv("DEVICE", raising=False)
    place()
    assert name == Device.DEFAULT


def test_unset_default_is_the_cpu_elsewhere(monkeypatch):
    monkeypatch.delenv("DEVICE", raising=False)
    assert Device.DEFAULT == "CPU"


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("name", "form", "other"), [("AMD", "hsaco", "LLVM:gfx1201"), ("NV", "cubin", "PTX:sm_86")]
)
def test_code_for_another_chip_is_refused(place, name, form, other):
    place()
    with pytest.raises(CodeObjectError, match=f"{name}:0 cannot run 'k'") as caught:
        Device[name].load(Code(other, form, b"", "k", ()))
    assert caught.value.facts == {"found": f"{form} for {other}", "wanted": TARGETS[name]}


@pytest.mark.row("BKE-02")
def test_closed_device_opens_again(place, name, adding):
    place()
    Buffer(name, 1, adding()[1].dtype).copy_in(words(1))
    Device.close_all()
    call, *_, out = adding()
    run_linear([call])
    assert out.copy_out() == words(11, 22, 33, 44)
