"""Text of constants: inline numbers, and literals that could have been inline.

How a literal is printed depends on the type it is read as: 16-bit operands show the half that
is used, and `lit(...)` marks a literal that the assembler would otherwise encode inline.

Source: LLVM AMDGPU instruction syntax documentation; details observed with LLVM 22.1.
"""

import re
import struct
from collections.abc import Callable

from sim.amd.rdna.instruction import INLINE_FLOATS, Operand, inline_bits
from sim.amd.rdna.opcodes import Slot

_CODES = range(240, 249)
_FLOATS = {
    bits: frozenset(inline_bits(Operand("float", code), bits) for code in _CODES)
    for bits in (16, 32, 64)
}
# The high halves of the f32 constants.
_BF16 = frozenset(bits >> 16 for bits in _FLOATS[32])
_TYPES = re.compile(r"_(bf|[fiub])(16|32|64)")


def constant(name: str, operand: Operand, slot: Slot) -> str:
    """An inline constant or literal as an operand of the instruction `name`."""
    if operand.kind == "int":
        return str(operand.value)
    style = _style(name, slot)
    if operand.kind == "literal":
        return _LITERALS[style](operand.value)
    if style == "i16":
        return hex(inline_bits(operand, 16))
    if operand.index == 248:
        return "0.15915494309189532" if style.endswith("64") else "0.15915494"
    return str(INLINE_FLOATS[operand.index])


def inline(value: int) -> str:
    """A plain 32-bit number: decimal or float where it could be an inline constant."""
    if _small(value, 32):
        return str(_signed(value, 32))
    if value == 0x3E22F983:
        return "0.15915494"
    if value in _FLOATS[32]:
        return str(struct.unpack("<f", struct.pack("<I", value))[0])
    return hex(value)


def _style(name: str, slot: Slot) -> str:
    """How a constant in this place is read: `f16`, `i64`, `packed f16`, ..."""
    if slot.kind == "k":
        return "plain"
    types = _TYPES.findall(name)
    kind, bits = types[-1] if types else ("b", "32")
    if slot.kind in "hc" or "_mix" in name:
        return {"f": "f16", "bf": "bf16"}.get(kind, "i16")
    if slot.count > 1:
        return "f64" if kind == "f" or slot.count == 8 else "i64"
    if name.startswith("v_dot2_f32") and slot.field == "src2":
        return "32"
    if name.startswith(("v_pk_", "v_dot2", "v_dual_dot2")) and "f" in kind and bits == "16":
        return "pair f16" if name == "v_pk_fmac_f16" else f"packed {kind}16"
    return "32"


def _signed(value: int, bits: int) -> int:
    return value - (value >> bits - 1 << bits)


def _small(value: int, bits: int) -> bool:
    return -16 <= _signed(value, bits) <= 64


def _marked(value: int, is_inline: bool) -> str:
    return f"lit({value:#x})" if is_inline else hex(value)


def _32(value: int) -> str:
    return _marked(value, _small(value, 32) or value in _FLOATS[32])


def _f16(value: int) -> str:
    used = value & 0xFFFF
    return f"lit({value:#x})" if _small(used, 16) or used in _FLOATS[16] else hex(used)


def _bf16(value: int) -> str:
    used = value & 0xFFFF
    return _marked(value, _small(used, 16) or used in _BF16)


def _i16(value: int) -> str:
    is_inline = _small(value, 32) or value in _FLOATS[32]
    return f"lit({value:#x})" if is_inline else hex(value & 0xFFFF)


def _i64(value: int) -> str:
    return _marked(value, value <= 64)


def _f64(value: int) -> str:
    """The word is the high half of the number."""
    number = value << 32
    if number in _FLOATS[64]:
        return str(struct.unpack("<d", struct.pack("<Q", number))[0])
    return hex(value) if value else "0"


def _packed_f16(value: int) -> str:
    return _marked(value, _small(value, 32) or value in _FLOATS[16])


def _packed_bf16(value: int) -> str:
    return _marked(value, _small(value, 32) or value in _BF16)


def _pair_f16(value: int) -> str:
    half = value & 0xFFFF
    twice = half == value >> 16 and (_small(half, 16) or half in _FLOATS[16])
    return _marked(value, _small(value, 32) or twice)


_LITERALS: dict[str, Callable[[int], str]] = {
    "plain": hex,
    "32": _32,
    "f16": _f16,
    "bf16": _bf16,
    "i16": _i16,
    "i64": _i64,
    "f64": _f64,
    "packed f16": _packed_f16,
    "packed bf16": _packed_bf16,
    "pair f16": _pair_f16,
}
