"""How the values of a launch lie in its argument block."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from hcq.bits import align
from hcq.errors import FieldError, LaunchError

_INTEGERS = {1: "B", 2: "H", 4: "I", 8: "Q"}
_FLOATS = {2: "e", 4: "f", 8: "d"}


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
    _formats: dict[tuple[bool, ...], struct.Struct] = field(default_factory=dict, compare=False)

    def pack(self, values: Sequence[int | float], kernel: str = "") -> bytes:
        """The block's explicit part; floats take the float of the argument's size."""
        kinds = tuple([type(value) is float for value in values])
        code = self._formats.get(kinds) or self._format(kinds, kernel)
        try:
            return code.pack(*values)
        except (struct.error, OverflowError):
            return code.pack(*self._wrapped(values, kernel))

    def _format(self, kinds: tuple[bool, ...], kernel: str) -> struct.Struct:
        if len(kinds) != len(self.arguments):
            raise LaunchError(
                f"kernel {kernel} takes {len(self.arguments)} arguments, got {len(kinds)}",
                facts={"kernel": kernel, "arguments": [a.name for a in self.arguments]},
            )
        text, at = "<", 0
        for argument, is_float in zip(self.arguments, kinds, strict=True):
            codes = _FLOATS if is_float else _INTEGERS
            if argument.size not in codes or (is_float and argument.is_pointer):
                raise LaunchError(
                    f"kernel {kernel}: argument {argument.name} of {argument.size} bytes "
                    f"cannot be {'a float' if is_float else 'an int'}",
                    facts={"kernel": kernel, "argument": argument.name, "size": argument.size},
                )
            text += f"{argument.offset - at}x{codes[argument.size]}"
            at = argument.offset + argument.size
        code = self._formats[kinds] = struct.Struct(f"{text}{max(0, self.size - at)}x")
        return code

    def _wrapped(self, values: Sequence[int | float], kernel: str) -> list[int | float]:
        # Signed integers come here: the block holds their two's complement.
        wrapped: list[int | float] = []
        for argument, value in zip(self.arguments, values, strict=True):
            limit = 1 << 8 * argument.size
            if isinstance(value, float):
                wrapped.append(value)
            elif isinstance(value, int) and -limit // 2 <= value < limit:
                wrapped.append(value % limit)
            else:
                raise FieldError(
                    f"kernel {kernel}: argument {argument.name}={value!r} does not fit in "
                    f"{argument.size} bytes",
                    facts={"kernel": kernel, "argument": argument.name, "size": argument.size},
                    hint=None if isinstance(value, int) else "numbers only: give buffer.address",
                )
        return wrapped


def natural(sizes: Sequence[int], pointers: int = 0) -> ArgumentLayout:
    """Without metadata: `pointers` addresses first, then scalars, each naturally aligned."""
    arguments = [Argument(f"pointer{i}", 8 * i, 8, True) for i in range(pointers)]
    at = 8 * pointers
    for index, size in enumerate(sizes):
        at = align(at, size)
        arguments.append(Argument(f"scalar{index}", at, size))
        at += size
    return ArgumentLayout(tuple(arguments), align(at, 8) if pointers else at)
