"""Code objects: the kernel descriptor and the ELF numbers around it.

Source: LLVM, User Guide for AMDGPU Backend, "Code Object V3 Kernel Descriptor"
and "Header"; the machine numbers as LLVM 22 writes them.
"""

from hcq.bits import Layout

# 64 bytes, 64-byte aligned, at symbol `name.kd`; bit positions are byte offset * 8.
KERNEL_DESCRIPTOR = Layout("KERNEL_DESCRIPTOR", 512, {
    "kernarg_preload_spec_offset":     (479, 471),
    "kernarg_preload_spec_length":     (470, 464),
    "kernel_code_properties":          (463, 448),
    "compute_pgm_rsrc2":               (447, 416),
    "compute_pgm_rsrc1":               (415, 384),
    "compute_pgm_rsrc3":               (383, 352),
    "kernel_code_entry_byte_offset":   (191, 128),  # signed, from the descriptor to the code
    "kernarg_size":                    ( 95,  64),
    "private_segment_fixed_size":      ( 63,  32),
    "group_segment_fixed_size":        ( 31,   0),
})
KERNEL_DESCRIPTOR_SIZE = 64
ENTRY_OFFSET_AT = 16            # byte offset of kernel_code_entry_byte_offset

KERNEL_CODE_PROPERTIES = Layout("KERNEL_CODE_PROPERTIES", 16, {
    "uses_dynamic_stack":         (11, 11),
    "enable_wavefront_size32":    (10, 10),
    "enable_sgpr_private_segment_size":   (6, 6),   # 1 SGPR
    "enable_sgpr_flat_scratch_init":      (5, 5),   # 2 SGPRs
    "enable_sgpr_dispatch_id":            (4, 4),   # 2
    "enable_sgpr_kernarg_segment_ptr":    (3, 3),   # 2
    "enable_sgpr_queue_ptr":              (2, 2),   # 2
    "enable_sgpr_dispatch_ptr":           (1, 1),   # 2
    "enable_sgpr_private_segment_buffer": (0, 0),   # 4
})
# User SGPRs are filled from s0 in this order; the value is how many registers each takes.
USER_SGPR_ORDER = {
    "enable_sgpr_private_segment_buffer": 4,
    "enable_sgpr_dispatch_ptr":           2,
    "enable_sgpr_queue_ptr":              2,
    "enable_sgpr_kernarg_segment_ptr":    2,
    "enable_sgpr_dispatch_id":            2,
    "enable_sgpr_flat_scratch_init":      2,
    "enable_sgpr_private_segment_size":   1,
}

ELFOSABI_AMDGPU_HSA     = 64
# ABI version byte -> code object version
ABI_VERSIONS            = {2: 4, 3: 5, 4: 6}
MACHINES = {
    0x30: "gfx908",  0x3F: "gfx90a",  0x4C: "gfx942",  0x4F: "gfx950",
    0x36: "gfx1030", 0x41: "gfx1100", 0x46: "gfx1101", 0x47: "gfx1102", 0x44: "gfx1103",
    0x4A: "gfx1151", 0x48: "gfx1200", 0x4E: "gfx1201", 0x49: "gfx1250",
}  # fmt: skip
ELF_FLAGS = Layout("EF_AMDGPU", 32, {
    "sramecc": (11, 10),
    "xnack":   ( 9,  8),
    "mach":    ( 7,  0),
})
FEATURE_UNSUPPORTED, FEATURE_ANY, FEATURE_OFF, FEATURE_ON = 0, 1, 2, 3

NOTE_OWNER              = "AMDGPU"
NT_AMDGPU_METADATA      = 32

# Relocations that LLVM emits into code objects.
R_AMDGPU_NONE           = 0
R_AMDGPU_ABS32_LO       = 1
R_AMDGPU_ABS32_HI       = 2
R_AMDGPU_ABS64          = 3
R_AMDGPU_REL32          = 4
R_AMDGPU_REL64          = 5
R_AMDGPU_ABS32          = 6
R_AMDGPU_GOTPCREL32_LO  = 8
R_AMDGPU_GOTPCREL32_HI  = 9
R_AMDGPU_REL32_LO       = 10
R_AMDGPU_REL32_HI       = 11
R_AMDGPU_RELATIVE64     = 13

CODE_ALIGNMENT          = 256
DESCRIPTOR_ALIGNMENT    = 64
BYTES_AFTER_CODE        = 256   # instruction prefetch may read past the end
LDS_GRANULE             = 512   # bytes per unit of RSRC2.lds_size
# Source: LLVM AMDGPUUsage, compute_pgm_rsrc1 GRANULATED_WORKITEM_VGPR_COUNT, gfx10 to gfx12.
REGISTER_GRANULES       = {32: 8, 64: 4}  # by wave size

# Hidden kernel arguments of code objects v5 and v6, by offset from the first of them.
HIDDEN_ARGUMENTS = {
    "hidden_block_count_x":  (0, 4),   "hidden_block_count_y":  (4, 4),
    "hidden_block_count_z":  (8, 4),   "hidden_group_size_x":   (12, 2),
    "hidden_group_size_y":   (14, 2),  "hidden_group_size_z":   (16, 2),
    "hidden_remainder_x":    (18, 2),  "hidden_remainder_y":    (20, 2),
    "hidden_remainder_z":    (22, 2),  "hidden_global_offset_x": (40, 8),
    "hidden_global_offset_y": (48, 8), "hidden_global_offset_z": (56, 8),
    "hidden_grid_dims":      (64, 2),  "hidden_dynamic_lds_size": (120, 4),
}  # fmt: skip
