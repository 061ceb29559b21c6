"""Text of the immediates that have a language of their own.

Wait counts, ALU delays, messages, hardware registers, LDS swizzles, DPP controls. The spelling
is that of the LLVM disassembler, so that the two can be compared line by line.

Source: AMD "RDNA3" Instruction Set Architecture, sections 4 "Program Flow Control", 12 "LDS" and
15.3.9 "DPP16"; spelling: LLVM AMDGPU instruction syntax documentation.
"""

from collections.abc import Callable, Mapping

from hcq.bits import Layout
from sim.amd.rdna.instruction import Dpp

WAITCNT = Layout("WAITCNT", 16, {
    "vmcnt":   (15, 10),
    "lgkmcnt": ( 9,  4),
    "expcnt":  ( 2,  0),
})

DEPCTR = Layout("DEPCTR", 16, {
    "va_vdst":  (15, 12),
    "va_sdst":  (11,  9),
    "va_ssrc":  ( 8,  8),
    "hold_cnt": ( 7,  7),
    "vm_vsrc":  ( 4,  2),
    "va_vcc":   ( 1,  1),
    "sa_sdst":  ( 0,  0),
})

DELAY_ALU = Layout("DELAY_ALU", 16, {
    "instid1":  (10,  7),
    "instskip": ( 6,  4),
    "instid0":  ( 3,  0),
})

HWREG = Layout("HWREG", 16, {
    "size":   (15, 11),  # minus one
    "offset": (10,  6),
    "id":     ( 5,  0),
})

SWIZZLE = Layout("SWIZZLE", 15, {
    "xor": (14, 10),
    "or":  ( 9,  5),
    "and": ( 4,  0),
})

DELAYS = (
    "NO_DEP", "VALU_DEP_1", "VALU_DEP_2", "VALU_DEP_3", "VALU_DEP_4", "TRANS32_DEP_1",
    "TRANS32_DEP_2", "TRANS32_DEP_3", "FMA_ACCUM_CYCLE_1", "SALU_CYCLE_1", "SALU_CYCLE_2",
    "SALU_CYCLE_3",
)  # fmt: skip
SKIPS = ("SAME", "NEXT", "SKIP_1", "SKIP_2", "SKIP_3", "SKIP_4")

MESSAGES = {
    1: "MSG_INTERRUPT",
    2: "MSG_HS_TESSFACTOR",
    3: "MSG_DEALLOC_VGPRS",
    5: "MSG_STALL_WAVE_GEN",
    6: "MSG_HALT_WAVES",
    9: "MSG_GS_ALLOC_REQ",
    128: "MSG_RTN_GET_DOORBELL",
    129: "MSG_RTN_GET_DDID",
    130: "MSG_RTN_GET_TMA",
    131: "MSG_RTN_GET_REALTIME",
    132: "MSG_RTN_SAVE_WAVE",
    133: "MSG_RTN_GET_TBA",
    134: "MSG_RTN_GET_TBA_TO_PC",
}

HARDWARE_REGISTERS = {
    1: "HW_REG_MODE",
    2: "HW_REG_STATUS",
    3: "HW_REG_TRAPSTS",
    5: "HW_REG_GPR_ALLOC",
    6: "HW_REG_LDS_ALLOC",
    7: "HW_REG_IB_STS",
    15: "HW_REG_SH_MEM_BASES",
    18: "HW_REG_PERF_SNAPSHOT_PC_LO",
    19: "HW_REG_PERF_SNAPSHOT_PC_HI",
    20: "HW_REG_FLAT_SCR_LO",
    21: "HW_REG_FLAT_SCR_HI",
    23: "HW_REG_HW_ID1",
    24: "HW_REG_HW_ID2",
    27: "HW_REG_PERF_SNAPSHOT_DATA",
    29: "HW_REG_SHADER_CYCLES",
}

# First control of a range of sixteen -> its name; the low four bits are the amount.
DPP_SHIFTS = {
    0x100: "row_shl",
    0x110: "row_shr",
    0x120: "row_ror",
    0x150: "row_share",
    0x160: "row_xmask",
}


def waitcnt(value: int) -> str:
    """`vmcnt(0)`: the counters that are waited for, or all where none is."""
    return _counters(WAITCNT, value, ("vmcnt", "expcnt", "lgkmcnt"))


def depctr(value: int) -> str:
    """The same for the dependency counters; a plain number if other bits are set."""
    if DEPCTR.unknown(value):
        return hex(value)
    order = ("hold_cnt", "sa_sdst", "va_vdst", "va_sdst", "va_ssrc", "va_vcc", "vm_vsrc")
    return _counters(DEPCTR, value, order, "depctr_")


def _counters(layout: Layout, value: int, order: tuple[str, ...], prefix: str = "") -> str:
    fields = layout.unpack(value)
    idle = {name: (1 << high - low + 1) - 1 for name, (high, low) in layout.fields.items()}
    waited = [name for name in order if fields[name] != idle[name]] or list(order)
    return " ".join(f"{prefix}{name}({fields[name]})" for name in waited)


def delay_alu(value: int) -> str:
    """`instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_1)`."""
    fields = DELAY_ALU.unpack(value)
    parts = []
    for field, names in (("instid0", DELAYS), ("instskip", SKIPS), ("instid1", DELAYS)):
        number = fields[field]
        if number:
            unknown = f"/* invalid {field.rstrip('01')} value */"
            parts.append(f"{field}({names[number] if number < len(names) else unknown})")
    return " | ".join(parts) or "0"


def sendmsg(value: int) -> str:
    """`sendmsg(MSG_INTERRUPT)`."""
    name = MESSAGES.get(value & 0xFF)
    if name is not None:
        return f"sendmsg({name})"
    return f"sendmsg({value}, 0, 0)" if value < 256 else str(value)


def hwreg(value: int) -> str:
    """`hwreg(HW_REG_MODE, 0, 3)`: first bit and width, unless it is all 32."""
    fields = HWREG.unpack(value)
    name = HARDWARE_REGISTERS.get(fields["id"], str(fields["id"]))
    if (fields["offset"], fields["size"]) == (0, 31):
        return f"hwreg({name})"
    return f"hwreg({name}, {fields['offset']}, {fields['size'] + 1})"


def swizzle(value: int) -> str:
    """The lane pattern of ds_swizzle_b32."""
    if value >= 0xE000:
        return f"swizzle(FFT,{value & 31})"
    if value >= 0xC000:
        return f"swizzle(ROTATE,{value >> 10 & 1},{value >> 5 & 31})"
    if value & 0xFF00 == 0x8000:
        lanes = ",".join(str(value >> 2 * i & 3) for i in range(4))
        return f"swizzle(QUAD_PERM,{lanes})"
    return str(value) if value & 0x8000 else _bitmask(SWIZZLE.unpack(value))


def _bitmask(fields: Mapping[str, int]) -> str:
    keep, put, flip = fields["and"], fields["or"], fields["xor"]
    if keep == 31 and not put and flip and not flip & flip - 1:
        return f"swizzle(SWAP,{flip})"
    if keep == 31 and not put and flip and not flip & flip + 1:
        return f"swizzle(REVERSE,{flip + 1})"
    group = 32 - keep
    if not flip and group > 1 and not group & group - 1 and put < group:
        return f"swizzle(BROADCAST,{group},{put})"
    pattern = "".join(_lane_bit(keep, put, flip, bit) for bit in range(4, -1, -1))
    return f'swizzle(BITMASK_PERM,"{pattern}")'


def _lane_bit(keep: int, put: int, flip: int, bit: int) -> str:
    """What becomes of one bit of the lane number: 0, 1, preserved or inverted."""
    of_zero = (put ^ flip) >> bit & 1
    of_one = ((keep | put) ^ flip) >> bit & 1
    if of_zero == of_one:
        return str(of_zero)
    return "i" if of_zero else "p"


def dpp(control: Dpp) -> str:
    """`quad_perm:[0,1,2,3] row_mask:0xf bank_mask:0xf`, or `dpp8:[...]`."""
    if control.kind == 8:
        text = f" dpp8:[{','.join(map(str, control.lanes))}]"
    else:
        text = f" {_dpp16(control.ctrl)} row_mask:{control.row_mask:#x}"
        text += f" bank_mask:{control.bank_mask:#x}" + " bound_ctrl:1" * control.bound_ctrl
    return text + " fi:1" * control.fi


def _dpp16(control: int) -> str:
    if control < 0x100:
        return f"quad_perm:[{','.join(str(control >> 2 * i & 3) for i in range(4))}]"
    if control in (0x140, 0x141):
        return "row_mirror" if control == 0x140 else "row_half_mirror"
    name = DPP_SHIFTS.get(control & 0x1F0)
    if name is None or (control & 15 == 0 and control < 0x150):
        return "/* Invalid dpp_ctrl value */"
    return f"{name}:{control & 15}"


BRANCHES = (
    "s_branch", "s_cbranch_scc0", "s_cbranch_scc1", "s_cbranch_vccz", "s_cbranch_vccnz",
    "s_cbranch_execz", "s_cbranch_execnz", "s_cbranch_cdbgsys", "s_cbranch_cdbguser",
    "s_cbranch_cdbgsys_or_user", "s_cbranch_cdbgsys_and_user",
)  # fmt: skip


def _hex(value: int) -> str:
    return hex(value)


# SOPP: how each instruction prints its immediate; the others as a 32-bit number.
SOPP: Mapping[str, Callable[[int], str]] = {
    "s_set_inst_prefetch_distance": _hex,
    "s_clause": _hex,
    "s_wait_event": _hex,
    "s_round_mode": _hex,
    "s_ttracedata_imm": _hex,
    "s_endpgm": str,
    "s_waitcnt": waitcnt,
    "s_waitcnt_depctr": depctr,
    "s_delay_alu": delay_alu,
    "s_sendmsg": sendmsg,
    "s_sendmsghalt": sendmsg,
    **dict.fromkeys(BRANCHES, str),
}
