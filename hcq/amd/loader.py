"""Programs of one device: their code, private memory and argument blocks."""

from collections.abc import Callable, Sequence
from typing import Any

from hcq.amd.code_object import parse
from hcq.amd.defs import descriptor
from hcq.amd.program import Program
from hcq.amd.scratch import ScratchMemory
from hcq.amd.work import AmdWork
from hcq.arguments_ring import ArgumentRing
from hcq.code_memory import CodeMemory
from hcq.copies import Copies
from hcq.errors import LaunchError
from hcq.memory import Buffer
from hcq.queue import COMPUTE


class Loader(ArgumentRing):
    """Uploads code and lays down arguments; `ring` is the argument ring's memory."""

    def __init__(
        self,
        work: AmdWork,
        copies: Copies,
        ring: Buffer,
        scratch: ScratchMemory,
        allocate: Callable[[int], Buffer],
    ) -> None:
        super().__init__(work, ring)
        self._amd = work
        self.scratch = scratch
        self._code = CodeMemory(work, copies, allocate)
        self._filled: dict[int, tuple[Any, Any]] = {}  # argument blocks that hold launch sizes

    def load(self, image: bytes, entry: str) -> Program:
        """Upload a code object; CodeObjectError before anything is, OutOfMemory for its needs."""
        self._work.usable()
        code = parse(image, entry, self._amd.arch)
        with self._work.lock:
            self.scratch.need(entry, code.descriptor["private_segment_fixed_size"])

        def make(address: int) -> Program:
            arch, code_memory = self._amd.arch, self._code
            return Program(code, arch, address, lambda: self.scratch.current, code_memory.unload)

        program = self._code.upload(code.size, make)
        program.filled = self._filled
        queue = self._work.queue(COMPUTE).acquire_code()
        with self._work.lock:
            self._work.channels[COMPUTE].prelude = list(queue.words)
        return program

    def arguments(
        self,
        program: Program,
        values: Sequence[int | float],
        grid: Sequence[int] | None,
        block: Sequence[int] | None,
    ) -> int:
        """The GPU address of an argument block in the ring."""
        data = program.arguments.pack(values, program.name)
        if program.reads_launch_size:
            data = with_hidden(program, data, grid, block)
        address = self.place(data, program.code.kernarg_alignment, program.name)
        if program.reads_launch_size and grid is not None and block is not None:
            self._filled[address] = tuple(grid), tuple(block)
        else:
            self._filled.pop(address, None)
        return address


def with_hidden(
    program: Program, data: bytes, grid: Sequence[int] | None, block: Sequence[int] | None
) -> bytes:
    """An argument block with the launch size in its hidden arguments."""
    if grid is None or block is None:
        raise LaunchError(
            f"kernel {program.name} reads its launch size from memory: give grid and block",
            facts={"kernel": program.name, "hidden": [a.name for a in program.code.hidden]},
        )
    values = {
        **{f"hidden_block_count_{a}": grid[i] for i, a in enumerate("xyz")},
        **{f"hidden_group_size_{a}": block[i] for i, a in enumerate("xyz")},
        "hidden_grid_dims": 3,
    }
    filled = bytearray(data)
    for argument in program.code.hidden:
        if argument.name in descriptor.HIDDEN_ARGUMENTS:
            value = int(values.get(argument.name, 0))
            end = argument.offset + argument.size
            filled[argument.offset : end] = value.to_bytes(argument.size, "little")
    return bytes(filled)
