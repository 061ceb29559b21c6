"""The work of one device: submissions in the order of its timeline, waits, failure.

A failure is kept: who meets it first gets it, every later use raises DeviceLost.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

from hcq import capture, settings
from hcq.amd import faults, signals
from hcq.amd.arch import Arch
from hcq.amd.channel import Channel, ComputeChannel, CopyChannel
from hcq.amd.events import Incident, MemoryFault, open_events
from hcq.amd.frame import Frame
from hcq.amd.kfd import Kfd
from hcq.amd.queue import COMPUTE, COPY, ComputeQueue, CopyQueue
from hcq.amd.topology import Node
from hcq.amd.waits import Waits
from hcq.errors import DeviceLost, HcqError, QueueError, Unsupported, WaitTimeout
from hcq.host import Host
from hcq.memory import Buffer
from hcq.timeline import Signal, Timeline

AnyQueue = ComputeQueue | CopyQueue
KEPT_SUBMISSIONS = 64
# Source: Linux drivers/base/devcoredump.c; amdgpu writes one after a reset.
CORE_DUMP = "/sys/class/drm/renderD{minor}/device/devcoredump/data"
CORE_DUMP_BYTES = 1000


class Work:
    """Channels, timeline and waits of a device. `close` is pushed on the opener's stack."""

    def __init__(self, name: str, arch: Arch, node: Node, process: Kfd, host: Host) -> None:
        self.name = name
        self.arch = arch
        self.node = node
        self.process = process
        self.host = host
        self.lock = threading.RLock()
        # Its own: who holds `lock` may be waiting, and must hear of a failure meanwhile.
        self._failure = threading.Lock()
        self.failed: BaseException | None = None
        self.is_closed = False
        self.channels: dict[str, Channel] = {}
        # What the device hangs in: texts for addresses, things to do before words are published.
        self.describe: Callable[[int], str] = lambda address: "no buffer of this device"
        self.before_publish: Callable[[AnyQueue, int], None] = lambda queue, value: None
        self._bound: Buffer | None = None  # words of the queue being published
        self._frames: dict[tuple[str, int], Frame] = {}
        self._submissions: deque[faults.Submission] = deque(maxlen=KEPT_SUBMISSIONS)

    def open(self, undo: ExitStack, timeline_start: int) -> None:
        """Events, signal cells and queues; what is to be undone goes on the stack."""
        self.events = open_events(self.process, self.node.gpu_id)
        undo.callback(self.events.close)
        self.signals = signals.pool(self.process, self.node.gpu_id)
        cells = self._signal(undo), self._signal(undo)
        self.timeline = Timeline(*cells, timeline_start)
        self.waits = Waits(self.host, self.events, self.check, self._progress, self._incident)
        kinds: list[type[Channel]] = [ComputeChannel]
        if not settings.get("AMD_DISABLE_SDMA"):
            kinds.append(CopyChannel)
        for kind in kinds:
            channel = kind(self.process, self.node, self.arch)
            undo.callback(channel.close)
            channel.wait_for_space = self._await_space
            if capture.is_recording(self.host):
                channel.on_publish = self._published
            self.channels[channel.kind] = channel

    def _signal(self, undo: ExitStack) -> Signal:
        signal = self.signals.take()
        undo.callback(self.signals.give, signal)
        return signal

    def usable(self) -> None:
        """DeviceLost when closed or failed, DeviceBanned in a forked child."""
        self.process.check_process()
        self.check()

    def check(self) -> None:
        """DeviceLost when the device is closed or has failed."""
        if self.is_closed:
            raise DeviceLost(f"{self.name} is closed", device=self.name, hint="open it again")
        if self.failed is not None:
            raise faults.lost_again(self.failed, self.name)

    # Submitting.

    def queue(self, kind: str, name: str = "") -> Any:
        """A new queue to build."""
        if kind == COMPUTE:
            return ComputeQueue(self.arch, name)
        if kind == COPY and COPY not in self.channels:
            raise Unsupported(
                f"{self.name} has no copy queue: AMD_DISABLE_SDMA is set",
                device=self.name,
                facts={"setting": "AMD_DISABLE_SDMA", "queue": COPY},
                hint="copy with a kernel, or unset it",
            )
        if kind == COPY:
            return CopyQueue(self.arch, name)
        raise QueueError(f"no queue kind {kind!r}", facts={"kinds": "compute, copy"})

    def submit(self, queue: AnyQueue) -> int:
        """Run a queue after all earlier work; the timeline value it signals."""
        with self.lock:
            self.usable()
            channel = self.channels[queue.kind]
            timeline = self.timeline
            if timeline.must_turn:
                self.drain()
                timeline.turn()
            body = channel.flatten(queue)
            value = timeline.submitted + 1
            self.before_publish(queue, value)
            self._bound = queue.bound
            channel.publish(self._framed(queue.kind, body, value), timeline, value)
            self._submissions.append(
                faults.Submission(
                    value, channel.name, tuple(queue.kernels), channel.put, tuple(queue.cells)
                )
            )
            return value

    def _framed(self, kind: str, body: list[int], value: int) -> list[int]:
        timeline = self.timeline
        cell = timeline.cell.address
        frame = self._frames.get((kind, cell))
        if frame is None:
            frame = self._frames[kind, cell] = Frame(
                lambda: self.queue(kind), cell, self.events.slot, self.events.signal_id
            )
        return frame.around(body, timeline.previous_payload, timeline.payload(value))

    def _published(self, channel: Channel, words: Iterable[int], put: int, value: int) -> None:
        cell = hex(self.timeline.cell.address)
        awaited = {"address": cell, "value": hex(self.timeline.previous_payload)}
        signaled = {"address": cell, "value": hex(self.timeline.payload(value))}
        capture.submission(
            self.host,
            words,
            device=self.name,
            arch=self.arch.name,
            queue=channel.name,
            kind=channel.kind,
            before=hex(channel.put),
            after=hex(put),
            doorbell=hex(put),
            waits=[awaited] if value else [],
            signals=[signaled] if value else [],
            indirect=_indirect(self._bound) if value else [],
        )

    # Waiting.

    def wait(self, value: int, timeout: float | None = None) -> None:
        """Until the timeline passes a value."""
        self.usable()
        if value > self.timeline.submitted:
            raise QueueError(
                f"{self.name}: value {value} was never submitted",
                facts={"value": value, "submitted": self.timeline.submitted},
            )
        for channel in self.channels.values():
            if channel.rung != channel.put:  # Ctrl-C came between the pointer and the doorbell
                channel.ring_doorbell()

        def late(limit: float, is_hang: bool) -> Exception:
            cell = hex(self.timeline.cell.address)
            facts = {"signal": cell, "awaited": value, "seen": self.timeline.reached}
            return self._late(limit, is_hang, f"value {value}", facts)

        self.waits.until(lambda: self.timeline.is_done(value), timeout, late)

    def wait_signal(self, signal: Signal, value: int, timeout: float | None = None) -> None:
        """Until a signal holds at least a value."""
        self.usable()

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

    def _await_space(self, done: Callable[[], bool], channel: Channel) -> None:
        def late(limit: float, is_hang: bool) -> Exception:
            waited = f"space in queue {channel.name} (put {channel.put}, get {channel.get})"
            facts = {"queue": channel.name, "put": channel.put, "get": channel.get}
            return self._late(limit, is_hang, waited, facts)

        self.waits.until(done, None, late)

    def _late(
        self, limit: float, is_hang: bool, waited: str, facts: dict[str, object]
    ) -> Exception:
        scene = self._scene()
        if is_hang:
            return self.fail(faults.hang(scene, limit, waited, facts, self._core_dump()))
        return WaitTimeout(
            f"{self.name}: {waited} did not come within {limit:g} s",
            device=self.name,
            facts={"queue": scene.queue, **facts, "limit": limit},
            hint="the device is still good: wait again, longer",
        )

    def _progress(self) -> tuple[int | None, ...]:
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
            return faults.lost_again(self.failed, self.name)

    def _incident(self, incidents: list[Incident]) -> None:
        scene = self._scene()
        # A reset says more than the memory fault that may come with it.
        for incident in incidents:
            if not isinstance(incident, MemoryFault):
                raise self.fail(faults.hardware_exception(incident, scene, self._core_dump()))
        for incident in incidents:
            if isinstance(incident, MemoryFault):
                nearest = self.describe(incident.address)
                dump = self._core_dump()
                raise self.fail(faults.memory_fault(incident, scene, nearest, dump))

    def _scene(self) -> faults.Scene:
        reached = self.timeline.reached
        rings = [f"{c.name} put {c.put} get {c.get}" for c in self.channels.values()]
        flying = [s for s in self._submissions.copy() if s.value > reached]
        return faults.Scene(self.name, reached, self.timeline.submitted, flying, rings)

    def _core_dump(self) -> str:
        path = CORE_DUMP.format(minor=self.node.get("drm_render_minor"))
        try:
            text = self.host.read(path) if self.host.exists(path) else b""
        except OSError:  # root only on most machines
            return ""
        return " ".join(text[:CORE_DUMP_BYTES].decode("utf-8", "replace").split())


def _indirect(bound: Buffer | None) -> list[dict[str, Any]]:
    """Words that a pointer packet leads to, as they are at this submission."""
    if bound is None:
        return []
    words = [f"{word:08x}" for word in bound.view().cast("I")]
    return [{"address": hex(bound.address), "words": words}]
