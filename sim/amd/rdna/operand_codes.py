"""Operand codes: what the numbers in source and destination fields stand for.

Source: AMD "RDNA3" Instruction Set Architecture, section 5.2 "Scalar Source Operands"
and table "Vector Instruction Operands".
"""

from functools import cache

from sim.amd.rdna.instruction import Operand, float_operand

SGPR_COUNT = 106
VCC, TTMP, NULL, M0, EXEC = 106, 108, 124, 125, 126
VCCZ, EXECZ, SCC, LDS_DIRECT, LITERAL = 251, 252, 253, 254, 255
FIRST_VGPR = 256
DPP8, DPP8_FI, DPP16 = 233, 234, 250

_NAMED = {VCCZ: "vccz", EXECZ: "execz", SCC: "scc", LDS_DIRECT: "lds_direct"}


class BadOperand(ValueError):
    """A code that stands for nothing, or a register group that the file does not hold."""


@cache
def vgpr(index: int, count: int, hi: bool = False) -> Operand:
    """count VGPRs from index."""
    if index + count > 256:
        raise BadOperand(f"v[{index}:{index + count - 1}] is outside the 256 VGPRs")
    return Operand("vgpr", index, count, hi=hi)


@cache
def scalar(code: int, count: int) -> Operand:
    """A scalar register, or group of registers, that can be read and written."""
    if code < SGPR_COUNT:
        return _group("sgpr", code, count, SGPR_COUNT)
    if code < TTMP:
        return _group("vcc", code - VCC, count, 2)
    if code < NULL:
        return _group("ttmp", code - TTMP, count, 16)
    if code in (NULL, M0):
        if code == M0 and count > 1:
            raise BadOperand("m0 is one dword")
        return Operand("null" if code == NULL else "m0", code, count)
    if code < 128:
        return _group("exec", code - EXEC, count, 2)
    raise BadOperand(f"operand code {code} cannot be written")


@cache
def source(code: int, count: int) -> Operand:
    """Any source but the literal and DPP, 9-bit code (scalar fields have 8)."""
    if code >= FIRST_VGPR:
        return vgpr(code - FIRST_VGPR, count)
    if code < 128:
        return scalar(code, count)
    if code <= 208:
        return Operand("int", code, count, code - 128 if code <= 192 else 192 - code)
    if 235 <= code <= 238:
        return Operand("aperture", code, count)
    if 240 <= code <= 248:
        return float_operand(code, count)
    if code in _NAMED:
        return Operand(_NAMED[code], code, count)
    raise BadOperand(f"operand code {code} is reserved")


def _group(kind: str, index: int, count: int, limit: int) -> Operand:
    """Pairs start at even numbers, larger groups at multiples of four."""
    if index + count > limit or index % min(count, 4):
        raise BadOperand(f"{count} registers of {kind} cannot start at {index}")
    return Operand(kind, index, count)
