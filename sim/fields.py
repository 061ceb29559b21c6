"""Fields of a command word, read as strictly as a simulator should."""

from collections.abc import Mapping
from types import MappingProxyType

from hcq.bits import Layout
from hcq.errors import SimFault


def fields(layout: Layout, word: int) -> Mapping[str, int]:
    """The fields of a word; SimFault when bits are set that no field covers."""
    known = _SEEN.get((layout.name, word))
    if known is None:
        stray = layout.unknown(word)
        if stray:
            raise SimFault(f"{layout.name}: unknown bits {stray:#x} in {word:#010x}")
        known = MappingProxyType(layout.unpack(word))
        if len(_SEEN) >= MOST_SEEN:
            _SEEN.clear()
        _SEEN[layout.name, word] = known
    return known


# Command words repeat: what was unpacked once is kept, up to a number of words.
_SEEN: dict[tuple[str, int], Mapping[str, int]] = {}
MOST_SEEN = 4096


def not_simulated(name: str, value: int, known: Mapping[int, str]) -> SimFault:
    """The error for a field value that is not simulated."""
    listed = ", ".join(f"{number} {meaning}" for number, meaning in known.items())
    return SimFault(f"{name} {value} is not simulated; known are {listed}")
