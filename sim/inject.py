"""Errors that a test wants: which call through the boundary fails, and how."""

from dataclasses import dataclass


@dataclass
class _Plan:
    """Which call is to fail. Nothing given means any."""

    errno: int
    name: str | None = None
    kind: str | None = None
    after: int = 0  # calls that still pass
    times: int | None = None  # how often, None: always

    def strikes(self, kind: str, detail: str) -> bool:
        if self.kind not in (None, kind) or self.name not in (None, detail) or self.times == 0:
            return False
        if self.after:
            self.after -= 1
            return False
        if self.times is not None:
            self.times -= 1
        return True


class Injection:
    """Plans of one machine, asked at every call."""

    def __init__(self) -> None:
        self.struck = 0  # how many calls failed because a test wanted it
        self._plans: list[_Plan] = []

    def fail(self, nth: int, errno: int, kind: str | None) -> None:
        """The nth call from now, of a kind such as "ioctl" or "mmap" when one is given."""
        self._plans.append(_Plan(errno, kind=kind, after=nth - 1, times=1))

    def refuse(self, name: str, errno: int, times: int | None) -> None:
        """Calls with this name or path."""
        self._plans.append(_Plan(errno, name=name, times=times))

    def clear(self) -> None:
        """Let every call pass from now on."""
        self._plans.clear()

    def find(self, kind: str, detail: str) -> int | None:
        """The errno for this call, None when it may pass."""
        number = None
        for plan in self._plans:
            if plan.strikes(kind, detail):
                number = plan.errno
        self._plans = [plan for plan in self._plans if plan.times != 0]
        self.struck += number is not None
        return number
