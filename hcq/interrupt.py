"""Ctrl-C kept out of what must not stop halfway.

Python runs a signal's handler between any two steps of the main thread, where it may raise:
KeyboardInterrupt. Between `enter()` and `leave()` the main thread only notes the signal; the
handler, whichever is set, gets its turn in `leave()`, or at a `point()` on the way: where a
wait looks whether to go on.
"""

# The module signal wraps these in enumerations, at three times the cost.
import _signal  # type: ignore[import-not-found]
import os
import threading
from _thread import get_ident
from collections.abc import Callable
from functools import wraps
from signal import SIGINT
from types import FrameType, TracebackType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
Handler = Callable[[int, FrameType | None], Any]
NUMBER = int(SIGINT)
RETRY_SECONDS = 0.05  # how soon who waits meets a Ctrl-C that was noted


class _Main:
    """What the main thread is in."""

    __slots__ = ("depth", "handler", "ident", "is_noted")
    ident: int | None
    depth: int
    handler: Handler | None  # the one whose turn comes later
    is_noted: bool

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """In nothing."""
        self.ident = threading.main_thread().ident
        self.depth = 0
        self.handler = None
        self.is_noted = False


_main = _Main()


def _forked() -> None:
    """In a child the thread that forked is the main one, and in nothing."""
    if _main.handler is not None:
        _signal.signal(NUMBER, _main.handler)
    _main.reset()


os.register_at_fork(after_in_child=_forked)


def _note(number: int, frame: FrameType | None) -> None:
    _main.is_noted = True


def enter() -> None:
    """From here on the main thread notes Ctrl-C; calls nest."""
    if get_ident() != _main.ident:
        return
    if _main.depth == 0:
        handler = _signal.getsignal(NUMBER)
        if callable(handler):
            _signal.signal(NUMBER, _note)
            _main.handler = handler
    _main.depth += 1


def leave() -> None:
    """The outermost one gives a noted Ctrl-C to its handler, which may raise."""
    if get_ident() != _main.ident:
        return
    _main.depth -= 1
    if _main.depth == 0 and _main.handler is not None:
        handler, _main.handler = _main.handler, None
        _signal.signal(NUMBER, handler)
        if _main.is_noted:
            _main.is_noted = False
            handler(NUMBER, None)


def point() -> None:
    """A noted Ctrl-C may come here."""
    if _main.is_noted and _main.handler is not None and get_ident() == _main.ident:
        _main.is_noted = False
        _main.handler(NUMBER, None)


def is_held() -> bool:
    """Whether this thread is one that notes Ctrl-C now."""
    return _main.depth > 0 and get_ident() == _main.ident


def unbroken(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: Ctrl-C comes at a point() of the function, or at its end."""

    @wraps(function)
    def held(*args: P.args, **options: P.kwargs) -> R:
        enter()
        try:
            return function(*args, **options)
        finally:
            leave()

    return held


class Lock:
    """A reentrant lock; no Ctrl-C comes while the main thread holds it, but at a point()."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        # Every submission comes here, mostly inside another: no call more than it takes.
        if get_ident() == _main.ident:
            if _main.depth:
                _main.depth += 1
            else:
                enter()
        if not self._lock.acquire(False):
            self._wait()

    def _wait(self) -> None:
        try:
            while not self._lock.acquire(timeout=RETRY_SECONDS):
                point()
        except BaseException:
            leave()
            raise

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()
        if get_ident() == _main.ident:
            if _main.depth > 1:
                _main.depth -= 1
            else:
                leave()
