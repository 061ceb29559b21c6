"""nvJitLink: PTX to a cubin inside this process, by the library of the wheel nvidia-nvjitlink.

The library is found next to the modules that Python can import, never in the system's
folders: its version is part of what compiled code is known by.
Source: nvJitLink.h of CUDA 13.
"""

import sys
import threading
from functools import cache
from pathlib import Path
from typing import Any

from hcq.errors import CompileError

MAJOR = 13
# Where the wheels put it: from CUDA 13 on, and before.
FOLDERS = ("nvidia/cu13/lib", "nvidia/nvjitlink/lib")
HINT = (
    "pip install 'nvidia-nvjitlink>=13.0,<13.6', which is the extra hcq[nv]; "
    "or use the processor: DEVICE=CPU"
)

_PTX = 2  # NVJITLINK_INPUT_PTX
_lock = threading.Lock()


def find() -> Path:
    """The library's file; CompileError if it is not installed."""
    found = _search(tuple(sys.path))
    if found is None:
        raise CompileError(
            f"nvJitLink {MAJOR} is not installed: nothing here makes code for NVIDIA GPUs",
            facts={"searched": f"{' and '.join(FOLDERS)} in sys.path"},
            hint=HINT,
        )
    return found


@cache
def _search(folders: tuple[str, ...]) -> Path | None:
    for folder in folders:
        for inside in FOLDERS:
            path = Path(folder or ".") / inside / f"libnvJitLink.so.{MAJOR}"
            if path.is_file():
                return path
    return None


@cache
def version() -> str:
    """The library's version, without loading it where the wheel says it: for caches."""
    root = find().parents[3]
    wheels = sorted(root.glob("nvidia_nvjitlink-*.dist-info"))
    if wheels:
        return wheels[-1].name.removesuffix(".dist-info").replace("_", "-")
    ffi, library = _library()
    numbers = ffi.new("unsigned int[2]")
    library.nvJitLinkVersion(numbers, numbers + 1)
    return f"nvidia-nvjitlink-{numbers[0]}.{numbers[1]}"


@cache
def _library() -> tuple[Any, Any]:
    from cffi import FFI

    ffi = FFI()
    ffi.cdef("""
        typedef struct nvJitLink *nvJitLinkHandle;
        int nvJitLinkCreate(nvJitLinkHandle *handle, uint32_t count, const char **options);
        int nvJitLinkDestroy(nvJitLinkHandle *handle);
        int nvJitLinkAddData(nvJitLinkHandle handle, int kind, const void *data, size_t size,
                             const char *name);
        int nvJitLinkComplete(nvJitLinkHandle handle);
        int nvJitLinkGetLinkedCubinSize(nvJitLinkHandle handle, size_t *size);
        int nvJitLinkGetLinkedCubin(nvJitLinkHandle handle, void *cubin);
        int nvJitLinkGetErrorLogSize(nvJitLinkHandle handle, size_t *size);
        int nvJitLinkGetErrorLog(nvJitLinkHandle handle, char *log);
        int nvJitLinkVersion(unsigned int *major, unsigned int *minor);
    """)
    path = find()
    try:
        return ffi, ffi.dlopen(str(path))
    except OSError as error:
        raise CompileError(
            f"nvJitLink cannot be loaded: {error}", facts={"library": path}, hint=HINT
        ) from None


def link(ptx: str, arch: str, name: str) -> bytes:
    """The cubin of PTX text for one architecture ("sm_90"); CompileError with the tool's log."""
    with _lock:  # loaded once, whichever thread comes first
        ffi, library = _library()
    handle = ffi.new("nvJitLinkHandle *")
    options = [ffi.new("char[]", f"-arch={arch}".encode())]
    if library.nvJitLinkCreate(handle, len(options), ffi.new("char *[]", options)):
        raise CompileError(f"nvJitLink knows no {arch}", facts={"version": version()})
    try:
        text = ptx.encode()
        status = library.nvJitLinkAddData(handle[0], _PTX, text, len(text), name.encode())
        status = status or library.nvJitLinkComplete(handle[0])
        if status:
            raise CompileError(
                f"nvJitLink refuses the PTX of {name} for {arch}: {_log(ffi, library, handle[0])}",
                facts={"status": status, "version": version()},
            )
        size = ffi.new("size_t *")
        library.nvJitLinkGetLinkedCubinSize(handle[0], size)
        cubin = ffi.new("char[]", size[0])
        library.nvJitLinkGetLinkedCubin(handle[0], cubin)
        return bytes(ffi.buffer(cubin, size[0]))
    finally:
        library.nvJitLinkDestroy(handle)


def _log(ffi: Any, library: Any, handle: Any) -> str:
    """The error log in one line."""
    size = ffi.new("size_t *")
    library.nvJitLinkGetErrorLogSize(handle, size)
    text = ffi.new("char[]", max(size[0], 1))
    library.nvJitLinkGetErrorLog(handle, text)
    lines = ffi.string(text).decode(errors="replace").split("\n")
    return "; ".join(line.strip() for line in lines if line.strip()) or "no reason given"
