"""The executor of one simulated GPU: one launch at a time, native or interpreted.

Keeps what launches share: translated code, initial lanes, records and helper threads.
"""

from __future__ import annotations

import ctypes
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from sim.isa.jit import Jit
from sim.isa.kernels import BaseKernels, Stopped
from sim.isa.launch import Lanes, starting_lanes
from sim.isa.native import Library
from sim.memory import GpuMemory

RUN_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)



class Coded(Protocol):
    """A launch: `code` is the address of the first instruction."""

    @property
    def code(self) -> int: ...


LaunchT = TypeVar("LaunchT", bound=Coded)


class ExecutionFault(Exception):
    """A wave did what hardware reports as a fault, or was stopped.

    kind: what happened; address: the first bad byte or the instruction; access: "read", "write",
    "execute" or ""; pc: address of the instruction.
    """

    def __init__(self, kind: str, address: int, access: str, pc: int, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.address = address
        self.access = access
        self.pc = pc
        self.text = text


def aborted(fault: type[ExecutionFault], code: int) -> ExecutionFault:
    """What a launch ends with that was stopped."""
    return fault("aborted", code, "", code, f"the kernel at {code:#x} was stopped")


def never() -> bool:
    """The stop callback of a launch that nobody wants to stop."""
    return False


class BaseExecutor(ABC, Generic[LaunchT]):
    """What the executors of all instruction sets do alike.

    threads: host threads, the caller's included. interpret: the numpy interpreter instead of
    native code. cache_directory: where translated kernels are kept between processes.
    """

    fault: ClassVar[type[ExecutionFault]]
    kernels: BaseKernels[Any]
    wave: ClassVar[str]  # what this hardware calls them: names of counters and threads
    launch: ClassVar[str]

    def __init__(
        self,
        memory: GpuMemory,
        *,
        threads: int = 2,
        interpret: bool = False,
        cache_directory: str | None = None,
    ) -> None:
        self.memory = memory
        self.interpret = interpret
        self.threads = max(1, threads)
        self.jit = Jit(cache_directory)
        self._waves, self._launches = f"{self.wave}s", f"{self.launch}es"
        self.counters = {self._waves: 0, "instructions": 0, self._launches: 0}
        self._libraries: dict[int, tuple[Library, Any]] = {}
        self._lanes: dict[tuple[tuple[int, int, int], int], Lanes] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self.set_up()

    def run(self, launch: LaunchT, stop: Callable[[], bool] = never) -> None:
        """Run every work-group; ExecutionFault when a wave faults or stop() asks to end."""
        with self._lock, self.memory.in_use():
            self.counters[self._launches] += 1
            if self.is_empty(launch):
                return
            self.kernels.stop = stop
            try:
                if self.interpret:
                    self.run_interpreted(launch, stop)
                else:
                    self.run_native(launch, stop)
            except Stopped:
                raise aborted(self.fault, launch.code) from None

    def close(self) -> None:
        """Let the helper threads go."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    # --- what differs

    @abstractmethod
    def set_up(self) -> None:
        """The end of construction: make `kernels` and what else this instruction set has."""

    @abstractmethod
    def is_empty(self, launch: LaunchT) -> bool:
        """Whether there is nothing to run."""

    @abstractmethod
    def run_interpreted(self, launch: LaunchT, stop: Callable[[], bool]) -> None:
        """Run in the numpy interpreter."""

    @abstractmethod
    def run_native(self, launch: LaunchT, stop: Callable[[], bool]) -> None:
        """Translate and run."""

    @abstractmethod
    def load_library(self, width: int) -> Library:
        """The native library for waves of `width` lanes."""

    # --- shared with what runs a launch

    def library(self, width: int) -> tuple[Library, Any]:
        """The native library for a wave width, and its `run` as a callable."""
        found = self._libraries.get(width)
        if found is None:
            library = self.load_library(width)
            found = self._libraries[width] = library, RUN_TYPE(library.run)
        return found

    def lanes(self, threads: tuple[int, int, int], width: int = 32) -> Lanes:
        """Initial lane ids, kept since most launches share a few shapes."""
        key = (threads, width)
        if key not in self._lanes:
            self._lanes[key] = starting_lanes(threads, width)
        return self._lanes[key]

    def helper(self, work: Callable[[], None]) -> Future[None]:
        """Run work on a helper thread."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(
                max_workers=self.threads, thread_name_prefix=f"sim-{self.wave}"
            )
        return self._pool.submit(work)

    def count(self, waves: int, instructions: int) -> None:
        """Add to the counters."""
        self.counters[self._waves] += waves
        self.counters["instructions"] += instructions
