"""The end of a translated block that a wave must not get beyond."""

from __future__ import annotations

from hcq.errors import SimFault
from sim.isa import state
from sim.isa.emitter import Emitter
from sim.isa.native import FUNCTION_AT


def write_fault(emitter: Emitter, problem: SimFault, address: str, place: int) -> None:
    """Report the problem at an i64 address and end. place: what the thread record's FAULT_PC gets.

    A PageFault says that the code itself may not be fetched; all else is an illegal instruction.
    """
    kind, access = state.FAULT_ILLEGAL, 0
    if hasattr(problem, "access"):
        kind, access = state.FAULT_MEMORY, state.EXECUTE
    at = emitter.effect(f"getelementptr i8, ptr %t, i64 {FUNCTION_AT['FAULT']}")
    function = emitter.effect(f"load ptr, ptr {at}")
    emitter.line(
        f"call void {function}(ptr %t, i64 {kind}, i64 {address}, i64 {access}, i32 {place})"
    )
    emitter.line(f"ret i32 {state.ENDED}")
