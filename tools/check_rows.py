"""Which contract rows of a milestone lack a passing, unskipped test.

`python tools/check_rows.py A` (or `A B`) runs the default suite and prints them, one
a line; the exit code is 1 if there are any. A test names the row it shows with
`@pytest.mark.row("HCQ-04")`. That takes as long as the suite: minutes, spread over all
cores where pytest-xdist is installed.
"""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
ROWS = ROOT / "tests" / "rows.tsv"


def due(letter: str) -> dict[str, str]:
    """The rows of a milestone: id -> feature."""
    lines = [text.split("\t") for text in ROWS.read_text().splitlines() if text[0] != "#"]
    return {row: feature for row, marked, feature in lines if marked == letter}


class Shown:
    """Collects the rows whose tests passed and those whose tests did not."""

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note the rows of one finished phase."""
        rows = {value for key, value in report.user_properties if key == "row"}
        if report.when == "call" and report.passed:
            self.passed |= rows
        elif report.failed:
            self.failed |= rows


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Let each report carry the rows of its test, also from a worker process."""
    for item in items:
        for mark in item.iter_markers("row"):
            item.user_properties += [("row", row) for row in mark.args]


def main() -> int:
    letters = sys.argv[1:]
    if not letters or not all(due(letter) for letter in letters):
        print("usage: python tools/check_rows.py LETTER...", file=sys.stderr)
        return 2
    wanted = {row: feature for letter in letters for row, feature in due(letter).items()}
    shown = Shown()
    sys.path.insert(0, str(ROOT))
    options = ["-q", "-p", "tools.check_rows", "--rootdir", str(ROOT)]
    if importlib.util.find_spec("xdist") is not None:
        options += ["-n", "auto"]
    outcome = pytest.main([*options, str(ROOT / "tests")], plugins=[shown])
    missing = {r: f for r, f in wanted.items() if r not in shown.passed - shown.failed}
    for row, feature in missing.items():
        print(f"{row}\t{feature}")
    return 1 if missing or outcome else 0


if __name__ == "__main__":
    sys.exit(main())
