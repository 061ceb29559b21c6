"""What every submission is put between: wait for the one before, signal its own value.

Laid down once per queue kind and timeline cell; only the two payloads change.
"""

from collections.abc import Callable
from typing import Any

from hcq.amd.defs import sdma
from hcq.amd.queue import COPY
from hcq.queue import Half, Patch, Slot, SlotKind

_PAYLOAD = Slot("payload", SlotKind.TIMELINE, bits=32)


class Frame:
    """Words before and after a submission of one kind, for one timeline cell."""

    def __init__(self, make: Callable[[], Any], cell: int, slot: int, event: int) -> None:
        before = make().wait(cell, _PAYLOAD)
        after = make().signal(cell, _PAYLOAD)
        if slot:
            after.interrupt(slot, event)
        self._before: list[int] = before.words
        self._after: list[int] = after.words
        if before.kind == COPY:
            # So that an INDIRECT packet that follows can end where it must.
            self._before += [0] * (-len(self._before) % sdma.INDIRECT_END_ALIGNMENT_WORDS)
        self._awaited = _only(before.patches)
        self._signaled = _only(after.patches)

    def around(self, body: list[int], awaited: int, signaled: int) -> list[int]:
        """The whole submission; both payloads are below 2**32."""
        self._before[self._awaited] = awaited
        self._after[self._signaled] = signaled
        return self._before + body + self._after


def _only(patches: list[Patch]) -> int:
    # A 64-bit signal has a high half as well; it stays 0.
    (found,) = [patch.word for patch in patches if patch.half is Half.LOW]
    return found
