"""Every module that registers semantics when it is imported."""

from sim.amd.rdna import (
    byte_ops,
    convert,
    cube,
    divide,
    half,
    lanes,
    matrix,
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

MODULES = (
    byte_ops,
    convert,
    cube,
    divide,
    half,
    lanes,
    matrix,
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
