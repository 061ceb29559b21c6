"""One decoded SASS instruction, as data.

Decoding fills it in, text prints it, semantics and translation read it. Nothing
here knows bit positions; formats.py does.

Source: mesa: src/nouveau/compiler/nak/ir.rs (operand kinds and modifiers); NVIDIA CUDA
Binary Utilities, "Instruction Set Reference" (names).
"""

from dataclasses import dataclass

ZERO_REGISTER = 255  # RZ reads 0, writes vanish
TRUE_PREDICATE = 7  # PT and UPT read true, writes vanish


@dataclass(frozen=True)
class Operand:
    """One operand.

    kind is one of:
    "reg"      R0 to R254; index 255 is RZ
    "ureg"     UR0 to UR62 and URZ = 63; on sm_100 and later UR0 to UR254 and URZ = 255
    "pred"     P0 to P6; index 7 is PT
    "upred"    UP0 to UP6; index 7 is UPT
    "predset"  all seven predicates at once (PR of P2R and R2P)
    "imm"      an integer; value holds its bits, 64 of them (already extended) where count
               is 2, else 32. `signed`: printed as a signed number
    "fimm"     a float; count is its width. 32: value holds its bits. 64: value holds the
               high 32 bits, the low ones are zero. 16: value holds two halves, the low one
               in the low bits; they are bfloat16 with the modifier BF16_V2
    "const"    c[bank][base + ubase + value]; base and ubase are None where not used
    "constur"  cx[ubase][value]: the bank's descriptor lies in a uniform register pair
    "mem"      [base + ubase + value]; base and ubase are None where not encoded
    "label"    the address a branch goes to, in value
    "jump"     a branch to base + value; base is a pair of registers
    "special"  special register number in index (formats.special_registers has the names)
    "barrier"  barrier number in index: B0 to B15 of BSSY and BSYNC
    "scoreboard" SB0 to SB5 of DEPBAR
    """

    kind: str
    index: int = 0
    count: int = 1  # registers covered: 2 for a 64-bit pair, 4 for 128 bits
    value: int = 0
    bank: int = 0
    neg: bool = False
    abs: bool = False
    inv: bool = False  # ~ of a register, ! of a predicate
    base: "Operand | None" = None
    ubase: "Operand | None" = None
    wide: bool = False  # mem: base (and ubase) are pairs that hold 64-bit addresses
    descriptor: "Operand | None" = None  # mem: desc[UR], a uniform register pair
    scale: int = 1  # mem: base is multiplied with this (.X4 .X8 .X16)
    modifiers: tuple[str, ...] = ()  # what is written behind the operand: ("H0_H0",) ("B1",)
    signed: bool = False
    reuse: bool = False  # a hint; no meaning
    hidden: bool = False  # not printed, because it is PT, RZ or zero


@dataclass(frozen=True)
class Instruction:
    """One instruction at `address`, 16 bytes long.

    name and modifiers are what nvdisasm prints: IMAD.WIDE.U32 is "IMAD", ("WIDE", "U32").
    A name with a dot inside one modifier stays whole: "STRONG.GPU", "F32.FTZ.RN".
    destinations and sources are in assembly order; predicates that are written or read are
    listed even where the text leaves PT out (hidden).
    """

    address: int
    word: int  # all 128 bits
    name: str
    modifiers: tuple[str, ...]
    guard: Operand
    destinations: tuple[Operand, ...]
    sources: tuple[Operand, ...]

    @property
    def target(self) -> int | None:
        """The address a branch names, None for whatever names none."""
        for operand in self.sources:
            if operand.kind == "label":
                return operand.value
        return None

    @property
    def spelling(self) -> str:
        """The name with its modifiers: `IMAD.WIDE.U32`."""
        return ".".join((self.name, *self.modifiers))
