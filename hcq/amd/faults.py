"""Kernel events and silence, as sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hcq.amd.events import HardwareException, MemoryFault
from hcq.errors import DeviceLost, GpuFault, GpuTimeout
from hcq.ioctl_defs import kfd

_CAUSES = {kfd.HW_EXCEPTION_GPU_HANG: "a hang", kfd.HW_EXCEPTION_ECC: "a memory (ECC) error"}
_RESETS = {
    kfd.HW_EXCEPTION_WHOLE_GPU_RESET: "whole GPU",
    kfd.HW_EXCEPTION_PER_ENGINE_RESET: "one engine",
}
_MEMORY_ERRORS = {
    kfd.MEM_ERR_SRAM_ECC: "an SRAM ECC error",
    kfd.MEM_ERR_POISON_CONSUMED: "poisoned memory was used",
    kfd.MEM_ERR_GPU_HANG: "the GPU hung",
}
RESTART = "restart the process: the kernel has stopped its queues; device.health() says more"


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


def memory_fault(fault: MemoryFault, scene: Scene, nearest: str, detail: str = "") -> GpuFault:
    """GpuFault naming kernel, address, access, nearest buffer."""
    kinds = []
    if fault.not_present:
        kinds.append("not-present")
    if fault.read_only:
        kinds.append("read-only")
    if fault.no_execute:
        kinds.append("no-execute")
    problem = {
        "not-present": "used a page that is not mapped",
        "read-only": "wrote to a read-only page",
        "no-execute": "ran code from a page without execute rights",
    }
    sentence = problem[kinds[-1]] if kinds else _MEMORY_ERRORS.get(fault.error_type)
    if sentence is None:
        sentence = "had a memory fault; the driver gave no details"
    about = " (imprecise: the address may be off)" if fault.imprecise else ""
    return GpuFault(
        f"GpuFault on {scene.device}: kernel {scene.kernel} {sentence}{about}",
        device=scene.device,
        facts={
            "address": hex(fault.address),
            "access": _access(fault),
            "kind": ",".join(kinds) or "none given",
            "imprecise": int(fault.imprecise),
            "error_type": fault.error_type,
            "nearest": nearest,
            "detail": detail or "the driver gave none",
            **scene.facts(),
        },
        hint=f"an index may reach past {nearest.split(' (')[0]}; {RESTART}",
    )


def _access(fault: MemoryFault) -> str:
    if fault.no_execute:
        return "execute"
    return "write" if fault.read_only else "unknown (the driver does not say)"


def hardware_exception(exception: HardwareException, scene: Scene, detail: str) -> DeviceLost:
    """DeviceLost naming reset kind, cause and whether memory was lost."""
    kind = _RESETS.get(exception.reset_type, f"kind {exception.reset_type}")
    cause = _CAUSES.get(exception.reset_cause, f"cause {exception.reset_cause}")
    lost = "memory was lost" if exception.memory_lost else "memory was kept"
    return DeviceLost(
        f"{scene.device} was reset ({kind}) because of {cause}; {lost}; "
        f"kernel {scene.kernel} was running",
        device=scene.device,
        facts={
            "reset_type": exception.reset_type,
            "reset_cause": exception.reset_cause,
            "memory_lost": int(exception.memory_lost),
            "detail": detail or "the driver gave none",
            **scene.facts(),
        },
        hint=RESTART,
    )


def hang(
    scene: Scene, limit: float, waited: str, awaited: Mapping[str, object], detail: str
) -> GpuTimeout:
    """GpuTimeout telling what was waited for and what stands still."""
    verdict = "nothing was submitted that has not finished"
    if scene.running is not None:
        verdict = f"stuck in submission {scene.running}"
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
        hint=(
            "a kernel may not end, or a wait is never met; HCQ_TIMEOUT_MS sets the limit; "
            f"{RESTART}"
        ),
    )


def lost_again(first: BaseException, device: str) -> DeviceLost:
    """What every later use raises: the first error, in short."""
    text = str(first).splitlines()[0]
    return DeviceLost(
        f"{device} is lost since: {text}",
        device=device,
        facts=dict(getattr(first, "facts", {})),
        hint=RESTART,
    )
