"""Memory instructions as calls of the native library.

A call gets pointers to registers' homes, so the code around it stays small: the
address register, a scalar base, the active lanes, the data registers and the
place in the code for faults.
"""

from __future__ import annotations

from hcq.errors import SimFault
from sim.amd.rdna.cfg import scalar_codes
from sim.amd.rdna.emit_append import emit_append
from sim.amd.rdna.emit_buffer import BUFFER_EMITTERS
from sim.amd.rdna.emit_registers import FIRST_VGPR, EmitRegisters
from sim.amd.rdna.instruction import Instruction, Operand
from sim.amd.rdna.memory_ops import OPERATIONS, MemoryOp
from sim.isa.emitter import Emitter
from sim.isa.library_calls import Extra, LibraryCalls
from sim.isa.llvm_value import own
from sim.isa.native_atomic import atomic_function
from sim.isa.value import I8, I16, U8, U16, U32, Value


class MemoryEmitter(LibraryCalls):
    """Writes the memory instructions of one block."""

    slot_bytes = 256

    def __init__(self, emitter: Emitter, registers: EmitRegisters, extra: Extra) -> None:
        super().__init__(emitter, extra)
        self.registers = registers

    def emit(self, instruction: Instruction) -> None:
        """One instruction of memory_ops; SimFault names what cannot be done."""
        operation = OPERATIONS[instruction.name]
        if operation.space == "scalar":
            self._scalar_load(instruction)
        elif operation.space in BUFFER_EMITTERS:
            BUFFER_EMITTERS[operation.space](self, instruction, operation)
        elif operation.action == "append":
            emit_append(self, instruction, operation)
        elif operation.action == "atomic":
            self._atomic(instruction, operation)
        elif operation.two_addresses:
            self._two_addresses(instruction, operation)
        elif operation.action == "load":
            self._load(instruction, operation, instruction.destinations[0].index)
        else:
            data = self._data_operands(instruction, operation)[0]
            self._store(instruction, operation, data)

    # --- the kinds

    def _scalar_load(self, instruction: Instruction) -> None:
        base, offset = instruction.sources[0], instruction.sources[1]
        address = self._add(self._pair(base), str(instruction.offset))
        if offset.kind != "null":
            address = self._add(address, self._wide(offset))
        destination = instruction.destinations[0]
        codes = scalar_codes(destination)
        if not codes:
            raise SimFault(f"{instruction.name} to {destination.kind} is not simulated")
        self.registers.overwrite(codes, whole=True)
        self._forget_full(codes)
        self._call(
            f"scalar_load_{len(codes)}", f"i64 {address}",
            f"ptr {self.registers.home(codes[0])}", f"i32 {_pc(instruction)}",
        )  # fmt: skip

    def _load(self, instruction: Instruction, operation: MemoryOp, first: int) -> None:
        kind, register, base = self._address(instruction, operation)
        name = f"{kind}_load_{operation.bits}"
        if operation.bits < 32:
            data = self.staging(1)
            self._move(name, instruction, register, base, data)
            self.narrow_result(operation, first)
            return
        keys = [FIRST_VGPR + first + part for part in range(operation.count)]
        self.registers.overwrite(keys, whole=self.registers.is_full)
        self._move(name, instruction, register, base, self.registers.home(keys[0]))

    def narrow_result(self, operation: MemoryOp, first: int) -> None:
        """8 or 16 bits from staging, extended, into a register or half of one."""
        raw: Value = self.read_staging(1)
        if operation.extend == "sign":
            raw = raw.to(U8 if operation.bits == 8 else U16)
            raw = raw.bits(I8 if operation.bits == 8 else I16)
            raw = raw.to(I16 if operation.half else U32.__class__("i", 32))
            raw = raw.bits(U16).to(U32) if operation.half else raw.bits(U32)
        if operation.half:
            old = self.registers.read("vgpr", first)
            raw = (old & 0xFFFF) | (raw << 16) if operation.half == "hi" else (
                (old & 0xFFFF_0000) | raw
            )
        self.registers.write("vgpr", first, raw, self.registers.exec_mask())

    def _store(self, instruction: Instruction, operation: MemoryOp, data: Operand) -> None:
        kind, register, base = self._address(instruction, operation)
        if operation.half == "hi":
            value = self.registers.read("vgpr", data.index) >> 16
            pointer = self.write_staging(1, own(value))
        else:
            keys = [FIRST_VGPR + data.index + part for part in range(operation.count)]
            self.registers.expose(keys)
            pointer = self.registers.home(keys[0])
        self._move(f"{kind}_store_{operation.bits}", instruction, register, base, pointer)

    def _two_addresses(self, instruction: Instruction, operation: MemoryOp) -> None:
        unit = operation.bits // 8 * (64 if operation.stride64 else 1)
        offsets = [instruction.offset * unit, instruction.offset1 * unit]
        address = instruction.sources[0].index
        if operation.action == "store":
            data = self._data_operands(instruction, operation)
            register = self._address_register(address, 1)
            for offset, operand in zip(offsets, data, strict=True):
                keys = [FIRST_VGPR + operand.index + part for part in range(operation.count)]
                self.registers.expose(keys)
                self._move(f"lds_store_{operation.bits}", instruction, register, str(offset),
                           self.registers.home(keys[0]))
            return
        # The first element may overwrite the address.
        register = self.write_staging(2, self.registers.read("vgpr", address))
        first = instruction.destinations[0].index
        for offset in offsets:
            keys = [FIRST_VGPR + first + part for part in range(operation.count)]
            self.registers.overwrite(keys, whole=self.registers.is_full)
            self._move(f"lds_load_{operation.bits}", instruction, register, str(offset),
                       self.registers.home(keys[0]))
            first += operation.count

    def _atomic(self, instruction: Instruction, operation: MemoryOp) -> None:
        data = self._data_operands(instruction, operation)
        place = self._address(instruction, operation)
        self.atomic(instruction, operation, data, place, self.registers.exec_bits())

    def atomic(
        self,
        instruction: Instruction,
        operation: MemoryOp,
        data: tuple[Operand, ...],
        place: tuple[str, str, str],
        bits: str,
    ) -> None:
        """An atomic at a place (address kind, address register, base) for the lanes `bits`."""
        kind, register, base = place
        emitter, registers = self.emitter, self.registers
        words = operation.bits // 32
        first = data[0].index
        second = data[1].index if len(data) > 1 else first + words
        count = words if data[0].count == words and len(data) == 1 else 2 * words
        keys = [FIRST_VGPR + first + part for part in range(words)]
        if count > words:
            keys += [FIRST_VGPR + second + part for part in range(words)]
        registers.expose(keys)
        mask = f"i{self.width}"
        address = self.function(f"{kind}_address")
        lanes = emitter.effect(
            f"call {mask} {address}(ptr %t, ptr {register}, i64 {base}, "
            f"{mask} {bits}, i64 {operation.bits // 8})"
        )
        result = "null"
        if instruction.destinations:
            target = instruction.destinations[0].index
            result_keys = [FIRST_VGPR + target + part for part in range(words)]
            pointers = [registers.home(FIRST_VGPR + first), registers.home(FIRST_VGPR + second)]
            registers.overwrite(result_keys, whole=False)
            result = registers.home(result_keys[0])
        else:
            pointers = [registers.home(FIRST_VGPR + first), registers.home(FIRST_VGPR + second)]
        name, text = atomic_function(
            operation, self.width, count > words, emitter.declarations
        )
        self.extra(name, text)
        emitter.line(
            f"call void @{name}(ptr %t, {mask} {lanes}, ptr {pointers[0]}, ptr {pointers[1]}, "
            f"ptr {result}, i32 {_pc(instruction)})"
        )
        registers.forget_vectors()

    # --- addresses

    def _address(self, instruction: Instruction, operation: MemoryOp) -> tuple[str, str, str]:
        """(address kind, pointer to the address register or "null", i64 base)."""
        offset = str(instruction.offset)
        if operation.add_thread_id:
            return self._thread_address(instruction, operation)
        at = instruction.sources[0]
        if operation.space == "lds":
            return "lds", self._address_register(at.index, 1), offset
        if operation.space == "flat":
            return "flat", self._address_register(at.index, 2), offset
        scalar = instruction.sources[-1]
        if operation.space == "scratch":
            register = "null"
            if at.kind == "vgpr":
                register = self._address_register(at.index, 1)
            if scalar.kind != "null":
                offset = self._add(self._wide(scalar), offset)
            return "scratch", register, offset
        if scalar.kind == "null":
            return "global", self._address_register(at.index, 2), offset
        base = self._add(self._pair(scalar), offset)
        return "saddr", self._address_register(at.index, 1), base

    def _thread_address(
        self, instruction: Instruction, operation: MemoryOp
    ) -> tuple[str, str, str]:
        registers = self.registers
        lanes: Value = registers.exec_mask().lane_id() << 2
        offset = str(instruction.offset)
        if operation.space == "global":
            base = self._add(self._pair(instruction.sources[-1]), offset)
            return "saddr", self.write_staging(2, own(lanes)), base
        address = (registers.read("m0", 0) & 0xFFFF) + lanes
        return "lds", self.write_staging(2, own(address)), offset

    def _address_register(self, index: int, count: int) -> str:
        keys = [FIRST_VGPR + index + part for part in range(count)]
        self.registers.expose(keys)
        return self.registers.home(keys[0])

    @staticmethod
    def _data_operands(instruction: Instruction, operation: MemoryOp) -> tuple[Operand, ...]:
        """The registers whose contents go to memory."""
        sources = instruction.sources
        if operation.add_thread_id:
            return sources[:1]
        end = len(sources) - 1 if operation.space in ("global", "scratch") else len(sources)
        return sources[1:end]

    # --- calls

    def _move(
        self, name: str, instruction: Instruction, register: str, base: str, data: str
    ) -> None:
        place = (name, register, base)
        self.move(instruction, place, self.registers.exec_bits(), data)

    def move(
        self, instruction: Instruction, place: tuple[str, str, str], bits: str, data: str
    ) -> None:
        """Call a load or store (name, address register, base) for the lanes `bits`."""
        name, register, base = place
        self._call(
            name, f"ptr {register}", f"i64 {base}", f"i{self.width} {bits}", f"ptr {data}",
            f"i32 {_pc(instruction)}",
        )  # fmt: skip

    def _call(self, name: str, *arguments: str) -> None:
        pointer = self.function(name)
        self.emitter.line(f"call void {pointer}(ptr %t, {', '.join(arguments)})")
        self.registers.forget_vectors()

    def _pair(self, operand: Operand) -> str:
        if operand.kind == "null":
            return "0"
        words = [self.registers.read(operand.kind, operand.index + part) for part in (0, 1)]
        return self.registers.pair(words[0].text, words[1].text)

    def _wide(self, operand: Operand) -> str:
        """A scalar of 32 bits as i64, zero-extended."""
        if operand.kind in ("int", "literal"):
            return str(operand.value & 0xFFFF_FFFF)
        word = self.registers.read(operand.kind, operand.index)
        return self.emitter.pure(f"zext i32 {word.text} to i64")

    def _add(self, a: str, b: str) -> str:
        if b == "0":
            return a
        return self.emitter.pure(f"add i64 {a}, {b}")

    def _forget_full(self, codes: list[int]) -> None:
        self.registers.full.difference_update(codes)


def _pc(instruction: Instruction) -> int:
    return instruction.address & 0xFFFF_FFFF
