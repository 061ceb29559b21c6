"""hcq-devices: a row per device, on a machine with simulated GPUs and on one without."""

import errno
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from hcq.amd.arch import ARCHES
from hcq.amd.device import Device as AmdDevice
from hcq.errors import CompileError
from hcq.settings import Context
from jit.codegen import nvjitlink
from runtime.device import Device
from tools import hcq_devices
from tools.hcq_devices import main

ROOT = Path(__file__).parents[2]


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
        "bus": "0000:03:00.0",
        "driver": "KFD 1.17",
        "memory_bytes": 24 << 30,
        "interfaces": [{"name": "KFD", "count": 1, "reason": ""}],
        "renderers": [{"name": "LLVM:gfx1100", "works": True, "reason": "", "fix": ""}],
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
    assert row["bus"] == "0000:17:00.0"
    assert row["interfaces"] == [{"name": "NVK", "count": 1, "reason": ""}]
    assert row["renderers"] == [{"name": f"PTX:{chip}", "works": True, "reason": "", "fix": ""}]
    assert row["memory_bytes"] > 1 << 33


@pytest.mark.row("REG-14")
def test_rights_that_lack_are_told_with_the_remedy(machine, devices):
    machine("sm_90").deny("/dev/nvidiactl", errno.EACCES)
    _, lines = devices()
    assert lines[1].startswith("  NV     no  no rights on /dev/nvidiactl: it belongs to group ")
    assert "; fix: join the group: sudo usermod -aG " in lines[1]


WITHOUT_EXTRA = """
from jit.codegen import nvjitlink

nvjitlink.FOLDERS = ()
from tools.hcq_devices import main

raise SystemExit(main(["--json"]))
"""


@pytest.mark.row("REG-14")
def test_a_gpu_without_its_compiler_is_told_what_to_install(tmp_path):
    script = tmp_path / "without.py"
    script.write_text(WITHOUT_EXTRA)
    done = subprocess.run(
        [sys.executable, "-m", "sim", "--gpu", "sm_90", str(script)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True, text=True, cwd=ROOT, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    row = next(row for row in json.loads(done.stdout) if row["device"] == "NV")
    assert row["reason"].startswith("nvJitLink 13 is not installed")
    assert row["fix"].startswith("pip install 'nvidia-nvjitlink>=13.0,<13.6'")
    assert row["renderers"][0]["fix"] == row["fix"]


@pytest.mark.row("REG-14")
def test_the_line_of_a_renderer_that_fails_has_the_fix(machine, devices, monkeypatch):
    machine("gfx1100")

    def refuse(opened, renderer):
        raise CompileError("no compiler here", hint="install one")

    monkeypatch.setattr(hcq_devices, "multiply", refuse)
    code, lines = devices()
    assert code == 1
    assert lines[0].endswith("LLVM:gfx1100 failed: no compiler here; fix: install one")


def test_the_wheel_to_install_is_the_one_of_the_extra():
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"'{extra['optional-dependencies']['nv'][0]}'" in nvjitlink.HINT


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
    assert {"name": "LLVM:x86-64-v2", "works": True, "reason": "", "fix": ""} in renderers
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
