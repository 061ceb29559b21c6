"""The training example, run as its user runs it, on the CPU and on a simulated GPU."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STEPS = 12


def run(*command, **environment):
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def losses(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """By model and device: (lines printed, records of the log) of a short run."""
    folder, known = tmp_path_factory.mktemp("train"), {}

    def make(model, device):
        if (model, device) not in known:
            log = folder / f"{model}-{device}.jsonl"
            steps = STEPS if model == "mlp" else 4
            launcher = ("-m", "sim", "--gpu", "gfx1100") if device == "AMD" else ()
            options = ("--model", model, "--steps", str(steps), "--log", str(log))
            lines = run(*launcher, "examples/train.py", *options, DEVICE=device)
            known[model, device] = lines, losses(log)
        return known[model, device]

    return make


@pytest.mark.row("ENV-01")
@pytest.mark.parametrize(
    ("device", "first"),
    [("CPU", r"device CPU:0 x86-64-v[234]"), ("AMD", r"device AMD:0 gfx1100")],
)
def test_first_line_names_the_device_and_the_last_the_accuracy(runs, device, first):
    lines, _ = runs("mlp", device)
    assert re.fullmatch(first, lines[0])
    assert re.fullmatch(r"test accuracy 0\.\d{4}", lines[-1])


def test_progress_is_step_loss_accuracy_and_rate(tmp_path):
    lines = run("examples/train.py", "--steps", "500", DEVICE="CPU")
    for line in lines[1:-1]:
        number = r"\d+\.\d"
        assert re.fullmatch(
            rf"step +\d+ loss {number}{{4}} accuracy [01]\.\d{{3}} {number} steps/s", line
        )
    assert float(lines[-1].removeprefix("test accuracy ")) >= 0.97


@pytest.mark.parametrize("device", ["CPU", "AMD"])
def test_log_has_one_line_per_step(runs, device):
    _, records = runs("mlp", device)
    assert [record["step"] for record in records] == list(range(STEPS))
    assert [sorted(record) for record in records] == [["loss", "step"]] * STEPS
    assert 2.2 < records[0]["loss"] < 2.5
    assert records[-1]["loss"] < records[0]["loss"]


@pytest.mark.row("BKE-03")
@pytest.mark.parametrize("model", ["mlp", "conv"])
def test_losses_of_both_devices_are_equal(runs, model):
    near, far = (runs(model, device)[1] for device in ("CPU", "AMD"))
    assert len(near) == len(far)
    for a, b in zip(near, far, strict=True):
        assert abs(a["loss"] - b["loss"]) <= 1e-4 * max(abs(b["loss"]), 0.01), (a, b)


def test_seed_decides_the_run(tmp_path):
    found = []
    for number, seed in enumerate((3, 3, 4)):
        log = tmp_path / f"{number}.jsonl"
        command = ("--steps", "2", "--seed", str(seed), "--log", str(log))
        run("examples/train.py", *command, DEVICE="CPU")
        found.append(losses(log))
    assert found[0] == found[1] != found[2]


COUNT = """
import runpy, sys
from tensor import GlobalCounters
sys.argv = ["train.py", "--steps", "3"]
runpy.run_path("examples/train.py", run_name="__main__")
print(GlobalCounters.kernel_count, GlobalCounters.device("AMD:0").kernel_count)
"""


@pytest.mark.row("PRO-06")
@pytest.mark.row("SIM-02")
def test_dispatches_the_gpu_counts_equal_the_kernels_we_count(tmp_path):
    script = tmp_path / "count.py"
    script.write_text(COUNT)
    done = subprocess.run(
        [sys.executable, "-m", "sim", "--stats", str(script)],
        cwd=ROOT,
        env={**os.environ, "DEVICE": "AMD", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    counted = done.stdout.splitlines()[-1].split()
    dispatches = re.search(r"^dispatches (\d+)$", done.stderr, re.M)[1]
    assert int(dispatches) > 50
    assert counted == [dispatches, dispatches]


@pytest.mark.row("ENV-01")
@pytest.mark.refusal
@pytest.mark.skipif(Path("/dev/kfd").exists(), reason="this machine has an AMD GPU")
@pytest.mark.parametrize(
    ("device", "text", "module"),
    [
        ("AMD", "no AMD GPU here: /dev/kfd does not exist", "amdgpu"),
        ("NV", "no NVIDIA GPU here: /dev/nvidiactl does not exist", "modprobe nvidia"),
    ],
)
def test_a_named_gpu_that_is_not_there_ends_the_run_at_once(device, text, module):
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "examples/train.py"],
        cwd=ROOT,
        env={**os.environ, "DEVICE": device},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert time.monotonic() - start < 2
    assert (done.returncode, done.stdout) == (1, "")
    for part in (text, module, "lspci", "python -m sim"):
        assert part in done.stderr
    assert done.stderr.startswith(f"DeviceOpenError: {text}\n")


WITHOUT_EXTRA = """
import runpy, sys
from jit.codegen import nvjitlink
nvjitlink.FOLDERS = ()
sys.argv = ["train.py", "--steps", "1"]
runpy.run_path("examples/train.py", run_name="__main__")
"""


@pytest.mark.row("REG-09")
@pytest.mark.refusal
def test_an_nvidia_gpu_without_its_compiler_ends_the_run_with_what_to_install(tmp_path):
    script = tmp_path / "without.py"
    script.write_text(WITHOUT_EXTRA)
    done = subprocess.run(
        [sys.executable, "-m", "sim", "--gpu", "sm_90", str(script)],
        cwd=ROOT,
        env={**os.environ, "DEVICE": "", "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "device NV:0 sm_90\n")
    first, _, hint = done.stderr.splitlines()
    assert first.startswith("CompileError: nvJitLink 13 is not installed")
    assert hint.startswith("hint: pip install 'nvidia-nvjitlink")


DRAINING = """
import runpy, sys, time
from runtime.opened import OpenedDevice
now = 0
def clock():
    global now
    now += 2
    return now
def drain(device, timeout=None):
    global now
    now += 1000
time.monotonic, OpenedDevice.synchronize = clock, drain
sys.argv = ["train.py", "--steps", "1"]
runpy.run_path("examples/train.py", run_name="__main__")
"""


def test_the_rate_counts_the_time_in_which_the_queue_drains(tmp_path):
    script = tmp_path / "draining.py"
    script.write_text(DRAINING)
    lines = run(str(script), DEVICE="CPU", PYTHONPATH=str(ROOT))
    assert lines[1].endswith(" 0.0 steps/s")  # one in more than 1000 s


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--steps", "-3"), "'-3' is not a number of steps"),
        (("--log", "/nowhere/at/all"), "No such file or directory: '/nowhere/at/all'"),
    ],
)
def test_what_cannot_be_done_is_refused_before_training(options, message):
    command = [sys.executable, "examples/train.py", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert message in done.stderr
    assert not done.stdout
