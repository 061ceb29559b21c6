"""The MODE register: how denormals are treated, and what of it can change.

The simulator rounds to nearest even, keeps denormals of 16 and 64 bits, and has DX10_CLAMP and
IEEE set, which is what the compiler's kernels start with and keep. Denormals of 32 bits are
kept or taken for 0, as the launch says and S_DENORM_MODE changes. Anything else is refused by
name, since arithmetic would silently differ.

Source: AMD "RDNA3" Instruction Set Architecture, section 3.3.4 (MODE) and 16.5 (S_ROUND_MODE,
S_DENORM_MODE); LLVM AMDGPUUsage, FLOAT_DENORM_MODE.
"""

from typing import Protocol

from hcq.bits import Layout
from hcq.errors import SimFault
from sim.amd.rdna.instruction import Instruction
from sim.isa.value import F32, U32, Value, where

MODE = Layout("MODE", 32, {
    "excp_en":    (20, 12),
    "lod_clamped": (11, 11),
    "ieee":       ( 9,  9),
    "dx10_clamp": ( 8,  8),
    "denorm":     ( 7,  4),
    "round":      ( 3,  0),
})  # fmt: skip
HWREG = Layout("HWREG", 16, {
    "size":   (15, 11),  # minus 1
    "offset": (10,  6),
    "id":     ( 5,  0),
})  # fmt: skip
# The same fields where a launch sets them.
# Source: AMD GC 11 register reference, COMPUTE_PGM_RSRC1.FLOAT_MODE.
FLOAT_MODE = Layout("COMPUTE_PGM_RSRC1.FLOAT_MODE", 8, {"denorm": (7, 4), "round": (3, 0)})
FLOAT_MODE_SHIFT = 12

MODE_ID = 1
ROUND_NEAREST = 0  # both fields
KEEP_DENORMALS = 0xF  # both fields
KEEP_SOURCES, KEEP_RESULTS = 1, 2  # of 32 bits
KEEP_OTHERS = 0xC  # of 16 and 64 bits, both

CHANGES = frozenset({"s_round_mode", "s_denorm_mode", "s_setreg_imm32_b32"})
SET_REGISTER = "s_setreg_b32"  # as those, by a number that is known only when it runs

_EXPONENT, _SIGN = 0x7F80_0000, 0x8000_0000


class HasDenormals(Protocol):
    """Registers of a wave that remember MODE.denorm."""

    denormals: int


def launch_denormals(rsrc1: int) -> int:
    """MODE.denorm that a launch starts with; SimFault for a mode that is not simulated."""
    field = FLOAT_MODE.unpack(rsrc1 >> FLOAT_MODE_SHIFT & 0xFF)
    if field["round"] != ROUND_NEAREST or field["denorm"] & KEEP_OTHERS != KEEP_OTHERS:
        raise SimFault(
            f"COMPUTE_PGM_RSRC1.FLOAT_MODE {rsrc1 >> FLOAT_MODE_SHIFT & 0xFF:#x} is not simulated",
            facts={"denorm": hex(field["denorm"]), "round": hex(field["round"])},
        )
    return field["denorm"]


def change(instruction: Instruction, registers: HasDenormals) -> None:
    """Carry out one of CHANGES; SimFault unless it leaves all but 32-bit denormals as they are."""
    if instruction.name == "s_round_mode":
        _same(instruction, instruction.offset & 0xF, ROUND_NEAREST)
    elif instruction.name == "s_denorm_mode":
        registers.denormals = denormals_after(instruction)
    else:
        field = HWREG.unpack(instruction.offset & 0xFFFF)
        if field["id"] != MODE_ID:
            raise SimFault(f"{instruction.name} of hardware register {field['id']}")
        ones = (1 << field["size"] + 1) - 1
        now = mode_register(registers.denormals) >> field["offset"] & ones
        _same(instruction, (instruction.literal or 0) & ones, now)


def keeps(instruction: Instruction, registers: HasDenormals, wanted: Value) -> Value:
    """Uniform BOOL: whether SET_REGISTER with this number leaves MODE as it is."""
    field = HWREG.unpack(instruction.offset & 0xFFFF)
    if field["id"] != MODE_ID:
        raise SimFault(f"{instruction.name} of hardware register {field['id']} is not simulated")
    ones = (1 << field["size"] + 1) - 1
    now = mode_register(registers.denormals) >> field["offset"] & ones
    same: Value = (wanted & ones) == now
    return same


def refused_change(instruction: Instruction) -> SimFault:
    """What a wave does that sets MODE to another number."""
    return SimFault(
        f"{instruction.name} that changes MODE is not simulated",
        facts={"address": hex(instruction.address)},
    )


def denormals_after(instruction: Instruction) -> int:
    """MODE.denorm that S_DENORM_MODE sets."""
    wanted = instruction.offset & 0xF
    _same(instruction, wanted & KEEP_OTHERS, KEEP_OTHERS)
    return wanted


def mode_register(denormals: int) -> int:
    """The whole register."""
    return MODE.pack(ieee=1, dx10_clamp=1, denorm=denormals, round=ROUND_NEAREST)


def flush(value: Value) -> Value:
    """An F32 with denormals replaced by zeros of their sign."""
    bits = value.bits(U32)
    return where((bits & _EXPONENT) == 0, bits & _SIGN, bits).bits(F32)


def clamp_to_one(value: Value) -> Value:
    """Into [0, 1]; NaN becomes 0 (DX10_CLAMP, which the compiler always sets)."""
    return where(value >= 1.0, 1.0, where(value > 0.0, value, 0.0))


def _same(instruction: Instruction, wanted: int, kept: int) -> None:
    if wanted != kept:
        raise SimFault(
            f"{instruction.name} to {wanted:#x} is not simulated",
            facts={"address": hex(instruction.address), "kept": hex(kept)},
        )
