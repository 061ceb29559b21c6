"""Opening device files: what stands in the way, and what to do about it."""

import errno
from dataclasses import dataclass

from hcq.errors import DeviceOpenError, HcqError, missing_node
from hcq.host import Host


@dataclass(frozen=True)
class Module:
    """The kernel's side of a device file, as advice names it."""

    gpu: str  # "AMD GPU"
    name: str
    rights: str  # more about who may open it
    trouble: str  # where to look when nothing else is known


def open_node(host: Host, path: str, module: Module) -> int:
    """Open a device file; DeviceOpenError naming node, cause and remedy."""
    try:
        return host.open(path)
    except OSError as error:
        if isinstance(error, HcqError):
            raise
        raise _cannot_open(host, path, module, error) from None


def _cannot_open(host: Host, path: str, module: Module, error: OSError) -> DeviceOpenError:
    number = error.errno or 0
    facts: dict[str, object] = {"node": path, "errno": errno.errorcode.get(number, str(number))}
    if number in (errno.ENODEV, errno.ENXIO) and host.exists(path):
        return DeviceOpenError(
            f"{path} is there, but nothing behind it answers: {error.strerror}",
            facts=facts,
            hint=f"the GPU may be off the bus: see the kernel log (dmesg), then reboot; or the "
            f"kernel module {module.name} is not loaded (lsmod; modprobe {module.name})",
        )
    if number in (errno.ENOENT, errno.ENODEV, errno.ENXIO):
        return missing_node(path, module.name, module.gpu)
    if number in (errno.EACCES, errno.EPERM):
        group = host.group(path)
        return DeviceOpenError(
            f"no rights on {path}: it belongs to group {group}",
            facts={**facts, "group": group},
            hint=f"join the group: sudo usermod -aG {group} $USER, then log in again"
            f"{module.rights}",
        )
    if number in (errno.EMFILE, errno.ENFILE):
        return DeviceOpenError(
            f"{path} cannot be opened: no file descriptor is free",
            facts=facts,
            hint="close files, or raise the limit (ulimit -n)",
        )
    if number == errno.EBUSY:
        return DeviceOpenError(
            f"{path} is busy: another program has the GPU for itself",
            facts=facts,
            hint="end that program (a virtual machine or debugger may hold the GPU)",
        )
    return DeviceOpenError(
        f"{path} cannot be opened: {error.strerror}", facts=facts, hint=module.trouble
    )
