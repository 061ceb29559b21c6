"""Hardware words to key=value text, by the layouts the driver packs with."""

from collections.abc import Iterable, Iterator, Mapping

from hcq.bits import Layout
from tools.hcq_dump.record import BitField, Fields, Shown

WHOLE = Layout("WORD", 32, {"value": (31, 0)})
COMPARE = {0: "always", 1: "<", 2: "<=", 3: "==", 4: "!=", 5: ">=", 6: ">"}


def number(value: int) -> str:
    """Hex, but small counts in decimal; a number of JSON."""
    return Shown(str(value) if value < 10 else f"{value:#x}", value)


def hexadecimal(value: int) -> str:
    """Hex, whatever the size; a number of JSON."""
    return Shown(f"{value:#x}", value)


def count(value: int) -> str:
    """Decimal; a number of JSON."""
    return Shown(str(value), value)


def counts(values: Iterable[int]) -> str:
    """Decimals with commas between; a list of JSON."""
    found = list(values)
    return Shown(",".join(str(value) for value in found), found)


def words(values: Iterable[int]) -> str:
    """Words in hex with commas between; a list of JSON."""
    found = list(values)
    return Shown(",".join(f"{word:#x}" for word in found), found)


def address(low: int, high: int) -> str:
    """A 64-bit address of two words; hex text in JSON, too."""
    return f"{high << 32 | low:#x}"


def bits(layout: Layout, word: int, skip: tuple[str, ...] = ()) -> Fields:
    """The fields of a word that are not zero, and bits no field covers as ?0x..."""
    found = [(k, number(v)) for k, v in layout.unpack(word).items() if v and k not in skip]
    stray = layout.unknown(word)
    return found + ([("reserved", f"?{stray:#x}")] if stray else [])


def bit_fields(layout: Layout, word: int, at: int, prefix: str = "") -> Iterator[BitField]:
    """Every field of a word, zeros too; `at` is the word's place in its packet."""
    for name, value in layout.unpack(word).items():
        yield BitField(at, layout.fields[name], prefix + name, number(value), value)


def packet_bits(raw: list[int], layouts: Mapping[int, Layout]) -> Iterator[BitField]:
    """Every field of a packet's words; a word without a layout is one field, `value`."""
    for at, word in enumerate(raw):
        layout = layouts.get(at, WHOLE)
        yield from bit_fields(layout, word, at)
        stray = layout.unknown(word)
        if stray:
            yield BitField(at, WHOLE.fields["value"], "reserved", f"?{stray:#x}", stray)


def upper(fields: Fields) -> Fields:
    """Register fields keep the vendor's capitals."""
    return [(key.upper(), value) for key, value in fields]
