"""One opened device: its backend with everything that is kept per device."""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hcq.errors import ConfigError, DeviceBanned, Unsupported, nearest
from runtime.allocator import Allocator
from runtime.backend import HOOKS, Backend, Code, Kernel, Memory
from runtime.counters import Counters, GlobalCounters
from runtime.program import Program
from runtime.target import Target

if TYPE_CHECKING:
    from runtime.batch import LaunchBatch

HEALTH = ("ok", "retry", "reset-queue", "reset-device", "restart-process", "reboot")


class OpenedDevice:
    """A device that has been opened: allocator, renderer names, programs, counters.

    name: "AMD:0". canonical: "AMD", as buffers name it. index: 0. arch: "gfx1100".
    target: the renderer in use, "LLVM:gfx1100". capabilities: the optional
    operations its backend has.
    """

    def __init__(
        self, backend: Backend, target: Target, count: Callable[[], int] | None = None
    ) -> None:
        self.backend = backend
        self.name = backend.name
        self.canonical = target.device
        self.index = target.index
        self.arch = backend.arch
        self.renderers = backend.renderers
        self.target = _renderer(backend, target)
        self.allocator = Allocator(backend)
        self.counters: Counters = GlobalCounters.add_device(self.name, lambda: self.allocator.live)
        self.capabilities = frozenset(hook for hook in HOOKS if has(backend, hook))
        self.is_banned = False
        self._count = count
        self._programs: dict[str, Program] = {}
        self._loading = threading.Lock()

    def __repr__(self) -> str:
        return f"<{self.name} {self.arch}>"

    def count(self) -> int:
        """How many devices of this kind there are."""
        return self._count() if self._count is not None else self.index + 1

    def synchronize(self, timeout: float | None = None) -> None:
        """Wait until all queued work has finished; WaitTimeout after `timeout` seconds."""
        self.backend.synchronize(timeout)

    def health(self) -> str:
        """ok, or what helps: retry, reset-queue, reset-device, restart-process, reboot."""
        return self.backend.health()

    def load(self, code: Code) -> Program:
        """Put a program on the device, past the cache."""
        return Program(self, code, self.backend.load(code))

    def find(self, kernel: Kernel) -> Program | None:
        """The program of a kernel if it is already here."""
        return self._programs.get(kernel.key)

    def program(self, kernel: Kernel) -> Program:
        """The program of a kernel, compiled and loaded once; a failure is not remembered."""
        found = self._programs.get(kernel.key)
        if found is None:
            with self._loading:
                found = self._programs.get(kernel.key)
                if found is None:
                    found = self.load(kernel.compile(self.target))
                    self._programs[kernel.key] = found
        return found

    def batch(self) -> "LaunchBatch":
        """A list of launches to build, which one call then runs."""
        from runtime.batch import LaunchBatch

        return LaunchBatch(self)

    def hook(self, name: str) -> Callable[..., Any]:
        """An operation that not every backend has; Unsupported naming both if this one lacks it."""
        if name not in self.capabilities:
            found_here = ", ".join(sorted(self.capabilities)) or "none of the optional ones"
            raise Unsupported(
                f"{self.name} has no operation {name!r}",
                device=self.name,
                facts={"backend": type(self.backend).__name__, "operation": name},
                hint=f"it has {found_here}",
            )
        found: Callable[..., Any] = getattr(self.backend, name)
        return found

    def host_view(self, memory: Memory) -> memoryview | None:
        """The memory as this process's bytes, or None where that is impossible."""
        return self.backend.host_view(memory) if "host_view" in self.capabilities else None

    def close(self) -> None:
        """Close the backend; its memory and programs are gone with it."""
        self.allocator.close("lies on a device that was closed")
        self._programs.clear()
        GlobalCounters.remove_device(self.name)
        self.backend.close()

    def ban(self, reason: str) -> None:
        """From here on every use raises DeviceBanned; nothing of the device is touched."""
        self.is_banned = True
        self.allocator.forget()
        banned: Any = Banned(self.name, self.arch, self.renderers, reason)
        self.backend = self.allocator.backend = banned
        for program in self._programs.values():
            program.backend = banned


class Banned:
    """Stands where a backend was that must not be used in this process."""

    def __init__(self, name: str, arch: str, renderers: tuple[str, ...], reason: str) -> None:
        self.name = name
        self.arch = arch
        self.renderers = renderers
        self.reason = reason

    def __getattr__(self, operation: str) -> Any:
        raise DeviceBanned(
            f"{self.name} cannot be used here: {self.reason}",
            device=self.name,
            facts={"operation": operation},
            hint="start the child with the spawn method, or open the device only in the child",
        )


def has(backend: object, hook: str) -> bool:
    """The backend's class defines an optional operation."""
    return callable(getattr(type(backend), hook, None))


def _renderer(backend: Backend, target: Target) -> str:
    """The backend's best renderer, or the one that DEVICE names."""
    wanted = f"{target.renderer}:{target.arch}" if target.arch else target.renderer
    for name in backend.renderers:
        kind, _, arch = name.partition(":")
        if target.renderer in ("", kind.upper()) and target.arch in ("", arch):
            return name
    known = [*backend.renderers, *(name.partition(":")[0] for name in backend.renderers)]
    near = nearest(wanted, known)
    if not near and not target.arch:  # perhaps it was to be an index
        near = ", and an index is a number"
    raise ConfigError(
        f"{backend.name} has no renderer {wanted!r}{near}",
        device=backend.name,
        facts={"setting": "DEVICE", "renderers": ",".join(backend.renderers)},
    )
