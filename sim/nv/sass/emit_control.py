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
from sim.nv.sass import convergence, frame
from sim.nv.sass.access import Access, guard_of
from sim.nv.sass.block_barrier import BLOCK_BARRIER, OPEN, STUCK
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
    """BRA.DIV and BRA.CONV: whether lanes of a uniform mask are missing, or none is.

    Lanes that the guard leaves out count as missing; they go where the others go.
    """
    after = i.address + INSTRUCTION_SIZE
    target = i.target
    if target is None:
        raise SimFault(f"{i.spelling} without a target is not simulated")
    registers = t.registers
    operand = next(o for o in i.sources if o.kind == "ureg")
    access = Access(i, registers)
    wanted: Value = access.word(operand)  # read here too: the other function may come by
    condition = own(t.condition(i))
    yes, no = (target, after) if "DIV" in i.modifiers else (after, target)
    if t.full and condition.text == "true":
        # More lanes than the mask names cannot be missing.
        t.advance(no, i.address)
        return True
    if operand.inv:
        wanted = ~wanted
    there = LlvmValue(t.emitter, U32, registers.allowed_bits(condition), False)
    live = LlvmValue(t.emitter, U32, t.emitter.effect("load i32, ptr %livep"), False)
    t.split((wanted & live & ~there) != 0, yes, no, i.address)
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
        t.put_word(frame.YIELDED, "1")
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
    bits = registers.allowed_bits(t.condition(i))
    gone: Value = LlvmValue(t.emitter, U32, bits, False)
    left = registers.barrier(barrier.index) & ~gone
    text = own(left).text
    registers.replace_barrier(barrier.index, text)
    if not t.full:
        t.emitter.line(f"call void @leave(ptr %w, i32 {barrier.index}, i32 {bits})")
    return False


def _some_stay(t: Translator, i: Instruction, condition: Value) -> None:
    """Lanes that a guard leaves out go on; what is written next is for the others.

    If there are both, the others come here again by themselves.
    """
    if own(condition).text == "true":
        return
    emitter, registers = t.emitter, t.registers
    after = i.address + INSTRUCTION_SIZE
    running = registers.running_bits()
    bits = registers.mask_bits(condition).text
    if running != "-1":
        bits = emitter.effect(f"and i32 {bits}, {running}")
    nobody = emitter.effect(f"icmp eq i32 {bits}, 0")
    name = nobody[1:]
    emitter.line(f"br i1 {nobody}, label %leave_{name}, label %some_{name}")
    emitter.label(f"leave_{name}", follows=True)
    t.advance(after, i.address)
    emitter.label(f"some_{name}", follows=True)
    everybody = emitter.effect(f"icmp eq i32 {bits}, {running}")
    emitter.line(f"br i1 {everybody}, label %stay_{name}, label %both_{name}")
    emitter.label(f"both_{name}", follows=True)
    mask = emitter.effect(f"bitcast i32 {bits} to <32 x i1>")
    here = f"<32 x i32> splat (i32 {i.address})"
    t.stand(emitter.effect(f"select <32 x i1> {mask}, {here}, <32 x i32> splat (i32 {after})"))
    t.apart()
    emitter.label(f"stay_{name}", follows=True)


def _synchronise(t: Translator, i: Instruction) -> bool:
    """BSYNC: wait for the lanes that the barrier names."""
    barrier = _convergence(i).index
    named = t.registers.barrier(barrier)  # read here too: the other function may come by
    _some_stay(t, i, t.condition(i))
    after = i.address + INSTRUCTION_SIZE
    if t.full:
        t.advance(after, i.address)
    else:
        t.wait_for(named, after | barrier, after, i.address)
    return True


def _warp_sync(t: Translator, i: Instruction) -> bool:
    """WARPSYNC: wait for the lanes of a mask."""
    registers, emitter = t.registers, t.emitter
    operand = next((o for o in i.sources if o.kind in ("reg", "imm", "const", "ureg")), None)
    named: Value = registers.constant(U32, -1)
    if operand is not None:
        named = Access(i, registers).word(operand)
    _some_stay(t, i, t.condition(i))
    after = i.address + INSTRUCTION_SIZE
    key = convergence.key_of_sync(i, t.instructions.get)
    if not t.full:
        if i.target is not None:
            t.put_row(frame.RETURN, f"splat (i32 {i.target})")
        t.wait_for(named, key, after, i.address, sync=True)
        return True
    if "COLLECTIVE" in i.modifiers:
        t.to_part(i.address)
    elif convergence.is_exclusive(key):
        every = registers.mask_bits(named == registers.constant(U32, -1)).text
        whole = emitter.effect(f"icmp eq i32 {every}, -1")
        name = whole[1:]
        emitter.line(f"br i1 {whole}, label %whole_{name}, label %groups_{name}")
        emitter.label(f"groups_{name}", follows=True)
        t.to_part(i.address)
        emitter.label(f"whole_{name}", follows=True)
        t.advance(after, i.address)
    else:
        t.advance(after, i.address)
    return True


def _end_collective(t: Translator, _: Instruction) -> bool:
    """ENDCOLLECTIVE: each lane goes where its WARPSYNC.COLLECTIVE said."""
    emitter = t.emitter
    row = emitter.effect(f"getelementptr i8, ptr %w, i64 {frame.row_offset(frame.RETURN)}")
    t.stand(emitter.effect(f"load <32 x i32>, ptr {row}, align 64"))
    t.put_word(frame.EXCLUSIVE, "0")
    t.apart()
    return True


def _barrier(t: Translator, i: Instruction) -> bool:
    """BAR: first the lanes of the warp meet, then the warps."""
    emitter, registers = t.emitter, t.registers
    after = i.address + INSTRUCTION_SIZE
    guard = guard_of(i, registers)
    flag = Access(i, registers).flag(0) if "RED" in i.modifiers else None
    if guard is not None:
        _some_stay(t, i, guard)
    if not t.full:
        t.put_row(frame.WANTED, "splat (i32 -1)")
        come = emitter.effect(
            f"call i1 @meet(ptr %t, ptr %w, i32 {i.address}, i32 {i.address}, i32 -1)"
        )
        name = come[1:]
        emitter.line(f"br i1 {come}, label %come_{name}, label %choose")
        emitter.label(f"come_{name}")
    if i.spelling in SIMPLE and not any(o.value or o.kind == "reg" for o in named_of(i)):
        t.pause(after, state.BARRIER)
        return True
    number, threads = _numbers(t, i)
    t.extras["barrier"] = BLOCK_BARRIER
    arrives = int("ARV" in i.modifiers)
    came = "0" if flag is None else _brought(t, i, flag)
    registers.running_bits()  # here, where what follows can see it
    got = emitter.effect(
        f"call i32 @barrier(ptr %t, ptr %w, i32 {number}, i32 {threads}, i32 {came}, i32 {arrives})"
    )
    name = got[1:]
    on, stuck = f"i32 {OPEN}, label %on_{name}", f"i32 {STUCK}, label %stuck_{name}"
    emitter.line(f"switch i32 {got}, label %shut_{name} [ {on} {stuck} ]")
    emitter.label(f"stuck_{name}", follows=True)
    t.fault(i.address, SimFault(convergence.STUCK_WARPS))
    emitter.label(f"shut_{name}", follows=True)
    t.pause(i.address, state.RUN)
    emitter.label(f"on_{name}", follows=True)
    t.advance(after, i.address)
    return True


SIMPLE = ("BAR.SYNC", "BAR.SYNC.DEFER_BLOCKING")


def named_of(i: Instruction) -> list[Operand]:
    """The operands of a BAR: number, and threads if there are more."""
    return [o for o in i.sources if o.kind in ("imm", "reg")]


def _numbers(t: Translator, i: Instruction) -> tuple[str, str]:
    """The number of a barrier and how many threads meet there (0: all), i32.

    Both in one register: the number is below the threads.
    """
    registers, access = t.registers, Access(i, t.registers)
    named = named_of(i)
    number: Value = registers.one(access.word(named[0]))
    threads: Value = registers.constant(U32, 0)
    if len(named) > 1:
        threads = registers.one(access.word(named[1]))
    if [o.kind for o in named] == ["reg", "reg"]:
        threads = (threads >> 16) & 0xFFF
    return own(number).text, own(threads).text


def _brought(t: Translator, i: Instruction, flag: Value) -> str:
    """What a warp brings to a BAR.RED: how many lanes say yes, of AND how many say no; i32."""
    emitter, registers = t.emitter, t.registers
    asks_all = "AND" in i.modifiers
    bits: Value = registers.mask_bits(~flag if asks_all else flag)
    bits = bits & LlvmValue(emitter, U32, registers.running_bits(), False)
    emitter.declarations.add("declare i32 @llvm.ctpop.i32(i32)")
    t.put_word(frame.REDUCTION_FORM, str(int(asks_all)))
    return emitter.effect(f"call i32 @llvm.ctpop.i32(i32 {own(bits).text})")


def _read_barrier(t: Translator, i: Instruction) -> bool:
    """B2R.RESULT: what the last BAR.RED of the warp came to."""
    if "RESULT" not in i.modifiers:
        raise SimFault(f"{i.spelling} is not simulated")
    emitter, access = t.emitter, Access(i, t.registers)
    total = LlvmValue(emitter, U32, t.word(frame.REDUCTION), False)
    form = LlvmValue(emitter, U32, t.word(frame.REDUCTION_FORM), False)
    access.write_flag(0, (form != 0).select(total == 0, total != 0))
    access.write(total)
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
    "ENDCOLLECTIVE": _end_collective,
}  # fmt: skip
