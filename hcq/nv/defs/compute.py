"""Compute class methods: offsets and the words they take.

Source: NVIDIA open-gpu-doc, classes/compute/clc6c0.h, clc7c0.h, clc9c0.h, clcbc0.h,
clcdc0.h, clcec0.h. The offsets are the same in all of these classes; the
SET_REPORT_SEMAPHORE methods at 0x158 are not on c6c0.
"""

from hcq.bits import Layout

SET_OBJECT                            = 0x0000
NO_OPERATION                          = 0x0100
WAIT_FOR_IDLE                         = 0x0110
PM_TRIGGER                            = 0x0140
SET_REPORT_SEMAPHORE_PAYLOAD_LOWER    = 0x0158
SET_REPORT_SEMAPHORE_PAYLOAD_UPPER    = 0x015C
SET_REPORT_SEMAPHORE_ADDRESS_LOWER    = 0x0160
SET_REPORT_SEMAPHORE_ADDRESS_UPPER    = 0x0164
REPORT_SEMAPHORE_EXECUTE              = 0x0168
LINE_LENGTH_IN                        = 0x0180
LINE_COUNT                            = 0x0184
OFFSET_OUT_UPPER                      = 0x0188
OFFSET_OUT                            = 0x018C
LAUNCH_DMA                            = 0x01B0
LOAD_INLINE_DATA                      = 0x01B4
INVALIDATE_SHADER_CACHES              = 0x021C
INVALIDATE_TEXTURE_HEADER_CACHE_NO_WFI = 0x0244
SET_CWD_REF_COUNTER                   = 0x0248
SET_COMPUTE_CLASS_VERSION             = 0x0280
CHECK_COMPUTE_CLASS_VERSION           = 0x0284
SET_QMD_VERSION                       = 0x0288
INVALIDATE_SKED_CACHES                = 0x0298
SET_SHADER_SHARED_MEMORY_WINDOW_A     = 0x02A0
SET_SHADER_SHARED_MEMORY_WINDOW_B     = 0x02A4
SEND_PCAS_A                           = 0x02B4
SEND_SIGNALING_PCAS_B                 = 0x02BC
SEND_SIGNALING_PCAS2_B                = 0x02C0
SET_SKED_CACHE_CONTROL                = 0x02CC
SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A = 0x02E4
SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_B = 0x02E8
SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_C = 0x02EC
SET_INLINE_QMD_ADDRESS_A              = 0x0318
SET_INLINE_QMD_ADDRESS_B              = 0x031C
LOAD_INLINE_QMD_DATA                  = 0x0320
SET_SHADER_LOCAL_MEMORY_A             = 0x0790
SET_SHADER_LOCAL_MEMORY_B             = 0x0794
SET_SHADER_LOCAL_MEMORY_WINDOW_A      = 0x07B0
SET_SHADER_LOCAL_MEMORY_WINDOW_B      = 0x07B4
INVALIDATE_TEXTURE_DATA_CACHE_NO_WFI  = 0x1288
INVALIDATE_SAMPLER_CACHE_NO_WFI       = 0x1424
INVALIDATE_SHADER_CACHES_NO_WFI       = 0x1698
SET_REPORT_SEMAPHORE_A                = 0x1B00
SET_REPORT_SEMAPHORE_B                = 0x1B04
SET_REPORT_SEMAPHORE_C                = 0x1B08
SET_REPORT_SEMAPHORE_D                = 0x1B0C

SET_OBJECT_WORD = Layout("SET_OBJECT", 32, {
    "engine_id": (20, 16),
    "class_id":  (15,  0),
})

# Inline to memory: length, destination, LAUNCH_DMA, then the data.
LAUNCH_DMA_WORD = Layout("LAUNCH_DMA", 32, {
    "semaphore_struct_size": (12, 12),
    "interrupt_type":        ( 9,  8),
    "sysmembar_disable":     ( 6,  6),
    "completion_type":       ( 5,  4),
    "dst_memory_layout":     ( 0,  0),
})
DST_PITCH = 1
COMPLETION_FLUSH_DISABLE = 0
COMPLETION_FLUSH_ONLY = 1
COMPLETION_RELEASE_SEMAPHORE = 2

INVALIDATE_SHADER_CACHES_WORD = Layout("INVALIDATE_SHADER_CACHES", 32, {
    "constant":    (12, 12),
    "data":        ( 4,  4),
    "flush_data":  ( 2,  2),
    "locks":       ( 1,  1),
    "instruction": ( 0,  0),
})
INVALIDATE_SHADER_CACHES_NO_WFI_WORD = Layout("INVALIDATE_SHADER_CACHES_NO_WFI", 32, {
    "constant":    (12, 12),
    "global_data": ( 4,  4),
    "instruction": ( 0,  0),
})
SEND_PCAS_A_WORD = Layout("SEND_PCAS_A", 32, {"qmd_address_shifted8": (31, 0)})
QMD_ADDRESS_SHIFT = 8
SEND_SIGNALING_PCAS2_B_WORD = Layout("SEND_SIGNALING_PCAS2_B", 32, {"pcas_action": (3, 0)})
PCAS_NOP = 0
PCAS_INVALIDATE = 1
PCAS_SCHEDULE = 2
PCAS_INVALIDATE_COPY_SCHEDULE = 3
PCAS_PREFETCH = 8
PCAS_PREFETCH_SCHEDULE = 9
PCAS_INVALIDATE_PREFETCH_COPY_SCHEDULE = 0xA

NON_THROTTLED_C_WORD = Layout("SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_C", 32, {
    "max_sm_count": (8, 0),
})
REPORT_SEMAPHORE_D_WORD = Layout("SET_REPORT_SEMAPHORE_D", 32, {
    "structure_size": (28, 28),  # 0: four words, payload and time; 1: one word
    "flush_disable":  ( 2,  2),
    "operation":      ( 1,  0),  # 0: release
})
QMD_VERSION_WORD = Layout("SET_QMD_VERSION", 32, {
    "oldest_supported_version": (31, 16),
    "current_version":          (15,  0),
})
# Bytes of local memory per TPC are a multiple of this.
LOCAL_BYTES_GRANULE = 0x8000
