"""DEBUG output: lines through logging, quiet unless DEBUG asks for them.

Level 1: devices, fallbacks, memory plan. 2: a line per kernel or copy. 3: plans.
4: source. 5 and 6: IR. 7: machine code. An application that configures the
logger "hcq" itself keeps what it configured; otherwise lines go to stderr.
"""

import logging
import sys

from hcq.settings import get

LOGGER = logging.getLogger("hcq")
LOGGER.addHandler(logging.NullHandler())
COLORS = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "grey": 90}


class _Stderr(logging.StreamHandler):  # type: ignore[type-arg]
    """stderr as it is when the line is written; tests and notebooks replace it."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(logging.Formatter("%(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


_stderr = _Stderr()


def debug_level() -> int:
    """DEBUG as it is in force here."""
    return int(get("DEBUG"))


def say(level: int, text: str, name: str = "runtime") -> None:
    """Log a line if DEBUG is at least `level`; to stderr when nobody set logging up."""
    if debug_level() >= level:
        _connect()
        LOGGER.getChild(name).info("%s", text)


def color(text: str, name: str) -> str:
    """text in a colour, unless NO_COLOR is set or stderr is no terminal."""
    if get("NO_COLOR") or not sys.stderr.isatty():
        return text
    return f"\x1b[{COLORS[name]}m{text}\x1b[0m"


def _connect() -> None:
    """Let lines through: only if neither "hcq" nor the root logger has been configured."""
    if LOGGER.level == logging.NOTSET:
        LOGGER.setLevel(logging.INFO)
    silent = all(isinstance(h, logging.NullHandler) for h in LOGGER.handlers)
    if silent and not logging.getLogger().handlers:
        LOGGER.addHandler(_stderr)
