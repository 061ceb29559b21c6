"""PM4: the command packets of compute queues.

Source: Linux drivers/gpu/drm/amd/amdgpu/{soc15d.h,nvd.h} (headers and opcodes),
drivers/gpu/drm/amd/amdkfd/kfd_pm4_headers_ai.h (packet fields), and the GFX10 and
GFX11 packet descriptions of AMD's open-source user-mode drivers.
Word counts are of a whole packet; the header's `count` is words after it, less one.
"""

from enum import IntEnum

from hcq.bits import Layout

HEADER = Layout("PM4_TYPE3", 32, {
    "type":        (31, 30),
    "count":       (29, 16),
    "opcode":      (15,  8),
    "shader_type": ( 1,  1),
    "predicate":   ( 0,  0),
})
TYPE3 = 3
TYPE2_FILLER = 0x8000_0000      # a one-word packet of no effect
NOP_ONE_WORD_COUNT = 0x3FFF     # a NOP with this count is one word long
SHADER_TYPE_COMPUTE = 1


class Opcode(IntEnum):
    """Type 3 opcodes of a compute queue."""

    NOP              = 0x10
    SET_BASE         = 0x11
    CLEAR_STATE      = 0x12
    DISPATCH_DIRECT  = 0x15
    DISPATCH_INDIRECT = 0x16
    ATOMIC_MEM       = 0x1E
    COND_EXEC        = 0x22
    PRED_EXEC        = 0x23
    WRITE_DATA       = 0x37
    WAIT_REG_MEM     = 0x3C
    INDIRECT_BUFFER  = 0x3F
    COPY_DATA        = 0x40
    EVENT_WRITE      = 0x46
    RELEASE_MEM      = 0x49
    DMA_DATA         = 0x50
    ACQUIRE_MEM      = 0x58
    SET_CONFIG_REG   = 0x68
    SET_CONTEXT_REG  = 0x69
    SET_SH_REG       = 0x76
    SET_UCONFIG_REG  = 0x79
    WAIT_REG_MEM64   = 0x93


# Register windows of the SET_*_REG packets, in dword addresses: the first word is address - base.
SH_BASE       = 0x2C00
SH_END        = 0x3000
UCONFIG_BASE  = 0xC000
UCONFIG_END   = 0x10000

SET_REG_OFFSET = Layout("SET_REG", 32, {
    "index":      (31, 28),
    "reg_offset": (15,  0),
})

# INDIRECT_BUFFER: address low (4-byte aligned), address high, then this word.
INDIRECT_BUFFER_HIGH = Layout("INDIRECT_BUFFER_HIGH", 32, {"ib_base_hi": (15, 0)})
INDIRECT_BUFFER_CONTROL = Layout("INDIRECT_BUFFER_CONTROL", 32, {
    "vmid":    (27, 24),
    "valid":   (23, 23),
    "chain":   (20, 20),
    "ib_size": (19,  0),        # words
})

# ACQUIRE_MEM, gfx10 on: 0, size low, size high, base low, base high, poll interval, GCR_CNTL.
# Size and base count 256-byte units; all memory is size ~0.
ACQUIRE_MEM_SIZE_HIGH = Layout("ACQUIRE_MEM_SIZE_HIGH", 32, {"coher_size_hi": (7, 0)})
ACQUIRE_MEM_BASE_HIGH = Layout("ACQUIRE_MEM_BASE_HIGH", 32, {"coher_base_hi": (23, 0)})
ACQUIRE_MEM_POLL_INTERVAL = 0xA
ACQUIRE_MEM_GCR = Layout("ACQUIRE_MEM_GCR_CNTL", 32, {
    "range_is_pa": (18, 18),
    "seq":         (17, 16),
    "gl2_wb":      (15, 15),
    "gl2_inv":     (14, 14),
    "gl2_discard": (13, 13),
    "gl2_range":   (12, 11),
    "gl2_us":      (10, 10),
    "gl1_inv":     ( 9,  9),
    "glv_inv":     ( 8,  8),
    "glk_inv":     ( 7,  7),
    "glk_wb":      ( 6,  6),
    "glm_inv":     ( 5,  5),
    "glm_wb":      ( 4,  4),
    "gl1_range":   ( 3,  2),
    "gli_inv":     ( 1,  0),    # 1: all
})

# RELEASE_MEM: event word, select word, address low and high, data low and high, interrupt context.
RELEASE_MEM_EVENT = Layout("RELEASE_MEM_EVENT", 32, {
    "execute":      (28, 28),
    "cache_policy": (26, 25),
    "seq":          (23, 22),
    "gl2_wb":       (21, 21),
    "gl2_inv":      (20, 20),
    "gl2_discard":  (19, 19),
    "gl2_range":    (18, 17),
    "gl2_us":       (16, 16),
    "gl1_inv":      (15, 15),
    "glv_inv":      (14, 14),
    "glm_inv":      (13, 13),
    "glm_wb":       (12, 12),
    "event_index":  (11,  8),
    "event_type":   ( 5,  0),
})
RELEASE_MEM_SELECT = Layout("RELEASE_MEM_SELECT", 32, {
    "data_sel": (31, 29),
    "int_sel":  (26, 24),
    "dst_sel":  (17, 16),
})
RELEASE_MEM_CONTEXT = Layout("RELEASE_MEM_CONTEXT", 32, {"int_ctxid": (27, 0)})

EVENT_CS_PARTIAL_FLUSH       = 0x07
EVENT_CACHE_FLUSH_AND_INV_TS = 0x14
EVENT_BOTTOM_OF_PIPE_TS      = 0x28
EVENT_INDEX_CS_PARTIAL_FLUSH = 4
EVENT_INDEX_END_OF_PIPE      = 5
EVENT_INDEX_SHADER_DONE      = 6
RELEASE_DST_MEMORY           = 0
RELEASE_DST_L2               = 1
RELEASE_INT_NONE             = 0
RELEASE_INT_ONLY             = 1
RELEASE_INT_AFTER_WRITE      = 2
RELEASE_INT_DATA_AFTER_WRITE = 3
RELEASE_DATA_NONE            = 0
RELEASE_DATA_32              = 1
RELEASE_DATA_64              = 2
RELEASE_DATA_GPU_CLOCK       = 3    # the 100 MHz counter
RELEASE_DATA_CP_PERF         = 4

# WAIT_REG_MEM: control, address low (or register), address high (or second register),
# reference, mask, poll interval. Compares (value & mask) with reference, 32 bits unsigned.
WAIT_REG_MEM_CONTROL = Layout("WAIT_REG_MEM_CONTROL", 32, {
    "engine":    (8, 8),
    "operation": (7, 6),
    "mem_space": (5, 4),
    "function":  (2, 0),
})
WAIT_REG_MEM_POLL = Layout("WAIT_REG_MEM_POLL", 32, {"poll_interval": (15, 0)})
WAIT_ALWAYS, WAIT_LESS, WAIT_LESS_EQUAL, WAIT_EQUAL = 0, 1, 2, 3
WAIT_NOT_EQUAL, WAIT_GREATER_EQUAL, WAIT_GREATER    = 4, 5, 6
WAIT_SPACE_REGISTER, WAIT_SPACE_MEMORY = 0, 1
WAIT_OPERATION_WAIT, WAIT_OPERATION_WRITE_WAIT_WRITE = 0, 1
WAIT_POLL_INTERVAL = 4

# WRITE_DATA: control, address low, address high, data...
WRITE_DATA_CONTROL = Layout("WRITE_DATA_CONTROL", 32, {
    "cache_policy": (26, 25),
    "wr_confirm":   (20, 20),
    "addr_incr":    (16, 16),   # 1: do not increment
    "dst_sel":      (11,  8),
})
WRITE_DST_REGISTER, WRITE_DST_L2, WRITE_DST_MEMORY = 0, 2, 5

# COPY_DATA: control, source low and high, destination low and high.
COPY_DATA_CONTROL = Layout("COPY_DATA_CONTROL", 32, {
    "wr_confirm": (20, 20),
    "count_sel":  (16, 16),     # 1: 64 bits
    "dst_sel":    (11,  8),
    "src_sel":    ( 3,  0),
})
COPY_REGISTER, COPY_MEMORY, COPY_PERF, COPY_IMMEDIATE = 0, 2, 4, 5
COPY_ATOMIC_RETURN, COPY_GPU_CLOCK, COPY_SYSTEM_CLOCK = 6, 9, 10

EVENT_WRITE_CONTROL = Layout("EVENT_WRITE", 32, {
    "event_index": (11, 8),
    "event_type":  ( 5, 0),
})

# DMA_DATA: control, source low and high (or data), destination low and high, command.
DMA_DATA_CONTROL = Layout("DMA_DATA_CONTROL", 32, {
    "cp_sync": (31, 31),
    "src_sel": (30, 29),        # 0 address, 2 data, 3 address through L2
    "dst_sel": (21, 20),        # 0 address, 3 address through L2
})
DMA_DATA_COMMAND = Layout("DMA_DATA_COMMAND", 32, {
    "dis_wc":     (31, 31),
    "raw_wait":   (30, 30),
    "byte_count": (25,  0),
})
DMA_SRC_ADDRESS, DMA_SRC_DATA, DMA_ADDRESS_L2 = 0, 2, 3

PRED_EXEC_CONTROL = Layout("PRED_EXEC", 32, {
    "device_select": (31, 24),  # XCC mask
    "exec_count":    (13,  0),
})
