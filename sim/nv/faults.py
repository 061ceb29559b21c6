"""What the driver does when a channel goes wrong: the whole group ends, notifiers are written.

Source: NVIDIA open-gpu-kernel-modules, src/nvidia/src/kernel/gpu/rc (error notifiers of
every channel in a group), nvos.h (NvNotification); codes: hcq/nv/defs/faults.py.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hcq.bits import hi32, lo32
from hcq.host import MappedRegion
from hcq.ioctl_defs import nv_rm
from hcq.nv.defs import faults as codes
from sim.board import Fault
from sim.memory import PageFault
from sim.nv.memory import Memory

if TYPE_CHECKING:
    from sim.nv.channel import Channel
    from sim.nv.gpu import Gpu

# Source: nverror.h, CTXSW_TIMEOUT_ERROR: a context does not leave the engine in time.
RC_TIMEOUT = 109
FAILED = 0xFFFF
READ_ACCESS, WRITE_ACCESS = 0, 1
# A page directory entry of the level above the last covers this much.
DIRECTORY_SPAN = 2 << 20
GLOBAL_ERROR_SEEN = 1 << 2  # Guess: some bit of the global error register
RC_OF_UNIT = {
    "host": codes.RC_PBDMA_ERROR,
    "compute": codes.RC_GR_CLASS_ERROR,
    "copy": codes.RC_CE0_ERROR,
}
WARP_CODES = {
    "illegal": codes.WARP_ILLEGAL_INSTRUCTION,
    "misaligned": codes.WARP_MISALIGNED,
    "shared": codes.WARP_OUT_OF_RANGE,
    "local": codes.WARP_OUT_OF_RANGE,
    "memory": codes.WARP_MMU_FAULT,
}


@dataclass(frozen=True)
class MmuFault:
    """One entry of the fault buffer."""

    address: int
    kind: int
    access: int

    def text(self) -> str:
        """As the driver names the kind."""
        return f"FAULT_{codes.FAULT_TYPES[self.kind]}"


@dataclass(frozen=True)
class SmError:
    """What an SM's error registers hold."""

    warp_esr: int
    pc: int
    address: int


def note(gpu: "Gpu", kind: str, where: str, text: str) -> None:
    """Keep a refusal for whoever tests."""
    gpu.board.faults.append(Fault(kind, gpu.index, where, text))


def page(channel: "Channel", fault: PageFault, where: str) -> None:
    """An engine met an address that its page table does not allow."""
    found = _mmu_fault(channel, fault.address, fault.access, fault.kind)
    channel.setup.group.mmu_faults.append(found)
    text = f"{where}: {fault}: {found.text()}"
    _end(channel, codes.RC_MMU_FAULT, "memory", text)


def method(channel: "Channel", unit: str, text: str) -> None:
    """A word that hardware refuses, in the host, the compute class or the copy engine."""
    _end(channel, RC_OF_UNIT[unit], "queue", text)


def broken(channel: "Channel", text: str) -> None:
    """The simulator itself failed: the program must not wait for ever."""
    _end(channel, codes.RC_GR_EXCEPTION, "simulator", text)


def warp(channel: "Channel", launch: Any, fault: Any) -> None:
    """A kernel did what hardware reports as a fault."""
    group = channel.setup.group
    where = f"{channel.name}, kernel at {launch.code:#x}, pc {fault.pc:#x}"
    group.sm_error = SmError(WARP_CODES[fault.kind], fault.pc, fault.address)
    if fault.kind != "memory":
        _end(channel, codes.RC_GR_EXCEPTION, "warp", f"{where}: {fault.text}")
        return
    memory = channel.setup.space.memory
    kind, note = "not-present", ""
    try:
        memory.check(fault.address, 1, fault.access)
    except PageFault as found:
        kind, note = found.kind, found.note and f"; {found.note}"
    group.mmu_faults.append(_mmu_fault(channel, fault.address, fault.access, kind))
    text = f"{where}: {fault.access} of {fault.address:#x}: {fault.text}{note}"
    _end(channel, codes.RC_MMU_FAULT, "memory", text)


def timeout(channel: "Channel") -> None:
    """A kernel or copy did not end in the time that the driver allows."""
    _end(channel, RC_TIMEOUT, "hang", f"{channel.name}: its work does not end; it was stopped")


def lost(channel: "Channel") -> None:
    """The GPU has fallen off the bus."""
    _end(channel, codes.RC_OFF_THE_BUS, "lost", f"{channel.name}: the GPU is off the bus")


def write_token(channel: "Channel") -> None:
    """The driver repeats the work submit token in the notifier."""
    entry = _notification(channel.setup.notifier, nv_rm.NOTIFICATION_TOKEN)
    if entry:
        entry.write32(nv_rm.NOTIFICATION_INFO32, channel.token)


def _mmu_fault(channel: "Channel", address: int, access: str, kind: str) -> MmuFault:
    """The entry for an access; `kind` is the page table's."""
    code = codes.FAULT_RO_VIOLATION
    if kind != "read-only":
        start = address // DIRECTORY_SPAN * DIRECTORY_SPAN
        near = channel.setup.space.memory.ranges_within(start, start + DIRECTORY_SPAN)
        code = codes.FAULT_PTE if near else codes.FAULT_PDE
    return MmuFault(address, code, WRITE_ACCESS if access == "write" else READ_ACCESS)


def _end(channel: "Channel", number: int, kind: str, text: str) -> None:
    """The group is dead; every notifier of it says why."""
    gpu = channel.gpu
    note(gpu, kind, channel.name, text)
    channel.fault = text
    gpu.board.record("fault", gpu.name, channel.name, kind, number)
    with gpu.notifiers:
        for other in channel.setup.group.channels:
            other.halted = True
            _notify(other, number)
    gpu.notify()


def _notify(channel: "Channel", number: int) -> None:
    entry = _notification(channel.setup.notifier, nv_rm.NOTIFICATION_ERROR)
    if entry is None:
        return
    now = channel.gpu.nanoseconds()
    entry.write32(0, lo32(now))
    entry.write32(4, hi32(now))
    entry.write32(nv_rm.NOTIFICATION_INFO32, number)
    # The status comes last: whoever polls it may read the rest.
    entry.write16(nv_rm.NOTIFICATION_STATUS, FAILED)


def _notification(memory: Memory | None, index: int) -> MappedRegion | None:
    if memory is None:
        return None
    size = nv_rm.NOTIFICATION_BYTES
    return MappedRegion(memory.home + index * size, size)
