"""Text of instructions, against literal lines and against the LLVM disassembler.

Two sources of words: every instruction of the compiled corpus (corpus.py), and random
words drawn for every row of the opcode table that both sides must accept.
"""

import json
import random
import struct
import subprocess
import sys
from pathlib import Path

import fidelity
import pytest
from fidelity import disassemble

from sim.amd.rdna import formats
from sim.amd.rdna.decode import NO_IMMEDIATE, decode, decode_all
from sim.amd.rdna.opcodes import OPCODES
from sim.amd.rdna.text import text

PREFIXES = {name: bits << 32 - count for bits, count, name in formats.PREFIXES}


def of(*words, **options):
    return text(decode(struct.pack(f"<{len(words)}I", *words), **options))


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((0x80030201,), "s_add_u32 s3, s1, s2"),
        ((0xBE8001C1,), "s_mov_b64 s[0:1], -1"),
        ((0xBFB60003,), "s_sendmsg sendmsg(MSG_DEALLOC_VGPRS)"),
        ((0xBF89FC07,), "s_waitcnt lgkmcnt(0)"),
        ((0xBF870091,), "s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_1)"),
        ((0xBFA0FFFE,), "s_branch 65534"),
        ((0xBFB00000,), "s_endpgm"),
        ((0x7E0202FF, 1), "v_mov_b32_e32 v1, lit(0x1)"),
        ((0x7E0202FF, 0x42280000), "v_mov_b32_e32 v1, 0x42280000"),
        ((0xD5038105, 0x50020501), "v_add_f32_e64 v5, |v1|, -v2 clamp mul:4"),
        ((0xD5325005, 0x00020501), "v_add_f16_e64 v5.h, v1.l, v2.h op_sel:[0,1,1]"),
        ((0x7C220501,), "v_cmp_lt_f32_e32 vcc_lo, v1, v2"),
        (
            (0xC8C80501, 0x04060B03),
            "v_dual_mul_f32 v4, v1, v2 :: v_dual_add_f32 v7, v3, v5",
        ),
        (
            (0x060204FA, 0xF3091103 | 1 << 19),
            "v_add_f32_dpp v1, v3, v2 row_shr:1 row_mask:0xf bank_mask:0x3 bound_ctrl:1",
        ),
        ((0x7E0202E9, 0x05397703), "v_mov_b32_dpp v1, v3 dpp8:[7,6,5,4,3,2,1,0]"),
        ((0xF4040002, 0xF8000000), "s_load_b64 s[0:1], s[4:5], null"),
        ((0xF4040002, 0xF8000010), "s_load_b64 s[0:1], s[4:5], 0x10"),
        ((0xDC521FFC, 0x057C0002), "global_load_b32 v5, v[2:3], off offset:-4"),
        ((0xDC6A0008, 0x00040302), "global_store_b32 v2, v3, s[4:5] offset:8"),
        ((0xD8380201, 0x00030102), "ds_store_2addr_b32 v2, v1, v3 offset0:1 offset1:2"),
        (
            (0xE0500008, 0x80C10402),
            "buffer_load_b32 v4, v[2:3], s[4:7], 0 idxen offen offset:8",
        ),
        (
            (0xCC404010, 0x1C421100),
            "v_wmma_f32_16x16x16_f16 v[16:23], v[0:7], v[8:15], v[16:23]",
        ),
        ((0xB8800801,), "s_getreg_b32 s0, hwreg(HW_REG_MODE, 0, 2)"),
        ((0xD8D4041F, 0x28000002), "ds_swizzle_b32 v40, v2 offset:swizzle(SWAP,1)"),
        ((0xD8D47C1F, 0x28000002), "ds_swizzle_b32 v40, v2 offset:swizzle(REVERSE,32)"),
        ((0xD8D40030, 0x28000002), "ds_swizzle_b32 v40, v2 offset:swizzle(BROADCAST,16,1)"),
        ((0xD8D4045D, 0x28000002), 'ds_swizzle_b32 v40, v2 offset:swizzle(BITMASK_PERM,"ppp1i")'),
    ],
)
def test_lines(words, line):
    assert of(*words) == line


def test_waves_of_64_name_masks_as_pairs():
    assert of(0x7C220501, wave_size=64) == "v_cmp_lt_f32_e32 vcc, v1, v2"


def test_matrix_products_of_waves_of_64_have_half_as_many_results():
    line = "v_wmma_f32_16x16x16_f16 v[16:19], v[0:7], v[8:15], v[16:19]"
    assert of(0xCC404010, 0x1C421100, wave_size=64) == line


# Against the disassembler.


@pytest.fixture(scope="module")
def disassembler():
    """The path of llvm-mc 22. Continuous integration must have it."""
    return fidelity.disassembler()


def compiled(features=""):
    """Name -> machine code of every kernel of the corpus."""
    script = Path(__file__).with_name("corpus.py")
    run = subprocess.run(
        [sys.executable, str(script), features], capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, f"LLVM failed at {run.stderr.splitlines()[-1:]}"
    return {name: bytes.fromhex(code) for name, code in json.loads(run.stdout).items()}


def differences(path, code, wave_size):
    """(ours, theirs) where they differ, and how many instructions and names there are."""
    instructions = list(decode_all(code, wave_size=wave_size))
    items = [code[i.address : i.address + i.size] for i in instructions]
    theirs = disassemble(path, items, wave_size)
    pairs = zip((text(i) for i in instructions), theirs, strict=True)
    halves = [half.name for i in instructions for half in i.halves or (i,)]
    return [pair for pair in pairs if pair[0] != pair[1]], len(instructions), set(halves)


@pytest.mark.row("SIM-13")
@pytest.mark.parametrize(("features", "wave_size"), [("", 32), ("+wavefrontsize64", 64)])
def test_every_compiled_instruction_reads_as_the_disassembler_prints_it_and_can_be_executed(
    disassembler, features, wave_size
):
    names = set()
    for name, code in compiled(features).items():
        different, count, found = differences(disassembler, code, wave_size)
        assert count > 10, name
        assert different == [], name
        instructions = decode_all(code, wave_size=wave_size)
        refused = {i.name: why for i in instructions if (why := fidelity.refusal(i, wave_size))}
        assert refused == {}, name
        names |= found
    assert len(names) >= 450  # 150 are asked for


FORMATS = sorted({opcode.format for opcode in OPCODES.values()})
# What stands in a scalar place, aligned for any group.
SCALARS = [0, 4, 8, 16, 64, 96, 106, 108, 124]
INLINE = [128, 129, 150, 192, 193, 208, *range(240, 249)]
LITERALS = [0, 1, 0x40, 0x41, 0x3C00, 0x3F800000, 0x3FF00000, 0xFFF5, 0xFFFFFFF5, 0x40000000]
DPP_CONTROLS = [0x1B, 0xE4, 0x101, 0x10F, 0x111, 0x12F, 0x140, 0x141, 0x150, 0x16F]
# Printed with a register class error, or in a syntax of its own, by LLVM.
ODD = {"s_version", "s_setpc_b64", "s_swappc_b64", "s_rfe_b64", "s_movrels_b32", "s_movrels_b64"}


def layout_of(opcode):
    if opcode.format in formats.SEGMENTS:
        return formats.FLAT
    return formats.VOP3SD if opcode.scalar_destination else getattr(formats, opcode.format)


def operand_code(rng, slot, wide):
    """A code that may stand in the slot; wide: the field has 9 bits."""
    vector = rng.randrange(256 - max(slot.count, 2))
    if slot.kind in "vg":
        return vector + 256 * wide
    if slot.kind == "h":
        return vector + 256 * wide
    if slot.kind == "m":
        return rng.choice([0, 4, 8, 64, 106])
    scalar = rng.choice([code for code in SCALARS if slot.count <= 2 or code + slot.count < 105])
    if slot.kind == "s":
        readable = slot.field.startswith(("ssrc", "src")) and slot.count <= 2
        return rng.choice([scalar, rng.choice(INLINE), 255]) if readable else scalar
    if slot.count > 4:
        return rng.choice([vector + 256, rng.choice(INLINE)])
    return rng.choice([vector + 256, vector + 256, scalar, rng.choice(INLINE), 255])


def free_fields(rng, opcode, layout):
    """Values for the fields that are not operands."""
    fields = {}
    for name in ("offset", "offset0", "offset1", "simm16", "slc", "glc", "dlc", "offen", "idxen"):
        if name in layout.fields:
            high, low = layout.span(name)
            fields[name] = rng.getrandbits(high - low + 1)
    for name in ("neg", "abs", "op_sel", "neg_hi", "clamp"):
        if name in layout.fields and rng.random() < 0.5:
            fields[name] = rng.getrandbits(4) & opcode.modifiers.get(name, 0)
    if "omod" in opcode.modifiers and "omod" in layout.fields:
        fields["omod"] = rng.randrange(4)
    if opcode.format == "VOP3P":
        fields |= {"op_sel_hi": rng.randrange(4), "op_sel_hi_2": rng.randrange(2)}
    if opcode.name in NO_IMMEDIATE or not layout.fields.keys() - {"op"}:
        fields["simm16"] = 0
    return fields


def random_fields(rng, opcode, layout):
    """Fields of one row that both decoders accept."""
    fields = free_fields(rng, opcode, layout)
    for slot in opcode.destinations + opcode.sources:
        name = slot.field if slot.field in layout.fields else "vdst"
        if slot.field in ("vcc", "exec", "literal", "return") and name not in layout.fields:
            continue
        if slot.field in ("vcc", "exec", "literal"):
            continue
        wide = name.startswith("src") and name != "srsrc"
        fields[name] = operand_code(rng, slot, wide)
    for name, unit in (("sbase", 2), ("srsrc", 4)):
        if name in fields:
            fields[name] //= unit
    if "seg" in layout.fields:
        fields["seg"] = formats.SEGMENTS.index(opcode.format)
        fields["sve"] = rng.randrange(2) * (opcode.format == "SCRATCH")
    if opcode.format == "FLAT":
        fields |= {"saddr": 124, "offset": fields["offset"] & 0xFFF}
    if opcode.name.startswith(("s_gl1_inv", "s_dcache_inv", "buffer_gl")):
        return {"op": opcode.op}
    if opcode.name.startswith("s_atc_probe"):
        fields |= {"glc": 0, "dlc": 0, "sdata": rng.randrange(128)}
    return fields | {"op": opcode.op}


def random_dpp(rng, opcode, fields):
    """The control word where src0 announces one."""
    if fields["src0"] in (233, 234):
        return rng.getrandbits(23) << 9 | 1 << 31 | rng.randrange(200)
    word = {
        "row_mask": rng.randrange(16),
        "bank_mask": rng.randrange(16),
        "bound_ctrl": rng.randrange(2),
        "fi": rng.randrange(2),
        "dpp_ctrl": rng.choice(DPP_CONTROLS),
        "src0": rng.randrange(200),
    }
    if opcode.format not in ("VOP3", "VOP3P"):
        for kind in ("neg", "abs"):
            for source in (0, 1):
                allowed = opcode.modifiers.get(kind, 0) >> source & 1
                word[f"src{source}_{kind}"] = rng.randrange(2) * allowed
    return formats.DPP16.pack(**word)


def random_code(rng, opcode):
    """Machine code of one instruction of a row."""
    layout = layout_of(opcode)
    fields = random_fields(rng, opcode, layout)
    tail = rng.choice([*LITERALS, rng.getrandbits(32)])
    if "dpp" in opcode.modifiers and rng.random() < 0.3:
        fields["src0"] = rng.choice([233, 234, 250])
        for slot in opcode.sources[1:]:  # neither a literal nor, as src1, a scalar may stand here
            if slot.kind in "ac":
                fields[slot.field] |= 256
        tail = random_dpp(rng, opcode, fields)
    prefix = PREFIXES["FLAT" if opcode.format in formats.SEGMENTS else opcode.format]
    record = layout.pack(**fields) | prefix
    return record.to_bytes(layout.size_bits // 8, "little") + struct.pack("<I", tail)


def random_vopd(rng, opcode):
    """A pair, one half of which is the row."""
    half = opcode.format[-1].lower()
    pair = {"x": rng.choice([0, 3, 4, 5, 8, 9, 10]), "y": rng.choice([0, 3, 4, 8, 16, 17, 18])}
    pair[half] = opcode.op
    fields = {"vdst_x": rng.randrange(256), "vdst_y": rng.randrange(128)}
    for letter, op in pair.items():
        fields[f"op_{letter}"] = op
        fields[f"src0_{letter}"] = rng.choice([256 + rng.randrange(256), 4, 129, 242, 255])
        fields[f"vsrc1_{letter}"] = rng.randrange(256) * (op != 8)
    record = formats.VOPD.pack(**fields) | PREFIXES["VOPD"]
    return record.to_bytes(8, "little") + struct.pack("<I", rng.choice(LITERALS))


@pytest.mark.row("SIM-13")
@pytest.mark.parametrize("form", FORMATS)
def test_random_words_of_every_opcode_read_as_the_disassembler_prints_them(disassembler, form):
    rng = random.Random(f"gfx1100 {form}")
    make = random_vopd if form.startswith("VOPD") else random_code
    rows = [op for op in OPCODES.values() if op.format == form and op.name not in ODD]
    ours, items = [], []
    for opcode in rows:
        for _ in range(8):
            code = make(rng, opcode)
            instruction = decode(code)
            ours.append(text(instruction))
            items.append(code[: instruction.size])
    theirs = disassemble(disassembler, items)
    different = [
        (code.hex(), a, b) for code, a, b in zip(items, ours, theirs, strict=True) if a != b
    ]
    assert different == []


@pytest.mark.refusal
@pytest.mark.parametrize(
    "words",
    [
        (0xEC000000, 0),
        (0xBE80FF00,),
        (0xBE8000D1,),
        (0xD5250005, 0x20020501),
        (0xBFBD0001,),
        (0xD8340000, 0x01000102),
        (0xDC500000, 0x05040002),
        (0x7E0430FA, 0xFF01E402),
    ],
)
def test_the_disassembler_refuses_what_we_refuse(disassembler, words):
    code = struct.pack(f"<{len(words)}I", *words)
    assert disassemble(disassembler, [code]) == [""]
