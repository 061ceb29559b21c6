"""Every meaning by mnemonic: the modules that register them, and the filled registry."""

from hcq.errors import SimFault, nearest
from sim.nv.sass import (
    compare,
    convert,
    double,
    floats,
    half,
    integer,
    lanes,
    logic,
    matrix,
    mufu,
    special,
)
from sim.nv.sass.instruction import Instruction
from sim.nv.sass.semantics import REGISTRY, Function

# Importing them has filled the registry.
MODULES = (
    compare, convert, double, floats, half, integer, lanes, logic, matrix, mufu, special,
)  # fmt: skip


def all_semantics() -> dict[str, Function]:
    """Every meaning by mnemonic."""
    return REGISTRY


def lookup(instruction: Instruction) -> Function:
    """The meaning of an instruction; SimFault names one that has none."""
    name = instruction.name
    if name not in REGISTRY:
        raise SimFault(
            f"instruction {instruction.spelling} is not simulated{nearest(name, REGISTRY)}"
        )
    return REGISTRY[name]
