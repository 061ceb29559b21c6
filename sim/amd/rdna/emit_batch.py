"""Neighbouring loads or stores that share their address register, as one library call.

Compilers read and write several rows of memory with one address and growing
offsets. The library then looks at the address once for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from sim.amd.rdna.emit_memory import MemoryEmitter
from sim.amd.rdna.emit_registers import FIRST_VGPR
from sim.amd.rdna.instruction import Instruction, Operand

BATCHED = {"global_load_b32": "load", "global_store_b32": "store"}
SIZE = 8  # bytes of each such instruction; the library counts on it for fault addresses


def batch_at(instructions: Sequence[Instruction], at: int) -> Sequence[Instruction]:
    """The instructions from `at` on that can be one call; empty if fewer than two."""
    first = instructions[at]
    if first.name not in BATCHED:
        return ()
    end = at + 1
    while end < len(instructions) and _continues(instructions, at, end):
        end += 1
    batch = instructions[at:end]
    return () if len(batch) < 2 or _overwrites_address(batch) else batch


def emit_batch(memory: MemoryEmitter, batch: Sequence[Instruction]) -> None:
    """Write the call for a batch."""
    first, registers, emitter = batch[0], memory.registers, memory.emitter
    action = BATCHED[first.name]
    address, scalar = first.sources[0], first.sources[-1]
    registers.expose(FIRST_VGPR + address.index + part for part in range(address.count))
    keys = [FIRST_VGPR + _data(instruction).index for instruction in batch]
    if action == "load":
        registers.overwrite(keys, whole=registers.is_full)
    else:
        registers.expose(keys)
    kind, base = "global", str(first.offset)
    if scalar.kind != "null":
        low, high = (registers.read(scalar.kind, scalar.index + part).text for part in (0, 1))
        kind, base = "saddr", emitter.pure(f"add i64 {registers.pair(low, high)}, {base}")
    function = memory.function(f"many_{kind}_{action}_32")
    step = batch[1].offset - first.offset
    emitter.line(
        f"call void {function}(ptr %t, ptr {registers.home(FIRST_VGPR + address.index)}, "
        f"i64 {base}, i{memory.width} {registers.exec_bits()}, ptr {registers.home(keys[0])}, "
        f"i32 {first.address & 0xFFFF_FFFF}, i64 {step}, i64 {len(batch)})"
    )
    registers.forget_vectors()


def _continues(instructions: Sequence[Instruction], at: int, end: int) -> bool:
    """Whether instructions[end] goes on where those from `at` on stop."""
    first, last, following = instructions[at], instructions[end - 1], instructions[end]
    if following.name != first.name or following.address != last.address + SIZE:
        return False
    if (following.sources[0], following.sources[-1]) != (first.sources[0], first.sources[-1]):
        return False
    step = following.offset - last.offset
    steady = end == at + 1 or step == last.offset - instructions[end - 2].offset
    return steady and step > 0 and _data(following).index == _data(last).index + 1


def _data(instruction: Instruction) -> Operand:
    operands = instruction.destinations or instruction.sources[1:]
    return operands[0]


def _overwrites_address(batch: Sequence[Instruction]) -> bool:
    """Whether a load of the batch changes the address of those behind it."""
    if not batch[0].destinations:
        return False
    address = batch[0].sources[0]
    low = _data(batch[0]).index
    return low < address.index + address.count and address.index < low + len(batch)
