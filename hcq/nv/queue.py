"""The verbs as methods: compute queues and copy queues.

A queue's words are methods; its launch records lie behind them, in the same memory,
once the queue is placed. `seal()` lays them there, `point()` fills in where they are.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Self

from hcq.builder import Builder
from hcq.errors import LaunchError, Unsupported
from hcq.nv import methods
from hcq.nv.arch import Arch
from hcq.nv.defs import copy as copy_defs
from hcq.nv.defs import qmd
from hcq.nv.defs.host import MAX_METHOD_COUNT, MAX_SEGMENT_WORDS, Operation
from hcq.nv.program import Program
from hcq.nv.qmd import HOLES
from hcq.queue import (
    COMPUTE,
    COPY,
    Formula,
    Grid,
    Half,
    Number,
    Patch,
    Slot,
    Word,
    formula,
    plain,
    word32,
)
from hcq.timeline import TIME_OFFSET

RECORD_WORDS = qmd.ALIGNMENT // 4
WORD_MASK = 0xFFFF_FFFF
_LAUNCH = plain(methods.launch(0))
_POINTER_AT = 1


class _Queue(Builder):
    """What both kinds share: everything the host engine does."""

    arch: Arch
    max_write_words = MAX_METHOD_COUNT

    def __init__(self, arch: Arch, name: str = "") -> None:
        super().__init__(arch, name)
        self.records: list[list[int]] = []
        self.pointers: list[tuple[int, int]] = []  # (word, record whose address goes there)
        self.links: list[tuple[int, int]] = []  # (record, the one that follows when it is done)
        self.method_count: int | None = None  # once sealed
        self.first: list[int] = []  # words that its next submission runs before its own
        self._record_patches: list[tuple[int, Patch]] = []

    def wait(self, address: Number, value: Number) -> Self:
        """Go on once the cell at address is at least value (64 bits, in a circle)."""
        self._address("wait", address, 8)
        return self._packet(*methods.acquire(address, value))

    def timestamp(self, address: Number) -> Self:
        """Write the GPU clock once everything before has finished.

        The 8 bytes below become zero, so address is 8 more than a multiple of 16:
        where a signal cell keeps its time.
        """
        self._address("timestamp", address, 2 * TIME_OFFSET, TIME_OFFSET)
        return self._packet(*methods.release(address + -TIME_OFFSET, 0))

    def poll(self, address: Number, value: int, mask: int = WORD_MASK) -> Self:
        """Go on once the word at address, under mask, equals value: all bits, or one bit."""
        self._address("poll", address, 4)
        self._mask(mask)
        word32(value, "poll value")
        operation, payload = Operation.ACQUIRE, value
        if mask != WORD_MASK:
            if mask & (mask - 1) or mask == 0 or value not in (0, mask):
                raise Unsupported(
                    "a queue of this vendor polls all 32 bits or a single one",
                    facts={"queue": self.name, "mask": hex(mask), "value": hex(value)},
                    hint="give a mask of one bit, or none",
                )
            is_set = value == mask
            operation = Operation.ACQ_AND if is_set else Operation.ACQ_NOR
            payload = mask if is_set else WORD_MASK & ~mask
        words = methods.semaphore(address, payload, operation=operation, payload_size=0)
        return self._packet(*words)

    # Placing.

    @property
    def slots(self) -> list[str]:
        """Names of the slots its words and records hold."""
        patches = [*self.patches, *(patch for _, patch in self._record_patches)]
        return sorted({patch.formula.slot.name for patch in patches})

    def _has_slots(self) -> bool:
        return bool(self.patches or self._record_patches)

    def segments(self, address: int) -> list[tuple[int, int]]:
        """The sealed methods at an address in pieces (address, words) a ring entry can name."""
        count, at, pieces = self.method_count or 0, 0, []
        cuts = [*self.starts, count]
        while at < count:
            # A piece ends where a packet does.
            index = bisect_right(cuts, at + MAX_SEGMENT_WORDS) - 1
            pieces.append((address + 4 * at, cuts[index] - at))
            at = cuts[index]
        return pieces

    def finish(self) -> None:
        """Nothing more comes before the next submission."""

    def seal(self) -> None:
        """Put the records behind the methods; the queue is complete."""
        if self.method_count is not None:
            return
        self.finish()
        self.method_count = len(self.words)
        starts = []
        for record in self.records:
            self.words += [0] * (-len(self.words) % RECORD_WORDS)
            starts.append(len(self.words))
            self.words += record
        self._starts = starts
        for number, patch in self._record_patches:
            self.patches.append(
                Patch(
                    patch.queue,
                    starts[number] + patch.word,
                    patch.formula,
                    patch.half,
                    patch.bits,
                    patch.shift,
                    patch.mask,
                )
            )

    def unseal(self) -> None:
        """Take the records away again: the queue is as before seal()."""
        if self.method_count is None:
            return
        del self.words[self.method_count :]
        del self.patches[len(self.patches) - len(self._record_patches) :]
        self.method_count = None

    def point(self, address: int) -> None:
        """Fill in where the records are, for a sealed queue whose words begin at address."""
        for word, record in self.pointers:
            self.words[word] = address + 4 * self._starts[record] >> qmd.POINTER_SHIFT
        holes = HOLES[self.arch.qmd_version]
        for record, following in self.links:
            at = self._starts[record] + holes.dependent_pointer
            self.words[at] = address + 4 * self._starts[following] >> qmd.POINTER_SHIFT


class ComputeQueue(_Queue):
    """Methods of a compute channel.

    With `chained`, launches parted by nothing but a barrier become a chain of records,
    each started by the one before it.
    """

    kind = COMPUTE
    chained = False

    def __init__(self, arch: Arch, name: str = "") -> None:
        super().__init__(arch, name)
        self._is_after_launch = False
        self._has_barrier = False  # one that is not laid down yet

    def _packet(self, *words: Word) -> Self:
        if self._has_barrier:
            self.finish()
        self._is_after_launch = False
        return super()._packet(*words)

    def finish(self) -> None:
        """Lay down a barrier that waits for what follows it."""
        if self._has_barrier:
            self._has_barrier = False
            super()._packet(*methods.wait_idle(), *methods.invalidate_caches())

    def signal(self, address: Number, value: Number) -> Self:
        """Write value (64 bits), and the time 8 bytes on, once everything before is done."""
        self._address("signal", address, 16)
        self._signals(address)
        return self._packet(*methods.release(address, value))

    def barrier(self) -> Self:
        """What follows sees what earlier launches of this queue wrote."""
        if self.chained and self._is_after_launch:
            self._has_barrier = True
            return self
        return self._packet(*methods.wait_idle(), *methods.invalidate_caches())

    def launch(self, program: Program, arguments: Number, grid: Grid, block: Sequence[int]) -> Self:
        """Run a program; LaunchError outside its or the chip's limits, nothing for a zero grid."""
        self._check_program(program)
        program.check_launch(grid, block)
        if isinstance(arguments, int):
            self.blocks.append(arguments)  # so that submit gives it back, whatever comes of it
            if arguments % qmd.ALIGNMENT or not 0 <= arguments < 1 << 49:
                raise LaunchError(
                    f"kernel {program.name}: the argument block is not {qmd.ALIGNMENT}-byte "
                    "aligned, or outside the address space",
                    facts={"address": hex(arguments)},
                )
        if 0 in grid:
            return self
        size = tuple(block)
        if not isinstance(arguments, int):
            self._address("launch", arguments, qmd.ALIGNMENT)
            self._store_sizes(program, arguments, grid, size)
        elif not program.knows_sizes(arguments, grid, size):
            self._need_sizes(program, arguments, grid, size)
        record = len(self.records)
        self._record(record, program.record(size), arguments, grid)
        self._launched(program, grid, size)
        if self._has_barrier:
            self._has_barrier = False
            self._chain(record - 1, record)
        else:
            self.pointers.append((len(self.words) + _POINTER_AT, record))
            self._plain(_LAUNCH, ())
        self._is_after_launch = True
        return self

    def _need_sizes(
        self, program: Program, arguments: int, grid: Grid, block: tuple[int, ...]
    ) -> None:
        words = program.size_words(arguments, grid, block)
        if self.argument_words.setdefault(arguments, words) != words:
            # They are all laid down before the queue runs.
            raise program.other_sizes(arguments, grid, block)

    def _store_sizes(
        self, program: Program, arguments: Number, grid: Grid, block: tuple[int, ...]
    ) -> None:
        """Have the GPU lay them down: where the block lies is known at submit only."""
        words = stores(program.size_words(arguments, grid, block))
        # An earlier launch may still read the block, and this one must find it written.
        idle = methods.wait_idle()
        self._packet(*idle, *words, *idle, *methods.invalidate_caches())

    def _record(self, number: int, template: list[int], arguments: Number, grid: Grid) -> None:
        holes = HOLES[self.arch.qmd_version]
        record = template.copy()
        for axis, value in enumerate(grid):
            at = holes.grid + axis
            if isinstance(value, int):
                record[at] = value
            else:
                self._patch(number, at, value, Half.LOW, WORD_MASK, 32)
        if isinstance(arguments, int):
            address = arguments // holes.bank0_unit
            record[holes.bank0] = address & WORD_MASK
            record[holes.bank0 + 1] |= address >> 32
        else:
            shifted = formula(arguments)
            if holes.bank0_unit > 1:
                shifted = shifted // holes.bank0_unit
            self._patch(number, holes.bank0, shifted, Half.LOW, WORD_MASK, 49)
            self._patch(number, holes.bank0 + 1, shifted, Half.HIGH, holes.bank0_mask, 49)
        self.records.append(record)

    def _patch(
        self, record: int, word: int, value: Slot | Formula, half: Half, mask: int, bits: int
    ) -> None:
        patch = Patch(self.name, word, formula(value), half, bits, 0, mask)
        self._record_patches.append((record, patch))

    def _chain(self, before: int, record: int) -> None:
        holes = HOLES[self.arch.qmd_version]
        self.records[before][holes.dependent_flags] |= holes.dependent_bits
        self.links.append((before, record))

    def write(self, address: Number, words: Sequence[int]) -> Self:
        """Store 32-bit words."""
        self._address("write", address, 4)
        self._words_fit(words)
        return self._packet(*methods.write_inline(address, words))

    def setup(self, number: int, shared: int, local: int) -> Self:
        """Bind the compute class and say where shared and private memory are seen."""
        self._packet(*methods.bind(methods.COMPUTE_SUBCHANNEL, number))
        return self._packet(*methods.windows(shared, local))

    def local_memory(self, address: int, bytes_per_tpc: int) -> Self:
        """Use other private memory from here on."""
        self._packet(*methods.wait_idle())
        return self._packet(*methods.local_memory(address, bytes_per_tpc))

    def acquire_code(self) -> Self:
        """Drop cached instructions after code was uploaded."""
        return self._packet(*methods.invalidate_caches())


def stores(words: Sequence[tuple[Number, Number]]) -> list[Word]:
    """Methods that store (address, value), those beside one another together."""
    runs: list[tuple[Number, list[Word]]] = []
    for address, value in words:
        if not runs or address != runs[-1][0] + 4 * len(runs[-1][1]):
            runs.append((address, []))
        runs[-1][1].append(word32(value, "launch size"))
    return [word for at, run in runs for word in methods.write_inline(at, run)]


class CopyQueue(_Queue):
    """Methods of a copy channel. The engine runs its copies in order."""

    kind = COPY

    def signal(self, address: Number, value: Number) -> Self:
        """Write value (64 bits), and the time 8 bytes on, once copies are done and visible."""
        self._address("signal", address, 16)
        self._signals(address)
        self._packet(*methods.flush_copies())
        return self._packet(*methods.release(address, value))

    def barrier(self) -> Self:
        """Nothing to do: copies of one queue wait for one another."""
        return self

    def copy(self, destination: Number, source: Number, size: int) -> Self:
        """Copy size bytes; overlapping int ranges behave like memmove."""
        for at, part in self._copy_pieces(destination, source, size, copy_defs.MAX_LINE_BYTES):
            self._packet(*methods.copy_linear(destination + at, source + at, part))
        return self

    def fill(self, destination: Number, value: int, size: int) -> Self:
        """Set size bytes to the byte value."""
        for at, part in self._fill_pieces(destination, value, size, copy_defs.MAX_LINE_BYTES):
            self._packet(*methods.fill(destination + at, value, part))
        return self

    def write(self, address: Number, words: Sequence[int]) -> Self:
        """Store 32-bit words, one semaphore release each: this engine has no inline data."""
        self._address("write", address, 4)
        self._words_fit(words)
        for index, word in enumerate(words):
            # The first waits for the copies before it.
            execute = {"operation": Operation.RELEASE, "release_wfi": int(index == 0)}
            self._packet(*methods.semaphore(address + 4 * index, word, payload_size=0, **execute))
        return self

    def setup(self, number: int) -> Self:
        """Bind the copy class."""
        return self._packet(*methods.bind(methods.COPY_SUBCHANNEL, number))
