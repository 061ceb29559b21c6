"""hcq-dump as a test calls it."""

import io
import sys

import pytest

from tools.hcq_dump.__main__ import main


@pytest.fixture
def cat(capsys):
    """cat(path, *options): hcq-dump cat of a file: (exit code, lines, stderr)."""

    def run(path, *options):
        code = main(["cat", *options, str(path)])
        shown = capsys.readouterr()
        return code, shown.out.splitlines(), shown.err

    return run


@pytest.fixture
def dump(cat, monkeypatch):
    """dump(data, *options): the same of standard input."""

    def run(data, *options):
        raw = data if isinstance(data, bytes) else data.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
        return cat("-", *options)

    return run


@pytest.fixture
def packets(dump):
    """packets(words, kind, *options): (exit code, lines from behind the engine's name on)."""

    def run(words, kind="pushbuffer", *options):
        code, lines, _ = dump(words, "--as", kind, *options)
        return code, [line.split("] ", 1)[1] for line in lines]

    return run
