"""Every meaning by mnemonic: the modules that register them, and the filled registry."""

from hcq.errors import SimFault, nearest
from sim.amd.rdna import (
    byte_ops,
    clock,
    convert,
    cube,
    divide,
    half,
    lanes,
    matrix,
    preop,
    sop1,
    sop2,
    sopc,
    transcendental,
    vop1,
    vop2,
    vop3,
    vop3p,
    vopc,
)
from sim.amd.rdna.semantics import REGISTRY, Semantic

# Importing them has filled the registry.
MODULES = (
    byte_ops, clock, convert, cube, divide, half, lanes, matrix, preop, sop1, sop2, sopc,
    transcendental, vop1, vop2, vop3, vop3p, vopc,
)  # fmt: skip


def all_semantics() -> dict[str, Semantic]:
    """Every meaning by mnemonic."""
    return REGISTRY


def lookup(name: str) -> Semantic:
    """The meaning of a mnemonic; SimFault names one that has none."""
    if name not in REGISTRY:
        raise SimFault(f"instruction {name} is not simulated{nearest(name, REGISTRY)}")
    return REGISTRY[name]
