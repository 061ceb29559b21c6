"""Where a warp's registers lie in native memory, and how its lanes stand.

The wave record of sim/isa/state.py starts every warp; what is particular to SASS is laid
into it here. Its 128 scalar words hold predicates (as lane masks) and the state of
divergence; rows of 32 words hold what has one element per lane.

A warp is *converged* while every lane that has not exited stands at one place (state.RESUME);
else each lane's place is in PLACES, `ACTIVE` are the lanes that run, `BLOCKED` those that wait
at a convergence point. Lanes at the lowest place run first. What a lane waits for is in two rows:
WANTED, the lanes that have to be there too, and KEYS_OF_WAITS (convergence.py).
"""

from sim.isa import state

# Words of the wave record; 0 to 31 and 96 and up are zero when a warp starts.
ARRIVED = 0  # 16 words of the block's first warp: warps that have come to each barrier
SUMS = 16  # 16 words of the same: what they brought to a BAR.RED
PREDICATE = 96  # P0 to P6
YIELDED = 103  # not zero: lanes in a loop said that others may go before them
UNIFORM_PREDICATE = 104  # UP0 to UP6
REDUCTION_FORM = 111  # not zero: the last BAR.RED asked whether the predicate holds everywhere
BLOCK_ID = 112  # x, y, z
TRIES = 115  # how often the warp looked at a barrier while no warp of its block could run
ACTIVE = 116  # lanes that run
LIMIT = 117  # the lowest place of the lanes that do not run: up to there nobody else has to
BLOCKED = 118
ROTATE = 119  # not zero: the next choice goes to other lanes than the last
LEADER = 120  # the lane the last choice followed
EXCLUSIVE = 121  # lanes that have to be done before others run; 0: none
SYNCING = 122  # those of BLOCKED that wait at a WARPSYNC or BAR
WAITING = 123  # 1 + the number of the barrier that the warp waits at; RELEASED: it has opened
REDUCTION = 124  # what the last BAR.RED came to
LIVE = state.EXEC  # lanes that have not exited

# Rows behind the words, and the register files behind them.
THREAD_ID, PLACES, UNIFORM, BARRIER, WANTED, KEYS_OF_WAITS, RETURN = 0, 1, 2, 10, 26, 27, 28
FIRST_REGISTER = 29
ROW = 128
BARRIER_COUNT = 16

DISPATCH = -(1 << 31)  # in state.RESUME: the lanes are not at one place
STUCK = 1  # a place that is none: every lane waits, and none of what they wait for will come
NEVER = (1 << 31) - 1
RELEASED = 255

# Register keys of the translator.
KEY_PREDICATE, KEY_UNIFORM_PREDICATE, KEY_UNIFORM, KEY_BARRIER = 256, 264, 272, 600
KEYS = 600 + BARRIER_COUNT


def row_offset(row: int) -> int:
    """Bytes from the wave record to a row."""
    return state.VECTORS + ROW * row


def home(key: int) -> tuple[int, str, int]:
    """Of a register key: (offset in the wave record, LLVM type, alignment)."""
    if key < KEY_PREDICATE:
        return row_offset(FIRST_REGISTER + key), "<32 x i32>", 64
    if key < KEY_UNIFORM_PREDICATE:
        return 4 * (PREDICATE + key - KEY_PREDICATE), "i32", 4
    if key < KEY_UNIFORM:
        return 4 * (UNIFORM_PREDICATE + key - KEY_UNIFORM_PREDICATE), "i32", 4
    if key < KEY_BARRIER:
        return row_offset(UNIFORM) + 4 * (key - KEY_UNIFORM), "i32", 4
    return row_offset(BARRIER + key - KEY_BARRIER), "<32 x i32>", 64


def record_size(registers: int) -> int:
    """Bytes of the wave record of a warp with so many registers."""
    return row_offset(FIRST_REGISTER + registers)


def fault_place(offset: int) -> int:
    """Bytes from the entry as the native library is told: halved, which spreads its range cache.

    The library's batches count 8 for each instruction of 16 bytes, so that suits them too.
    """
    return (offset >> 1) & 0xFFFF_FFFF


def place_of_fault(value: int) -> int:
    """Bytes from the entry, from what the library noted."""
    value &= 0xFFFF_FFFF
    return (value - ((value & 0x8000_0000) << 1)) << 1
