"""A kernel's machine code -> native functions over vectors of 32 lanes.

There are two functions, both `i32 f(thread, warp)`. The *full* one is for a warp of which all
32 lanes stand at one place; it has no masks. The *part* one is for everything else. Each
goes to the block where the warp stopped, runs until the warp ends, waits or yields, and
returns a wave status; they call each other as lanes part and meet. Registers live in the wave
record between blocks (frame.py), so nothing has to be saved.
"""

from __future__ import annotations

from hcq.errors import SimFault
from sim.isa import state
from sim.isa.emitter import Emitter
from sim.isa.liveness import Written
from sim.isa.llvm_value import LlvmValue, own
from sim.isa.translator import BaseTranslator, ask_for, cases, label_of
from sim.isa.value import BOOL, U32, Value
from sim.nv.sass import frame
from sim.nv.sass.access import NANS, PREDICATES, Access, guard_of, read_flag
from sim.nv.sass.categories import lookup
from sim.nv.sass.cfg import Block, Program
from sim.nv.sass.dispatcher import DISPATCHER, STUCK_LINES
from sim.nv.sass.emit_control import CONTROL_EMITTERS
from sim.nv.sass.emit_memory import MemoryEmitter
from sim.nv.sass.emit_registers import EmitRegisters
from sim.nv.sass.instruction import ZERO_REGISTER, Instruction, Operand
from sim.nv.sass.memory_ops import is_memory
from sim.nv.sass.operands import INSTRUCTION_SIZE
from sim.nv.sass.semantics import NO_EFFECT

EVERYTHING = set(range(frame.KEYS))
ANYWHERE = ("RET", "BRX", "CALL", "ENDCOLLECTIVE")  # what goes to places in registers or rows
WANTS_PART = 1  # in state.JUMP with status JUMPED: the other function is not translated yet


class Translator(BaseTranslator):
    """Writes one of the two functions."""

    def __init__(self, program: Program, chip: int, *, full: bool) -> None:
        super().__init__(Emitter(32, nans=NANS))
        self.program = program
        self.chip = chip
        self.full = full
        self.registers = EmitRegisters(self.emitter, chip, full=full)
        self.instructions = {
            i.address: i for block in program.blocks.values() for i in block.instructions
        }

    def text(self, name: str) -> str:
        """The module, with the function called `name`."""
        written = [self._block(block) for block in self.program.blocks.values()]
        if self.full:
            return self.module(name, self._entry(), written, EVERYTHING)
        self.emitter.declarations.add("declare i32 @llvm.cttz.i32(i32, i1)")
        return self.module(name, self._entry(), written, EVERYTHING, DISPATCHER)

    def _entry(self) -> str:
        starts = cases(self.program.blocks)
        unknown = f"""unknown:
  %where = phi i32 [ %resume, %{"entry" if self.full else "converged"} ]{self._also()}
{ask_for("%where")}"""
        places = f"""  %activep = getelementptr i8, ptr %w, i64 {4 * frame.ACTIVE}
  %limitp = getelementptr i8, ptr %w, i64 {4 * frame.LIMIT}
  %livep = getelementptr i8, ptr %w, i64 {4 * frame.LIVE}
  %placesp = getelementptr i8, ptr %w, i64 {frame.row_offset(frame.PLACES)}"""
        if self.full:
            apart = f"i32 {frame.DISPATCH}, label %part"
            return f"""{places}
  switch i32 %resume, label %unknown [ {starts} {apart} ]
{unknown}
{_other_function("part", state.PART_CODE)}"""
        return f"""{places}
  %apart = icmp eq i32 %resume, {frame.DISPATCH}
  br i1 %apart, label %choose, label %converged
converged:
  %live = load i32, ptr %livep
  store i32 %live, ptr %activep
  store i32 {frame.NEVER}, ptr %limitp
  switch i32 %resume, label %unknown [ {starts} ]
choose:
  %place = call i32 @dispatch(ptr %t, ptr %w)
  %noplace = icmp eq i32 %place, {frame.STUCK}
  br i1 %noplace, label %stuck, label %found
found:
  %chosen = load i32, ptr %activep
  %together = icmp eq i32 %chosen, -1
  br i1 %together, label %tofull, label %apartagain
tofull:
  store i32 %place, ptr %resumep
  br label %full
apartagain:
  store i32 {frame.DISPATCH}, ptr %resumep
  switch i32 %place, label %unknown [ {starts} ]
stuck:{STUCK_LINES}
{unknown}
{_other_function("full", state.FULL_CODE)}"""

    def _also(self) -> str:
        return "" if self.full else ", [ %place, %apartagain ]"

    # --- one block

    def _block(self, block: Block) -> Written:
        emitter = self.emitter
        registers = EmitRegisters(emitter, self.chip, full=self.full)
        memory = MemoryEmitter(emitter, registers, self.extras.__setitem__)
        self.registers = registers
        emitter.label(label_of(block.start))
        count_at = self.begin_count()
        done = 0
        ended = False
        try:
            for instruction in block.instructions:
                ended = self._instruction(instruction, memory)
                done += 1
        except SimFault as problem:
            self.fault(block.start + INSTRUCTION_SIZE * done, problem)
        else:
            if block.problem is not None:
                self.fault(block.end, block.problem)
            elif not ended:
                self.advance(block.end, block.start)
        self.count(count_at, done)
        anywhere = block.instructions and block.instructions[-1].name in ANYWHERE
        return Written(block.start, None if anywhere else block.successors, registers)

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

    def fault(self, offset: int, problem: SimFault) -> None:
        """What a warp does that gets where there is no instruction."""
        self.fault_at(offset, problem, frame.fault_place(offset))

    # --- going places

    def advance(self, target: int, source: int) -> None:
        """All lanes that run go to `target`."""
        emitter = self.emitter
        self.registers.running_bits()  # here, where what follows can see it
        if target <= source:
            self._look_up(target)
        if self.full:
            emitter.line(f"br label %{label_of(target)}")
            return
        limit = emitter.effect("load i32, ptr %limitp")
        near = emitter.effect(f"icmp slt i32 {target}, {limit}")
        name = f"meet_{near[1:]}"
        emitter.line(f"br i1 {near}, label %{label_of(target)}, label %{name}")
        emitter.label(name, follows=True)
        self.stand_at(str(target))
        emitter.line("br label %choose")

    def _look_up(self, target: int) -> None:
        """Over a backward branch the warp may yield."""
        stay = self.is_spent()
        if self.full:
            self.leave(target, state.RUN)
        else:
            self.stand_at(str(target))
            self._give_way()
        self.emitter.label(stay, follows=True)

    def _look_up_standing(self) -> None:
        """The same where the lanes stand at places that are not known here."""
        stay = self.is_spent()
        self._give_way()
        self.emitter.label(stay, follows=True)

    def _give_way(self) -> None:
        """Return; lanes that stand elsewhere are to run next."""
        self.put_word(frame.ROTATE, "1")
        self.leave(frame.DISPATCH, state.RUN)

    def stand_at(self, place: str, bits: str | None = None) -> None:
        """The lanes that run (or `bits`) will go on at an i32 place."""
        emitter = self.emitter
        first = emitter.effect(f"insertelement <32 x i32> poison, i32 {place}, i64 0")
        spread = emitter.effect(
            f"shufflevector <32 x i32> {first}, <32 x i32> poison, <32 x i32> zeroinitializer"
        )
        self.stand(spread, bits)

    def stand(self, places: str, bits: str | None = None) -> None:
        """The same with a place for each lane."""
        emitter = self.emitter
        chosen = self.registers.running_bits() if bits is None else bits
        if chosen == "-1":
            emitter.line(f"store <32 x i32> {places}, ptr %placesp, align 64")
            return
        mask = emitter.effect(f"bitcast i32 {chosen} to <32 x i1>")
        old = emitter.effect("load volatile <32 x i32>, ptr %placesp, align 64")
        new = emitter.effect(f"select <32 x i1> {mask}, <32 x i32> {places}, <32 x i32> {old}")
        emitter.line(f"store <32 x i32> {new}, ptr %placesp, align 64")

    def apart(self) -> None:
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
            self.spend()
        mask = emitter.effect(f"bitcast i32 {bits} to <32 x i1>")
        places = emitter.effect(
            f"select <32 x i1> {mask}, <32 x i32> splat (i32 {yes}), <32 x i32> splat (i32 {no})"
        )
        self.stand(places)
        self.apart()

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
                result = self.both(result, read_flag(registers, operand))
        return result

    def both(self, a: Value, b: Value) -> Value:
        if own(a).text == "true":
            return b
        return a if own(b).text == "true" else a & b

    def put_word(self, number: int, value: str) -> None:
        """Write a word of the warp's state."""
        place = self.emitter.effect(f"getelementptr i8, ptr %w, i64 {4 * number}")
        self.emitter.line(f"store i32 {value}, ptr {place}")

    def put_row(self, row: int, values: str) -> None:
        """Write a row for the lanes that run."""
        emitter = self.emitter
        place = emitter.effect(f"getelementptr i8, ptr %w, i64 {frame.row_offset(row)}")
        mask = emitter.effect(f"bitcast i32 {self.registers.running_bits()} to <32 x i1>")
        old = emitter.effect(f"load volatile <32 x i32>, ptr {place}, align 64")
        new = emitter.effect(f"select <32 x i1> {mask}, <32 x i32> {values}, <32 x i32> {old}")
        emitter.line(f"store <32 x i32> {new}, ptr {place}, align 64")

    def pause(self, target: int, status: int) -> None:
        """Return to the scheduler: the lanes that run will go on at `target`."""
        if self.full:
            self.leave(target, status)
            return
        # The scheduler may call the other function, which is for whole warps only.
        self.stand_at(str(target))
        self.leave(frame.DISPATCH, status)

    def to_part(self, place: int) -> None:
        """From the full function to the other one, with all lanes at `place`."""
        self.emitter.line(f"store i32 {place}, ptr %resumep")
        self.emitter.line("br label %part")

    def wait_for(
        self, named: Value, key: int, after: int, source: int, *, sync: bool = False
    ) -> None:
        """At a convergence point: the lanes in `named` go on together. For the part function."""
        emitter = self.emitter
        self.put_row(frame.WANTED, own(named).spread().text)
        come = emitter.effect(
            f"call i1 @meet(ptr %t, ptr %w, i32 {key}, i32 {after}, i32 {-int(sync)})"
        )
        name = come[1:]
        emitter.line(f"br i1 {come}, label %come_{name}, label %choose")
        emitter.label(f"come_{name}")
        now = emitter.effect("load i32, ptr %activep")
        all_here = emitter.effect(f"icmp eq i32 {now}, -1")
        emitter.line(f"br i1 {all_here}, label %whole_{name}, label %partly_{name}")
        emitter.label(f"whole_{name}", follows=True)
        self.to_full(after)
        emitter.label(f"partly_{name}", follows=True)
        self.advance(after, source)

    def to_full(self, place: int) -> None:
        """The reverse of to_part."""
        self.emitter.line(f"store i32 {place}, ptr %resumep")
        self.emitter.line("br label %full")

    def computed(self, instruction: Instruction, condition: Value) -> None:
        """Lanes go where a register pair says."""
        emitter, registers = self.emitter, self.registers
        operand = next(o for o in instruction.sources if o.kind == "jump")
        offsets = self._offsets(instruction, operand)
        after = instruction.address + INSTRUCTION_SIZE
        if own(condition).text != "true":
            there = own(condition.select(offsets, registers.constant(U32, after)))
            self.stand(there.spread().text)
            self._look_up_standing()
            self.apart()
            return
        self.stand(offsets.spread().text)
        if not self.full:
            self._look_up_standing()
            emitter.line("br label %choose")
            return
        first = emitter.effect(f"extractelement <32 x i32> {offsets.spread().text}, i64 0")
        same = own(offsets == LlvmValue(emitter, U32, first, False))
        bits = registers.mask_bits(same).text
        together = emitter.effect(f"icmp eq i32 {bits}, -1")
        name = together[1:]
        emitter.line(f"br i1 {together}, label %together_{name}, label %scattered_{name}")
        emitter.label(f"scattered_{name}", follows=True)
        self.apart()
        emitter.label(f"together_{name}", follows=True)
        stay = self.is_spent()
        self.leave(first, state.RUN)
        emitter.label(stay, follows=True)
        starts = cases(self.program.blocks)
        emitter.line(f"switch i32 {first}, label %unknown_{name} [ {starts} ]")
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
