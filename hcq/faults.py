"""What was going on when a device failed, and the errors that need nothing of a vendor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hcq.errors import DeviceLost, GpuTimeout


@dataclass(frozen=True)
class Remedy:
    """What helps after a failure: in the word of device.health(), and as advice."""

    health: str
    advice: str


# The kernel lets go of one device at a time: a new one of the same process is like any other.
REOPEN = Remedy("reset-device", "close the device and open it again")
# The kernel stops everything of the process on that GPU, for as long as it lives.
RESTART = Remedy("restart-process", "restart the process: the kernel has stopped its queues")
# Whether the kernel gets the queue off the GPU is not known beforehand.
HUNG = Remedy("restart-process", "restart the process")
REBOOT = Remedy("reboot", "reboot; the kernel log (dmesg) says more")


class Submission(NamedTuple):
    """One thing handed to a channel."""

    value: int
    queue: str
    kernels: tuple[str, ...]
    put: int
    cells: tuple[int, ...] = ()  # signals its own commands write

    def __str__(self) -> str:
        what = ", ".join(self.kernels) or "no kernel"
        return f"{self.value} on {self.queue} ({what})"


@dataclass(frozen=True)
class Scene:
    """What was going on: submissions in flight, ring positions, the last value done."""

    device: str
    reached: int
    submitted: int
    flying: Sequence[Submission]
    rings: Sequence[str]

    @property
    def running(self) -> Submission | None:
        """The first submission that has not finished, while it is among those kept."""
        is_kept = bool(self.flying) and self.flying[0].value == self.reached + 1
        return self.flying[0] if is_kept else None

    @property
    def kernel(self) -> str:
        """The kernel that runs, when only one can."""
        if self.running is None or not self.running.kernels:
            return "unknown"
        names = list(dict.fromkeys(self.running.kernels))
        return names[0] if len(names) == 1 else f"one of {', '.join(names[:8])}"

    @property
    def queue(self) -> str:
        """The queue of the first submission that has not finished."""
        if self.running is not None:
            return self.running.queue
        return "unknown" if self.flying else "none"

    def facts(self) -> dict[str, object]:
        """For the error's facts."""
        return {
            "submission": self.reached + 1 if self.flying else "none",
            "queue": self.queue,
            "finished": self.reached,
            "submitted": self.submitted,
            "rings": "; ".join(self.rings),
            "last_submissions": "; ".join(str(s) for s in self.flying[:4]) or "none",
        }


def hang(
    scene: Scene,
    limit: float,
    waited: str,
    awaited: Mapping[str, object],
    detail: str = "",
    remedy: Remedy = HUNG,
) -> GpuTimeout:
    """GpuTimeout telling what was waited for and what stands still."""
    verdict = "nothing was submitted that has not finished"
    why = "a kernel may not end, or a wait or poll is never met"
    if scene.running is not None:
        verdict = f"stuck in submission {scene.running}"
        if not scene.running.kernels:
            why = "it has no kernel: a wait or poll in it may never be met"
    elif scene.flying:
        verdict = f"stuck in submission {scene.reached + 1}, which is too long ago to be known"
    return GpuTimeout(
        f"GpuTimeout on {scene.device}: no progress for {limit:g} s waiting for {waited}",
        device=scene.device,
        facts={
            "limit": limit,
            "verdict": verdict,
            "kernel": scene.kernel,
            "detail": detail or "the driver gave none",
            **scene.facts(),
            **awaited,
        },
        hint=f"{why}; HCQ_TIMEOUT_MS sets the limit; {remedy.advice}",
    )


def lost_again(first: BaseException, device: str, remedy: Remedy) -> DeviceLost:
    """What every later use raises: the first error, in short, and what helps."""
    text = str(first).splitlines()[0]
    return DeviceLost(
        f"{device} is lost since: {text}",
        device=device,
        facts={"health": remedy.health, **getattr(first, "facts", {})},
        hint=remedy.advice,
    )


def stopped(first: BaseException, device: str) -> DeviceLost:
    """What opening a device raises in a process whose queues the kernel has stopped."""
    text = str(first).splitlines()[0]
    return DeviceLost(
        f"{device} cannot be opened again in this process: it is lost since: {text}",
        device=device,
        facts={"health": RESTART.health, **getattr(first, "facts", {})},
        hint=RESTART.advice,
    )
