"""Control instructions as LLVM text: branches, convergence, barriers, the end.

Each function writes one instruction and says whether it wrote where to go next.

Source: mesa: src/nouveau/compiler/nak/ir.rs (OpBra, OpBSSy, OpBSync, OpWarpSync, OpBar ...);
PTX ISA, "bar", "bra", "exit".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hcq.errors import SimFault
from sim.isa import state
from sim.isa.llvm_value import LlvmValue, own
from sim.isa.value import U32, Value
from sim.nv.sass import frame
from sim.nv.sass.access import Access, guard_of
from sim.nv.sass.dispatcher import REDUCTION
from sim.nv.sass.instruction import Instruction, Operand
from sim.nv.sass.operands import INSTRUCTION_SIZE

if TYPE_CHECKING:
    from sim.nv.sass.translate import Translator



def _branch(t: Translator, i: Instruction) -> bool:
    if {"DIV", "CONV"} & set(i.modifiers):
        return _divergence(t, i)
    target = i.target
    if target is None:
        raise SimFault(f"{i.spelling} without a target is not simulated")
    t.split(t.condition(i), target, i.address + INSTRUCTION_SIZE, i.address)
    return True


def _divergence(t: Translator, i: Instruction) -> bool:
    """BRA.DIV goes to its target unless the lanes of a uniform mask run together."""
    after = i.address + INSTRUCTION_SIZE
    target = i.target
    if "CONV" in i.modifiers or target is None:
        raise SimFault(f"{i.spelling} is not simulated")
    registers = t.registers
    operand = next(o for o in i.sources if o.kind == "ureg")
    access = Access(i, registers)
    wanted: Value = access.word(operand)  # read here too: the other function may come by
    if t.full:
        # More lanes than the mask names cannot be missing.
        t.advance(after, i.address)
        return True
    if operand.inv:
        wanted = ~wanted
    running = LlvmValue(t.emitter, U32, registers.running_bits(), False)
    live = LlvmValue(t.emitter, U32, t.emitter.effect("load i32, ptr %livep"), False)
    apart = (wanted & live & ~running) != 0
    condition = t.condition(i)
    t.split(t.both(condition, apart), target, after, i.address)
    return True


def _exit(t: Translator, i: Instruction) -> bool:
    emitter, registers = t.emitter, t.registers
    condition = own(t.condition(i))
    after = i.address + INSTRUCTION_SIZE
    if condition.text == "true" and t.full:
        emitter.line(f"ret i32 {state.ENDED}")
        return True
    running = registers.running_bits()
    bits = registers.mask_bits(condition).text
    if running != "-1":
        bits = emitter.effect(f"and i32 {bits}, {running}")
    name = emitter.fresh()[1:]
    if condition.text != "true":
        nobody = emitter.effect(f"icmp eq i32 {bits}, 0")
        emitter.line(f"br i1 {nobody}, label %stay_{name}, label %exit_{name}")
        emitter.label(f"stay_{name}", follows=True)
        t.advance(after, i.address)
        emitter.label(f"exit_{name}", follows=True)
    live = emitter.effect("load i32, ptr %livep")
    gone = emitter.effect(f"xor i32 {bits}, -1")
    left = emitter.effect(f"and i32 {live}, {gone}")
    emitter.line(f"store i32 {left}, ptr %livep")
    over = emitter.effect(f"icmp eq i32 {left}, 0")
    emitter.line(f"br i1 {over}, label %end_{name}, label %rest_{name}")
    emitter.label(f"end_{name}", follows=True)
    emitter.line(f"ret i32 {state.ENDED}")
    emitter.label(f"rest_{name}", follows=True)
    remain = emitter.effect(f"and i32 {running}, {gone}")
    t.stand_at(str(after), remain)
    t.apart()
    return True


def _convergence(i: Instruction) -> Operand:
    """The convergence barrier that an instruction names."""
    return next(o for o in (*i.destinations, *i.sources) if o.kind == "barrier")


def _move_barrier(t: Translator, i: Instruction) -> bool:
    """BMOV: a convergence barrier to or from a register."""
    registers, access = t.registers, Access(i, t.registers)
    number = _convergence(i).index
    if i.destinations[0].kind == "barrier":
        registers.set_barrier(number, access.word(access.data[0]), access.guard)
        return False
    access.write(registers.barrier(number))
    if "CLEAR" in i.modifiers:
        registers.set_barrier(number, registers.constant(U32, 0), access.guard)
    return False


def _yield(t: Translator, _: Instruction) -> bool:
    """YIELD: the lanes that run may be waiting for what others do."""
    if not t.full:
        place = t.emitter.effect(f"getelementptr i8, ptr %w, i64 {4 * frame.YIELDED}")
        t.emitter.line(f"store i32 1, ptr {place}")
    return False


def _split_mark(t: Translator, i: Instruction) -> bool:
    """BSSY: the lanes that run will wait for each other."""
    registers = t.registers
    barrier = _convergence(i)
    allowed = LlvmValue(t.emitter, U32, registers.allowed_bits(t.condition(i)), False)
    registers.set_barrier(barrier.index, allowed, t.condition(i))
    return False


def _break(t: Translator, i: Instruction) -> bool:
    """BREAK: nobody waits any more for the lanes that run."""
    registers = t.registers
    barrier = _convergence(i)
    gone: Value = LlvmValue(t.emitter, U32, registers.allowed_bits(t.condition(i)), False)
    left = registers.barrier(barrier.index) & ~gone
    text = own(left).text
    registers.replace_barrier(barrier.index, text)
    return False


def _synchronise(t: Translator, i: Instruction) -> bool:
    """BSYNC: wait for the lanes that the barrier names."""
    registers = t.registers
    barrier = _convergence(i)
    need = "-1"
    if own(t.condition(i)).text != "true":
        raise SimFault(f"{i.spelling} with a condition is not simulated")
    named = registers.barrier(barrier.index)  # read here too: the other function may come by
    if not t.full:
        need = registers.one(named).text
    t.wait_for(need, i.address + INSTRUCTION_SIZE, i.address)
    return True


def _warp_sync(t: Translator, i: Instruction) -> bool:
    """WARPSYNC: wait for the lanes of a mask."""
    need = "-1"
    operand = next((o for o in i.sources if o.kind in ("reg", "imm", "const", "ureg")), None)
    if operand is not None:
        named = t.registers.one(Access(i, t.registers).word(operand)).text
        need = "-1" if t.full else named
    if own(t.condition(i)).text != "true":
        raise SimFault(f"{i.spelling} with a condition is not simulated")
    t.wait_for(need, i.address + INSTRUCTION_SIZE, i.address)
    return True


def _barrier(t: Translator, i: Instruction) -> bool:
    """BAR.SYNC of the whole block: first the lanes of the warp meet, then the warps."""
    after = i.address + INSTRUCTION_SIZE
    guard = guard_of(i, t.registers)
    count = threads_of_barrier(i)
    if count is None or guard is not None:
        raise SimFault(f"{i.spelling} of part of a block is not simulated")
    if count:
        _whole_block(t, i, count)
    if "RED" in i.modifiers:
        _contribute(t, i)
    if t.full:
        t.leave(after, state.BARRIER)
        return True
    emitter = t.emitter
    come = emitter.effect(f"call i1 @arrive(ptr %t, ptr %w, i32 -1, i32 {after})")
    name = come[1:]
    emitter.line(f"br i1 {come}, label %come_{name}, label %choose")
    emitter.label(f"come_{name}", follows=True)
    t.leave(after, state.BARRIER)
    return True


def threads_of_barrier(i: Instruction) -> int | None:
    """How many threads meet at a barrier; 0: the whole block; None: it cannot be told."""
    named = [o for o in i.sources if o.kind in ("imm", "reg")]
    if "ARV" in i.modifiers or any(o.kind == "reg" for o in named):
        return None
    return sum(o.value for o in named[1:])


def _whole_block(t: Translator, i: Instruction, count: int) -> None:
    """A barrier of a number of threads has to be one of all the block's warps."""
    emitter = t.emitter
    launch = emitter.effect("load ptr, ptr %t")
    place = emitter.effect(f"getelementptr i8, ptr {launch}, i64 {state.WAVES}")
    warps = emitter.effect(f"load i64, ptr {place}")
    whole = emitter.effect(f"icmp eq i64 {warps}, {-(-count // 32)}")
    name = whole[1:]
    emitter.line(f"br i1 {whole}, label %whole_{name}, label %part_{name}")
    emitter.label(f"part_{name}", follows=True)
    t.fault(i.address, SimFault(f"{i.spelling} of part of a block is not simulated"))
    emitter.label(f"whole_{name}", follows=True)


def _contribute(t: Translator, i: Instruction) -> None:
    """BAR.RED: each warp leaves the lanes where its predicate holds, for B2R to combine.

    Two places in turn: a warp can be one barrier ahead of one that has not read yet.
    """
    emitter, registers = t.emitter, t.registers
    access = Access(i, registers)
    running = LlvmValue(emitter, U32, registers.running_bits(), False)
    bits = registers.mask_bits(access.flag(0)) & running
    form = LlvmValue(emitter, U32, t.word(frame.REDUCTION_FORM), False)
    number = (form >> 1) + 1
    turn = number & 1
    kind = 1 if "AND" in i.modifiers else 0
    for at, value in ((frame.REDUCTION, bits), (frame.REDUCTION_LANES, running)):
        place = own((turn + at) << 2).text
        pointer = emitter.effect(f"getelementptr i8, ptr %w, i32 {place}")
        emitter.line(f"store i32 {own(value).text}, ptr {pointer}")
    pointer = emitter.effect(f"getelementptr i8, ptr %w, i64 {4 * frame.REDUCTION_FORM}")
    emitter.line(f"store i32 {own((number << 1) | kind).text}, ptr {pointer}")


def _read_barrier(t: Translator, i: Instruction) -> bool:
    """B2R.RESULT: what the last BAR.RED of the block came to."""
    if "RESULT" not in i.modifiers:
        raise SimFault(f"{i.spelling} is not simulated")
    emitter, access = t.emitter, Access(i, t.registers)
    t.extras["reduction"] = REDUCTION
    emitter.declarations.add("declare i32 @llvm.ctpop.i32(i32)")
    count = emitter.effect("call i64 @reduction(ptr %t, ptr %w)")
    yes = LlvmValue(emitter, U32, emitter.effect(f"trunc i64 {count} to i32"), False)
    high = emitter.effect(f"lshr i64 {count}, 32")
    everyone = LlvmValue(emitter, U32, emitter.effect(f"trunc i64 {high} to i32"), False)
    form = LlvmValue(emitter, U32, t.word(frame.REDUCTION_FORM), False)
    access.write_flag(0, (form & 1 != 0).select(yes == everyone, yes != 0))
    access.write(yes)
    return False


def _computed(t: Translator, i: Instruction) -> bool:
    t.computed(i, t.condition(i))
    return True


def _call(t: Translator, i: Instruction) -> bool:
    """The return address is in registers already."""
    if i.target is None:
        return _computed(t, i)
    t.split(t.condition(i), i.target, i.address + INSTRUCTION_SIZE, i.address)
    return True


def _trap(t: Translator, i: Instruction) -> bool:
    """BPT.TRAP stops the kernel."""
    emitter = t.emitter
    taken = t.registers.somewhere(t.condition(i))
    t.registers.running_bits()
    name = emitter.fresh()[1:]
    emitter.line(f"br i1 {taken.text}, label %trap_{name}, label %on_{name}")
    emitter.label(f"trap_{name}", follows=True)
    t.fault(i.address, SimFault("the kernel stopped itself with BPT.TRAP"))
    emitter.label(f"on_{name}", follows=True)
    if taken.text == "true":
        emitter.line("unreachable")
    else:
        t.advance(i.address + INSTRUCTION_SIZE, i.address)
    return True


CONTROL_EMITTERS: dict[str, Callable[[Translator, Instruction], bool]] = {
    "BRA": _branch, "EXIT": _exit, "BSSY": _split_mark, "BREAK": _break, "BSYNC": _synchronise,
    "WARPSYNC": _warp_sync, "BAR": _barrier, "RET": _computed, "BRX": _computed, "CALL": _call,
    "BPT": _trap, "BMOV": _move_barrier, "B2R": _read_barrier, "YIELD": _yield,
}  # fmt: skip
