"""The work of one device: submissions in the order of its timeline, waits, failure.

A failure is kept: who meets it first gets it, every later use raises DeviceLost.
What a vendor adds: its channels, its queues, and what its incidents mean.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Protocol

from hcq import capture, faults
from hcq.errors import DeviceLost, GpuTimeout, HcqError, QueueError, WaitTimeout
from hcq.frame import Frame
from hcq.host import Host
from hcq.interrupt import Lock
from hcq.memory import Buffer
from hcq.timeline import Signal, SignalPool, Timeline
from hcq.waits import Waits

KEPT_SUBMISSIONS = 64


class Channel(Protocol):
    """A hardware queue as the work of a device sees it."""

    kind: str
    name: str
    put: int  # grows with every submission

    @property
    def get(self) -> int: ...

    def run(
        self, queue: Any, frame: tuple[list[int], list[int]], timeline: Timeline, value: int
    ) -> None:
        """Publish a queue's words between those of its frame; the timeline takes the value."""


class Work:
    """Channels, timeline and waits of a device; vendors fill in `channels` and the hooks."""

    arch: Any  # of the chip; it has a name
    queues: Mapping[str, Callable[[Any, str], Any]]  # what builds them, by kind
    signals: SignalPool
    after_fault = faults.RESTART  # what helps then on a vendor's kernel driver
    after_hang = faults.HUNG
    timeline: Timeline
    waits: Waits

    def __init__(self, name: str, target: str, host: Host) -> None:
        self.name = name
        self.target = target
        self.host = host
        self.lock = Lock()
        # Its own: who holds `lock` may be waiting, and must hear of a failure meanwhile.
        self._failure = threading.Lock()
        self.failed: BaseException | None = None
        self.is_closed = False
        self.channels: dict[str, Any] = {}
        # What the device hangs in: texts for addresses, things to do before words are published.
        self.describe: Callable[[int], str] = lambda address: "no buffer of this device"
        self.before_publish: Callable[[Any, int], None] = lambda queue, value: None
        self._bound: Buffer | None = None  # words of the queue being published
        self._frames: dict[tuple[str, int], Frame] = {}
        self._submissions: deque[faults.Submission] = deque(maxlen=KEPT_SUBMISSIONS)

    def queue(self, kind: str, name: str = "") -> Any:
        """A new queue to build."""
        if not isinstance(kind, str) or kind not in self.queues:
            raise QueueError(f"no queue kind {kind!r}", facts={"kinds": ", ".join(self.queues)})
        return self.queues[kind](self.arch, name)

    # What a vendor fills in.

    def check_process(self) -> None:
        """DeviceBanned in a forked child."""
        raise NotImplementedError

    def detail(self) -> str:
        """More about a hang, where the machine knows more."""
        return ""

    def make_frame(self, kind: str, cell: int) -> Frame:
        """What submissions of a kind are put between."""
        return Frame(lambda: self.queue(kind), cell)

    def incident(self, incidents: Sequence[Any]) -> None:
        """Raise for what the kernel told."""
        raise NotImplementedError

    def usable(self) -> None:
        """DeviceLost when closed or failed, DeviceBanned in a forked child."""
        self.check_process()
        self.check()

    def check(self) -> None:
        """DeviceLost when the device is closed or has failed."""
        if self.is_closed:
            raise DeviceLost(f"{self.name} is closed", device=self.name, hint="open it again")
        if self.failed is not None:
            raise self._lost_again(self.failed)

    def _lost_again(self, first: BaseException) -> DeviceLost:
        return faults.lost_again(first, self.name, self.remedy(first))

    def remedy(self, error: BaseException) -> faults.Remedy:
        """What helps after an error that made the device unusable."""
        return self.after_hang if isinstance(error, GpuTimeout) else self.after_fault

    def take_signal(self, undo: ExitStack) -> Signal:
        """A cell that goes back when the device closes."""
        signal = self.signals.take()
        undo.callback(self.signals.give, signal)
        return signal

    def add_channel(self, channel: Any) -> None:
        """Submit to a channel from now on, one of each kind."""
        channel.lock, channel.usable = self.lock, self.usable
        channel.wait_for_space = self.await_space
        if capture.is_recording(self.host):
            channel.on_publish = self.published
        self.channels[channel.kind] = channel

    # Submitting.

    def submit(self, queue: Any) -> int:
        """Run a queue after all earlier work; the timeline value it signals."""
        with self.lock:
            self.usable()
            channel = self._channel(queue)
            timeline = self.timeline
            if timeline.must_turn:
                self.drain()
                timeline.turn()
            channel.check(queue)
            value = timeline.submitted + 1
            self.before_publish(queue, value)
            self._bound = queue.bound
            frame = self._frame(queue.kind).parts(
                timeline.previous_payload, timeline.payload(value)
            )
            channel.run(queue, frame, timeline, value)
            self._submissions.append(
                faults.Submission(
                    value, channel.name, tuple(queue.kernels), channel.put, tuple(queue.cells)
                )
            )
            return value

    def _channel(self, queue: Any) -> Any:
        found = self.channels.get(getattr(queue, "kind", ""))
        if found is None:
            raise QueueError(
                f"{self.name}: submit takes a queue, not {type(queue).__name__}",
                device=self.name,
                facts={"given": repr(queue), "kinds": ", ".join(self.channels)},
                hint='build one with device.queue("compute") or device.queue("copy")',
            )
        return found

    def _frame(self, kind: str) -> Frame:
        cell = self.timeline.cell.address
        frame = self._frames.get((kind, cell))
        if frame is None:
            frame = self._frames[kind, cell] = self.make_frame(kind, cell)
        return frame

    def published(self, channel: Any, words: Iterable[int], put: int, value: int) -> None:
        """Record what a channel is about to publish (HCQ_CAPTURE)."""
        cell = hex(self.timeline.cell.address)
        awaited = {"address": cell, "value": hex(self.timeline.previous_payload)}
        signaled = {"address": cell, "value": hex(self.timeline.payload(value))}
        capture.submission(
            self.host,
            words,
            device=self.name,
            arch=self.target,
            queue=channel.name,
            kind=channel.kind,
            before=hex(channel.put),
            after=hex(put),
            doorbell=hex(put),
            waits=[awaited] if value else [],
            signals=[signaled] if value else [],
            indirect=_indirect(self._bound) if value else [],
            **_entries(channel, put),
        )

    # Waiting.

    def wait(self, value: int, timeout: float | None = None) -> None:
        """Until the timeline passes a value."""
        self.usable()
        if not isinstance(value, int):
            raise QueueError(
                f"{self.name}: a timeline value is a whole number, not {type(value).__name__}",
                hint="wait for what device.submit() returned",
            )
        if value > self.timeline.submitted:
            raise QueueError(
                f"{self.name}: value {value} was never submitted",
                facts={"value": value, "submitted": self.timeline.submitted},
            )

        def late(limit: float, is_hang: bool) -> Exception:
            cell = hex(self.timeline.cell.address)
            facts = {"signal": cell, "awaited": value, "seen": self.timeline.reached}
            return self._late(limit, is_hang, f"value {value}", facts)

        self.waits.until(lambda: self.timeline.is_done(value), timeout, late)

    def wait_signal(self, signal: Signal, value: int, timeout: float | None = None) -> None:
        """Until a signal holds at least a value."""
        self.usable()
        if not isinstance(signal, Signal) or not isinstance(value, int):
            raise QueueError(
                f"{self.name}: wait_signal takes a signal cell and a whole number",
                device=self.name,
                facts={"signal": repr(signal), "value": repr(value)},
                hint="take a cell with device.signals.take()",
            )

        def late(limit: float, is_hang: bool) -> Exception:
            waited = f"signal {signal.address:#x} >= {value}"
            facts = {"signal": hex(signal.address), "awaited": value, "seen": signal.value}
            return self._late(limit, is_hang, waited, facts)

        self.waits.until(lambda: signal.value >= value, timeout, late, lambda: signal.value)

    def wait_reused(self, value: int) -> None:
        """As wait, for a value that may not have been submitted in the end."""
        self.wait(min(value, self.timeline.submitted))

    def drain(self) -> None:
        """Until everything submitted is done."""
        self.wait(self.timeline.submitted)

    def await_space(self, done: Callable[[], bool], channel: Any) -> None:
        """Until a ring has space."""

        def late(limit: float, is_hang: bool) -> Exception:
            waited = f"space in queue {channel.name} (put {channel.put}, get {channel.get})"
            facts = {"queue": channel.name, "put": channel.put, "get": channel.get}
            return self._late(limit, is_hang, waited, facts)

        self.waits.until(done, None, late)

    def _late(
        self, limit: float, is_hang: bool, waited: str, facts: dict[str, object]
    ) -> Exception:
        scene = self.scene()
        if is_hang:
            detail, remedy = self.detail(), self.after_hang
            return self.fail(faults.hang(scene, limit, waited, facts, detail, remedy))
        return WaitTimeout(
            f"{self.name}: {waited} did not come within {limit:g} s",
            device=self.name,
            facts={"queue": scene.queue, **facts, "limit": limit},
            hint="the device is still good: wait again, longer",
        )

    def progress(self) -> tuple[int | None, ...]:
        """Numbers that change while the device gets on."""
        reached = self.timeline.reached
        flying = [s for s in self._submissions.copy() if s.value > reached]
        cells = [self.signals.seen(cell) for s in flying for cell in s.cells]
        return (self.timeline.cell.value, *(c.get for c in self.channels.values()), *cells)

    # Failing.

    def fail(self, error: HcqError) -> Exception:
        """Keep the first error; what to raise now."""
        with self._failure:
            if self.failed is None:
                self.failed = error
                return error
            return self._lost_again(self.failed)

    def scene(self) -> faults.Scene:
        """What is going on now."""
        reached = self.timeline.reached
        rings = [f"{c.name} put {c.put} get {c.get}" for c in self.channels.values()]
        flying = [s for s in self._submissions.copy() if s.value > reached]
        return faults.Scene(self.name, reached, self.timeline.submitted, flying, rings)


def _indirect(bound: Buffer | None) -> list[dict[str, Any]]:
    """Words that a pointer packet leads to, as they are at this submission."""
    if bound is None:
        return []
    words = [f"{word:08x}" for word in bound.view().cast("I")]
    return [{"address": hex(bound.address), "words": words}]


def _entries(channel: Any, put: int) -> dict[str, Any]:
    """Of rings that hold pointers: those that are about to be published."""
    read = getattr(channel, "entries", None)
    return {} if read is None else {"entries": [f"{entry:016x}" for entry in read(put)]}
