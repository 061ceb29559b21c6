import errno
import json
import subprocess
import sys
import threading

import pytest

from hcq.amd.arch import ARCHES
from hcq.errors import (
    ConfigError,
    DeviceBanned,
    DeviceNotFound,
    DeviceOpenError,
    FallbackWarning,
    IoctlError,
    LaunchError,
    Unsupported,
    UnsupportedDevice,
    WaitTimeout,
    missing_node,
)
from hcq.settings import Context
from runtime.device import Device, Registry, Way
from runtime.opened import HEALTH


def python(code, **environment):
    """Run code in a new interpreter; (exit status, stdout, stderr)."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=30,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path), **environment},
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


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
def test_import_loads_no_backend_and_no_library():
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
def test_backend_loads_at_first_index():
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


@pytest.mark.row("REG-15")
def test_devices_are_drained_and_closed_in_reverse_order(fake, fake_backend, monkeypatch):
    order = []
    monkeypatch.setattr(fake_backend, "close", lambda self: order.append(f"close {self.name}"))
    monkeypatch.setattr(
        fake_backend, "synchronize", lambda self, timeout=None: order.append(f"drain {self.name}")
    )
    fake(0), fake(1)
    Device.close_all()
    assert order == ["drain FAKE:1", "close FAKE:1", "drain FAKE:0", "close FAKE:0"]


@pytest.mark.row("REG-15")
def test_failed_device_is_not_waited_for(fake, fake_backend, monkeypatch):
    drained = []
    monkeypatch.setattr(fake_backend, "health", lambda self: "reset-device")
    monkeypatch.setattr(
        fake_backend, "synchronize", lambda self, timeout=None: drained.append(self)
    )
    backend = fake()
    Device.close_all()
    assert (drained, backend.is_closed) == ([], True)


@pytest.mark.row("REG-15")
def test_failed_device_is_skipped_at_exit(fake, fake_backend, monkeypatch):
    monkeypatch.setattr(fake_backend, "health", lambda self: "reset-device")
    backend = fake()
    Device.close_all(at_exit=True)
    assert not backend.is_closed


@pytest.mark.row("REG-15")
def test_errors_while_closing_are_logged(fake, fake_backend, monkeypatch, caplog):
    def hang(self, timeout=None):
        assert timeout is not None
        raise WaitTimeout("still running")

    monkeypatch.setattr(fake_backend, "synchronize", hang)
    backend = fake()
    Device.close_all()
    assert backend.is_closed
    assert "FAKE:0 did not finish before it was closed: still running" in caplog.text


@pytest.mark.row("REG-15")
def test_process_with_live_buffers_ends(int32):
    code = (
        "from runtime.buffer import Buffer\n"
        "class E: name='int32'; itemsize=4\n"
        "kept = [Buffer('CPU', 1000, E).ensure_allocated() for _ in range(10)]\n"
        "print('end')"
    )
    assert python(code) == (0, "end\n", "")


FORK = """
import os
from runtime.backend import MemoryOptions
from runtime.buffer import Buffer
from runtime.device import Device
from hcq.errors import DeviceBanned
class E: name='uint8'; itemsize=1
buffer = Buffer('CPU', 4, E).copy_in(b'abcd')
other = Buffer('CPU', 4, E, options=MemoryOptions(nolru=True)).allocate()
child = os.fork()
if child == 0:
    del other
    try:
        buffer.copy_out()
    except DeviceBanned as error:
        print(error.what, flush=True)
    try:
        Buffer('CPU', 4, E).ensure_allocated()
    except DeviceBanned as error:
        print(error.what, flush=True)
    print(bytes(Buffer('CPU:1', 2, E).copy_in(b'ok').copy_out()), flush=True)
    raise SystemExit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), bytes(buffer.copy_out()))
"""


@pytest.mark.row("REG-17")
@pytest.mark.refusal
def test_forked_child_may_not_use_what_the_parent_opened():
    status, out, error = python(FORK)
    assert (status, error) == (0, "")
    assert out.splitlines() == [
        "CPU:0 cannot be used here: it was opened before fork",
        "CPU:0 cannot be used here: it was opened before fork",
        "b'ok'",
        "0 b'abcd'",
    ]


SPAWN = """
import multiprocessing
def child(queue):
    from runtime.buffer import Buffer
    class E: name='uint8'; itemsize=1
    queue.put(bytes(Buffer('CPU', 4, E).copy_in(b'wxyz').copy_out()))
if __name__ == '__main__':
    from runtime.device import Device
    Device['CPU']
    context = multiprocessing.get_context('spawn')
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    print(queue.get())
    process.join()
    print(process.exitcode)
"""


@pytest.mark.row("REG-17")
def test_spawned_child_may_open_devices(tmp_path):
    script = tmp_path / "spawn.py"
    script.write_text(SPAWN)
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=30,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)},
        check=False,
    )
    assert (done.stdout, done.stderr) == ("b'wxyz'\n0\n", "")


@pytest.mark.refusal
def test_program_call_checks_its_counts(add_kernel):
    program = Device["CPU"].program(add_kernel())
    with pytest.raises(LaunchError, match="takes 3 buffers and 0 scalars, not 0 and 0"):
        program()


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


def test_a_recording_that_would_stay_empty_is_announced_once(tmp_path):
    path = tmp_path / "run.jsonl"
    code = "from tensor import Tensor; (Tensor([1, 2]) + 1).tolist(); Tensor([3]).tolist()"
    status, _, stderr = python(code, DEVICE="CPU", HCQ_CAPTURE=str(path))
    text = f"FallbackWarning: HCQ_CAPTURE={path}: CPU:0 has no command queues, so nothing of"
    assert (status, stderr.count(text), stderr.count("HCQ_CAPTURE")) == (0, 1, 1)
