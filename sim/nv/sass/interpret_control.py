"""Control instructions of the interpreter: branches, convergence, barriers, the end.

Source: mesa: src/nouveau/compiler/nak/ir.rs (OpBra, OpBSSy, OpBSync, OpWarpSync, OpBar ...);
PTX ISA, "bar", "bra", "exit".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hcq.errors import SimFault
from sim.isa.numpy_value import NumpyValue
from sim.isa.value import BOOL, U32
from sim.nv.sass.access import PREDICATES, Access, guard_of, read_flag
from sim.nv.sass.emit_control import threads_of_barrier
from sim.nv.sass.instruction import Instruction, Operand
from sim.nv.sass.interpret import LANES, Array, Warp
from sim.nv.sass.operands import INSTRUCTION_SIZE


def _condition(warp: Warp, instruction: Instruction) -> Array:
    """Lanes that run, pass the guard and the predicate sources."""
    chosen = warp.allowed(guard_of(instruction, warp))
    for operand in instruction.sources:
        if operand.kind in PREDICATES:
            chosen = chosen & warp.bits(read_flag(warp, operand))
    return chosen


def _go(warp: Warp, instruction: Instruction, taken: Array, targets: Any) -> None:
    after = instruction.address + INSTRUCTION_SIZE
    there = np.where(taken, targets, after)
    if (there[warp.active] <= instruction.address).any():
        warp.patience -= 1
    warp.places = np.where(warp.active, there, warp.places)


def _branch(warp: Warp, instruction: Instruction) -> None:
    taken = _condition(warp, instruction)
    if "CONV" in instruction.modifiers:
        raise SimFault(f"{instruction.spelling} is not simulated")
    if "DIV" in instruction.modifiers:
        operand = next(o for o in instruction.sources if o.kind == "ureg")
        wanted = warp.one(Access(instruction, warp).word(operand))
        wanted = ~wanted if operand.inv else wanted
        named = np.array([bool(wanted >> lane & 1) for lane in range(LANES)])
        if not (named & warp.live & ~warp.active).any():
            taken = np.zeros(LANES, np.bool_)
    _go(warp, instruction, taken, instruction.target)


def _jump(warp: Warp, instruction: Instruction) -> None:
    operand = next(o for o in instruction.sources if o.kind == "jump")
    base = operand.base
    if base is None:
        raise SimFault(f"{instruction.spelling} without a register is not simulated")
    low = warp.registers[base.index].astype(np.int64) + operand.value
    wrapped = (low & 0xFFFF_FFFF).astype(np.uint32).view(np.int32).astype(np.int64)
    _go(warp, instruction, _condition(warp, instruction), wrapped)


def _call(warp: Warp, instruction: Instruction) -> None:
    if instruction.target is None:
        _jump(warp, instruction)
    else:
        _go(warp, instruction, _condition(warp, instruction), instruction.target)


def _exit(warp: Warp, instruction: Instruction) -> None:
    gone = _condition(warp, instruction)
    warp.live &= ~gone
    warp.places[warp.active & ~gone] = instruction.address + INSTRUCTION_SIZE


def _convergence(instruction: Instruction) -> Operand:
    operands = (*instruction.destinations, *instruction.sources)
    return next(o for o in operands if o.kind == "barrier")


def _mask_of(lanes: Array) -> int:
    return int(sum(1 << lane for lane in range(LANES) if lanes[lane]))


def _mark(warp: Warp, instruction: Instruction) -> None:
    chosen = _condition(warp, instruction)
    warp.barriers[_convergence(instruction).index][chosen] = _mask_of(chosen)
    _next(warp, instruction)


def _break(warp: Warp, instruction: Instruction) -> None:
    gone = _mask_of(_condition(warp, instruction))
    warp.barriers[_convergence(instruction).index] &= np.uint32(~gone & 0xFFFF_FFFF)
    _next(warp, instruction)


def _move(warp: Warp, instruction: Instruction) -> None:
    access = Access(instruction, warp)
    row = warp.barriers[_convergence(instruction).index]
    chosen = warp.allowed(access.guard)
    if instruction.destinations[0].kind == "barrier":
        value = access.word(access.data[0])
        assert isinstance(value, NumpyValue)
        np.copyto(row, value.spread(), where=chosen)
    else:
        access.write(warp.lanes(row.copy()))
        if "CLEAR" in instruction.modifiers:
            row[chosen] = 0
    _next(warp, instruction)


def _next(warp: Warp, instruction: Instruction) -> None:
    warp.places[warp.active] = instruction.address + INSTRUCTION_SIZE


def _lanes_of(mask: int) -> Array:
    return np.array([bool(mask >> lane & 1) for lane in range(LANES)])


def _synchronise(warp: Warp, instruction: Instruction) -> None:
    row = warp.barriers[_convergence(instruction).index]
    need = _lanes_of(int(row[int(np.argmax(warp.active))]))
    warp.wait_for(need, instruction.address + INSTRUCTION_SIZE)


def _warp_sync(warp: Warp, instruction: Instruction) -> None:
    kinds = ("reg", "imm", "const", "ureg")
    operand = next((o for o in instruction.sources if o.kind in kinds), None)
    mask = 0xFFFF_FFFF
    if operand is not None:
        mask = warp.one(Access(instruction, warp).word(operand))
    warp.wait_for(_lanes_of(mask), instruction.address + INSTRUCTION_SIZE)


def _barrier(warp: Warp, instruction: Instruction) -> None:
    count = threads_of_barrier(instruction)
    whole = not count or -(-count // LANES) == len(warp.block.warps)
    if count is None or not whole or guard_of(instruction, warp) is not None:
        raise SimFault(f"{instruction.spelling} of part of a block is not simulated")
    if "RED" in instruction.modifiers:
        flag = warp.bits(Access(instruction, warp).flag(0))
        yes = int((flag & warp.active).sum())
        warp.given = yes, int(warp.active.sum()), "AND" in instruction.modifiers
    warp.wait_for(warp.live.copy(), instruction.address + INSTRUCTION_SIZE)
    if not warp.blocked.any():
        warp.at_barrier = True


def _read_barrier(warp: Warp, instruction: Instruction) -> None:
    if "RESULT" not in instruction.modifiers:
        raise SimFault(f"{instruction.spelling} is not simulated")
    access = Access(instruction, warp)
    yes, total, all_must = warp.reduction
    holds = yes == total if all_must else yes != 0
    access.write_flag(0, warp.constant(BOOL, holds))
    access.write(warp.constant(U32, yes))
    _next(warp, instruction)


def _yield(warp: Warp, instruction: Instruction) -> None:
    warp.yielded = True
    _next(warp, instruction)


def _trap(warp: Warp, instruction: Instruction) -> None:
    if _condition(warp, instruction).any():
        raise SimFault("the kernel stopped itself with BPT.TRAP")
    _next(warp, instruction)


CONTROL: dict[str, Callable[[Warp, Instruction], None]] = {
    "BRA": _branch, "BRX": _jump, "RET": _jump, "CALL": _call, "EXIT": _exit, "BSSY": _mark,
    "BREAK": _break, "BMOV": _move, "BSYNC": _synchronise, "WARPSYNC": _warp_sync,
    "BAR": _barrier, "B2R": _read_barrier, "BPT": _trap, "YIELD": _yield,
}  # fmt: skip
