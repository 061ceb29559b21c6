"""Compute registers of the shader window, as dword addresses, and their fields.

Source: Linux drivers/gpu/drm/amd/include/asic_reg/gc/gc_11_0_0_{offset,sh_mask}.h;
equal on gfx9.4.3, 11.0 and 12.0 where nothing else is said. Addresses are what
SET_SH_REG takes plus its window base.
"""

from hcq.bits import Layout

COMPUTE_DISPATCH_INITIATOR    = 0x2E00
COMPUTE_DIM_X                 = 0x2E01
COMPUTE_DIM_Y                 = 0x2E02
COMPUTE_DIM_Z                 = 0x2E03
COMPUTE_START_X               = 0x2E04
COMPUTE_START_Y               = 0x2E05
COMPUTE_START_Z               = 0x2E06
COMPUTE_NUM_THREAD_X          = 0x2E07
COMPUTE_NUM_THREAD_Y          = 0x2E08
COMPUTE_NUM_THREAD_Z          = 0x2E09
COMPUTE_PIPELINESTAT_ENABLE   = 0x2E0A
COMPUTE_PERFCOUNT_ENABLE      = 0x2E0B
COMPUTE_PGM_LO                = 0x2E0C  # address >> 8
COMPUTE_PGM_HI                = 0x2E0D
COMPUTE_DISPATCH_PKT_ADDR_LO  = 0x2E0E
COMPUTE_DISPATCH_PKT_ADDR_HI  = 0x2E0F
COMPUTE_DISPATCH_SCRATCH_BASE_LO = 0x2E10  # address >> 8; gfx11 on
COMPUTE_DISPATCH_SCRATCH_BASE_HI = 0x2E11
COMPUTE_PGM_RSRC1             = 0x2E12
COMPUTE_PGM_RSRC2             = 0x2E13
COMPUTE_VMID                  = 0x2E14
COMPUTE_RESOURCE_LIMITS       = 0x2E15
COMPUTE_STATIC_THREAD_MGMT_SE0 = 0x2E16
COMPUTE_STATIC_THREAD_MGMT_SE1 = 0x2E17
COMPUTE_TMPRING_SIZE          = 0x2E18
COMPUTE_STATIC_THREAD_MGMT_SE2 = 0x2E19
COMPUTE_STATIC_THREAD_MGMT_SE3 = 0x2E1A
COMPUTE_RESTART_X             = 0x2E1B
COMPUTE_RESTART_Y             = 0x2E1C
COMPUTE_RESTART_Z             = 0x2E1D
COMPUTE_THREAD_TRACE_ENABLE   = 0x2E1E
COMPUTE_MISC_RESERVED         = 0x2E1F
COMPUTE_DISPATCH_ID           = 0x2E20
COMPUTE_THREADGROUP_ID        = 0x2E21
COMPUTE_PGM_RSRC3             = 0x2E28  # gfx10 on; 0x2e2d on gfx90a and gfx9.4.3
COMPUTE_STATIC_THREAD_MGMT_SE4 = 0x2E2B  # gfx11 on
COMPUTE_STATIC_THREAD_MGMT_SE5 = 0x2E2C
COMPUTE_STATIC_THREAD_MGMT_SE6 = 0x2E2D
COMPUTE_STATIC_THREAD_MGMT_SE7 = 0x2E2E
COMPUTE_DISPATCH_INTERLEAVE   = 0x2E2F
COMPUTE_USER_DATA_0           = 0x2E40
COMPUTE_USER_DATA_COUNT       = 16

DISPATCH_INITIATOR = Layout("COMPUTE_DISPATCH_INITIATOR", 32, {
    "amp_shader_en":         (16, 16),
    "cs_w32_en":             (15, 15),
    "restore":               (14, 14),
    "tunnel_enable":         (13, 13),
    "vector_l1_inv_vol":     (11, 11),
    "scalar_l1_inv_vol":     (10, 10),
    "order_mode":            ( 6,  6),
    "use_thread_dimensions": ( 5,  5),
    "ordered_append_enbl":   ( 3,  3),
    "force_start_at_000":    ( 2,  2),
    "partial_tg_en":         ( 1,  1),
    "compute_shader_en":     ( 0,  0),
})
NUM_THREAD = Layout("COMPUTE_NUM_THREAD", 32, {
    "num_thread_partial": (31, 16),
    "num_thread_full":    (15,  0),
})
RSRC1 = Layout("COMPUTE_PGM_RSRC1", 32, {
    "fwd_progress":         (31, 31),  # gfx10 on, as the next two
    "mem_ordered":          (30, 30),
    "wgp_mode":             (29, 29),
    "fp16_ovfl":            (26, 26),
    "bulky":                (24, 24),
    "ieee_mode":            (23, 23),
    "debug_mode":           (22, 22),
    "dx10_clamp":           (21, 21),
    "priv":                 (20, 20),
    "float_denorm_16_64":   (19, 18),
    "float_denorm_32":      (17, 16),
    "float_round_16_64":    (15, 14),
    "float_round_32":       (13, 12),
    "priority":             (11, 10),
    "sgprs":                ( 9,  6),  # 0 from gfx10 on
    "vgprs":                ( 5,  0),  # granules - 1
})
RSRC2 = Layout("COMPUTE_PGM_RSRC2", 32, {
    "excp_en":        (30, 24),
    "lds_size":       (23, 15),        # 512-byte units
    "excp_en_msb":    (14, 13),
    "tidig_comp_cnt": (12, 11),
    "tg_size_en":     (10, 10),
    "tgid_z_en":      ( 9,  9),
    "tgid_y_en":      ( 8,  8),
    "tgid_x_en":      ( 7,  7),
    "trap_present":   ( 6,  6),
    "user_sgpr":      ( 5,  1),
    "scratch_en":     ( 0,  0),
})
RSRC3 = Layout("COMPUTE_PGM_RSRC3", 32, {
    "image_op":        (31, 31),       # gfx11
    "trap_on_end":     (11, 11),
    "trap_on_start":   (10, 10),
    "inst_pref_size":  ( 9,  4),
    "shared_vgpr_cnt": ( 3,  0),
})
# Unit of wavesize: 256 bytes on gfx11.
TMPRING_SIZE = Layout("COMPUTE_TMPRING_SIZE", 32, {
    "wavesize": (26, 12),
    "waves":    (11,  0),
})
RESOURCE_LIMITS = Layout("COMPUTE_RESOURCE_LIMITS", 32, {
    "cu_group_count":  (26, 24),
    "force_simd_dist": (23, 23),
    "simd_dest_cntl":  (22, 22),
    "lock_threshold":  (21, 16),
    "tg_per_cu":       (15, 12),
    "waves_per_sh":    ( 9,  0),
})
