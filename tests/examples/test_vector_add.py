"""The raw example, run as its user runs it, and the code object it ships."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "vector_add.py"
HAS_GPU = Path("/dev/kfd").exists() or Path("/dev/nvidiactl").exists()


def run(*command, **environment):
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.row("HCQ-37")
def test_runs_on_a_simulated_gpu_and_counts_its_work():
    done = run("-m", "sim", "--gpu", "gfx1100", "--stats", str(EXAMPLE), DEVICE="AMD")
    assert done.stdout == "AMD:0 gfx1100: 65536 sums, 0 wrong\n"
    assert done.returncode == 0
    assert "dispatches 1\n" in done.stderr
    assert "waves 2048\n" in done.stderr


@pytest.mark.refusal
@pytest.mark.skipif(Path("/dev/kfd").exists(), reason="this machine has an AMD GPU")
def test_without_a_gpu_the_error_names_the_node_and_the_simulator():
    done = run(str(EXAMPLE), DEVICE="AMD")
    assert done.returncode == 1
    assert done.stderr.startswith("DeviceOpenError: no AMD GPU here: /dev/kfd does not exist\n")
    assert "python -m sim --gpu gfx1100" in done.stderr


@pytest.mark.row("HCQ-37")
@pytest.mark.parametrize(("gpu", "name"), [("gfx1100", "AMD"), ("sm_90", "NV")])
def test_without_device_the_gpu_that_is_there_is_used(gpu, name):
    done = run("-m", "sim", "--gpu", gpu, str(EXAMPLE), DEVICE="")
    assert (done.stdout, done.returncode) == (f"{name}:0 {gpu}: 65536 sums, 0 wrong\n", 0)


@pytest.mark.refusal
@pytest.mark.skipif(HAS_GPU, reason="this machine has a GPU")
def test_without_device_and_gpu_every_vendor_says_why():
    done = run(str(EXAMPLE), DEVICE="")
    assert (done.returncode, done.stdout) == (1, "")
    for text in ("no AMD GPU here: /dev/kfd", "no NVIDIA GPU here: /dev/nvidiactl", "hint: "):
        assert text in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.refusal
def test_on_a_simulated_machine_the_simulator_is_named_with_the_gpu_that_lacks():
    done = run("-m", "sim", "--gpu", "sm_90", str(EXAMPLE), DEVICE="AMD")
    assert done.returncode == 1
    assert done.stderr.endswith("simulate one: python -m sim --gpu gfx1100 SCRIPT\n")


def test_device_names_an_index():
    done = run("-m", "sim", "--gpu", "gfx1100", "--count", "2", str(EXAMPLE), DEVICE="amd:1")
    assert done.stdout == "AMD:1 gfx1100: 65536 sums, 0 wrong\n"


@pytest.mark.refusal
@pytest.mark.parametrize("name", ["CPU", "AMD:x", "os"])
def test_another_device_is_refused_in_one_line_that_tells_the_known(name):
    done = run(str(EXAMPLE), DEVICE=name)
    text = f"DEVICE={name}: raw queues are there for AMD and NV, also as NV:1\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", text)


@pytest.mark.refusal
def test_a_missing_code_object_is_told_with_what_makes_one(tmp_path):
    copy = tmp_path / "vector_add.py"
    copy.write_text(EXAMPLE.read_text())
    done = run("-m", "sim", "--gpu", "gfx1100", str(copy), DEVICE="AMD")
    text = "AMD:0: no vector_add.gfx1100.o here; tools/gen_vector_add.py makes them\n"
    assert (done.returncode, done.stderr) == (1, text)


@pytest.mark.row("HCQ-37")
@pytest.mark.parametrize("chip", ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"])
def test_the_example_runs_on_every_nvidia_chip(chip):
    done = run("-m", "sim", "--gpu", chip, str(EXAMPLE), DEVICE="NV")
    assert (done.returncode, done.stdout) == (0, f"NV:0 {chip}: 65536 sums, 0 wrong\n"), done.stderr


@pytest.mark.parametrize(
    "arch", ["gfx1100", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"]
)
def test_shipped_code_object_is_what_the_generator_makes(arch):
    if arch.startswith("sm_"):
        pytest.importorskip("nvidia", reason="nvidia-nvjitlink (extra nv) is not installed")
    generator = importlib.import_module("tools.gen_vector_add")
    shipped = (ROOT / "examples" / "data" / f"vector_add.{arch}.o").read_bytes()
    assert generator.make(arch) == shipped
