"""Bit layouts, written like the table in the manual.

A layout is data: one line per field, most significant bit first. The driver
packs with it; the simulator and the dump tools unpack with it. No other module
shifts or masks a hardware word by hand.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from hcq.errors import FieldError, nearest

Span = tuple[int, int]  # (high bit, low bit), both inclusive


def repeat(name: str, count: int, first: Span, stride: int) -> dict[str, Span]:
    """Spell out an indexed field: name_0, name_1, ..."""
    high, low = first
    return {f"{name}_{i}": (high + i * stride, low + i * stride) for i in range(count)}


@dataclass(frozen=True)
class Layout:
    """A named set of bit fields inside one fixed-size record."""

    name: str
    size_bits: int
    fields: Mapping[str, Span]

    def __post_init__(self) -> None:
        spans = sorted((low, high, field) for field, (high, low) in self.fields.items())
        for (_, high, below), (low, _, above) in pairwise(spans):
            if low <= high:
                raise FieldError(f"{self.name}: {above} overlaps {below}")
        for low, high, field in spans:
            if low > high or low < 0 or high >= self.size_bits:
                raise FieldError(f"{self.name}: {field} lies outside {self.size_bits} bits")

    def pack(self, **values: int) -> int:
        """The record as an int; fields left out are zero."""
        word = 0
        for field, value in values.items():
            high, low = self.span(field)
            width = high - low + 1
            if not 0 <= value < 1 << width:
                raise FieldError(f"{self.name}.{field}: {value:#x} does not fit in {width} bits")
            word |= value << low
        return word

    def unpack(self, word: int) -> dict[str, int]:
        """Every field of the record by name."""
        return {
            field: (word >> low) & ((1 << high - low + 1) - 1)
            for field, (high, low) in self.fields.items()
        }

    def unknown(self, word: int) -> int:
        """The bits of word that no field covers."""
        for high, low in self.fields.values():
            word &= ~(((1 << high - low + 1) - 1) << low)
        return word & ((1 << self.size_bits) - 1)

    def span(self, field: str) -> Span:
        """(high bit, low bit) of a field; FieldError with the nearest name if there is none."""
        try:
            return self.fields[field]
        except KeyError:
            raise FieldError(
                f"{self.name} has no field {field!r}{nearest(field, self.fields)}"
            ) from None


def lo32(value: int) -> int:
    """The low word of an address or 64-bit value."""
    return value & 0xFFFF_FFFF


def hi32(value: int) -> int:
    """The high word of an address or 64-bit value."""
    return value >> 32


def align(value: int, unit: int) -> int:
    """value rounded up to a multiple of unit."""
    return -(-value // unit) * unit
