"""The registry: names to opened devices. Loads a backend when its device is first used.

`Device["AMD"]`, `Device["amd:0"]` are one object for the life of the process. The
only place that imports by name. A device that is named is never replaced by
another; only when DEVICE is unset, the first of the default order that opens is
`Device.DEFAULT`.
"""

import atexit
import errno
import importlib
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial

from hcq.errors import (
    ConfigError,
    DeviceBanned,
    DeviceError,
    DeviceNotFound,
    DeviceOpenError,
    FallbackWarning,
    HcqError,
    IoctlError,
    OutOfMemory,
    Unsupported,
    nearest,
)
from hcq.settings import get
from runtime.backend import Backend
from runtime.log import LOGGER, say
from runtime.opened import OpenedDevice
from runtime.target import Target, parse_target, parse_targets

EXIT_SECONDS = 3.0  # all devices together, at process end


@dataclass(frozen=True)
class Way:
    """One interface to a kind of device: a module with open_backend(index) and count().

    adapter: a module whose open_backend(module, index) makes a backend of what
    `module` opens; raw queue drivers know nothing of backends.
    """

    interface: str
    module: str
    adapter: str = ""

    def load(self) -> tuple[Callable[[int], Backend], Callable[[], int]]:
        """(open, count) of the module, imported now."""
        module = importlib.import_module(self.module)
        if not self.adapter:
            return module.open_backend, module.count
        adapter = importlib.import_module(self.adapter)
        return partial(adapter.open_backend, module), module.count


# In the default order: what DEVICE unset tries.
KINDS: Mapping[str, tuple[Way, ...]] = {
    "AMD": (Way("KFD", "hcq.amd", "runtime.hcq_backend"),),
    "NV": (Way("NVK", "hcq.nv", "runtime.hcq_backend"),),
    "CPU": (Way("", "runtime.fallback.cpu"),),
}
RESERVED_WAYS = ("PCI", "USB", "REMOTE")
RESERVED_NAMES = (
    *("CUDA", "HIP", "QCOM", "CL", "METAL", "WEBGPU"),
    *("DSP", "PYTHON", "NULL", "DISK", "NPY"),
)
# What people write where this stack calls the device otherwise.
OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("CUDA", "NVIDIA", "GEFORCE", "NVK"), ("NV",)),
    **dict.fromkeys(("HIP", "ROCM", "RADEON", "KFD"), ("AMD",)),
    "GPU": ("AMD", "NV"),
}


class Registry:
    """Opened devices by name. `kinds`: what can be opened, in the default order."""

    def __init__(self, kinds: Mapping[str, tuple[Way, ...]] = KINDS) -> None:
        self._kinds = kinds
        self._opened: dict[str, OpenedDevice] = {}  # by canonical name, in order of opening
        self._known: dict[str, OpenedDevice] = {}  # by every spelling used so far
        self._names: dict[str, str] = {}
        self._default: str | None = None
        self._lock = threading.RLock()
        self._process = 0  # whose exit closes the devices
        self._follows_forks = False

    def __getitem__(self, name: str) -> OpenedDevice:
        """The device, opened at first use. DeviceNotFound, DeviceOpenError, ConfigError."""
        found = self._known.get(name)
        if found is not None:
            return found
        target = self._supported(self._target(name))
        with self._lock:
            found = self._opened.get(target.device)
            if found is None:
                found = self._opened[target.device] = self._open(target)
            self._known[name] = found
        return found

    @property
    def DEFAULT(self) -> str:
        """The device used where none is named: DEVICE's first, else the first that opens."""
        text = get("DEVICE")
        if text:
            targets = [self._known_name(target) for target in parse_targets(text)]
            return self._supported(targets[0]).device
        if self._default is None:
            with self._lock:
                self._default = self._probe()
        return self._default

    def canonicalize(self, name: str | None) -> str:
        """ "AMD" for "amd" and "AMD:0"; the default for None. Opens nothing but to find that."""
        if name is None:
            return self.DEFAULT
        found = self._names.get(name)
        if found is None:
            found = self._names[name] = self._target(name).device
        return found

    def opened(self) -> list[OpenedDevice]:
        """What is open, in the order of opening."""
        return list(self._opened.values())

    def close_all(self, seconds: float = EXIT_SECONDS, *, at_exit: bool = False) -> None:
        """Drain and close every device, last opened first, waiting at most `seconds` in all.

        Failed ones are not waited for; errors are logged. Buffers on them are over.
        at_exit: devices that failed or did not finish are left to the kernel, which
        may take seconds to stop them.
        """
        limit = time.monotonic() + seconds
        with self._lock:
            devices = [device for device in self._opened.values() if not device.is_banned]
            self._opened.clear()
            self._known.clear()
            self._default = None
        for device in reversed(devices):
            is_idle = _drain(device, max(limit - time.monotonic(), 0.05))
            if is_idle or not at_exit:
                _close(device)
            else:
                device.allocator.forget()  # finalizers that run later find modules gone

    def ban_all(self, reason: str) -> None:
        """Every device that is open becomes unusable here, and is not torn down."""
        self._lock = threading.RLock()  # the old one may be held by a thread that is not here
        for device in self._opened.values():
            device.ban(reason)

    def _target(self, name: str) -> Target:
        target = parse_target(name)
        if target.renderer or target.interface:
            raise ConfigError(
                f"{name!r} names an interface or renderer; those belong in DEVICE",
                facts={"device": name, "accepted": "NAME or NAME:index"},
                hint=f"DEVICE={name}",
            )
        return self._known_name(target)

    def _supported(self, target: Target) -> Target:
        if target.name not in self._kinds:
            raise Unsupported(
                f"device {target.name!r} is not supported yet",
                device=target.name,
                facts={"known": ", ".join(self._kinds)},
                hint=self._instead(target.name),
            )
        return target

    def _known_name(self, target: Target) -> Target:
        if target.name in self._kinds or target.name in RESERVED_NAMES:
            return target
        near = "" if target.name in OTHER_NAMES else nearest(target.name, self._kinds)
        raise DeviceNotFound(
            f"no device {target.name!r}{near}",
            device=target.name,
            facts={"known": ", ".join(self._kinds)},
            hint=self._instead(target.name),
        )

    def _instead(self, name: str) -> str:
        """What to write: the device that a name means, else all there are."""
        meant = OTHER_NAMES.get(name) or get_close_matches(name, self._kinds, n=1)
        known = [kind for kind in meant if kind in self._kinds]
        return " or ".join(f"DEVICE={kind}" for kind in known or self._kinds)

    def _open(self, target: Target) -> OpenedDevice:
        if not get("ALLOW_DEVICE_USAGE"):
            raise DeviceBanned(
                f"{target.device} cannot be used here: ALLOW_DEVICE_USAGE=0",
                device=target.device,
                facts={"setting": "ALLOW_DEVICE_USAGE", "process": os.getpid()},
                hint="compile workers open no device; elsewhere unset ALLOW_DEVICE_USAGE",
            )
        setting = self._setting(target)
        ways = _chosen(target.name, self._kinds[target.name], setting.interface)
        problems: list[tuple[Way, DeviceError]] = []
        for way in ways:
            try:
                device = self._open_way(way, setting)
            except DeviceNotFound:
                raise
            except DeviceError as error:
                problems.append((way, error))
                continue
            say(1, f"opened device {device.name} {device.arch} {device.target}")
            return device
        if len(problems) == 1:
            raise problems[0][1]
        raise _all_failed(target, problems)

    def _open_way(self, way: Way, target: Target) -> OpenedDevice:
        try:
            return self._open_index(way, target)
        except (IoctlError, OSError) as error:
            if isinstance(error, DeviceError):  # some are also OSErrors
                raise
            raise _refused(target, error) from error

    def _open_index(self, way: Way, target: Target) -> OpenedDevice:
        open_backend, count = way.load()
        available = count()
        if 0 < available <= target.index:  # where there is none, opening tells why
            raise DeviceNotFound(
                f"no device {target.device!r}: there {_are(available, target.name)}",
                device=target.device,
                facts={"index": target.index, "count": available},
                hint=f"indexes count from 0; DEVICE={target.name} is the first",
            )
        device = OpenedDevice(open_backend(target.index), target, count)
        if not way.adapter:
            _tell_unrecorded(device.name)
        self._follow_process()
        return device

    def _follow_process(self) -> None:
        """Close at the exit of this process, and be told of forks."""
        if self._process != os.getpid():
            self._process = os.getpid()
            atexit.register(self._at_exit, self._process)
        if not self._follows_forks:
            self._follows_forks = True
            os.register_at_fork(after_in_child=self._after_fork)

    def _setting(self, target: Target) -> Target:
        """What DEVICE says about this device: interface and renderer."""
        text = get("DEVICE")
        for said in parse_targets(text) if text else ():
            if said.name == target.name and said.index == target.index:
                return said
        return target

    def _probe(self) -> str:
        """The first that opens. Passing over hardware that is there is announced."""
        reasons = []
        unusable = []
        for name in self._kinds:
            try:
                self[name]
            except (DeviceError, OutOfMemory) as error:
                reasons.append(f"{name}: {str(error).splitlines()[0]}")
                say(1, f"default device: passed over {reasons[-1]}")
                if _is_present(self._kinds[name]):
                    unusable.append(reasons[-1])
            else:
                for reason in unusable:
                    warnings.warn(f"{name} is used: {reason}", FallbackWarning, stacklevel=3)
                return name
        raise DeviceNotFound("\n".join(["no device opens", *dict.fromkeys(reasons)]))

    def _after_fork(self) -> None:
        self.ban_all("it was opened before fork")

    def _at_exit(self, process: int) -> None:
        if os.getpid() == process:
            self.close_all(at_exit=True)


def _tell_unrecorded(name: str) -> None:
    """A recording that would stay empty is announced."""
    path = get("HCQ_CAPTURE")
    if path:
        warnings.warn(
            f"HCQ_CAPTURE={path}: {name} has no command queues, so nothing of it is recorded",
            FallbackWarning,
            stacklevel=4,
        )


def _is_present(ways: tuple[Way, ...]) -> bool:
    """Whether any way sees such hardware, usable or not."""
    for way in ways:
        try:
            if way.load()[1]() > 0:
                return True
        except (DeviceError, OSError) as error:
            # The node is there but lets nobody count: only a missing one names its module.
            if "module" not in getattr(error, "facts", {}):
                return True
    return False


def _chosen(name: str, ways: tuple[Way, ...], interface: str) -> Iterable[Way]:
    """The ways to try: all in order, or the one that DEVICE names."""
    if not interface:
        return ways
    if interface in RESERVED_WAYS:
        raise Unsupported(
            f"{interface}+{name}: only the kernel driver's path is supported",
            device=name,
            facts={"setting": "DEVICE", "interface": interface},
            hint=f"DEVICE={name}",
        )
    known = [way.interface for way in ways if way.interface]
    chosen = [way for way in ways if way.interface == interface]
    if not chosen:
        raise ConfigError(
            f"{name} has no interface {interface!r}{nearest(interface, known)}",
            device=name,
            facts={
                "setting": "DEVICE",
                "value": f"{interface}+{name}",
                "accepted": ", ".join(known) or "none",
            },
        )
    return chosen


def _all_failed(target: Target, problems: list[tuple[Way, DeviceError]]) -> DeviceOpenError:
    lines = [f"{way.interface}: {str(error).splitlines()[0]}" for way, error in problems]
    hints = dict.fromkeys(error.hint for _, error in problems if error.hint)
    return DeviceOpenError(
        "\n".join([f"{target.device} does not open by any way", *dict.fromkeys(lines)]),
        device=target.device,
        hint="; ".join(hints) or None,
    )


def _refused(target: Target, error: OSError) -> DeviceOpenError:
    """What the kernel refused while opening, as trouble of the device."""
    facts: dict[str, object] = {"device": target.device}
    if isinstance(error, HcqError):
        what, hint = error.what, error.hint
        facts |= error.facts
    else:
        what, hint = error.strerror or str(error), None
        what = f"{error.filename}: {what}" if error.filename else what
        facts["errno"] = errno.errorcode.get(error.errno or 0, error.errno)
    step, _, cause = what.partition("; ")[0].partition(": ")
    return DeviceOpenError(
        f"{target.device} does not open: {step}: {cause or 'refused'}",
        device=target.device,
        facts={**facts, "step": step},
        hint=hint or "the kernel's log (dmesg) may say more",
    )


def _are(count: int, name: str) -> str:
    return f"is 1 {name} device" if count == 1 else f"are {count} {name} devices"


def _drain(device: OpenedDevice, seconds: float) -> bool:
    """Wait for a device that works; whether nothing runs on it any more."""
    try:
        if device.health() != "ok":
            return False
        device.synchronize(timeout=seconds)
    except HcqError as error:
        LOGGER.warning("%s did not finish before it was closed: %s", device.name, error)
        return False
    return True


def _close(device: OpenedDevice) -> None:
    try:
        device.close()
    except (HcqError, OSError) as error:
        LOGGER.warning("%s did not close: %s", device.name, error)


Device = Registry()
