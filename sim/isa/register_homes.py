"""The register files as translated code keeps them: values within a block, memory between.

Every register has a home in the wave record. Inside a block its latest value is
kept as an LLVM value; a store to its home is written only if somebody reads it
there: a library call, a later block that needs it. Which stores those are is
known when all blocks are written, so a definition leaves a *pending store* and
`settle` says which ones are needed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

from sim.isa.emitter import Emitter
from sim.isa.llvm_value import LlvmValue
from sim.isa.value import U32, Type


@dataclass
class PendingStore:
    """A store to a register's home, to become line `line` of the function if needed."""

    line: int
    text: str
    needed: bool = False


class RegisterHomes(ABC):
    """Registers of one block while it is translated, by keys that the instruction set chooses."""

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter
        self.uses: set[int] = set()  # read from their home before the block writes them
        self.writes: set[int] = set()
        self._values: dict[int, str] = {}
        self._last: dict[int, PendingStore | None] = {}
        self._stores: list[PendingStore] = []

    @abstractmethod
    def place(self, key: int) -> tuple[int, str, int]:
        """A register's home: its offset in the wave record, LLVM type and alignment."""

    def home(self, key: int) -> str:
        """A pointer to where a register lives."""
        return self.emitter.pure(f"getelementptr i8, ptr %w, i64 {self.place(key)[0]}")

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
            self._lose(key)
            self.writes.add(key)

    def forget_vectors(self) -> None:
        """Across a call vectors are kept in their homes only: no host register survives it."""
        for key in [key for key in self._values if self.place(key)[1] != "i32"]:
            del self._values[key]

    def settle(self, live: set[int]) -> list[PendingStore]:
        """At the block's end: pending stores that are needed, given what lives on."""
        for key, pending in self._last.items():
            if pending is not None and key in live:
                pending.needed = True
        return [pending for pending in self._stores if pending.needed]

    def constant(self, target: Type, number: float) -> LlvmValue:
        """A uniform value."""
        return self._value(U32, "0", lanes=False).constant(target, number)

    # --- for subclasses

    def _value(self, kind: Type, text: str, *, lanes: bool) -> LlvmValue:
        return LlvmValue(self.emitter, kind, text, lanes)

    def _lose(self, key: int) -> None:
        """Its home was written by something else."""
        self._values.pop(key, None)
        self._last[key] = None

    def _old(self, key: int) -> LlvmValue:
        """What the lanes that are left out keep of a vector register.

        Loaded as volatile so that LLVM does not turn select and store into a masked store,
        from which later loads cannot be forwarded by the host's store buffer.
        """
        return self._value(U32, self._fetch(key, "volatile "), lanes=True)

    def _fetch(self, key: int, how: str = "") -> str:
        text = self._values.get(key)
        if text is None:
            self.expose([key])
            _, kind, align = self.place(key)
            pointer = self.home(key)
            text = self.emitter.effect(f"load {how}{kind}, ptr {pointer}, align {align}")
            self._values[key] = text
        return text

    def _define(self, key: int, text: str) -> None:
        pointer = self.home(key)
        _, kind, align = self.place(key)
        lines = self.emitter.lines
        pending = PendingStore(len(lines), f"  store {kind} {text}, ptr {pointer}, align {align}")
        lines.append("")  # its line
        self._values[key] = text
        self._last[key] = pending
        self._stores.append(pending)
        self.writes.add(key)
