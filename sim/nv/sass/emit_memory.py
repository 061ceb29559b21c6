"""Memory instructions as calls of the native library.

A call gets pointers to registers' homes, so the code around it stays small: the address
register, a base, the lanes, the data registers and the place in the code for faults.
"""

from __future__ import annotations

from sim.isa import state
from sim.isa.emitter import Emitter
from sim.isa.library_calls import Extra, LibraryCalls
from sim.isa.llvm_value import own
from sim.isa.native import FUNCTION_AT
from sim.isa.native_atomic import atomic_function
from sim.isa.value import BOOL, I8, I16, I32, U8, U16, U32, U64, Value, where
from sim.nv.sass import frame
from sim.nv.sass.access import NANS, Access, is_indexed
from sim.nv.sass.emit_registers import EmitRegisters
from sim.nv.sass.instruction import TRUE_PREDICATE, ZERO_REGISTER, Instruction, Operand
from sim.nv.sass.memory_ops import AtomicOp, MemoryOp, atomic_of, describe

KINDS = {"global": "global", "generic": "flat", "shared": "lds", "local": "scratch"}


class MemoryEmitter(LibraryCalls):
    """Writes the memory instructions of one block.

    Slots of staging: 0 address, 2 results, 3 loads, 4 data.
    """

    slot_bytes = 128
    first_slot = 2

    def __init__(self, emitter: Emitter, registers: EmitRegisters, extra: Extra) -> None:
        super().__init__(emitter, extra)
        self.registers = registers

    def emit(self, instruction: Instruction) -> None:
        """One instruction of memory_ops; SimFault names what cannot be done."""
        access = Access(instruction, self.registers)
        operation = describe(instruction)
        if operation.space == "constant":
            self._constant(access, operation)
            return
        {
            "load": self._load, "store": self._store, "atomic": self._atomic,
            "matrix": self._matrix, "copy": self._copy, "query": self._query,
        }[operation.action](access, operation)  # fmt: skip

    # --- loads and stores

    def _load(self, x: Access, operation: MemoryOp) -> None:
        target = x.results[0]
        place = self._address(x, x.data[0], operation.space)
        bits = self.registers.allowed_bits(x.guard)
        name = f"{place[0]}_load_{operation.bits}"
        self._load_to(x, operation, target, (name, *place[1:]), bits)
        for at in range(len(x.flag_results)):
            x.write_flag(at, x.number(BOOL, 1))

    def _load_to(
        self, x: Access, operation: MemoryOp, target: Operand, place: tuple[str, str, str],
        bits: str,
    ) -> None:  # fmt: skip
        if target.index == ZERO_REGISTER or operation.bits < 32:
            self._move(x, place, bits, self.staging(3))
            if target.index != ZERO_REGISTER:
                x.write_word(target, 0, self._extended(operation))
            return
        keys = [target.index + part for part in range(operation.count)]
        self.registers.overwrite(keys, whole=bits == "-1")
        self._move(x, place, bits, self.registers.home(keys[0]))

    def _extended(self, operation: MemoryOp) -> Value:
        """8 or 16 bits from staging."""
        raw: Value = self.read_staging(3)
        if not operation.signed:
            return raw
        narrow = raw.to(U8).bits(I8) if operation.bits == 8 else raw.to(U16).bits(I16)
        return narrow.to(I32).bits(U32)

    def _store(self, x: Access, operation: MemoryOp) -> None:
        place = self._address(x, x.data[0], operation.space)
        pointer = self._data(x, x.data[1], operation.count, 4)
        name = f"{place[0]}_store_{operation.bits}"
        self._move(x, (name, *place[1:]), self.registers.allowed_bits(x.guard), pointer)

    def _data(self, x: Access, operand: Operand, count: int, slot: int) -> str:
        """A pointer to the registers that an operand names; RZ is zeros."""
        if operand.index == ZERO_REGISTER or operand.kind != "reg":
            pointers = [
                self.write_staging(slot + part, own(x.word(operand, part)))
                for part in range(count)
            ]
            return pointers[0]
        keys = [operand.index + part for part in range(count)]
        self.registers.expose(keys)
        return self.registers.home(keys[0])

    # --- addresses

    def _address(self, x: Access, operand: Operand, space: str) -> tuple[str, str, str]:
        """(address kind, pointer to the address register, i64 base)."""
        base = str(operand.value)
        if operand.ubase is not None:
            base = self._add(self._wide(x, operand.ubase), base)
        if operand.base is None:
            raise x.refuse("without an address register")
        kind = KINDS[space]
        if space == "local":
            return self._local(operand, base)
        is_short = space == "generic" and not operand.wide
        if operand.base.index == ZERO_REGISTER or operand.scale != 1 or is_short:
            value = own(x.word(operand.base) * operand.scale)
            if space == "generic":
                self.write_staging(1, own(x.number(U32, 0)))
                return kind, self.write_staging(0, value), base
            return ("saddr" if kind == "global" else kind), self.write_staging(0, value), base
        if space == "global" and not operand.wide:
            kind = "saddr"
        keys = [operand.base.index + part for part in range(2 if operand.wide else 1)]
        self.registers.expose(keys)
        return kind, self.registers.home(keys[0]), base

    def _local(self, operand: Operand, base: str) -> tuple[str, str, str]:
        if operand.base is None or operand.base.index == ZERO_REGISTER:
            return "scratch", "null", base
        self.registers.expose([operand.base.index])
        return "scratch", self.registers.home(operand.base.index), base

    def _wide(self, x: Access, operand: Operand) -> str:
        """A uniform register, or a pair of them, as i64."""
        low = own(x.word(operand))
        wide: Value = low.to(U64)
        if operand.count == 2:
            wide = wide | (x.word(operand, 1).to(U64) << 32)
        return own(wide).text

    def _add(self, a: str, b: str) -> str:
        return a if b == "0" else self.emitter.pure(f"add i64 {a}, {b}")

    # --- constant banks

    def _constant(self, x: Access, operation: MemoryOp) -> None:
        source = x.data[0]
        if not is_indexed(source):
            self._fixed_constant(x, operation, source)
            return
        place = self.emitter.pure(
            f"getelementptr i8, ptr {self.registers.banks()}, i64 {24 * source.bank}"
        )
        bank = self.emitter.pure(f"load i64, ptr {place}, align 8, !invariant.load !0")
        base = self._add(bank, str(source.value))
        if source.base is not None and source.base.index != ZERO_REGISTER:
            self.registers.expose([source.base.index])
            pointer = self.registers.home(source.base.index)
        else:
            pointer = self.write_staging(0, own(x.word(source.ubase or source)))
        bits = self.registers.allowed_bits(x.guard)
        target = x.results[0]
        if target.kind != "ureg":
            name = f"saddr_load_{operation.bits}"
            self._load_to(x, operation, target, (name, pointer, base), bits)
            return
        for part in range(operation.count):
            at = self._add(base, str(4 * part))
            size = min(operation.bits, 32)
            self._move(x, (f"saddr_load_{size}", pointer, at), bits, self.staging(3))
            value = self._extended(operation) if size < 32 else self.read_staging(3)
            x.write_word(target, part, self.registers.one(value))

    def _fixed_constant(self, x: Access, operation: MemoryOp, source: Operand) -> None:
        for part in range(operation.count):
            offset = source.value + 4 * part
            word = self.registers.constant_word(source.bank, offset & ~3)
            value: Value = word
            if operation.bits < 32:
                up = word << (32 - operation.bits - 8 * (offset & 3))
                down = 32 - operation.bits
                value = (up.bits(I32) >> down).bits(U32) if operation.signed else up >> down
            x.write_word(x.results[0], part, value)

    # --- atomics

    def _atomic(self, x: Access, operation: MemoryOp) -> None:
        atomic = atomic_of(x.instruction)
        words = atomic.bits // 32
        kind, register, base = self._address(x, x.data[0], operation.space)
        if len(x.data) > 1:
            first = self._data(x, x.data[1], words, 4)
        else:
            first = self.write_staging(4, own(x.number(U32, 1)))  # ATOMS.POPC.INC counts lanes
        second = self._data(x, x.data[2], words, 6) if atomic.second else first
        bits = self.registers.allowed_bits(x.guard)
        emitter = self.emitter
        function = self.function(f"{kind}_address")
        lanes = emitter.effect(
            f"call i32 {function}(ptr %t, ptr {register}, i64 {base}, i32 {bits}, "
            f"i64 {atomic.bits // 8})"
        )
        if operation.space == "shared":
            self._strict(x, lanes, bits)
        self._call_atomic(x, atomic, lanes, (first, second))
        if not atomic.cast:
            for at in range(len(x.flag_results)):
                x.write_flag(at, x.number(BOOL, 1))

    def _call_atomic(
        self, x: Access, atomic: AtomicOp, lanes: str, data: tuple[str, str]
    ) -> None:
        emitter, registers = self.emitter, self.registers
        compare = None
        if atomic.cast:
            compare = self._typed(x, x.data[1], atomic.bits)
        name, text = atomic_function(
            atomic, emitter.width, atomic.second, emitter.declarations, NANS
        )
        self.extra(name, text)
        kept = atomic.cast or (bool(x.results) and x.results[0].index != ZERO_REGISTER)
        result = self.staging(2) if kept else "null"
        emitter.line(
            f"call void @{name}(ptr %t, i32 {lanes}, ptr {data[0]}, ptr {data[1]}, "
            f"ptr {result}, i32 {_pc(x.instruction)})"
        )
        registers.forget_vectors()
        if not kept:
            return
        before = [self.read_staging(2 + part) for part in range(atomic.bits // 32)]
        if compare is None:
            for part, word in enumerate(before):
                x.write_word(x.results[0], part, word)
            return
        old: Value = before[0]
        if atomic.bits == 64:
            old = old.to(U64) | (before[1].to(U64) << 32)
        won = old == compare
        if not x.results:
            x.write_flag(0, won)
            return
        for part in range(atomic.bits // 32):
            x.write_word(x.results[0], part, won.to(U32) if not part else x.number(U32, 0))

    def _typed(self, x: Access, operand: Operand, bits: int) -> Value:
        low = x.word(operand)
        return low if bits == 32 else low.to(U64) | (x.word(operand, 1).to(U64) << 32)

    def _strict(self, x: Access, lanes: str, bits: str) -> None:
        """Lanes outside shared memory are a fault at their offset."""
        emitter = self.emitter
        outside = emitter.effect(f"xor i32 {lanes}, {bits}")
        fine = emitter.effect(f"icmp eq i32 {outside}, 0")
        name = fine[1:]
        emitter.line(f"br i1 {fine}, label %in_{name}, label %out_{name}")
        emitter.label(f"out_{name}", follows=True)
        emitter.declarations.add("declare i32 @llvm.cttz.i32(i32, i1)")
        which = emitter.effect(f"call i32 @llvm.cttz.i32(i32 {outside}, i1 true)")
        row = emitter.effect(f"getelementptr i8, ptr %t, i64 {state.ADDRESSES}")
        place = emitter.effect(f"getelementptr i64, ptr {row}, i32 {which}")
        address = emitter.effect(f"load i64, ptr {place}")
        start_at = emitter.effect(f"getelementptr i8, ptr %t, i64 {state.LDS}")
        start = emitter.effect(f"load i64, ptr {start_at}")
        offset = emitter.effect(f"sub i64 {address}, {start}")
        self.fault(x.instruction, state.FAULT_LDS, offset, state.WRITE)
        emitter.line(f"br label %in_{name}")
        emitter.label(f"in_{name}", follows=True)

    def fault(self, instruction: Instruction, kind: int, address: str, access: int) -> None:
        """Note a fault; the warp goes on to its next look."""
        emitter = self.emitter
        place = emitter.effect(f"getelementptr i8, ptr %t, i64 {FUNCTION_AT['FAULT']}")
        function = emitter.effect(f"load ptr, ptr {place}")
        emitter.line(
            f"call void {function}(ptr %t, i64 {kind}, i64 {address}, i64 {access}, "
            f"i32 {_pc(instruction)})"
        )

    # --- matrices, copies, address spaces

    def _matrix(self, x: Access, operation: MemoryOp) -> None:
        """8x8 matrices of halves: lane l's address is that of row l % 8 of matrix l / 8."""
        loads = x.instruction.name == "LDSM"
        count = next((int(m) for m in x.instruction.modifiers if m in ("2", "4")), 1)
        memory = x.data[0]
        if memory.base is None:
            raise x.refuse("without an address register")
        rows = x.word(memory.base)
        _, _, base = self._address(x, memory, "shared")
        bits = self.registers.allowed_bits(x.guard)
        transposed = x.has("MT88")
        lanes = range(32)
        for number in range(count):
            pieces = [0] if not transposed else [0, 1]
            total = None
            data = None if loads else x.word(x.data[1], number)
            for piece in pieces:
                if transposed:
                    row = [8 * number + 2 * (lane % 4) + piece for lane in lanes]
                    address = rows.take(row) + ((self._lane(x) >> 2) << 1)
                else:
                    address = rows.take([8 * number + lane // 4 for lane in lanes])
                    address = address + ((self._lane(x) & 3) << 2)
                size = 16 if transposed else 32
                place = (f"lds_{'load' if loads else 'store'}_{size}",
                         self.write_staging(0, own(address)), base)  # fmt: skip
                if data is not None:
                    self._move(x, place, bits, self.write_staging(4, own(data >> 16 * piece)))
                    continue
                self._move(x, place, bits, self.staging(3))
                one = self.read_staging(3) << 16 * piece if piece else self.read_staging(3)
                total = one if total is None else total | one
            if total is not None:
                x.write_word(x.results[0], number, total)

    def _lane(self, x: Access) -> Value:
        return x.number(U32, 0).lane_id()

    def _copy(self, x: Access, operation: MemoryOp) -> None:
        """Global to shared memory. It is done at once; waiting for it has nothing to do."""
        everyone = x.guard
        chosen = everyone
        if x.flags and not (x.flags[0].index == TRUE_PREDICATE and not x.flags[0].inv):
            chosen = x.flag(0) if everyone is None else everyone & x.flag(0)
        kind, register, base = self._address(x, x.data[1], "global")
        to = self._address(x, x.data[0], "shared")
        if not x.has("ZFILL"):
            bits = self.registers.allowed_bits(chosen)
            place = (f"{kind}_load_{operation.bits}", register, base)
            self._move(x, place, bits, self.staging(4))
            place = (f"{to[0]}_store_{operation.bits}", *to[1:])
            self._move(x, place, bits, self.staging(4))
            return
        self._filled_copy(x, operation, base, (chosen, everyone))

    def _filled_copy(
        self, x: Access, operation: MemoryOp, base: str, lanes: tuple[Value | None, Value | None]
    ) -> None:
        """As many bytes at the end as the address says in its low bits are zeros."""
        memory = x.data[1]
        if memory.base is None or memory.base.index == ZERO_REGISTER:
            raise x.refuse("without an address register")
        size = operation.bits // 8
        low = x.word(memory.base)
        kept = size - (low & (size - 1))
        for part in range(operation.count):
            self.write_staging(4 + part, own(x.number(U32, 0)))
        register = self.write_staging(0, own(low & ~(size - 1)))
        self.write_staging(1, own(x.word(memory.base, 1) if memory.wide else x.number(U32, 0)))
        place = (f"global_load_{operation.bits}", register, base)
        self._move(x, place, self.registers.allowed_bits(lanes[0]), self.staging(4))
        for part in range(operation.count):
            word = self.read_staging(4 + part)
            self.write_staging(4 + part, own(word & kept_bytes(kept, part)))
        kind, register, base = self._address(x, x.data[0], "shared")
        place = (f"{kind}_store_{operation.bits}", register, base)
        self._move(x, place, self.registers.allowed_bits(lanes[1]), self.staging(4))

    def _query(self, x: Access, _: MemoryOp) -> None:
        """Whether a generic address lies in a space."""
        memory = x.data[0]
        if memory.base is None or memory.value or not memory.wide:
            raise x.refuse("with such an address")
        high = x.word(memory.base, 1)
        shared = high == self.registers.thread_field(state.SHARED_APERTURE).to(U32)
        local = high == self.registers.thread_field(state.PRIVATE_APERTURE).to(U32)
        spaces = {"S": shared, "L": local, "G": ~(shared | local)}
        name = x.instruction.modifiers[-1]
        if name not in spaces:
            raise x.refuse("of that space")
        x.write_flag(0, spaces[name])
        x.write(where(spaces[name], x.number(U32, 1), 0))

    # --- calls

    def _move(self, x: Access, place: tuple[str, str, str], bits: str, data: str) -> None:
        """Call a load or store (name, address register, base) for the lanes `bits`."""
        name, register, base = place
        pointer = self.function(name)
        self.emitter.line(
            f"call void {pointer}(ptr %t, ptr {register}, i64 {base}, i32 {bits}, ptr {data}, "
            f"i32 {_pc(x.instruction)})"
        )
        self.registers.forget_vectors()


def kept_bytes(kept: Value, part: int) -> Value:
    """The mask of a word of which the first `kept` bytes, counted from word 0, stay."""
    over = kept.bits(I32) - 4 * part
    some = (kept.constant(U32, 1) << ((over.bits(U32) & 3) << 3)) - 1
    some = where(over > 3, 0xFFFF_FFFF, some)
    return where(over > 0, some, 0)


def _pc(instruction: Instruction) -> int:
    return frame.fault_place(instruction.address)
