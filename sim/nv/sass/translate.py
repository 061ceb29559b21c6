"""A kernel's machine code -> native functions over vectors of 32 lanes.

There are two functions, both `i32 f(thread, warp)`. The *full* one is for a warp of which all
32 lanes stand at one place; it has no masks. The *part* one is for everything else. Each
goes to the block where the warp stopped, runs until the warp ends, waits or yields, and
returns a wave status; they call each other as lanes part and meet. Registers live in the wave
record between blocks (frame.py), so nothing has to be saved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hcq.errors import SimFault
from sim.isa import state
from sim.isa.emitter import Emitter
from sim.isa.llvm_value import LlvmValue, own
from sim.isa.native import ATTRIBUTES, FUNCTION_AT
from sim.isa.value import BOOL, U32, Value
from sim.nv.sass import frame
from sim.nv.sass.access import NANS, PREDICATES, Access, guard_of, read_flag
from sim.nv.sass.cfg import Block, Program
from sim.nv.sass.dispatcher import DISPATCHER, REDUCTION
from sim.nv.sass.emit_memory import MemoryEmitter
from sim.nv.sass.emit_registers import EmitRegisters, PendingStore
from sim.nv.sass.instruction import ZERO_REGISTER, Instruction, Operand
from sim.nv.sass.memory_ops import is_memory
from sim.nv.sass.operands import INSTRUCTION_SIZE
from sim.nv.sass.semantics import NO_EFFECT, lookup

EVERYTHING = set(range(frame.KEYS))
WANTS_PART = 1  # in state.JUMP with status JUMPED: the other function is not translated yet


@dataclass
class _Written:
    """A block that is written but for its stores."""

    block: Block
    registers: EmitRegisters


class Translator:
    """Writes one of the two functions. `problems` collects, by place, why a warp faults there."""

    def __init__(self, program: Program, chip: int, *, full: bool) -> None:
        self.program = program
        self.chip = chip
        self.full = full
        self.emitter = Emitter(32, nans=NANS)
        self.extras: dict[str, str] = {}
        self.problems: dict[int, SimFault] = {}
        self.registers = EmitRegisters(self.emitter, chip, full=full)

    def text(self, name: str) -> str:
        """The module, with the function called `name`."""
        written = [self._block(block) for block in self.program.blocks.values()]
        self._settle(written)
        emitter = self.emitter
        body = "\n".join(line for line in emitter.lines if line)
        slots = "\n".join(emitter.slots)
        extras = "\n".join(self.extras.values())
        shared = DISPATCHER if not self.full else ""
        declared = emitter.declarations | (
            set() if self.full else {"declare i32 @llvm.cttz.i32(i32, i1)"}
        )
        declarations = "\n".join(sorted(d for d in declared if d not in shared))
        return f"""
define i32 @{name}(ptr noalias %t, ptr noalias %w) #2 {{
entry:
{slots}
  %resumep = getelementptr i8, ptr %w, i64 {state.RESUME}
  %resume = load i32, ptr %resumep
  %countp = getelementptr i8, ptr %t, i64 {state.INSTRUCTIONS}
  %budgetp = getelementptr i8, ptr %t, i64 {state.BUDGET}
  %activep = getelementptr i8, ptr %w, i64 {4 * frame.ACTIVE}
  %limitp = getelementptr i8, ptr %w, i64 {4 * frame.LIMIT}
  %livep = getelementptr i8, ptr %w, i64 {4 * frame.LIVE}
  %placesp = getelementptr i8, ptr %w, i64 {frame.row_offset(frame.PLACES)}
  %jumpp = getelementptr i8, ptr %w, i64 {state.JUMP}
  %codep = getelementptr i8, ptr %t, i64 {state.CODE}
{self._entry()}
{body}
}}
{extras}
{shared}
{declarations}
!0 = !{{}}
{ATTRIBUTES}
"""

    def _entry(self) -> str:
        cases = " ".join(
            f"i32 {start}, label %{_label(start)}" for start in sorted(self.program.blocks)
        )
        unknown = f"""unknown:
  %where = phi i32 [ %resume, %{"entry" if self.full else "converged"} ]{self._also()}
  %code = load i64, ptr %codep
  %where64 = sext i32 %where to i64
  %wanted = add i64 %code, %where64
  store i64 %wanted, ptr %jumpp
  ret i32 {state.JUMPED}"""
        if self.full:
            return f"""  switch i32 %resume, label %unknown [ {cases} i32 {frame.DISPATCH}, label %part ]
{unknown}
{_other_function("part", state.PART_CODE)}"""
        return f"""  %apart = icmp eq i32 %resume, {frame.DISPATCH}
  br i1 %apart, label %choose, label %converged
converged:
  %live = load i32, ptr %livep
  store i32 %live, ptr %activep
  store i32 {frame.NEVER}, ptr %limitp
  switch i32 %resume, label %unknown [ {cases} ]
choose:
  %place = call i32 @dispatch(ptr %t, ptr %w)
  %chosen = load i32, ptr %activep
  %together = icmp eq i32 %chosen, -1
  br i1 %together, label %tofull, label %apartagain
tofull:
  store i32 %place, ptr %resumep
  br label %full
apartagain:
  store i32 {frame.DISPATCH}, ptr %resumep
  switch i32 %place, label %unknown [ {cases} ]
{unknown}
{_other_function("full", state.FULL_CODE)}"""

    def _also(self) -> str:
        return "" if self.full else ", [ %place, %apartagain ]"

    # --- one block

    def _block(self, block: Block) -> _Written:
        emitter = self.emitter
        registers = EmitRegisters(emitter, self.chip, full=self.full)
        memory = MemoryEmitter(emitter, registers, self.extras.__setitem__)
        self.registers = registers
        emitter.label(_label(block.start))
        count_at = len(emitter.lines)
        emitter.line("")
        done = 0
        ended = False
        try:
            for instruction in block.instructions:
                ended = self._instruction(instruction, memory)
                done += 1
        except SimFault as problem:
            self._fault(block.start + INSTRUCTION_SIZE * done, problem)
        else:
            if block.problem is not None:
                self._fault(block.end, block.problem)
            elif not ended:
                self.advance(block.end, block.start)
        total = emitter.fresh()[1:]
        emitter.lines[count_at] = (
            f"  %n{total} = load i64, ptr %countp\n  %m{total} = add i64 %n{total}, {done}\n"
            f"  store i64 %m{total}, ptr %countp"
        )
        return _Written(block, registers)

    def _instruction(self, instruction: Instruction, memory: MemoryEmitter) -> bool:
        """Write one; whether it wrote where to go next."""
        name = instruction.name
        if name in NO_EFFECT:
            return False
        if name in CONTROL_EMITTERS:
            return CONTROL_EMITTERS[name](self, instruction)
        if is_memory(name):
            memory.emit(instruction)
        else:
            lookup(instruction)(Access(instruction, self.registers))
        return False

    def _fault(self, offset: int, problem: SimFault) -> None:
        """What a warp does that gets where there is no instruction."""
        self.problems[offset] = problem
        emitter = self.emitter
        kind, access = state.FAULT_ILLEGAL, 0
        if hasattr(problem, "access"):  # a PageFault: the code itself may not be fetched
            kind, access = state.FAULT_MEMORY, state.EXECUTE
        address = self._absolute(offset)
        place = emitter.effect(f"getelementptr i8, ptr %t, i64 {FUNCTION_AT['FAULT']}")
        function = emitter.effect(f"load ptr, ptr {place}")
        emitter.line(
            f"call void {function}(ptr %t, i64 {kind}, i64 {address}, i64 {access}, "
            f"i32 {frame.fault_place(offset)})"
        )
        emitter.line(f"ret i32 {state.ENDED}")

    def _absolute(self, offset: int) -> str:
        entry = self.emitter.effect("load i64, ptr %codep")
        return self.emitter.effect(f"add i64 {entry}, {offset}")

    # --- stores that later blocks need

    def _settle(self, written: list[_Written]) -> None:
        live_in: dict[int, set[int]] = {w.block.start: set() for w in written}
        for w in written:
            live_in[w.block.start] |= w.registers.uses
        changed = True
        while changed:
            changed = False
            for w in reversed(written):
                live = self._live_out(w.block, live_in) - w.registers.writes
                if not live <= live_in[w.block.start]:
                    live_in[w.block.start] |= live
                    changed = True
        for w in written:
            for pending in w.registers.settle(self._live_out(w.block, live_in)):
                self._place(pending)

    def _live_out(self, block: Block, live_in: dict[int, set[int]]) -> set[int]:
        if block.instructions and block.instructions[-1].name in ("RET", "BRX", "CALL"):
            return EVERYTHING
        live: set[int] = set()
        for target in block.successors:
            live |= live_in.get(target, set())
        return live

    def _place(self, pending: PendingStore) -> None:
        self.emitter.lines[pending.line] = pending.text

    # --- going places

    def advance(self, target: int, source: int) -> None:
        """All lanes that run go to `target`."""
        emitter = self.emitter
        self.registers.running_bits()  # here, where what follows can see it
        if target <= source:
            self._look_up(target)
        if self.full:
            emitter.line(f"br label %{_label(target)}")
            return
        limit = emitter.effect("load i32, ptr %limitp")
        near = emitter.effect(f"icmp slt i32 {target}, {limit}")
        name = f"meet_{near[1:]}"
        emitter.line(f"br i1 {near}, label %{_label(target)}, label %{name}")
        emitter.label(name, follows=True)
        self._stand_at(str(target))
        emitter.line("br label %choose")

    def _look_up(self, target: int) -> None:
        """Over a backward branch the warp may yield."""
        emitter = self.emitter
        left = emitter.effect("load i64, ptr %budgetp")
        less = emitter.effect(f"sub i64 {left}, 1")
        emitter.line(f"store i64 {less}, ptr %budgetp")
        out = emitter.effect(f"icmp sle i64 {less}, 0")
        name = out[1:]
        emitter.line(f"br i1 {out}, label %yield_{name}, label %stay_{name}")
        emitter.label(f"yield_{name}", follows=True)
        if self.full:
            self._leave(target, state.RUN)
        else:
            self._stand_at(str(target))
            place = emitter.effect(f"getelementptr i8, ptr %w, i64 {4 * frame.ROTATE}")
            emitter.line(f"store i32 1, ptr {place}")
            self._leave(frame.DISPATCH, state.RUN)
        emitter.label(f"stay_{name}", follows=True)

    def _leave(self, resume: int, status: int) -> None:
        """Return to the scheduler, to go on at `resume`."""
        self.emitter.line(f"store i32 {resume}, ptr %resumep")
        self.emitter.line(f"ret i32 {status}")

    def _stand_at(self, place: str, bits: str | None = None) -> None:
        """The lanes that run (or `bits`) will go on at an i32 place."""
        emitter = self.emitter
        first = emitter.effect(f"insertelement <32 x i32> poison, i32 {place}, i64 0")
        spread = emitter.effect(
            f"shufflevector <32 x i32> {first}, <32 x i32> poison, <32 x i32> zeroinitializer"
        )
        self._stand(spread, bits)

    def _stand(self, places: str, bits: str | None = None) -> None:
        """The same with a place for each lane."""
        emitter = self.emitter
        chosen = self.registers.running_bits() if bits is None else bits
        if chosen == "-1":
            emitter.line(f"store <32 x i32> {places}, ptr %placesp, align 64")
            return
        mask = emitter.effect(f"bitcast i32 {chosen} to <32 x i1>")
        old = emitter.effect("load volatile <32 x i32>, ptr %placesp, align 64")
        new = emitter.effect(
            f"select <32 x i1> {mask}, <32 x i32> {places}, <32 x i32> {old}"
        )
        emitter.line(f"store <32 x i32> {new}, ptr %placesp, align 64")

    def _apart(self) -> None:
        """Lanes stand where PLACES says."""
        if not self.full:
            self.emitter.line("br label %choose")
            return
        self.emitter.line(f"store i32 {frame.DISPATCH}, ptr %resumep")
        self.emitter.line("br label %part")

    def split(self, taken: Value, yes: int, no: int, source: int) -> None:
        """Lanes where `taken` holds go to `yes`, the others that run to `no`."""
        emitter, registers = self.emitter, self.registers
        if not own(taken).lanes:
            self._uniform_split(own(taken), yes, no, source)
            return
        running = registers.running_bits()
        bits = registers.mask_bits(taken).text
        if running != "-1":
            bits = emitter.effect(f"and i32 {bits}, {running}")
        nobody = emitter.effect(f"icmp eq i32 {bits}, 0")
        name = nobody[1:]
        emitter.line(f"br i1 {nobody}, label %no_{name}, label %some_{name}")
        emitter.label(f"no_{name}", follows=True)
        self.advance(no, source)
        emitter.label(f"some_{name}", follows=True)
        everybody = emitter.effect(f"icmp eq i32 {bits}, {running}")
        emitter.line(f"br i1 {everybody}, label %yes_{name}, label %both_{name}")
        emitter.label(f"yes_{name}", follows=True)
        self.advance(yes, source)
        emitter.label(f"both_{name}", follows=True)
        if yes <= source:  # a loop that lanes leave one by one still has to look up
            left = emitter.effect("load i64, ptr %budgetp")
            less = emitter.effect(f"sub i64 {left}, 1")
            emitter.line(f"store i64 {less}, ptr %budgetp")
        mask = emitter.effect(f"bitcast i32 {bits} to <32 x i1>")
        places = emitter.effect(
            f"select <32 x i1> {mask}, <32 x i32> splat (i32 {yes}), "
            f"<32 x i32> splat (i32 {no})"
        )
        self._stand(places)
        self._apart()

    def _uniform_split(self, taken: LlvmValue, yes: int, no: int, source: int) -> None:
        if taken.text in ("true", "false"):
            self.advance(yes if taken.text == "true" else no, source)
            return
        emitter = self.emitter
        self.registers.running_bits()
        name = emitter.fresh()[1:]
        emitter.line(f"br i1 {taken.text}, label %yes_{name}, label %no_{name}")
        emitter.label(f"yes_{name}", follows=True)
        self.advance(yes, source)
        emitter.label(f"no_{name}", follows=True)
        self.advance(no, source)

    def word(self, number: int) -> str:
        """A word of the warp's state, i32, as it is now."""
        place = self.emitter.effect(f"getelementptr i8, ptr %w, i64 {4 * number}")
        return self.emitter.effect(f"load i32, ptr {place}")

    def condition(self, instruction: Instruction) -> Value:
        """BOOL: the guard and the predicate sources, all of them."""
        registers = self.registers
        guard = guard_of(instruction, registers)
        result = registers.constant(BOOL, 1) if guard is None else guard
        for operand in instruction.sources:
            if operand.kind in PREDICATES:
                result = self._both(result, read_flag(registers, operand))
        return result

    def _both(self, a: Value, b: Value) -> Value:
        if own(a).text == "true":
            return b
        return a if own(b).text == "true" else a & b

    def wait_for(self, need: str, after: int, source: int) -> None:
        """At a convergence point: the lanes `need` (i32) go on together."""
        if self.full:
            self.advance(after, source)
            return
        emitter = self.emitter
        come = emitter.effect(f"call i1 @arrive(ptr %t, ptr %w, i32 {need}, i32 {after})")
        name = come[1:]
        emitter.line(f"br i1 {come}, label %come_{name}, label %choose")
        emitter.label(f"come_{name}")
        now = emitter.effect("load i32, ptr %activep")
        all_here = emitter.effect(f"icmp eq i32 {now}, -1")
        emitter.line(f"br i1 {all_here}, label %whole_{name}, label %partly_{name}")
        emitter.label(f"whole_{name}", follows=True)
        emitter.line(f"store i32 {after}, ptr %resumep")
        emitter.line("br label %full")
        emitter.label(f"partly_{name}", follows=True)
        self.advance(after, source)

    def computed(self, instruction: Instruction, condition: Value) -> None:
        """Lanes go where a register pair says."""
        emitter, registers = self.emitter, self.registers
        operand = next(o for o in instruction.sources if o.kind == "jump")
        offsets = self._offsets(instruction, operand)
        after = instruction.address + INSTRUCTION_SIZE
        if own(condition).text != "true":
            there = own(condition.select(offsets, registers.constant(U32, after)))
            self._stand(there.spread().text)
            self._apart()
            return
        self._stand(offsets.spread().text)
        if not self.full:
            emitter.line("br label %choose")
            return
        first = emitter.effect(f"extractelement <32 x i32> {offsets.spread().text}, i64 0")
        same = own(offsets == LlvmValue(emitter, U32, first, False))
        bits = registers.mask_bits(same).text
        together = emitter.effect(f"icmp eq i32 {bits}, -1")
        name = together[1:]
        emitter.line(f"br i1 {together}, label %together_{name}, label %scattered_{name}")
        emitter.label(f"scattered_{name}", follows=True)
        self._apart()
        emitter.label(f"together_{name}", follows=True)
        cases = " ".join(
            f"i32 {start}, label %{_label(start)}" for start in sorted(self.program.blocks)
        )
        emitter.line(f"switch i32 {first}, label %unknown_{name} [ {cases} ]")
        emitter.label(f"unknown_{name}", follows=True)
        emitter.line(f"store i32 {first}, ptr %resumep")
        wide = emitter.effect(f"sext i32 {first} to i64")
        code = emitter.effect("load i64, ptr %codep")
        target = emitter.effect(f"add i64 {code}, {wide}")
        emitter.line(f"store i64 {target}, ptr %jumpp")
        emitter.line(f"ret i32 {state.JUMPED}")

    def _offsets(self, instruction: Instruction, operand: Operand) -> LlvmValue:
        """For each lane, bytes from the entry, U32."""
        base = operand.base
        if base is None or base.index == ZERO_REGISTER:
            raise SimFault(f"{instruction.spelling} without a register is not simulated")
        return own(self.registers.read(base.index) + (operand.value & 0xFFFF_FFFF))


def _other_function(label: str, code: int) -> str:
    return f"""{label}:
  %launch_{label} = load ptr, ptr %t
  %{label}p = getelementptr i8, ptr %launch_{label}, i64 {code}
  %{label}f = load ptr, ptr %{label}p
  %{label}none = icmp eq ptr %{label}f, null
  br i1 %{label}none, label %{label}wanted, label %{label}go
{label}wanted:
  store i64 {WANTS_PART}, ptr %jumpp
  ret i32 {state.JUMPED}
{label}go:
  %{label}r = musttail call i32 %{label}f(ptr %t, ptr %w)
  ret i32 %{label}r"""


# --- control instructions; each says whether it wrote where to go next


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
    if t.full:
        # More lanes than the mask names cannot be missing.
        t.advance(after, i.address)
        return True
    registers = t.registers
    operand = next(o for o in i.sources if o.kind == "ureg")
    access = Access(i, registers)
    wanted: Value = access.word(operand)
    if operand.inv:
        wanted = ~wanted
    running = LlvmValue(t.emitter, U32, registers.running_bits(), False)
    live = LlvmValue(t.emitter, U32, t.emitter.effect("load i32, ptr %livep"), False)
    apart = (wanted & live & ~running) != 0
    condition = t.condition(i)
    t.split(t._both(condition, apart), target, after, i.address)
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
    t._stand_at(str(after), remain)
    t._apart()
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
    registers._define(frame.KEY_BARRIER + barrier.index, text)
    return False


def _synchronise(t: Translator, i: Instruction) -> bool:
    """BSYNC: wait for the lanes that the barrier names."""
    registers = t.registers
    barrier = _convergence(i)
    need = "-1"
    if own(t.condition(i)).text != "true":
        raise SimFault(f"{i.spelling} with a condition is not simulated")
    if not t.full:
        need = registers.one(registers.barrier(barrier.index)).text
    t.wait_for(need, i.address + INSTRUCTION_SIZE, i.address)
    return True


def _warp_sync(t: Translator, i: Instruction) -> bool:
    """WARPSYNC: wait for the lanes of a mask."""
    need = "-1"
    operand = next((o for o in i.sources if o.kind in ("reg", "imm", "const", "ureg")), None)
    if operand is not None and not t.full:
        need = t.registers.one(Access(i, t.registers).word(operand)).text
    if own(t.condition(i)).text != "true":
        raise SimFault(f"{i.spelling} with a condition is not simulated")
    t.wait_for(need, i.address + INSTRUCTION_SIZE, i.address)
    return True


def _barrier(t: Translator, i: Instruction) -> bool:
    """BAR.SYNC of the whole block: first the lanes of the warp meet, then the warps."""
    after = i.address + INSTRUCTION_SIZE
    named = [o for o in i.sources if o.kind in ("imm", "reg")]
    plain = named[0].kind == "imm" and all(o.kind == "imm" and not o.value for o in named[1:])
    guard = guard_of(i, t.registers)
    if "ARV" in i.modifiers or not plain or guard is not None:
        raise SimFault(f"{i.spelling} of part of a block is not simulated")
    if "RED" in i.modifiers:
        _contribute(t, i)
    if t.full:
        t._leave(after, state.BARRIER)
        return True
    emitter = t.emitter
    come = emitter.effect(f"call i1 @arrive(ptr %t, ptr %w, i32 -1, i32 {after})")
    name = come[1:]
    emitter.line(f"br i1 {come}, label %come_{name}, label %choose")
    emitter.label(f"come_{name}", follows=True)
    t._leave(after, state.BARRIER)
    return True


def _contribute(t: Translator, i: Instruction) -> None:
    """BAR.RED: each warp leaves the lanes where its predicate holds, for B2R to combine.

    Two places in turn: a warp can be one barrier ahead of one that has not read yet.
    """
    emitter, registers = t.emitter, t.registers
    access = Access(i, registers)
    running = LlvmValue(emitter, U32, registers.running_bits(), False)
    bits = registers.mask_bits(access.flag(0)) & running
    form = LlvmValue(emitter, U32, t.word(frame.REDUCTION_FORM), False)
    turn = ~form & 1
    kind = 1 if "AND" in i.modifiers else 0
    for at, value in ((frame.REDUCTION, bits), (frame.REDUCTION_LANES, running)):
        place = own((turn + at) << 2).text
        pointer = emitter.effect(f"getelementptr i8, ptr %w, i32 {place}")
        emitter.line(f"store i32 {own(value).text}, ptr {pointer}")
    pointer = emitter.effect(f"getelementptr i8, ptr %w, i64 {4 * frame.REDUCTION_FORM}")
    emitter.line(f"store i32 {own(turn | 2 * kind).text}, ptr {pointer}")


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
    access.write_flag(0, (form >> 1 != 0).select(yes == everyone, yes != 0))
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
    t._fault(i.address, SimFault("the kernel stopped itself with BPT.TRAP"))
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


def _label(offset: int) -> str:
    return f"b{offset & 0xFFFFFFFF:x}"
