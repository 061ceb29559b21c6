"""Cuts the opcode table of one target out of the table of facts.

The facts give one example per opcode, such as `v_fma_f64 v[12:13], v[4:5], ...`
made with known register numbers; here each example becomes a list of operands,
`field:kind`, that a decoder can follow:

    v2   two consecutive VGPRs            s2   two consecutive SGPRs
    a2   any source, two dwords           m    lane mask: one SGPR, or two in wave64
    h    16-bit half of a VGPR            c    any source, 16 bits
    g    VGPR address, 64 or 32 bits wide depending on saddr, offen and idxen
    k    the literal that always follows

Which modifiers an instruction takes is asked of the disassembler (gen_isa_probe.py).

Usage: python -m tools.gen_isa FACTS.tsv gfx1100 > sim/amd/rdna/gfx1100.tsv
"""

import re
import sys
from pathlib import Path

from sim.amd.rdna.opcodes import opcodes_of
from tools.gen_isa_probe import modifiers

# Which field each register number of an example stands for.
NUMBERS: dict[str, dict[int, str]] = {
    "SOP2": {10: "sdst", 2: "ssrc0", 6: "ssrc1"},
    "SOPK": {10: "sdst"},
    "SOP1": {10: "sdst", 4: "ssrc0"},
    "SOPC": {2: "ssrc0", 6: "ssrc1"},
    "SOPP": {},
    "SMEM": {20: "sdata", 4: "sbase"},
    "VOP1": {12: "vdst", 4: "src0"},
    "VOP2": {12: "vdst", 4: "src0", 6: "vsrc1"},
    "VOPC": {4: "src0", 6: "vsrc1"},
    "VOP3": {12: "vdst", 0: "sdst", 4: "src0", 20: "src1", 30: "src2"},
    "VOP3P": {12: "vdst", 4: "src0", 20: "src1", 30: "src2"},
    "DS": {40: "vdst", 2: "addr", 20: "data0", 30: "data1"},
    "FLAT": {40: "vdst", 2: "addr", 20: "data"},
    "GLOBAL": {40: "vdst", 2: "addr", 20: "data"},
    "SCRATCH": {40: "vdst", 2: "addr", 20: "data"},
    "MUBUF": {40: "vdata", 2: "vaddr", 4: "srsrc"},
    "VOPD_X": {12: "vdst", 4: "src0", 0: "vsrc1"},
    "VOPD_Y": {13: "vdst", 5: "src0", 9: "vsrc1"},
}

# src0 of these must be a VGPR; the examples do not show it.
VGPR_ONLY = ("v_movrels", "v_readlane", "v_readfirstlane", "v_permlane")
DESTINATION_FIELDS = {"sdst", "vdst", "vcc", "exec"}
SOPK_READS = ("s_cmpk_", "s_setreg", "s_waitcnt_", "s_subvector_loop_end")
OPERAND = re.compile(r"(?P<file>[vs])(?:\[(?P<low>\d+):(?P<high>\d+)\]|(?P<one>\d+))(?P<half>\.l)?")

# The facts were made by putting a VGPR where only an SGPR may stand.
SCALAR_ONLY = re.compile(
    r"v(\d+)/\*Invalid register, operand has 'SReg(?:_32|OrLds_32)' register class\*/"
)


def operand(form: str, text: str) -> str | None:
    """`field:kind` of one operand of an example; None for immediates."""
    if text.startswith("vcc"):
        return "vcc:m"
    if text.startswith("0x") and form.startswith(("VOP2", "VOPD")):
        return "literal:k"
    match = OPERAND.match(text)
    if match is None:
        return None
    number = int(match["low"] or match["one"])
    count = int(match["high"]) - number + 1 if match["low"] else 1
    field = NUMBERS[form][number]
    anything = field in ("src0", "src1", "src2")
    if match["half"]:
        return f"{field}:{'c' if anything else 'h'}"
    if match["file"] == "s":
        return f"{field}:s{count}"
    return f"{field}:{'a' if anything else 'v'}{count}"


def operands(form: str, name: str, example: str) -> tuple[list[str], list[str]]:
    """Destinations and sources of one row."""
    body = SCALAR_ONLY.sub(r"s\1", example)
    body = body.split(" op_sel")[0].split(" offset")[0].split(" offen")[0]
    found = [operand(form, text.strip()) for text in body.split(",")]
    listed = [entry for entry in found if entry is not None]
    if form in ("VOP3", "VOPC", "VOP1", "VOP2", "VOPD_X", "VOPD_Y"):
        return vector(form, name, listed)
    if form in ("FLAT", "GLOBAL", "SCRATCH", "MUBUF", "SMEM"):
        return memory(form, name, listed)
    return split(name, listed)


def split(name: str, listed: list[str]) -> tuple[list[str], list[str]]:
    """Destinations stand first; some SOPK instructions read the field that others write."""
    if name == "s_setreg_imm32_b32":
        return [], ["literal:k"]
    if name.startswith(SOPK_READS):
        return [], listed
    if name.startswith("v_wmma"):  # the two factors are VGPRs, the sum may be a constant
        return listed[:1], [*(entry.replace(":a", ":v") for entry in listed[1:3]), listed[3]]
    count = 1 if listed and listed[0].split(":")[0] in DESTINATION_FIELDS else 0
    return listed[:count], listed[count:]


def vector(form: str, name: str, listed: list[str]) -> tuple[list[str], list[str]]:
    """Lane masks are SGPRs even where the example shows a VGPR or nothing."""
    if name.startswith("v_cmp"):
        mask = "vdst:m" if form == "VOP3" else "vcc:m"
        if name.startswith("v_cmpx_"):
            mask = "exec:m"
        return [mask], [entry for entry in listed if entry.split(":")[0] not in ("vdst", "vcc")]
    if form.startswith("VOPD") and "cndmask" in name:
        listed = [*listed, "vcc:m"]
    if form == "VOP3" and ("cndmask" in name or "_co_ci_" in name):
        listed = [*listed[:-1], "src2:m"]
    if form == "VOP3" and len(listed) > 1 and listed[1].startswith("sdst"):
        return [listed[0], "sdst:m"], listed[2:]
    if "_co_ci_" in name:
        return listed[:2], listed[2:]
    if name.startswith("v_swap"):
        both = [listed[0], listed[1].replace(":a", ":v").replace(":c", ":h")]
        return both, both
    if name.startswith(VGPR_ONLY):
        listed[1] = "src0:v1"
    if name == "v_mqsad_u32_u8":
        listed[3] = "src2:v4"
    return listed[:1], listed[1:]


def memory(form: str, name: str, listed: list[str]) -> tuple[list[str], list[str]]:
    """Addresses, and the destination that an atomic has only with glc."""
    if form == "SMEM":
        sources = [entry for entry in listed if entry.startswith("sbase")]
        sources += ["soffset:s1"] if sources else []
        return [entry for entry in listed if entry.startswith("sdata")], sources
    if form == "MUBUF":
        if not listed:
            return [], []
        data, rest = listed[0], ["vaddr:g", "srsrc:s4", "soffset:s1"]
        if "_load_" in name:
            return [data], rest
        return (["return:" + returned(name, data)] if "_atomic_" in name else []), [data, *rest]
    addressed = [f"{e.split(':')[0]}:g" if e.startswith("addr") else e for e in listed]
    tail = [] if form == "FLAT" else ["saddr:s2" if form == "GLOBAL" else "saddr:s1"]
    if form == "FLAT":
        addressed = [e.replace("addr:g", "addr:v2") for e in addressed]
    destinations = [e for e in addressed if e.startswith("vdst")]
    sources = [e for e in addressed if not e.startswith("vdst")]
    if "_atomic_" in name:
        destinations = ["return:" + returned(name, sources[-1])]
    return destinations, sources + tail


def returned(name: str, data: str) -> str:
    """A compare-and-swap is given two values and returns one."""
    count = int(data.split(":")[1][1:])
    return f"v{count // 2 if 'cmpswap' in name else count}"


def main(facts: str, target: str) -> None:
    """Print the table."""
    rows = []
    for line in Path(facts).read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{target}\t"):
            _, form, op, name, *rest = line.split("\t")
            destinations, sources = operands(form, name, rest[0] if rest else "")
            rows.append(
                {
                    "format": form,
                    "op": op,
                    "name": re.sub("_e(32|64)$", "", name),
                    "destinations": " ".join(destinations),
                    "sources": " ".join(sources),
                    "modifiers": "",
                }
            )
    vector = [
        op for op in opcodes_of(rows) if op.format in ("VOP1", "VOP2", "VOPC", "VOP3", "VOP3P")
    ]
    found = modifiers(target, vector)
    print("# Generated by tools/gen_isa.py")
    print(f"# Source: LLVM 22.1.8 disassembler for {target}, run over synthetic encodings")
    print(*rows[0], sep="\t")
    for row in rows:
        row["modifiers"] = found.get((row["format"], int(row["op"])), "")
        print(*row.values(), sep="\t")


if __name__ == "__main__":
    main(*sys.argv[1:])
