"""Caches that forget nothing by themselves: the adversarial mode of memory.

Simulated memory has no caches, so a missing barrier would go unnoticed. With `late`
set, results of kernels in cached buffers stay in the GPU until an end-of-pipe event
writes the L2 back, and kernels see what was there at their last invalidation until an
acquire invalidates the vector and scalar caches. Hardware may do so, and does at times.

Not covered: the instruction cache, and stores of the host that need an HDP flush.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy

from hcq.host import MappedRegion

Span = tuple[int, int]  # address, size
Bytes = numpy.ndarray[Any, numpy.dtype[numpy.uint8]]

INVALIDATIONS = ("glv_inv", "gl1_inv", "glk_inv")


class Caches:
    """What one GPU holds back. `spans` gives the cached memory that it may use at present."""

    def __init__(self, spans: Callable[[], list[Span]]) -> None:
        self.acquires = True  # False: as if the driver had left out every invalidation
        self.releases = True  # False: as if it had left out every write-back
        self._spans = spans
        self._is_valid = True  # nothing was invalidated since the last kernel
        self._held: dict[Span, Bytes] = {}  # content as the last kernel left it
        self._dirty: dict[Span, tuple[Bytes, Bytes]] = {}  # mask and data not yet written back
        self._memory: dict[Span, Bytes] = {}  # while a kernel runs: what everyone else sees
        self._seen: dict[Span, Bytes] = {}  # and what the kernel was shown

    def acquire(self, control: Mapping[str, int]) -> None:
        """An ACQUIRE_MEM."""
        if self.acquires and all(control[name] for name in INVALIDATIONS):
            self._is_valid = False

    def release(self, event: Mapping[str, int]) -> None:
        """A RELEASE_MEM."""
        if not (self.releases and event["gl2_wb"]):
            return
        for span, (mask, data) in self._dirty.items():
            if span in self._current():
                numpy.copyto(_view(span), data, where=mask.astype(bool))
        self._dirty.clear()

    def before(self) -> None:
        """A kernel starts: show it what the caches hold."""
        current = self._current()
        self._memory = {span: _view(span).copy() for span in current}
        self._seen = {}
        for span, memory in self._memory.items():
            shown = self._held.get(span, memory) if self._is_valid else memory
            shown = shown.copy()
            if span in self._dirty:
                mask, data = self._dirty[span]
                numpy.copyto(shown, data, where=mask.astype(bool))
            _view(span)[:] = shown
            self._seen[span] = shown

    def after(self) -> None:
        """A kernel ended: keep what it wrote, show everyone else the memory as it was."""
        self._is_valid = True
        for span, memory in self._memory.items():
            view = _view(span)
            changed = view != self._seen[span]
            self._held[span] = view.copy()
            if changed.any():
                mask, data = self._dirty.get(span, (numpy.zeros_like(view), view.copy()))
                mask |= changed.view(numpy.uint8)
                numpy.copyto(data, view, where=changed)
                self._dirty[span] = mask, data
            view[:] = memory
        self._memory = {}
        self._seen = {}

    def _current(self) -> list[Span]:
        current = self._spans()
        for kept in (self._held, self._dirty):
            for span in [s for s in kept if s not in current]:
                del kept[span]
        return current


def _view(span: Span) -> Bytes:
    return numpy.frombuffer(MappedRegion(*span).view(), numpy.uint8)
