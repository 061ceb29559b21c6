"""Where buffer instructions go: a descriptor of four scalar registers, an index and an offset.

The arithmetic is on Values, so both engines share it. An access outside the buffer reads 0
and writes nothing; wide loads and stores are checked dword by dword, atomics as a whole. The
scalar offset moves the address but takes no part in the check.

Source: AMD "RDNA3" Instruction Set Architecture, section 9.1 (buffer addressing, range checking,
descriptor fields), 8.2 (S_BUFFER_LOAD); AMD GC 11 register reference, SQ_BUF_RSRC_WORD1..3
(OOB_SELECT, SWIZZLE_ENABLE); LLVM AMDGPUUsage, "Relaxed Buffer OOB Mode".
"""

from dataclasses import dataclass

from hcq.errors import SimFault
from sim.amd.rdna.instruction import Instruction, Operand
from sim.amd.rdna.memory_ops import MemoryOp
from sim.amd.rdna.operands import read_word
from sim.amd.rdna.registers import Registers
from sim.isa.value import U32, U64, Value, lane_id, where

# OOB_SELECT: what is compared with NUM_RECORDS and the stride.
STRUCTURED_WITH_OFFSET, STRUCTURED, DISABLED, RAW = 0, 1, 2, 3


@dataclass(frozen=True)
class Descriptor:
    """The fields of a buffer descriptor, uniform U64; flags BOOL."""

    base: Value
    stride: Value  # bytes from one record to the next
    swizzle: Value  # 0: linear; n: elements of 2 << n bytes are interleaved
    records: Value  # bytes (RAW) or records
    index_stride: Value  # log2 of the records that are interleaved
    adds_lane: Value  # BOOL: the lane's number is part of the index
    check: Value  # OOB_SELECT


def read_descriptor(registers: Registers, operand: Operand) -> Descriptor:
    """The descriptor in four scalar registers."""
    words = [read_word(registers, operand, part).to(U64) for part in range(4)]
    return Descriptor(
        base=words[0] | (words[1] & 0xFFFF) << 32,
        stride=words[1] >> 16 & 0x3FFF,
        swizzle=words[1] >> 30,
        records=words[2],
        index_stride=(words[3] >> 21 & 3) + 3,
        adds_lane=(words[3] >> 23 & 1) != 0,
        check=words[3] >> 28 & 3,
    )


def buffer_places(
    instruction: Instruction, operation: MemoryOp, registers: Registers
) -> list[tuple[Value, Value]]:
    """(address, U64; whether inside, BOOL) per lane for each dword, or for the whole atomic."""
    if instruction.fields.get("tfe"):
        raise SimFault(f"{instruction.name} with tfe is not simulated")
    descriptor = read_descriptor(registers, instruction.sources[-2])
    index, offset = _index_and_offset(instruction, registers)
    lane = lane_id(registers.exec_mask()).to(U64)
    index = where(descriptor.adds_lane, index + lane, index)
    start = descriptor.base + read_word(registers, instruction.sources[-1]).to(U64)
    is_whole = operation.action == "atomic" or operation.bits <= 32
    size = operation.bits // 8 if is_whole else 4
    places = []
    for part in range(0, operation.bits // 8, size):
        at = offset + part
        place = start + _inside_buffer(descriptor, index, at)
        places.append((place, _is_inside(descriptor, index, at, size)))
    return places


def _index_and_offset(instruction: Instruction, registers: Registers) -> tuple[Value, Value]:
    """The record, and the bytes from its start; U64, so that neither wraps."""
    address = instruction.sources[-3]
    zero = registers.constant(U64, 0)
    has_index, has_offset = instruction.fields["idxen"], instruction.fields["offen"]
    index = read_word(registers, address).to(U64) if has_index else zero
    offset = read_word(registers, address, has_index).to(U64) if has_offset else zero
    return index, offset + instruction.offset


def _inside_buffer(descriptor: Descriptor, index: Value, offset: Value) -> Value:
    """Bytes from the base: records one after the other, or their elements interleaved."""
    linear = index * descriptor.stride + offset
    one = descriptor.stride.constant(U64, 1)
    element = descriptor.swizzle + 1  # log2 of bytes
    low_index = (one << descriptor.index_stride) - 1
    low_offset = (one << element) - 1
    row = (index >> descriptor.index_stride) * descriptor.stride
    row = (row + (offset & ~low_offset)) << descriptor.index_stride
    swizzled = row + ((index & low_index) << element) + (offset & low_offset)
    return where(descriptor.swizzle != 0, swizzled, linear)


def _is_inside(descriptor: Descriptor, index: Value, offset: Value, size: int) -> Value:
    """BOOL: what OOB_SELECT asks of an access of `size` bytes."""
    in_records = index < descriptor.records
    in_stride = offset + size <= descriptor.stride
    in_bytes = offset + size <= descriptor.records
    in_rows = ((index + 1) * descriptor.stride <= descriptor.records) & in_stride
    is_rows = (descriptor.swizzle != 0) & (descriptor.stride != 0)
    raw = where(is_rows, in_rows, in_bytes)
    result = where(descriptor.check == RAW, raw, descriptor.records != 0)
    result = where(descriptor.check == STRUCTURED, in_records, result)
    return where(descriptor.check == STRUCTURED_WITH_OFFSET, in_records & in_stride, result)


def scalar_buffer_places(instruction: Instruction, registers: Registers) -> tuple[Value, Value]:
    """(address, whether inside) of each dword of a scalar load, dword n in lane n."""
    base, offset = instruction.sources
    descriptor = read_descriptor(registers, base)
    start = read_word(registers, offset).to(U64) + (instruction.offset & 0xFFFF_FFFF_FFFF)
    lane = lane_id(registers.exec_mask())
    at = (start & 0xFFFF_FFFF_FFFC) + (lane << 2).to(U64)
    size = where(
        descriptor.stride == 0, descriptor.records, descriptor.records * descriptor.stride
    )
    count = instruction.destinations[0].count
    return descriptor.base + at, (at + 4 <= size) & (lane < registers.constant(U32, count))
