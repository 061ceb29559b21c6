"""Waiting of the host: spin, then sleep in the kernel where one can, with a limit always.

The default limit starts over with every sign of progress and its passing is a hang;
a limit the caller gives is theirs, and its passing leaves the device as it is.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from hcq import interrupt, settings
from hcq.errors import ConfigError
from hcq.host import Host

SPIN_SECONDS = 100e-6


class Events(Protocol):
    """What a device is waited in; `sleep` gives what went wrong meanwhile."""

    @property
    def can_sleep(self) -> bool: ...

    def sleep(self, seconds: float) -> Sequence[Any]:
        """Wait at most `seconds` for a sign of the device; the incidents it brought."""


class Waits:
    """How one device is waited for. `check` raises when the device has failed."""

    def __init__(
        self,
        host: Host,
        events: Events,
        check: Callable[[], None],
        progress: Callable[[], Any],
        incident: Callable[[Sequence[Any]], None],
    ) -> None:
        self._host = host
        self.events = events
        self._check = check
        self._progress = progress
        self._incident = incident
        self.sleeps = 0
        self._waiting: list[object] = []  # one entry for each wait that is on

    def leave(self, seconds: float) -> None:
        """Let every wait end, which `check` must make them do, before memory goes."""
        limit = self._host.now() + seconds
        while self._waiting and self._host.now() < limit:
            self._host.relax()

    def until(
        self,
        done: Callable[[], bool],
        timeout: float | None,
        late: Callable[[float, bool], Exception],
        moving: Callable[[], int] = lambda: 0,
    ) -> None:
        """Return once done() holds; raise late(limit, is_hang) when a limit passes first.

        `moving` is one more thing whose change is progress.
        """
        token = object()
        self._waiting.append(token)
        try:
            self._until(done, timeout, late, moving)
        finally:
            self._waiting.remove(token)

    def _until(
        self,
        done: Callable[[], bool],
        timeout: float | None,
        late: Callable[[float, bool], Exception],
        moving: Callable[[], int],
    ) -> None:
        self._check()
        if timeout is not None:
            _check_seconds(timeout)
        if done():
            return
        limit = settings.get("HCQ_TIMEOUT_MS") / 1000 if timeout is None else timeout
        start = moved = self._host.now()
        seen = self._progress(), moving()
        while not done():
            interrupt.point()
            self._check()
            now = self._host.now()
            if timeout is None:
                state = self._progress(), moving()
                if state != seen:
                    seen, moved = state, now
            left = (start if timeout is not None else moved) + limit - now
            if left <= 0:
                self._look()
                if done():
                    return
                raise late(limit, timeout is None)
            if now - start < SPIN_SECONDS or not self.events.can_sleep:
                self._host.relax()
            else:
                # Who holds Ctrl-C back looks for it now and then.
                self._sleep(min(left, interrupt.RETRY_SECONDS) if interrupt.is_held() else left)

    def _sleep(self, seconds: float) -> None:
        self.sleeps += 1
        incidents = self.events.sleep(seconds)
        if incidents:
            self._incident(incidents)

    def _look(self) -> None:
        if self.events.can_sleep:
            self._sleep(0)
        self._check()


def _check_seconds(timeout: float) -> None:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout != timeout:
        raise ConfigError(
            f"timeout={timeout!r} is no number of seconds",
            facts={"timeout": repr(timeout)},
            hint="give seconds as a number, or None for HCQ_TIMEOUT_MS without progress",
        )
