"""Where native code keeps its state: byte offsets of the records it shares with Python.

Three records. The *launch* is one per dispatch and shared by all threads. A
*thread* record belongs to one host thread. A *wave* record is the register file
of one wave plus where it stands. Registers always lie in the wave record
between blocks, so a wave can stop at any block and go on later, on any thread.
"""

from __future__ import annotations

# --- launch record (shared)
STOP = 0  # u64, nonzero: every thread returns at its next look
NEXT_GROUP = 8  # u64, taken by atomic add
GROUP_COUNT = 16  # u64
GROUPS_X = 24  # u64
GROUPS_Y = 32  # u64
WAVES = 40  # u64, waves of one work-group
WAVE_STRIDE = 48  # u64, bytes from one wave record to the next
TEMPLATE = 56  # address of 128 words: the scalar registers at entry
IDS = 64  # address of waves x width words: v0 at entry
MASKS = 72  # address of one u64 per wave: its lanes
GROUP_ID_AT = 80  # 3 x u64: scalar register of work-group id x, y, z; 127 + 3 is nowhere
FULL_CODE = 104  # address of the function for waves whose lanes are all used
PART_CODE = 112  # address of the function for the others
SCRATCH_SIZE = 120  # u64, bytes of scratch for one wave
LAUNCH_SIZE = 128

# --- thread record
LAUNCH = 0  # address of the launch record
TABLE = 8  # address of the u64 that holds the address of the range table
LDS = 16  # address of the work-group's LDS
LDS_SIZE = 24  # u64
BUDGET = 32  # i64, backward branches left before the wave yields
INSTRUCTIONS = 40  # u64, executed
WAVE_COUNT = 48  # u64, started
FAULT = 56  # u64, a FAULT_* kind, 0 for none
FAULT_ADDRESS = 64
FAULT_ACCESS = 72  # READ, WRITE or EXECUTE
FAULT_PC = 80  # bytes from the code's entry
WAVES_AT = 88  # address of the first wave record
ACTIVE = 96  # u64, nonzero while a work-group is unfinished
SLICE = 104  # i64, yields left before Python is asked
SCRATCH = 112  # address of scratch of this thread's first wave
WAVE = 120  # address of the wave record that runs
SCRATCH_AT = 128  # address of scratch of the wave that runs
SHARED_APERTURE = 136  # high 32 bits of LDS addresses in flat instructions
PRIVATE_APERTURE = 144  # high 32 bits of scratch addresses in flat instructions
CODE = 152  # address of the kernel's entry
SEEN_TABLE = 160  # address of the range table that the ranges below were found in
STARTED = 168  # u64, tick of the 100 MHz counter when the launch began
STRICT_LDS = 176  # u64, nonzero: lanes outside LDS fault; else they read 0 and write nothing
BANKS = 184  # address of the constant banks, as the translator lays them out
FUNCTIONS = 192  # 94 function addresses
PRIVATE_START = 944  # strict libraries: the first address of a lane in scratch
PRIVATE_END = 952  # one past the last
RANGES = 960  # 64 x {u64 start, u64 end}: last range each access site used
ADDRESSES = 1984  # up to 64 u64: lane addresses of the access being made
STAGING = 2496  # 8 registers of 64 lanes
THREAD_SIZE = 2496 + 8 * 256
RANGE_COUNT = 64

# --- wave record
SCALARS = 0  # 128 words by operand code: SGPRs, vcc 106, ttmp 108, m0 125, exec 126
SCC = 512  # u32
RESUME = 516  # u32, bytes from the code's entry
STATUS = 520  # u32, a wave status below
JUMP = 528  # u64, where an indirect branch wants to go
VECTORS = 576  # registers of width words each

# what a kernel function returns, kept in STATUS
RUN, BARRIER, ENDED, JUMPED = 0, 1, 2, 3

# what `run` returns
DONE, SLICED, FAULTED, STOPPED, WANTS_CODE = 0, 1, 2, 3, 4

FAULT_MEMORY, FAULT_ILLEGAL, FAULT_LDS, FAULT_MISALIGNED, FAULT_PRIVATE = 1, 2, 3, 4, 5
FAULT_STUCK = 6  # lanes of one wave wait for each other
READ, WRITE, EXECUTE = 1, 2, 4

M0, NULL, EXEC, VCC = 125, 124, 126, 106
