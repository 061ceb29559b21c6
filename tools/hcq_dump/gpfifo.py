"""Entries of an NVIDIA ring (GPFIFO) to packets. Two words each; never reads past the end."""

from collections.abc import Iterator

from hcq.bits import Layout
from hcq.nv.defs import host
from tools.hcq_dump.record import Fields, Packet

ENTRY_WORDS = host.GP_ENTRY_BYTES // 4
# Source: NVIDIA open-gpu-kernel-modules, class/clc86f.h, GP_ENTRY0_PB_EXTENDED_BASE_OPERAND.
EXTENDED_BASE = Layout("EXTENDED_BASE", 32, {"operand": (24, 8)})
_BASE_SHIFT = 40  # the operand is bits 56:40 of the addresses that follow
_OPCODES = {
    value: name.removeprefix("GP_OPCODE_")
    for name, value in vars(host).items()
    if name.startswith("GP_OPCODE_")
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
    fields = [("pb", f"{address:#x}"), ("ndw", str(found["length"]))]
    fields += [(name, "1") for name in ("level", "sync", "fetch") if found[name]]
    return _packet("ENTRY", at, raw, fields, host.GP_ENTRY.unknown(entry))


def _is_new(arch: str) -> bool:
    return int(arch.removeprefix("sm_")) >= 90


def _control(at: int, raw: list[int], entry: int, opcodes: dict[int, str]) -> Packet:
    found = host.GP_CONTROL.unpack(entry)
    name = opcodes.get(found["opcode"], f"?{found['opcode']:#04x}")
    stray = host.GP_CONTROL.unknown(entry)
    if name == "SET_PB_SEGMENT_EXTENDED_BASE":
        base = EXTENDED_BASE.unpack(found["operand"])["operand"] << _BASE_SHIFT
        stray |= EXTENDED_BASE.unknown(found["operand"])
        return _packet(name, at, raw, [("base", f"{base:#x}")], stray)
    operand = [("operand", f"{found['operand']:#x}")] if found["operand"] else []
    return _packet(name, at, raw, operand, stray)


def _packet(name: str, at: int, raw: list[int], fields: Fields, stray: int) -> Packet:
    if stray:
        fields = [*fields, ("reserved", f"?{stray:#x}")]
    return Packet("GP", name, at, raw, fields, unknown=bool(stray) or name.startswith("?"))
