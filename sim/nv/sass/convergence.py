"""Which lanes of a warp meet: the key that a lane waits under at a convergence point.

Lanes meet that wait under the same key for the same lanes. A BSYNC's key is its place and the
number of its barrier. `bar.warp.sync` may be two instructions in two arms of a branch, so a
plain WARPSYNC has one key for all places. What exchanges values behind one needs the lanes at one
place: there the key is that of the place, and of WARPSYNC.COLLECTIVE that of the instructions up
to its ENDCOLLECTIVE, which are the same, registers too, at every place that lanes can meet from.

Lanes that waited under an *exclusive* key (WARPSYNC.EXCLUSIVE and COLLECTIVE) run on before
others do, or groups with different masks would run what follows together.

Source: PTX ISA, "bar.warp.sync", "vote.sync", "shfl.sync".
Guess: EXCLUSIVE, COLLECTIVE and what BRA.DIV, BRA.CONV and R2UR's predicate mean, from the code
that is compiled for them: nothing else gives each of these instructions its documented result.
"""

from __future__ import annotations

from binascii import crc32
from collections.abc import Callable

from sim.nv.sass.instruction import Instruction
from sim.nv.sass.operands import INSTRUCTION_SIZE
from sim.nv.sass.semantics import CONTROL

Read = Callable[[int], Instruction | None]  # the instruction at a place, if there is one

# Low bits of the key of a lane that waits at a WARPSYNC or BAR.
PLACE, EXCLUSIVE, COLLECTIVE = 0, 1, 2
PLAIN = 0x7FFF_FFF0

# Instructions that give wrong results if lanes they name are not with them.
EXCHANGES = frozenset({
    "SHFL", "VOTE", "VOTEU", "MATCH", "REDUX", "CREDUX", "ELECT", "BAR", "LDSM", "MOVM", "HMMA",
    "IMMA", "DMMA", "BMMA", "QMMA", "OMMA",
})  # fmt: skip
NEUTRAL = frozenset({"B2R", "BMOV", "BREAK", "BSSY", "YIELD"})  # control that goes straight on
MEANING_BITS = 105  # of an instruction; those above are for scheduling

STUCK_LANES = "lanes of one warp wait for each other and can never meet"
STUCK_WARPS = "warps of one block wait at barriers that can never open"


def key_of_sync(i: Instruction, read: Read) -> int:
    """The key at a WARPSYNC."""
    after = i.address + INSTRUCTION_SIZE
    if "EXCLUSIVE" in i.modifiers:
        return after | EXCLUSIVE
    if "COLLECTIVE" in i.modifiers:
        body = _until_end(after, read)
        if all(inside.name == "NOP" for inside in body):
            return PLAIN
        words = [inside.word & (1 << MEANING_BITS) - 1 for inside in body]
        number = crc32(b"".join(word.to_bytes(16, "little") for word in words))
        return number & 0x7FFF_FFF0 | COLLECTIVE
    return after | PLACE if _exchanges(after, read) else PLAIN


def is_exclusive(key: int) -> bool:
    """Whether lanes that met under this key at a WARPSYNC run before others."""
    return key & 3 in (EXCLUSIVE, COLLECTIVE)


def _until_end(at: int, read: Read) -> list[Instruction]:
    body: list[Instruction] = []
    while (inside := read(at)) is not None and inside.name != "ENDCOLLECTIVE":
        body.append(inside)
        at += INSTRUCTION_SIZE
        if inside.name in CONTROL - NEUTRAL - {"BAR"}:
            break
    return body


def _exchanges(at: int, read: Read) -> bool:
    """Whether lanes exchange values before they go elsewhere or meet again."""
    while (inside := read(at)) is not None:
        if inside.name in EXCHANGES:
            return True
        if inside.name in CONTROL - NEUTRAL:
            return False
        at += INSTRUCTION_SIZE
    return False
