"""Asks the LLVM disassembler which modifiers each vector instruction takes.

One word per instruction and modifier bit: a bit that is accepted and shows in the
text belongs to the instruction; everything else is a reserved bit there.
"""

import subprocess
from collections.abc import Iterable, Sequence

from hcq.bits import Layout
from sim.amd.rdna import formats
from sim.amd.rdna.opcodes import Opcode

DISASSEMBLER = ("llvm-mc-22", "--disassemble", "--triple=amdgcn-amd-amdhsa")
# Stands between two probes, so that the answers can be told apart.
MARKER = "[0x5a 0x5a 0x80 0xbf]"
MARKER_TEXT = "s_nop 0x5a5a"

WIDTHS = {"neg": 3, "abs": 3, "neg_hi": 3, "op_sel": 4, "omod": 1, "clamp": 1}
SHOWN = {
    "neg": ("-", "neg"),
    "abs": ("|",),
    "neg_hi": ("neg_hi", "|"),
    "op_sel": ("op_sel:", ".h"),
    "omod": ("mul:2",),
    "clamp": ("clamp",),
}
PREFIXES = {name: bits << 32 - count for bits, count, name in formats.PREFIXES}


def disassemble(target: str, items: Iterable[Sequence[int]]) -> list[str]:
    """The text of each list of words; empty where LLVM refuses it."""
    blocks = []
    for words in items:
        data = b"".join(word.to_bytes(4, "little") for word in words)
        blocks += [f"[{' '.join(f'{byte:#04x}' for byte in data)}]", MARKER]
    command = [*DISASSEMBLER, f"--mcpu={target}"]
    # Its exit status is 1 as soon as it refuses anything.
    run = subprocess.run(command, input="\n".join(blocks), capture_output=True, text=True)
    answers, current = [], ""
    for line in run.stdout.splitlines():
        if line.strip() == MARKER_TEXT:
            answers.append(current)
            current = ""
        elif line.strip():
            current += line.strip()
    return answers


def modifiers(target: str, opcodes: Sequence[Opcode]) -> dict[tuple[str, int], str]:
    """Format and opcode -> `neg3 abs1 clamp dpp`: names with the mask of their bits."""
    questions = []
    for opcode in opcodes:
        layout = layout_of(opcode)
        base = legal_fields(opcode)
        for name in [n for n in WIDTHS if n in layout.fields]:
            for bit in range(WIDTHS[name]):
                high, low = layout.span(name)
                if bit <= high - low:
                    changed = {**base, name: 1 << bit}
                    questions.append((opcode, name, bit, words_of(opcode, layout, changed)))
        if "src0" in base:
            dpp = [*words_of(opcode, layout, {**base, "src0": 250}), 0xFF01_0101]
            questions.append((opcode, "dpp", 0, dpp))
    answers = disassemble(target, [words for *_, words in questions])
    found: dict[tuple[str, int], dict[str, int]] = {}
    for (opcode, name, bit, _), answer in zip(questions, answers, strict=True):
        if answer and any(mark in answer for mark in SHOWN.get(name, ("row_shl",))):
            masks = found.setdefault((opcode.format, opcode.op), {})
            masks[name] = masks.get(name, 0) | 1 << bit
    return {
        key: " ".join(f"{n}:{mask}" for n, mask in masks.items()) for key, masks in found.items()
    }


def layout_of(opcode: Opcode) -> Layout:
    """The layout of the row's encoding."""
    if opcode.scalar_destination:
        return formats.VOP3SD
    layout: Layout = getattr(formats, opcode.format)
    return layout


def legal_fields(opcode: Opcode) -> dict[str, int]:
    """Fields with which the row is certainly an instruction."""
    fields = {"op": opcode.op}
    for slot in opcode.destinations + opcode.sources:
        if slot.field not in ("vcc", "exec", "literal"):
            vector = slot.field.startswith("src") and slot.kind in "avch"
            fields[slot.field] = 8 + 256 * vector
    return fields


def words_of(opcode: Opcode, layout: Layout, fields: dict[str, int]) -> list[int]:
    """The words of a row with these fields."""
    record = layout.pack(**fields) | PREFIXES[opcode.format]
    return [record & 0xFFFF_FFFF] + [record >> 32] * (layout.size_bits == 64)
