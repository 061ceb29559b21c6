"""LLVM text -> machine code of this process, with compiled objects kept on disk.

One execution engine serves the whole process. A cached object is named by the
hash of everything that decides its bytes: the caller's key (with a digest of its
own sources), this package's sources, LLVM's version and the processor's
features. A damaged or unwritable cache costs time, never correctness.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from hcq.errors import CacheWarning, SimFault

FOLDER_LIMIT = 100  # objects in one of the cache's 256 folders
NEEDED = ("avx2", "fma", "f16c")  # processor features

_LOCK = threading.RLock()


class Jit:
    """Compiles, caches and loads. `directory` None: $XDG_CACHE_HOME/hcq/sim."""

    def __init__(self, directory: str | None = None) -> None:
        self.directory = Path(directory) if directory else default_directory()
        self.compiled = 0  # objects made by LLVM
        self.reused = 0  # objects found on disk
        self._warned = False

    def load(self, key: str, text: Callable[[], str], names: Iterable[str]) -> list[int]:
        """Addresses of functions; text() is asked for the module only when none is cached.

        Function names must be unique in the process: put part of the key into them.
        """
        with _LOCK:
            engine = _engine()
            known = [engine.get_function_address(name) for name in names]
            if known and all(known):
                return known
            image = self._object(key, text)
            import llvmlite.binding as llvm

            engine.add_object_file(llvm.ObjectFileRef.from_data(image))
            engine.finalize_object()
            found = [int(engine.get_function_address(name)) for name in names]
        if not all(found):
            raise SimFault("a compiled object lacks its functions", facts={"key": key})
        return found

    def _object(self, key: str, text: Callable[[], str]) -> bytes:
        name = hashlib.sha256(f"{key}\n{fingerprint()}".encode()).hexdigest()
        path = self.directory / name[:2] / f"{name}.o"
        image = _read(path)
        if image is not None:
            self.reused += 1
            return image
        image = compile_text(text())
        self.compiled += 1
        try:
            _write(path, image)
        except OSError as error:
            self._warn(error)
        return image

    def _warn(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                CacheWarning(
                    f"translated kernels cannot be kept in {self.directory}: {error.strerror}; "
                    "they are translated again in every process. "
                    "hint: set XDG_CACHE_HOME to a directory that can be written"
                ),
                stacklevel=2,
            )


def default_directory() -> Path:
    """$XDG_CACHE_HOME/hcq/sim, or ~/.cache/hcq/sim."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "hcq" / "sim"


def trim(folder: Path, most: int = FOLDER_LIMIT) -> None:
    """Remove the oldest half of a folder's objects once there are more than `most`."""
    objects = list(folder.glob("*.o"))
    if len(objects) > most:
        objects.sort(key=lambda path: path.stat().st_mtime)
        for path in objects[: len(objects) // 2]:
            path.unlink(missing_ok=True)


def compile_text(text: str) -> bytes:
    """An object file from a module's text."""
    import llvmlite.binding as llvm

    with _LOCK:
        machine = _machine()
        try:
            module = llvm.parse_assembly(text)
        except RuntimeError as error:
            raise SimFault("the translation is not valid LLVM IR", facts={"why": error}) from error
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        module.verify()
        _optimise(module)
        return bytes(machine.emit_object(module))


@cache
def fingerprint() -> str:
    """Changes when this package, LLVM or the processor does."""
    import llvmlite
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features().flatten()
    facts = llvmlite.__version__, llvm.llvm_version_info, llvm.get_host_cpu_name(), features
    return hashlib.sha256(f"{facts} {digest_of(Path(__file__).parent)}".encode()).hexdigest()


@cache
def digest_of(directory: Path) -> str:
    """Changes when any source or table in a directory does."""
    digest = hashlib.sha256()
    for source in sorted(directory.iterdir()):
        if source.suffix in (".py", ".tsv"):
            digest.update(source.read_bytes())
    return digest.hexdigest()


def _optimise(module: Any) -> None:
    """Inlining, and removal of what nobody uses.

    More passes made kernels no faster, only their translation slower: registers live in
    memory between blocks, and code generation does the rest within one.
    """
    import llvmlite.binding as llvm

    options = llvm.create_pipeline_tuning_options(speed_level=1)
    builder = llvm.create_pass_builder(_machine(), options)
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_dead_code_elimination_pass()
    passes.run(module, builder)


def check_processor(features: Mapping[str, bool]) -> None:
    """SimFault unless the host has what translated code cannot do without.

    Without these, LLVM calls functions of a C library that is not linked.
    """
    missing = [name for name in NEEDED if not features.get(name)]
    if missing:
        raise SimFault(
            f"this processor lacks {', '.join(missing)}",
            hint="simulated kernels need an x86-64 processor of 2013 or later (AVX2, FMA, F16C)",
        )


@cache
def _machine() -> Any:
    import llvmlite.binding as llvm

    check_processor(llvm.get_host_cpu_features())
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=1,
        reloc="pic",
        codemodel="small",
    )


@cache
def _engine() -> Any:
    import llvmlite.binding as llvm

    _machine()  # a second one: the engine owns the machine it is given
    machine = llvm.Target.from_default_triple().create_target_machine(
        reloc="pic", codemodel="small", jit=True
    )
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


def _read(path: Path) -> bytes | None:
    """A cached object whose checksum holds, else None."""
    try:
        stored = path.read_bytes()
    except OSError:
        return None
    digest, image = stored[:32], stored[32:]
    return image if image and hashlib.sha256(image).digest() == digest else None


def _write(path: Path, image: bytes) -> None:
    """Put an object in place in one step, so that a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    trim(path.parent)
    handle, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(image).digest() + image)
        os.replace(name, path)
    except OSError:
        os.unlink(name)
        raise
