"""What every submission is put between: wait for the one before, signal its own value.

Laid down once per queue kind and timeline cell; only the two payloads change.
"""

from collections.abc import Callable
from typing import Any

from hcq.queue import Half, Patch, Slot, SlotKind

_PAYLOAD = Slot("payload", SlotKind.TIMELINE, bits=32)


class Frame:
    """Words before and after a submission of one kind, for one timeline cell.

    `finish` may add to the queue that signals; the words before are padded with
    zeros to a multiple of `words`.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        cell: int,
        finish: Callable[[Any], None] = lambda queue: None,
        words: int = 1,
    ) -> None:
        before = make().wait(cell, _PAYLOAD)
        after = make().signal(cell, _PAYLOAD)
        finish(after)
        self._before: list[int] = before.words
        self._after: list[int] = after.words
        self._before += [0] * (-len(self._before) % words)
        self._awaited = _only(before.patches)
        self._signaled = _only(after.patches)

    def parts(self, awaited: int, signaled: int) -> tuple[list[int], list[int]]:
        """The words before and after, good until the next call; payloads are below 2**32."""
        self._before[self._awaited] = awaited
        self._after[self._signaled] = signaled
        return self._before, self._after


def _only(patches: list[Patch]) -> int:
    # A 64-bit signal has a high half as well; it stays 0.
    (found,) = [patch.word for patch in patches if patch.half is Half.LOW]
    return found
