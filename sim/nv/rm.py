"""The simulated resource manager: escapes on the control node and on GPU nodes.

A struct of another size than the driver's is EINVAL; what reaches the resource manager
is answered with a status word. Source: NVIDIA open-gpu-kernel-modules,
kernel-open/nvidia/nv.c, src/nvidia/arch/nvalloc/unix/src/escape.c.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from errno import EFAULT, EINVAL
from typing import Any

from cffi import FFI

from hcq.bits import align
from hcq.errors import SimFault
from hcq.ioctl_defs import Ioctl, nv_escape
from hcq.ioctl_defs.nv_escape import INVALID_ARGUMENT, INVALID_CLIENT, NOT_SUPPORTED
from hcq.nv.defs import classes, host
from sim import user
from sim.board import Board
from sim.held import Held
from sim.inject import Injection
from sim.memory import PAGE
from sim.nv import alloc, control, memory, series
from sim.nv.channel import Channel
from sim.nv.files import NodeFile, Window
from sim.nv.gpu import Gpu, VaSpace
from sim.nv.memory import Memories, Memory
from sim.nv.objects import FIRST_CLIENT, Client, Object, leaves_first
from sim.nv.status import RmStatus
from sim.nv.usermode import Usermode
from sim.refusal import Refusal
from sim.schedule import Scheduler

_ffi = FFI()
_SIZE_SHIFT, _SIZE_MASK, _NUMBER_MASK = 16, 0x3FFF, 0xFF
_ROOTS = (0, 1, classes.NV01_ROOT_CLIENT)  # all make a client
FIRST_LINEAR = 0x7000_0000_0000
VENDOR = 0x10DE
REPLY_RECOGNISED = 1
_PINNED = nv_escape.OS02_PHYSICALITY_NONCONTIGUOUS | nv_escape.OS02_MAPPING_NO_MAP

Handler = Callable[["Rm", NodeFile, Any], None]


@dataclass(frozen=True)
class Escape:
    """One entry of the table."""

    ioctl: Ioctl
    handler: Handler
    kinds: tuple[str, ...]  # of the files that take it


ESCAPES: dict[int, Escape] = {}


def escape(ioctl: Ioctl, *kinds: str) -> Callable[[Handler], Handler]:
    """Register who answers an escape."""

    def register(handler: Handler) -> Handler:
        number = ioctl.number & _NUMBER_MASK
        if number in ESCAPES:
            raise SimFault(f"{ioctl.name} has two owners")
        ESCAPES[number] = Escape(ioctl, handler, kinds)
        return handler

    return register


@dataclass(eq=False)
class _Linear:
    """A CPU mapping as the resource manager counts it."""

    handle: int
    client: Client
    gpu: Gpu | None  # whose BAR1 it takes from
    size: int


class Rm:
    """The resource manager's state for this process."""

    def __init__(
        self, board: Board, gpus: Sequence[Gpu], scheduler: Scheduler, driver: str
    ) -> None:
        self.board = board
        self.gpus = gpus
        self.scheduler = scheduler
        self.version, self.series = series.resolve(driver)
        self.memories = Memories(gpus, board.space)
        self.clients: dict[int, Client] = {}
        self.answers = Injection()  # statuses that a test wants
        self.file: Callable[[int], NodeFile | None] = lambda fd: None
        self.refused: Callable[[str, int, str], None] = lambda name, status, why: None
        self.lock = threading.RLock()
        self._linears: dict[int, _Linear] = {}
        self._next_client = FIRST_CLIENT
        self._next_linear = FIRST_LINEAR

    def ioctl(self, file: NodeFile, number: int, address: int) -> None:
        """Answer one call, its struct at `address`; Refusal for a malformed one, UserFault."""
        nr, size = number & _NUMBER_MASK, number >> _SIZE_SHIFT & _SIZE_MASK
        if nr == nv_escape.CARD_INFO.number & _NUMBER_MASK:
            self._card_info(file, address, size)
            return
        entry = ESCAPES.get(nr)
        if entry is None:
            raise Refusal(EINVAL, f"escape {nr} is not simulated")
        if size not in series.ESCAPES[nr] or size != entry.ioctl.size:
            raise Refusal(EINVAL, f"{entry.ioctl.name} with a struct of {size:#x} bytes")
        if file.kind not in entry.kinds:
            raise Refusal(EINVAL, f"{entry.ioctl.name} on {file.path}")
        own = entry.ioctl.ffi.new(f"{entry.ioctl.struct} *")
        _ffi.memmove(entry.ioctl.ffi.buffer(own), user.read(address, size), size)
        with self.lock:
            self.memories.sweep()
            self._answer(entry, file, own)
        user.write(address, bytes(entry.ioctl.ffi.buffer(own)))

    def client(self, handle: int) -> Client:
        """A client; RmStatus for an unknown one."""
        if handle not in self.clients:
            raise RmStatus(INVALID_CLIENT, f"there is no client {handle:#x}")
        return self.clients[handle]

    def wanted(self, kind: str, name: str) -> None:
        """RmStatus when a test wants this call to fail."""
        status = self.answers.find(kind, name)
        if status is not None:
            raise RmStatus(status, "a test wants it so")

    def new_client(self, file: NodeFile) -> Client:
        """A client that lives as long as the file."""
        most = min((gpu.limits.clients for gpu in self.gpus), default=64)
        if len(self.clients) >= most:
            raise RmStatus(nv_escape.INSUFFICIENT_RESOURCES, f"there are {most} clients already")
        found = Client(self._next_client, file)
        self._next_client += 1
        self.clients[found.handle] = found
        return found

    def free(self, root: Object) -> None:
        """Take an object away with everything below it."""
        for old in list(leaves_first(root)):
            self._dispose(old)
            old.client.remove(old)
        if root is root.client.root:
            del self.clients[root.handle]

    def close_file(self, file: NodeFile) -> None:
        """The control node was closed: its clients are gone."""
        with self.lock:
            for client in [c for c in self.clients.values() if c.file is file]:
                self.free(client.root)

    def window(self, client: Client, handle: int, offset: int, length: int) -> Window:
        """What a CPU mapping of an object shows."""
        found = client.find(handle)
        target = found.payload
        if isinstance(target, Usermode):
            if offset or length != host.USERMODE_BYTES:
                raise RmStatus(INVALID_ARGUMENT, f"the doorbell page, {offset:#x}+{length:#x}")
            return Window(target, 0, length)
        if not isinstance(target, Memory) or target.kind == memory.USER:
            raise RmStatus(NOT_SUPPORTED, f"{found.describe()} cannot be mapped")
        if offset % PAGE or not length or offset + align(length, PAGE) > target.size:
            raise RmStatus(INVALID_ARGUMENT, f"{offset:#x}+{length:#x} of {target.size:#x} bytes")
        if target.kind == memory.VIDEO and found.gpu.limits.confidential:
            raise RmStatus(NOT_SUPPORTED, "video memory is not mapped in confidential computing")
        return Window(target, offset, align(length, PAGE))

    def linear(self, client: Client, handle: int, window: Window) -> int:
        """Count a CPU mapping against BAR1, and name it."""
        target = window.target
        gpu = None
        if isinstance(target, Memory) and target.kind == memory.VIDEO:
            gpu = target.gpu
        if gpu:
            if gpu.bar1_used + window.size > gpu.bar1:
                left = gpu.bar1 - gpu.bar1_used
                raise RmStatus(
                    nv_escape.NO_MEMORY, f"{window.size:#x} bytes of BAR1, {left:#x} are free"
                )
            gpu.bar1_used += window.size
        name = self._next_linear
        self._next_linear += align(window.size, PAGE)
        self._linears[name] = _Linear(handle, client, gpu, window.size)
        return name

    def has_linear(self, name: int) -> bool:
        """Whether a CPU mapping is counted still: it ends with the object it shows."""
        return name in self._linears

    def end_linear(self, name: int, client: Client, handle: int) -> None:
        """A CPU mapping is over."""
        found = self._linears.get(name)
        if found is None or found.handle != handle or found.client is not client:
            raise RmStatus(
                nv_escape.INVALID_ADDRESS, f"no mapping of {handle:#x} is called {name:#x}"
            )
        self._forget_linear(name)

    def handles(self) -> int:
        """How many objects there are, clients included."""
        return sum(len(client.objects) for client in self.clients.values())

    def close(self) -> None:
        """The process ends."""
        self.memories.close()

    def _answer(self, entry: Escape, file: NodeFile, own: Any) -> None:
        field = "status" if hasattr(own, "status") else "Status" if hasattr(own, "Status") else ""
        status = 0
        try:
            self.wanted("call", entry.ioctl.name)
            entry.handler(self, file, own)
        except RmStatus as refusal:
            status = refusal.status
            self.refused(entry.ioctl.name, status, refusal.why)
            if not field:
                raise Refusal(EINVAL, refusal.why) from None
        except user.UserFault as fault:
            status = nv_escape.INVALID_ADDRESS
            self.refused(entry.ioctl.name, status, str(fault))
            if not field:
                raise Refusal(EFAULT, str(fault)) from None
        if field:
            setattr(own, field, status)

    def _card_info(self, file: NodeFile, address: int, size: int) -> None:
        if file.kind != "control" or not size or size % series.CARD_BYTES:
            raise Refusal(EINVAL, f"NV_ESC_CARD_INFO with {size:#x} bytes on {file.path}")
        room = size // series.CARD_BYTES
        if room < len(self.gpus):
            raise Refusal(EINVAL, f"NV_ESC_CARD_INFO: {room} entries for {len(self.gpus)} GPUs")
        user.write(address, b"".join(map(_card, self.gpus)).ljust(size, b"\0"))

    def _forget_linear(self, name: int) -> None:
        found = self._linears.pop(name)
        if found.gpu:
            found.gpu.bar1_used -= found.size

    def _dispose(self, old: Object) -> None:
        """Let go of what an object stands for."""
        payload = old.payload
        for name, linear in list(self._linears.items()):
            if linear.client is old.client and linear.handle == old.handle:
                self._forget_linear(name)
        if isinstance(payload, Channel):
            self._end_channel(payload)
        elif isinstance(payload, Memory):
            self.memories.drop(payload)
        elif isinstance(payload, VaSpace):
            payload.close()
        elif alloc.is_engine(old) and old.parent:
            channel = old.parent.payload
            channel.classes[old.number] -= 1
            if not channel.classes[old.number]:
                del channel.classes[old.number]

    def _end_channel(self, channel: Channel) -> None:
        # A kernel that runs is preempted: the executor looks at this flag.
        channel.stopping = True
        with Held(channel):
            channel.gpu.remove(channel)
        with channel.gpu.notifiers:
            channel.setup.group.channels.remove(channel)
            for held in channel.setup.memories:
                self.memories.drop(held)
        self.scheduler.changed(channel.gpu)


def _card(gpu: Gpu) -> bytes:
    found: Any = nv_escape.ffi.new("struct nv_ioctl_card_info *")
    found.valid = 1
    found.pci_info = {"bus": gpu.bus, "vendor_id": VENDOR, "device_id": gpu.chip.device_id}
    found.gpu_id = gpu.gpu_id
    found.fb_size = gpu.bar1
    found.minor_number = gpu.minor
    return bytes(nv_escape.ffi.buffer(found))


@escape(nv_escape.REGISTER_FD, "gpu", "control")
def register_fd(rm: Rm, file: NodeFile, args: Any) -> None:
    target = rm.file(args.ctl_fd)
    if target is None or target.kind != "control" or target is file or target.linked:
        raise RmStatus(INVALID_ARGUMENT, f"{args.ctl_fd} is no control file")
    if file.linked:
        raise RmStatus(nv_escape.INVALID_STATE, "this file is registered already")
    file.linked = target


@escape(nv_escape.CHECK_VERSION_STR, "control")
def check_version_str(rm: Rm, file: NodeFile, args: Any) -> None:
    text = bytes(args.versionString).split(b"\0")[0]
    if args.cmd == nv_escape.VERSION_STRICT and text != rm.version.encode():
        args.reply = 0
        raise RmStatus(INVALID_ARGUMENT, f"the client is {text!r}, the driver {rm.version}")
    if args.cmd not in (
        nv_escape.VERSION_STRICT, nv_escape.VERSION_RELAXED, nv_escape.VERSION_QUERY
    ):  # fmt: skip
        raise RmStatus(INVALID_ARGUMENT, f"version command {args.cmd}")
    args.versionString = rm.version.encode().ljust(64, b"\0")
    args.reply = REPLY_RECOGNISED


@escape(nv_escape.RM_ALLOC, "control")
def rm_alloc(rm: Rm, file: NodeFile, args: Any) -> None:
    if args.hClass in _ROOTS:
        rm.wanted("rm_alloc", hex(classes.NV01_ROOT_CLIENT))
        args.hObjectNew = rm.new_client(file).handle
        return
    rm.wanted("rm_alloc", hex(args.hClass))
    client = rm.client(args.hRoot)
    handle = client.new_handle(args.hObjectNew)
    alloc.allocate(rm, client, args, handle)
    args.hObjectNew = handle


@escape(nv_escape.RM_FREE, "control")
def rm_free(rm: Rm, file: NodeFile, args: Any) -> None:
    client = rm.client(args.hRoot)
    rm.free(client.find(args.hObjectOld))


@escape(nv_escape.RM_CONTROL, "control")
def rm_control(rm: Rm, file: NodeFile, args: Any) -> None:
    rm.wanted("rm_control", hex(args.cmd))
    control.answer(rm, rm.client(args.hClient).find(args.hObject), args)


@escape(nv_escape.RM_ALLOC_MEMORY, "gpu")
def rm_alloc_memory(rm: Rm, file: NodeFile, args: Any) -> None:
    rm.wanted("rm_alloc", hex(args.hClass))
    client = rm.client(args.hRoot)
    if args.hClass != classes.NV01_MEMORY_SYSTEM_OS_DESCRIPTOR:
        raise RmStatus(nv_escape.INVALID_CLASS, f"class {args.hClass:#x} with this call")
    if not args.hObjectNew:
        raise RmStatus(nv_escape.INVALID_OBJECT_HANDLE, "the caller has to choose a handle")
    if args.flags & _PINNED != _PINNED:
        raise RmStatus(INVALID_ARGUMENT, f"flags {args.flags:#x} for memory of the program's")
    parent = client.parent(args.hObjectParent, classes.NV01_DEVICE_0)
    handle = client.new_handle(args.hObjectNew)
    size = args.limit + 1
    if args.pMemory % PAGE or size % PAGE:
        raise RmStatus(INVALID_ARGUMENT, f"{args.pMemory:#x}+{size:#x} are no whole pages")
    missing = user.missing(args.pMemory, size)
    if missing:
        at = missing[0][0]
        raise RmStatus(nv_escape.INVALID_ADDRESS, f"the page at {at:#x} cannot be pinned")
    pinned = rm.memories.pin(parent.gpu, args.pMemory, size)
    rm.memories.hold(pinned)
    client.add(Object(client, handle, args.hClass, parent, parent.gpu, pinned))


@escape(nv_escape.RM_MAP_MEMORY, "control")
def rm_map_memory(rm: Rm, file: NodeFile, args: Any) -> None:
    client = rm.client(args.hClient)
    client.parent(args.hDevice, classes.NV01_DEVICE_0, classes.NV20_SUBDEVICE_0)
    window = rm.window(client, args.hMemory, args.offset, args.length)
    target = rm.file(args.fd)
    wanted = "control" if window.is_system else "gpu"
    if target is None or target.kind != wanted:
        raise RmStatus(INVALID_ARGUMENT, f"descriptor {args.fd} is no {wanted} node")
    if target.window:
        raise RmStatus(nv_escape.STATE_IN_USE, f"descriptor {args.fd} has a mapping already")
    args.pLinearAddress = rm.linear(client, args.hMemory, window)
    target.window, target.linear = window, args.pLinearAddress


@escape(nv_escape.RM_UNMAP_MEMORY, "control")
def rm_unmap_memory(rm: Rm, file: NodeFile, args: Any) -> None:
    client = rm.client(args.hClient)
    client.find(args.hMemory)
    rm.end_linear(args.pLinearAddress, client, args.hMemory)


@escape(nv_escape.ALLOC_OS_EVENT, "control", "gpu")
def alloc_os_event(rm: Rm, file: NodeFile, args: Any) -> None:
    raise RmStatus(NOT_SUPPORTED, "events are not simulated; channels tell by their notifier")


@escape(nv_escape.FREE_OS_EVENT, "control", "gpu")
def free_os_event(rm: Rm, file: NodeFile, args: Any) -> None:
    raise RmStatus(NOT_SUPPORTED, "events are not simulated")


