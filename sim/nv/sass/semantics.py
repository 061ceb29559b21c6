"""The registry: what every instruction that computes means, one function per mnemonic.

A function takes an Access: it reads operands as Values with their modifiers applied and
writes results for the lanes that take part. The same function is the interpreter (over numpy)
and the translation (over LLVM IR). Instructions of the uniform datapath share the function of
the lane instruction: their operands are uniform, so everything is.

Source: mesa: src/nouveau/compiler/nak/ir.rs; PTX ISA (the instructions these come from);
NVIDIA CUDA Binary Utilities, "Instruction Set Reference".
"""

from collections.abc import Callable

from sim.nv.sass.access import Access

Function = Callable[[Access], None]

# Instructions that change nothing the simulator keeps: fences, hints, caches, scoreboards. Memory
# is written in order here, so fences and the waits of asynchronous copies have nothing to do.
NO_EFFECT = frozenset({
    "NOP", "MEMBAR", "ERRBAR", "CGAERRBAR", "CCTL", "DEPBAR", "LDGDEPBAR", "NANOSLEEP",
    "PMTRIG", "UCGABAR_ARV", "UCGABAR_WAIT",
})  # fmt: skip

# Instructions that move lanes, hold them or end them: the engines do them.
CONTROL = frozenset({
    "BRA", "BRX", "CALL", "RET", "EXIT", "BSSY", "BSYNC", "BREAK", "WARPSYNC", "BAR", "BPT", "BMOV",
    "B2R", "YIELD", "ENDCOLLECTIVE",
})  # fmt: skip

REGISTRY: dict[str, Function] = {}


def means(*names: str) -> Callable[[Function], Function]:
    """Register the decorated function; a second owner of a mnemonic is refused."""

    def register(function: Function) -> Function:
        for name in names:
            if name in REGISTRY:
                raise ValueError(f"{name} has a meaning already")
            REGISTRY[name] = function
        return function

    return register
