"""Spans of a GPU's page table whose pages are the program's own: it may take them away.

A real GPU goes on with pages that its driver pinned, whatever becomes of the program's
addresses. Here both are one address, so that an access has to ask whether the pages are
there still; between the question and the access only the program itself is trusted.
"""

from hcq.bits import align
from sim import user

PAGE = 4096
Span = tuple[int, int]  # start, end (exclusive)
NOTE = "the program has unmapped this memory of its own, or protected it, since it was pinned"


class Lent:
    """Spans that do not overlap."""

    def __init__(self) -> None:
        self.spans: tuple[Span, ...] = ()  # replaced, never changed: other threads read it

    def add(self, start: int, end: int) -> None:
        """One more span."""
        self.spans = (*self.spans, (start, end))

    def remove(self, start: int, end: int) -> None:
        """What lies between these addresses is not lent any more."""
        left: list[Span] = []
        for low, high in self.spans:
            left += [part for part in ((low, min(high, start)), (max(low, end), high))
                     if part[0] < part[1]]  # fmt: skip
        self.spans = tuple(left)

    def lost(self, start: int, end: int) -> list[Span]:
        """The parts of these addresses, in whole pages, that are lent but not there any more."""
        found: list[Span] = []
        for low, high in self.spans:
            first, last = max(low, start // PAGE * PAGE), min(high, align(end, PAGE))
            if first < last:
                found += user.missing(first, last - first)
        return found

    def covers(self, start: int, end: int) -> bool:
        """Whether one span holds all of these addresses."""
        return any(low <= start and end <= high for low, high in self.spans)
