"""A step of an ExitStack that a later step may replace."""

from collections.abc import Callable
from typing import Any


class Undo:
    """What to do if the rest fails; `change()` where a later step makes another end right."""

    def __init__(self, action: Callable[..., Any], *args: Any) -> None:
        self.change(action, *args)

    def change(self, action: Callable[..., Any], *args: Any) -> None:
        """Do this instead."""
        self._action, self._args = action, args

    def __call__(self) -> None:
        self._action(*self._args)
