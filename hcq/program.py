"""What programs of every vendor do: be freed, and refuse launches outside their limits.

Limits are LaunchError, raised before any word exists. Sizes that passed are remembered,
so that a launch like the last one costs a comparison.
"""

from collections.abc import Callable, Sequence
from typing import Any

from hcq.errors import CodeObjectError, LaunchError
from hcq.queue import check_axes

_NONE: tuple[Any, Any] = (None, None)


def check_program(program: Any, call: str, device: Any = None) -> None:
    """LaunchError for what is no program, or one that another device loaded."""
    if not isinstance(program, BaseProgram):
        raise LaunchError(
            f"{call} takes a program, not {type(program).__name__}",
            facts={"given": repr(program)},
            hint="give what device.load() returned",
        )
    if device is not None and program.device is not device:
        raise LaunchError(
            f"{device.name}: kernel {program.name} was loaded on {program.device!r}",
            device=device.name,
            facts={"kernel": program.name, "loaded_on": program.device, "given_to": device},
            hint="load it on each device that runs it",
        )


def check_entry(entry: Any) -> None:
    """CodeObjectError for what is no kernel's name."""
    if not isinstance(entry, str):
        raise CodeObjectError(
            f"a kernel is named by a text, not by {type(entry).__name__}",
            facts={"given": repr(entry)},
            hint='such as device.load(image, "vector_add")',
        )


class BaseProgram:
    """A kernel that lies in GPU memory at `address`; `free` gives its code's memory back."""

    def __init__(self, name: str, arch: Any, address: int, free: Callable[[Any], None]) -> None:
        self.name = name
        self.arch = arch  # of the chip; it has a name
        self.address = address
        self.device: Any = None  # that loaded it
        # Argument blocks of the device that were laid down with launch sizes: by address.
        self.filled: dict[int, tuple[Any, Any]] = {}
        self._free = free
        self._passed = _NONE  # the last grid and block that were checked
        self._limits: dict[tuple[int, ...], Sequence[int]] = {}  # largest grids by block

    # What a vendor fills in.

    @property
    def registers(self) -> int:
        """Registers of a thread."""
        raise NotImplementedError

    @property
    def max_threads(self) -> int:
        """Most threads of a block the code was compiled for."""
        raise NotImplementedError

    @property
    def register_threads(self) -> int:
        """Most threads of a block whose registers the chip has."""
        raise NotImplementedError

    def _check_shape(self, block: tuple[int, ...]) -> None:
        """LaunchError for a block whose axes the chip or the code does not take."""

    def _check_memory(self) -> None:
        """LaunchError for more memory of a block than the chip has."""

    def _largest_grid(self, block: tuple[int, ...]) -> Sequence[int]:
        """Limits of the axes of a grid."""
        raise NotImplementedError

    def _over_grid(self, axis: int, size: int, block: Sequence[int]) -> LaunchError:
        """The error for an axis of a grid outside its limit."""
        return self._over(f"grid[{axis}]", size, self._limits[tuple(block)][axis])

    def free(self) -> None:
        """Give the code's memory back once the GPU is done with it; idempotent."""
        self._passed = _NONE
        self._free(self)

    def check_launch(self, grid: Sequence[Any], block: Sequence[int]) -> None:
        """LaunchError with value and limit."""
        # The very same tuples: what only compares equal, as 1.0 does to 1, is looked at.
        if grid is self._passed[0] and block is self._passed[1]:
            return
        check_axes(self.name, grid, block)
        if not self.address:
            raise LaunchError(f"kernel {self.name} was freed", hint="load the code again")
        limits = self.limits(tuple(block))
        for axis in range(3):
            size = grid[axis]
            if isinstance(size, int) and not 0 <= size <= limits[axis]:
                raise self._over_grid(axis, size, block)
        if type(grid) is type(block) is tuple:
            self._passed = grid, block

    def limits(self, block: tuple[int, ...]) -> Sequence[int]:
        """The largest grid on each axis; LaunchError for a block outside its own limits."""
        return self._limits.get(block) or self._check_block(block)

    def check_axis(self, axis: int, size: int, block: tuple[int, ...]) -> None:
        """LaunchError for a grid whose size on an axis is outside the limit."""
        if not 0 <= size <= self.limits(block)[axis]:
            raise self._over_grid(axis, size, block)

    def knows_sizes(self, arguments: int, grid: Any, block: Any) -> bool:
        """Whether an argument block holds these launch sizes; LaunchError when it holds others."""
        held = self.filled.get(arguments)
        if held is None:
            return False
        if held != (tuple(grid), block):
            raise self.other_sizes(arguments, grid, block)
        return True

    def other_sizes(self, arguments: int, grid: Any, block: Any) -> LaunchError:
        """The error for a second launch size with one argument block."""
        return LaunchError(
            f"kernel {self.name}: the argument block was laid down for another launch size",
            facts={
                "address": hex(arguments),
                "held": self.filled.get(arguments, "those of an earlier launch"),
                "grid": grid,
                "block": block,
            },
            hint="lay down arguments for each launch: device.arguments(..., grid, block)",
        )

    def _check_block(self, block: tuple[int, ...]) -> Sequence[int]:
        threads = block[0] * block[1] * block[2]
        if min(block) < 1:
            raise self._over("block", block, "at least 1 on each axis")
        self._check_shape(block)
        if threads > self.max_threads:
            raise self._over("threads", threads, self.max_threads)
        if threads > self.register_threads:
            what = f"{self.registers} registers of each thread, threads"
            raise self._over(what, threads, self.register_threads)
        self._check_memory()
        limits = self._limits[block] = self._largest_grid(block)
        return limits

    def _over(self, what: str, value: Any, limit: Any) -> LaunchError:
        return LaunchError(
            f"kernel {self.name}: {what} {value} is outside the limit {limit}",
            facts={"kernel": self.name, "value": value, "limit": limit, "arch": self.arch.name},
        )
