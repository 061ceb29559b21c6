"""What a device must do, and what it is handed: the protocols between runtime and the rest.

A backend names the renderers whose code it can load; it never compiles. Backends
in runtime/fallback meet these protocols by shape.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class CodeArgument:
    """One kernel argument in order. kind: "buffer" or "scalar" (`dtype` names its type)."""

    kind: str
    dtype: str
    size: int  # bytes in the argument block: 8 for a buffer
    written: bool = False


@dataclass(frozen=True)
class LaunchSize:
    """A launch size that depends on a variable: ceil(value * multiply / divide)."""

    variable: str
    multiply: int = 1
    divide: int = 1

    def at(self, value: int) -> int:
        """The size for a value of the variable."""
        return -(-value * self.multiply // self.divide)


@dataclass(frozen=True)
class Code:
    """Machine code of one kernel, and what launching it needs.

    format: "hsaco", "cubin", "elf-x86_64", "loop-ir" or "source". grid counts
    work-groups and block work-items, 3-tuples. For elf-x86_64 the entry is
    `void entry(void **buffers, const int64_t *scalars, int64_t begin, int64_t end)`
    and runs the work-groups begin..end of grid[0]; groups are independent.
    """

    target: str  # "LLVM:gfx1100"
    format: str
    image: bytes
    entry: str
    arguments: tuple[CodeArgument, ...]
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (1, 1, 1)
    local_bytes: int = 0
    key: str = ""  # of the kernel it was made from
    facts: dict[str, Any] = field(default_factory=dict, compare=False)
    # Where launch sizes depend on variables: stands for grid, whose numbers are then the largest.
    sizes: tuple[int | LaunchSize, int | LaunchSize, int | LaunchSize] | None = None


class Kernel(Protocol):
    """Something that can be compiled; jit's kernels meet it."""

    @property
    def name(self) -> str: ...
    @property
    def key(self) -> str: ...
    def compile(self, target: str) -> Code: ...


@dataclass(frozen=True)
class MemoryOptions:
    """How a buffer wants its memory. `zero`: zero bytes are seen first."""

    host: bool = False  # pinned host memory the device reads directly
    cpu_access: bool = False  # a host view is needed
    uncached: bool = False
    nolru: bool = False  # never enters the reuse cache
    zero: bool = False
    external: int = 0  # address of foreign memory that is used, never freed


class Memory(Protocol):
    """A backend's own handle of allocated bytes."""

    address: int
    size: int


class Loaded(Protocol):
    """A program on its device."""

    name: str


# Operations that a backend may lack; OpenedDevice.hook() refuses them by name.
HOOKS = (
    *("copy_in", "copy_out", "host_view", "transfer", "map", "offset"),
    *("launch_timed", "launch_batch", "encode", "decode"),
)


class Backend(Protocol):
    """One opened device.

    Order: launches and copies of one backend take effect in the order they are
    called; copy_out returns when the bytes are there.
    """

    name: str  # "AMD:0"
    arch: str  # "gfx1100"
    renderers: tuple[str, ...]  # best first, KIND:ARCH

    def allocate(self, size: int, options: MemoryOptions) -> Memory: ...
    def free(self, memory: Memory) -> None: ...
    def host_view(self, memory: Memory) -> memoryview | None:
        """The memory as bytes without copying, or None; the caller synchronizes."""

    def copy_in(self, memory: Memory, offset: int, data: memoryview) -> None: ...
    def copy_out(self, memory: Memory, offset: int, into: memoryview) -> None: ...
    def transfer(
        self, target: Memory, target_offset: int, source: Memory, source_offset: int, size: int
    ) -> None:
        """Copy between two memories of this backend, like memmove."""

    def load(self, code: Code) -> Loaded: ...
    def launch(
        self,
        program: Any,
        buffers: Sequence[tuple[Memory, int]],
        scalars: Sequence[int],
        grid: tuple[int, int, int] | None = None,
    ) -> None:
        """Run with (memory, byte offset) per buffer argument, in the Code's order.

        `program` is what load() returned; grid: in place of the Code's.
        """

    # launch_timed(program, buffers, scalars, grid, limit_ms) -> device seconds, where there is
    # a clock; launch_batch(launches) runs a list of (program, buffers, scalars, grid) in one call.

    def synchronize(self, timeout: float | None = None) -> None: ...
    def health(self) -> str: ...
    def close(self) -> None: ...
