"""One decoded RDNA instruction, as data.

Decoding fills it in, text prints it, semantics and translation read it. Nothing
here knows bit positions; formats.py does.

Source: AMD "RDNA3" Instruction Set Architecture, sections 5 to 15 (operand codes,
modifiers, DPP controls).
"""

from collections.abc import Mapping
from dataclasses import dataclass

# Inline floats: operand code -> value of the constant. Code 248 is 1/(2*pi).
INLINE_FLOATS = {240: 0.5, 241: -0.5, 242: 1.0, 243: -1.0, 244: 2.0, 245: -2.0, 246: 4.0, 247: -4.0}

# The bits of every inline float per width. 1/(2*pi) is listed, not rounded from
# one width to the other, because the hardware keeps one constant per width.
_FLOAT_BITS = {
    16: {
        240: 0x3800, 241: 0xB800, 242: 0x3C00, 243: 0xBC00,
        244: 0x4000, 245: 0xC000, 246: 0x4400, 247: 0xC400, 248: 0x3118,
    },
    32: {
        240: 0x3F000000, 241: 0xBF000000, 242: 0x3F800000, 243: 0xBF800000,
        244: 0x40000000, 245: 0xC0000000, 246: 0x40800000, 247: 0xC0800000, 248: 0x3E22F983,
    },
    64: {
        240: 0x3FE0000000000000, 241: 0xBFE0000000000000,
        242: 0x3FF0000000000000, 243: 0xBFF0000000000000,
        244: 0x4000000000000000, 245: 0xC000000000000000,
        246: 0x4010000000000000, 247: 0xC010000000000000, 248: 0x3FC45F306DC9C882,
    },
}  # fmt: skip


@dataclass(frozen=True)
class Operand:
    """One operand: a register, an inline constant, or the literal.

    kind is one of "vgpr" "sgpr" "ttmp" "vcc" "exec" "m0" "null" "scc" "vccz"
    "execz" "int" "float" "literal" "aperture" "lds_direct". index is the register
    number (vcc_lo and exec_lo are 0, vcc_hi and exec_hi are 1) and the operand
    code for whatever is no numbered register. count is in dwords.
    """

    kind: str
    index: int
    count: int = 1
    value: int = 0  # "int": the signed number; "float": its f32 bits; "literal": the 32-bit word
    neg: bool = False
    abs: bool = False
    hi: bool = False  # the high 16 bits are used (op_sel of VOP3, .h registers)


@dataclass(frozen=True)
class Dpp:
    """The lane shuffle of a DPP instruction, which applies to its first source.

    kind 16: `ctrl` is the 9-bit control. kind 8: `lanes` holds the eight source lanes.
    """

    kind: int
    ctrl: int = 0
    lanes: tuple[int, ...] = ()
    row_mask: int = 0xF
    bank_mask: int = 0xF
    bound_ctrl: bool = False  # lanes without a source read 0
    fi: bool = False  # inactive source lanes may be read


@dataclass(frozen=True)
class Instruction:
    """One instruction at `address`, `size` bytes long with its literal or DPP words.

    destinations and sources are in assembly order. Implicit operands stand last:
    the vcc that VOPC and carry instructions of the 32-bit encodings write or read.
    name has no encoding suffix (_e32, _e64, _dpp); `format` says the encoding.

    An old destination value that is read (v_fmac, s_addk, v_movreld, d16 loads) and scc are not
    listed, nor is the vcc that v_div_fmas reads; v_swap lists both registers as both.
    Memory: sources are the address, data, then scalar base or descriptor and offset, each
    `null` where absent; an atomic has a destination only if it returns (glc).
    v_fma_mix: neg and abs stand in the operands, neg_lo and neg_hi are 0.
    """

    address: int
    size: int
    format: str
    name: str
    op: int
    fields: Mapping[str, int]
    destinations: tuple[Operand, ...]
    sources: tuple[Operand, ...]
    literal: int | None = None
    clamp: bool = False
    omod: int = 0  # 1: *2  2: *4  3: /2
    op_sel: int = 0  # bit n: high half of source n (VOP3: bit 3, of the destination)
    op_sel_hi: int = 0
    neg_lo: int = 0
    neg_hi: int = 0
    dpp: Dpp | None = None
    halves: tuple["Instruction", ...] = ()  # VOPD: X and Y; both read before either writes
    offset: int = 0  # memory offset in bytes, or the sign-extended simm16 of SOPP and SOPK
    offset1: int = 0  # second offset of two-address DS instructions, in units of the element

    @property
    def target(self) -> int:
        """Where a branch goes: the offset counts words from the next instruction."""
        return self.address + self.size + 4 * self.offset


def inline_bits(operand: Operand, bits: int) -> int:
    """The bits a "float" operand stands for when read at a width of 16, 32 or 64."""
    return _FLOAT_BITS[bits][operand.index]


def float_operand(code: int, count: int = 1) -> Operand:
    """The operand of an inline float code, 240 to 248."""
    return Operand("float", code, count, _FLOAT_BITS[32][code])
