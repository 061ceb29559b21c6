"""Every module that registers semantics when it is imported."""

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

MODULES = (
    compare, convert, double, floats, half, integer, lanes, logic, matrix, mufu, special,
)  # fmt: skip
