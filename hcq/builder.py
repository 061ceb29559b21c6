"""The base of both vendors' queues: words, patches, who builds them, and what verbs refuse."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from hcq.errors import FieldError, LaunchError, QueueError, Unsupported
from hcq.program import check_program
from hcq.queue import (
    COMPUTE,
    COPY,
    Formula,
    Grid,
    Number,
    Part,
    Patch,
    Slot,
    Word,
    formula,
    low,
    word32,
)

MAX_COPY_PIECES = 4096  # of one copy or fill
_BYTES = (str, bytes, bytearray, memoryview)


def check_queue(queue: Any, call: str) -> None:
    """QueueError for what is no queue."""
    if not isinstance(queue, Builder):
        raise QueueError(
            f"{call} takes a queue, not {type(queue).__name__}",
            facts={"given": repr(queue)},
            hint='build one with device.queue("compute") or device.queue("copy")',
        )


class Builder:
    """A queue under construction; it belongs to the thread that made it.

    `arch` is of the chip whose commands these are; it has a name.
    """

    kind = ""
    max_write_words = 0  # of one write()

    def __init__(self, arch: Any, name: str = "") -> None:
        self.arch = arch
        self.name = name or self.kind
        self.words: list[int] = []
        self.patches: list[Patch] = []
        self.starts: list[int] = []  # index of each packet's first word
        self.kernels: list[str] = []
        self.programs: dict[Any, None] = {}  # that its launches run, each once
        self.blocks: list[int] = []  # argument blocks its launches read
        self.laps: list[int] = []  # how often the ring had gone round when they were submitted
        self.cells: list[int] = []  # addresses its signals write
        # What slots must come to: (verb, address, alignment, how far above a multiple of it).
        self.alignments: list[tuple[str, Formula, int, int]] = []
        # And what must fit in a word: (what, value).
        self.narrow: list[tuple[str, Formula]] = []
        # Sizes of grids that are slots, each with its limit once: the program, axis and block.
        self.grids: dict[tuple[Formula, int], tuple[Any, int, tuple[int, ...]]] = {}
        # By argument block: words that launches need there and that it came without, each
        # (address, value).
        self.argument_words: dict[int, list[tuple[int, Number]]] = {}
        self.bound: Any = None
        self.is_patched = False  # a batch fills in its slots
        self._thread = threading.get_ident()

    def check_target(self, arch: Any) -> None:
        """QueueError where a channel of another chip is given this queue."""
        if self.arch.name != arch.name:
            raise QueueError(
                f"queue {self.name} was built for {self.arch.name}, the channel is of {arch.name}",
                facts={"queue": self.name, "built_for": self.arch.name, "channel": arch.name},
                hint="build it with queue() of the device it is submitted to",
            )

    def check_kind(self, kind: str) -> None:
        """QueueError where a channel of another kind is given this queue."""
        if self.kind != kind:
            raise QueueError(
                f"a {self.kind} queue cannot be submitted to the {kind} channel",
                facts={"queue": self.name, "kind": self.kind, "channel": kind},
                hint=f'use device.submit(), or device.channels["{self.kind}"]',
            )

    @property
    def slots(self) -> list[str]:
        """Names of the slots its words hold."""
        return sorted({patch.formula.slot.name for patch in self.patches})

    def _has_slots(self) -> bool:
        return bool(self.patches)

    def check_known(self) -> None:
        """QueueError where its words are still to be filled in; LaunchError where a program
        that it launches was freed: other code may lie there."""
        if not self.is_patched and self._has_slots() and self.slots:
            raise QueueError(
                f"queue {self.name} has slots: submit it as a batch", facts={"slots": self.slots}
            )
        for program in self.programs:
            if not program.address:
                raise LaunchError(
                    f"kernel {program.name} was freed",
                    facts={"queue": self.name, "kernel": program.name},
                    hint="load the code again, and build the queue anew",
                )

    def _address(self, verb: str, address: Number, alignment: int = 1, above: int = 0) -> None:
        """Refuse what is no address (QueueError) and one that is misaligned (FieldError).

        Aligned is what lies `above` more than a multiple of `alignment`.
        """
        if isinstance(address, Slot | Formula):
            if alignment > 1:
                self.alignments.append((verb, formula(address), alignment, above))
            return
        if not isinstance(address, int):
            raise QueueError(
                f"{verb}: an address is a number, not {type(address).__name__}",
                facts={"queue": self.name, "verb": verb, "given": repr(address)},
                hint="give buffer.address, or a slot of a batch",
            )
        low(address)  # at most 64 bits
        self._check_aligned(verb, address, alignment, above)

    def _check_program(self, program: Any) -> None:
        """LaunchError for what is no program, or one for another chip."""
        check_program(program, "launch")
        if program.arch is not self.arch and program.arch.name != self.arch.name:
            raise LaunchError(
                f"kernel {program.name} is for {program.arch.name}, queue {self.name} for "
                f"{self.arch.name}",
                facts={"kernel": program.name, "built_for": program.arch.name, "queue": self.name},
                hint="load it on the device whose queue this is",
            )

    def _launched(self, program: Any, grid: Grid, block: tuple[int, ...]) -> None:
        """Note a launch that passed check_launch(): its program, and sizes that are slots."""
        self.programs[program] = None
        self.kernels.append(program.name)
        x, y, z = grid
        if not (isinstance(x, int) and isinstance(y, int) and isinstance(z, int)):
            limits = program.limits(block)
            for axis, size in enumerate(grid):
                if not isinstance(size, int):
                    self.grids.setdefault((formula(size), limits[axis]), (program, axis, block))

    def check_slots(self, values: Mapping[str, int]) -> None:
        """FieldError where the values of slots make a verb's address misaligned or its value
        too large; LaunchError where they make a grid larger than its limit."""
        for verb, address, alignment, above in self.alignments:
            self._check_aligned(verb, address.of(values[address.slot.name]), alignment, above)
        for what, value in self.narrow:
            word32(value.of(values[value.slot.name]), what)
        for (size, _), (program, axis, block) in self.grids.items():
            program.check_axis(axis, size.of(values[size.slot.name]), block)

    def _fits_word(self, what: str, value: Number) -> None:
        """Refuse more than 32 bits (FieldError); of slots at submit."""
        if isinstance(value, Slot | Formula):
            self.narrow.append((what, formula(value)))
        else:
            word32(value, what)

    def _check_aligned(self, verb: str, address: int, alignment: int, above: int = 0) -> None:
        if (address - above) % alignment:
            where = f"{above} above a multiple of {alignment}" if above else "aligned to"
            unit = "" if above else f" {alignment} bytes"
            raise FieldError(
                f"{verb}: address {address:#x} is not {where}{unit}",
                facts={
                    "queue": self.name,
                    "verb": verb,
                    "address": hex(address),
                    "alignment": alignment,
                },
                hint="use the time of a signal cell: its address + 8" if above else None,
            )

    def _size(self, verb: str, size: int) -> None:
        """Refuse what is no count of bytes: QueueError, FieldError below zero."""
        if not isinstance(size, int):
            raise QueueError(
                f"{verb}: a size is a number of bytes, not {type(size).__name__}",
                facts={"queue": self.name, "verb": verb, "given": repr(size)},
            )
        if size < 0:
            raise FieldError(f"{verb} size {size} is negative", facts={"queue": self.name})

    def _mask(self, mask: int) -> None:
        """Refuse what poll() cannot compare under."""
        if not isinstance(mask, int):
            raise QueueError(
                f"poll: a mask is a number, not {type(mask).__name__}",
                facts={"queue": self.name, "verb": "poll", "given": repr(mask)},
            )
        word32(mask, "poll mask")

    def _words_fit(self, words: Sequence[int]) -> None:
        """Refuse what write() cannot store."""
        # Bytes are a sequence of numbers too, but nobody means a word by each of them.
        is_list = isinstance(words, Sequence) and not isinstance(words, _BYTES)
        count = len(words) if is_list else f"not in {type(words).__name__}"
        if not isinstance(count, int) or not 0 < count <= self.max_write_words:
            raise QueueError(
                f"write takes 1 to {self.max_write_words} words, in a list",
                facts={"queue": self.name, "words": count},
                hint="bytes go in with device.copy_in(), or as words: "
                "memoryview(data).cast('I').tolist()",
            )
        for word in words:
            if isinstance(word, Slot | Formula):
                raise QueueError(
                    "write stores numbers: only its address may be a slot",
                    facts={"queue": self.name, "given": word},
                    hint="signal() writes the value of a slot",
                )
            word32(word, "write")

    def _lacks(self, verb: str, other: str) -> Unsupported:
        return Unsupported(
            f"a {self.kind} queue has no {verb}",
            facts={"queue": self.name, "verb": verb, "arch": self.arch.name},
            hint=f"use a {other} queue",
        )

    def _signals(self, address: Number) -> None:
        """Note a cell, so that waits see the queue get on."""
        if isinstance(address, int):
            self.cells.append(address)

    def _copy_pieces(
        self, destination: Number, source: Number, size: int, step: int
    ) -> Iterator[tuple[int, int]]:
        """(offset, size) of the pieces of a copy, in an order that loses no source byte."""
        self._address("copy", destination)
        self._address("copy", source)
        self._size("copy", size)
        if destination == source:
            return
        is_upward = False
        if isinstance(destination, int) and isinstance(source, int):
            overlap = abs(destination - source)
            is_upward = destination > source
            step = min(step, overlap) if overlap < size else step
        self._check_pieces("copy", size, step, "copy through another buffer: device.copy() does")
        pieces = range(0, size, step)
        # From the end when the destination lies above.
        for at in reversed(pieces) if is_upward else pieces:
            yield at, min(step, size - at)

    def _fill_pieces(
        self, destination: Number, value: int, size: int, step: int
    ) -> Iterator[tuple[int, int]]:
        """(offset, size) of the pieces of a fill."""
        if not isinstance(value, int) or not 0 <= value < 256:
            raise FieldError(
                f"fill value {value!r} does not fit in 8 bits",
                facts={"queue": self.name, "verb": "fill"},
                hint="give a number from 0 to 255",
            )
        self._address("fill", destination)
        self._size("fill", size)
        self._check_pieces("fill", size, step, "is the size right? fill it in several queues")
        for at in range(0, size, step):
            yield at, min(step, size - at)

    def _check_pieces(self, verb: str, size: int, step: int, hint: str) -> None:
        if size > step * MAX_COPY_PIECES:
            raise QueueError(
                f"the {verb} needs too many pieces",
                facts={
                    "queue": self.name,
                    "size": size,
                    "piece": step,
                    "limit": step * MAX_COPY_PIECES,
                },
                hint=hint,
            )

    # Verbs that only one kind has.

    def launch(self, program: Any, arguments: Number, grid: Grid, block: Sequence[int]) -> Self:
        """Not on this kind."""
        raise self._lacks("launch", COMPUTE)

    def copy(self, destination: Number, source: Number, size: int) -> Self:
        """Not on this kind."""
        raise self._lacks("copy", COPY)

    def fill(self, destination: Number, value: int, size: int) -> Self:
        """Not on this kind."""
        raise self._lacks("fill", COPY)

    def _packet(self, *words: Word) -> Self:
        if threading.get_ident() != self._thread or self.bound is not None:
            self._refuse()
        at = len(self.words)
        self.starts.append(at)
        return self._append(at, words)

    def _packets(self, words: Sequence[Word], starts: Sequence[int]) -> Self:
        """Several packets at once; `starts` are the first words of those after the first."""
        at = len(self.words)
        self._packet(*words)
        self.starts += [at + start for start in starts]
        return self

    def _plain(self, words: list[int], starts: Sequence[int]) -> Self:
        """As _packets, for words that hold no formula: nothing is looked at."""
        if threading.get_ident() != self._thread or self.bound is not None:
            self._refuse()
        at = len(self.words)
        self.starts.append(at)
        self.starts += [at + start for start in starts] if at else starts
        self.words += words
        return self

    def _append(self, at: int, words: Sequence[Word]) -> Self:
        for index, word in enumerate(words):
            if isinstance(word, Part):
                self.patches.append(
                    Patch(self.name, at + index, word.formula, word.half, word.bits)
                )
                self.words.append(0)
            else:
                self.words.append(word)
        return self

    def _refuse(self) -> None:
        if self.bound is not None:
            raise QueueError(f"queue {self.name} is bound: its words lie in device memory")
        raise QueueError(
            f"queue {self.name} belongs to the thread that made it",
            facts={"made_by": self._thread, "used_by": threading.get_ident()},
        )
