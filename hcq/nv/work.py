"""The work of one NVIDIA device: its channels, its queues, what its failures mean."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from hcq.errors import DeviceLost
from hcq.faults import REBOOT, REOPEN, Remedy
from hcq.host import Host
from hcq.ioctl_defs import nv_rm
from hcq.nv import faults
from hcq.nv.channel import Channel, ChannelGroup
from hcq.nv.gpu import Gpu
from hcq.nv.queue import ComputeQueue, CopyQueue
from hcq.nv.signals import signals_of
from hcq.queue import COMPUTE, COPY
from hcq.timeline import Timeline
from hcq.waits import Waits
from hcq.work import Work

AnyQueue = ComputeQueue | CopyQueue
_ALARM = nv_rm.NOTIFICATION_STATUS // 2


class NoEvents:
    """Waits only poll: a failed channel shows in its notifier, which is memory."""

    can_sleep = False

    def sleep(self, seconds: float) -> Sequence[Any]:
        """Nothing to sleep in."""
        return []


class NvWork(Work):
    """Channels, timeline and waits of a device."""

    queues = {COMPUTE: ComputeQueue, COPY: CopyQueue}
    after_fault = after_hang = REOPEN

    def __init__(self, name: str, gpu: Gpu, host: Host) -> None:
        super().__init__(name, "", host)
        self.gpu = gpu
        self._alarms: list[memoryview[int]] = []
        signals = signals_of(gpu.driver)
        signals.join(gpu)
        self.signals = signals.pool

    def open(self, undo: ExitStack, timeline_start: int) -> None:
        """Signal cells and channels; what is to be undone goes on the stack."""
        self.arch = self.gpu.arch
        self.target = self.arch.name
        self.timeline = Timeline(self.take_signal(undo), self.take_signal(undo), timeline_start)
        self.waits = Waits(self.host, NoEvents(), self.check, self.progress, self.incident)
        progress = {kind: self.take_signal(undo) for kind in (COMPUTE, COPY)}
        channels = ChannelGroup(self.gpu).open(undo, progress)
        for channel in channels.values():
            self.add_channel(channel)
        self._alarms = [channel.alarm for channel in channels.values()]
        numbers, windows = self.gpu.classes, self.gpu.driver.windows
        setup = ComputeQueue(self.arch).setup(numbers.compute, windows.shared, windows.local)
        channels[COMPUTE].prelude = list(setup.words)
        channels[COPY].prelude = list(CopyQueue(self.arch).setup(numbers.copy).words)

    def check_process(self) -> None:
        """DeviceBanned in a forked child."""
        self.gpu.driver.check_process()

    def run_first(self, kind: str, words: Sequence[int]) -> None:
        """Words that the next submission of a kind begins with."""
        self.channels[kind].prelude = [*self.channels[kind].prelude, *words]

    def check(self) -> None:
        """DeviceLost when the device has failed; the first failure itself where it is new."""
        super().check()
        for alarm in self._alarms:
            if alarm[_ALARM]:
                self._alarmed()

    def _alarmed(self) -> None:
        notices = [faults.notice_of(channel) for channel in self.channels.values()]
        found = [notice for notice in notices if notice is not None]
        if found:
            self._fail_with(found)

    def _fail_with(self, notices: list[faults.Notice]) -> None:
        # The kernel writes to every channel of a group: the one that runs is meant.
        queue = self.scene().queue
        first = min(
            notices, key=lambda n: (n.number == faults.FOLLOW_ON, n.channel != queue, n.time)
        )
        channel: Channel = next(c for c in self.channels.values() if c.name == first.channel)
        details = faults.ask(self.gpu, channel, self.channels[COMPUTE])
        raise self.fail(faults.failure(first, details, self.scene(), self.describe))

    def remedy(self, error: BaseException) -> Remedy:
        """What helps: as always, but for a GPU that is off the bus."""
        return REBOOT if type(error) is DeviceLost else super().remedy(error)

    def incident(self, incidents: Sequence[Any]) -> None:
        """None come: waits only poll."""
