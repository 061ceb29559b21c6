"""Launches collected first and run by one call, where the backend can do that."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hcq.errors import QueueError
from runtime.call import Estimate
from runtime.counters import GlobalCounters
from runtime.program import Grid, Place, Program

if TYPE_CHECKING:
    from runtime.buffer import Buffer
    from runtime.opened import OpenedDevice

NOTHING = Estimate()
Launch = tuple[Program, Sequence[Place], Sequence[int], Grid | None]


class LaunchBatch:
    """Launches of one device in the order they will run; may run many times."""

    def __init__(self, device: "OpenedDevice") -> None:
        self.device = device
        self._launches: list[Launch] = []
        self._estimates: list[Estimate] = []
        self._kept: list[Sequence[Buffer]] = []  # alive as long as the batch

    def __len__(self) -> int:
        return len(self._launches)

    def add(
        self,
        program: Program,
        buffers: Sequence["Buffer"],
        scalars: Sequence[int] = (),
        estimate: Estimate = NOTHING,
    ) -> "LaunchBatch":
        """Append a launch. QueueError if the program is another device's."""
        if program.device is not self.device:
            raise QueueError(
                f"{program.name} is loaded on {program.device.name}, the batch is for "
                f"{self.device.name}",
                device=self.device.name,
                facts={"kernel": program.name},
            )
        places = [buffer.located() for buffer in buffers]
        if not program.is_empty:
            self._launches.append((program, places, tuple(scalars), None))
            self._estimates.append(estimate)
            self._kept.append(tuple(buffers))
        return self

    def run(self) -> None:
        """Run every launch in order; each counts as a kernel."""
        backend = self.device.backend
        if "launch_batch" in self.device.capabilities:
            self.device.hook("launch_batch")(
                [(p.loaded, places, scalars, grid) for p, places, scalars, grid in self._launches]
            )
        else:
            for program, places, scalars, grid in self._launches:
                backend.launch(program.loaded, places, scalars, grid)
        for (program, *_), estimate in zip(self._launches, self._estimates, strict=True):
            program.runs += 1
            GlobalCounters.record(self.device.counters, estimate.operations, estimate.bytes, 0.0)
