"""Where the bits of an instruction lie, and what the numbers in its fields are called.

Every instruction has 128 bits: the opcode in bits 11:0, the guard predicate in 15:12,
operands and modifiers in 104:16, scheduling hints from 105 on. Most arithmetic shares
three operand slots (bits 31:24, 39:32 or the immediate or constant in 63:32, and 71:64);
which operand sits in which slot is the form, opcode bits 11:9.

Source: mesa: src/nouveau/compiler/nak/sm70_encode.rs; names as nvdisasm prints them.
"""

from collections.abc import Mapping

from hcq.bits import Layout

WORD = Layout("SASS", 128, {
    "reuse":        (125, 122),  # one bit per operand position
    "wait_mask":    (121, 116),
    "read_barrier": (115, 113),
    "write_barrier": (112, 110),
    "yield":        (109, 109),
    "stall":        (108, 105),
    "body":         (104,  16),
    "guard_not":    ( 15,  15),
    "guard":        ( 14,  12),
    "opcode":       ( 11,   0),
})  # fmt: skip

# Form (opcode bits 11:9) -> what operands B and C are, and the bit of their slot.
FORMS: Mapping[int, tuple[tuple[str, int], tuple[str, int]]] = {
    1: (("reg", 32), ("reg", 64)),
    2: (("reg", 64), ("imm", 32)),
    3: (("reg", 64), ("const", 32)),
    4: (("imm", 32), ("reg", 64)),
    5: (("const", 32), ("reg", 64)),
    6: (("ureg", 32), ("reg", 64)),
    7: (("reg", 64), ("ureg", 32)),
}

# Slot -> bits of neg and abs; the same for packed halves with the low bit of the swizzle.
SIGNS = {24: (72, 73), 32: (63, 62), 64: (75, 74)}
HALF_SIGNS = {24: (72, 73, 74), 32: (63, 62, 60), 64: (84, 83, 81)}
SWIZZLES = ("", None, "H0_H0", "H1_H1")

Names = tuple[str | None, ...] | Mapping[int, str]

_COMPARE = ("F", "LT", "EQ", "LE", "GT", "NE", "GE")
_UNORDERED = ("NUM", "NAN", "LTU", "EQU", "LEU", "GTU", "NEU", "GEU")
_ORDERS = (
    "", "CONSTANT.PRIVATE", "CONSTANT.CTA", "CONSTANT.CTA.PRIVATE", "CONSTANT", "STRONG.SM",
    "STRONG.GPU.PRIVATE", "STRONG.GPU", "MMIO.GPU", "CONSTANT.SM", "STRONG.SYS",
    "CONSTANT.SM.PRIVATE", "MMIO.SYS", "CONSTANT.VC", "CONSTANT.VC.PRIVATE", "CONSTANT.GPU",
)  # fmt: skip
_STRONG = (*_ORDERS[:4], "STRONG.SM.PRIVATE", *_ORDERS[5:])

# Field name -> what its values are called. "" prints nothing, None is refused.
NAMES: Mapping[str, Names] = {
    "rz": {0: "", 3: "RZ"},
    "rnd": ("", "RM", "RP", "RZ"),
    "toward": ("", "FLOOR", "CEIL", "TRUNC"),
    "chop": {0: "", 3: "TRUNC"},
    "scale": (None, "D8", "D4", "D2", "", "M2", "M4", "M8"),
    "flush": {0: "", 1: "FTZ", 2: "FMZ"},
    "cmp": (*_COMPARE, *_UNORDERED, "T"),
    "dcmp": ("MIN", *_COMPARE[1:], *_UNORDERED, "MAX"),
    "icmp": (*_COMPARE, "T"),
    "bool": ("AND", "OR", "XOR", None),
    "mufu": ("COS", "SIN", "EX2", "LG2", "RCP", "RSQ", "RCP64H", "RSQ64H", "SQRT", "TANH"),
    "mufuhalf": ("COS", "SIN", "EX2", "LG2", "RCP", "RSQ", None, None, "SQRT", "TANH"),
    "oldmufufmt": ("", None, "F16", None),
    "mufufmt": ("", "F16", "BF16", None),
    "float": (None, "F16", "F32", "F64", "BF16"),
    "oldfloat": (None, "F16", "F32", "F64"),
    "oldfloat32": (None, "F16", "", "F64"),
    "float32": (None, "F16", "", "F64", "BF16"),
    "int": ("U8", "U16", "U32", "U64", "S8", "S16", "", "S64"),
    "oldfrnd": {9: "F16", 18: ""},
    "frnd": {9: "F16", 18: "", 36: "BF16"},
    "frnd64": {27: "F64"},
    "i2fp": (None, None, "F32", None),
    "ui2f": {2: ""},
    "int32": {2: "U32", 6: "S32"},
    "uint32": {2: "U32", 6: ""},
    "narrow": ("U8", "S8", "U16", "S16"),
    "half": ("F16", "BF16"),
    "fp8": ("E5M2", "E4M3"),
    "fp8q": ("E4M3", "E5M2"),
    "unsigned": ("U32", ""),
    "int64": ("U32", "", "U64", "S64"),
    "u64": (None, None, "U64", "S64"),
    "shift": ("S64", "U64", "S32", "U32"),
    "direction": ("L", "R"),
    "prmt": ("", "F4E", "B4E", "RC8", "ECL", "ECR", "RC16", None),
    "viadd": {0: "32", 1: "16x2", 2: "S32", 3: "S16x2", 4: "U8x4", 5: "S8x4"},
    "vimnmx": ("U32", "", "U16x2", "S16x2"),
    "vimnmx120": ("U32", "S32", "U16x2", "S16x2", "U8x4", "S8x4"),
    "half2": ("LO", "HI"),
    "a4": ("U4", "S4"),
    "a8": ("U8", "S8"),
    "a16": ("U16", "S16"),
    "size": ("U8", "S8", "U16", "S16", "", "64", "128", None),
    "constsize": ("U8", "S8", "U16", "S16", "", "64", None, None),
    "copysize": ("", "64", "128", None),
    "oldcopysize": (None, None, None, None, "", "64", "128", None),
    "index": ("", "IL", "IS", "ISL"),
    "evict": ("EF", "", "EL", "LU", "EU", "NA", None, None),
    "ltc": ("", "LTC64B", "LTC128B", "LTC256B"),
    "order": _ORDERS,
    "strong": _STRONG,
    "ordered": (*_STRONG[:13], "SYS.ORDERED", "STRONG.SYS.ORDERED", "MMIO.SYS.ORDERED"),
    "copyorder": (
        *_ORDERS[:5], "MMIO.CTA", "GPU.PRIVATE", "MMIO.CTA.PRIVATE", "MMIO.SM", "CONSTANT.SM",
        "MMIO.VC", "CONSTANT.SM.PRIVATE", "MMIO.GPU", *_ORDERS[13:],
    ),
    "sharedop": ("ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR", "EXCH"),
    "atom": ("ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR", "EXCH", "SAFEADD"),
    "red": ("ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR"),
    "fatom": {0: "ADD", 2: "MIN", 4: "MAX"},
    "atomtype": ("", "S32", "64", "S64", "128"),
    "castype": ("", "S32", "64", None, "128", None, None, None),
    "oldcastype": ("", "S32", "64", None, None, None, None, None),
    "redtype": ("", "S32", "64", "S64", None, None, None, None),
    "oldatomtype": ("", "S32", "64", "F32.FTZ.RN", "F16x2.RN", "S64", "F64.RN", None),
    "fatomtype": (
        "F16x2.RN", "F16x4.RN", "F16x8.RN", "BF16x2.RN", "BF16x4.RN", "BF16x8.RN", None, None,
        None, "F32.FTZ.RN", "F32x2.FTZ.RN", "F32x4.FTZ.RN", "F32.RN", "F32x2.RN", "F32x4.RN",
        "F64.RN",
    ),
    "sharedatom": ("", "S32", "64", None, None, None, None, None),
    "widesharedatom": ("", "S32", "64", None, "128", None, None, None),
    "cas": ("CAS", "CAST", None, "CAST.SPIN"),
    "cast": (None, "CAST", None, "CAST.SPIN"),
    "cctl": {0: "PF1", 1: "PF2", 2: "WB", 3: "IV", 5: "RS", 9: "PML2", 10: "DML2", 11: "RML2"},
    "cctlall": {4: "IVALL", 6: "IVALLP", 7: "WBALL"},
    "cached": ("", "U", "C", "I"),
    "membar": ("SC", "ALL", "", "MMIO"),
    "oldscope": ("CTA", "SM", "GPU", "SYS", None, "VC"),
    "scope": ("CTA", "SM", "GPU", "SYS", None, "VC", "CTA.PARTIAL", None),
    "space": ("G", "L", "S", None),
    "count": ("", "2", "4", None),
    "hmma": ("1688", "16816", "1684", None),
    "accumulate": ("F16", "F32"),
    "hmmafmt": ("", "BF16", "TF32", None),
    "imma": {0: "8816", 4: "16816", 5: "16832"},
    "newimma": ("16816", "16832"),
    "imma4": {2: "8832", 5: "16832", 6: "16864"},
    "immasp": {5: "16832", 6: "16864"},
    "hmmasp": ("1688", "16816", None, "16832"),
    "bmma": ("88128", "168128", "168256", None),
    "bits": ("XOR", "AND"),
    "dmma": ("8x8x4", "16x8x4", "16x8x8", "16x8x16"),
    "movm": ("MT88", "M832", "M864", None),
    "qmma": {0: "16816", 1: "16832"},
    "reduxand": ("", "OR", "XOR", "SUM", "MIN", "MAX", None, None),
    "credux": ("MAX", "MAXABS", "MIN", "MINABS"),
    "vote": ("ALL", "ANY", "EQ", None),
    "shfl": ("IDX", "UP", "DOWN", "BFLY"),
    "barred": ("POPC", "AND", "OR", None),
    "step": ("", "INC", "DEC", None),
    "breaks": ("", "RELIABLE", None, None),
    "together": ("", "RELIABLE", "RECONVERGENT", None),
    "divergent": (None, None, "DIV", "CONV"),
    "byte": ("", "B1", "B2", "B3"),
    "lanes": {15: ""},
}  # fmt: skip

# Operand suffixes of the packed single-precision instructions.
PAIRS = {
    2: ("F32x2.HI_LO", "F32x2.LO_HI", "F32", None),
    3: ("F32x2.HI_LO", "F32x2.LO_HI", "F32", None, "F32x2.HI_LO.NP", None, None, None),
}

# Special registers of S2R, S2UR and CS2R; others print as SR<number>.
SPECIAL_REGISTERS = {
    0: "SR_LANEID", 1: "SR_CLOCK", 2: "SR_VIRTCFG", 3: "SR_VIRTID", 15: "SR_ORDERING_TICKET",
    16: "SR_PRIM_TYPE", 17: "SR_INVOCATION_ID", 18: "SR_Y_DIRECTION", 19: "SR_THREAD_KILL",
    20: "SM_SHADER_TYPE", 21: "SR_DIRECTCBEWRITEADDRESSLOW", 22: "SR_DIRECTCBEWRITEADDRESSHIGH",
    23: "SR_DIRECTCBEWRITEENABLED", 24: "SR_SW_SCRATCH", 25: "SR_MACHINE_ID_1",
    26: "SR_MACHINE_ID_2", 27: "SR_MACHINE_ID_3", 28: "SR_AFFINITY", 29: "SR_INVOCATION_INFO",
    30: "SR_WSCALEFACTOR_XY", 31: "SR_WSCALEFACTOR_Z", 32: "SR_TID", 33: "SR_TID.X",
    34: "SR_TID.Y", 35: "SR_TID.Z", 37: "SR_CTAID.X", 38: "SR_CTAID.Y", 39: "SR_CTAID.Z",
    40: "SR_NTID", 41: "SR_CirQueueIncrMinusOne", 42: "SR_NLATC", 44: "SR_SM_SPA_VERSION",
    45: "SR_MULTIPASSSHADERINFO", 46: "SR_LWINHI", 47: "SR_SWINHI", 48: "SR_SWINLO",
    49: "SR_SWINSZ", 50: "SR_SMEMSZ", 51: "SR_SMEMBANKS", 52: "SR_LWINLO", 53: "SR_LWINSZ",
    54: "SR_LMEMLOSZ", 55: "SR_LMEMHIOFF", 56: "SR_EQMASK", 57: "SR_LTMASK", 58: "SR_LEMASK",
    59: "SR_GTMASK", 60: "SR_GEMASK", 61: "SR_REGALLOC", 62: "SR_BARRIERALLOC",
    64: "SR_GLOBALERRORSTATUS", 66: "SR_WARPERRORSTATUS", 67: "SR_VIRTUALSMID",
    68: "SR_VIRTUALENGINEID", 80: "SR_CLOCKLO", 81: "SR_CLOCKHI", 82: "SR_GLOBALTIMERLO",
    83: "SR_GLOBALTIMERHI", 84: "SR_ESR_PC", 85: "SR_ESR_PC_HI", 96: "SR_HWTASKID",
    97: "SR_CIRCULARQUEUEENTRYINDEX", 98: "SR_CIRCULARQUEUEENTRYADDRESSLOW",
    99: "SR_CIRCULARQUEUEENTRYADDRESSHIGH",
    **{100 + 2 * i: f"SR_PM{i}" for i in range(8)},
    **{101 + 2 * i: f"SR_PM_HI{i}" for i in range(8)},
    **{116 + 2 * i: f"SR_SNAP_PM{i}" for i in range(8)},
    **{117 + 2 * i: f"SR_SNAP_PM_HI{i}" for i in range(8)},
    132: "SR_VARIABLE_RATE", 133: "__HIR0X000", 255: "SRZ",
}  # fmt: skip
# What later chips add: the first chip that has it, and the last.
_ADDED = {
    65: ("SR_CGAERRORSTATUS", 90, 120), 134: ("SR_WARPGROUP_INFO", 90, 90),
    135: ("SR_WARPGROUPID", 90, 90), 136: ("SR_CgaCtaId", 90, 120),
    137: ("SR_GpcLocalCgaId", 90, 120), 138: ("SR_CgaSize", 100, 120),
    139: ("SR_CTARegPoolSz", 90, 120), 141: ("SR_TMemSz", 100, 120),
    142: ("SR_CONTEXT_SAVE_ADDR_LO", 120, 120), 143: ("SR_CONTEXT_SAVE_ADDR_HI", 120, 120),
}  # fmt: skip


def special_registers(chip: int) -> Mapping[int, str]:
    """Number -> name for one chip, which is 80 to 120."""
    added = {n: name for n, (name, first, last) in _ADDED.items() if first <= chip <= last}
    return {**SPECIAL_REGISTERS, **added}


class Bits:
    """The bits of one instruction, and which of them somebody has looked at."""

    def __init__(self, word: int) -> None:
        self.word = word
        self.seen = (1 << 16) - 1 | ((1 << 23) - 1) << 105

    def take(self, low: int, width: int = 1) -> int:
        """The unsigned field of `width` bits that starts at bit `low`."""
        mask = (1 << width) - 1
        self.seen |= mask << low
        return self.word >> low & mask

    def signed(self, low: int, width: int) -> int:
        """The same, as a two's complement number."""
        value = self.take(low, width)
        return value - (value >> width - 1 << width)

    @property
    def unread(self) -> int:
        """Set bits nobody looked at."""
        return self.word & ~self.seen
