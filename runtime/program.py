"""A program loaded on a device, and launching it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hcq.errors import BufferUseError, LaunchError, nearest
from runtime.backend import Backend, Code, CodeArgument, LaunchSize, Loaded, Memory
from runtime.counters import GlobalCounters

if TYPE_CHECKING:
    from runtime.buffer import Buffer
    from runtime.opened import OpenedDevice

Place = tuple[Memory, int]
Grid = tuple[int, int, int]


class Program:
    """Machine code on its device. Calling it launches it.

    name: the entry. target: the renderer it was made by. code: what was loaded.
    arguments: in order, typed. grid, block: launch sizes.
    """

    def __init__(self, device: "OpenedDevice", code: Code, loaded: Loaded) -> None:
        self.device = device
        self.backend: Backend = device.backend
        self.code = code
        self.loaded = loaded
        self.name = code.entry
        self.target = code.target
        self.arguments: tuple[CodeArgument, ...] = code.arguments
        self.grid: Grid = code.grid
        self.block: Grid = code.block
        self.buffer_count = sum(a.kind == "buffer" for a in code.arguments)
        self.scalar_count = len(code.arguments) - self.buffer_count
        self.is_empty = 0 in code.grid
        self.runs = 0

    def __repr__(self) -> str:
        return f"<Program {self.name} {self.target} on {self.device.name}>"

    def __call__(
        self,
        *buffers: "Buffer",
        scalars: Sequence[int] = (),
        wait: bool = False,
        limit_ms: float | None = None,
    ) -> float | None:
        """Launch once; with wait=True return the device seconds it took.

        limit_ms bounds the kernel's own run: past it GpuTimeout, where the
        backend can tell. Counted like any kernel.
        """
        places = [buffer.located() for buffer in buffers]
        self._check(len(places), len(scalars))
        if self.is_empty:
            return 0.0 if wait else None
        seconds = None
        if wait or limit_ms is not None:
            seconds = self.timed(places, scalars, None, limit_ms)
        else:
            self.launch(places, scalars)
        GlobalCounters.record(self.device.counters, 0, 0, seconds or 0.0)
        return seconds

    def launch(
        self, places: Sequence[Place], scalars: Sequence[int], grid: Grid | None = None
    ) -> None:
        """Queue one run; (memory, byte offset) per buffer argument."""
        self.runs += 1
        if grid is None:
            self.backend.launch(self.loaded, places, scalars)
        else:
            self.backend.launch(self.loaded, places, scalars, grid)

    def timed(
        self,
        places: Sequence[Place],
        scalars: Sequence[int],
        grid: Grid | None = None,
        limit_ms: float | None = None,
    ) -> float:
        """Run, wait, and return the device seconds it took."""
        self.runs += 1
        timed = self.device.hook("launch_timed")
        return float(timed(self.loaded, places, scalars, grid, limit_ms))

    def launch_grid(self, variables: Mapping[str, int]) -> Grid | None:
        """The launch sizes for these variables; None: those of the code.

        LaunchError for a variable without a value, and for sizes outside 0 to the code's.
        """
        sizes = self.code.sizes
        if sizes is None:
            return None
        x, y, z = (
            self._size(size, most, variables)
            for size, most in zip(sizes, self.code.grid, strict=True)
        )
        return x, y, z

    def _size(self, size: int | LaunchSize, most: int, variables: Mapping[str, int]) -> int:
        if isinstance(size, int):
            return size
        value = bound(self, size.variable, variables)
        found = size.at(value)
        if not 0 <= found <= most:
            raise LaunchError(
                f"{self.name}: {size.variable}={value} asks for {found} groups, 0 to {most} are "
                "possible",
                device=self.device.name,
                facts={"kernel": self.name, "variable": size.variable, "limit": most},
            )
        return found

    def _check(self, buffers: int, scalars: int) -> None:
        if buffers != self.buffer_count or scalars != self.scalar_count:
            raise LaunchError(
                f"{self.name} on {self.device.name} takes {self.buffer_count} buffers and "
                f"{self.scalar_count} scalars, not {buffers} and {scalars}",
                device=self.device.name,
                facts={"kernel": self.name, "buffers": buffers, "scalars": scalars},
            )


def bound(program: Any, variable: str, variables: Mapping[str, int]) -> int:
    """The value of a variable; LaunchError naming it if it has none."""
    try:
        return variables[variable]
    except KeyError:
        raise LaunchError(
            f"{program.name}: variable {variable!r} is not bound{nearest(variable, variables)}",
            device=program.device.name,
            facts={"kernel": program.name, "variable": variable, "bound": sorted(variables)},
        ) from None


def check_device(program: Program, buffer: "Buffer") -> None:
    """BufferUseError if a buffer lies on another device than the program."""
    if buffer.opened is not program.device:
        raise BufferUseError(
            f"{program.name} runs on {program.device.name} and cannot use {buffer}",
            device=program.device.name,
            facts={"kernel": program.name, "buffer_device": buffer.device},
        )
