"""DPP: a vector instruction reads its first source from other lanes.

Source: AMD "RDNA3" Instruction Set Architecture, section 7.7 (DPP16 controls, DPP8, bound_ctrl,
fetch inactive, row and bank masks).
"""

from collections.abc import Callable

from hcq.errors import SimFault
from sim.amd.rdna.instruction import Dpp
from sim.isa.value import BOOL, U32, U64, Value, constant, unballot, where

ROW = 16  # lanes of a row


def shuffle(value: Value, dpp: Dpp, active: Value) -> tuple[Value, Value]:
    """The source as each lane sees it, and the lanes (BOOL) that may be written.

    active is EXEC. A lane whose source lies outside its row or is inactive reads 0 with
    bound_ctrl (always so for DPP8), else keeps its old destination.
    """
    width = active.width
    origin = [source_lane(dpp, lane) for lane in range(width)]
    lanes = [lane if lane is not None else at for at, lane in enumerate(origin)]
    found = _mask(active, [lane is not None for lane in origin])
    if not dpp.fi:
        found = found & active.take(lanes)
    moved = value.take(lanes)
    allowed = _mask(active, [_is_enabled(dpp, lane) for lane in range(width)])
    if dpp.kind == 8 or dpp.bound_ctrl:
        zero = constant(value, value.type.unsigned, 0).bits(value.type)
        return where(found, moved, zero), allowed
    return moved, allowed & found


def source_lane(dpp: Dpp, lane: int) -> int | None:
    """The lane that `lane` reads, or None when it would lie outside its row."""
    if dpp.kind == 8:
        return lane - lane % 8 + dpp.lanes[lane % 8]
    row, at = lane - lane % ROW, lane % ROW
    if dpp.ctrl < 0x100:  # quad_perm
        return lane - lane % 4 + (dpp.ctrl >> 2 * (lane % 4) & 3)
    control = dpp.ctrl & 0x1F0
    amount = dpp.ctrl & 0xF
    if dpp.ctrl in (0x140, 0x141):
        return row + (15 - at if dpp.ctrl == 0x140 else at ^ 7)
    if control not in MOVES or (control < 0x140 and amount == 0):
        raise SimFault(f"DPP control {dpp.ctrl:#x} is not simulated")
    moved = MOVES[control](at, amount)
    return row + moved if 0 <= moved < ROW else None


MOVES: dict[int, Callable[[int, int], int]] = {
    0x100: lambda at, amount: at + amount,  # row_shl
    0x110: lambda at, amount: at - amount,  # row_shr
    0x120: lambda at, amount: (at - amount) % ROW,  # row_ror
    0x150: lambda _, amount: amount,  # row_share
    0x160: lambda at, amount: at ^ amount,  # row_xmask
}


def _is_enabled(dpp: Dpp, lane: int) -> bool:
    if dpp.kind == 8:
        return True
    return bool(dpp.row_mask >> (lane // ROW) & 1 and dpp.bank_mask >> (lane % ROW // 4) & 1)


def _mask(like: Value, lanes: list[bool]) -> Value:
    bits = sum(1 << at for at, lane in enumerate(lanes) if lane)
    if bits == (1 << like.width) - 1:
        return constant(like, BOOL, 1)
    return unballot(constant(like, U32 if like.width == 32 else U64, bits))
