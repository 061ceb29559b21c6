"""Taking a queue off its GPU: the kernel drivers' way to change what the device works on."""

import time
from errno import EIO
from typing import Any

from sim.refusal import Refusal

PREEMPT_SECONDS = 5.0
LOCK_SLICE_SECONDS = 0.01


class Held:
    """The lock of a queue's GPU, with the stepping thread told to make way.

    Not waited for while another queue's kernel runs: this queue stands still then.
    """

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self._gpu = queue.gpu
        self._locked = False

    def __enter__(self) -> None:
        self._gpu.wanted += 1
        limit = time.monotonic() + PREEMPT_SECONDS
        while not self._locked and self._gpu.running in (None, self._queue):
            self._locked = self._gpu.lock.acquire(timeout=LOCK_SLICE_SECONDS)
            if not self._locked and time.monotonic() > limit:
                self._gpu.wanted -= 1
                raise Refusal(EIO, "the GPU cannot be preempted")

    def __exit__(self, *error: object) -> None:
        self._gpu.wanted -= 1
        if self._locked:
            self._gpu.lock.release()
