"""Host: channel methods, pushbuffer and ring formats, USERD, doorbell.

Source: NVIDIA open-gpu-doc, classes/host/clc56f.h; open-gpu-kernel-modules,
src/common/sdk/nvidia/inc/class/clc86f.h, clc96f.h, clc361.h. Offsets are bytes.
"""

from enum import IntEnum

from hcq.bits import Layout

# One entry of the ring (GPFIFO), 8 bytes. Length 0 makes it a control entry.
GP_ENTRY = Layout("GP_ENTRY", 64, {
    "sync":   (63, 63),   # 1: wait until the entries before are fetched
    "length": (62, 42),   # words
    "level":  (41, 41),   # 1: subroutine
    "get_hi": (39, 32),   # address bits 39:32
    "get":    (31,  2),   # address bits 31:2
    "fetch":  ( 0,  0),   # 0: unconditional
})
GP_ENTRY_BYTES = 8
GP_CONTROL = Layout("GP_CONTROL", 64, {
    "length":  (62, 42),  # 0
    "opcode":  (39, 32),
    "operand": (31,  0),
})
GP_OPCODE_NOP = 0
GP_OPCODE_ILLEGAL = 1
GP_OPCODE_GP_CRC = 2
GP_OPCODE_PB_CRC = 3
GP_OPCODE_SET_PB_SEGMENT_EXTENDED_BASE = 4  # Hopper and later: operand 24:8 = address bits 56:40
MAX_SEGMENT_WORDS = (1 << 21) - 1

# A method header.
METHOD_HEADER = Layout("METHOD_HEADER", 32, {
    "sec_op":            (31, 29),
    "method_count":      (28, 16),   # words that follow; the data itself for SEC_OP_IMMEDIATE
    "method_subchannel": (15, 13),
    "method_address":    (11,  0),   # offset / 4
})
MAX_METHOD_COUNT = (1 << 13) - 1


class SecOp(IntEnum):
    """METHOD_HEADER.sec_op: how the words after a header are spread over methods."""

    GRP0              = 0  # old forms; a word of 0 does nothing
    INC_METHOD        = 1
    GRP2              = 2
    NON_INC_METHOD    = 3
    IMMD_DATA_METHOD  = 4
    ONE_INC           = 5
    END_PB_SEGMENT    = 7


# Methods below this offset belong to the host on every subchannel.
HOST_METHODS_END = 0x100

SET_OBJECT          = 0x0000
NOP                 = 0x0008
NON_STALL_INTERRUPT = 0x0020
MEM_OP_A            = 0x0028
MEM_OP_B            = 0x002C
MEM_OP_C            = 0x0030
MEM_OP_D            = 0x0034
SEM_ADDR_LO         = 0x005C
SEM_ADDR_HI         = 0x0060
SEM_PAYLOAD_LO      = 0x0064
SEM_PAYLOAD_HI      = 0x0068
SEM_EXECUTE         = 0x006C
WFI                 = 0x0078
YIELD               = 0x0080

SET_OBJECT_WORD = Layout("SET_OBJECT", 32, {
    "engine": (20, 16),
    "nvclass": (15, 0),
})
MEM_OP_C_WORD = Layout("MEM_OP_C", 32, {"membar_type": (2, 0)})
MEM_OP_D_WORD = Layout("MEM_OP_D", 32, {"operation": (31, 27)})
MEM_OP_MEMBAR = 5
MEM_OP_TLB_INVALIDATE = 9
MEM_OP_L2_PEER_INVALIDATE = 0xD
MEM_OP_L2_SYSMEM_INVALIDATE = 0xE
MEM_OP_L2_FLUSH_DIRTY = 0x10
MEM_OP_WAIT_SYS_READS = 0x15
MEMBAR_SYS = 0

SEM_EXECUTE_WORD = Layout("SEM_EXECUTE", 32, {
    "reduction_format":   (31, 31),
    "reduction":          (30, 27),
    "release_timestamp":  (25, 25),   # 16 bytes: payload, then nanoseconds at +8
    "payload_size":       (24, 24),   # 1: 64 bits
    "release_wfi":        (20, 20),
    "acquire_switch_tsg": (12, 12),
    "operation":          ( 2,  0),
})


class Operation(IntEnum):
    """SEM_EXECUTE.operation."""

    ACQUIRE         = 0  # ==
    RELEASE         = 1
    ACQ_STRICT_GEQ  = 2
    ACQ_CIRC_GEQ    = 3  # signed (memory - payload) >= 0 at the payload's width
    ACQ_AND         = 4  # (memory & payload) != 0
    ACQ_NOR         = 5  # ~(memory | payload) != 0
    REDUCTION       = 6


class Reduction(IntEnum):
    """SEM_EXECUTE.reduction."""

    IMIN = 0
    IMAX = 1
    IXOR = 2
    IAND = 3
    IOR  = 4
    IADD = 5
    INC  = 6
    DEC  = 7


WFI_WORD = Layout("WFI", 32, {"scope": (0, 0)})
WFI_SCOPE_ALL = 1

# USERD: one per channel, 512 bytes. The same on c56f and c86f.
USERD_BYTES = 512
USERD_PUT = 0x40
USERD_GET = 0x44
USERD_REFERENCE = 0x48
USERD_TOP_LEVEL_GET = 0x58
USERD_GET_HI = 0x60
USERD_GP_GET = 0x88  # written by the GPU, lazily
USERD_GP_PUT = 0x8C  # written by the host

# The user mode page (usermode classes c361 and later), 64 KiB.
USERMODE_BYTES = 0x10000
TIME_0 = 0x80  # nanoseconds, low
TIME_1 = 0x84
NOTIFY_CHANNEL_PENDING = 0x90  # the doorbell: write the work submit token

TOKEN = Layout("WORK_SUBMIT_TOKEN", 32, {
    "runlist_doorbell": (30, 30),  # Blackwell
    "runlist_id":       (22, 16),
    "channel_id":       (11,  0),
})
