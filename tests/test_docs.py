"""What the documents promise is there."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hcq import errors
from hcq.errors import HcqError

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
ERRORS = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, HcqError)]
ERRORS += [importlib.import_module("tensor.errors").TensorError]


@pytest.mark.parametrize(
    "error", [e for e in ERRORS if e is not HcqError], ids=lambda e: e.__name__
)
def test_every_error_has_its_place_in_the_documents(error):
    made = error("x", number=5) if error is errors.IoctlError else error("x")
    headings = re.findall(r"^## (\S+)$", (DOCS / "errors.md").read_text(), re.M)
    assert made.code in headings


def test_documented_device_calls_exist():
    from hcq.amd.device import Device

    text = (DOCS / "queues.md").read_text()
    names = set(re.findall(r"`device\.(\w+)", text))
    assert {n for n in names if not hasattr(Device, n)} == set()


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_documents_name_files_that_exist(document):
    text = (ROOT / document).read_text()
    named = set(re.findall(r"\b[a-z]+/[\w./]+\.(?:py|npz|md)", text))
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("vendor", ["amd", "nv"])
def test_the_reading_order_goes_through_both_vendors(vendor):
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for folder in (f"hcq/{vendor}/", f"sim/{vendor}/", "jit/codegen/"):
        assert f"`{folder}" in text


def test_the_readme_tells_what_is_simulated_without_options():
    from sim.launch import DEFAULT_GPUS

    text = " ".join((ROOT / "README.md").read_text().split())
    assert f"without `--gpu` one {DEFAULT_GPUS[0]} (AMD) and one {DEFAULT_GPUS[1]}" in text


def test_the_programs_of_the_queue_document_run(machine, monkeypatch):
    monkeypatch.chdir(ROOT)
    programs = re.findall(r"^```python\n(.*?)^```", (DOCS / "queues.md").read_text(), re.M | re.S)
    pytest.importorskip("nvidia", reason="nvidia-nvjitlink (extra nv) is not installed")
    machine(["gfx1100", "sm_89"])
    names = {}
    for program in programs:
        exec(program, names)
    assert len(programs) == 3
    assert names["batch"].words_written == 2 + 1 + 1  # then only the block count


def test_the_suite_of_the_testing_document_passes(tmp_path):
    conftest, suite = re.findall(r"^```python\n(.*?)^```", _testing(), re.M | re.S)
    (tmp_path / "conftest.py").write_text(conftest)
    (tmp_path / "test_launch.py").write_text(suite)
    options = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "5 passed" in done.stdout


def test_what_the_testing_document_tells_of_a_machine_is_there(machine):
    cells = re.findall(r"^\| (`.*?) \|", _testing(), re.M)[1:]
    names = re.findall(r"`(\w+)", " ".join(cells))
    assert len(names) == 19
    made = machine()
    assert [name for name in names if not hasattr(made, name)] == []


def test_pytest_is_needed_by_the_testing_module_only():
    script = (
        "import importlib, pkgutil, sys, sim\n"
        "for module in pkgutil.walk_packages(sim.__path__, 'sim.'):\n"
        "    if module.name not in ('sim.__main__', 'sim.testing'):\n"
        "        importlib.import_module(module.name)\n"
        "print('pytest' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


@pytest.mark.parametrize("kind", ["compute", "copy"])
def test_the_table_of_verbs_tells_what_each_kind_of_queue_has(kind, machine):
    from hcq import amd
    from hcq.errors import LaunchError, Unsupported

    rows = re.findall(r"^\| `(\w+)\(.*?\)` \| (yes|no) \| (yes|no) \|", _queues(), re.M)
    claimed = {verb for verb, *has in rows if has[kind == "copy"] == "yes"}
    calls = {
        "launch": (None, 0, (1, 1, 1), (1, 1, 1)),
        **{"copy": (0, 64, 4), "fill": (0, 0, 4), "write": (0, [1]), "signal": (0, 1)},
        **{"wait": (0, 1), "poll": (0, 1, 1), "timestamp": (0,), "barrier": ()},
    }
    machine()
    with amd.open(0) as device:
        lacking = set()
        for verb, arguments in calls.items():
            try:
                getattr(device.queue(kind), verb)(*arguments)
            except Unsupported:
                lacking.add(verb)
            except LaunchError:
                assert verb == "launch"  # there is such a verb, and no program
    assert {verb for verb, *_ in rows} == set(calls)
    assert claimed == set(calls) - lacking


def test_settings_of_the_readme_and_options_of_its_tools_exist():
    from hcq.settings import SETTINGS
    from sim.launch import USAGE
    from tools.hcq_dump.__main__ import parser

    text = (ROOT / "README.md").read_text()
    assert set(re.findall(r"`([A-Z]+_[A-Z_]+)`", text)) <= set(SETTINGS)
    for option in ("--gpu", "--count", "--seed", "--driver", "--stats", "--faults"):
        assert option in USAGE
        assert option in text
    cat = parser()._subparsers._group_actions[0].choices["cat"]
    for option in cat._option_string_actions:
        if option not in ("-h", "--help", "--quiet"):
            assert option in text


def _queues():
    return (DOCS / "queues.md").read_text()


def _testing():
    return (DOCS / "testing.md").read_text()
