"""Kernel events as sentences."""

from hcq.amd.events import HardwareException, MemoryFault
from hcq.errors import DeviceLost, GpuFault
from hcq.faults import RESTART, Scene
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
        hint=f"{_suspicion(nearest)}; {RESTART.advice}",
    )


def _suspicion(nearest: str) -> str:
    if nearest.startswith("no buffer"):
        return "the address belongs to no buffer: look at how it was made"
    return f"an index may reach past {nearest.split(' (')[0]}"


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
        hint=RESTART.advice,
    )
