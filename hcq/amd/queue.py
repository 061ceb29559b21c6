"""The verbs as packets: compute queues (PM4) and copy queues (SDMA)."""

from collections.abc import Sequence
from typing import Any, Self, TypeGuard

from hcq.amd import pm4, sdma
from hcq.amd.arch import Arch
from hcq.amd.defs import pm4 as pm4_defs
from hcq.amd.defs import sdma as sdma_defs
from hcq.amd.program import Program
from hcq.builder import Builder
from hcq.errors import LaunchError
from hcq.queue import COMPUTE, COPY, Grid, Number, Word, high, low, word32
from hcq.timeline import TIME_OFFSET

WORD_MASK = 0xFFFF_FFFF
KERNARG_ALIGNMENT = 16


class _Queue(Builder):
    arch: Arch
    max_write_words = 0x3FFC


class ComputeQueue(_Queue):
    """PM4 for a compute channel."""

    kind = COMPUTE

    def wait(self, address: Number, value: Number) -> Self:
        """Go on once the cell at address is at least value (32 bits), then drop stale caches."""
        self._address("wait", address, 4)
        function = pm4_defs.WAIT_GREATER_EQUAL
        self._packet(*pm4.wait_memory(address, function, value, WORD_MASK))
        return self._packet(*pm4.acquire(self.arch, **self.arch.acquire_all))

    def signal(self, address: Number, value: Number) -> Self:
        """Write time, then value (64 bits), once everything before is done and visible."""
        self._address("signal", address, 8)
        self._fits_word("signal value", value)
        self._signals(address)
        # The time goes first: who sees the value must find the time beside it.
        self.timestamp(address + TIME_OFFSET)
        return self._packet(*pm4.release(self.arch, address, value, pm4_defs.RELEASE_DATA_64))

    def timestamp(self, address: Number) -> Self:
        """Write the GPU clock once everything before has finished."""
        self._address("timestamp", address, 8)
        return self._packet(
            *pm4.release(self.arch, address, 0, pm4_defs.RELEASE_DATA_GPU_CLOCK, flush=False)
        )

    def barrier(self) -> Self:
        """What follows sees what earlier launches of this queue wrote."""
        self._packet(*pm4.partial_flush())
        return self._packet(*pm4.acquire(self.arch, **self.arch.acquire))

    def launch(self, program: Program, arguments: Number, grid: Grid, block: Sequence[int]) -> Self:
        """Run a program; LaunchError outside its or the chip's limits, nothing for a zero grid."""
        self._check_program(program)
        program.check_launch(grid, block)
        if isinstance(arguments, int):
            self.blocks.append(arguments)  # so that submit gives it back, whatever comes of it
        if 0 in grid:
            return self
        if isinstance(arguments, int) and not _can_hold(arguments, program.kernarg_size):
            raise LaunchError(
                f"kernel {program.name}: the argument block is not 16-byte aligned",
                facts={"address": hex(arguments)},
            )
        if program.kernarg_size:
            self._address("launch", arguments, KERNARG_ALIGNMENT)
        if program.reads_launch_size and isinstance(arguments, int):
            program.knows_sizes(arguments, grid, tuple(block))
        template = program.launch_words(tuple(block))
        self._launched(program, grid, tuple(block))
        if isinstance(arguments, int) and _are_ints(grid):
            return self._plain(template.filled(arguments, grid), template.starts)
        words: list[Word] = list(template.words)
        if template.arguments_at is not None:
            words[template.arguments_at] = low(arguments)
            words[template.arguments_at + 1] = high(arguments)
        for axis in range(3):
            words[template.grid_at + axis] = word32(grid[axis], f"grid[{axis}]")
        return self._packets(words, template.starts)

    def write(self, address: Number, words: Sequence[int]) -> Self:
        """Store 32-bit words."""
        self._address("write", address, 4)
        self._words_fit(words)
        return self._packet(*pm4.write_data(address, words))

    def poll(self, address: Number, value: int, mask: int = WORD_MASK) -> Self:
        """Go on once the word at address, under mask, equals value."""
        self._address("poll", address, 4)
        self._mask(mask)
        return self._packet(*pm4.wait_memory(address, pm4_defs.WAIT_EQUAL, value, mask))

    def interrupt(self, slot: int, event: int) -> Self:
        """Wake the host: write the event's slot, then interrupt with its id."""
        data = pm4_defs.RELEASE_DATA_64
        return self._packet(*pm4.release(self.arch, slot, event, data, flush=False, event=event))

    def acquire_code(self) -> Self:
        """Drop cached instructions after code was uploaded."""
        return self._packet(*pm4.acquire(self.arch, **self.arch.acquire_code))


class CopyQueue(_Queue):
    """SDMA for a copy channel. The engine runs its packets in order."""

    kind = COPY

    def wait(self, address: Number, value: Number) -> Self:
        """Go on once the cell at address is at least value (32 bits), then drop stale caches."""
        self._address("wait", address, 4)
        function = sdma_defs.POLL_GREATER_EQUAL
        self._packet(*sdma.poll_memory(address, function, value, WORD_MASK))
        return self._packet(*sdma.cache_request(gl2_inv=1, gl2_wb=1))

    def signal(self, address: Number, value: Number) -> Self:
        """Write time, then value (its low 32 bits; above that FieldError)."""
        self._address("signal", address, 8)
        self._fits_word("signal value", value)
        self._signals(address)
        self._packet(*sdma.cache_request(gl2_wb=1))
        self.timestamp(address + TIME_OFFSET)
        return self._packet(*sdma.fence(address, value))

    def timestamp(self, address: Number) -> Self:
        """Write the GPU clock once everything before has finished."""
        self._address("timestamp", address, 8)
        return self._packet(*sdma.timestamp(address))

    def barrier(self) -> Self:
        """Nothing to do: packets of one copy queue run in order."""
        return self

    def copy(self, destination: Number, source: Number, size: int) -> Self:
        """Copy size bytes; overlapping int ranges behave like memmove."""
        for at, part in self._copy_pieces(destination, source, size, self.arch.max_copy_bytes):
            self._packet(*sdma.copy_linear(destination + at, source + at, part))
        return self

    def fill(self, destination: Number, value: int, size: int) -> Self:
        """Set size bytes to the byte value."""
        for at, part in self._fill_pieces(destination, value, size, self.arch.max_copy_bytes):
            self._packet(*sdma.fill(destination + at, value, part))
        return self

    def write(self, address: Number, words: Sequence[int]) -> Self:
        """Store 32-bit words."""
        self._address("write", address, 4)
        self._words_fit(words)
        return self._packet(*sdma.write_linear(address, words))

    def poll(self, address: Number, value: int, mask: int = WORD_MASK) -> Self:
        """Go on once the word at address, under mask, equals value."""
        self._address("poll", address, 4)
        self._mask(mask)
        return self._packet(*sdma.poll_memory(address, sdma_defs.POLL_EQUAL, value, mask))

    def interrupt(self, slot: int, event: int) -> Self:
        """Wake the host: write the event's slot, then interrupt with its id."""
        self._packet(*sdma.fence(slot, event))
        return self._packet(*sdma.trap(event))


def _are_ints(grid: Sequence[Any]) -> TypeGuard[Sequence[int]]:
    x, y, z = grid
    return isinstance(x, int) and isinstance(y, int) and isinstance(z, int)


def _can_hold(address: int, size: int) -> bool:
    return 0 <= address < 1 << 64 and not (size and address % KERNARG_ALIGNMENT)
