"""Which registers later blocks need, and so which stores a translated function has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sim.isa.register_homes import RegisterHomes


@dataclass
class Written:
    """A block that is written but for its stores."""

    start: int
    successors: Iterable[int] | None  # None: it may go anywhere, and every register lives on
    registers: RegisterHomes


def write_stores(lines: list[str], written: Sequence[Written], everything: set[int]) -> None:
    """Put the stores that are needed on their lines. everything: the keys of all registers.

    Blocks with the same start are versions of one block.
    """
    live_in: dict[int, set[int]] = {w.start: set() for w in written}
    for w in written:
        live_in[w.start] |= w.registers.uses
    changed = True
    while changed:
        changed = False
        for w in reversed(written):
            live = _live_out(w, live_in, everything) - w.registers.writes
            if not live <= live_in[w.start]:
                live_in[w.start] |= live
                changed = True
    for w in written:
        for pending in w.registers.settle(_live_out(w, live_in, everything)):
            lines[pending.line] = pending.text


def _live_out(w: Written, live_in: dict[int, set[int]], everything: set[int]) -> set[int]:
    if w.successors is None:
        return everything
    return set().union(*(live_in.get(target, set()) for target in w.successors))
