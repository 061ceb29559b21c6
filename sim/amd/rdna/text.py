"""Instructions as text, spelled as the LLVM disassembler spells them.

For error messages, traces, and for the test that compares every line with llvm-mc.

Source: LLVM AMDGPU instruction syntax documentation (operands and modifiers).
"""

from collections.abc import Mapping

from sim.amd.rdna import text_immediates
from sim.amd.rdna.decode import NO_IMMEDIATE
from sim.amd.rdna.instruction import Instruction, Operand
from sim.amd.rdna.opcodes import OPCODES, TWO_ENCODINGS, Slot
from sim.amd.rdna.text_constants import constant, inline

_APERTURES = {
    235: "src_shared_base",
    236: "src_shared_limit",
    237: "src_private_base",
    238: "src_private_limit",
}
_OMOD = ("", " mul:2", " mul:4", " div:2")
_SCALAR_GROUPS = {"vcc": ("vcc_lo", "vcc_hi", "vcc"), "exec": ("exec_lo", "exec_hi", "exec")}


def text(instruction: Instruction) -> str:
    """One line, without address: `v_add_f32_e32 v1, v2, v3`."""
    if instruction.halves:
        return " :: ".join(text(half) for half in instruction.halves)
    writer = _WRITERS.get(instruction.format, _scalar)
    name, operands, modifiers = writer(instruction)
    return f"{name} {', '.join(operands)}".rstrip() + modifiers


_Parts = tuple[str, list[str], str]


def _slots(instruction: Instruction) -> tuple[list[Slot], list[Slot]]:
    """The table's slots, as many as the instruction has operands."""
    opcode = OPCODES[instruction.format, instruction.op]
    return list(opcode.destinations)[: len(instruction.destinations)], list(opcode.sources)


def _listed(instruction: Instruction) -> list[str]:
    """Every operand, destinations first."""
    before, after = _slots(instruction)
    operands = instruction.destinations + instruction.sources
    return [
        _operand(instruction.name, operand, slot)
        for operand, slot in zip(operands, before + after, strict=True)
    ]


# Operands.


def _operand(name: str, operand: Operand, slot: Slot) -> str:
    if operand.kind == "null" and slot.field in ("saddr", "addr", "vaddr"):
        return "off"
    text = _register(operand, slot) or constant(name, operand, slot)
    if operand.abs:
        text = f"|{text}|"
    if operand.neg:
        plain = operand.kind in ("int", "float", "literal") and text[0] not in "|l"
        return f"neg({text})" if plain else f"-{text}"
    return text


def _register(operand: Operand, slot: Slot) -> str:
    """The name of a register, or nothing."""
    kind, index, count = operand.kind, operand.index, operand.count
    if kind in _SCALAR_GROUPS:
        return _SCALAR_GROUPS[kind][2 if count == 2 else index]
    if kind in ("vgpr", "sgpr", "ttmp"):
        letter = {"vgpr": "v", "sgpr": "s", "ttmp": "ttmp"}[kind]
        if count > 1:
            return f"{letter}[{index}:{index + count - 1}]"
        half = ".h" if operand.hi else ".l"
        return f"{letter}{index}" + half * (slot.kind in "hc" and kind == "vgpr")
    if kind == "aperture":
        return _APERTURES[index]
    if kind in ("vccz", "execz", "scc", "lds_direct"):
        return f"src_{kind}"
    return kind if kind in ("m0", "null") else ""


# Formats.


def _scalar(instruction: Instruction) -> _Parts:
    name = instruction.name
    if name.startswith("s_sendmsg_rtn"):
        message = text_immediates.sendmsg(instruction.fields["ssrc0"])
        return name, [*_listed(instruction), message], ""
    return name, _listed(instruction), ""


def _sopp(instruction: Instruction) -> _Parts:
    name, value = instruction.name, instruction.fields["simm16"]
    if name in NO_IMMEDIATE or (name == "s_endpgm" and not value):
        return name, [], ""
    return name, [text_immediates.SOPP.get(name, inline)(value)], ""


def _sopk(instruction: Instruction) -> _Parts:
    name, value = instruction.name, instruction.fields["simm16"]
    listed = _listed(instruction)
    if name == "s_getreg_b32":
        return name, [*listed, text_immediates.hwreg(value)], ""
    if name == "s_setreg_imm32_b32":
        return name, [text_immediates.hwreg(value), inline(instruction.sources[0].value)], ""
    if name == "s_setreg_b32":
        return name, [text_immediates.hwreg(value), *listed], ""
    if name.startswith(("s_call", "s_subvector")):
        return name, [*listed, str(value)], ""
    return name, [*listed, hex(value)], ""


def _smem(instruction: Instruction) -> _Parts:
    name, fields = instruction.name, instruction.fields
    flags = " glc" * fields["glc"] + " dlc" * fields["dlc"]
    if not instruction.sources:
        return name, [], ""
    listed = _listed(instruction)
    if name.startswith("s_atc_probe"):
        listed = [inline(fields["sdata"]), *listed]
    offset, soffset = instruction.offset, instruction.sources[-1]
    if soffset.kind == "null" and offset:
        return name, [*listed[:-1], hex(offset)], flags
    return name, listed, f" offset:{offset:#x}" * bool(offset) + flags


def _vector(instruction: Instruction) -> _Parts:
    name = instruction.name
    if instruction.dpp is None:
        name += "_e32" * (name in TWO_ENCODINGS)
    elif instruction.format != "VOPC":
        name += "_dpp"
    listed = _listed(instruction)
    if name.startswith("v_cmpx"):
        listed = listed[1:]
    if name.startswith("v_swap"):
        listed = listed[:2]
    return name, listed, text_immediates.dpp(instruction.dpp) if instruction.dpp else ""


def _vop3(instruction: Instruction) -> _Parts:
    name = instruction.name
    if name in TWO_ENCODINGS or instruction.dpp is not None:
        name += "_e64"
    if instruction.dpp is not None:
        name += "_dpp"
    listed = _listed(instruction)
    if name.startswith("v_cmpx"):
        listed = listed[1:]
    modifiers = _op_sel(instruction) + " clamp" * instruction.clamp + _OMOD[instruction.omod]
    if instruction.dpp is not None:
        modifiers += text_immediates.dpp(instruction.dpp)
    return name, listed, modifiers


def _op_sel(instruction: Instruction) -> str:
    if not instruction.op_sel or instruction.name == "v_cndmask_b16":
        return ""
    name = instruction.name
    count = len(instruction.sources) + ("_fmac_" in name)
    bits: tuple[int, ...] = (*range(count), 3)
    if name.startswith("v_permlane"):
        bits = (0, 1)  # not halves: fetch inactive lanes, and what lanes without a source get
    elif name.startswith("v_cmpx") or (name.startswith("v_cmp") and instruction.dpp):
        bits = (*range(count),)
    return f" op_sel:[{','.join(str(instruction.op_sel >> i & 1) for i in bits)}]"


def _vop3p(instruction: Instruction) -> _Parts:
    count = len(instruction.sources)
    takes = OPCODES[instruction.format, instruction.op].modifiers
    modifiers = ""
    for label, value, usual in (
        ("op_sel", instruction.op_sel, 0),
        ("op_sel_hi", instruction.op_sel_hi, 0 if "_mix" in instruction.name else 7),
        ("neg_lo", instruction.neg_lo, 0),
        ("neg_hi", instruction.neg_hi, 0),
    ):
        bits = [value >> i & 1 for i in range(count)]
        if label == "op_sel_hi" and "op_sel" not in takes:
            continue
        if bits != [usual >> i & 1 for i in range(count)]:
            modifiers += f" {label}:[{','.join(map(str, bits))}]"
    modifiers += " clamp" * instruction.clamp
    name = instruction.name
    if instruction.dpp is not None:
        name += "_e64_dpp"
        modifiers += text_immediates.dpp(instruction.dpp)
    return name, _listed(instruction), modifiers


def _vopd_half(instruction: Instruction) -> _Parts:
    listed = _listed(instruction)
    return instruction.name, listed[:-1] if "cndmask" in instruction.name else listed, ""


def _ds(instruction: Instruction) -> _Parts:
    offset = instruction.offset
    if "2addr" in instruction.name:
        modifiers = f" offset0:{offset}" * bool(offset)
        modifiers += f" offset1:{instruction.offset1}" * bool(instruction.offset1)
    elif instruction.name == "ds_swizzle_b32" and offset:
        modifiers = f" offset:{text_immediates.swizzle(offset)}"
    else:
        modifiers = f" offset:{offset}" * bool(offset)
    return instruction.name, _listed(instruction), modifiers + " gds" * instruction.fields["gds"]


def _memory(instruction: Instruction) -> _Parts:
    fields = instruction.fields
    modifiers = f" offset:{instruction.offset}" * bool(instruction.offset)
    modifiers += _caching(fields)
    return instruction.name, _listed(instruction), modifiers


def _caching(fields: Mapping[str, int]) -> str:
    return "".join(f" {flag}" * fields[flag] for flag in ("glc", "slc", "dlc"))


def _mubuf(instruction: Instruction) -> _Parts:
    fields = instruction.fields
    if not instruction.sources:
        return instruction.name, [], ""
    listed = _listed(instruction)
    if "_atomic_" in instruction.name and instruction.destinations:
        listed = listed[1:]
    modifiers = " idxen" * fields["idxen"] + " offen" * fields["offen"]
    modifiers += f" offset:{instruction.offset}" * bool(instruction.offset)
    modifiers += _caching(fields) + " tfe" * fields["tfe"]
    return instruction.name, listed, modifiers


_WRITERS = {
    "SOPP": _sopp,
    "SOPK": _sopk,
    "SMEM": _smem,
    "VOP1": _vector,
    "VOP2": _vector,
    "VOPC": _vector,
    "VOP3": _vop3,
    "VOP3P": _vop3p,
    "VOPD_X": _vopd_half,
    "VOPD_Y": _vopd_half,
    "DS": _ds,
    "FLAT": _memory,
    "GLOBAL": _memory,
    "SCRATCH": _memory,
    "MUBUF": _mubuf,
}
