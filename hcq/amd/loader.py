"""Programs of one device: their code, private memory and argument blocks."""

from collections.abc import Callable, Sequence

from hcq.amd.code import CodeMemory
from hcq.amd.code_object import parse
from hcq.amd.copies import Copies
from hcq.amd.defs import descriptor
from hcq.amd.program import Program
from hcq.amd.queue import COMPUTE
from hcq.amd.scratch import ScratchMemory
from hcq.amd.work import AnyQueue, Work
from hcq.errors import BufferUseError, LaunchError
from hcq.memory import Buffer, BumpAllocator

LEAST_BLOCK = 16


class Loader:
    """Uploads code and lays down arguments; `ring` is the argument ring's memory."""

    def __init__(
        self,
        work: Work,
        copies: Copies,
        ring: Buffer,
        scratch: ScratchMemory,
        allocate: Callable[[int], Buffer],
    ) -> None:
        self._work = work
        self._copies = copies
        self._ring = ring
        self.scratch = scratch
        self.blocks = BumpAllocator(ring.address, ring.size, work.wait_reused)
        self._code = CodeMemory(allocate, lambda: work.timeline.reached)

    def load(self, image: bytes, entry: str) -> Program:
        """Upload a code object; CodeObjectError before anything is, OutOfMemory for its needs."""
        self._work.usable()
        code = parse(image, entry, self._work.arch)
        with self._work.lock:
            self.scratch.need(entry, code.descriptor["private_segment_fixed_size"])
            address, chunk = self._code.take(code.size)
        try:
            program = Program(
                code, self._work.arch, address, lambda: self.scratch.current, self._unload
            )
            # Not under the lock: it may wait for the GPU and for other threads' copies.
            self._copies.copy_in(chunk, address - chunk.address, program.image)
        except BaseException:  # Ctrl-C too must not cost code memory
            with self._work.lock:
                self._code.give(address, self._work.timeline.submitted)
            raise
        queue = self._work.queue(COMPUTE).acquire_code()
        with self._work.lock:
            self._work.channels[COMPUTE].prelude = list(queue.words)
        return program

    def commit(self, queue: AnyQueue, value: int) -> None:
        """The argument blocks of a queue are in use until the timeline passes a value."""
        commit = self.blocks.commit
        if queue.laps:
            for block, lap in zip(queue.blocks, queue.laps, strict=False):
                commit(block, value, lap)
        queue.laps = [commit(block, value) for block in queue.blocks]

    def pin(self, queue: AnyQueue, count: int = 1) -> None:
        """Keep the argument blocks of a queue that is bound; with -1 no longer."""
        self.commit(queue, 0)
        for block in queue.blocks:
            self.blocks.pin(block, count)

    def _unload(self, program: Program) -> None:
        if program.address and not self._work.is_closed:
            with self._work.lock:
                self._code.give(program.address, self._work.timeline.submitted)
        program.address = 0

    def arguments(
        self,
        program: Program,
        values: Sequence[int | float],
        grid: Sequence[int] | None,
        block: Sequence[int] | None,
    ) -> int:
        """The GPU address of an argument block in the ring."""
        if grid is not None and block is not None:
            # Here already: a block of arguments is only given back by a submission.
            program.check_launch(grid, block)
        data = program.arguments.pack(values, program.name)
        if program.reads_launch_size:
            data = with_hidden(program, data, grid, block)
        with self._work.lock:
            self._work.usable()
            size = max(LEAST_BLOCK, len(data))
            if size > self.blocks.limit:
                raise LaunchError(
                    f"kernel {program.name}: argument bytes {size} is outside the limit "
                    f"{self.blocks.limit}",
                    facts={"kernel": program.name, "value": size, "limit": self.blocks.limit},
                )
            address = self.blocks.take(size, program.code.kernarg_alignment)
            if self._ring.region is None:
                raise BufferUseError("the argument ring has no host view")
            self._ring.region.write(address - self._ring.address, data)
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
