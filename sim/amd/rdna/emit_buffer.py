"""Buffer instructions in translated code: addresses as values, then calls as for global memory.

buffer.py computes each lane's address and whether it is inside; lanes that are not
take no part in the call, and read 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sim.amd.rdna.buffer import buffer_places, scalar_buffer_places
from sim.amd.rdna.instruction import Instruction
from sim.amd.rdna.memory_ops import MemoryOp
from sim.isa import state
from sim.isa.llvm_value import LlvmValue, own
from sim.isa.value import U32, Value

if TYPE_CHECKING:
    from sim.amd.rdna.emit_memory import MemoryEmitter

DATA, ADDRESS = 1, 2  # staging slots; an address takes two in waves of 64


def emit_buffer(memory: MemoryEmitter, instruction: Instruction, operation: MemoryOp) -> None:
    """A vector load, store or atomic."""
    places = buffer_places(instruction, operation, memory.registers)
    {"load": _load, "store": _store, "atomic": _atomic}[operation.action](
        memory, instruction, operation, places
    )


def emit_scalar_buffer(memory: MemoryEmitter, instruction: Instruction, _: MemoryOp) -> None:
    """A scalar load: dword n is fetched by lane n."""
    registers = memory.registers
    address, inside = scalar_buffer_places(instruction, registers)
    words = _fetch(memory, instruction, "global_load_32", address, inside)
    destination = instruction.destinations[0]
    if destination.kind == "null":
        return
    for part in range(destination.count):
        registers.write(destination.kind, destination.index + part, words.lane(part), None)


Places = list[tuple[Value, Value]]


def _load(
    memory: MemoryEmitter, instruction: Instruction, operation: MemoryOp, places: Places
) -> None:
    registers = memory.registers
    live = registers.exec_mask()
    first = instruction.destinations[0].index
    name = f"global_load_{min(operation.bits, 32)}"
    for part, (address, inside) in enumerate(places):
        word = _fetch(memory, instruction, name, address, inside & live)
        if operation.bits < 32:
            memory.narrow_result(operation, first)
        else:
            registers.write("vgpr", first + part, word, live)


def _store(
    memory: MemoryEmitter, instruction: Instruction, operation: MemoryOp, places: Places
) -> None:
    registers = memory.registers
    live = registers.exec_mask()
    first = instruction.sources[0].index
    name = f"global_store_{min(operation.bits, 32)}"
    for part, (address, inside) in enumerate(places):
        value: Value = registers.read("vgpr", first + part)
        if operation.half == "hi":
            value = value >> 16
        data = memory.write_staging(DATA, own(value))
        memory.move(instruction, (name, _put(memory, address), "0"), _lanes(inside & live), data)


def _atomic(
    memory: MemoryEmitter, instruction: Instruction, operation: MemoryOp, places: Places
) -> None:
    registers = memory.registers
    live = registers.exec_mask()
    ((address, inside),) = places
    data = instruction.sources[:1]
    place = ("global", _put(memory, address), "0")
    reached = _lanes(inside & live)
    for operand in instruction.destinations:
        # The data of lanes outside goes nowhere, so its register may take their result.
        for part in range(operand.count):
            zero = registers.constant(U32, 0)
            registers.write("vgpr", operand.index + part, zero, live & ~inside)
    memory.atomic(instruction, operation, data, place, reached)


def _fetch(
    memory: MemoryEmitter, instruction: Instruction, name: str, address: Value, mask: Value
) -> LlvmValue:
    """What lies at the addresses; 0 in lanes outside the mask."""
    zero = memory.registers.constant(U32, 0)
    data = memory.write_staging(DATA, zero)
    memory.move(instruction, (name, _put(memory, address), "0"), _lanes(mask), data)
    return memory.read_staging(DATA)


def _put(memory: MemoryEmitter, address: Value) -> str:
    """Addresses where a call finds them, low words before high words; the pointer."""
    pointer = memory.write_staging(ADDRESS, own(address.to(U32)))
    high = own((address >> 32).to(U32)).spread()
    place = state.STAGING + 256 * ADDRESS + 4 * memory.width
    second = memory.emitter.pure(f"getelementptr i8, ptr %t, i64 {place}")
    memory.emitter.line(f"store {high.kind} {high.text}, ptr {second}, align 64")
    return pointer


def _lanes(mask: Value) -> str:
    return own(mask.ballot()).text


BUFFER_EMITTERS: dict[str, Callable[[MemoryEmitter, Instruction, MemoryOp], None]] = {
    "buffer": emit_buffer,
    "scalar_buffer": emit_scalar_buffer,
}
