"""Encodings: where the bits of every instruction format lie.

Bit 0 is the low bit of the first word; 64-bit formats run on into the second.
A literal or DPP word follows the instruction and is not part of these tables.

Source: AMD "RDNA3" Instruction Set Architecture, section 15 "Microcode Formats".
"""

from hcq.bits import Layout

SOP2 = Layout("SOP2", 32, {
    "op":     (29, 23),
    "sdst":   (22, 16),
    "ssrc1":  (15,  8),
    "ssrc0":  ( 7,  0),
})

SOPK = Layout("SOPK", 32, {
    "op":     (27, 23),
    "sdst":   (22, 16),
    "simm16": (15,  0),
})

SOP1 = Layout("SOP1", 32, {
    "sdst":   (22, 16),
    "op":     (15,  8),
    "ssrc0":  ( 7,  0),
})

SOPC = Layout("SOPC", 32, {
    "op":     (22, 16),
    "ssrc1":  (15,  8),
    "ssrc0":  ( 7,  0),
})

SOPP = Layout("SOPP", 32, {
    "op":     (22, 16),
    "simm16": (15,  0),
})

SMEM = Layout("SMEM", 64, {
    "soffset": (63, 57),
    "offset":  (52, 32),
    "op":      (25, 18),
    "glc":     (14, 14),
    "dlc":     (13, 13),
    "sdata":   (12,  6),
    "sbase":   ( 5,  0),  # counts register pairs
})

VOP1 = Layout("VOP1", 32, {
    "vdst":   (24, 17),
    "op":     (16,  9),
    "src0":   ( 8,  0),
})

VOP2 = Layout("VOP2", 32, {
    "op":     (30, 25),
    "vdst":   (24, 17),
    "vsrc1":  (16,  9),
    "src0":   ( 8,  0),
})

VOPC = Layout("VOPC", 32, {
    "op":     (24, 17),
    "vsrc1":  (16,  9),
    "src0":   ( 8,  0),
})

VOP3 = Layout("VOP3", 64, {
    "neg":    (63, 61),
    "omod":   (60, 59),
    "src2":   (58, 50),
    "src1":   (49, 41),
    "src0":   (40, 32),
    "op":     (25, 16),
    "clamp":  (15, 15),
    "op_sel": (14, 11),
    "abs":    (10,  8),
    "vdst":   ( 7,  0),
})

# VOP3 with a second, scalar destination: carries and division scaling.
VOP3SD = Layout("VOP3SD", 64, {
    "neg":    (63, 61),
    "omod":   (60, 59),
    "src2":   (58, 50),
    "src1":   (49, 41),
    "src0":   (40, 32),
    "op":     (25, 16),
    "clamp":  (15, 15),
    "sdst":   (14,  8),
    "vdst":   ( 7,  0),
})

VOP3P = Layout("VOP3P", 64, {
    "neg":       (63, 61),  # of the low halves
    "op_sel_hi": (60, 59),  # of sources 0 and 1
    "src2":      (58, 50),
    "src1":      (49, 41),
    "src0":      (40, 32),
    "op":        (22, 16),
    "clamp":     (15, 15),
    "op_sel_hi_2": (14, 14),
    "op_sel":    (13, 11),
    "neg_hi":    (10,  8),
    "vdst":      ( 7,  0),
})

VOPD = Layout("VOPD", 64, {
    "vdst_x":  (63, 56),
    "vdst_y":  (55, 49),  # without its low bit, which differs from that of vdst_x
    "vsrc1_y": (48, 41),
    "src0_y":  (40, 32),
    "op_x":    (25, 22),
    "op_y":    (21, 17),
    "vsrc1_x": (16,  9),
    "src0_x":  ( 8,  0),
})

DS = Layout("DS", 64, {
    "vdst":    (63, 56),
    "data1":   (55, 48),
    "data0":   (47, 40),
    "addr":    (39, 32),
    "op":      (25, 18),
    "gds":     (17, 17),
    "offset1": (15,  8),
    "offset0": ( 7,  0),
})

FLAT = Layout("FLAT", 64, {
    "vdst":   (63, 56),
    "sve":    (55, 55),  # scratch: a VGPR address is used
    "saddr":  (54, 48),
    "data":   (47, 40),
    "addr":   (39, 32),
    "op":     (24, 18),
    "seg":    (17, 16),
    "slc":    (15, 15),
    "glc":    (14, 14),
    "dlc":    (13, 13),
    "offset": (12,  0),
})

MUBUF = Layout("MUBUF", 64, {
    "soffset": (63, 56),
    "idxen":   (55, 55),
    "offen":   (54, 54),
    "tfe":     (53, 53),
    "srsrc":   (52, 48),  # counts groups of four registers
    "vdata":   (47, 40),
    "vaddr":   (39, 32),
    "op":      (25, 18),
    "glc":     (14, 14),
    "dlc":     (13, 13),
    "slc":     (12, 12),
    "offset":  (11,  0),
})

# The word after the instruction when a vector source is code 250.
DPP16 = Layout("DPP16", 32, {
    "row_mask":   (31, 28),
    "bank_mask":  (27, 24),
    "src1_abs":   (23, 23),
    "src1_neg":   (22, 22),
    "src0_abs":   (21, 21),
    "src0_neg":   (20, 20),
    "bound_ctrl": (19, 19),
    "fi":         (18, 18),
    "dpp_ctrl":   (16,  8),
    "src0":       ( 7,  0),
})

# The same for codes 233 and 234 (with fi): eight 3-bit lane numbers.
DPP8 = Layout("DPP8", 32, {
    **{f"lane_{i}": (10 + 3 * i, 8 + 3 * i) for i in range(8)},
    "src0":       ( 7,  0),
})

# Which format the nine high bits of the first word select, most specific first.
# Listed as (high bits, how many of them, format).
PREFIXES = (
    (0x17D, 9, "SOP1"),
    (0x17E, 9, "SOPC"),
    (0x17F, 9, "SOPP"),
    (0x0CC, 8, "VOP3P"),
    (0x03F, 7, "VOP1"),
    (0x03E, 7, "VOPC"),
    (0x035, 6, "VOP3"),
    (0x032, 6, "VOPD"),
    (0x036, 6, "DS"),
    (0x037, 6, "FLAT"),
    (0x038, 6, "MUBUF"),
    (0x03D, 6, "SMEM"),
    (0x00B, 4, "SOPK"),
    (0x002, 2, "SOP2"),
    (0x000, 1, "VOP2"),
    # Known, and refused by name: graphics only.
    (0x0CD, 8, "VINTERP"),
    (0x033, 6, "LDSDIR"),
    (0x03A, 6, "MTBUF"),
    (0x03C, 6, "MIMG"),
    (0x03E, 6, "EXP"),
)



def _reserved(layout: Layout) -> int:
    """Bits that are neither a field nor part of what selects the format."""
    name = "VOP3" if layout is VOP3SD else layout.name
    count = next(count for _, count, of in PREFIXES if of == name)
    selector_bits = (1 << count) - 1 << 32 - count
    return layout.unknown((1 << layout.size_bits) - 1) & ~selector_bits


RESERVED = {
    layout.name: _reserved(layout)
    for layout in (
        SOP2, SOPK, SOP1, SOPC, SOPP, SMEM, VOP1, VOP2, VOPC, VOP3, VOP3SD, VOP3P, DS, FLAT, MUBUF,
    )
}  # fmt: skip

# The value of FLAT's seg field.
SEGMENTS = ("FLAT", "SCRATCH", "GLOBAL")
