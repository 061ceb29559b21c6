"""Compares what our decoder says of machine code with what LLVM's disassembler says.

`Fidelity.problems` compares each distinct instruction of AMD kernels once, and names those
that the simulator could not execute.
"""

import os
import shutil
import subprocess
from io import BytesIO

import pytest
from elftools.elf.elffile import ELFFile

from hcq.errors import SimFault
from sim.amd.rdna import mode
from sim.amd.rdna.decode import decode, decode_all
from sim.amd.rdna.interpret import Wave
from sim.amd.rdna.memory_ops import OPERATIONS
from sim.amd.rdna.operands import execute
from sim.amd.rdna.semantics import CONTROL, NO_EFFECT
from sim.amd.rdna.text import text
from sim.isa.value import U32

DISASSEMBLER = "llvm-mc-22"
MARKER = "[0x5a 0x5a 0x80 0xbf]"  # s_nop 0x5a5a, which stands between two answers
TARGET = "LLVM:gfx1100"


def disassembler():
    """The path of llvm-mc 22; skips. Continuous integration must have it."""
    path = shutil.which(DISASSEMBLER)
    if path is None and os.environ.get("CI"):
        raise AssertionError(f"{DISASSEMBLER} is not installed")
    if path is None:
        pytest.skip(f"{DISASSEMBLER} is not installed")
    return path


def disassemble(path, items, wave_size=32):
    """The line LLVM prints for each piece of code; empty where it refuses."""
    blocks = []
    for code in items:
        blocks += [f"[{' '.join(f'{byte:#04x}' for byte in code)}]", MARKER]
    command = [path, "--disassemble", "--triple=amdgcn-amd-amdhsa", "--mcpu=gfx1100"]
    command += ["--mattr=+wavefrontsize64"] * (wave_size == 64)
    run = subprocess.run(command, input="\n".join(blocks), capture_output=True, text=True)
    lines = [line.strip() for line in run.stdout.splitlines()]
    answers = [part.strip("\n") for part in "\n".join(lines).split("s_nop 0x5a5a")]
    assert len(answers) == len(items) + 1, run.stderr[-300:]
    return answers[:-1]


def code_of(image):
    """The machine code of a code object."""
    return ELFFile(BytesIO(image)).get_section_by_name(".text").data()


def refusal(instruction, wave_size=32):
    """Why the simulator cannot execute an instruction, or ""."""
    name = instruction.name
    if name in NO_EFFECT | CONTROL | OPERATIONS.keys():
        return ""
    wave = Wave(wave_size, 0, bytearray())
    wave.set_exec((1 << wave_size) - 1)
    try:
        if name in mode.CHANGES:
            mode.change(instruction, wave)
        elif name == mode.SET_REGISTER:
            mode.keeps(instruction, wave, wave.constant(U32, 0))
        else:
            execute(instruction, wave)
    except SimFault as fault:
        return str(fault)
    return ""


class Fidelity:
    """Instructions compared so far."""

    def __init__(self):
        self.names = set()  # mnemonics, of dual-issue pairs both
        self._images = set()
        self._seen = set()

    def problems(self, images):
        """What differs or cannot be executed in kernels not seen before: one line each."""
        fresh = {}
        for image in set(images) - self._images:
            code = code_of(image)
            for instruction in decode_all(code):
                words = code[instruction.address : instruction.address + instruction.size]
                if words not in self._seen:
                    fresh[words] = decode(words)
        if not fresh:
            return []
        theirs = disassemble(disassembler(), fresh)
        self._images.update(images)
        self._seen.update(fresh)
        found = []
        for (words, instruction), line in zip(fresh.items(), theirs, strict=True):
            self.names |= {half.name for half in instruction.halves or (instruction,)}
            if text(instruction) != line:
                found.append(f"{words.hex()} is {line!r}, not {text(instruction)!r}")
            if why := refusal(instruction):
                found.append(f"{words.hex()} ({line}) cannot be executed: {why}")
        return found
