"""Moves whose register number is known only when they run: M0 is added to it.

An index beyond the registers that the wave has reads register 0 and writes nothing.

Source: AMD "RDNA3" Instruction Set Architecture, sections 16.4 (S_MOVRELS_B32 and following), 16.8
(V_MOVRELS_B32 and following), 3.6 (out-of-range registers).
"""

from collections.abc import Callable
from typing import Protocol

from hcq.errors import SimFault
from sim.amd.rdna.instruction import Instruction
from sim.isa.value import Value

SGPR_COUNT = 106  # that an index reaches

# By what is added: to the destination's number, to the source's.
_WHOLE = (0, 0xFFFF_FFFF)  # M0 >> shift & mask
_LOW, _HIGH = (0, 0x3FF), (16, 0x3FF)
_KINDS = {
    "movreld": (_WHOLE, None),
    "movrels": (None, _WHOLE),
    "movrelsd": (_WHOLE, _WHOLE),
    "movrelsd_2": (_HIGH, _LOW),
}
MOVES = {
    name: _KINDS[name.split("_", 1)[1].rsplit("_", 1)[0]]
    for name in (
        "v_movreld_b32", "v_movrels_b32", "v_movrelsd_b32", "v_movrelsd_2_b32", "s_movreld_b32",
        "s_movreld_b64", "s_movrels_b32", "s_movrels_b64", "s_movrelsd_2_b32",
    )
}  # fmt: skip


class IndexedRegisters(Protocol):
    """What a move needs of the register files; kinds are "vgpr" and "sgpr"."""

    def read(self, kind: str, index: int) -> Value:
        """One dword register."""

    def write(self, kind: str, index: int, value: Value, mask: Value | None) -> None:
        """Write one dword register."""

    def exec_mask(self) -> Value:
        """EXEC as BOOL lanes."""

    def read_at(self, kind: str, number: Value) -> Value:
        """The register with a uniform U32 number; register 0 beyond the last."""

    def write_at(self, kind: str, number: Value, value: Value, mask: Value | None) -> None:
        """Write it; nothing beyond the last."""


def move(
    instruction: Instruction, registers: IndexedRegisters, plain: Callable[[int], Value]
) -> None:
    """Carry out one of MOVES; plain(n) is dword n of the source as it is written."""
    if instruction.dpp is not None:
        raise SimFault(f"{instruction.name} with DPP is not simulated")
    to, of = MOVES[instruction.name]
    destination, source = instruction.destinations[0], instruction.sources[0]
    kind = destination.kind
    if kind not in ("vgpr", "sgpr") or (of is not None and source.kind != kind):
        raise SimFault(f"{instruction.name} between {source.kind} and {kind} is not simulated")
    m0 = registers.read("m0", 0)
    mask = registers.exec_mask() if kind == "vgpr" else None
    words = []
    for part in range(destination.count):
        if of is None:
            words.append(plain(part))
        else:
            number = (m0 >> of[0] & of[1]) + (source.index + part)
            words.append(registers.read_at(kind, number))
    for part, word in enumerate(words):
        if to is None:
            registers.write(kind, destination.index + part, word, mask)
        else:
            number = (m0 >> to[0] & to[1]) + (destination.index + part)
            registers.write_at(kind, number, word, mask)
