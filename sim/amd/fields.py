"""Fields of a command word, read as strictly as a simulator should."""

from collections.abc import Mapping

from hcq.bits import Layout
from hcq.errors import SimFault


def fields(layout: Layout, word: int) -> dict[str, int]:
    """The fields of a word; SimFault when bits are set that no field covers."""
    stray = layout.unknown(word)
    if stray:
        raise SimFault(f"{layout.name}: unknown bits {stray:#x} in {word:#010x}")
    return layout.unpack(word)


def not_simulated(name: str, value: int, known: Mapping[int, str]) -> SimFault:
    """The error for a field value that is not simulated."""
    listed = ", ".join(f"{number} {meaning}" for number, meaning in known.items())
    return SimFault(f"{name} {value} is not simulated; known are {listed}")
