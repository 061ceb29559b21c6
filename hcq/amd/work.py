"""The work of one AMD device: its channels, its queues, what its incidents mean."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from hcq import settings
from hcq.amd import faults, signals
from hcq.amd.arch import Arch
from hcq.amd.channel import Channel, ComputeChannel, CopyChannel
from hcq.amd.defs.sdma import INDIRECT_END_ALIGNMENT_WORDS
from hcq.amd.events import Incident, MemoryFault, open_events
from hcq.amd.kfd import Kfd
from hcq.amd.queue import ComputeQueue, CopyQueue
from hcq.amd.topology import Node
from hcq.errors import DeviceLost, Unsupported
from hcq.frame import Frame
from hcq.host import Host
from hcq.queue import COMPUTE, COPY
from hcq.timeline import Timeline
from hcq.waits import Waits
from hcq.work import Work

AnyQueue = ComputeQueue | CopyQueue
# Source: Linux drivers/base/devcoredump.c; amdgpu writes one after a reset.
CORE_DUMP = "/sys/class/drm/renderD{minor}/device/devcoredump/data"
CORE_DUMP_BYTES = 1000


class AmdWork(Work):
    """Channels, timeline and waits of a device. `close` is pushed on the opener's stack."""

    queues = {COMPUTE: ComputeQueue, COPY: CopyQueue}

    def __init__(self, name: str, arch: Arch, node: Node, process: Kfd, host: Host) -> None:
        super().__init__(name, arch.name, host)
        self.arch = arch
        self.node = node
        self.process = process

    def open(self, undo: ExitStack, timeline_start: int) -> None:
        """Events, signal cells and queues; what is to be undone goes on the stack."""
        self.events = open_events(self.process, self.node.gpu_id)
        undo.callback(self.events.close)
        self.signals = signals.pool(self.process, self.node.gpu_id)
        cells = self.take_signal(undo), self.take_signal(undo)
        self.timeline = Timeline(*cells, timeline_start)
        self.waits = Waits(self.host, self.events, self.check, self.progress, self.incident)
        kinds: list[type[Channel]] = [ComputeChannel]
        if not settings.get("AMD_DISABLE_SDMA"):
            kinds.append(CopyChannel)
        for kind in kinds:
            channel = kind(self.process, self.node, self.arch)
            undo.callback(channel.close)
            self.add_channel(channel)

    def check_process(self) -> None:
        """DeviceBanned in a forked child."""
        self.process.check_process()

    def queue(self, kind: str, name: str = "") -> Any:
        """A new queue to build."""
        if kind == COPY and COPY not in self.channels:
            raise Unsupported(
                f"{self.name} has no copy queue: AMD_DISABLE_SDMA is set",
                device=self.name,
                facts={"setting": "AMD_DISABLE_SDMA", "queue": COPY},
                hint="copy with a kernel, or unset it",
            )
        return super().queue(kind, name)

    def make_frame(self, kind: str, cell: int) -> Frame:
        """As the base; the host is woken, and an INDIRECT packet that follows can end right."""
        unit = INDIRECT_END_ALIGNMENT_WORDS if kind == COPY else 1
        return Frame(lambda: self.queue(kind), cell, self._wake, unit)

    def _wake(self, queue: Any) -> None:
        if self.events.slot:
            queue.interrupt(self.events.slot, self.events.signal_id)

    def incident(self, incidents: Sequence[Incident]) -> None:
        """GpuFault or DeviceLost for what the kernel told."""
        scene = self.scene()
        # A reset says more than the memory fault that may come with it.
        for incident in sorted(incidents, key=lambda i: isinstance(i, MemoryFault)):
            if isinstance(incident, MemoryFault):
                nearest = self.describe(incident.address)
                error: DeviceLost = faults.memory_fault(incident, scene, nearest, self.detail())
            else:
                error = faults.hardware_exception(incident, scene, self.detail())
            self.process.stopped.setdefault(self.node.gpu_id, error)
            raise self.fail(error)

    def detail(self) -> str:
        """What the kernel wrote after a reset, where it may be read."""
        path = CORE_DUMP.format(minor=self.node.get("drm_render_minor"))
        try:
            text = self.host.read(path) if self.host.exists(path) else b""
        except OSError:  # root only on most machines
            return ""
        return " ".join(text[:CORE_DUMP_BYTES].decode("utf-8", "replace").split())
