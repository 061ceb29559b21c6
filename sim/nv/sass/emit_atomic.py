"""Atomics as calls of functions made for each of them (sim.isa.native_atomic).

Vectors of floats are updated element after element, each of them whole.

Source: PTX ISA, "atom", "red" (of vectors, the accesses to single elements are atomic).
"""

from __future__ import annotations

from sim.isa import state
from sim.isa.llvm_value import own
from sim.isa.native import FUNCTION_AT
from sim.isa.native_atomic import atomic_function
from sim.isa.value import BOOL, U32, U64, Value
from sim.nv.sass.access import NANS, Access
from sim.nv.sass.emit_address import AddressEmitter, place_of
from sim.nv.sass.instruction import ZERO_REGISTER, Operand
from sim.nv.sass.memory_ops import AtomicOp, MemoryOp, atomic_of

_ROW = "<32 x i64>"


class AtomicEmitter(AddressEmitter):
    """Writes the atomics of one block."""

    def _atomic(self, x: Access, operation: MemoryOp) -> None:
        atomic = atomic_of(x.instruction)
        if len(x.data) > 1:
            first = self._data(x, x.data[1], atomic.words, 4)
        else:
            first = self.write_staging(4, own(x.number(U32, 1)))  # ATOMS.POPC.INC counts lanes
        second = self._data(x, x.data[2], atomic.words, 8) if atomic.second else first
        lanes = self._checked_lanes(x, operation, atomic)
        self._call_atomic(x, atomic, lanes, (first, second))
        if not atomic.cast:
            for at in range(len(x.flag_results)):
                x.write_flag(at, x.number(BOOL, 1))

    def _checked_lanes(self, x: Access, operation: MemoryOp, atomic: AtomicOp) -> str:
        """The lanes that take part, their addresses in the thread record; none after a fault."""
        kind, register, base = self._address(x, x.data[0], operation.space)
        bits = self.registers.allowed_bits(x.guard)
        emitter = self.emitter
        function = self.function(f"{kind}_address")
        lanes = emitter.effect(
            f"call i32 {function}(ptr %t, ptr {register}, i64 {base}, i32 {bits}, "
            f"i64 {atomic.size})"
        )
        if operation.space in ("shared", "generic"):
            self._strict(x, lanes, bits)
        name = f"aligned_{atomic.size}"
        self.extra(name, _aligned(name, atomic.size))
        emitter.declarations.add("declare i32 @llvm.cttz.i32(i32, i1)")
        return emitter.effect(
            f"call i32 @{name}(ptr %t, i32 {lanes}, i32 {place_of(x.instruction)})"
        )

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
        for part in range(atomic.parts):
            if part:
                self._advance(atomic.bits // 8)
            word = part * atomic.bits // 32
            result = self.staging(2 + word) if kept else "null"
            first, second = (self._register(pointer, word) for pointer in data)
            emitter.line(
                f"call void @{name}(ptr %t, i32 {lanes}, ptr {first}, ptr {second}, "
                f"ptr {result}, i32 {place_of(x.instruction)})"
            )
        registers.forget_vectors()
        if kept:
            self._write_result(x, atomic, compare)

    def _register(self, pointer: str, number: int) -> str:
        if not number:
            return pointer
        return self.emitter.pure(f"getelementptr i8, ptr {pointer}, i64 {128 * number}")

    def _advance(self, size: int) -> None:
        """The addresses of the next element."""
        emitter = self.emitter
        row = emitter.pure(f"getelementptr i8, ptr %t, i64 {state.ADDRESSES}")
        old = emitter.effect(f"load {_ROW}, ptr {row}, align 64")
        new = emitter.effect(f"add {_ROW} {old}, splat (i64 {size})")
        emitter.line(f"store {_ROW} {new}, ptr {row}, align 64")

    def _write_result(self, x: Access, atomic: AtomicOp, compare: Value | None) -> None:
        """What was there before, or whether it was what the swap compared with."""
        before = [self.read_staging(2 + word) for word in range(atomic.words)]
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
        for part in range(atomic.words):
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


def _aligned(name: str, size: int) -> str:
    """The lanes, or none after a fault where the address of one is no multiple of size."""
    return f"""
define internal i32 @{name}(ptr %t, i32 %lanes, i32 %pc) #0 {{
entry:
  %row = getelementptr i8, ptr %t, i64 {state.ADDRESSES}
  %all = load {_ROW}, ptr %row, align 64
  %low = and {_ROW} %all, splat (i64 {size - 1})
  %odd = icmp ne {_ROW} %low, zeroinitializer
  %bits = bitcast <32 x i1> %odd to i32
  %wrong = and i32 %bits, %lanes
  %fine = icmp eq i32 %wrong, 0
  br i1 %fine, label %good, label %bad
good:
  ret i32 %lanes
bad:
  %which = call i32 @llvm.cttz.i32(i32 %wrong, i1 true)
  %place = getelementptr i64, ptr %row, i32 %which
  %address = load i64, ptr %place
  %at = getelementptr i8, ptr %t, i64 {FUNCTION_AT["FAULT"]}
  %fault = load ptr, ptr %at
  call void %fault(ptr %t, i64 {state.FAULT_MISALIGNED}, i64 %address, i64 {state.WRITE}, i32 %pc)
  ret i32 0
}}
"""
