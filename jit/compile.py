"""Kernels to machine code: renderers by name, caches, and what may run in this process.

LLVM can end the process on IR that it cannot select. This process compiles only
what is made of operations and intrinsics on the allow-list, which a test has
proved selectable for each target; everything else goes to a worker.
"""

import atexit
import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

from hcq.errors import CompileError, Unsupported, nearest
from hcq.settings import Context, current_values, get
from jit.cache import directory, disk_cache
from jit.codegen.machine import Rendered
from jit.kernel import Kernel
from jit.show import show_code, show_source
from jit.worker import WorkerPool
from runtime.backend import Code
from runtime.log import debug_level

# Stems of LLVM's intrinsic names that every target here selects.
ALLOWED = (
    "llvm.amdgcn.readfirstlane.i32",
    "llvm.amdgcn.s.barrier",
    "llvm.amdgcn.workgroup.id.x",
    "llvm.amdgcn.workitem.id.x",
    "llvm.arithmetic.fence",
    "llvm.ceil",
    "llvm.experimental.constrained.fptrunc",
    "llvm.fabs",
    "llvm.floor",
    "llvm.fma",
    "llvm.fptosi.sat",
    "llvm.fptoui.sat",
    "llvm.masked.load",
    "llvm.masked.store",
    "llvm.nvvm.barrier.cta.sync.aligned.all",
    "llvm.nvvm.read.ptx.sreg.ctaid.x",
    "llvm.nvvm.read.ptx.sreg.tid.x",
    "llvm.roundeven",
    "llvm.sqrt",
    "llvm.trunc",
)


# Our modules beside those of jit/codegen that decide what code a kernel gets.
SOURCES = (
    "access",
    "compile",
    "dtype",
    "exponential",
    "kernel",
    "math",
    "single",
    "term",
    "tile",
    "tile_cpu",
    "tile_gpu",
    "tile_staged",
    "trigonometric",
)


class Renderer(Protocol):
    """Makes code of one format for one architecture."""

    name: str

    def render(self, kernel: Kernel) -> Rendered: ...


@dataclass
class Counts:
    """What became of the requests for code in this process."""

    compiled: int = 0
    from_disk: int = 0
    from_memory: int = 0


counts = Counts()
_memory: dict[tuple[str, str], Code] = {}
_pool = WorkerPool()
_lock = threading.Lock()
atexit.register(_pool.close)


def _llvm(name: str, arch: str) -> Renderer:
    if arch.startswith("x86-64"):
        from jit.codegen.cpu import CpuRenderer

        return CpuRenderer(name, arch)
    from jit.codegen.amdgcn import AmdRenderer

    return AmdRenderer(name, arch)


def _ptx(name: str, arch: str) -> Renderer:
    from jit.codegen.nvptx import NvRenderer

    return NvRenderer(name, arch)


KINDS: dict[str, Callable[[str, str], Renderer]] = {"LLVM": _llvm, "PTX": _ptx}


@cache
def renderer(name: str) -> Renderer:
    """The renderer of a name KIND:ARCH, always the same object; CompileError if there is none."""
    kind, _, arch = name.partition(":")
    if kind not in KINDS:
        raise CompileError(
            f"no compiler {kind!r} for {name}{nearest(kind, KINDS)}",
            facts={"renderer": name},
            hint=f"compilers: {', '.join(KINDS)}",
        )
    return KINDS[kind](name, arch)


def choose(names: Sequence[str]) -> str:
    """The first usable of a backend's renderer names; CompileError with each one's reason."""
    reasons, hints = [], []
    for name in names:
        try:
            renderer(name)
        except CompileError as error:
            reasons.append(error.what)
            hints.append(error.hint)
        else:
            return name
    raise CompileError(
        f"no usable compiler among {', '.join(names) or 'none'}: {'; '.join(reasons)}",
        facts={"renderers": ",".join(names)},
        hint="; ".join(dict.fromkeys(filter(None, hints))),
    )


def compile_kernel(kernel: Kernel, target: str) -> Code:
    """Code for a kernel: from memory, from disk, or compiled. CompileError if it fails."""
    found = _cached(kernel, target)
    return _keep(kernel, target, _compile(kernel, target)) if found is None else found


def compile_many(kernels: Sequence[Kernel], target: str) -> list[Code]:
    """Code for several kernels, what is missing compiled by this process and by workers.

    The first failure is raised when all others are done.
    """
    missing = {k.key: k for k in kernels if _cached(k, target) is None}
    threads = _helpers(len(missing))
    queue = list(missing.values())
    errors: list[BaseException] = []

    def drain(work: Callable[[Kernel, str], Code]) -> None:
        while queue and not any(isinstance(e, KeyboardInterrupt) for e in errors):
            try:
                kernel = queue.pop()
            except IndexError:
                return
            try:
                _keep(kernel, target, work(kernel, target))
            except BaseException as error:
                errors.append(error)

    settings = current_values()

    def help_out() -> None:
        with Context(**settings):  # those of this thread hold for its helpers
            drain(_in_worker)

    started = [threading.Thread(target=help_out, daemon=True) for _ in range(threads)]
    for thread in started:
        thread.start()
    drain(_compile)
    for thread in started:
        thread.join()
    if errors:
        raise errors[0]
    return [compile_kernel(k, target) for k in kernels]


def _helpers(count: int) -> int:
    """How many workers help with so many kernels: starting one costs as much as several."""
    most: int = get("PARALLEL")
    if most < 0:
        most = (os.cpu_count() or 1) - 1
    return min(most, count // 4)


def _cached(kernel: Kernel, target: str) -> Code | None:
    code = _memory.get((kernel.key, target))
    if code is not None:
        counts.from_memory += 1
        return code
    store = disk_cache()
    code = None if store is None else store.get(cache_key(kernel, target))
    if code is not None:
        counts.from_disk += 1
        _memory[(kernel.key, target)] = code
        _shown(kernel, target)
    return code


def _keep(kernel: Kernel, target: str, code: Code) -> Code:
    with _lock:
        counts.compiled += 1
        _memory[(kernel.key, target)] = code
    store = disk_cache()
    if store is not None:
        store.put(cache_key(kernel, target), code)
    return code


def cache_key(kernel: Kernel, target: str) -> str:
    """The key on disk: kernel with its options, compiler and version, target. Not the host."""
    parts = [kernel.key, target, compiler_version(), *_linker_version(target)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _linker_version(target: str) -> list[str]:
    """The version of what makes machine code after LLVM, where there is such a thing."""
    if not target.startswith("PTX:"):
        return []
    from jit.codegen.nvjitlink import version

    return [version()]


@cache
def compiler_version() -> str:
    """LLVM's version and a hash of our own sources that make code."""
    from jit.codegen.machine import version

    here = Path(__file__).parent
    sources = [here / f"{name}.py" for name in SOURCES]
    digest = hashlib.sha256()
    for path in sorted([*sources, *(here / "codegen").glob("*.py")]):
        digest.update(path.read_bytes())
    return f"{version()} hcq {digest.hexdigest()}"


def forget() -> None:
    """Empty the memory cache (the disk cache stays)."""
    _memory.clear()


def _compile(kernel: Kernel, target: str) -> Code:
    """Compile here if that is safe, else in a worker."""
    _check_options(kernel)
    try:
        rendered = renderer(target).render(kernel)
        show_source(kernel, rendered)
        here = is_allowed(rendered)
        code = rendered.finish() if here else _pool.compile(kernel, target)
        show_code(rendered)
        return code
    except CompileError as error:
        raise _with_source(error, kernel) from error.__cause__


def _in_worker(kernel: Kernel, target: str) -> Code:
    _check_options(kernel)
    try:
        code = _pool.compile(kernel, target)
    except CompileError as error:
        raise _with_source(error, kernel) from error.__cause__
    _shown(kernel, target)
    return code


# What settings ask of a compiler and none can do yet.
_LACKING = {
    "CHECK_OOB": "checks the accesses",
    "FASTMATH": "approximates the float32 functions",
}


def _check_options(kernel: Kernel) -> None:
    options = dict(kernel.options)
    for option, lack in _LACKING.items():
        if options.get(option):
            raise Unsupported(
                f"{option}: no compiler here {lack} of a kernel, such as {kernel.name}",
                facts={"kernel": kernel.name},
                hint=f"unset {option}",
            )


def compile_here(kernel: Kernel, target: str) -> Code:
    """Compile in this process whatever it is: for workers."""
    return renderer(target).render(kernel).finish()


def is_allowed(rendered: Rendered) -> bool:
    """Whether all intrinsics are known to be selectable."""
    return all(
        any(name == stem or name.startswith(f"{stem}.") for stem in ALLOWED)
        for name in rendered.intrinsics
    )


def _with_source(error: CompileError, kernel: Kernel) -> CompileError:
    """The error, naming a file with the kernel's text."""
    path = directory() / "failed" / f"{kernel.key[:16]}.txt"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(kernel.text() + "\n")
    except OSError:
        return error
    error.facts.setdefault("kernel", kernel.name)
    error.facts["source"] = path
    return error


def _shown(kernel: Kernel, target: str) -> None:
    """What DEBUG shows of a kernel whose code is there already."""
    if debug_level() >= 3:
        rendered = renderer(target).render(kernel)
        show_source(kernel, rendered)
        show_code(rendered)
