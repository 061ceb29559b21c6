"""RM_ALLOC: what each class takes, checks and makes.

The resource manager copies as many bytes of parameters as its own struct has, whatever the
caller says. Source: NVIDIA open-gpu-kernel-modules, src/nvidia/src/kernel/rmapi/
param_copy.c, src/nvidia/interface/rmcontrol and the classes' constructors.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cffi import FFI

from hcq.errors import SimFault
from hcq.ioctl_defs import Ioctl, nv_escape, nv_rm
from hcq.ioctl_defs.nv_escape import INVALID_ARGUMENT, INVALID_CLASS, NOT_SUPPORTED
from hcq.nv.defs import classes, host
from sim import user
from sim.memory import PAGE
from sim.nv import memory, series
from sim.nv.channel import Channel, Group, Setup
from sim.nv.gpu import Gpu, VaSpace
from sim.nv.memory import Memory
from sim.nv.objects import Client, Object
from sim.nv.status import INVALID_DEVICE, INVALID_POINTER, RmStatus

if TYPE_CHECKING:
    from sim.nv.rm import Rm

_ffi = FFI()
PAGE_SIZES = {0: PAGE, 1: PAGE, 2: 64 << 10, 3: 2 << 20}  # by the attribute's field
MOST_RING_ENTRIES = 1 << 20
LEAST_NOTIFIER = nv_rm.NOTIFICATION_COUNT * nv_rm.NOTIFICATION_BYTES
_PAGE_SHIFT, _PAGE_MASK = 23, 3
_LOCATION_MASK = 3 << 25
PROHIBITED, EXCLUSIVE = 2, 3


@dataclass
class New:
    """An object about to be made."""

    rm: "Rm"
    client: Client
    parent: int
    number: int
    args: Any  # its parameters, or None
    handle: int

    def under(self, *numbers: int) -> Object:
        """The parent, of one of some classes."""
        return self.client.parent(self.parent, *numbers)


@dataclass(frozen=True)
class Made:
    """What an allocator gives back."""

    parent: Object
    payload: Any = None
    gpu: Gpu | None = None


@dataclass(frozen=True)
class Allocator:
    """How a class is made. `params` None: as the driver's series has it."""

    make: Callable[[New], Made]
    params: Ioctl | None
    needs_params: bool


ALLOCATORS: dict[int, Allocator] = {}


def makes(
    *keys: int, params: Ioctl | None = None, needs_params: bool = True
) -> Callable[[Callable[[New], Made]], Callable[[New], Made]]:
    """Register how classes (or families of them) are made."""

    def register(make: Callable[[New], Made]) -> Callable[[New], Made]:
        for key in keys:
            if key in ALLOCATORS:
                raise SimFault(f"class {key:#x} has two owners")
            ALLOCATORS[key] = Allocator(make, params, needs_params)
        return make

    return register


def allocate(rm: "Rm", client: Client, args: Any, handle: int) -> None:
    """Make the object that RM_ALLOC asks for; RmStatus."""
    key = series.family(args.hClass)
    found = ALLOCATORS.get(key)
    if found is None:
        raise RmStatus(INVALID_CLASS, f"class {args.hClass:#x} is not simulated")
    struct = found.params or _of_series(rm, key)
    size = rm.series.alloc[key]
    own = None
    if args.pAllocParms and struct:
        own = struct.ffi.new(f"{struct.struct} *")
        shared = min(size, struct.size)
        _ffi.memmove(struct.ffi.buffer(own), user.read(args.pAllocParms, size)[:shared], shared)
    elif found.needs_params:
        raise RmStatus(INVALID_POINTER, f"class {args.hClass:#x} needs parameters")
    made = found.make(New(rm, client, args.hObjectParent, args.hClass, own, handle))
    gpu = made.gpu or made.parent.gpu
    client.add(Object(client, handle, args.hClass, made.parent, gpu, made.payload))
    if own is not None and struct:
        data = bytes(struct.ffi.buffer(own))[: min(size, struct.size)]
        user.write(args.pAllocParms, data)


def is_engine(found: Object) -> bool:
    """Whether an object is a compute or copy class on a channel."""
    return series.family(found.number) in (series.COMPUTE, series.COPY)


def _of_series(rm: "Rm", key: int) -> Ioctl | None:
    if key == series.ADDRESS_SPACE:
        return rm.series.address_space
    return rm.series.channel if key == series.CHANNEL else None


def _listed(new: New, gpu: Gpu) -> None:
    if new.number not in gpu.classes:
        name = classes.name_of(new.number)
        raise RmStatus(INVALID_CLASS, f"{gpu.chip.name} does not have class {name}")


@makes(series.DEVICE, params=nv_rm.DEVICE)
def device(new: New) -> Made:
    parent = new.under(classes.NV01_ROOT_CLIENT)
    index = new.args.deviceId
    if index >= len(new.rm.gpus):
        raise RmStatus(INVALID_ARGUMENT, f"there is no device instance {index}")
    gpu = new.rm.gpus[index]
    if not gpu.is_initialised:
        raise RmStatus(INVALID_DEVICE, f"the node of device {index} was never opened")
    if gpu.is_lost:
        raise RmStatus(nv_escape.GPU_IS_LOST, "the GPU is off the bus")
    return Made(parent, gpu=gpu)


@makes(series.SUBDEVICE, params=nv_rm.SUBDEVICE)
def subdevice(new: New) -> Made:
    parent = new.under(classes.NV01_DEVICE_0)
    if new.args.subDeviceId:
        raise RmStatus(INVALID_ARGUMENT, f"there is no subdevice {new.args.subDeviceId}")
    return Made(parent)


@makes(series.USERMODE, params=nv_rm.USERMODE, needs_params=False)
def usermode(new: New) -> Made:
    parent = new.under(classes.NV20_SUBDEVICE_0)
    gpu: Gpu = parent.gpu
    _listed(new, gpu)
    takes = new.number >= classes.HOPPER_USERMODE_A
    if takes and new.args is not None and new.args.bPriv:
        raise RmStatus(nv_escape.INSUFFICIENT_PERMISSIONS, "bPriv is for the kernel")
    return Made(parent, gpu.usermode)


@makes(series.ADDRESS_SPACE)
def address_space(new: New) -> Made:
    parent = new.under(classes.NV01_DEVICE_0)
    if new.args.index:
        raise RmStatus(NOT_SUPPORTED, f"address space index {new.args.index} is not simulated")
    if not new.args.flags & nv_rm.ADDRESS_SPACE_EXTERNALLY_OWNED:
        raise RmStatus(NOT_SUPPORTED, "only externally owned address spaces are simulated")
    return Made(parent, VaSpace(parent.gpu))


@makes(series.SYSTEM_MEMORY, series.VIDEO_MEMORY, params=nv_rm.MEMORY)
def memory_object(new: New) -> Made:
    parent = new.under(classes.NV01_DEVICE_0)
    args = new.args
    size = args.size
    if not size:
        raise RmStatus(INVALID_ARGUMENT, "memory of no bytes")
    if args.limit and args.limit != size - 1:
        raise RmStatus(INVALID_ARGUMENT, f"limit {args.limit:#x} for {size:#x} bytes")
    is_video = new.number == classes.NV01_MEMORY_LOCAL_USER
    location = args.attr & _LOCATION_MASK
    if is_video != (location == nv_rm.ATTR_LOCATION_VIDMEM):
        raise RmStatus(INVALID_ARGUMENT, f"attr {args.attr:#x} for class {new.number:#x}")
    page = PAGE_SIZES[args.attr >> _PAGE_SHIFT & _PAGE_MASK]
    kind = memory.VIDEO if is_video else memory.SYSTEM
    made = new.rm.memories.create(kind, parent.gpu, size, page)
    new.rm.memories.hold(made)
    args.limit = size - 1
    return Made(parent, made)


@makes(series.CHANNEL_GROUP, params=nv_rm.CHANNEL_GROUP)
def channel_group(new: New) -> Made:
    parent = new.under(classes.NV01_DEVICE_0)
    space = new.client.payload(new.args.hVASpace, VaSpace, "hVASpace")
    if new.args.engineType != nv_rm.ENGINE_GRAPHICS:
        raise RmStatus(NOT_SUPPORTED, f"engine type {new.args.engineType} is not simulated")
    return Made(parent, Group(space))


@dataclass(eq=False)
class ContextShare:
    """Channels of one group with one address space."""

    space: VaSpace


@makes(series.CONTEXT_SHARE, params=nv_rm.CONTEXT_SHARE)
def context_share(new: New) -> Made:
    parent = new.under(classes.KEPLER_CHANNEL_GROUP_A)
    space = new.client.payload(new.args.hVASpace, VaSpace, "hVASpace")
    if new.args.flags > 1:
        raise RmStatus(NOT_SUPPORTED, f"context share flags {new.args.flags:#x}")
    new.args.subctxId = sum(child.number == new.number for child in parent.children)
    return Made(parent, ContextShare(space))


@makes(series.CHANNEL)
def channel(new: New) -> Made:
    parent = new.under(classes.KEPLER_CHANNEL_GROUP_A)
    gpu: Gpu = parent.gpu
    _listed(new, gpu)
    group: Group = parent.payload
    args = new.args
    space = group.space
    if args.hContextShare:
        space = new.client.payload(args.hContextShare, ContextShare, "hContextShare").space
    _check_channel(args, gpu, space)
    userd = _userd(new)
    _check_hopper_rule(new, gpu, userd, args.gpFifoOffset)
    notifier = _notifier(new)
    held = tuple(kept for kept in (userd, notifier) if kept)
    setup = Setup(
        group, space, args.gpFifoOffset, args.gpFifoEntries, userd.home + args.userdOffset[0],
        held, notifier,
        new.rm.memories.at if userd.kind == memory.SYSTEM and gpu.chip.is_hopper_or_later else None,
    )  # fmt: skip
    made = Channel(gpu, setup)
    made.handle = new.client.handle, new.handle
    for kept in held:
        new.rm.memories.hold(kept)
    group.channels.append(made)
    gpu.add(made)
    return Made(parent, made)


def _check_channel(args: Any, gpu: Gpu, space: VaSpace) -> None:
    if args.hVASpace:
        raise RmStatus(INVALID_ARGUMENT, "hVASpace of a channel in a group has to be 0")
    if args.engineType not in (0, nv_rm.ENGINE_GRAPHICS):
        raise RmStatus(INVALID_ARGUMENT, f"engine type {args.engineType} in a graphics group")
    if args.flags:
        raise RmStatus(NOT_SUPPORTED, f"channel flags {args.flags:#x} are not simulated")
    if not space.is_registered:
        # Guess: without a page directory, which unified memory sets, there is nothing to run in.
        raise RmStatus(nv_escape.INVALID_STATE, "the address space is not registered with UVM")
    entries = args.gpFifoEntries
    if entries < 2 or entries & entries - 1 or entries > MOST_RING_ENTRIES:
        raise RmStatus(INVALID_ARGUMENT, f"a ring of {entries} entries")
    if args.gpFifoOffset + entries * host.GP_ENTRY_BYTES > 1 << gpu.chip.address_bits:
        limit = f"{gpu.chip.name} reaches {gpu.chip.address_bits} bits"
        raise RmStatus(INVALID_ARGUMENT, f"a ring at {args.gpFifoOffset:#x}, {limit}")


def _userd(new: New) -> Memory:
    found = new.client.payload(new.args.hUserdMemory[0], Memory, "hUserdMemory")
    offset = new.args.userdOffset[0]
    if offset % host.USERD_BYTES or offset + host.USERD_BYTES > found.size:
        raise RmStatus(INVALID_ARGUMENT, f"userdOffset {offset:#x} in {found.size:#x} bytes")
    return found


def _notifier(new: New) -> Memory | None:
    if not new.args.hObjectError:
        return None
    found = new.client.payload(new.args.hObjectError, Memory, "hObjectError")
    if found.size < LEAST_NOTIFIER:
        raise RmStatus(INVALID_ARGUMENT, f"a notifier of {found.size:#x} bytes")
    return found


def _check_hopper_rule(new: New, gpu: Gpu, userd: Memory, ring: int) -> None:
    """Hopper: never USERD in system memory with the ring in video memory.

    Source: open-gpu-kernel-modules, kfifoCheckChannelAllocAddrSpaces_GH100.
    """
    placed = new.rm.memories.at(ring)
    if not gpu.chip.is_hopper_or_later or placed is None:
        return
    if userd.kind == memory.SYSTEM and placed.memory.kind == memory.VIDEO:
        raise RmStatus(
            NOT_SUPPORTED, "USERD in system memory with GPFIFO in video memory (bug 3313719)"
        )


@makes(series.COMPUTE, series.COPY, needs_params=False)
def engine(new: New) -> Made:
    found = new.client.objects.get(new.parent)
    if found is None or not isinstance(found.payload, Channel):
        raise RmStatus(nv_escape.INVALID_OBJECT_PARENT, f"{new.parent:#x} is no channel")
    gpu: Gpu = found.gpu
    _listed(new, gpu)
    chip = gpu.chip
    if new.number not in (chip.compute_class, chip.copy_class):
        raise RmStatus(INVALID_CLASS, f"class {new.number:#06x} is not simulated on {chip.name}")
    if new.number == chip.compute_class:
        _check_compute_mode(gpu)
        found.payload.setup.space.execution_units()
    own: Channel = found.payload
    own.classes[new.number] = own.classes.get(new.number, 0) + 1
    return Made(found)


def _check_compute_mode(gpu: Gpu) -> None:
    mode = gpu.limits.compute_mode
    if mode == PROHIBITED:
        raise RmStatus(nv_escape.INVALID_STATE, "the GPU's compute mode prohibits this")
    if mode == EXCLUSIVE and gpu.limits.occupied:
        raise RmStatus(nv_escape.STATE_IN_USE, "another process has the GPU for itself")


@dataclass(eq=False)
class Debugger:
    """Lets a process read what its own channels did wrong."""

    client: Client


@makes(series.DEBUGGER, params=nv_rm.DEBUGGER)
def debugger(new: New) -> Made:
    parent = new.under(classes.NV01_DEVICE_0)
    client = new.rm.client(new.args.hAppClient)
    found = client.find(new.args.hClass3dObject)
    if series.family(found.number) != series.COMPUTE:
        raise RmStatus(INVALID_ARGUMENT, f"hClass3dObject is {found.describe()}")
    return Made(parent, Debugger(client))


@makes(series.CONFIDENTIAL, params=nv_rm.CONFIDENTIAL, needs_params=False)
def confidential(new: New) -> Made:
    return Made(new.under(classes.NV01_ROOT_CLIENT))
