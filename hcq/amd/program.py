"""A kernel in GPU memory: its launch as a template of words, and the limits of a launch.

Limits are LaunchError, raised before any word exists.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hcq.amd import pm4
from hcq.amd.arch import Arch
from hcq.amd.code_object import CodeObject
from hcq.amd.defs import descriptor as defs
from hcq.amd.defs import registers
from hcq.bits import Layout, align, hi32, lo32
from hcq.elf import SHF_EXECINSTR, bad
from hcq.errors import LaunchError
from hcq.program import BaseProgram

MAX_GRID = (1 << 31) - 1
MAX_THREADS = (1 << 32) - 1  # work-items of one axis


@dataclass(frozen=True)
class LaunchTemplate:
    """Words of a launch with holes: the argument address and the grid."""

    words: tuple[int, ...]
    starts: tuple[int, ...]  # first words of the packets after the first
    arguments_at: int | None
    grid_at: int

    def filled(self, arguments: int, grid: Sequence[Any]) -> list[int]:
        """The words for an argument address and a checked grid."""
        words = list(self.words)
        if self.arguments_at is not None:
            words[self.arguments_at] = lo32(arguments)
            words[self.arguments_at + 1] = hi32(arguments)
        words[self.grid_at : self.grid_at + 3] = grid
        return words


@dataclass(frozen=True)
class Scratch:
    """The private memory in force: where it lies and TMPRING_SIZE for it."""

    address: int
    tmpring: int


NO_SCRATCH = Scratch(0, 0)


class Program(BaseProgram):
    """A kernel that lies in GPU memory at `address`."""

    arch: Arch

    def __init__(
        self,
        code: CodeObject,
        arch: Arch,
        address: int,
        scratch: Callable[[], Scratch],
        free: Callable[["Program"], None],
    ) -> None:
        super().__init__(code.entry, arch, address, free)
        self.code = code
        self.arguments = code.layout
        self._scratch = scratch
        self._templates: dict[tuple[Any, ...], LaunchTemplate] = {}
        self.image = code.image(address)
        # The offset is there only once it was relocated.
        at = code.descriptor_at + defs.ENTRY_OFFSET_AT
        entry = int.from_bytes(self.image[at : at + 8], "little", signed=True)
        self.entry_address = address + code.descriptor_at + entry
        self._check_entry()

    def _check_entry(self) -> None:
        offset = self.entry_address - self.address
        is_code = any(
            self.code.places[s.index] <= offset < self.code.places[s.index] + s.size
            for s in self.code.file.loaded()
            if s.flags & SHF_EXECINSTR
        )
        if not is_code or offset % defs.CODE_ALIGNMENT:
            raise bad("kernel_code_entry_byte_offset", offset, "does not lead to aligned code")

    @property
    def reads_launch_size(self) -> bool:
        """Whether its argument block must hold the launch size (hidden arguments)."""
        return bool(self.code.hidden)

    @cached_property
    def kernarg_size(self) -> int:
        """Bytes of the argument block."""
        return self.code.descriptor["kernarg_size"]

    @cached_property
    def lds_size(self) -> int:
        """Bytes of local memory per work-group."""
        return self.code.descriptor["group_segment_fixed_size"]

    @cached_property
    def scratch_size(self) -> int:
        """Bytes of private memory per work-item."""
        return self.code.descriptor["private_segment_fixed_size"]

    @property
    def max_threads(self) -> int:
        """Most work-items of a work-group the code was compiled for."""
        return min(self.code.max_threads, self.arch.max_threads)

    @cached_property
    def wave_size(self) -> int:
        """32 or 64."""
        return 32 if self.code.descriptor.properties["enable_wavefront_size32"] else 64

    @property
    def registers(self) -> int:
        """Vector registers of a work-item."""
        granule = defs.REGISTER_GRANULES[self.wave_size]
        return (registers.RSRC1.unpack(self._rsrc1())["vgprs"] + 1) * granule

    @property
    def register_threads(self) -> int:
        """Most work-items of a work-group whose registers the chip has."""
        halves = self.wave_size // 32  # a wave of 64 takes two registers of the file for one
        granule = self.arch.vgpr_granule // halves
        waves = self.arch.vgprs_per_simd // halves // align(self.registers, granule)
        units = 2 if registers.RSRC1.unpack(self._rsrc1())["wgp_mode"] else 1
        return waves * self.arch.simds_per_unit * units * self.wave_size

    def _check_memory(self) -> None:
        if self.lds_size > self.arch.lds_bytes:
            raise self._over("local memory bytes", self.lds_size, self.arch.lds_bytes)

    def _largest_grid(self, block: tuple[int, ...]) -> list[int]:
        return [min(MAX_GRID, MAX_THREADS // size) for size in block]

    def _over_grid(self, axis: int, size: int, block: Sequence[int]) -> LaunchError:
        if not 0 <= size <= MAX_GRID:
            return self._over(f"grid[{axis}]", size, MAX_GRID)
        return self._over(f"grid[{axis}] * block", size * block[axis], MAX_THREADS)

    def launch_words(self, block: tuple[int, ...]) -> LaunchTemplate:
        """The launch for a block size, laid down once."""
        scratch = self._scratch() if self.scratch_size else NO_SCRATCH
        key = (block, scratch.address, scratch.tmpring)
        found = self._templates.get(key)
        if found is None:
            found = self._templates[key] = self._lay_down(block, scratch)
        return found

    def _lay_down(self, block: tuple[int, ...], scratch: Scratch) -> LaunchTemplate:
        user, arguments_at = self._user_data()
        packets: list[list[Any]] = [
            pm4.program_registers(self.entry_address),
            pm4.set_registers(registers.COMPUTE_PGM_RSRC1, self._rsrc1(), self._rsrc2()),
            pm4.set_registers(
                self.arch.program_register3, self.code.descriptor["compute_pgm_rsrc3"]
            ),
            pm4.set_registers(registers.COMPUTE_TMPRING_SIZE, scratch.tmpring),
            pm4.set_registers(
                registers.COMPUTE_DISPATCH_SCRATCH_BASE_LO,
                lo32(scratch.address >> 8),
                hi32(scratch.address >> 8),
            ),
            pm4.set_registers(registers.COMPUTE_RESTART_X, 0, 0, 0),
            pm4.set_registers(registers.COMPUTE_RESOURCE_LIMITS, 0),
            pm4.set_registers(registers.COMPUTE_START_X, 0, 0, 0, *self._threads(block), 0, 0),
        ]
        if user:
            packets.append(pm4.set_registers(registers.COMPUTE_USER_DATA_0, *user))
        user_at = sum(len(p) for p in packets[:-1]) + 2
        packets.append(pm4.dispatch((0, 0, 0), self._initiator()))
        words = [word for packet in packets for word in packet]
        starts, at = [], 0
        for packet in packets:
            starts.append(at)
            at += len(packet)
        return LaunchTemplate(
            tuple(words),
            tuple(starts[1:]),
            None if arguments_at is None else user_at + arguments_at,
            len(words) - len(packets[-1]) + 1,
        )

    def _threads(self, block: tuple[int, ...]) -> list[int]:
        layout: Layout = registers.NUM_THREAD
        return [layout.pack(num_thread_full=size) for size in block]

    def _user_data(self) -> tuple[list[int], int | None]:
        words: list[int] = []
        arguments_at = None
        for name, count in defs.USER_SGPR_ORDER.items():
            if not self.code.descriptor.properties[name]:
                continue
            if name == "enable_sgpr_kernarg_segment_ptr":
                arguments_at = len(words)
            is_size = name == "enable_sgpr_private_segment_size"
            words += [self.scratch_size] if is_size else [0] * count
        return words, arguments_at

    def _rsrc1(self) -> int:
        return self.code.descriptor["compute_pgm_rsrc1"]

    def _rsrc2(self) -> int:
        fields = registers.RSRC2.unpack(self.code.descriptor["compute_pgm_rsrc2"])
        fields["lds_size"] = align(self.lds_size, defs.LDS_GRANULE) // defs.LDS_GRANULE
        return registers.RSRC2.pack(**fields)

    def _initiator(self) -> int:
        return registers.DISPATCH_INITIATOR.pack(
            compute_shader_en=1, force_start_at_000=1, cs_w32_en=int(self.wave_size == 32)
        )
