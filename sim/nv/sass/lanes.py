"""What lanes tell each other: shuffles, votes, matches, reductions.

Source: PTX ISA, "shfl.sync", "vote.sync", "match.sync", "redux.sync", "elect.sync";
mesa: src/nouveau/compiler/nak/ir.rs (OpShfl, OpVote, OpMatch, OpRedux).
"""

import operator
from collections.abc import Callable

from sim.isa.value import BOOL, I32, U32, Value, lane_id, where
from sim.nv.sass.access import Access, read_flag
from sim.nv.sass.semantics import means

LANES = 32


@means("SHFL")
def shfl(x: Access) -> None:
    """Each lane takes a register of another; the predicate says whether that one was in range."""
    value, step, bounds = x.raw(0), x.raw(1), x.raw(2)
    lane = lane_id(value)
    step = step & 31
    segment = bounds >> 8 & 31
    lowest = lane & segment
    highest = lowest | (bounds & 31 & ~segment)
    if x.has("UP"):
        source = lane.bits(I32) - step.bits(I32)
        fine = source >= highest.bits(I32)
    else:
        chosen = {
            "DOWN": lane + step, "BFLY": lane ^ step, "IDX": lowest | (step & ~segment),
        }  # fmt: skip
        source = chosen[x.instruction.modifiers[0]].bits(I32)
        fine = source <= highest.bits(I32)
    index = where(fine, source.bits(U32), lane)
    result = value.take(index)
    x.write_flag(0, fine)
    x.write(result)


@means("VOTE", "VOTEU")
def vote(x: Access) -> None:
    """The lanes where a predicate holds, and whether it does in all, any, or all or none."""
    active = x.lanes()
    everyone = spread(x, active).ballot()
    yes = spread(x, read_flag(x.registers, x.flags[0]) & active).ballot()
    if x.results:
        x.write(yes)
    if x.has("ANY"):
        x.write_flag(0, yes != 0)
    elif x.has("ALL"):
        x.write_flag(0, yes == everyone)
    else:
        x.write_flag(0, (yes == everyone) | (yes == 0))


def spread(x: Access, value: Value) -> Value:
    """BOOL, one for the warp or lanes, as lanes."""
    every = lane_id(x.number(U32, 0)) < LANES
    return every & value


def first_lane(x: Access, active: Value) -> Value:
    """The number of the lowest active lane, uniform U32."""
    return spread(x, active).ballot().trailing_zeros() & 31


@means("MATCH")
def match(x: Access) -> None:
    """The lanes with the same value, or (ALL) all lanes if they have."""
    value = x.pair(0) if x.has("U64") else x.raw(0)
    active = spread(x, x.lanes())
    everyone = active.ballot()
    if x.has("ALL"):
        same = (value == value.lane(first_lane(x, active))) | ~active
        agreed = spread(x, same).ballot() == 0xFFFF_FFFF
        x.write(where(agreed, everyone, 0))
        x.write_flag(0, agreed)
        return
    total = x.number(U32, 0)
    for lane in range(LANES):
        equal = value == value.lane(lane)
        total = total | where(equal, x.number(U32, 1 << lane), 0)
    x.write(total & everyone)


REDUCTIONS: dict[str, tuple[int, Callable[[Value, Value], Value]]] = {
    "SUM": (0, operator.add),
    "OR": (0, operator.or_),
    "XOR": (0, operator.xor),
    "AND": (-1, operator.and_),
    "MIN": (0x7FFF_FFFF, lambda a, b: where(a < b, a, b)),
    "MAX": (-(1 << 31), lambda a, b: where(a > b, a, b)),
}


@means("REDUX", "CREDUX")
def redux(x: Access) -> None:
    """All active lanes' values combined."""
    if x.words & {"MINABS", "MAXABS"}:
        raise x.refuse("of magnitudes")
    name = next((w for w in x.instruction.modifiers if w in REDUCTIONS), "AND")
    neutral, function = REDUCTIONS[name]
    kind = I32 if x.has("S32") else U32
    if kind == U32 and name in ("MIN", "MAX"):
        neutral = -1 if name == "MIN" else 0
    value = x.raw(0).bits(kind)
    value = where(spread(x, x.lanes()), value, x.number(kind, neutral))
    for step in (16, 8, 4, 2, 1):
        value = function(value, value.take([lane ^ step for lane in range(LANES)]))
    x.write(value.lane(0))


@means("R2UR")
def r2ur(x: Access) -> None:
    """The value of the lowest active lane; the predicate: whether some lane has another."""
    if x.has("OR"):
        raise x.refuse("with OR")
    value, active = x.raw(0), x.lanes()
    first = value.lane(first_lane(x, active))
    x.write(first)
    if x.has_flag_result(0):
        differs = spread(x, (value != first) & active)
        x.write_flag(0, differs.ballot() != 0)


@means("ELECT")
def elect(x: Access) -> None:
    """The lowest of the active lanes with the predicate is told so; the others get its number."""
    able = spread(x, x.lanes() & read_flag(x.registers, x.flags[0]))
    lane = able.ballot().trailing_zeros()
    x.write(lane)
    x.write_flag(0, (lane_id(x.number(U32, 0)) == lane) & spread(x, x.number(BOOL, 1)))
