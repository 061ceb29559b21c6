"""SDMA: the packets of copy queues, generation 6.0 (gfx11).

Source: AMD sdma_v6_0_0_pkt_open.h in Linux drivers/gpu/drm/amd/amdgpu. The ring
counts bytes; words of zero are NOPs of one word; no packet crosses the ring end.
"""

from enum import IntEnum

from hcq.bits import Layout


class Op(IntEnum):
    """Header bits 7:0."""

    NOP         = 0
    COPY        = 1
    WRITE       = 2
    INDIRECT    = 4
    FENCE       = 5
    TRAP        = 6
    SEM         = 7
    POLL_REGMEM = 8
    COND_EXE    = 9
    ATOMIC      = 10
    CONST_FILL  = 11
    PTEPDE      = 12
    TIMESTAMP   = 13
    SRBM_WRITE  = 14
    PRE_EXE     = 15
    GPUVM_INV   = 16
    GCR_REQ     = 17
    DUMMY_TRAP  = 32


SUBOP_COPY_LINEAR       = 0
SUBOP_WRITE_LINEAR      = 0
SUBOP_TIMESTAMP_GET_GLOBAL = 2
SUBOP_USER_GCR          = 1

HEADER = Layout("SDMA_HEADER", 32, {
    "sub_op": (15, 8),
    "op":     ( 7, 0),
})

# COPY LINEAR, 7 words: header, count - 1, parameters, source low, high, destination low, high.
COPY_LINEAR_HEADER = Layout("SDMA_COPY_LINEAR_HEADER", 32, {
    "broadcast": (27, 27),
    "backwards": (25, 25),
    "cpv":       (19, 19),
    "tmz":       (18, 18),
    "encrypt":   (16, 16),
    "sub_op":    (15,  8),
    "op":        ( 7,  0),
})
COPY_LINEAR_COUNT = Layout("SDMA_COPY_LINEAR_COUNT", 32, {"count": (29, 0)})
COPY_LINEAR_PARAMETER = Layout("SDMA_COPY_LINEAR_PARAMETER", 32, {
    "src_sw": (25, 24),
    "dst_sw": (17, 16),
})
COPY_LINEAR_WORDS = 7

# WRITE UNTILED: header, destination low and high, count - 1, data...
WRITE_COUNT = Layout("SDMA_WRITE_COUNT", 32, {"count": (19, 0)})

# CONST_FILL, 5 words: header, destination low and high, value, count.
# For dwords the count is (dwords - 1) * 4; for bytes it is bytes - 1.
CONST_FILL_HEADER = Layout("SDMA_CONST_FILL_HEADER", 32, {
    "fillsize": (31, 30),       # 0 byte, 2 dword
    "sw":       (17, 16),
    "sub_op":   (15,  8),
    "op":       ( 7,  0),
})
CONST_FILL_COUNT = Layout("SDMA_CONST_FILL_COUNT", 32, {"count": (29, 0)})
FILL_BYTE, FILL_DWORD = 0, 2
CONST_FILL_WORDS = 5

# FENCE, 4 words: header, address low and high, 32-bit data.
FENCE_HEADER = Layout("SDMA_FENCE_HEADER", 32, {
    "l2_policy": (25, 24),
    "gpa":       (23, 23),
    "snp":       (22, 22),
    "sys":       (20, 20),
    "gcc":       (19, 19),
    "mtype":     (18, 16),
    "sub_op":    (15,  8),
    "op":        ( 7,  0),
})
MTYPE_UNCACHED = 3
FENCE_WORDS = 4

# POLL_REGMEM, 6 words: header, address low and high, reference, mask, interval and retries.
POLL_REGMEM_HEADER = Layout("SDMA_POLL_REGMEM_HEADER", 32, {
    "mem_poll":  (31, 31),
    "func":      (30, 28),      # as WAIT_REG_MEM
    "hdp_flush": (26, 26),
    "sub_op":    (15,  8),
    "op":        ( 7,  0),
})
POLL_REGMEM_RETRY = Layout("SDMA_POLL_REGMEM_RETRY", 32, {
    "retry_count": (27, 16),    # 0xfff: forever
    "interval":    (15,  0),
})
POLL_EQUAL, POLL_GREATER_EQUAL = 3, 5
POLL_RETRY_FOREVER = 0xFFF
POLL_INTERVAL = 10
POLL_REGMEM_WORDS = 6

# TRAP, 2 words: header, interrupt context (the event id).
TRAP_CONTEXT = Layout("SDMA_TRAP_CONTEXT", 32, {"int_context": (27, 0)})
TRAP_WORDS = 2

# TIMESTAMP GET GLOBAL, 3 words: header, address low and high; writes the 64-bit 100 MHz counter.
TIMESTAMP_WORDS = 3

# ATOMIC, 8 words: header, address, source, compare, interval.
ATOMIC_HEADER = Layout("SDMA_ATOMIC_HEADER", 32, {
    "atomic_op": (31, 25),
    "loop":      (16, 16),
    "sub_op":    (15,  8),
    "op":        ( 7,  0),
})
ATOMIC_ADD_64 = 47
ATOMIC_WORDS = 8

# INDIRECT, 6 words: header, base low (32-byte aligned) and high, size in words, CSA low and high.
# Must end on an 8-word boundary of the ring.
INDIRECT_HEADER = Layout("SDMA_INDIRECT_HEADER", 32, {
    "vmid":   (19, 16),
    "sub_op": (15,  8),
    "op":     ( 7,  0),
})
INDIRECT_SIZE = Layout("SDMA_INDIRECT_SIZE", 32, {"ib_size": (19, 0)})
INDIRECT_WORDS = 6
INDIRECT_BASE_ALIGNMENT = 32
INDIRECT_END_ALIGNMENT_WORDS = 8

# NOP: the count of words after the header that are skipped.
NOP_HEADER = Layout("SDMA_NOP_HEADER", 32, {
    "count":  (29, 16),
    "sub_op": (15,  8),
    "op":     ( 7,  0),
})

# GCR_REQ (sub 1), 5 words. gcr_control has the fields of PM4's GCR_CNTL, 19 bits cut in two.
GCR_BASE_LOW = Layout("SDMA_GCR_1", 32, {"base_va_31_7": (31, 7)})
GCR_BASE_HIGH = Layout("SDMA_GCR_2", 32, {
    "gcr_control_15_0": (31, 16),
    "base_va_47_32":    (15,  0),
})
GCR_LIMIT_LOW = Layout("SDMA_GCR_3", 32, {
    "limit_va_31_7":     (31, 7),
    "gcr_control_18_16": ( 2, 0),
})
GCR_LIMIT_HIGH = Layout("SDMA_GCR_4", 32, {
    "vmid":           (27, 24),
    "limit_va_47_32": (15,  0),
})
GCR_WORDS = 5
