"""Calls of the native library from translated code: functions, and room to hand registers over."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from hcq.errors import SimFault
from sim.isa import state
from sim.isa.emitter import Emitter
from sim.isa.llvm_value import LlvmValue
from sim.isa.native import FUNCTION_AT
from sim.isa.value import U32

Extra = Callable[[str, str], None]  # adds a function to the module: (name, text)


class LibraryCalls:
    """Base of what writes the memory instructions of a block."""

    slot_bytes: ClassVar[int]  # of a register's room
    first_slot: ClassVar[int] = 0

    def __init__(self, emitter: Emitter, extra: Extra) -> None:
        self.emitter = emitter
        self.extra = extra
        self.width = emitter.width

    def function(self, name: str) -> str:
        """A pointer to a function of the native library."""
        if name not in FUNCTION_AT:
            raise SimFault(f"a memory access of the form {name} is not simulated")
        place = self.emitter.pure(f"getelementptr i8, ptr %t, i64 {FUNCTION_AT[name]}")
        return self.emitter.pure(f"load ptr, ptr {place}, align 8, !invariant.load !0")

    def staging(self, slot: int) -> str:
        """A pointer to room for one register."""
        offset = state.STAGING + self.slot_bytes * (self.first_slot + slot)
        return self.emitter.pure(f"getelementptr i8, ptr %t, i64 {offset}")

    def read_staging(self, slot: int) -> LlvmValue:
        """What a call left there."""
        kind = f"<{self.width} x i32>"
        text = self.emitter.effect(f"load {kind}, ptr {self.staging(slot)}, align 64")
        return LlvmValue(self.emitter, U32, text, True)

    def write_staging(self, slot: int, value: LlvmValue) -> str:
        """Put a register there; the pointer."""
        pointer = self.staging(slot)
        spread = value.spread()
        self.emitter.line(f"store {spread.kind} {spread.text}, ptr {pointer}, align 64")
        return pointer
