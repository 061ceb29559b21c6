"""The steps of a first contact, on simulated GPUs and on a real one where there is one."""

import json
import re
import subprocess
import sys
from pathlib import Path

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
