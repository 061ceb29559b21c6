"""The register files as translated code keeps them: values within a block, memory between.

Every register has a home in the wave record (frame.py). Inside a block its latest value is
kept as an LLVM value; a store to its home is written only if somebody reads it there: a
library call, or a later block. Which stores those are is known when all blocks are written,
so a definition leaves a *pending store* and `settle` says which ones are needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hcq.errors import SimFault
from sim.isa import state
from sim.isa.emitter import Emitter
from sim.isa.llvm_value import LlvmValue, own
from sim.isa.value import BOOL, U32, U64, Type, Value
from sim.nv.sass import frame

MASKS = {"EQMASK": "eq", "LTMASK": "ult", "LEMASK": "ule", "GTMASK": "ugt", "GEMASK": "uge"}
THREAD_FIELDS = {"TID.X": 0, "TID.Y": 10, "TID.Z": 20}
BLOCK_FIELDS = {"CTAID.X": 0, "CTAID.Y": 1, "CTAID.Z": 2}
# What one simulated SM has to say about itself.
FIXED = {
    "CgaCtaId": 0, "CgaSize": 0, "VIRTID": 0, "VIRTUALSMID": 0, "VIRTCFG": 0x1_4000, "PM0": 0,
    "LWINLO": 0, "SWINLO": 0,
}  # fmt: skip


@dataclass
class PendingStore:
    """A store to a register's home, to become line `line` of the function if needed."""

    line: int
    text: str
    needed: bool = False


class EmitRegisters:
    """Registers of one block while it is translated. Satisfies access.Registers.

    `full`: every lane of the warp runs.
    """

    def __init__(self, emitter: Emitter, chip: int, *, full: bool) -> None:
        self.emitter = emitter
        self.chip = chip
        self.full = full
        self.uses: set[int] = set()  # read from their home before the block writes them
        self.writes: set[int] = set()
        self._values: dict[int, str] = {}
        self._last: dict[int, PendingStore | None] = {}
        self._stores: list[PendingStore] = []

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

    def constant(self, target: Type, number: float) -> LlvmValue:
        """A uniform value."""
        return self._value(U32, "0", lanes=False).constant(target, number)

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

    def home(self, key: int) -> str:
        """A pointer to where a register lives."""
        return self.emitter.pure(f"getelementptr i8, ptr %w, i64 {frame.home(key)[0]}")

    def expose(self, keys: Iterable[int]) -> None:
        """A call reads these homes: what was written before must be there."""
        for key in keys:
            pending = self._last.get(key)
            if pending is not None:
                pending.needed = True
            elif key not in self.writes:
                self.uses.add(key)

    def overwrite(self, keys: Iterable[int], *, whole: bool) -> None:
        """A call writes these homes; not `whole`: some lanes keep what was there."""
        keys = list(keys)
        if not whole:
            self.expose(keys)
        for key in keys:
            self._values.pop(key, None)
            self._last[key] = None
            self.writes.add(key)

    def forget_vectors(self) -> None:
        """Across a call vectors are kept in their homes only: no host register survives it."""
        for key in [k for k in self._values if frame.home(k)[1] != "i32"]:
            del self._values[key]

    def settle(self, live: set[int]) -> list[PendingStore]:
        """At the block's end: pending stores that are needed, given what lives on."""
        for key, pending in self._last.items():
            if pending is not None and key in live:
                pending.needed = True
        return [pending for pending in self._stores if pending.needed]

    # --- private

    def _value(self, kind: Type, text: str, *, lanes: bool) -> LlvmValue:
        return LlvmValue(self.emitter, kind, text, lanes)

    def _bits(self, key: int) -> LlvmValue:
        return self._value(U32, self._fetch(key), lanes=False)

    def _word(self, word: int) -> LlvmValue:
        place = self.emitter.pure(f"getelementptr i8, ptr %w, i64 {4 * word}")
        return self._value(U32, self.emitter.pure(f"load i32, ptr {place}"), lanes=False)

    def _row(self, row: int) -> str:
        place = self.emitter.pure(f"getelementptr i8, ptr %w, i64 {frame.row_offset(row)}")
        return self.emitter.pure(f"load <32 x i32>, ptr {place}, align 64")

    def _old(self, key: int) -> LlvmValue:
        """What lanes that are left out keep.

        Loaded as volatile so that LLVM does not turn select and store into a masked store,
        from which later loads cannot be forwarded by the host's store buffer.
        """
        return self._value(U32, self._fetch(key, "volatile "), lanes=True)

    def _fetch(self, key: int, how: str = "") -> str:
        text = self._values.get(key)
        if text is None:
            self.expose([key])
            _, kind, align = frame.home(key)
            pointer = self.home(key)
            text = self.emitter.effect(f"load {how}{kind}, ptr {pointer}, align {align}")
            self._values[key] = text
        return text

    def _define(self, key: int, text: str) -> None:
        pointer = self.home(key)
        _, kind, align = frame.home(key)
        lines = self.emitter.lines
        pending = PendingStore(len(lines), f"  store {kind} {text}, ptr {pointer}, align {align}")
        lines.append("")  # its place
        self._values[key] = text
        self._last[key] = pending
        self._stores.append(pending)
        self.writes.add(key)
