"""Memory instructions as calls of the native library: loads, stores, matrices and copies."""

from __future__ import annotations

from sim.isa import state
from sim.isa.llvm_value import own
from sim.isa.value import BOOL, I8, I16, I32, U8, U16, U32, U64, Value, where
from sim.nv.sass.access import Access, fixed_offset, is_indexed
from sim.nv.sass.emit_atomic import AtomicEmitter
from sim.nv.sass.instruction import TRUE_PREDICATE, ZERO_REGISTER, Instruction, Operand
from sim.nv.sass.memory_ops import MemoryOp, describe, whole_address


class MemoryEmitter(AtomicEmitter):
    """Writes the memory instructions of one block."""

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
            offset = fixed_offset(source) + 4 * part
            word = self.registers.constant_word(source.bank, offset & ~3)
            value: Value = word
            if operation.bits < 32:
                up = word << (32 - operation.bits - 8 * (offset & 3))
                down = 32 - operation.bits
                value = (up.bits(I32) >> down).bits(U32) if operation.signed else up >> down
            x.write_word(x.results[0], part, value)

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
        """Global to shared memory, zeros where the predicate does not hold.

        It is done at once; waiting for it has nothing to do.
        """
        chosen = x.guard
        if x.flags[0].index != TRUE_PREDICATE or x.flags[0].inv:
            chosen = x.flag(0) if chosen is None else chosen & x.flag(0)
        for part in range(operation.count):
            self.write_staging(4 + part, own(x.number(U32, 0)))
        if x.has("ZFILL"):
            self._filled_load(x, operation, self.registers.allowed_bits(chosen))
        else:
            kind, register, base = self._address(x, x.data[1], "global")
            place = (f"{kind}_load_{operation.bits}", register, base)
            self._move(x, place, self.registers.allowed_bits(chosen), self.staging(4))
        kind, register, base = self._address(x, x.data[0], "shared")
        place = (f"{kind}_store_{operation.bits}", register, base)
        self._move(x, place, self.registers.allowed_bits(x.guard), self.staging(4))

    def _filled_load(self, x: Access, operation: MemoryOp, bits: str) -> None:
        """As many bytes at the end as the address says in its low bits are zeros."""
        memory = x.data[1]
        _, _, base = self._address(x, memory, "global")
        if memory.base is None:
            raise x.refuse("without an address register")
        size = operation.bits // 8
        whole: Value = x.word(memory.base).to(U64)
        if memory.wide and memory.base.index != ZERO_REGISTER:
            whole = whole | (x.word(memory.base, 1).to(U64) << 32)
        low = x.word(memory.base) + memory.value
        if memory.ubase is not None:
            low = low + x.word(memory.ubase)
        rest = low & (size - 1)
        first = whole - rest.to(U64)
        register = self.write_staging(0, own(first.to(U32)))
        self.write_staging(1, own((first >> 32).to(U32)))
        place = (f"global_load_{operation.bits}", register, base)
        self._move(x, place, bits, self.staging(4))
        for part in range(operation.count):
            word = self.read_staging(4 + part)
            self.write_staging(4 + part, own(word & kept_bytes(size - rest, part)))

    def _query(self, x: Access, _: MemoryOp) -> None:
        """Whether a generic address lies in a space."""
        high = (whole_address(x, x.data[0]) >> 32).to(U32)
        shared = high == self.registers.thread_field(state.SHARED_APERTURE).to(U32)
        local = high == self.registers.thread_field(state.PRIVATE_APERTURE).to(U32)
        spaces = {"S": shared, "L": local, "G": ~(shared | local)}
        name = x.instruction.modifiers[-1]
        if name not in spaces:
            raise x.refuse("of that space")
        x.write_flag(0, spaces[name])
        x.write(where(spaces[name], x.number(U32, 1), 0))


def kept_bytes(kept: Value, part: int) -> Value:
    """The mask of a word of which the first `kept` bytes, counted from word 0, stay."""
    over = kept.bits(I32) - 4 * part
    some = (kept.constant(U32, 1) << ((over.bits(U32) & 3) << 3)) - 1
    some = where(over > 3, 0xFFFF_FFFF, some)
    return where(over > 0, some, 0)
