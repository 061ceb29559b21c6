"""Which rows lack a test: what is asked of pytest, and what is made of its reports."""

import importlib.util
from types import SimpleNamespace

import pytest

from tools import check_rows

REPORTS = [("HCQ-04", True), ("SIM-02", True), ("SIM-02", False)]


@pytest.fixture
def suite(monkeypatch):
    """suite(*letters): (exit code, options given to pytest), with two rows due and no test run."""
    given = []

    def run(options, plugins):
        given.extend(options)
        for row, passed in REPORTS:
            report = SimpleNamespace(
                user_properties=[("row", row)], when="call", passed=passed, failed=not passed
            )
            plugins[0].pytest_runtest_logreport(report)
        return 0

    def call(*letters):
        monkeypatch.setattr("sys.argv", ["check_rows.py", *letters])
        monkeypatch.setattr("sys.path", [])
        return check_rows.main(), given

    monkeypatch.setattr(check_rows.pytest, "main", run)
    monkeypatch.setattr(
        check_rows,
        "due",
        lambda letter: {"HCQ-04": "one", "SIM-02": "two"} if letter == "A" else {},
    )
    return call


def test_rows_whose_tests_did_not_all_pass_are_printed(suite, capsys):
    assert suite("A")[0] == 1
    assert capsys.readouterr().out == "SIM-02\ttwo\n"


@pytest.mark.parametrize(("found", "asked"), [(object(), True), (None, False)])
def test_all_cores_are_used_where_xdist_is_installed(suite, monkeypatch, found, asked):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)
    _, options = suite("A")
    assert ("-n" in options) == asked


@pytest.mark.refusal
def test_an_unknown_milestone_is_told_the_usage(suite, capsys):
    assert suite("Z") == (2, [])
    assert capsys.readouterr().err == "usage: python tools/check_rows.py LETTER...\n"
