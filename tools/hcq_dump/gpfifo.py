"""Entries of an NVIDIA ring (GPFIFO) to packets. Two words each; never reads past the end."""

from collections.abc import Iterator
from functools import partial

from hcq.bits import Layout
from hcq.nv.defs import host
from tools.hcq_dump.fields import count, hexadecimal
from tools.hcq_dump.record import BitField, Fields, Packet, Shown

WORD_BITS = 32
ENTRY_WORDS = host.GP_ENTRY_BYTES // 4
# Source: NVIDIA open-gpu-kernel-modules, class/clc86f.h, GP_ENTRY0_PB_EXTENDED_BASE_OPERAND.
EXTENDED_BASE = Layout("EXTENDED_BASE", 32, {"operand": (24, 8)})
_BASE_SHIFT = 40  # the operand is bits 56:40 of the addresses that follow
_OPCODES = {
    value: name.removeprefix("GP_OPCODE_")
    for name, value in vars(host).items()
    if name.startswith("GP_OPCODE_")
}
# Source: clc56f.h, clc86f.h, GP_ENTRY0_* and GP_ENTRY1_*. The names of 0 and 1.
_VALUES = {
    "level": ("MAIN", "SUBROUTINE"),
    "sync": ("PROCEED", "WAIT"),
    "fetch": ("UNCONDITIONAL", "CONDITIONAL"),
}
_SINCE_HOPPER = (host.GP_OPCODE_SET_PB_SEGMENT_EXTENDED_BASE,)


def decode(words: list[int], arch: str = "sm_90") -> Iterator[Packet]:
    """Every entry of the words; half an entry at the end is torn."""
    opcodes = {k: v for k, v in _OPCODES.items() if k not in _SINCE_HOPPER or _is_new(arch)}
    base = 0
    for at in range(0, len(words), ENTRY_WORDS):
        raw = words[at : at + ENTRY_WORDS]
        if len(raw) < ENTRY_WORDS:
            yield Packet("GP", "ENTRY", at, raw, [("words", f"{raw[0]:#x}")], torn=True,
                         notes=[f"!torn needs {ENTRY_WORDS}, has {len(raw)}"])  # fmt: skip
            return
        entry = raw[1] << 32 | raw[0]
        if host.GP_ENTRY.unpack(entry)["length"]:
            yield _segment(at, raw, entry, base)
            continue
        packet = _control(at, raw, entry, opcodes)
        if packet.opcode == "SET_PB_SEGMENT_EXTENDED_BASE":
            base = EXTENDED_BASE.unpack(raw[0])["operand"] << _BASE_SHIFT
        yield packet


def _segment(at: int, raw: list[int], entry: int, base: int) -> Packet:
    found = host.GP_ENTRY.unpack(entry)
    address = base | found["get_hi"] << 32 | found["get"] << 2
    fields: Fields = [("pb", f"{address:#x}"), ("ndw", count(found["length"]))]
    fields += [(name, names[1]) for name, names in _VALUES.items() if found[name]]
    return _packet("ENTRY", at, raw, fields, host.GP_ENTRY)


def _is_new(arch: str) -> bool:
    return int(arch.removeprefix("sm_")) >= 90


def _control(at: int, raw: list[int], entry: int, opcodes: dict[int, str]) -> Packet:
    found = host.GP_CONTROL.unpack(entry)
    name = opcodes.get(found["opcode"], f"?{found['opcode']:#04x}")
    if name == "SET_PB_SEGMENT_EXTENDED_BASE":
        base = EXTENDED_BASE.unpack(found["operand"])["operand"] << _BASE_SHIFT
        more = EXTENDED_BASE.unknown(found["operand"])
        return _packet(name, at, raw, [("base", f"{base:#x}")], host.GP_CONTROL, more)
    operand = [("operand", hexadecimal(found["operand"]))] if found["operand"] else []
    return _packet(name, at, raw, operand, host.GP_CONTROL)


def _packet(
    name: str, at: int, raw: list[int], fields: Fields, layout: Layout, more: int = 0
) -> Packet:
    """more: bits of the operand that mean nothing here."""
    entry = raw[1] << 32 | raw[0]
    stray = layout.unknown(entry) | more
    if stray:
        fields = [*fields, ("reserved", f"?{stray:#x}")]
    is_unknown = bool(stray) or name.startswith("?")
    bits = partial(_bits, layout, entry, name)
    return Packet("GP", name, at, raw, fields, bits, unknown=is_unknown)


def _bits(layout: Layout, entry: int, name: str) -> Iterator[BitField]:
    """Every field of an entry, by the word that holds it."""
    for field, value in layout.unpack(entry).items():
        high, low = layout.fields[field]
        at = low // WORD_BITS
        text = _VALUES[field][value] if field in _VALUES else hexadecimal(value)
        if field == "opcode":
            text = Shown(name, value) if name.startswith("?") else name
        span = high - at * WORD_BITS, low - at * WORD_BITS
        yield BitField(at, span, field.upper(), text, value)
