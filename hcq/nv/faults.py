"""What the kernel tells of a failed channel, as sentences.

The error notifier of a channel says that it failed and by what number. Where the
kernel answers, more is asked: the address that faulted, what the SMs met. Each of
these questions may be refused.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from hcq.errors import DeviceLost, GpuFault, IoctlError
from hcq.faults import REBOOT, REOPEN, Scene
from hcq.ioctl_defs import nv_ctrl, nv_rm
from hcq.nv.defs import classes, faults
from hcq.nv.gpu import Gpu

FOLLOW_ON = 45  # the other channels of a failed group
WRITTEN = 0xFFFF
MAX_SM_CALLS = 4


@dataclass(frozen=True)
class Notice:
    """What a channel's error notifier holds."""

    channel: str
    number: int
    time: int  # nanoseconds

    @property
    def meaning(self) -> str:
        """The number in words."""
        return faults.RC_NAMES.get(self.number, "an error of a number not known here")


@dataclass(frozen=True)
class MmuFault:
    """One access that the memory management unit refused."""

    address: int
    kind: int
    access: int | None = None
    text: str = ""


@dataclass(frozen=True)
class SmError:
    """What one SM met."""

    sm: int
    warp_error: int
    pc: int
    address: int

    def __str__(self) -> str:
        code = self.warp_error & faults.WARP_ERROR_MASK
        name = faults.WARP_ERRORS.get(code, f"error {code:#x}")
        return f"SM {self.sm}: {name} at pc {self.pc:#x} address {self.address:#x}"


@dataclass(frozen=True)
class Details:
    """What could be found out."""

    mmu: list[MmuFault] = field(default_factory=list)
    sms: list[SmError] = field(default_factory=list)


def notice_of(channel: Any) -> Notice | None:
    """The error of a channel, None while it is well."""
    region = channel.notices
    if region.read16(nv_rm.NOTIFICATION_STATUS) != WRITTEN:
        return None
    number = region.read32(nv_rm.NOTIFICATION_INFO32)
    return Notice(channel.name, number, region.read64(0))


def ask(gpu: Gpu, channel: Any, compute: Any) -> Details:
    """Details of a failed channel, as far as the kernel gives them."""
    mmu = _channel_fault(gpu, channel)
    sms: list[SmError] = []
    try:
        debugger = gpu.rm.alloc(
            gpu.device,
            classes.GT200_DEBUGGER,
            nv_rm.DEBUGGER,
            hAppClient=gpu.rm.client,
            hClass3dObject=compute.engine,
        )
    except IoctlError as error:
        gpu.rm.note(error)
        return Details(mmu, sms)
    try:
        mmu = _mmu_list(gpu, debugger) or mmu
        sms = _sm_errors(gpu, debugger, compute.handle)
    finally:
        with suppress(IoctlError):
            gpu.rm.free(debugger)
    return Details(mmu, sms)


def _channel_fault(gpu: Gpu, channel: Any) -> list[MmuFault]:
    found = gpu.rm.optional(channel.handle, nv_ctrl.GET_MMU_FAULT_INFO)
    if found is None or not (found.addrHi or found.addrLo or found.faultType):
        return []
    text = bytes(nv_ctrl.ffi.buffer(found.faultString)).split(b"\0")[0].decode("ascii", "replace")
    return [MmuFault(found.addrHi << 32 | found.addrLo, found.faultType, None, text)]


def _mmu_list(gpu: Gpu, debugger: int) -> list[MmuFault]:
    found = gpu.rm.optional(debugger, nv_ctrl.READ_MMU_FAULTS)
    if found is None:
        return []
    entries = list(found.mmuFaultInfoList)[: min(found.count, 4)]
    return [MmuFault(e.faultAddress, e.faultType, e.accessType) for e in entries]


def _sm_errors(gpu: Gpu, debugger: int, channel: int) -> list[SmError]:
    errors = []
    step = nv_ctrl.SM_ERRORS_PER_CALL
    for start in range(0, min(gpu.shape.sms, MAX_SM_CALLS * step), step):
        count = min(step, gpu.shape.sms - start)
        found = gpu.rm.optional(
            debugger,
            nv_ctrl.READ_SM_ERRORS,
            hTargetChannel=channel,
            numSMsToRead=count,
            startingSM=start,
        )
        if found is None:
            break
        for index in range(count):
            state = found.smErrorStateArray[index]
            if state.hwwWarpEsr or state.hwwGlobalEsr:
                pc = state.hwwWarpEsrPc64 or state.hwwWarpEsrPc
                errors.append(SmError(start + index, state.hwwWarpEsr, pc, state.hwwEsrAddr))
    return errors


def failure(notice: Notice, details: Details, scene: Scene, nearest: Any) -> DeviceLost:
    """GpuFault naming kernel, address, access, nearest buffer; DeviceLost off the bus.

    `nearest` tells what lies at an address.
    """
    facts: dict[str, object] = {
        "error": notice.number,
        "meaning": notice.meaning,
        "channel": notice.channel,
        "time_ns": notice.time,
    }
    if notice.number == faults.RC_OFF_THE_BUS:
        return DeviceLost(
            f"{scene.device} is lost: {notice.meaning}",
            device=scene.device,
            facts={**facts, **scene.facts()},
            hint=REBOOT.advice,
        )
    sentence, more = _sentence(notice, details)
    facts.update(more)
    about = nearest(more["at"]) if isinstance(more.get("at"), int) else "unknown"
    facts.pop("at", None)
    facts["nearest"] = about
    facts["sm_errors"] = "; ".join(str(e) for e in details.sms[:4]) or "the driver gave none"
    if not details.mmu and not details.sms:
        facts["detail"] = "the driver gave no details"
    who = _who(notice, scene)
    return GpuFault(
        f"GpuFault on {scene.device}: {who} {sentence}",
        device=scene.device,
        facts={**facts, **scene.facts()},
        hint=_suspicion(about) + REOPEN.advice,
    )


def _suspicion(nearest: str) -> str:
    name = nearest.split(" (")[0]
    if ", freed at " in nearest:
        return f"{name} was freed while still in use; "
    is_known = nearest.endswith("its end") or " offset " in nearest
    return f"an index may reach past {name}; " if is_known else ""


def _who(notice: Notice, scene: Scene) -> str:
    running = scene.running
    if notice.number == faults.RC_PBDMA_ERROR:
        return "the host unit"
    if running is not None and running.queue.startswith("copy"):
        return "a copy"
    if running is not None and not running.kernels:
        return "the host unit"  # no engine had anything to do
    return f"kernel {scene.kernel}"


def _sentence(notice: Notice, details: Details) -> tuple[str, dict[str, object]]:
    if details.mmu:
        fault = details.mmu[0]
        access = faults.ACCESS_TYPES.get(fault.access) if fault.access is not None else None
        facts: dict[str, object] = {
            "at": fault.address,
            "address": hex(fault.address),
            "access": access or "unknown (the driver does not say)",
            "kind": faults.FAULT_TYPES.get(fault.kind, hex(fault.kind)),
        }
        if details.sms:
            facts["pc"] = hex(details.sms[0].pc)
        if fault.text:
            facts["text"] = fault.text
        done = {"write": "wrote to", "read": "read from"}.get(access or "", "used")
        if fault.kind in (faults.FAULT_PDE, faults.FAULT_PTE):
            return f"{done} a page that is not mapped", facts
        return faults.FAULT_SENTENCES.get(fault.kind, "had a memory fault"), facts
    if details.sms:
        error = details.sms[0]
        code = error.warp_error & faults.WARP_ERROR_MASK
        name = faults.WARP_ERRORS.get(code, f"error {code:#x}")
        return f"stopped with: {name}", {
            **({"at": error.address} if error.address not in (0, error.pc) else {}),
            "pc": hex(error.pc),
            "address": hex(error.address),
            "sm": error.sm,
        }
    return f"failed: {notice.meaning}", {}
