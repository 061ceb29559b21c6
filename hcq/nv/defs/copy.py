"""Copy engine methods (DMA copy classes c6b5 to cab5).

Source: NVIDIA open-gpu-doc, classes/dma-copy/clc6b5.h, clc7b5.h, clc8b5.h, clc9b5.h,
clcab5.h.
"""

from hcq.bits import Layout

SET_OBJECT              = 0x0000
NOP                     = 0x0100
SET_SEMAPHORE_A         = 0x0240  # address, upper
SET_SEMAPHORE_B         = 0x0244
SET_SEMAPHORE_PAYLOAD   = 0x0248
SET_SEMAPHORE_PAYLOAD_UPPER = 0x024C
SET_SRC_PHYS_MODE       = 0x0260
SET_DST_PHYS_MODE       = 0x0264
LAUNCH_DMA              = 0x0300
OFFSET_IN_UPPER         = 0x0400
OFFSET_IN_LOWER         = 0x0404
OFFSET_OUT_UPPER        = 0x0408
OFFSET_OUT_LOWER        = 0x040C
PITCH_IN                = 0x0410
PITCH_OUT               = 0x0414
LINE_LENGTH_IN          = 0x0418
LINE_COUNT              = 0x041C
SET_REMAP_CONST_A       = 0x0700
SET_REMAP_CONST_B       = 0x0704
SET_REMAP_COMPONENTS    = 0x0708

LAUNCH_DMA_WORD = Layout("LAUNCH_DMA", 32, {
    "semaphore_payload_size":     (27, 27),  # 1: two words (c8b5 and later)
    "disable_plc":                (26, 26),
    "flush_type":                 (25, 25),
    "memory_scrub_enable":        (23, 23),
    "vprmode":                    (22, 22),
    "copy_type":                  (21, 20),
    "semaphore_reduction_enable": (19, 19),
    "semaphore_reduction_sign":   (18, 18),
    "semaphore_reduction":        (17, 14),
    "dst_type":                   (13, 13),  # 1: physical
    "src_type":                   (12, 12),
    "remap_enable":               (10, 10),
    "multi_line_enable":          ( 9,  9),
    "dst_memory_layout":          ( 8,  8),  # 1: pitch
    "src_memory_layout":          ( 7,  7),
    "interrupt_type":             ( 6,  5),
    "semaphore_type":             ( 4,  3),
    "flush_enable":               ( 2,  2),
    "data_transfer_type":         ( 1,  0),
})
TRANSFER_NONE = 0
TRANSFER_PIPELINED = 1
TRANSFER_NON_PIPELINED = 2
SEMAPHORE_NONE = 0
SEMAPHORE_ONE_WORD = 1
SEMAPHORE_FOUR_WORD = 2  # payload (u32, or u64 with payload_size), nanoseconds at +8
FLUSH_SYS = 0
FLUSH_GL = 1
PITCH = 1

REMAP_COMPONENTS_WORD = Layout("SET_REMAP_COMPONENTS", 32, {
    "num_dst_components": (25, 24),  # count - 1
    "num_src_components": (21, 20),
    "component_size":     (17, 16),  # bytes - 1
    "dst_w":              (14, 12),
    "dst_z":              (10,  8),
    "dst_y":              ( 6,  4),
    "dst_x":              ( 2,  0),
})
REMAP_CONST_A = 4
REMAP_CONST_B = 5
REMAP_NO_WRITE = 6

# Largest LINE_LENGTH_IN used: 2 GiB - 4 KiB is below every class's 32-bit field.
MAX_LINE_BYTES = (1 << 31) - 4096
