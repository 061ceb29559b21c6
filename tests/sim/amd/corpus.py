"""Compiles small kernels for gfx1100 and prints their machine code as JSON.

A program of its own, because LLVM ends the process when it cannot select something:
`python tests/sim/amd/corpus.py [features]` prints {kernel name: code as hex}.
"""

import json
import sys

from corpus_arithmetic import conversions, floats, flushed, integers, packed, special
from corpus_lanes import control, lanes, matrix
from corpus_memory import buffers, counters, indexed, memory


def kernels(wave_size):
    """Every kernel of the corpus."""
    yield from (integers(kind, False) for kind in ("i8", "i16", "i32", "i64"))
    yield from (integers(kind, True) for kind in ("i16", "i32", "i64"))
    yield from (floats(kind) for kind in ("half", "float", "double", "bfloat"))
    yield from (conversions(kind) for kind in ("half", "float", "double"))
    spaces = ((0, "flat"), (1, "global"), (3, "lds"), (5, "scratch"))
    yield from (memory(space, label) for space, label in spaces)
    yield from (packed(), special(), lanes(wave_size), buffers(), control())
    yield from (matrix(wave_size), indexed(), flushed(), counters())


def compile_text(text, machine):
    """The .text section of one module."""
    import io

    from elftools.elf.elffile import ELFFile
    from llvmlite import binding

    module = binding.parse_assembly(text)
    module.triple = "amdgcn-amd-amdhsa"
    module.data_layout = str(machine.target_data)
    module.verify()
    return ELFFile(io.BytesIO(machine.emit_object(module))).get_section_by_name(".text").data()


def main(features=""):
    """Compile everything and print it."""
    from llvmlite import binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target = binding.Target.from_triple("amdgcn-amd-amdhsa")
    machine = target.create_target_machine(
        cpu="gfx1100", features=features, opt=3, reloc="pic", codemodel="small"
    )
    found = {}
    for kernel in kernels(64 if "wavefrontsize64" in features else 32):
        sys.stderr.write(f"{kernel.name}\n")  # the last one is what LLVM died of
        found[kernel.name] = compile_text(kernel.text(), machine).hex()
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
