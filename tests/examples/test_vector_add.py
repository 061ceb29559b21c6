"""The raw example, run as its user runs it, and the code object it ships."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "vector_add.py"


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
    assert done.returncode != 0
    assert "/dev/kfd" in done.stderr
    assert "python -m sim" in done.stderr


@pytest.mark.parametrize("arch", ["gfx1100"])
def test_shipped_code_object_is_what_the_generator_makes(arch):
    generator = importlib.import_module("tools.gen_vector_add")
    shipped = (ROOT / "examples" / "data" / f"vector_add.{arch}.o").read_bytes()
    assert generator.make(arch) == shipped
