"""RM_CONTROL: questions and orders to objects, each with parameters of exactly its size.

Source: NVIDIA open-gpu-kernel-modules, src/common/sdk/nvidia/inc/ctrl/*.h.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from cffi import FFI

from hcq.bits import hi32, lo32
from hcq.errors import SimFault
from hcq.ioctl_defs import nv_ctrl, nv_escape
from hcq.ioctl_defs.nv_ctrl import Control
from hcq.ioctl_defs.nv_escape import INVALID_ARGUMENT, INVALID_PARAM_STRUCT, NOT_SUPPORTED
from hcq.nv.defs import classes
from sim import user
from sim.nv import faults
from sim.nv.alloc import Debugger
from sim.nv.channel import Channel, Group
from sim.nv.objects import Object
from sim.nv.status import OBJECT_TYPE_MISMATCH, RmStatus

if TYPE_CHECKING:
    from sim.nv.gpu import Gpu
    from sim.nv.rm import Rm

_ffi = FFI()
Handler = Callable[["Rm", Object, Any], None]
HANDLERS: dict[int, tuple[Control, Handler, tuple[int, ...]]] = {}
SMC_MODE_DISABLED = 0
_LIST_ENTRY = 8
_MOST_LISTED = 256


def on(control: Control, *numbers: int) -> Callable[[Handler], Handler]:
    """Register who answers a control; objects of which classes take it (none: channels)."""

    def register(handler: Handler) -> Handler:
        if control.number in HANDLERS:
            raise SimFault(f"{control.name} has two owners")
        HANDLERS[control.number] = control, handler, numbers
        return handler

    return register


def answer(rm: "Rm", target: Object, args: Any) -> None:
    """Answer one control; RmStatus."""
    if target.gpu is not None and target.gpu.is_lost:
        raise RmStatus(nv_escape.GPU_IS_LOST, "the GPU is off the bus")
    found = HANDLERS.get(args.cmd)
    if found is None:
        raise RmStatus(NOT_SUPPORTED, f"control {args.cmd:#010x} is not simulated")
    control, handler, numbers = found
    if numbers and target.number not in numbers:
        raise RmStatus(NOT_SUPPORTED, f"{control.name} of {target.describe()}")
    if not numbers and not isinstance(target.payload, Channel):
        raise RmStatus(NOT_SUPPORTED, f"{control.name} of {target.describe()}")
    size = rm.series.control[args.cmd]
    if args.paramsSize != size:
        raise RmStatus(
            INVALID_PARAM_STRUCT, f"{control.name} with {args.paramsSize:#x} bytes, not {size:#x}"
        )
    own = control.ffi.new(f"{control.struct} *")
    shared = min(size, control.size)
    data = user.read(args.params, size)
    _ffi.memmove(control.ffi.buffer(own), data[:shared], shared)
    handler(rm, target, own)
    user.write(args.params, bytes(control.ffi.buffer(own))[:shared] + data[shared:])


def _listed(address: int, count: int, values: Mapping[int, int], what: str) -> None:
    """Fill a list of {index, data} in the caller's memory."""
    if count > _MOST_LISTED:
        raise RmStatus(INVALID_ARGUMENT, f"{what}: a list of {count}")
    entries = user.read(address, _LIST_ENTRY * count)
    filled = b""
    for at in range(0, len(entries), _LIST_ENTRY):
        index = int.from_bytes(entries[at : at + 4], "little")
        if index not in values:
            raise RmStatus(INVALID_ARGUMENT, f"{what}: index {index:#x} is not simulated")
        filled += index.to_bytes(4, "little") + values[index].to_bytes(4, "little")
    user.write(address, filled)


@on(nv_ctrl.GET_ID_INFO, classes.NV01_ROOT_CLIENT)
def get_id_info(rm: "Rm", target: Object, args: Any) -> None:
    found = next((gpu for gpu in rm.gpus if gpu.gpu_id == args.gpuId), None)
    if found is None:
        raise RmStatus(INVALID_ARGUMENT, f"there is no GPU {args.gpuId:#x}")
    args.deviceInstance = args.gpuInstance = found.index
    args.subDeviceInstance = 0
    args.numaId = -1


@on(nv_ctrl.GET_CLASSLIST, classes.NV01_DEVICE_0)
def get_classlist(rm: "Rm", target: Object, args: Any) -> None:
    found = target.gpu.classes
    room = args.numClasses
    if args.classList and room:
        if room < len(found):
            raise RmStatus(INVALID_ARGUMENT, f"room for {room} of {len(found)} classes")
        user.write(args.classList, b"".join(n.to_bytes(4, "little") for n in found))
    args.numClasses = len(found)


@on(nv_ctrl.GPU_GET_INFO, classes.NV20_SUBDEVICE_0)
def gpu_get_info(rm: "Rm", target: Object, args: Any) -> None:
    mode = nv_ctrl.SMC_MODE_ENABLED if target.gpu.limits.mig else SMC_MODE_DISABLED
    values = {nv_ctrl.GPU_INFO_SMC_MODE: mode}
    _listed(args.gpuInfoList, args.gpuInfoListSize, values, "GPU_GET_INFO")


@on(nv_ctrl.QUERY_COMPUTE_MODE, classes.NV20_SUBDEVICE_0)
def query_compute_mode(rm: "Rm", target: Object, args: Any) -> None:
    args.rules = target.gpu.limits.compute_mode


@on(nv_ctrl.GET_GID_INFO, classes.NV20_SUBDEVICE_0)
def get_gid_info(rm: "Rm", target: Object, args: Any) -> None:
    if args.index or args.flags != nv_ctrl.GID_BINARY_SHA1:
        raise RmStatus(INVALID_ARGUMENT, f"GID {args.index} in format {args.flags}")
    args.length = len(target.gpu.uuid)
    args.data[0 : args.length] = list(target.gpu.uuid)


@on(nv_ctrl.PERF_BOOST, classes.NV20_SUBDEVICE_0)
def perf_boost(rm: "Rm", target: Object, args: Any) -> None:
    # Clocks have no effect here, so that the order is only taken.
    known = nv_ctrl.PERF_BOOST_MAX | nv_ctrl.PERF_BOOST_CUDA | nv_ctrl.PERF_BOOST_HIGH | 1
    if args.flags & ~known:
        raise RmStatus(INVALID_ARGUMENT, f"PERF_BOOST flags {args.flags:#x}")


@on(nv_ctrl.GR_GET_INFO, classes.NV20_SUBDEVICE_0)
def gr_get_info(rm: "Rm", target: Object, args: Any) -> None:
    gpu: Gpu = target.gpu
    values = {
        nv_ctrl.GR_INFO_SM_VERSION: gpu.sm_version,
        nv_ctrl.GR_INFO_MAX_WARPS_PER_SM: gpu.chip.warps_per_sm,
        nv_ctrl.GR_INFO_NUM_GPCS: gpu.chip.gpcs,
        nv_ctrl.GR_INFO_NUM_TPC_PER_GPC: gpu.chip.tpcs_per_gpc,
        nv_ctrl.GR_INFO_NUM_SM_PER_TPC: gpu.chip.sms_per_tpc,
    }
    _listed(args.grInfoList, args.grInfoListSize, values, "GR_GET_INFO")


@on(nv_ctrl.FB_GET_INFO, classes.NV20_SUBDEVICE_0)
def fb_get_info(rm: "Rm", target: Object, args: Any) -> None:
    gpu: Gpu = target.gpu
    values = {
        nv_ctrl.FB_INFO_BAR1_SIZE: gpu.bar1 >> 10,
        nv_ctrl.FB_INFO_TOTAL_RAM_SIZE: gpu.vram >> 10,
        nv_ctrl.FB_INFO_HEAP_SIZE: gpu.vram >> 10,
        nv_ctrl.FB_INFO_HEAP_FREE: (gpu.vram - gpu.used) >> 10,
    }
    _listed(args.fbInfoList, args.fbInfoListSize, values, "FB_GET_INFO")


@on(nv_ctrl.SCHEDULE_GROUP_580, classes.KEPLER_CHANNEL_GROUP_A)
def schedule_group(rm: "Rm", target: Object, args: Any) -> None:
    group: Group = target.payload
    for channel in group.channels:
        channel.is_enabled = bool(args.bEnable)
    rm.scheduler.start(target.gpu)
    rm.scheduler.changed(target.gpu)


@on(nv_ctrl.GET_WORK_SUBMIT_TOKEN)
def get_work_submit_token(rm: "Rm", target: Object, args: Any) -> None:
    channel: Channel = target.payload
    args.workSubmitToken = channel.token
    faults.write_token(channel)


@on(nv_ctrl.GET_MMU_FAULT_INFO)
def get_mmu_fault_info(rm: "Rm", target: Object, args: Any) -> None:
    group: Group = target.payload.setup.group
    if not group.mmu_faults:
        return
    last = group.mmu_faults[-1]
    args.addrHi, args.addrLo = hi32(last.address), lo32(last.address)
    args.faultType = last.kind
    args.faultString = last.text().encode()


@on(nv_ctrl.READ_SM_ERRORS, classes.GT200_DEBUGGER)
def read_sm_errors(rm: "Rm", target: Object, args: Any) -> None:
    channel = _debugged(target, args.hTargetChannel)
    if args.numSMsToRead > nv_ctrl.SM_ERRORS_PER_CALL:
        raise RmStatus(INVALID_ARGUMENT, f"{args.numSMsToRead} SMs in one call")
    chip = target.gpu.chip
    total = chip.gpcs * chip.tpcs_per_gpc * chip.sms_per_tpc
    if args.startingSM + args.numSMsToRead > total:
        raise RmStatus(INVALID_ARGUMENT, f"SM {args.startingSM} + {args.numSMsToRead} of {total}")
    group = channel.setup.group
    args.mmuFault.valid = bool(group.mmu_faults)
    error = group.sm_error
    if error is None or args.startingSM or not args.numSMsToRead:
        return
    first = args.smErrorStateArray[0]
    first.hwwGlobalEsr = faults.GLOBAL_ERROR_SEEN
    first.hwwWarpEsr = error.warp_esr
    first.hwwWarpEsrPc = lo32(error.pc)
    first.hwwWarpEsrPc64 = error.pc
    first.hwwEsrAddr = error.address


@on(nv_ctrl.READ_MMU_FAULTS, classes.GT200_DEBUGGER)
def read_mmu_faults(rm: "Rm", target: Object, args: Any) -> None:
    found = [
        fault
        for group in _groups(target)
        for fault in group.mmu_faults
    ][:4]  # fmt: skip
    args.count = len(found)
    for entry, fault in zip(args.mmuFaultInfoList, found, strict=False):
        entry.faultAddress = fault.address
        entry.faultType = fault.kind
        entry.accessType = fault.access


@on(nv_ctrl.CONFIDENTIAL_CAPABILITIES, classes.NV_CONFIDENTIAL_COMPUTE)
def confidential_capabilities(rm: "Rm", target: Object, args: Any) -> None:
    is_on = any(gpu.limits.confidential for gpu in rm.gpus)
    args.cpuCapability = args.gpusCapability = 2 if is_on else 0
    args.ccFeature = 2 if is_on else 0


def _debugged(target: Object, handle: int) -> Channel:
    debugger: Debugger = target.payload
    found = debugger.client.find(handle)
    if not isinstance(found.payload, Channel):
        raise RmStatus(OBJECT_TYPE_MISMATCH, f"hTargetChannel is {found.describe()}")
    return found.payload


def _groups(target: Object) -> list[Group]:
    debugger: Debugger = target.payload
    return [o.payload for o in debugger.client.objects.values() if isinstance(o.payload, Group)]
