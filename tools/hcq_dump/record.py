"""What a decoder yields: one packet, and its line.

Source of the line format: the fixed columns are device/queue, submission, buffer,
offset, words, engine, opcode; then key=value fields, then annotations.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Self

from hcq.bits import Span

WORD_BYTES = 4


class Shown(str):
    """A value as a line prints it; `json` is what JSON lines give for it.

    A plain str is the same in both.
    """

    json: object
    __slots__ = ("json",)

    def __new__(cls, text: str, json: object) -> Self:
        made = super().__new__(cls, text)
        made.json = json
        return made


Fields = list[tuple[str, str]]


@dataclass(frozen=True)
class BitField:
    """Bits of a packet: which of its words, which bits there, what they are."""

    word: int
    span: Span
    name: str
    value: str
    number: int


@dataclass(frozen=True)
class Packet:
    """One packet. offset and count are in words; `raw` are its words."""

    engine: str
    opcode: str
    offset: int
    raw: list[int]
    fields: Fields = field(default_factory=list)
    # Every bit field of its words, zeros too; worked out when asked for.
    bits: Callable[[], Iterable[BitField]] = tuple[BitField, ...]
    notes: list[str] = field(default_factory=list)
    unknown: bool = False
    torn: bool = False


@dataclass(frozen=True)
class Place:
    """Where packets come from: the first columns of a line."""

    device: str = "raw"
    queue: str = "-"
    submission: int = 0
    buffer: int = 0
    address: int | None = None  # of the buffer on the GPU, where it is known


def line(packet: Packet, place: Place, raw: bool = False) -> str:
    """One packet as one line."""
    head = (
        f"{_columns(place, packet.offset)} [{len(packet.raw):2d}] {packet.engine:4} {packet.opcode}"
    )
    at = [("at", f"{place.address + packet.offset * WORD_BYTES:#x}")] if place.address else []
    text = " ".join([head, *(f"{key}={value}" for key, value in [*at, *packet.fields])])
    if packet.notes:
        text += " | " + "; ".join(packet.notes)
    if raw:
        text += " ; " + " ".join(f"{word:08x}" for word in packet.raw)
    return text


def bit_lines(packet: Packet, place: Place) -> list[str]:
    """The bit fields, one a line, each with the offset of its word."""
    return [
        f"{_columns(place, packet.offset + bits.word)}   "
        f"w{bits.word}[{bits.span[0]}:{bits.span[1]}] {bits.name}={bits.value}"
        for bits in in_order(packet)
    ]


def in_order(packet: Packet) -> list[BitField]:
    """The bit fields as they lie: word by word, the lowest bits first."""
    return sorted(packet.bits(), key=lambda bits: (bits.word, bits.span[1], bits.span[0]))


def _columns(place: Place, offset: int) -> str:
    return (
        f"{place.device + '/' + place.queue:12} s{place.submission:<3d} b{place.buffer} "
        f"+{offset * WORD_BYTES:#06x}"
    )


def as_json(packet: Packet, place: Place, with_bits: bool = False) -> dict[str, object]:
    """The `packet` record: 64-bit values and words as hex text."""
    flags = [n for n, on in (("unknown", packet.unknown), ("torn", packet.torn)) if on]
    found: dict[str, object] = {
        "record": "packet",
        "device": place.device,
        "queue": place.queue,
        "submission": place.submission,
        "buffer": place.buffer,
        "off": packet.offset * WORD_BYTES,
        "dw": [f"{word:#010x}" for word in packet.raw],
        "engine": packet.engine,
        "op": packet.opcode,
        "fields": {key: _json(value) for key, value in packet.fields},
        "notes": packet.notes,
        "flags": flags,
    }
    if place.address:
        found["addr"] = f"{place.address + packet.offset * WORD_BYTES:#x}"
    if with_bits:
        found["bits"] = [_bits_json(bits) for bits in in_order(packet)]
    return found


def _json(value: str) -> object:
    return value.json if isinstance(value, Shown) else value


def _bits_json(bits: BitField) -> dict[str, object]:
    high, low = bits.span
    wide = high - low >= 32
    found: dict[str, object] = {
        "name": bits.name,
        "word": bits.word,
        "high": high,
        "low": low,
        "value": f"{bits.number:#x}" if wide else bits.number,
    }
    if not isinstance(bits.value, Shown):
        found["means"] = bits.value
    return found
