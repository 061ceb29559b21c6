"""Inputs: raw words as text or binary, lines that hcq-dump printed, recordings."""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hcq.errors import FileFormatError
from tools.hcq_dump.record import Place

_MAGICS = {
    b"\x7fELF": ("an ELF file, not words of a queue", "disassemble it with llvm-objdump"),
    b"\x1f\x8b\x08": ("compressed (gzip)", "unpack it first: gzip -dc FILE | hcq-dump cat -"),
    b"\xfd7zXZ": ("compressed (xz)", "unpack it first: xz -dc FILE | hcq-dump cat -"),
    b"\x28\xb5\x2f\xfd": ("compressed (zstd)", "unpack it first: zstd -dc FILE | hcq-dump cat -"),
}


@dataclass(frozen=True)
class Stream:
    """Words in the order a queue ran them, with where they come from."""

    kind: str  # pm4, sdma, pushbuffer, qmd or gpfifo
    place: Place
    words: list[int]
    arch: str = ""
    needed: int = 0  # words there should be, where that is known from elsewhere
    records: Mapping[int, str] = field(default_factory=dict)  # launch records by address


def read_bytes(name: str) -> bytes:
    """A file, or standard input for `-`."""
    if name == "-":
        return sys.stdin.buffer.read()
    with open(name, "rb") as file:
        return file.read()


def check_readable(data: bytes, name: str) -> None:
    """FileFormatError for what certainly holds no words: programs, archives, other JSON."""
    for magic, (what, hint) in _MAGICS.items():
        if data.startswith(magic):
            raise FileFormatError(f"{name} is {what}", facts={"file": name}, hint=hint)
    record = _object(data.lstrip().split(b"\n", 1)[0])
    if record is None:
        return
    if "record" in record:
        raise FileFormatError(
            f"{name}: a recording without its beginning: it starts with a "
            f"{record['record']} record",
            facts={"file": name},
            hint="the first line of a recording is a capture record; put it back in front",
        )
    raise FileFormatError(f"{name} is JSON, but no recording", facts={"file": name})


def is_recording(data: bytes) -> bool:
    """Whether the bytes are JSON lines that start with a capture record."""
    return data.lstrip()[:1] == b"{" and b'"capture"' in data.split(b"\n", 1)[0]


def records(data: bytes, name: str) -> Iterator[dict[str, object]]:
    """Every record. A torn last line ends the file; elsewhere it is a FileFormatError."""
    lines = data.split(b"\n")
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        record = _object(text)
        if record is not None:
            yield record
        elif number == len(lines):
            yield {"record": "torn", "line": number}
        else:
            raise FileFormatError(
                f"{name}: line {number} is not a JSON object",
                facts={"file": name, "line": number},
            )


def _object(text: bytes) -> dict[str, object] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
