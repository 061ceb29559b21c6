"""What the documents promise is there."""

import importlib
import re
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


def test_readme_commands_name_files_that_exist():
    text = (ROOT / "README.md").read_text()
    named = set(re.findall(r"(?:examples|tools)/[\w./]+\.(?:py|npz|md)", text))
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []
