"""Checks an object file before the loader sees it.

LLVM's loader ends the process when a symbol cannot be found or the file is not
what it seems; so what it would stumble over is looked at first.

Source: System V ABI, gABI chapter 4 (object files); x86-64 psABI.
"""

import ctypes
import struct

from hcq.errors import CodeObjectError

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
IDENTITY = b"\x7fELF\x02\x01\x01"  # 64-bit, little endian, version 1
RELOCATABLE = 1
X86_64 = 62
SYMBOL_TABLE = 2
UNDEFINED = 0
GLOBAL, WEAK = 1, 2
LINKER_DEFINED = "_GLOBAL_OFFSET_TABLE_"  # the linker's own, never defined by anyone


def check_object(image: bytes, entry: str, device: str) -> None:
    """CodeObjectError unless image is an x86-64 object that defines entry and can be linked."""
    try:
        symbols = _symbols(image)
    except (struct.error, IndexError, ValueError) as error:
        raise CodeObjectError(
            f"{device}: the object of {entry!r} is malformed: {error}",
            device=device,
            facts={"size": len(image)},
        ) from None
    if not symbols.get(entry):
        raise CodeObjectError(
            f"{device}: the object does not define {entry!r}",
            device=device,
            facts={"wanted": entry, "found": ",".join(n for n, here in symbols.items() if here)},
        )
    missing = [name for name, here in symbols.items() if not here and not _in_process(name)]
    if missing:
        raise CodeObjectError(
            f"{device}: the object of {entry!r} needs {missing[0]!r}, which is not in this process",
            device=device,
            facts={"missing": ",".join(missing)},
        )


def _symbols(image: bytes) -> dict[str, bool]:
    """Global symbols by name: whether the object defines them."""
    header = _HEADER.unpack_from(image)
    if not header[0].startswith(IDENTITY):
        raise ValueError(f"identity {header[0][:7].hex()}, wanted {IDENTITY.hex()}")
    if header[1:3] != (RELOCATABLE, X86_64):
        raise ValueError(f"type {header[1]} machine {header[2]}, wanted {RELOCATABLE} {X86_64}")
    start, stride, count = header[6], header[11], header[12]
    sections = [_SECTION.unpack_from(image, start + stride * i) for i in range(count)]
    found: dict[str, bool] = {}
    for section in sections:
        kind, offset, size, link = section[1], section[4], section[5], section[6]
        if kind != SYMBOL_TABLE:
            continue
        names = sections[link]
        text = image[names[4] : names[4] + names[5]]
        if offset + size > len(image) or len(text) != names[5]:
            raise ValueError("the symbol table lies outside the file")
        for at in range(offset, offset + size, _SYMBOL.size):
            name, info, _, where, _, _ = _SYMBOL.unpack_from(image, at)
            if info >> 4 in (GLOBAL, WEAK):
                found[text[name : text.index(b"\0", name)].decode()] = where != UNDEFINED
    return found


def _in_process(name: str) -> bool:
    return name == LINKER_DEFINED or hasattr(ctypes.CDLL(None), name)
