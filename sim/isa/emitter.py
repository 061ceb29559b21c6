"""Text of one LLVM function while it is being written.

Names instructions, remembers which pure instruction already has a name in the
current block, collects stack slots and the intrinsics to declare. It knows
nothing about what the instructions mean.

Text and not llvmlite.ir objects: a kernel is thousands of instructions, and
formatting objects took longer than LLVM's own parsing.
"""

from __future__ import annotations

from collections.abc import Mapping

from sim.isa.value import QUIET_NAN


class Emitter:
    """Lines of one function body over vectors of `width` lanes."""

    def __init__(
        self, width: int, prefix: str = "v", nans: Mapping[int, int] = QUIET_NAN
    ) -> None:
        self.width = width
        self.nans = nans  # what arithmetic makes of NaNs: bits by the width of the type
        self.lines: list[str] = []
        self.slots: list[str] = []
        self.declarations: set[str] = set()
        self._prefix = prefix
        self._count = 0
        self._known: dict[str, str] = {}

    def fresh(self) -> str:
        """A name not used before."""
        self._count += 1
        return f"%{self._prefix}{self._count}"

    def pure(self, text: str) -> str:
        """The name of an instruction without side effects; the same text is emitted once."""
        name = self._known.get(text)
        if name is None:
            name = self._known[text] = self.fresh()
            self.lines.append(f"  {name} = {text}")
        return name

    def effect(self, text: str) -> str:
        """The name of an instruction that must stay where it is (a load or a call)."""
        name = self.fresh()
        self.lines.append(f"  {name} = {text}")
        return name

    def line(self, text: str) -> None:
        """An instruction without a result."""
        self.lines.append(f"  {text}")

    def label(self, name: str, *, follows: bool = False) -> None:
        """Start a block. `follows`: it is only reached from the block before it."""
        if not follows:
            self._known.clear()
        self.lines.append(f"{name}:")

    def slot(self, kind: str, align: int = 64) -> str:
        """A stack slot, allocated on entry."""
        name = self.fresh()
        self.slots.append(f"  {name} = alloca {kind}, align {align}")
        return name

    def intrinsic(self, result: str, name: str, *arguments: tuple[str, str]) -> str:
        """A call of a pure LLVM intrinsic; arguments are (type, value) pairs."""
        types = ", ".join(kind for kind, _ in arguments)
        self.declarations.add(f"declare {result} @{name}({types})")
        values = ", ".join(f"{kind} {value}" for kind, value in arguments)
        return self.pure(f"call {result} @{name}({values})")
