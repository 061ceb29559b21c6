"""How the values of a launch lie in its argument block."""

import operator
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hcq.bits import align
from hcq.errors import FieldError, LaunchError

_INTEGERS = {1: "B", 2: "H", 4: "I", 8: "Q"}
_FLOATS = {2: "e", 4: "f", 8: "d"}
_BOOLEANS = {1: "?"}


@dataclass(frozen=True)
class Argument:
    """One argument: its name, byte offset and size, and whether it is an address."""

    name: str
    offset: int
    size: int
    is_pointer: bool = False


@dataclass(frozen=True)
class ArgumentLayout:
    """Arguments in the order of the call, and the bytes of the whole block."""

    arguments: tuple[Argument, ...]
    size: int
    _formats: dict[tuple[type, ...], struct.Struct] = field(default_factory=dict, compare=False)

    def pack(self, values: Sequence[int | float], kernel: str = "") -> bytes:
        """The block's explicit part.

        An int is packed as an integer and a float as a float of the argument's size, whatever
        the kernel declares: only the size is known, and which arguments are addresses where the
        code object says so. A numpy scalar has a type of its own, whose size must be the
        argument's. LaunchError for kinds and counts that do not fit, FieldError for values.
        """
        if not isinstance(values, list | tuple):
            check_values(values, kernel)
        kinds = tuple(map(type, values))
        code = self._formats.get(kinds) or self._format(kinds, values, kernel)
        try:
            return code.pack(*values)
        except (struct.error, OverflowError, TypeError):
            return code.pack(*self._wrapped(values, kernel))

    def _format(
        self, kinds: tuple[type, ...], values: Sequence[int | float], kernel: str
    ) -> struct.Struct:
        if len(kinds) != len(self.arguments):
            raise LaunchError(
                f"kernel {kernel} takes {len(self.arguments)} arguments, got {len(kinds)}",
                facts={"kernel": kernel, "arguments": [a.name for a in self.arguments]},
            )
        text, at = "<", 0
        for argument, kind, value in zip(self.arguments, kinds, values, strict=True):
            what, letter = _letter(argument, kind)
            if not what:
                raise _unfit(argument, value, kernel, "numbers only: give buffer.address")
            if not letter:
                raise LaunchError(
                    f"kernel {kernel}: argument {argument.name} of {argument.size} bytes "
                    f"cannot be {what}",
                    facts={"kernel": kernel, "argument": argument.name, "size": argument.size},
                )
            text += f"{argument.offset - at}x{letter}"
            at = argument.offset + argument.size
        code = self._formats[kinds] = struct.Struct(f"{text}{max(0, self.size - at)}x")
        return code

    def _wrapped(self, values: Sequence[int | float], kernel: str) -> list[int | float]:
        # Signed integers come here: the block holds their two's complement.
        pairs = zip(self.arguments, values, strict=True)
        return [_wrap(argument, value, kernel) for argument, value in pairs]


def check_values(values: Any, kernel: str) -> None:
    """LaunchError for what is no list of values."""
    if not hasattr(values, "__len__") or not hasattr(values, "__iter__"):
        raise LaunchError(
            f"kernel {kernel} takes its arguments in a list, not as {type(values).__name__}",
            facts={"kernel": kernel, "given": repr(values)},
            hint="such as (out.address, 100)",
        )


def natural(sizes: Sequence[int], pointers: int = 0) -> ArgumentLayout:
    """Without metadata: `pointers` addresses first, then scalars, each naturally aligned."""
    arguments = [Argument(f"pointer{i}", 8 * i, 8, True) for i in range(pointers)]
    at = 8 * pointers
    for index, size in enumerate(sizes):
        at = align(at, size)
        arguments.append(Argument(f"scalar{index}", at, size))
        at += size
    return ArgumentLayout(tuple(arguments), align(at, 8) if pointers else at)


def _letter(argument: Argument, kind: type) -> tuple[str, str]:
    """What a Python type is called ("" for no number), and how struct packs it ("": not)."""
    size, is_pointer = argument.size, argument.is_pointer
    scalar = _numpy_type(kind)
    if scalar is not None:
        letters = {"i": _INTEGERS, "u": _INTEGERS, "b": _BOOLEANS, "f": _FLOATS}
        letter = letters.get(scalar.kind, {}).get(size, "") if scalar.itemsize == size else ""
        if is_pointer and scalar.kind not in "iu":
            letter = ""
        return f"a numpy {scalar.name}", letter.lower() if scalar.kind == "i" else letter
    if issubclass(kind, float):
        return "a float", "" if is_pointer else _FLOATS.get(size, "")
    if hasattr(kind, "__index__"):
        return "an int", _INTEGERS.get(size, "")
    return "", ""


def _numpy_type(kind: type) -> Any:
    # Who has a numpy scalar has imported numpy.
    numpy: Any = sys.modules.get("numpy")
    is_scalar = numpy is not None and issubclass(kind, numpy.generic)
    return numpy.dtype(kind) if is_scalar else None


def _wrap(argument: Argument, value: Any, kernel: str) -> Any:
    if _numpy_type(type(value)) is not None:
        return value  # of the argument's size
    limit = 1 << 8 * argument.size
    try:
        if isinstance(value, float):
            struct.pack(f"<{_FLOATS[argument.size]}", value)
            return value
        number = operator.index(value)
    except (OverflowError, TypeError):
        raise _unfit(argument, value, kernel) from None
    if not -limit // 2 <= number < limit:
        raise _unfit(argument, value, kernel)
    return number % limit


def _unfit(argument: Argument, value: Any, kernel: str, hint: str | None = None) -> FieldError:
    return FieldError(
        f"kernel {kernel}: argument {argument.name}={value!r} does not fit in "
        f"{argument.size} bytes",
        facts={"kernel": kernel, "argument": argument.name, "size": argument.size},
        hint=hint,
    )
