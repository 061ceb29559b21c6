"""The import rule, checked on every file."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# A module may import its own group and the groups listed for it. Longest name wins.
BASE = ["hcq.errors", "hcq.settings", "hcq.bits"]  # importable by everyone, the simulator included
LAYERS = {
    "hcq.errors": [],
    "hcq.settings": ["hcq.errors"],
    "hcq.bits": ["hcq.errors"],
    "hcq.interrupt": [],
    "hcq.ioctl_defs": BASE,
    "hcq.host": [*BASE, "hcq.ioctl_defs", "hcq.interrupt"],
    "hcq.nv.defs": BASE,
    "hcq.amd.defs": BASE,
    "sim": [*BASE, "hcq.ioctl_defs", "hcq.nv.defs", "hcq.amd.defs", "hcq.host"],
    "hcq.nv": [*BASE, "hcq", "hcq.interrupt", "hcq.host", "hcq.ioctl_defs", "hcq.nv.defs"],
    "hcq.amd": [*BASE, "hcq", "hcq.interrupt", "hcq.host", "hcq.ioctl_defs", "hcq.amd.defs"],
    "hcq": [*BASE, "hcq.host", "hcq.interrupt", "hcq.ioctl_defs"],
    "runtime.fallback": BASE,
    "runtime": [*BASE, "hcq", "hcq.host", "hcq.nv", "hcq.amd", "runtime.fallback"],
    "jit": [*BASE, "hcq", "runtime"],
    "tensor": [*BASE, "jit", "runtime"],
    "examples": [],  # these three: imported by nobody
    "tests": [],
    "tools": [],
}
GROUPS = sorted(LAYERS, key=len, reverse=True)
TOPS = ("hcq", "runtime", "jit", "tensor", "sim")
FILES = [path for top in TOPS for path in (ROOT / top).rglob("*.py")]


def group(module: str) -> str | None:
    return next((g for g in GROUPS if f"{module}.".startswith(f"{g}.")), None)


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{a.name}" for a in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_down(path):
    mine = group(".".join(path.relative_to(ROOT).with_suffix("").parts))
    theirs = {group(m) for m in imports(path)} - {None, mine}
    assert theirs <= set(LAYERS[mine]), f"{mine} must not import {theirs - set(LAYERS[mine])}"


@pytest.mark.parametrize(
    "path", [p for p in FILES if "defs" in p.parent.name], ids=lambda p: p.stem
)
def test_facts_name_their_source(path):
    assert path.name == "__init__.py" or "Source: " in ast.get_docstring(
        ast.parse(path.read_text())
    )


def test_import_by_name_has_one_place():
    words = ("import_module", "__import__")
    found = {
        str(path.relative_to(ROOT)) for path in FILES if any(w in path.read_text() for w in words)
    }
    assert found == {"runtime/device.py"}


def test_hcq_imports_nothing_itself():
    assert imports(ROOT / "hcq" / "__init__.py") <= {"typing.Any"}


def test_imports_resolve_to_this_checkout():
    import hcq
    import jit
    import runtime

    assert {Path(m.__file__).parents[1] for m in (hcq, jit, runtime)} == {ROOT}
