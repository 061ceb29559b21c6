"""The library every translated kernel calls, compiled once per process and wave width.

Puts the parts together (checks, cores, address functions, the work-group loop),
loads them and fills the function table of a thread record.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sim.isa import state
from sim.isa.jit import Jit
from sim.isa.native_address import ACTIONS, WIDTHS, address_functions, move_functions, names
from sim.isa.native_check import CHECK
from sim.isa.native_fast import many_functions
from sim.isa.native_memory import Core
from sim.isa.native_run import run_function

ATTRIBUTES = (
    'attributes #0 = { nounwind noinline "min-legal-vector-width"="512" '
    '"prefer-vector-width"="512" }\n'
    'attributes #1 = { nounwind alwaysinline "min-legal-vector-width"="512" '
    '"prefer-vector-width"="512" }\n'
    # Kernels spill whole vectors, which must not straddle cache lines.
    'attributes #2 = { nounwind noinline alignstack=64 "min-legal-vector-width"="512" '
    '"prefer-vector-width"="512" }'
)

FUNCTION_AT = {name: state.FUNCTIONS + 8 * index for index, name in enumerate(names())}


@dataclass(frozen=True)
class Library:
    """Loaded functions for one wave width: their addresses, and `run`.

    Those of a strict library refuse addresses that are no multiple of the access's size, and
    scratch outside what a lane has.
    """

    width: int
    table: tuple[int, ...]  # in the order of the thread record's function table
    run: int


def load_library(jit: Jit, width: int, *, strict: bool = False) -> Library:
    """Compile (or find) and load the library for waves of `width` lanes."""
    suffix = f"w{width}{'s' if strict else ''}"
    wanted = [f"{name}_{suffix}" for name in (*names(), "run")]
    found = jit.load(f"library {suffix}", lambda: library_text(width, strict), wanted)
    return Library(width, tuple(found[:-1]), found[-1])


def library_text(width: int, strict: bool = False) -> str:
    """The whole module. Its functions carry the width in their names."""
    cores = [Core(width, bits, action, strict).text() for action in ACTIONS for bits in WIDTHS]
    moves = [
        address_functions(width, strict), move_functions(width, strict),
        many_functions(width, strict),
    ]  # fmt: skip
    body = "\n".join([CHECK, *cores, *moves, run_function(width)])
    body = re.sub(r"@(?!llvm\.)(\w+)", rf"@\1_w{width}{'s' if strict else ''}", body)
    return f"{body}\n{_declarations(width)}\n{ATTRIBUTES}\n"


def _declarations(w: int) -> str:
    mask = f"i{w}"
    lines = [
        f"declare {mask} @llvm.cttz.{mask}({mask}, i1)",
        f"declare {mask} @llvm.ctlz.{mask}({mask}, i1)",
        "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)",
        "declare i64 @llvm.umin.i64(i64, i64)",
        "declare i64 @llvm.umax.i64(i64, i64)",
        f"declare i64 @llvm.vector.reduce.umin.v{w}i64(<{w} x i64>)",
        f"declare i64 @llvm.vector.reduce.umax.v{w}i64(<{w} x i64>)",
        f"declare <{w} x i32> @llvm.masked.gather.v{w}i32.v{w}p0"
        f"(<{w} x ptr>, <{w} x i1>, <{w} x i32>)",
        f"declare void @llvm.masked.scatter.v{w}i32.v{w}p0(<{w} x i32>, <{w} x ptr>, <{w} x i1>)",
    ]
    for bits in (8, 16, 32):
        row = f"<{w} x i{bits}>"
        lines += [
            f"declare {row} @llvm.masked.load.v{w}i{bits}.p0(ptr, <{w} x i1>, {row})",
            f"declare void @llvm.masked.store.v{w}i{bits}.p0({row}, ptr, <{w} x i1>)",
        ]
    return "\n".join(lines)
