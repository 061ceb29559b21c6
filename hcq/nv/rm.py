"""The resource manager: objects in a tree under one client, allocated, controlled, freed.

Every call's status is checked here. Objects not freed by their owners go in reverse
when the client closes.
"""

import errno
from typing import Any

from hcq.errors import IoctlError, OutOfMemory
from hcq.host import Host
from hcq.ioctl_defs import Ioctl, nv_escape, nv_rm
from hcq.ioctl_defs.nv_abi import Abi, known
from hcq.ioctl_defs.nv_ctrl import Control
from hcq.ioctl_defs.nv_rm import AllocParams
from hcq.notes import Notes
from hcq.nv.defs import classes

FIRST_OWN_HANDLE = 0x5C00_0001  # for the one call where the caller chooses the handle
_ERRNOS = {
    nv_escape.NO_MEMORY: errno.ENOMEM,
    nv_escape.INSUFFICIENT_RESOURCES: errno.ENOSPC,
    nv_escape.INSUFFICIENT_PERMISSIONS: errno.EPERM,
    nv_escape.STATE_IN_USE: errno.EBUSY,
    nv_escape.NOT_SUPPORTED: errno.EOPNOTSUPP,
    nv_escape.TIMEOUT: errno.ETIMEDOUT,
    nv_escape.GPU_IS_LOST: errno.ENODEV,
}
_HINTS = {
    nv_escape.GPU_IS_LOST: "the GPU no longer answers: see the kernel log (dmesg), then reboot",
    nv_escape.INSUFFICIENT_RESOURCES: "close other programs that use this GPU",
    nv_escape.INSUFFICIENT_PERMISSIONS: (
        "check the rights of the device files, and what the administrator allows"
    ),
    nv_escape.RESET_REQUIRED: "the GPU must be reset (nvidia-smi --gpu-reset) or rebooted",
    nv_escape.STATE_IN_USE: (
        "another process has this GPU for itself (exclusive compute mode, or a debugger)"
    ),
}
_SANDBOX = "a sandbox or container may filter this call: give it the /dev/nvidia* files"


class RmError(IoctlError):
    """The resource manager refused; `status` is its word for why."""

    def __init__(self, what: str, *, status: int, **rest: Any) -> None:
        super().__init__(what, number=_ERRNOS.get(status, errno.EIO), **rest)
        self.status = status


class ResourceManager(Notes):
    """One client of the resource manager, through an open control node."""

    def __init__(self, host: Host, fd: int, abi: Abi, version: str) -> None:
        super().__init__()
        self.host = host
        self.fd = fd
        self.abi = abi
        self.version = version
        self.objects: dict[int, tuple[int, str]] = {}  # handle -> (parent, class), oldest first
        self._next = FIRST_OWN_HANDLE
        self.client = 0
        self.client = self.alloc(0, classes.NV01_ROOT_CLIENT, abi.root)

    def call(self, ioctl: Ioctl, on: int | None = None, **fields: Any) -> Any:
        """One request on a node, the control node unless said otherwise; the filled struct."""
        args = ioctl.args(**fields)
        return self.checked(ioctl, args, ioctl.name, {"given": ioctl.describe(args)}, on)

    def checked(
        self,
        ioctl: Ioctl,
        args: Any,
        what: str,
        facts: dict[str, object],
        fd: int | None = None,
    ) -> Any:
        """Carry out a request and check its status; RmError, OutOfMemory, IoctlError."""
        try:
            carry_out(self.host, self.fd if fd is None else fd, ioctl, args)
        except IoctlError as error:
            error.facts.update(facts)
            raise
        status = getattr(args, "status", 0)
        if status:
            raise self._refused(what, status, facts)
        return args

    def _refused(self, what: str, status: int, facts: dict[str, object]) -> RmError | OutOfMemory:
        name = nv_escape.status_name(status)
        facts = {"status": name, **facts}
        if status == nv_escape.NO_MEMORY:
            return OutOfMemory(f"{what}: {name}", facts=facts, hint="free buffers")
        if status == nv_escape.INVALID_PARAM_STRUCT:
            facts |= {"driver": self.version, "known": known()}
        return RmError(f"{what}: {name}", status=status, facts=facts, hint=_HINTS.get(status))

    def alloc(
        self, parent: int, number: int, params: AllocParams | None = None, **fields: Any
    ) -> int:
        """A new object of a class under a parent; its handle. The fields are its parameters."""
        given = nv_rm.ffi.new("uint8_t[]", nv_rm.ALLOC_BYTES)
        if params is not None:
            source = params.args(**fields)
            nv_rm.ffi.memmove(given, source, params.size)
        args = nv_escape.RM_ALLOC.args(
            hRoot=self.client,
            hObjectParent=parent or self.client,
            hClass=number,
            pAllocParms=0 if params is None else _pointer(given),
            paramsSize=0 if params is None else params.size,
        )
        name = classes.name_of(number)
        facts: dict[str, object] = {"class": name, "parent": hex(parent)}
        if params is not None:
            facts["parameters"] = params.describe(source)
        self.checked(nv_escape.RM_ALLOC, args, f"NV_ESC_RM_ALLOC of {name}", facts)
        self.objects[args.hObjectNew] = (parent, name)
        return int(args.hObjectNew)

    def alloc_user_memory(self, fd: int, parent: int, address: int, size: int, flags: int) -> int:
        """Pages of this process as a memory object; they stay pinned until it is freed."""
        handle, self._next = self._next, self._next + 1
        self.call(
            nv_escape.RM_ALLOC_MEMORY,
            fd,
            hRoot=self.client,
            hObjectParent=parent,
            hObjectNew=handle,
            hClass=classes.NV01_MEMORY_SYSTEM_OS_DESCRIPTOR,
            flags=flags,
            pMemory=address,
            limit=size - 1,
            fd=-1,
        )
        self.objects[handle] = (parent, "NV01_MEMORY_SYSTEM_OS_DESCRIPTOR (0x0071)")
        return handle

    def control(self, handle: int, control: Control, **fields: Any) -> Any:
        """A control call on an object; its parameters as they came back."""
        params = control.args(**fields)
        return self.control_with(handle, control, params)

    def control_with(self, handle: int, control: Control, params: Any) -> Any:
        """As control, for parameters made by the caller."""
        args = nv_escape.RM_CONTROL.args(
            hClient=self.client,
            hObject=handle,
            cmd=control.number,
            params=_pointer(params),
            paramsSize=control.size,
        )
        facts: dict[str, object] = {
            "control": hex(control.number),
            "object": self.name_of(handle),
            "parameters": control.describe(params),
        }
        self.checked(nv_escape.RM_CONTROL, args, control.name, facts)
        return params

    def optional(self, handle: int, control: Control, **fields: Any) -> Any | None:
        """A control one can do without: None and a note when refused."""
        return self.attempt(self.control, handle, control, **fields)

    def free(self, handle: int) -> None:
        """Free an object and what is under it."""
        parent, _ = self.objects.get(handle, (self.client, ""))
        self.call(nv_escape.RM_FREE, hRoot=self.client, hObjectParent=parent, hObjectOld=handle)
        self.objects.pop(handle, None)

    def close(self) -> None:
        """Free what is left, newest first, the client last."""
        for handle in reversed(list(self.objects)):
            self.free(handle)

    def name_of(self, handle: int) -> str:
        """An object in words: handle and class."""
        _, name = self.objects.get(handle, (0, "unknown"))
        return f"{handle:#x} {name}"


def _pointer(data: Any) -> int:
    return int(nv_rm.ffi.cast("uintptr_t", data))


def carry_out(host: Host, fd: int, ioctl: Ioctl, args: Any) -> None:
    """One request on any node; its IoctlError says when a sandbox may be why."""
    try:
        host.ioctl(fd, ioctl, args)
    except IoctlError as error:
        error.hint = error.hint or _sandbox(error)
        raise


def _sandbox(error: IoctlError) -> str | None:
    refused = (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.ENOTTY, errno.EINVAL)
    return _SANDBOX if error.number in refused else None
