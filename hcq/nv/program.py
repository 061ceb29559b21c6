"""A kernel in GPU memory: its launch record as a template, constant bank 0, launch limits.

Limits are LaunchError, raised before any word exists.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hcq.arguments import Argument, ArgumentLayout
from hcq.bits import align
from hcq.nv.arch import SYSTEM_SHARED, Arch
from hcq.nv.cubin import Cubin
from hcq.nv.defs import bank0 as bank0_defs
from hcq.nv.defs.qmd import ALIGNMENT
from hcq.nv.driver import Windows
from hcq.nv.qmd import Constants, LaunchFacts, build
from hcq.program import BaseProgram

MAX_GRID = ((1 << 31) - 1, 65535, 65535)
MAX_BLOCK = (1024, 1024, 64)
LANES = 32
REGISTER_GRANULE = 256  # of a warp
WARP_GRANULE = 4
SHARED_GRANULE = 128
LOCAL_GRANULE = 32
BANK_GRANULE = 16


@dataclass(frozen=True)
class BankLayout(ArgumentLayout):
    """Constant bank 0 as an argument block: the driver's part, then the parameters."""

    head: bytes = b""

    def pack(self, values: Sequence[int | float], kernel: str = "") -> bytes:
        """The whole bank, launch sizes zero."""
        return self.head + super().pack(values, kernel)[len(self.head) :]


class Program(BaseProgram):
    """A kernel that lies in GPU memory at `address`."""

    arch: Arch
    alignment = ALIGNMENT  # of its argument blocks
    reads_launch_size = False  # from memory that the caller lays down: bank 0 is filled here

    def __init__(
        self,
        cubin: Cubin,
        arch: Arch,
        address: int,
        windows: Windows,
        filled: dict[int, tuple[Any, Any]],
        free: Callable[["Program"], None],
    ) -> None:
        super().__init__(cubin.entry, arch, address, free)
        self.cubin = cubin
        self.image = cubin.image(address)
        self._windows = windows
        self._templates: dict[tuple[int, ...], list[int]] = {}
        self._heads: dict[tuple[Any, Any], bytes] = {}
        self.filled = filled
        self._lay_out()

    def _lay_out(self) -> None:
        base = self.arch.bank0.parameters
        parameters = self.cubin.parameters
        end = parameters[-1].offset + parameters[-1].size if parameters else 0
        self.bank_size = align(base + end, BANK_GRANULE)
        self._parameters = ArgumentLayout(parameters, self.bank_size - base)
        moved = tuple(Argument(a.name, a.offset + base, a.size, a.is_pointer) for a in parameters)
        self._head = self._driver_part()
        self.arguments = BankLayout(moved, self.bank_size, head=self._head)

    def _driver_part(self) -> bytes:
        bank = self.arch.bank0
        head = bytearray(bank.parameters)
        struct.pack_into("<Q", head, bank.local_window, self._windows.local)
        if bank.shared_window is not None:
            struct.pack_into("<Q", head, bank.shared_window, self._windows.shared)
        struct.pack_into("<I", head, bank.stack_pointer, bank0_defs.STACK_POINTER)
        if self.arch.has_system_shared_in_code:
            struct.pack_into("<I", head, bank.reserved_shared, SYSTEM_SHARED)
            struct.pack_into("<I", head, bank.reserved_shared_end, SYSTEM_SHARED)
        return bytes(head)

    def bank(
        self,
        values: Sequence[int | float],
        grid: Sequence[int] | None = None,
        block: Sequence[int] | None = None,
    ) -> bytes:
        """Constant bank 0 for one launch."""
        data = self._parameters.pack(values, self.name)
        if grid is None or block is None:
            return self._head + data
        key = tuple(grid), tuple(block)
        head = self._heads.get(key)
        if head is None:
            filled = bytearray(self._head)
            struct.pack_into("<3I", filled, self.arch.bank0.block, *block)
            struct.pack_into("<3I", filled, self.arch.bank0.grid, *grid)
            head = self._heads[key] = bytes(filled)
            if len(self._heads) > 64:
                self._heads = {key: head}
        return head + data

    def size_words(
        self, arguments: Any, grid: Sequence[Any], block: Sequence[int]
    ) -> list[tuple[Any, Any]]:
        """(address, value) of the words of a bank that hold the sizes of a launch."""
        bank = self.arch.bank0
        words = [(arguments + bank.block + 4 * axis, block[axis]) for axis in range(3)]
        return words + [(arguments + bank.grid + 4 * axis, grid[axis]) for axis in range(3)]

    # What the kernel takes.

    @property
    def registers(self) -> int:
        """Registers of a thread."""
        return self.cubin.needs.registers

    @property
    def shared_size(self) -> int:
        """Bytes of shared memory a block uses."""
        return self.cubin.needs.shared

    @property
    def local_size(self) -> int:
        """Bytes of private memory of a thread, with what the hardware keeps."""
        return align(self.cubin.needs.stack + bank0_defs.STACK_RESERVED, LOCAL_GRANULE)

    @property
    def max_threads(self) -> int:
        """Most threads of a block the code was compiled for."""
        most = self.cubin.needs.max_threads
        compiled = most[0] * most[1] * most[2] if most else self.arch.max_threads
        return min(compiled, self.arch.max_threads)

    @property
    def register_threads(self) -> int:
        """Most threads of a block whose registers the chip has."""
        per_warp = align(self.registers * LANES, REGISTER_GRANULE)
        warps = self.arch.registers // per_warp // WARP_GRANULE * WARP_GRANULE
        return warps * LANES

    # Launching.

    def _check_shape(self, block: tuple[int, ...]) -> None:
        for axis in range(3):
            if block[axis] > MAX_BLOCK[axis]:
                raise self._over(f"block[{axis}]", block[axis], MAX_BLOCK[axis])
        required = self.cubin.needs.required_block
        if required is not None and block != required:
            raise self._over("block", block, f"{required} it was compiled for")

    def _check_memory(self) -> None:
        if self.shared_size > self.arch.max_shared:
            raise self._over("shared memory bytes", self.shared_size, self.arch.max_shared)

    def _largest_grid(self, block: tuple[int, ...]) -> Sequence[int]:
        return MAX_GRID

    def record(self, block: tuple[int, ...]) -> list[int]:
        """The launch record for a block size, holes zero; laid down once, not to be changed."""
        found = self._templates.get(block)
        if found is None:
            x, y, z = block
            found = self._templates[block] = build(self.arch.qmd_version, self._facts((x, y, z)))
        return found

    def _facts(self, block: tuple[int, int, int]) -> LaunchFacts:
        needs, places = self.cubin.needs, self.cubin.places
        constants = {0: Constants(0, self.bank_size)}
        for number, section in self.cubin.banks.items():
            constants[number] = Constants(self.address + places[section.index], section.size)
        return LaunchFacts(
            code=self.address + self.cubin.code_at,
            code_size=self.cubin.text.size,
            block=block,
            registers=needs.registers,
            barriers=needs.barriers,
            shared=align(SYSTEM_SHARED + needs.shared, SHARED_GRANULE),
            shared_sizes=self.arch.shared_sizes,
            local=self.local_size,
            sass_version=self.arch.sass_version,
            constants=constants,
            virtual_resources=needs.virtual_resources,
        )
