"""Hardware words to key=value text, by the layouts the driver packs with."""

from hcq.bits import Layout
from tools.hcq_dump.record import Fields

COMPARE = {0: "always", 1: "<", 2: "<=", 3: "==", 4: "!=", 5: ">=", 6: ">"}


def number(value: int) -> str:
    """Hex, but small counts in decimal."""
    return str(value) if value < 10 else f"{value:#x}"


def address(low: int, high: int) -> str:
    """A 64-bit address of two words."""
    return f"{high << 32 | low:#x}"


def bits(layout: Layout, word: int, skip: tuple[str, ...] = ()) -> Fields:
    """The fields of a word that are not zero, and bits no field covers as ?0x..."""
    found = [(k, number(v)) for k, v in layout.unpack(word).items() if v and k not in skip]
    stray = layout.unknown(word)
    return found + ([("reserved", f"?{stray:#x}")] if stray else [])


def upper(fields: Fields) -> Fields:
    """Register fields keep the vendor's capitals."""
    return [(key.upper(), value) for key, value in fields]
