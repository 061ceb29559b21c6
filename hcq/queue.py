"""What both vendors' queues can do, and the named values a recorded queue may hold.

A `Slot` stands for a value that is known at submit; arithmetic on it makes a
`Formula`. Builders put `Part`s of formulas into their words and note each as a
`Patch`; the batch fills them in.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, Self

from hcq.bits import hi32, lo32
from hcq.errors import FieldError, LaunchError, QueueError

COMPUTE, COPY = "compute", "copy"

Grid = tuple["int | Slot | Formula", "int | Slot | Formula", "int | Slot | Formula"]


class SlotKind(Enum):
    """What a slot holds."""

    ADDRESS = "buffer address"
    VARIABLE = "variable"
    TIMELINE = "timeline value"


class _Arithmetic:
    """`slot + 64`, `slot * 4`, `slot // 8`: steps of a formula, in the order written."""

    def _step(self, operation: str, constant: int) -> "Formula":
        raise NotImplementedError

    def __add__(self, constant: int) -> "Formula":
        return self._step("+", constant)

    def __mul__(self, constant: int) -> "Formula":
        return self._step("*", constant)

    def __floordiv__(self, constant: int) -> "Formula":
        return self._step("//", constant)


@dataclass(frozen=True)
class Slot(_Arithmetic):
    """A named value a batch is given at submit, and the range it must lie in."""

    name: str
    kind: SlotKind = SlotKind.ADDRESS
    bits: int = 64
    low: int = 0
    high: int | None = None

    def check(self, value: int) -> None:
        """FieldError for a value outside the slot's range, or no whole number."""
        if not isinstance(value, int):
            raise FieldError(
                f"slot {self.name}: {value!r} is no whole number",
                facts={"slot": self.name, "kind": self.kind.value},
                hint="give buffer.address" if self.kind is SlotKind.ADDRESS else None,
            )
        top = (1 << self.bits) - 1 if self.high is None else self.high
        if not self.low <= value <= top:
            raise FieldError(
                f"slot {self.name}: {value} is outside its range",
                facts={"slot": self.name, "kind": self.kind.value, "low": self.low, "high": top},
            )

    def _step(self, operation: str, constant: int) -> "Formula":
        return Formula(self)._step(operation, constant)


@dataclass(frozen=True)
class Formula(_Arithmetic):
    """A slot and the steps applied to it, each ("+", "*" or "//", constant)."""

    slot: Slot
    steps: tuple[tuple[str, int], ...] = ()

    def of(self, value: int) -> int:
        """The formula's value for a value of its slot."""
        for operation, constant in self.steps:
            if operation == "+":
                value += constant
            elif operation == "*":
                value *= constant
            else:
                value //= constant
        return value

    def _step(self, operation: str, constant: int) -> "Formula":
        if (operation, constant) == ("+", 0):
            return self
        return Formula(self.slot, (*self.steps, (operation, constant)))


Number = int | Slot | Formula


class Half(Enum):
    """Which 32 bits of a formula's value go into a word."""

    LOW = "low"
    HIGH = "high"


@dataclass(frozen=True)
class Part:
    """A word that is half of a formula's value."""

    formula: Formula
    half: Half
    bits: int = 64


Word = int | Part


def low(value: Number) -> Word:
    """The low word of an int or formula."""
    if not isinstance(value, int):
        return Part(formula(value), Half.LOW)
    if not 0 <= value < 1 << 64:
        raise FieldError(f"{value:#x} does not fit in 64 bits", facts={"value": value})
    return lo32(value)


def high(value: Number) -> Word:
    """The high word of an int or formula."""
    return hi32(value) if isinstance(value, int) else Part(formula(value), Half.HIGH)


def word32(value: Number, name: str) -> Word:
    """A value that must fit one word; FieldError when it does not."""
    if not isinstance(value, int):
        return Part(formula(value), Half.LOW, bits=32)
    if not 0 <= value < 1 << 32:
        raise FieldError(f"{name}: {value:#x} does not fit in 32 bits", facts={"field": name})
    return value


def check_axes(kernel: str, grid: Any, block: Any) -> None:
    """LaunchError unless grid and block are three whole numbers each; grid may hold slots."""
    for sizes, kinds in ((grid, int | Slot | Formula), (block, int)):
        is_three = isinstance(sizes, Sequence) and len(sizes) == 3
        if not is_three or not all(isinstance(size, kinds) for size in sizes):
            raise LaunchError(
                f"kernel {kernel}: grid and block have three axes each, whole numbers",
                facts={"kernel": kernel, "grid": repr(grid), "block": repr(block)},
                hint="such as grid=(256, 1, 1), block=(64, 1, 1)",
            )


def plain(words: Sequence[Word]) -> list[int]:
    """Words that hold no formula."""
    return [word for word in words if isinstance(word, int)]


def formula(value: Slot | Formula) -> Formula:
    """A slot alone is the formula without steps; QueueError for what is neither."""
    if isinstance(value, Formula):
        return value
    if not isinstance(value, Slot):
        raise QueueError(
            f"a value is a whole number or a slot, not {type(value).__name__}",
            facts={"given": repr(value)},
        )
    return Formula(value)


@dataclass(frozen=True)
class Patch:
    """One entry of a patch table: which bits of which word follow which formula.

    `queue` names the words (a queue, or the batch's arguments), `word` is the index
    of the 32-bit word; the half of the formula's value, shifted left by `shift`,
    replaces the bits of `mask`. `bits` is the width the whole value must fit.
    """

    queue: str
    word: int
    formula: Formula
    half: Half = Half.LOW
    bits: int = 64
    shift: int = 0
    mask: int = 0xFFFF_FFFF

    def apply(self, old: int, value: int) -> int:
        """The word with the formula's value in place."""
        if not 0 <= value < 1 << self.bits:
            raise FieldError(
                f"{self.queue} word {self.word}: {value:#x} does not fit in {self.bits} bits",
                facts={"slot": self.formula.slot.name, "steps": self.formula.steps},
            )
        part = lo32(value) if self.half is Half.LOW else hi32(value)
        return old & ~self.mask | (part << self.shift) & self.mask


class Queue(Protocol):
    """Commands in the order a channel will run them; every verb returns the queue.

    Addresses are ints (or slots of a batch), sizes bytes. Nothing reaches the GPU
    before submit. A verb the kind lacks raises Unsupported naming both.
    """

    kind: str
    words: list[int]

    def wait(self, address: Number, value: Number) -> Self:
        """Go on once the cell at address holds at least value."""

    def signal(self, address: Number, value: Number) -> Self:
        """Write value, and the time beside it, once everything before has finished."""

    def timestamp(self, address: Number) -> Self:
        """Write the GPU clock (8 bytes) once everything before has finished."""

    def barrier(self) -> Self:
        """What follows sees what came before."""

    def launch(self, program: Any, arguments: Number, grid: Grid, block: Sequence[int]) -> Self:
        """Run a program over grid work-groups of block work-items."""

    def copy(self, destination: Number, source: Number, size: int) -> Self: ...
    def fill(self, destination: Number, value: int, size: int) -> Self: ...
    def write(self, address: Number, words: Sequence[int]) -> Self: ...

    def poll(self, address: Number, value: int, mask: int = 0xFFFF_FFFF) -> Self:
        """Go on once the 32-bit word at address, under mask, equals value."""


class Builder:
    """Words, patches and who builds them; the base of both vendors' queues.

    A queue under construction belongs to the thread that made it.
    """

    kind = ""
    arch: Any  # of the chip whose commands these are; it has a name

    def __init__(self, name: str = "") -> None:
        self.name = name or self.kind
        self.words: list[int] = []
        self.patches: list[Patch] = []
        self.starts: list[int] = []  # index of each packet's first word
        self.kernels: list[str] = []
        self.blocks: list[int] = []  # argument blocks its launches read
        self.laps: list[int] = []  # how often the ring had gone round when they were submitted
        self.cells: list[int] = []  # addresses its signals write
        # What slots must come to: (verb, address, alignment).
        self.alignments: list[tuple[str, Formula, int]] = []
        # Words of argument blocks that launches need and that came without: (address, value).
        self.argument_words: list[tuple[int, Number]] = []
        self.bound: Any = None
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

    def _address(self, verb: str, address: Number, alignment: int = 1) -> None:
        """Refuse what is no address (QueueError) and one that is misaligned (FieldError)."""
        if isinstance(address, Slot | Formula):
            if alignment > 1:
                self.alignments.append((verb, formula(address), alignment))
            return
        if not isinstance(address, int):
            raise QueueError(
                f"{verb}: an address is a number, not {type(address).__name__}",
                facts={"queue": self.name, "verb": verb, "given": repr(address)},
                hint="give buffer.address, or a slot of a batch",
            )
        low(address)  # at most 64 bits
        self._check_aligned(verb, address, alignment)

    def check_slots(self, values: Mapping[str, int]) -> None:
        """FieldError where the values of slots make a verb's address misaligned."""
        for verb, address, alignment in self.alignments:
            self._check_aligned(verb, address.of(values[address.slot.name]), alignment)

    def _check_aligned(self, verb: str, address: int, alignment: int) -> None:
        if address % alignment:
            raise FieldError(
                f"{verb}: address {address:#x} is not aligned to {alignment} bytes",
                facts={
                    "queue": self.name,
                    "verb": verb,
                    "address": hex(address),
                    "alignment": alignment,
                },
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
