"""Compares what our decoder says of cubins with what nvdisasm says.

`Fidelity.problems` compares each distinct instruction of a chip once, and names those that
the simulator could not execute.
"""

from collections import defaultdict
from io import BytesIO

from elftools.elf.elffile import ELFFile
from nvdisasm import disassemble, words_of

from hcq.errors import SimFault
from sim.nv.sass.categories import lookup
from sim.nv.sass.decode import decode
from sim.nv.sass.memory_ops import is_memory
from sim.nv.sass.semantics import CONTROL, NO_EFFECT
from sim.nv.sass.text import text


def code_of(cubin):
    """The machine code of every kernel and function of a cubin."""
    sections = ELFFile(BytesIO(cubin)).iter_sections()
    return [section.data() for section in sections if section.name.startswith(".text.")]


def refusal(instruction):
    """Why the simulator cannot execute an instruction, or ""."""
    name = instruction.name
    if is_memory(name) or name in CONTROL | NO_EFFECT:
        return ""
    try:
        lookup(instruction)
    except SimFault as fault:
        return str(fault)
    return ""


class Fidelity:
    """Instructions compared so far, in a folder for what nvdisasm reads."""

    def __init__(self, folder):
        self.names = set()  # mnemonics
        self._folder = folder
        self._images = defaultdict(set)  # per chip
        self._seen = defaultdict(set)

    def problems(self, chip, cubins):
        """What differs or cannot be executed in cubins not seen before: one line each."""
        code, fresh = [], {}  # every word of functions with new ones; place there -> new word
        for cubin in set(cubins) - self._images[chip]:
            for section in code_of(cubin):
                words = words_of(section)
                new = set(words) - self._seen[chip]
                if new:
                    fresh |= {len(code) + words.index(word): word for word in new}
                    code += words
                    self._seen[chip] |= new
        self._images[chip].update(cubins)
        if not fresh:
            return []
        theirs = disassemble(code, chip, self._folder)
        found = (self._problem(word, 16 * at, chip, theirs[at]) for at, word in fresh.items())
        return [problem for problem in found if problem]

    def _problem(self, word, address, chip, line):
        """What is wrong with one instruction, or ""."""
        try:
            instruction = decode(word, address, target=chip)
        except SimFault as fault:
            return f"{chip} {word:#034x} is {line!r}: {fault}"
        self.names.add(instruction.name)
        if text(instruction, chip) != line:
            return f"{chip} {word:#034x} is {line!r}, not {text(instruction, chip)!r}"
        why = refusal(instruction)
        return f"{chip} {word:#034x} ({line}) cannot be executed: {why}" if why else ""
