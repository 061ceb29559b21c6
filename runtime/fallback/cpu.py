"""The CPU as a device: loads x86-64 objects and runs their grid ranges on all cores.

Code arrives as a relocatable object in the form that runtime/backend.py describes
under `Code`; nothing is compiled here but the driver of cpu_driver.py. CPU:0,
CPU:1, ... are separate devices with memory and threads of their own; how many
threads (NUM_CPU_THREADS) is settled when a device opens. Launches have finished
when they return.
"""

import ctypes
import os
import struct
import threading
import time
from collections.abc import Sequence
from typing import Any

from hcq.errors import CodeObjectError, LaunchError, OutOfMemory, Unsupported
from hcq.settings import get
from runtime.fallback.cpu_driver import RECORD_WORDS, Cores, engine
from runtime.fallback.cpu_object import check_object

DEVICES = 64  # how many virtual devices there are
ALIGNMENT = 64  # bytes; a cache line, and the widest vector
CHUNKS_PER_THREAD = 4  # so that a slow thread does not hold up the others for long
# Source: x86-64 psABI, micro-architecture levels; names as LLVM spells features.
LEVELS = {
    "x86-64-v2": ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"),
    "x86-64-v3": ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"),
    "x86-64-v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
}

Place = tuple[Any, int]
Grid = tuple[int, int, int]


def count() -> int:
    """How many CPU devices can be opened."""
    return DEVICES


def open_backend(index: int) -> "CpuBackend":
    """CPU:index; Unsupported on a processor without code for it."""
    return CpuBackend(index)


class CpuMemory:
    """Bytes of this process. is_own: from our allocation, not foreign."""

    __slots__ = ("address", "is_own", "size")

    def __init__(self, address: int, size: int, is_own: bool) -> None:
        self.address = address
        self.size = size
        self.is_own = is_own


class CpuProgram:
    """A loaded object, and the launch record that is filled in for each run."""

    def __init__(self, code: Any, engine: Any, entry: int) -> None:
        self.name: str = code.entry
        self.engine = engine  # owns the code
        self.entry = entry
        self.grid: Grid = code.grid
        self.buffers = sum(a.kind == "buffer" for a in code.arguments)
        self.scalars = len(code.arguments) - self.buffers
        self.layout = struct.Struct(f"={self.buffers}Q{self.scalars}q")
        self.values = bytearray(max(self.layout.size, 8))
        self.values_at = _address(self.values)
        self.record = bytearray(8 * RECORD_WORDS)
        self.record_at = _address(self.record)


_RECORD = struct.Struct("=5Q")


class CpuBackend:
    """One CPU device. Meets runtime.backend.Backend by shape."""

    def __init__(self, index: int) -> None:
        self.name = f"CPU:{index}"
        levels = _levels()
        if not levels:
            raise Unsupported(
                f"{self.name} needs an x86-64 processor of level v2 or better",
                device=self.name,
                facts={"machine": os.uname().machine},
            )
        self.arch = levels[0]
        self.renderers = tuple(f"LLVM:{level}" for level in levels)
        self.memory_size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self._cores = Cores(get("NUM_CPU_THREADS") or len(os.sched_getaffinity(0)))
        self._lock = threading.Lock()
        libc = ctypes.CDLL(None)
        self._take = libc.aligned_alloc
        self._take.argtypes = (ctypes.c_size_t, ctypes.c_size_t)
        self._take.restype = ctypes.c_void_p
        self._give = libc.free
        self._give.argtypes = (ctypes.c_void_p,)
        self._give.restype = None

    def allocate(self, size: int, options: Any) -> CpuMemory:
        """Bytes aligned to 64; OutOfMemory if the machine cannot have that many."""
        if options.uncached:
            raise Unsupported(
                f"{self.name} has no memory with option 'uncached'",
                device=self.name,
                facts={"option": "uncached"},
                hint="leave the option out: processor memory is coherent",
            )
        if options.external:
            return CpuMemory(options.external, size, False)
        address = self._take(ALIGNMENT, -(-size // ALIGNMENT) * ALIGNMENT)
        if not address or size > self.memory_size:
            self._give(address)
            raise OutOfMemory(
                f"the machine has no {size} bytes",
                device=self.name,
                facts={"asked": size, "limit": self.memory_size},
            )
        if options.zero:
            ctypes.memset(address, 0, size)
        return CpuMemory(address, size, True)

    def free(self, memory: CpuMemory) -> None:
        """Give bytes back; foreign ones are left alone."""
        if memory.is_own:
            self._give(memory.address)

    def host_view(self, memory: CpuMemory) -> memoryview:
        """The bytes themselves."""
        return memoryview((ctypes.c_char * memory.size).from_address(memory.address)).cast("B")

    def copy_in(self, memory: CpuMemory, offset: int, data: memoryview) -> None:
        """Write data at an offset."""
        self.host_view(memory)[offset : offset + data.nbytes] = data

    def copy_out(self, memory: CpuMemory, offset: int, into: memoryview) -> None:
        """Read into a host buffer."""
        into[:] = self.host_view(memory)[offset : offset + into.nbytes]

    def transfer(
        self, target: CpuMemory, target_offset: int, source: CpuMemory, offset: int, size: int
    ) -> None:
        """Copy within the device; the ranges may overlap."""
        ctypes.memmove(target.address + target_offset, source.address + offset, size)

    def load(self, code: Any) -> CpuProgram:
        """Load a relocatable object; CodeObjectError if it is none, or for something else."""
        if code.format != "elf-x86_64" or code.target not in self.renderers:
            raise CodeObjectError(
                f"{self.name} cannot run {code.entry!r}",
                device=self.name,
                facts={
                    "found": f"{code.format} for {code.target}",
                    "wanted": f"elf-x86_64 for {' or '.join(self.renderers)}",
                },
            )
        import llvmlite.binding as llvm

        check_object(code.image, code.entry, self.name)
        loader = engine()
        loader.add_object_file(llvm.ObjectFileRef.from_data(code.image))
        loader.finalize_object()
        return CpuProgram(code, loader, loader.get_function_address(code.entry))

    def launch(
        self,
        program: CpuProgram,
        buffers: Sequence[Place],
        scalars: Sequence[int],
        grid: Grid | None = None,
    ) -> None:
        """Run all groups; finished on return."""
        groups = program.grid[0] if grid is None else grid[0]
        with self._lock:
            self._fill(program, program.record, program.values, buffers, scalars, groups)
            self._cores.run(program.record_at, 1, groups > 1)

    def launch_timed(
        self,
        program: CpuProgram,
        buffers: Sequence[Place],
        scalars: Sequence[int],
        grid: Grid | None = None,
        limit_ms: float | None = None,
    ) -> float:
        """Run, and return the seconds it took. A limit is Unsupported: nothing can stop it."""
        if limit_ms is not None:
            raise Unsupported(
                f"{self.name} cannot stop a running kernel",
                device=self.name,
                facts={"operation": "limit_ms", "kernel": program.name},
            )
        start = time.perf_counter()
        self.launch(program, buffers, scalars, grid)
        return time.perf_counter() - start

    def launch_batch(
        self, launches: Sequence[tuple[CpuProgram, Sequence[Place], Sequence[int], Grid | None]]
    ) -> None:
        """Run many launches, in order, by one native call."""
        records = bytearray(8 * RECORD_WORDS * max(len(launches), 1))
        kept = []
        parallel = False
        for i, (program, buffers, scalars, grid) in enumerate(launches):
            groups = program.grid[0] if grid is None else grid[0]
            values = bytearray(len(program.values))
            kept.append(values)
            part = memoryview(records)[8 * RECORD_WORDS * i :]
            self._fill(program, part, values, buffers, scalars, groups)
            parallel |= groups > 1
        with self._lock:
            self._cores.run(_address(records), len(launches), parallel)

    def synchronize(self, timeout: float | None = None) -> None:
        """Nothing is ever pending."""

    def health(self) -> str:
        """Always "ok"."""
        return "ok"

    def close(self) -> None:
        """End the threads."""
        self._cores.close()

    def _fill(
        self,
        program: CpuProgram,
        record: Any,
        values: bytearray,
        buffers: Sequence[Place],
        scalars: Sequence[int],
        groups: int,
    ) -> None:
        pointers = [memory.address + offset for memory, offset in buffers]
        if len(pointers) != program.buffers or len(scalars) != program.scalars:
            raise LaunchError(
                f"{program.name} takes {program.buffers} buffers and {program.scalars} scalars, "
                f"not {len(pointers)} and {len(scalars)}",
                device=self.name,
                facts={"kernel": program.name},
            )
        program.layout.pack_into(values, 0, *pointers, *scalars)
        at = program.values_at if values is program.values else _address(values)
        chunk = groups // ((self._cores.helpers + 1) * CHUNKS_PER_THREAD) or 1
        scalars_at = at + 8 * program.buffers
        _RECORD.pack_into(record, 0, program.entry, at, scalars_at, groups, chunk)


def _address(data: bytearray) -> int:
    """Where a bytearray's bytes lie; it must not be resized as long as that is used."""
    return ctypes.addressof(ctypes.c_char.from_buffer(data))


def _levels() -> list[str]:
    """The micro-architecture levels of this processor, best first; empty if it is another."""
    import llvmlite.binding as llvm

    if os.uname().machine != "x86_64":
        return []
    features = llvm.get_host_cpu_features()
    found: list[str] = []
    for level, needs in LEVELS.items():
        if not all(features.get(name, False) for name in needs):
            break
        found.insert(0, level)
    return found
