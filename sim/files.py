"""Files that exist only on the simulated machine: device nodes and sysfs entries.

Entries are bytes, a function that makes them, or the OSError that reading gives.
Whatever lies outside the simulated folders is the real machine's.
"""

import os
from collections.abc import Callable
from errno import ENOENT, ENOTDIR
from typing import Any

Content = bytes | OSError | Callable[[], bytes]

# Folders of which the real machine shows nothing here.
OWNED = (
    "/dev/kfd",
    "/dev/dri",
    "/sys/devices/virtual/kfd",
    "/sys/class/kfd",
    "/sys/class/drm",
    "/sys/module/amdgpu",
    "/proc/driver/nvidia",
    "/sys/module/nvidia",
    "/sys/module/nvidia_uvm",
)
# Files that share the beginning of a name.
OWNED_NAMES = ("/dev/nvidia",)


class Files:
    """A tree of simulated files, by absolute path."""

    def __init__(self) -> None:
        self._entries: dict[str, Content] = {}
        self._links: dict[str, str] = {}

    def add(self, path: str, content: Content) -> None:
        """Create or replace a file."""
        self._entries[self._real(path)] = content

    def remove(self, path: str) -> None:
        """Take away a file or a folder with all it holds."""
        path = self._real(path)
        for name in [p for p in self._entries if p == path or p.startswith(f"{path}/")]:
            del self._entries[name]

    def link(self, path: str, target: str) -> None:
        """Another name for a folder."""
        self._links[path] = target

    def owns(self, path: str) -> bool:
        """Whether a path belongs to the simulated machine, existing or not."""
        if path.startswith(OWNED_NAMES):
            return True
        return any(path == folder or path.startswith(f"{folder}/") for folder in OWNED)

    def read(self, path: str) -> bytes:
        """Content of a file; OSError as the kernel gives it."""
        content = self._entries.get(self._real(path))
        if content is None:
            raise _error(ENOENT, path)
        if isinstance(content, OSError):
            raise content
        return content() if callable(content) else content

    def list(self, path: str) -> list[str]:
        """Names in a folder, sorted; OSError as the kernel gives it."""
        real = self._real(path)
        if real in self._entries:
            raise _error(ENOTDIR, path)
        inside = [p for p in self._entries if p.startswith(f"{real}/")]
        names = {p[len(real) + 1 :].split("/")[0] for p in inside}
        if not names:
            raise _error(ENOENT, path)
        return sorted(names)

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder of that name."""
        real = self._real(path)
        return real in self._entries or any(p.startswith(f"{real}/") for p in self._entries)

    def _real(self, path: str) -> str:
        path = os.path.normpath(path)
        for link, target in self._links.items():
            if path == link or path.startswith(f"{link}/"):
                return target + path[len(link) :]
        return path


def properties(**values: Any) -> bytes:
    """A sysfs properties file: `key value` lines, decimal."""
    return "".join(f"{key} {value}\n" for key, value in values.items()).encode()


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
