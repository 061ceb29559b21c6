"""The register files of one wave as translated code keeps them.

Scalars live as words in the wave record, by operand code; VGPRs behind them, a row each.
Scalar registers that hold all ones are known, so that masks vanish from straight code.
"""

from __future__ import annotations

from collections.abc import Iterable

from sim.amd.rdna.cfg import EXEC, M0, TTMP, VCC
from sim.amd.rdna.mode import KEEP_DENORMALS
from sim.amd.rdna.relative import SGPR_COUNT
from sim.isa import state
from sim.isa.emitter import Emitter
from sim.isa.llvm_value import LlvmValue, own
from sim.isa.register_homes import RegisterHomes
from sim.isa.value import BOOL, U32, U64, Value

SCC = 128  # register keys: 0..127 scalars by operand code, then SCC, VGPR n at 256 + n
FIRST_VGPR = 256
SCALAR_KINDS = {"sgpr": 0, "vcc": VCC, "ttmp": TTMP, "exec": EXEC}
ALL_ONES = "4294967295"
INDEXED = {  # registers that M0 can choose
    "vgpr": range(FIRST_VGPR, FIRST_VGPR + 256),
    "sgpr": range(SGPR_COUNT),
}


class EmitRegisters(RegisterHomes):
    """Registers of one block while it is translated. Satisfies operands.Registers."""

    def __init__(self, emitter: Emitter, full: Iterable[int]) -> None:
        super().__init__(emitter)
        self.width = emitter.width
        self.full = set(full)  # scalar registers that hold all ones
        self.denormals = KEEP_DENORMALS  # MODE.denorm
        self._row = f"<{self.width} x i32>"
        self._mask = U32 if self.width == 32 else U64

    # --- the protocol

    @property
    def scc(self) -> LlvmValue:
        """Uniform BOOL."""
        word = self._value(U32, self._scalar(SCC), lanes=False)
        return self._value(BOOL, self.emitter.pure(f"icmp ne i32 {word.text}, 0"), lanes=False)

    def set_scc(self, value: Value) -> None:
        """Replace SCC."""
        self._define(SCC, _text(value.to(U32)))

    def exec_mask(self) -> LlvmValue:
        """EXEC as BOOL lanes; the uniform `true` while every lane is known to be active."""
        if self.is_full:
            return self._value(BOOL, "true", lanes=False)
        return self._value(self._mask, self.exec_bits(), lanes=False).unballot()

    def read(self, kind: str, index: int) -> LlvmValue:
        """One dword register."""
        if kind == "vgpr":
            return self._value(U32, self._fetch(FIRST_VGPR + index), lanes=True)
        return self._value(U32, self._scalar(scalar_key(kind, index)), lanes=False)

    def write(self, kind: str, index: int, value: Value, mask: Value | None) -> None:
        """Write one dword; lanes outside mask keep the old value."""
        if kind != "vgpr":
            self._define(scalar_key(kind, index), _text(value))
            return
        new = value
        if mask is not None and _text(mask) not in ("true", "splat (i1 true)"):
            new = mask.select(value, self._old(FIRST_VGPR + index))
        if isinstance(new, LlvmValue):
            new = new.spread()
        self._define(FIRST_VGPR + index, _text(new))

    def read_at(self, kind: str, number: Value) -> LlvmValue:
        """The register with a uniform number; register 0 beyond the last."""
        pointer, _ = self._indexed(kind, number)
        if kind == "vgpr":
            text = self.emitter.effect(f"load {self._row}, ptr {pointer}, align 64")
            return self._value(U32, text, lanes=True)
        return self._value(U32, self.emitter.effect(f"load i32, ptr {pointer}"), lanes=False)

    def write_at(self, kind: str, number: Value, value: Value, mask: Value | None) -> None:
        """Write it; nothing beyond the last."""
        old = self.read_at(kind, number)
        pointer, inside = self._indexed(kind, number)
        allowed = inside if mask is None else mask & inside
        new = own(allowed.select(value, old))
        align = 64 if kind == "vgpr" else 4
        self.emitter.line(f"store {new.kind} {new.text}, ptr {pointer}, align {align}")
        for key in INDEXED[kind]:
            self._lose(key)
            self.full.discard(key)

    def _indexed(self, kind: str, number: Value) -> tuple[str, LlvmValue]:
        """A pointer to a register's home, register 0's if it is beyond; whether it is inside."""
        keys = INDEXED[kind]
        self.expose(keys)
        emitter = self.emitter
        if kind == "vgpr":
            size = 4 * self.width
            launch = emitter.pure("load ptr, ptr %t")
            place = emitter.pure(f"getelementptr i8, ptr {launch}, i64 {state.WAVE_STRIDE}")
            stride = emitter.pure(f"load i64, ptr {place}")
            room = emitter.pure(f"sub i64 {stride}, {state.VECTORS}")
            limit = emitter.pure(f"udiv i64 {room}, {size}")
        else:
            size, limit = 4, str(SGPR_COUNT)
        wide = emitter.pure(f"zext i32 {_text(number)} to i64")
        inside = emitter.pure(f"icmp ult i64 {wide}, {limit}")
        index = emitter.pure(f"select i1 {inside}, i64 {wide}, i64 0")
        distance = emitter.pure(f"mul i64 {index}, {size}")
        first = self.home(keys[0])
        pointer = emitter.pure(f"getelementptr i8, ptr {first}, i64 {distance}")
        return pointer, self._value(BOOL, inside, lanes=False)

    def clock(self) -> LlvmValue:
        """The launch's tick and one for each instruction since, the whole block counted."""
        emitter = self.emitter
        place = emitter.pure(f"getelementptr i8, ptr %t, i64 {state.STARTED}")
        started = emitter.effect(f"load i64, ptr {place}")
        executed = emitter.effect("load i64, ptr %countp")
        return self._value(U64, emitter.effect(f"add i64 {started}, {executed}"), lanes=False)

    # --- what the translator needs beside it

    @property
    def is_full(self) -> bool:
        """Whether every lane is known to be active."""
        return EXEC in self.full and (self.width == 32 or EXEC + 1 in self.full)

    def exec_bits(self) -> str:
        """EXEC as an integer as wide as the wave."""
        if self.is_full:
            return "-1"
        low = self._scalar(EXEC)
        if self.width == 32:
            return low
        return self.pair(low, self._scalar(EXEC + 1))

    def pair(self, low: str, high: str) -> str:
        """Two i32 as one i64."""
        emitter = self.emitter
        wide = emitter.pure(f"zext i32 {low} to i64")
        top = emitter.pure(f"zext i32 {high} to i64")
        shifted = emitter.pure(f"shl i64 {top}, 32")
        return emitter.pure(f"or i64 {wide}, {shifted}")

    def place(self, key: int) -> tuple[int, str, int]:
        """A register's home: its offset in the wave record, LLVM type and alignment."""
        if key >= FIRST_VGPR:
            return home_offset(key, self.width), self._row, 64
        return home_offset(key, self.width), "i32", 4

    # --- private

    def _scalar(self, key: int) -> str:
        return ALL_ONES if key in self.full else self._fetch(key)


def scalar_key(kind: str, index: int) -> int:
    """The key of a scalar register. An operand that is M0 has its code as index."""
    return M0 if kind == "m0" else SCALAR_KINDS[kind] + index


def home_offset(key: int, width: int) -> int:
    """Where in the wave record a register lives."""
    if key == SCC:
        return state.SCC
    if key >= FIRST_VGPR:
        return state.VECTORS + 4 * width * (key - FIRST_VGPR)
    return state.SCALARS + 4 * key


def _text(value: Value) -> str:
    if not isinstance(value, LlvmValue):
        raise TypeError("values of two engines are mixed")
    return value.text
