"""hcq-devices: a row per device, on a machine with simulated GPUs and on one without."""

import errno
import json

import pytest

from hcq.amd.arch import ARCHES
from hcq.amd.device import Device as AmdDevice
from hcq.settings import Context
from runtime.device import Device
from tools import hcq_devices
from tools.hcq_devices import main


@pytest.fixture(autouse=True)
def fresh_devices(monkeypatch, machine):
    """No device is open before, or when its machine goes; none is named."""
    monkeypatch.delenv("DEVICE", raising=False)
    monkeypatch.delenv("DEV", raising=False)
    Device.close_all()
    yield
    Device.close_all()


@pytest.fixture
def devices(capsys):
    """devices(*options): (exit code, lines of output)."""

    def run(*options):
        code = main(list(options))
        return code, capsys.readouterr().out.splitlines()

    return run


@pytest.fixture
def table(devices):
    """table(): (exit code, rows of --json by device)."""

    def run():
        code, lines = devices("--json")
        return code, {row["device"]: row for row in json.loads("\n".join(lines))}

    return run


@pytest.mark.row("REG-14")
def test_a_machine_without_gpu_says_why_and_what_helps(machine, devices):
    machine([])
    code, lines = devices()
    assert code == 0
    assert lines[0].startswith("  AMD    no  no AMD GPU here: /dev/kfd does not exist; fix: check")
    assert "modprobe amdgpu" in lines[0]
    assert lines[1].startswith(
        "  NV     no  no NVIDIA GPU here: /dev/nvidiactl does not exist; fix"
    )
    assert lines[-1].startswith("* CPU    ok  x86-64-")


@pytest.mark.row("REG-14")
def test_a_gpu_has_chip_driver_memory_interface_and_renderer(machine, table):
    machine("gfx1100")
    code, rows = table()
    assert code == 0
    assert rows["AMD"] == {
        "device": "AMD",
        "works": True,
        "is_default": True,
        "chip": "gfx1100",
        "driver": "KFD 1.17",
        "memory_bytes": 24 << 30,
        "interfaces": [{"name": "KFD", "count": 1, "reason": ""}],
        "renderers": [{"name": "LLVM:gfx1100", "works": True, "reason": ""}],
        "reason": "",
        "fix": "",
    }
    assert not rows["CPU"]["is_default"]


@pytest.mark.row("REG-14")
@pytest.mark.parametrize("chip", ["sm_86", "sm_90", "sm_120"])
def test_an_nvidia_gpu_has_a_row_too(machine, table, chip):
    pytest.importorskip("nvidia", reason="nvidia-nvjitlink (extra nv) is not installed")
    machine(chip)
    code, rows = table()
    assert code == 0
    row = rows["NV"]
    assert (row["chip"], row["driver"], row["is_default"]) == (chip, "580.159.03", True)
    assert row["interfaces"] == [{"name": "NVK", "count": 1, "reason": ""}]
    assert row["renderers"] == [{"name": f"PTX:{chip}", "works": True, "reason": ""}]
    assert row["memory_bytes"] > 1 << 33


@pytest.mark.row("REG-14")
def test_rights_that_lack_are_told_with_the_remedy(machine, devices):
    machine("sm_90").deny("/dev/nvidiactl", errno.EACCES)
    _, lines = devices()
    assert lines[1].startswith("  NV     no  no rights on /dev/nvidiactl: it belongs to group ")
    assert "; fix: join the group: sudo usermod -aG " in lines[1]


@pytest.mark.row("REG-14")
def test_every_gpu_has_a_row(machine, devices):
    machine("gfx1100", count=2)
    code, lines = devices()
    assert code == 0
    assert [line[:12] for line in lines[:2]] == ["* AMD    ok ", "  AMD:1  ok "]
    assert lines[0].split("  ", 2)[2].endswith("interfaces KFD 2  renderers LLVM:gfx1100 ok")


@pytest.mark.row("REG-14")
def test_every_renderer_of_the_processor_multiplies(machine, table):
    machine([])
    _, rows = table()
    renderers = rows["CPU"]["renderers"]
    assert {"name": "LLVM:x86-64-v2", "works": True, "reason": ""} in renderers
    assert all(found["works"] for found in renderers)


@pytest.mark.row("REG-14")
def test_a_default_that_does_not_open_is_exit_1(machine, devices):
    machine([])
    with Context(DEVICE="AMD"):
        code, lines = devices()
    assert code == 1
    assert lines[0].startswith("* AMD    no  no AMD GPU here")


@pytest.mark.row("REG-14")
def test_a_wrong_product_is_exit_1_and_shown(machine, devices, monkeypatch):
    machine("gfx1100")
    monkeypatch.setattr(hcq_devices, "multiply", lambda opened, renderer: [14, 33, 66])
    code, lines = devices()
    assert code == 1
    assert "LLVM:gfx1100 failed: [2, 3, 5] * [7, 11, 13] gave [14, 33, 66]" in lines[0]


@pytest.mark.row("REG-14")
def test_nothing_is_opened_twice(machine, devices, monkeypatch):
    machine("gfx1100", count=2)
    opened = []
    before = AmdDevice.__init__

    def counted(self, index, **rest):
        opened.append(index)
        before(self, index, **rest)

    monkeypatch.setattr(AmdDevice, "__init__", counted)
    assert devices()[0] == 0
    assert opened == [0, 1]


@pytest.mark.row("REG-14")
def test_a_gpu_that_is_refused_is_not_the_default(machine, table, monkeypatch):
    machine("gfx1100")
    monkeypatch.delitem(ARCHES, 110000)
    code, rows = table()
    assert code == 0
    assert rows["AMD"]["reason"] == "the GPU is a gfx1100, which is not supported"
    assert rows["CPU"]["is_default"]


def test_a_named_device_beyond_the_rows_gets_one(machine, devices):
    machine([])
    with Context(DEVICE="CPU:3"):
        code, lines = devices()
    assert code == 0
    assert lines[-1].startswith("* CPU:3  ok ")


@pytest.mark.refusal
def test_a_malformed_setting_is_exit_1(machine, capsys):
    machine([])
    with Context(DEVICE="a+b+c"):
        assert main([]) == 1
    assert "DEVICE='a+b+c' is malformed" in capsys.readouterr().err
