"""The steps of a first contact, on simulated GPUs and on a real one where there is one."""

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SCRIPTS = {"AMD": HERE / "first_contact_amd.py", "NV": HERE / "first_contact.py"}
NAMES = [
    *("version", "card info", "client and device", "class list", "usermode timer"),
    *("address space", "2 MiB of video memory", "channel and token"),
    *("host semaphore 32-bit", "host semaphore 64-bit", "host semaphore timestamp"),
    *("copy", "inline write", "empty kernel", "store kernel", "dependent chain"),
    *("shared", "local", "timestamps", "vector add", "20 train steps"),
    *("bad store", "reopen and copy"),
]


def contact(vendor, capture, *before):
    """(exit code, lines) of the script of a vendor."""
    script = [str(SCRIPTS[vendor]), "--capture", str(capture)]
    done = subprocess.run(
        [sys.executable, *before, *script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout.splitlines() or done.stderr.splitlines()


def steps(lines):
    """(number, name) of every step that went well."""
    return re.findall(r"^ ?(\d+) (.{26}) ok ", "\n".join(lines), re.M)


@pytest.mark.row("NV-27")
@pytest.mark.parametrize(
    ("vendor", "gpu"), [("AMD", "gfx1100"), ("NV", "sm_86"), ("NV", "sm_90"), ("NV", "sm_120")]
)
def test_every_step_on_a_simulated_gpu(vendor, gpu, tmp_path):
    code, lines = contact(vendor, tmp_path / "c.jsonl", "-m", "sim", "--gpu", gpu)
    assert code == 0, lines
    found = [(int(number), name.strip()) for number, name in steps(lines)]
    assert found == list(enumerate(NAMES, 1))
    records = [json.loads(line) for line in (tmp_path / "c.jsonl").read_text().splitlines()]
    assert {"ioctl", "submission", "device"} <= {record["record"] for record in records}


@pytest.mark.row("NV-27")
def test_the_first_failing_step_ends_the_run_and_says_what_was_seen(tmp_path):
    code, lines = contact("NV", tmp_path / "c.jsonl", "-m", "sim", "--gpu", "gfx1100")
    assert code == 1
    assert lines[0].startswith(" 1 version                    FAILED: DeviceOpenError: no NVIDIA")
    assert not any(line.startswith(" 2") for line in lines)


def options(vendor, *words, cwd=ROOT):
    """(exit code, both outputs) of a script that is given options."""
    done = subprocess.run(
        [sys.executable, str(SCRIPTS[vendor]), *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--qmd"], "argument --qmd: expected one argument"),
        (["--qmd", "9"], "argument --qmd: invalid choice: 9 (choose from 3, 4, 5)"),
        (["--qmd", "x"], "argument --qmd: invalid int value: 'x'"),
    ],
)
def test_a_version_of_launch_records_that_no_chip_has_is_refused(words, text):
    code, said = options("NV", *words)
    assert code == 2
    assert text in said


def test_help_tells_every_option():
    code, said = options("NV", "--help")
    assert code == 0
    for word in ("--qmd {3,4,5}", "--capture FILE", "--reopen", "python -m sim --gpu sm_90"):
        assert word in said


@pytest.mark.refusal
@pytest.mark.parametrize("vendor", SCRIPTS)
def test_a_recording_is_never_overwritten(vendor, tmp_path):
    path = tmp_path / "good.jsonl"
    path.write_text("kept\n")
    code, said = options(vendor, "--capture", str(path))
    assert code == 2
    assert f"{path} is there already and is not overwritten" in said
    assert path.read_text() == "kept\n"


def test_a_recording_that_is_not_named_has_date_and_time(tmp_path):
    (tmp_path / "first_contact.jsonl").write_text("kept\n")
    script = [str(SCRIPTS["NV"]), "--reopen"]
    command = [sys.executable, "-m", "sim", "--gpu", "sm_90", *script]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    found = sorted(path.name for path in tmp_path.iterdir())
    assert found[0] == "first_contact.jsonl"
    assert re.fullmatch(r"first_contact_\d{8}-\d{6}\.jsonl", found[1])


@pytest.mark.row("NV-27")
def test_a_failing_training_is_told_by_its_step(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    steps = importlib.import_module("steps")
    contact = SimpleNamespace(name="NV,CPU", capture=tmp_path / "c.jsonl", close=lambda: None)
    monkeypatch.setenv("DEVICE", "")
    with pytest.raises(steps.Unexpected, match=r"^ConfigError: DEVICE='NV,CPU' is malformed"):
        steps.train(contact)


@pytest.mark.device
@pytest.mark.row("NV-27")
@pytest.mark.parametrize("vendor", SCRIPTS)
def test_every_step_on_a_real_gpu(vendor, tmp_path):
    node = {"AMD": "/dev/kfd", "NV": "/dev/nvidiactl"}[vendor]
    if not Path(node).exists():
        pytest.skip(f"no {node}")
    code, lines = contact(vendor, tmp_path / "c.jsonl")
    assert code == 0, lines
    assert len(steps(lines)) == len(NAMES)
