"""What memory instructions are emitted with: addresses, data, and calls of the native library.

A call gets pointers to registers' homes, so the code around it stays small: the address
register, a base, the lanes, the data registers and the place in the code for faults.
"""

from __future__ import annotations

from sim.isa.emitter import Emitter
from sim.isa.library_calls import Extra, LibraryCalls
from sim.isa.llvm_value import own
from sim.isa.native import FUNCTION_AT
from sim.isa.value import U32, U64, Value
from sim.nv.sass import frame
from sim.nv.sass.access import Access
from sim.nv.sass.emit_registers import EmitRegisters
from sim.nv.sass.instruction import ZERO_REGISTER, Instruction, Operand

KINDS = {"global": "global", "generic": "flat", "shared": "lds", "local": "scratch"}


class AddressEmitter(LibraryCalls):
    """Base of what writes the memory instructions of one block.

    Slots of staging: 0 and 1 address (then free), 2 results, 3 loads, 4 to 7 data, 8 to 11
    more data.
    """

    slot_bytes = 128
    first_slot = 2

    def __init__(self, emitter: Emitter, registers: EmitRegisters, extra: Extra) -> None:
        super().__init__(emitter, extra)
        self.registers = registers

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

    # --- calls

    def _move(self, x: Access, place: tuple[str, str, str], bits: str, data: str) -> None:
        """Call a load or store (name, address register, base) for the lanes `bits`."""
        name, register, base = place
        pointer = self.function(name)
        self.emitter.line(
            f"call void {pointer}(ptr %t, ptr {register}, i64 {base}, i32 {bits}, ptr {data}, "
            f"i32 {place_of(x.instruction)})"
        )
        self.registers.forget_vectors()

    def fault(self, instruction: Instruction, kind: int, address: str, access: int) -> None:
        """Note a fault; the warp goes on to its next look."""
        emitter = self.emitter
        place = emitter.effect(f"getelementptr i8, ptr %t, i64 {FUNCTION_AT['FAULT']}")
        function = emitter.effect(f"load ptr, ptr {place}")
        emitter.line(
            f"call void {function}(ptr %t, i64 {kind}, i64 {address}, i64 {access}, "
            f"i32 {place_of(instruction)})"
        )


def place_of(instruction: Instruction) -> int:
    """Where an instruction lies, as faults say it."""
    return frame.fault_place(instruction.address)
