"""What can go wrong, as types.

The base class and every class that more than one group raises live here; the
others stand beside the code that raises them. Each error says what failed and
on which device, carries its facts as a dict, and ends with what to do.
"""

from collections.abc import Mapping
from typing import Any


class HcqError(RuntimeError):
    """Base of everything this stack raises on purpose.

    The text is: first line what failed; then `name=value` facts; last line
    `hint: ...`. `code` is a stable slug, the class name in kebab case.
    """

    def __init__(
        self,
        what: str,
        *,
        device: str | None = None,
        facts: Mapping[str, Any] | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.device = device
        self.facts: dict[str, Any] = dict(facts or {})
        self.hint = hint

    @property
    def code(self) -> str:
        """A stable name for documentation anchors: IoctlError -> ioctl-error."""
        name = type(self).__name__
        return "".join(f"-{c.lower()}" if c.isupper() else c for c in name).lstrip("-")

    def __str__(self) -> str:
        lines = [self.what]
        if self.facts:
            lines.append(" ".join(f"{name}={value}" for name, value in self.facts.items()))
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.what, self.__dict__.copy())


def _rebuild(kind: type[HcqError], what: str, state: dict[str, Any]) -> HcqError:
    """Errors cross worker processes; subclasses may take other arguments."""
    # The built-in base with the largest layout makes the object; the first of the bases may not.
    base = OSError if issubclass(kind, OSError) else RuntimeError
    error = base.__new__(kind, what)
    error.args = (what,)
    error.__dict__.update(state)
    number = state.get("number")
    if isinstance(error, OSError) and number is not None:
        error.errno = number
    return error


class ConfigError(HcqError, ValueError):
    """A setting, option or name is bad, unknown or in conflict."""


class FieldError(HcqError, ValueError):
    """A value does not fit a hardware field or an ioctl struct: a bug of ours."""


class BufferUseError(HcqError, ValueError):
    """A buffer, view, window or copy is misused."""


class QueueError(HcqError):
    """A queue, slot or batch is misused, or something is too big for the ring."""


class LaunchError(HcqError, ValueError):
    """A launch outside the limits of kernel or device."""


class OutOfMemory(HcqError, MemoryError):
    """Memory cannot be had."""


class CompileError(HcqError):
    """Code generation or the compiler failed."""


class CodeObjectError(HcqError, ValueError):
    """A code object is malformed or made for something else."""


class ValidationError(HcqError):
    """A cross-check gave another value."""


class FileFormatError(HcqError, ValueError):
    """A file is bad or incompatible."""


class Unsupported(HcqError, NotImplementedError):
    """This backend or build lacks the operation."""


class IoctlError(HcqError, OSError):
    """The kernel refused a call; the text names the call and what it was given."""

    def __init__(self, what: str, *, number: int, **rest: Any) -> None:
        super().__init__(what, **rest)
        # RuntimeError comes first among the bases, so Python does not fill errno.
        self.number = number
        self.errno = number


class DeviceError(HcqError):
    """Parent of what concerns one device."""


class DeviceNotFound(DeviceError, LookupError):
    """An unknown device name or index, or nothing usable."""


class DeviceOpenError(DeviceError):
    """A node, library, right or driver was in the way while opening."""


class UnsupportedDevice(DeviceError):
    """The chip, class list or driver branch is not in our tables."""


class DeviceBanned(DeviceError):
    """Devices may not be used in this place."""


class WaitTimeout(DeviceError, TimeoutError):
    """A limit on waiting given by the caller passed; the device is still good."""


class DeviceLost(DeviceError):
    """The device failed, was reset or is gone. Also raised at any later use."""


class GpuFault(DeviceLost):
    """The GPU reported a fault."""


class GpuTimeout(DeviceLost, TimeoutError):
    """The default limit, or a kernel's own, passed without progress: a hang."""


class HcqWarning(UserWarning):
    """Base of our warnings."""


class FallbackWarning(HcqWarning):
    """A substitute is used: what was wanted, why not, what is used."""


class CacheWarning(HcqWarning):
    """A cache cannot be used; the run goes on without it."""


class SimFault(HcqError):
    """Inside a simulator: the driver or the machine code did what hardware refuses.

    Never leaves the simulator as an exception: it reaches the driver as an
    errno, a status or a device fault, and the text with it as detail.
    """


_SIMULATED = {"amdgpu": " --gpu gfx1100", "nvidia": " --gpu sm_90", "nvidia_uvm": " --gpu sm_90"}


def missing_node(node: str, module: str, what: str) -> DeviceOpenError:
    """The error for a machine without a device file; the one place with this hint.

    The command names a GPU: who sees this may be on a simulated machine with another.
    """
    return DeviceOpenError(
        f"no {what} here: {node} does not exist",
        facts={"node": node, "module": module},
        hint=(
            f"check that the card is there (lspci) and the kernel module {module} is loaded "
            f"(lsmod; modprobe {module}); in a container, pass {node} in; without such a GPU, "
            f"simulate one: python -m sim{_SIMULATED.get(module, '')} SCRIPT"
        ),
    )


def nearest(word: str, known: Any) -> str:
    """`, did you mean 'x'?` or nothing."""
    from difflib import get_close_matches

    near = get_close_matches(word, [str(k) for k in known], n=1)
    return f", did you mean {near[0]!r}?" if near else ""
