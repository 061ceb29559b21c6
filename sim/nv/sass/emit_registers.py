"""The register files of one warp as translated code keeps them.

Homes are laid out in frame.py: vectors as rows, predicates as one bit for each lane.
"""

from __future__ import annotations

from hcq.errors import SimFault
from sim.isa import state
from sim.isa.emitter import Emitter
from sim.isa.llvm_value import LlvmValue, own
from sim.isa.register_homes import RegisterHomes
from sim.isa.value import BOOL, U32, U64, Value
from sim.nv.sass import frame

MASKS = {"EQMASK": "eq", "LTMASK": "ult", "LEMASK": "ule", "GTMASK": "ugt", "GEMASK": "uge"}
THREAD_FIELDS = {"TID.X": 0, "TID.Y": 10, "TID.Z": 20}
BLOCK_FIELDS = {"CTAID.X": 0, "CTAID.Y": 1, "CTAID.Z": 2}
# What one simulated SM has to say about itself.
FIXED = {
    "CgaCtaId": 0, "CgaSize": 0, "VIRTID": 0, "VIRTUALSMID": 0, "VIRTCFG": 0x1_4000, "PM0": 0,
    "LWINLO": 0, "SWINLO": 0,
}  # fmt: skip


class EmitRegisters(RegisterHomes):
    """Registers of one block while it is translated. Satisfies access.Registers.

    `full`: every lane of the warp runs.
    """

    def __init__(self, emitter: Emitter, chip: int, *, full: bool) -> None:
        super().__init__(emitter)
        self.chip = chip
        self.full = full

    # --- the protocol

    def read(self, index: int) -> LlvmValue:
        """A vector register."""
        return self._value(U32, self._fetch(index), lanes=True)

    def write(self, index: int, value: Value, mask: Value | None) -> None:
        """Lanes that do not run, or that mask leaves out, keep the old value."""
        allowed = self.allowed(mask)
        new = own(value)
        if allowed is not None:
            new = own(allowed.select(value, self._old(index)))
        self._define(index, new.spread().text)

    def read_uniform(self, index: int) -> LlvmValue:
        """A uniform register."""
        return self._value(U32, self._fetch(frame.KEY_UNIFORM + index), lanes=False)

    def write_uniform(self, index: int, value: Value, mask: Value | None) -> None:
        """A uniform register."""
        new = self.one(value)
        if mask is not None:
            new = own(self.somewhere(mask).select(new, self.read_uniform(index)))
        self._define(frame.KEY_UNIFORM + index, new.text)

    def predicate(self, index: int) -> LlvmValue:
        """A predicate."""
        return own(self._bits(frame.KEY_PREDICATE + index).unballot())

    def set_predicate(self, index: int, value: Value, mask: Value | None) -> None:
        """A predicate."""
        bits: Value = self.mask_bits(value)
        allowed = self.allowed(mask)
        key = frame.KEY_PREDICATE + index
        if allowed is not None:
            chosen = self.mask_bits(allowed)
            bits = (bits & chosen) | (self._bits(key) & ~chosen)
        self._define(key, own(bits).text)

    def uniform_predicate(self, index: int) -> LlvmValue:
        """A uniform predicate."""
        return own(self._bits(frame.KEY_UNIFORM_PREDICATE + index) != 0)

    def set_uniform_predicate(self, index: int, value: Value, mask: Value | None) -> None:
        """A uniform predicate."""
        new: Value = self.somewhere(value)
        if mask is not None:
            new = self.somewhere(mask).select(new, self.uniform_predicate(index))
        self._define(frame.KEY_UNIFORM_PREDICATE + index, own(new.to(U32)).text)

    def constant_word(self, bank: int, offset: int) -> LlvmValue:
        """A word of a constant bank, from the copy made at launch."""
        emitter = self.emitter
        place = emitter.pure(f"getelementptr i8, ptr {self.banks()}, i64 {24 * bank + 16}")
        copy = emitter.pure(f"load ptr, ptr {place}, align 8, !invariant.load !0")
        word = emitter.pure(f"getelementptr i8, ptr {copy}, i64 {offset}")
        text = emitter.pure(f"load i32, ptr {word}, align 4, !invariant.load !0")
        return self._value(U32, text, lanes=False)

    def running(self) -> LlvmValue:
        """The lanes that run; the uniform `true` when all do."""
        if self.full:
            return self._value(BOOL, "true", lanes=False)
        return own(self._value(U32, self.running_bits(), lanes=False).unballot())

    def special(self, name: str) -> Value:
        """A special register."""
        if name == "LANEID":
            return self.constant(U32, 0).lane_id()
        if name in THREAD_FIELDS:
            row = self._value(U32, self._row(frame.THREAD_ID), lanes=True)
            return (row >> THREAD_FIELDS[name]) & 0x3FF
        if name in BLOCK_FIELDS:
            return self._word(frame.BLOCK_ID + BLOCK_FIELDS[name])
        if name in MASKS:
            return self._lane_mask(MASKS[name])
        if name in FIXED:
            return self.constant(U32, FIXED[name])
        return self._changing(name)

    def _changing(self, name: str) -> Value:
        fields = {
            "SWINHI": state.SHARED_APERTURE, "LWINHI": state.PRIVATE_APERTURE,
            "SMEMSZ": state.LDS_SIZE,
        }  # fmt: skip
        if name in fields:
            return self.thread_field(fields[name]).to(U32)
        clocks = {"CLOCKLO": 0, "CLOCKHI": 32, "GLOBALTIMERLO": 0, "GLOBALTIMERHI": 32}
        if name not in clocks:
            raise SimFault(f"special register SR_{name} is not simulated")
        executed = self.emitter.effect("load i64, ptr %countp")
        started = self.thread_field(state.STARTED)
        now = started + self._value(U64, executed, lanes=False)
        return (now >> clocks[name]).to(U32)

    def _lane_mask(self, relation: str) -> Value:
        lane = self.constant(U32, 0).lane_id()
        numbers = []
        for at in range(32):
            bits = {
                "eq": 1 << at, "ult": (1 << at) - 1, "ule": (2 << at) - 1,
                "ugt": ~((2 << at) - 1), "uge": ~((1 << at) - 1),
            }  # fmt: skip
            numbers.append(f"i32 {bits[relation] & 0xFFFF_FFFF}")
        return self._value(U32, f"<{', '.join(numbers)}>", lanes=lane.lanes)

    # --- what the translator needs beside it

    def thread_field(self, offset: int) -> LlvmValue:
        """A u64 of the thread record that does not change during a launch."""
        place = self.emitter.pure(f"getelementptr i8, ptr %t, i64 {offset}")
        return self._value(U64, self.emitter.pure(f"load i64, ptr {place}"), lanes=False)

    def banks(self) -> str:
        """A pointer to the constant banks: {u64 address, u64 size, pointer to the copy} each."""
        place = self.emitter.pure(f"getelementptr i8, ptr %t, i64 {state.BANKS}")
        return self.emitter.pure(f"load ptr, ptr {place}, align 8, !invariant.load !0")

    def running_bits(self) -> str:
        """The lanes that run, i32."""
        return "-1" if self.full else self._word(frame.ACTIVE).text

    def allowed(self, mask: Value | None) -> LlvmValue | None:
        """The lanes that may be written; None for all."""
        if self.full:
            return None if mask is None or own(mask).text == "true" else own(mask)
        running = self.running()
        return running if mask is None else own(running & mask)

    def allowed_bits(self, mask: Value | None) -> str:
        """The same as i32."""
        allowed = self.allowed(mask)
        return "-1" if allowed is None else self.mask_bits(allowed).text

    def mask_bits(self, value: Value) -> LlvmValue:
        """BOOL, uniform or lanes, as i32."""
        mine = own(value)
        if mine.lanes:
            return own(mine.ballot())
        if mine.text in ("true", "false"):
            return self.constant(U32, -1 if mine.text == "true" else 0)
        text = self.emitter.pure(f"sext i1 {mine.text} to i32")
        return self._value(U32, text, lanes=False)

    def somewhere(self, value: Value) -> LlvmValue:
        """BOOL as uniform: whether it holds in a lane that runs."""
        mine = own(value)
        if not mine.lanes:
            return mine
        bits = self.mask_bits(mine)
        return own((bits & self._value(U32, self.running_bits(), lanes=False)) != 0)

    def one(self, value: Value) -> LlvmValue:
        """A value as uniform: that of the first lane that runs."""
        mine = own(value)
        if not mine.lanes:
            return mine
        running = self._value(U32, self.running_bits(), lanes=False)
        return mine.lane(running.trailing_zeros() & 31)

    def barrier(self, number: int) -> LlvmValue:
        """For each lane, the lanes it will wait for at a convergence barrier."""
        return self._value(U32, self._fetch(frame.KEY_BARRIER + number), lanes=True)

    def set_barrier(self, number: int, value: Value, mask: Value | None) -> None:
        """Write that, for lanes that run."""
        allowed = self.allowed(mask)
        new = own(value).spread()
        if allowed is not None:
            new = own(allowed.select(new, self.barrier(number)))
        self._define(frame.KEY_BARRIER + number, new.text)

    def replace_barrier(self, number: int, text: str) -> None:
        """Write it for every lane."""
        self._define(frame.KEY_BARRIER + number, text)

    def place(self, key: int) -> tuple[int, str, int]:
        """A register's home: its offset in the wave record, LLVM type and alignment."""
        return frame.home(key)

    # --- private

    def _bits(self, key: int) -> LlvmValue:
        return self._value(U32, self._fetch(key), lanes=False)

    def _word(self, word: int) -> LlvmValue:
        place = self.emitter.pure(f"getelementptr i8, ptr %w, i64 {4 * word}")
        return self._value(U32, self.emitter.pure(f"load i32, ptr {place}"), lanes=False)

    def _row(self, row: int) -> str:
        place = self.emitter.pure(f"getelementptr i8, ptr %w, i64 {frame.row_offset(row)}")
        return self.emitter.pure(f"load <32 x i32>, ptr {place}, align 64")
