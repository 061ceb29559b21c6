"""Instructions that move values between lanes.

Source: AMD "RDNA3" Instruction Set Architecture, sections 16.7 (V_READFIRSTLANE_B32,
V_PERMLANE64_B32), 16.10 (V_READLANE_B32, V_WRITELANE_B32, V_PERMLANE16_B32), 12.6 and 16.15
(DS_SWIZZLE_B32, DS_PERMUTE_B32, DS_BPERMUTE_B32).
"""

from collections.abc import Callable

from hcq.errors import SimFault
from sim.amd.rdna.semantics import vector
from sim.isa.value import U32, Value, constant, lane_id, where

FETCH_INACTIVE = 1  # op_sel bit 0 of permlane16
BOUND_CONTROL = 2  # op_sel bit 1


@vector("v_readfirstlane_b32", U32, to=U32, reads=("exec",))
def v_readfirstlane_b32(a: Value, live: Value) -> Value:
    # The lowest active lane; lane 0 if there is none, since the width wraps to 0.
    return a.lane(live.ballot().trailing_zeros().to(U32))


@vector("v_readlane_b32", U32, U32, to=U32)
def v_readlane_b32(a: Value, index: Value) -> Value:
    return a.lane(index)


@vector("v_writelane_b32", U32, U32, to=U32, reads=("lane", "old"), ignores_exec=True)
def v_writelane_b32(a: Value, index: Value, lane: Value, old: Value) -> Value:
    return where(lane == (index & (old.width - 1)), a, old)


@vector("v_permlane64_b32", U32, to=U32, reads=("lane",))
def v_permlane64_b32(a: Value, lane: Value) -> Value:
    return a.take(lane ^ 32) if a.width == 64 else a


def _permute_row(other_row: int) -> Callable[..., Value]:
    def permute(
        a: Value, low: Value, high: Value, live: Value, old: Value, op_sel: int
    ) -> Value:
        lane = lane_id(live)
        nibbles = where((lane & 8) != 0, high, low)
        chosen = (nibbles >> ((lane & 7) << 2)) & 15
        source = ((lane & ~15 & 0xFFFF_FFFF) ^ other_row) | chosen
        moved = a.take(source)
        if op_sel & FETCH_INACTIVE:
            return moved
        missing = constant(a, U32, 0) if op_sel & BOUND_CONTROL else old
        return where(live.take(source), moved, missing)

    return permute


for _name, _row in (("v_permlane16_b32", 0), ("v_permlanex16_b32", 16)):
    vector(_name, U32, U32, U32, to=U32, reads=("exec", "old", "op_sel"))(_permute_row(_row))


# --- through LDS hardware, without touching LDS memory


@vector("ds_bpermute_b32", U32, U32, to=U32, reads=("exec", "imm"))
def ds_bpermute_b32(address: Value, a: Value, live: Value, offset: int) -> Value:
    source = _lane_of(address, offset)
    return where(live.take(source), a.take(source), 0)


@vector("ds_permute_b32", U32, U32, to=U32, reads=("exec", "imm"))
def ds_permute_b32(address: Value, a: Value, live: Value, offset: int) -> Value:
    target = _lane_of(address, offset)
    lane = lane_id(live)
    result = constant(a, U32, 0)
    # In lane order, so that the highest of several senders wins.
    for sender in range(a.width):
        received = (lane == target.lane(sender)) & live.lane(sender)
        result = where(received, a.lane(sender), result)
    return result


def _lane_of(address: Value, offset: int) -> Value:
    """The lane that a byte address means, within the same 32 lanes."""
    own_half = lane_id(address) & 32
    return (((address + offset) >> 2) & 31) | own_half


@vector("ds_swizzle_b32", U32, to=U32, reads=("exec", "imm"))
def ds_swizzle_b32(a: Value, live: Value, pattern: int) -> Value:
    source = [swizzle_source(pattern & 0xFFFF, lane) for lane in range(a.width)]
    return where(live.take(source), a.take(source), 0)


def swizzle_source(pattern: int, lane: int) -> int:
    """The lane that `lane` reads: a quad permutation, a rotation, or and-or-xor masks."""
    group = lane & ~31
    if pattern >= 0xE000:
        raise SimFault(f"ds_swizzle_b32 pattern {pattern:#x} (FFT) is not simulated")
    if pattern >= 0xC000:
        amount = pattern >> 5 & 31
        step = -amount if pattern >> 10 & 1 else amount
        keep = pattern & 31
        return group | (lane & keep) | (lane + step & 31 & ~keep)
    if pattern & 0x8000:
        return lane & ~3 | pattern >> 2 * (lane & 3) & 3
    both, either, flip = pattern & 31, pattern >> 5 & 31, pattern >> 10 & 31
    return group | ((lane & both | either) ^ flip) & 31
