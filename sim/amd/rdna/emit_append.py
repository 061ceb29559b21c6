"""DS_APPEND and DS_CONSUME in translated code: one atomic of the lowest active lane.

Every active lane gets what the counter held before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.amd.rdna.instruction import Instruction
from sim.amd.rdna.memory_ops import MemoryOp
from sim.isa.llvm_value import own
from sim.isa.native_atomic import atomic_function
from sim.isa.value import U32

if TYPE_CHECKING:
    from sim.amd.rdna.emit_memory import MemoryEmitter

DATA, ADDRESS, RESULT = 1, 2, 3  # staging slots


def emit_append(memory: MemoryEmitter, instruction: Instruction, operation: MemoryOp) -> None:
    """Count the active lanes up or down in LDS, at M0 plus the offset."""
    registers, emitter, mask = memory.registers, memory.emitter, f"i{memory.width}"
    live = registers.exec_mask()
    bits = live.ballot()
    count = bits.popcount().to(U32)
    data = memory.write_staging(DATA, own(count))
    at = memory.write_staging(ADDRESS, own(registers.read("m0", 0) & 0xFFFF))
    result = memory.write_staging(RESULT, registers.constant(U32, 0))
    lowest = own(bits & -bits)
    address = memory.function("lds_address")
    lanes = emitter.effect(
        f"call {mask} {address}(ptr %t, ptr {at}, i64 {instruction.offset}, "
        f"{mask} {lowest.text}, i64 4)"
    )
    name, text = atomic_function(operation, memory.width, False, emitter.declarations)
    memory.extra(name, text)
    pc = instruction.address & 0xFFFF_FFFF
    emitter.line(
        f"call void @{name}(ptr %t, {mask} {lanes}, ptr {data}, ptr {data}, ptr {result}, i32 {pc})"
    )
    registers.forget_vectors()
    first = bits.trailing_zeros().to(U32)
    old = memory.read_staging(RESULT).lane(first)
    registers.write("vgpr", instruction.destinations[0].index, old, live)
