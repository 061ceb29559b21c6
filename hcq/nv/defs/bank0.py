"""Constant bank 0: what the driver tells every kernel, and where its parameters begin.

Source: measured by compiling kernels with nvJitLink 13.5 and reading the machine
code; Mesa nak and public cubins agree where they say anything. Offsets are bytes;
None where a chip family has no such slot or reads a special register instead.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Bank0:
    """Offsets of one chip family."""

    block: int  # three words: threads of a block on each axis
    grid: int  # three words: blocks on each axis
    shared_window: int | None  # u64
    local_window: int  # u64
    stack_pointer: int  # word: initial R1
    dynamic_shared: int  # word: bytes
    grid_id: int  # u64
    reserved_shared: int  # word: bytes the system keeps of shared memory
    reserved_shared_end: int
    memory_descriptor: int  # u64: generic descriptor of LDG and STG
    parameters: int


AMPERE = Bank0(
    block=0x00, grid=0x0C, shared_window=0x18, local_window=0x20, stack_pointer=0x28,
    dynamic_shared=0x2C, grid_id=0x30, reserved_shared=0x114, reserved_shared_end=0x120,
    memory_descriptor=0x118, parameters=0x160,
)  # fmt: skip
HOPPER = Bank0(
    block=0x00, grid=0x0C, shared_window=None, local_window=0x20, stack_pointer=0x28,
    dynamic_shared=0x2C, grid_id=0x30, reserved_shared=0x114, reserved_shared_end=0x68,
    memory_descriptor=0x208, parameters=0x210,
)  # fmt: skip
BLACKWELL = Bank0(
    block=0x360, grid=0x370, shared_window=0x2F0, local_window=0x2F8, stack_pointer=0x37C,
    dynamic_shared=0x2AC, grid_id=0x140, reserved_shared=0x16C, reserved_shared_end=0x278,
    memory_descriptor=0x358, parameters=0x380,
)  # fmt: skip

STACK_POINTER = 0xFFFDC0  # initial R1; the stack grows down
# Bytes of local memory above the stack that the hardware and its trap handler keep.
STACK_RESERVED = 0x240
