"""Inputs: raw words as hex text or binary, and recordings as JSON lines."""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from hcq.errors import FileFormatError
from tools.hcq_dump.record import Place

_TEXT = re.compile(r"[\s0-9a-fA-FxX,;\[\](){}uUlL_]*")
_COMMENT = re.compile(r"/\*.*?\*/|(#|//)[^\n]*", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
MIN_TEXT_BYTES = 16  # shorter bytes that all can be printed may well be words
_LISTED = re.compile(r"^\s*[\[{(]")


@dataclass(frozen=True)
class Stream:
    """Words in the order a queue ran them, with where they come from."""

    kind: str  # pm4, sdma, pushbuffer, qmd or gpfifo
    place: Place
    words: list[int]
    arch: str = ""
    needed: int = 0  # words there should be, where that is known from elsewhere


def read_bytes(name: str) -> bytes:
    """A file, or standard input for `-`."""
    if name == "-":
        return sys.stdin.buffer.read()
    with open(name, "rb") as file:
        return file.read()


def words_of(data: bytes, name: str) -> list[int]:
    """32-bit words from hex text, a C array or Python list, or little-endian binary.

    Bare tokens are hex. Inside brackets a token without 0x is decimal. In text, # and
    // begin comments, and /* */ encloses them.
    FileFormatError when the bytes are no whole number of words.
    """
    text = _printed(data)
    words = None if text is None else _COMMENT.sub("", text)
    if words is not None and _TEXT.fullmatch(words):
        return _text_words(words, name)
    if words is not None and len(data) >= MIN_TEXT_BYTES:
        raise FileFormatError(
            f"{name}: this is text, but not of 32-bit words",
            facts={"file": name, "begins": repr(words.strip()[:40])},
            hint="write words in hex with spaces or commas between; # and // begin comments",
        )
    if len(data) % 4:
        raise FileFormatError(
            f"{name}: {len(data)} bytes are no whole number of 32-bit words",
            facts={"file": name, "found": len(data), "wanted": "a multiple of 4"},
        )
    return [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]


def _printed(data: bytes) -> str | None:
    """Bytes as text, None where they are none."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if _CONTROL.search(text) else text


def _text_words(text: str, name: str) -> list[int]:
    base = 10 if _LISTED.match(text) else 16
    found = []
    for token in re.findall(r"[0-9a-zA-Z_]+", text):
        digits = token.lower().replace("_", "").rstrip("ul")
        try:
            word = int(digits, 16 if digits.startswith("0x") else base)
        except ValueError:
            raise FileFormatError(f"{name}: {token!r} is no number", facts={"file": name}) from None
        if word >> 32:
            raise FileFormatError(f"{name}: {token} is wider than 32 bits", facts={"file": name})
        found.append(word)
    return found


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
