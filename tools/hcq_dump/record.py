"""What a decoder yields: one packet, and its line.

Source of the line format: the fixed columns are device/queue, submission, buffer,
offset, words, engine, opcode; then key=value fields, then annotations.
"""

from dataclasses import dataclass, field

Fields = list[tuple[str, str]]


@dataclass(frozen=True)
class Packet:
    """One packet. offset and count are in words; `raw` are its words."""

    engine: str
    opcode: str
    offset: int
    raw: list[int]
    fields: Fields = field(default_factory=list)
    children: Fields = field(default_factory=list)  # the bit fields of its words
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


def line(packet: Packet, place: Place, raw: bool = False) -> str:
    """One packet as one line."""
    head = (
        f"{place.device + '/' + place.queue:12} s{place.submission:<3d} b{place.buffer} "
        f"+{packet.offset * 4:#06x} [{len(packet.raw):2d}] {packet.engine:4} {packet.opcode}"
    )
    text = " ".join([head, *(f"{key}={value}" for key, value in packet.fields)])
    if packet.notes:
        text += " | " + "; ".join(packet.notes)
    if raw:
        text += " ; " + " ".join(f"{word:08x}" for word in packet.raw)
    return text


def child_lines(packet: Packet, place: Place) -> list[str]:
    """The bit fields, one a line, under the same prefix column."""
    prefix = f"{place.device + '/' + place.queue:12} s{place.submission:<3d} b{place.buffer} "
    return [f"{prefix}+{packet.offset * 4:#06x}   {k}={v}" for k, v in packet.children]


def as_json(packet: Packet, place: Place) -> dict[str, object]:
    """The `packet` record: 64-bit values and words as hex text."""
    flags = [n for n, on in (("unknown", packet.unknown), ("torn", packet.torn)) if on]
    return {
        "record": "packet",
        "device": place.device,
        "queue": place.queue,
        "submission": place.submission,
        "buffer": place.buffer,
        "off": packet.offset * 4,
        "dw": [f"{word:#010x}" for word in packet.raw],
        "engine": packet.engine,
        "op": packet.opcode,
        "fields": dict(packet.fields),
        "notes": packet.notes,
        "flags": flags,
    }
