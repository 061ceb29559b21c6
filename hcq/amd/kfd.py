"""This process's side of /dev/kfd: one address space, one event page, every GPU of it.

The kernel ties all of this to the process, not to a file: the render node a GPU's
address space was taken from, and the event page, stay for the life of the process.
So they are kept when the last device closes and used again by the next open;
whatever else was got is released.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

from hcq.capture import innermost
from hcq.errors import (
    DeviceOpenError,
    HcqError,
    IoctlError,
    OutOfMemory,
)
from hcq.host import PAGE, Host, Region
from hcq.interrupt import Lock
from hcq.ioctl_defs import Ioctl, kfd
from hcq.nodes import Module, open_node
from hcq.notes import Notes
from hcq.process import check as check_process
from hcq.timeline import SignalPool
from hcq.undo import Undo

LARGE_PAGE = 2 << 20
LEAST_VERSION = (1, 11)
ENGINE_ID_VERSION = (1, 17)
AMDGPU = Module(
    "AMD GPU", "amdgpu", rights="", trouble="check the kernel log (dmesg) for what amdgpu says"
)

_SANDBOX = "a sandbox or container may filter this call: give it /dev/kfd and /dev/dri"
_HINTS = {
    ("KFD_ACQUIRE_VM", "EBUSY"): (
        "another part of this process (ROCm, another copy of hcq) opened this GPU with its own "
        "render node; use one of them per process"
    ),
    ("KFD_CREATE_QUEUE", "ENOMEM"): (
        "no hardware queue or doorbell is free: close other programs that use this GPU"
    ),
    ("KFD_CREATE_QUEUE", "ENOSPC"): (
        "no hardware queue or doorbell is free: close other programs that use this GPU"
    ),
    ("KFD_CREATE_QUEUE", "EINVAL"): "the kernel checks every size; compare them with its own",
    ("KFD_MAP_MEMORY_TO_GPU", "ENOMEM"): (
        "memory cannot be locked or page tables are full: raise `ulimit -l`, free buffers"
    ),
    ("KFD_ALLOC_MEMORY_OF_GPU", "EINVAL"): (
        "memory that the CPU can address needs resizable BAR: turn it on in the firmware"
    ),
}


@dataclass(eq=False)
class Allocation:
    """Memory the kernel gave: one handle, one address on host and GPU."""

    address: int
    size: int
    handle: int
    flags: int
    gpu_id: int
    region: Region | None
    gpus: list[int] = field(default_factory=list)
    is_user_memory: bool = False

    @property
    def is_vram(self) -> bool:
        """Whether it lies on the GPU."""
        return bool(self.flags & kfd.ALLOC_VRAM)


class Kfd(Notes):
    """An open /dev/kfd and what belongs to the process behind it."""

    def __init__(self, host: Host) -> None:
        super().__init__()
        self.host = host
        self.process = os.getpid()
        self.lock = Lock()
        self.render: dict[int, int] = {}  # gpu_id -> fd whose address space is ours
        # gpu_id -> why the kernel lets no queue of this process run there any more.
        self.stopped: dict[int, HcqError] = {}
        self.members: list[int] = []  # gpu_ids of open devices, one entry per device
        self.shared: list[Allocation] = []
        self.event_page: Allocation | None = None
        self.has_event_page = False  # the kernel was told of it
        self.pool: SignalPool | None = None
        self.fd = open_node(host, kfd.NODE, AMDGPU)
        with ExitStack() as undo:
            undo.callback(host.close, self.fd)
            args = self.call(kfd.GET_VERSION)
            self.version = (args.major_version, args.minor_version)
            if not LEAST_VERSION <= self.version < (2, 0):
                raise DeviceOpenError(
                    f"the kernel's compute interface is {_dotted(self.version)}, "
                    f"{_dotted(LEAST_VERSION)} or a later 1.x is needed",
                    facts={"found": _dotted(self.version), "needed": _dotted(LEAST_VERSION)},
                    hint="update the Linux kernel (6.1 or later) or its amdgpu module",
                )
            undo.pop_all()

    def call(self, ioctl: Ioctl, **fields: Any) -> Any:
        """Carry out a request that is needed; the filled struct."""
        args = ioctl.args(**fields)
        try:
            self.host.ioctl(self.fd, ioctl, args)
        except IoctlError as error:
            error.hint = error.hint or _hint(error, ioctl)
            raise
        return args

    def optional(self, ioctl: Ioctl, **fields: Any) -> Any | None:
        """Carry out a request one can do without; None and a note when refused."""
        return self.attempt(self.call, ioctl, **fields)

    def check_process(self) -> None:
        """DeviceBanned in a forked child."""
        check_process(self.process)

    def acquire(self, gpu_id: int, render_node: str) -> None:
        """Take a GPU's address space for this process, once."""
        if gpu_id in self.render:
            return
        fd = open_node(self.host, render_node, AMDGPU)
        with ExitStack() as undo:
            undo.callback(self.host.close, fd)
            self.call(kfd.ACQUIRE_VM, drm_fd=fd, gpu_id=gpu_id)
            undo.pop_all()
        self.render[gpu_id] = fd

    def allocate(
        self,
        gpu_id: int,
        size: int,
        flags: int,
        *,
        view: bool = True,
        shared: bool = False,
    ) -> Allocation:
        """Memory of whole pages, mapped on its GPU (shared: on every member, also later ones)."""
        alignment = LARGE_PAGE if size >= LARGE_PAGE else PAGE
        with ExitStack() as undo:
            address = _granted(size, self.host.reserve, size, alignment)
            release = Undo(self.host.release, address, size)
            undo.callback(release)
            args = self.call(
                kfd.ALLOC_MEMORY_OF_GPU, va_addr=address, size=size, gpu_id=gpu_id, flags=flags
            )
            handle = args.handle
            undo.callback(self.call, kfd.FREE_MEMORY_OF_GPU, handle=handle)
            region = None
            if view:
                fd = self.fd if flags & kfd.ALLOC_MMIO_REMAP else self.render[gpu_id]
                region = _granted(size, self.host.mmap, fd, size, args.mmap_offset, address)
                release.change(self.host.munmap, region)
            found = Allocation(address, size, handle, flags, gpu_id, region)
            gpus = list(dict.fromkeys([gpu_id, *self.members])) if shared else [gpu_id]
            # Ctrl-C may come between the request and what is noted of it.
            undo.callback(self._unmap_quietly, found, gpus)
            self.map(found, gpus)
            if shared:
                self.shared.append(found)
            undo.pop_all()
        return found

    def adopt(self, gpu_id: int, address: int, size: int, flags: int) -> Allocation:
        """Ordinary memory of this process made addressable by the GPU, at the same address."""
        args = self.call(
            kfd.ALLOC_MEMORY_OF_GPU,
            va_addr=address,
            size=size,
            mmap_offset=address,
            gpu_id=gpu_id,
            flags=flags,
        )
        found = Allocation(address, size, args.handle, flags, gpu_id, None, is_user_memory=True)
        with ExitStack() as undo:
            undo.callback(self.call, kfd.FREE_MEMORY_OF_GPU, handle=found.handle)
            undo.callback(self._unmap_quietly, found, [gpu_id])
            self.map(found, [gpu_id])
            undo.pop_all()
        return found

    def map(self, allocation: Allocation, gpus: Sequence[int]) -> None:
        """Put memory into the page tables of GPUs."""
        self._map_call(kfd.MAP_MEMORY_TO_GPU, allocation, gpus)
        allocation.gpus += [gpu for gpu in gpus if gpu not in allocation.gpus]

    def free(self, allocation: Allocation) -> None:
        """Unmap, free, release: the way allocate() came, backwards."""
        if allocation in self.shared:
            self.shared.remove(allocation)
        if allocation.gpus:
            self._map_call(kfd.UNMAP_MEMORY_FROM_GPU, allocation, allocation.gpus)
            allocation.gpus = []
        self.call(kfd.FREE_MEMORY_OF_GPU, handle=allocation.handle)
        if allocation.region is not None:
            self.host.munmap(allocation.region)
        elif not allocation.is_user_memory:
            self.host.release(allocation.address, allocation.size)

    def _map_call(self, ioctl: Ioctl, allocation: Allocation, gpus: Sequence[int]) -> None:
        ids = kfd.ffi.new("uint32_t[]", list(gpus))
        self.call(
            ioctl,
            handle=allocation.handle,
            device_ids_array_ptr=int(kfd.ffi.cast("uintptr_t", ids)),
            n_devices=len(gpus),
        )

    def _unmap_quietly(self, allocation: Allocation, gpus: Sequence[int]) -> None:
        with suppress(IoctlError):
            self._map_call(kfd.UNMAP_MEMORY_FROM_GPU, allocation, gpus)

    def join(self, gpu_id: int) -> None:
        """A device opened: shared memory becomes addressable by its GPU."""
        with ExitStack() as undo:
            for allocation in self.shared:
                if gpu_id not in allocation.gpus:
                    self.map(allocation, [gpu_id])
                    undo.callback(self._unmap_one, allocation, gpu_id)
            undo.pop_all()
        self.members.append(gpu_id)

    def leave(self, gpu_id: int) -> None:
        """A device closed; the last one of its GPU takes its view of shared memory with it."""
        self.members.remove(gpu_id)
        if gpu_id in self.members:
            return
        for allocation in self.shared:
            if gpu_id in allocation.gpus and self.members:
                self._unmap_one(allocation, gpu_id)

    def _unmap_one(self, allocation: Allocation, gpu_id: int) -> None:
        self._map_call(kfd.UNMAP_MEMORY_FROM_GPU, allocation, [gpu_id])
        allocation.gpus.remove(gpu_id)


def _granted(size: int, request: Callable[..., Any], *args: Any) -> Any:
    """What the machine answers; OutOfMemory when it has no room."""
    import errno

    try:
        return request(*args)
    except OSError as error:
        if isinstance(error, HcqError) or error.errno not in (errno.ENOMEM, errno.EAGAIN):
            raise
        raise OutOfMemory(
            f"{size} bytes cannot be mapped into this process",
            facts={"asked": size, "reason": error.strerror or str(error)},
            hint="raise `ulimit -v` and `ulimit -l`, or free memory",
        ) from None


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _hint(error: IoctlError, ioctl: Ioctl) -> str | None:
    import errno

    name = errno.errorcode.get(error.number, "")
    if name in {"EPERM", "EACCES", "ENOSYS", "ENOTTY"}:
        return _SANDBOX
    return _HINTS.get((ioctl.name, name))


_open: list[Kfd] = []
_lock = Lock()


def process(host: Host) -> Kfd:
    """The process's Kfd on a host: opened at first use, kept from then on."""
    with _lock:
        if _open:
            _open[0].check_process()
            if innermost(_open[0].host) is innermost(host):
                if not _open[0].members:
                    _open[0].host = host  # a recording may have begun or ended
                return _open[0]
        found = Kfd(host)
        _open[:] = [found]
        return found
