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
from sim.nv.sass import convergence
from sim.nv.sass.access import PREDICATES, Access, guard_of, read_flag
from sim.nv.sass.emit_control import named_of
from sim.nv.sass.instruction import Instruction, Operand
from sim.nv.sass.interpret import Warp
from sim.nv.sass.operands import INSTRUCTION_SIZE
from sim.nv.sass.standing import LANES, Array

EVERYONE = np.full(LANES, 0xFFFF_FFFF, np.uint32)


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
    words = set(instruction.modifiers)
    if words & {"DIV", "CONV"}:
        operand = next(o for o in instruction.sources if o.kind == "ureg")
        wanted = warp.one(Access(instruction, warp).word(operand))
        named = _lanes_of(~wanted if operand.inv else wanted)
        apart = bool((named & warp.live & ~taken).any())
        taken = np.full(LANES, apart == ("DIV" in words))
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
    number = _convergence(instruction).index
    warp.barriers[number] &= np.uint32(~gone & 0xFFFF_FFFF)
    warp.leave(number, gone)
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


def _some_stay(warp: Warp, instruction: Instruction, condition: Array) -> bool:
    """Lanes that a guard leaves out go on; whether the others have to come again by themselves."""
    chosen = warp.active & condition
    warp.places[warp.active & ~chosen] = instruction.address + INSTRUCTION_SIZE
    return bool((warp.active & ~chosen).any())


def _synchronise(warp: Warp, instruction: Instruction) -> None:
    number = _convergence(instruction).index
    if _some_stay(warp, instruction, _condition(warp, instruction)):
        return
    after = instruction.address + INSTRUCTION_SIZE
    warp.meet(warp.barriers[number], after | number, after, sync=False)


def _warp_sync(warp: Warp, instruction: Instruction) -> None:
    kinds = ("reg", "imm", "const", "ureg")
    operand = next((o for o in instruction.sources if o.kind in kinds), None)
    mask = EVERYONE
    if operand is not None:
        value = Access(instruction, warp).word(operand)
        assert isinstance(value, NumpyValue)
        mask = value.spread()
    if _some_stay(warp, instruction, _condition(warp, instruction)):
        return
    if instruction.target is not None:
        warp.returns[warp.active] = instruction.target
    key = convergence.key_of_sync(instruction, warp.block.read)
    warp.meet(mask, key, instruction.address + INSTRUCTION_SIZE, sync=True)


def _end_collective(warp: Warp, _: Instruction) -> None:
    warp.places[warp.active] = warp.returns[warp.active]
    warp.exclusive[:] = False


def _barrier(warp: Warp, instruction: Instruction) -> None:
    guard = guard_of(instruction, warp)
    if guard is not None and _some_stay(warp, instruction, warp.bits(guard)):
        return
    here = instruction.address
    if not warp.meet(EVERYONE, here, here, sync=True):
        return
    number, threads = _numbers(warp, instruction)
    block, added = warp.block, 0
    if "RED" in instruction.modifiers:
        warp.asks_all = "AND" in instruction.modifiers
        flag = warp.bits(Access(instruction, warp).flag(0)) ^ warp.asks_all
        added = int((flag & warp.active).sum())
    block.arrived[number] = block.arrived.get(number, 0) + 1
    block.sums[number] = block.sums.get(number, 0) + added
    if "ARV" not in instruction.modifiers:
        warp.barrier = number, threads
    _next(warp, instruction)
    block.open(number, threads)


def _numbers(warp: Warp, instruction: Instruction) -> tuple[int, int]:
    """The number of a barrier and how many threads meet there, 0 for all."""
    access, named = Access(instruction, warp), named_of(instruction)
    number = warp.one(access.word(named[0]))
    threads = warp.one(access.word(named[1])) if len(named) > 1 else 0
    if [o.kind for o in named] == ["reg", "reg"]:
        threads = threads >> 16 & 0xFFF
    return number & 15, threads


def _read_barrier(warp: Warp, instruction: Instruction) -> None:
    if "RESULT" not in instruction.modifiers:
        raise SimFault(f"{instruction.spelling} is not simulated")
    access, total = Access(instruction, warp), warp.reduction
    access.write_flag(0, warp.constant(BOOL, (total == 0) == warp.asks_all))
    access.write(warp.constant(U32, total))
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
    "ENDCOLLECTIVE": _end_collective,
}  # fmt: skip
