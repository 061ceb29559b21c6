"""Kernel metadata of a code object: a MessagePack map in its note.

Source: LLVM AMDGPU usage guide, "Code Object V4 Metadata" and on; the MessagePack
specification for the encoding.
"""

import struct
from typing import Any

from hcq.elf import bad

MAX_DEPTH = 16
_FIXED = {
    0xCA: "f", 0xCB: "d", 0xCC: "B", 0xCD: "H", 0xCE: "I", 0xCF: "Q",
    0xD0: "b", 0xD1: "h", 0xD2: "i", 0xD3: "q",
}  # fmt: skip
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_SIZED = {
    0xC4: ("bytes", "B"), 0xC5: ("bytes", "H"), 0xC6: ("bytes", "I"),
    0xD9: ("text", "B"), 0xDA: ("text", "H"), 0xDB: ("text", "I"),
    0xDC: ("list", "H"), 0xDD: ("list", "I"), 0xDE: ("map", "H"), 0xDF: ("map", "I"),
}  # fmt: skip


def decode(data: bytes) -> dict[str, Any]:
    """The metadata map; CodeObjectError on anything malformed."""
    value = _Reader(data).value()
    if not isinstance(value, dict):
        raise bad("metadata", type(value).__name__, "is not a map")
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def value(self, depth: int = 0) -> Any:
        if depth > MAX_DEPTH:
            raise bad("metadata depth", depth, f"is over {MAX_DEPTH}")
        tag = self._number("B")
        if tag in _CONSTANTS:
            return _CONSTANTS[tag]
        if tag in _FIXED:
            return self._number(_FIXED[tag])
        if tag in _SIZED:
            kind, width = _SIZED[tag]
            return self._many(kind, self._number(width), depth)
        return self._small(tag, depth)

    def _small(self, tag: int, depth: int) -> Any:
        if tag < 0x80:
            return tag
        if tag >= 0xE0:
            return tag - 256
        if tag < 0x90:
            return self._many("map", tag - 0x80, depth)
        if tag < 0xA0:
            return self._many("list", tag - 0x90, depth)
        if tag < 0xC0:
            return self._many("text", tag - 0xA0, depth)
        raise bad("metadata tag", tag, "is not supported")

    def _many(self, kind: str, count: int, depth: int) -> Any:
        if count > len(self.data) - self.at:
            raise bad("metadata length", count, "is past the end")
        if kind == "map":
            pairs = ((self.value(depth + 1), self.value(depth + 1)) for _ in range(count))
            return {str(key): value for key, value in pairs}
        if kind == "list":
            return [self.value(depth + 1) for _ in range(count)]
        raw = self.data[self.at : self.at + count]
        self.at += count
        return raw if kind == "bytes" else raw.decode("utf-8", "replace")

    def _number(self, width: str) -> Any:
        code = struct.Struct(f">{width}")
        if self.at + code.size > len(self.data):
            raise bad("metadata size", len(self.data), "ends inside a value")
        (value,) = code.unpack_from(self.data, self.at)
        self.at += code.size
        return value
