"""What both vendors' queues can do, and the named values a recorded queue may hold.

A `Slot` stands for a value that is known at submit; arithmetic on it makes a
`Formula`. Builders (builder.py) put `Part`s of formulas into their words and note each
as a `Patch`; the batch fills them in.
"""

from collections.abc import Sequence
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
        if not isinstance(constant, int) or (operation, constant) == ("//", 0):
            raise QueueError(
                f"slot {self.slot.name} {operation} {constant!r} is no formula",
                facts={"slot": self.slot.name, "operation": operation, "given": repr(constant)},
                hint="compute with whole numbers, and do not divide by 0",
            )
        steps = self.steps
        if operation == "+" and steps and steps[-1][0] == "+":
            constant, steps = constant + steps[-1][1], steps[:-1]
        if (operation, constant) != ("+", 0):
            steps = (*steps, (operation, constant))
        return Formula(self.slot, steps)


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


_ARE_KNOWN = frozenset((int,))


def check_known(kernel: str, grid: Sequence[Any]) -> None:
    """LaunchError for the size of a grid that only a batch knows, at submit."""
    if not _ARE_KNOWN.issuperset(map(type, grid)) and not all(isinstance(n, int) for n in grid):
        raise LaunchError(
            f"kernel {kernel}: a slot in a grid has no value before a batch is submitted",
            facts={"kernel": kernel, "grid": repr(grid)},
            hint="lay down arguments with batch.arguments()",
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
