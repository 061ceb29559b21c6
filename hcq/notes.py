"""Requests to the kernel that one can do without, and what became of them."""

from collections.abc import Callable
from typing import Any

from hcq.errors import IoctlError


class Notes:
    """Base of what makes requests; `notes` are those that were refused, each once."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, error: IoctlError) -> None:
        """Remember what was refused."""
        if error.what not in self.notes:
            self.notes.append(error.what)

    def attempt(self, request: Callable[..., Any], *args: Any, **fields: Any) -> Any | None:
        """The request's answer; None and a note when refused."""
        try:
            return request(*args, **fields)
        except IoctlError as error:
            self.note(error)
            return None
