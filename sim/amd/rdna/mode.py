"""The MODE register: what changes of it are accepted.

The simulator computes with one mode: round to nearest even, denormals kept in every
width, DX10_CLAMP and IEEE set, which is what the compiler's kernels start with and keep.
A change to anything else is refused by name, since arithmetic would silently differ.

Source: AMD "RDNA3" Instruction Set Architecture, section 3.3.4 (MODE) and 16.5 (S_ROUND_MODE,
S_DENORM_MODE).
"""

from hcq.bits import Layout
from hcq.errors import SimFault
from sim.amd.rdna.instruction import Instruction

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

MODE_ID = 1
ROUND_NEAREST = 0  # both fields
KEEP_DENORMALS = 0xF  # both fields
INITIAL_MODE = MODE.pack(ieee=1, dx10_clamp=1, denorm=KEEP_DENORMALS, round=ROUND_NEAREST)

CHANGES = frozenset({"s_round_mode", "s_denorm_mode", "s_setreg_imm32_b32"})


def check_change(instruction: Instruction) -> None:
    """SimFault unless the instruction leaves MODE's arithmetic as it is."""
    if instruction.name == "s_round_mode":
        _same(instruction, instruction.offset & 0xF, ROUND_NEAREST)
    elif instruction.name == "s_denorm_mode":
        _same(instruction, instruction.offset & 0xF, KEEP_DENORMALS)
    elif instruction.name == "s_setreg_imm32_b32":
        field = HWREG.unpack(instruction.offset & 0xFFFF)
        if field["id"] != MODE_ID:
            raise SimFault(f"{instruction.name} of hardware register {field['id']}")
        ones = (1 << field["size"] + 1) - 1
        kept = INITIAL_MODE >> field["offset"] & ones
        _same(instruction, (instruction.literal or 0) & ones, kept)


def _same(instruction: Instruction, wanted: int, kept: int) -> None:
    if wanted != kept:
        raise SimFault(
            f"{instruction.name} to {wanted:#x} is not simulated",
            facts={"address": hex(instruction.address), "kept": hex(kept)},
        )
