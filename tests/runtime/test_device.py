"""Looking devices up: names, indices, objects and what they can do."""

import json
import threading

import pytest

from hcq.errors import (
    ConfigError,
    DeviceNotFound,
    LaunchError,
    Unsupported,
)
from runtime.device import Device
from runtime.opened import HEALTH


@pytest.mark.row("REG-01")
def test_spellings_name_one_object():
    assert Device["cpu"] is Device["CPU"] is Device["CPU:0"] is Device["cpu:0"]


@pytest.mark.row("REG-01")
def test_threads_get_one_object(fake, fake_backend):
    found = []
    threads = [threading.Thread(target=lambda: found.append(Device["FAKE"])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1
    assert len(fake_backend.opened) == 1


@pytest.mark.row("REG-01")
def test_import_routes_give_one_object():
    from tensor import Device as from_tensor

    assert from_tensor is Device


@pytest.mark.row("REG-01")
@pytest.mark.parametrize(
    ("spelling", "name"),
    [("cpu:0", "CPU"), ("cpu:3", "CPU:3"), ("disk:/Tmp/File:0", "DISK:/Tmp/File:0")],
)
def test_text_after_the_first_colon_stays_as_given(spelling, name):
    assert Device.canonicalize(spelling) == name


def test_index_makes_another_device(fake):
    assert Device["FAKE:1"] is not Device["FAKE"]
    assert Device["FAKE:1"].name == "FAKE:1"


@pytest.mark.row("REG-02")
def test_import_loads_no_backend_and_no_library(python):
    code = (
        "import sys, json, hcq, runtime, jit, tensor, runtime.device, runtime.execute\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    status, out, error = python(code)
    assert status == 0, error
    loaded = set(json.loads(out))
    unwanted = {"runtime.fallback.cpu", "runtime.hcq_backend", "hcq.host", "llvmlite", "numpy"}
    assert loaded & (unwanted | {"hcq.amd.device", "elftools", "cffi"}) == set()


@pytest.mark.row("REG-02")
def test_backend_loads_at_first_index(python):
    code = (
        "import sys; from runtime.device import Device\n"
        "before = 'runtime.fallback.cpu' in sys.modules\n"
        "Device['CPU']; print(before, 'runtime.fallback.cpu' in sys.modules)"
    )
    assert python(code)[1] == "False True\n"


@pytest.mark.row("REG-03")
@pytest.mark.refusal
def test_unknown_name_gets_known_names_and_the_nearest():
    with pytest.raises(DeviceNotFound, match="no device 'NVV', did you mean 'NV'") as caught:
        Device["NVV"]
    assert "known=AMD, NV, CPU" in str(caught.value)


@pytest.mark.row("REG-03")
@pytest.mark.refusal
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        *(("CUDA", "DEVICE=NV"), ("NVIDIA", "DEVICE=NV"), ("NVV", "DEVICE=NV")),
        *(("HIP", "DEVICE=AMD"), ("ROCM", "DEVICE=AMD"), ("CPUU", "DEVICE=CPU")),
        *(("GPU", "DEVICE=AMD or DEVICE=NV"), ("H100", "DEVICE=AMD or DEVICE=NV or DEVICE=CPU")),
    ],
)
def test_a_name_of_elsewhere_gets_ours(name, hint):
    with pytest.raises((DeviceNotFound, Unsupported), match=f"device '{name}'") as caught:
        Device[name]
    assert caught.value.hint == hint


@pytest.mark.refusal
def test_nobody_who_asks_for_a_gpu_is_asked_whether_they_mean_the_processor():
    with pytest.raises(DeviceNotFound, match="no device 'GPU'") as caught:
        Device["GPU"]
    assert caught.value.what == "no device 'GPU'"


@pytest.mark.row("REG-03")
@pytest.mark.refusal
def test_index_that_is_too_large_gets_the_count(fake):
    with pytest.raises(DeviceNotFound, match="no device 'FAKE:9': there are 3 FAKE devices"):
        Device["FAKE:9"]


@pytest.mark.refusal
def test_device_of_a_later_version_is_unsupported_by_name():
    with pytest.raises(Unsupported, match="device 'CUDA' is not supported yet"):
        Device["CUDA"]


@pytest.mark.refusal
def test_lookup_with_a_renderer_is_sent_to_the_setting():
    with pytest.raises(ConfigError, match="belong in DEVICE"):
        Device["CPU:LLVM"]


@pytest.mark.row("REG-16")
def test_device_object_has_what_a_user_needs():
    device = Device["CPU:1"]
    assert (device.name, device.index, device.canonical) == ("CPU:1", 1, "CPU:1")
    assert device.arch.startswith("x86-64-v")
    assert device.renderers[0] == device.target == f"LLVM:{device.arch}"
    assert device.count() == 64
    assert device.health() == "ok"
    assert device.health() in HEALTH
    device.synchronize()
    assert device.allocator.live == 0
    assert len(device.batch()) == 0


@pytest.mark.row("ALC-02")
@pytest.mark.refusal
@pytest.mark.parametrize("operation", ["host_view", "transfer", "map", "offset", "encode"])
def test_operation_a_backend_lacks_is_refused_by_name(fake, operation):
    fake()
    with pytest.raises(Unsupported, match=f"FAKE:0 has no operation '{operation}'") as caught:
        Device["FAKE"].hook(operation)
    assert caught.value.facts == {"backend": "FakeBackend", "operation": operation}


@pytest.mark.row("ALC-02")
def test_capabilities_can_be_read(fake):
    fake()
    assert Device["FAKE"].capabilities == {"copy_in", "copy_out"}


@pytest.mark.refusal
def test_program_call_checks_its_counts(add_kernel):
    program = Device["CPU"].program(add_kernel())
    with pytest.raises(LaunchError, match="takes 3 buffers and 0 scalars, not 0 and 0"):
        program()


def test_a_recording_that_would_stay_empty_is_announced_once(tmp_path, python):
    path = tmp_path / "run.jsonl"
    code = "from tensor import Tensor; (Tensor([1, 2]) + 1).tolist(); Tensor([3]).tolist()"
    status, _, stderr = python(code, DEVICE="CPU", HCQ_CAPTURE=str(path))
    text = f"FallbackWarning: HCQ_CAPTURE={path}: CPU:0 has no command queues, so nothing of"
    assert (status, stderr.count(text), stderr.count("HCQ_CAPTURE")) == (0, 1, 1)
