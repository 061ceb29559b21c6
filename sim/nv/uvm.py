"""Simulated unified memory, /dev/nvidia-uvm: GPUs, address spaces, ranges, mappings.

The request is the bare number; the driver copies its own struct in, and the result is the
struct's `rmStatus`. Source: NVIDIA open-gpu-kernel-modules, kernel-open/nvidia-uvm/uvm.c,
uvm_map_external.c, uvm_user_channel.c, uvm_va_space.c.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from errno import EINVAL
from typing import TYPE_CHECKING, Any

from cffi import FFI

from hcq.errors import SimFault
from hcq.ioctl_defs import Ioctl, nv_uvm
from hcq.ioctl_defs.nv_escape import (
    INVALID_ADDRESS,
    INVALID_ARGUMENT,
    NOT_SUPPORTED,
    UVM_ADDRESS_IN_USE,
)
from sim import user
from sim.memory import PAGE
from sim.nv import memory
from sim.nv.channel import Channel
from sim.nv.files import NodeFile
from sim.nv.gpu import VaSpace
from sim.nv.memory import Memory
from sim.nv.objects import Client
from sim.nv.ranges import Mapping, Range, Space
from sim.nv.status import GPU_UUID_NOT_FOUND, ILLEGAL_ACTION, INVALID_DEVICE, RmStatus
from sim.refusal import Refusal

if TYPE_CHECKING:
    from sim.nv.rm import Rm

_ffi = FFI()
KNOWN_FLAGS = 0x3  # no HMM, several processes
# What the driver's context buffers take of the span given with a channel. Guess: less than
# any client gives.
LEAST_CONTEXT_SPAN = 16 << 20
MOST_ATTRIBUTES = 256
MAPPING_TYPES = (0, nv_uvm.MAPPING_READ_WRITE_ATOMIC, nv_uvm.MAPPING_READ_WRITE,
                 nv_uvm.MAPPING_READ_ONLY)  # fmt: skip
ADDRESS_LIMIT = 1 << 47


Handler = Callable[["Uvm", NodeFile, Any], None]


@dataclass(frozen=True)
class Call:
    """One entry of the table. `ioctl` None: as the driver's series has it."""

    name: str
    ioctl: Ioctl | None
    handler: Handler
    needs_space: bool


CALLS: dict[int, Call] = {}


def on(ioctl: Ioctl, *, fixed: bool = True, needs_space: bool = True) -> Callable[
    [Handler], Handler
]:  # fmt: skip
    """Register who answers a call."""

    def register(handler: Handler) -> Handler:
        if ioctl.number in CALLS:
            raise SimFault(f"{ioctl.name} has two owners")
        own = ioctl if fixed else None
        CALLS[ioctl.number] = Call(ioctl.name, own, handler, needs_space)
        return handler

    return register


class Uvm:
    """The driver nvidia-uvm."""

    def __init__(self, rm: "Rm") -> None:
        self.rm = rm
        self.memories = rm.memories

    def ioctl(self, file: NodeFile, number: int, address: int) -> None:
        """Answer one call, its struct at `address`; Refusal for an unknown one, UserFault."""
        call = CALLS.get(number)
        if call is None:
            raise Refusal(EINVAL, f"unified memory call {number:#x} is not simulated")
        struct = call.ioctl or self._of_series(number)
        size = self.rm.series.uvm[number]
        own: Any = struct.ffi.new(f"{struct.struct} *")
        shared = min(size, struct.size)
        _ffi.memmove(struct.ffi.buffer(own), user.read(address, size)[:shared], shared)
        with self.rm.lock:
            self.memories.sweep()
            status = self._answer(call, file, own)
        if size:
            own.rmStatus = status
            user.write(address, bytes(struct.ffi.buffer(own))[:shared])

    def client(self, fd: int, handle: int) -> Client:
        """A client by its control file and handle; RmStatus."""
        file = self.rm.file(fd)
        if file is None or file.kind != "control":
            raise RmStatus(INVALID_ARGUMENT, f"rmCtrlFd {fd} is no control file")
        return self.rm.client(handle)

    def unmap(self, mapping: Mapping) -> None:
        """Take a mapping out of its page table."""
        mapping.space.memory.unmap(mapping.base, mapping.size)
        self.memories.unuse(mapping.placement)

    def end_range(self, space: Space, old: Range) -> None:
        """A range goes with all its mappings."""
        for mapping in old.mappings:
            self.unmap(mapping)
        old.mappings.clear()
        if old.channel:
            old.channel.is_registered = False
        space.ranges.remove(old)

    def close_file(self, file: NodeFile) -> None:
        """The file was closed: everything registered through it is gone."""
        if isinstance(file.uvm, Space):
            with self.rm.lock:
                for old in list(file.uvm.ranges):
                    self.end_range(file.uvm, old)
                for space in file.uvm.spaces.values():
                    space.is_registered = False
        file.uvm = None

    def _answer(self, call: Call, file: NodeFile, own: Any) -> int:
        try:
            self.rm.wanted("call", call.name)
            if call.needs_space and not isinstance(file.uvm, Space):
                raise RmStatus(ILLEGAL_ACTION, "UVM_INITIALIZE comes first")
            call.handler(self, file, own)
        except RmStatus as refusal:
            self.rm.refused(call.name, refusal.status, refusal.why)
            return refusal.status
        return 0

    def _of_series(self, number: int) -> Ioctl:
        series = self.rm.series
        return series.free if number == nv_uvm.FREE.number else series.unregister_channel


def _span(base: int, size: int, unit: int = PAGE) -> None:
    if base % unit or size % unit or not size or base + size > ADDRESS_LIMIT:
        raise RmStatus(INVALID_ADDRESS, f"{base:#x}+{size:#x} are no whole pages of {unit:#x}")


@on(nv_uvm.INITIALIZE, needs_space=False)
def initialize(uvm: Uvm, file: NodeFile, args: Any) -> None:
    if args.flags & ~KNOWN_FLAGS:
        raise RmStatus(INVALID_ARGUMENT, f"flags {args.flags:#x}")
    if file.uvm is not None:
        if isinstance(file.uvm, Space) and file.uvm.flags == args.flags:
            return
        raise RmStatus(INVALID_ARGUMENT, "the file was initialised in another way")
    file.uvm = Space(args.flags)


@on(nv_uvm.DEINITIALIZE, needs_space=False)
def deinitialize(uvm: Uvm, file: NodeFile, args: Any) -> None:
    # As in the driver: closing the file is what ends it.
    return


@on(nv_uvm.MM_INITIALIZE, needs_space=False)
def mm_initialize(uvm: Uvm, file: NodeFile, args: Any) -> None:
    first = uvm.rm.file(args.uvmFd)
    if file.uvm is not None or first is None or not isinstance(first.uvm, Space):
        raise RmStatus(INVALID_ARGUMENT, f"uvmFd {args.uvmFd} is not initialised, or this one is")
    file.uvm = "mm"


@on(nv_uvm.REGISTER_GPU)
def register_gpu(uvm: Uvm, file: NodeFile, args: Any) -> None:
    uuid = bytes(args.gpu_uuid)
    found = next((gpu for gpu in uvm.rm.gpus if gpu.uuid == uuid), None)
    if found is None:
        raise RmStatus(GPU_UUID_NOT_FOUND, f"there is no GPU {uuid.hex()}")
    if uuid in file.uvm.gpus:
        raise RmStatus(INVALID_DEVICE, f"GPU {uuid.hex()} is registered already")
    file.uvm.gpus[uuid] = found
    args.numaEnabled, args.numaNodeId = 0, -1


@on(nv_uvm.UNREGISTER_GPU)
def unregister_gpu(uvm: Uvm, file: NodeFile, args: Any) -> None:
    uuid = bytes(args.gpu_uuid)
    file.uvm.gpu(uuid)
    _end_space(uvm, file.uvm, uuid)
    del file.uvm.gpus[uuid]


@on(nv_uvm.REGISTER_GPU_VASPACE)
def register_gpu_vaspace(uvm: Uvm, file: NodeFile, args: Any) -> None:
    uuid = bytes(args.gpuUuid)
    gpu = file.uvm.gpu(uuid)
    found = uvm.client(args.rmCtrlFd, args.hClient).payload(args.hVaSpace, VaSpace, "hVaSpace")
    if uuid in file.uvm.spaces or found.is_registered:
        raise RmStatus(INVALID_DEVICE, "an address space is registered already")
    if found.gpu is not gpu:
        raise RmStatus(INVALID_ARGUMENT, "the address space is another GPU's")
    found.is_registered = True
    file.uvm.spaces[uuid] = found


@on(nv_uvm.UNREGISTER_GPU_VASPACE)
def unregister_gpu_vaspace(uvm: Uvm, file: NodeFile, args: Any) -> None:
    uuid = bytes(args.gpuUuid)
    file.uvm.space(uuid)
    _end_space(uvm, file.uvm, uuid)


def _end_space(uvm: Uvm, space: Space, uuid: bytes) -> None:
    found = space.spaces.pop(uuid, None)
    if found is None:
        return
    found.is_registered = False
    for old in list(space.ranges):
        if old.channel and old.channel.setup.space is found:
            uvm.end_range(space, old)
            continue
        for mapping in [m for m in old.mappings if m.space is found]:
            uvm.unmap(mapping)
            old.mappings.remove(mapping)


@on(nv_uvm.REGISTER_CHANNEL)
def register_channel(uvm: Uvm, file: NodeFile, args: Any) -> None:
    space = file.uvm.space(bytes(args.gpuUuid))
    client = uvm.client(args.rmCtrlFd, args.hClient)
    channel = client.payload(args.hChannel, Channel, "hChannel")
    if channel.setup.space is not space or channel.is_registered:
        raise RmStatus(INVALID_ARGUMENT, f"{channel.name} is registered, or of another space")
    _span(args.base, args.length)
    if args.length < LEAST_CONTEXT_SPAN:
        need = f"the context buffers need {LEAST_CONTEXT_SPAN:#x}"
        raise RmStatus(UVM_ADDRESS_IN_USE, f"a span of {args.length:#x} bytes, {need}")
    if any(space.memory.ranges_within(args.base, args.base + args.length)):
        raise RmStatus(UVM_ADDRESS_IN_USE, f"{args.base:#x}+{args.length:#x} is mapped")
    file.uvm.add(Range(args.base, args.length, channel))
    channel.is_registered = True


@on(nv_uvm.UNREGISTER_CHANNEL, fixed=False)
def unregister_channel(uvm: Uvm, file: NodeFile, args: Any) -> None:
    for old in file.uvm.ranges:
        if old.channel and old.channel.handle == (args.hClient, args.hChannel):
            uvm.end_range(file.uvm, old)
            return
    raise RmStatus(INVALID_ARGUMENT, f"channel {args.hChannel:#x} is not registered")


@on(nv_uvm.ENABLE_PEER_ACCESS)
def enable_peer_access(uvm: Uvm, file: NodeFile, args: Any) -> None:
    pair = [bytes(args.gpuUuidA), bytes(args.gpuUuidB)]
    gpus = [file.uvm.gpu(uuid) for uuid in pair]
    if not all(gpu.limits.peers for gpu in gpus) or pair[0] == pair[1]:
        raise RmStatus(NOT_SUPPORTED, "these GPUs do not reach each other's memory")
    if frozenset(pair) in file.uvm.peers:
        raise RmStatus(INVALID_DEVICE, "peer access is enabled already")
    file.uvm.peers.add(frozenset(pair))


@on(nv_uvm.DISABLE_PEER_ACCESS)
def disable_peer_access(uvm: Uvm, file: NodeFile, args: Any) -> None:
    pair = frozenset((bytes(args.gpuUuidA), bytes(args.gpuUuidB)))
    if pair not in file.uvm.peers:
        raise RmStatus(INVALID_DEVICE, "peer access is not enabled")
    file.uvm.peers.remove(pair)


@on(nv_uvm.CREATE_EXTERNAL_RANGE)
def create_external_range(uvm: Uvm, file: NodeFile, args: Any) -> None:
    _span(args.base, args.length)
    file.uvm.add(Range(args.base, args.length))


@on(nv_uvm.MAP_EXTERNAL_ALLOCATION)
def map_external_allocation(uvm: Uvm, file: NodeFile, args: Any) -> None:
    client = uvm.client(args.rmCtrlFd, args.hClient)
    target = client.payload(args.hMemory, Memory, "hMemory")
    _span(args.base, args.length, target.page)
    if args.offset % target.page or args.offset + args.length > target.size:
        raise RmStatus(
            INVALID_ARGUMENT, f"{args.offset:#x}+{args.length:#x} of {target.size:#x} bytes"
        )
    if not 0 < args.gpuAttributesCount <= MOST_ATTRIBUTES:
        raise RmStatus(INVALID_ARGUMENT, f"{args.gpuAttributesCount} attributes")
    found = file.uvm.find(args.base, args.length)
    made: list[VaSpace] = []
    try:
        for index in range(args.gpuAttributesCount):
            what = target, args.perGpuAttributes[index]
            made.append(_map(uvm, file.uvm, found, args, what))
    except RmStatus:
        # For all GPUs or for none; what the call replaced does not come back.
        for space in made:
            _unmap_span(uvm, found, space, args.base, args.base + args.length)
        raise


def _map(
    uvm: Uvm, state: Space, found: Range, args: Any, what: tuple[Memory, Any]
) -> VaSpace:
    """Map for one GPU; its address space."""
    target, attributes = what
    uuid = bytes(attributes.gpuUuid)
    space = state.space(uuid)
    if attributes.gpuMappingType not in MAPPING_TYPES or attributes.gpuCompressionType:
        raise RmStatus(INVALID_ARGUMENT, f"mapping type {attributes.gpuMappingType}")
    owner = target.gpu
    foreign = target.kind == memory.VIDEO and owner is not None and owner is not space.gpu
    if foreign and owner and frozenset((uuid, owner.uuid)) not in state.peers:
        raise RmStatus(INVALID_DEVICE, "the memory is another GPU's, without peer access")
    _unmap_span(uvm, found, space, args.base, args.base + args.length)
    placement = uvm.memories.place(args.base, args.length, target, args.offset)
    uvm.memories.use(placement)
    writable = attributes.gpuMappingType != nv_uvm.MAPPING_READ_ONLY
    # Every page that a GPU of this kind can read it can execute.
    space.memory.map(
        args.base, args.length, writable=writable, executable=True, lent=target.kind == memory.USER
    )
    found.mappings.append(Mapping(args.base, args.length, space.gpu, space, placement))
    return space


@on(nv_uvm.UNMAP_EXTERNAL)
def unmap_external(uvm: Uvm, file: NodeFile, args: Any) -> None:
    _span(args.base, args.length)
    space = file.uvm.space(bytes(args.gpuUuid))
    found = file.uvm.find(args.base, args.length)
    _unmap_span(uvm, found, space, args.base, args.base + args.length)


def _unmap_span(uvm: Uvm, found: Range, space: VaSpace, start: int, end: int) -> None:
    """Take away what a GPU has mapped between two addresses; of other mappings parts stay.

    Source: NVIDIA open-gpu-kernel-modules, kernel-open/nvidia-uvm/uvm_map_external.c,
    uvm_unmap_external_in_range.
    """
    near = [m for m in found.mappings if m.space is space and m.base < end and start < m.end]
    for mapping in near:
        page = mapping.placement.memory.page
        for cut in (start, end):
            if mapping.base < cut < mapping.end and cut % page:
                raise RmStatus(INVALID_ADDRESS, f"{cut:#x} lies inside a page of {page:#x}")
    for mapping in near:
        found.mappings.remove(mapping)
        for low, high in ((mapping.base, start), (end, mapping.end)):
            if low < high:
                uvm.memories.use(mapping.placement)
                found.mappings.append(replace(mapping, base=low, size=high - low))
        low, high = max(mapping.base, start), min(mapping.end, end)
        uvm.unmap(replace(mapping, base=low, size=high - low))


@on(nv_uvm.FREE, fixed=False)
def free(uvm: Uvm, file: NodeFile, args: Any) -> None:
    old = file.uvm.find(args.base, PAGE)
    if old.base != args.base:
        raise RmStatus(INVALID_ADDRESS, f"no range begins at {args.base:#x}")
    if hasattr(args, "length") and args.length != old.size:
        raise RmStatus(INVALID_ADDRESS, f"length {args.length:#x}, not {old.size:#x}")
    uvm.end_range(file.uvm, old)
