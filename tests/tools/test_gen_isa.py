"""The generator of the opcode table: one example line in, operands out."""

import pytest

from tools.gen_isa import operands


@pytest.mark.parametrize(
    ("form", "name", "example", "destinations", "sources"),
    [
        ("SOP2", "s_lshl_b64", "s[10:11], s[2:3], s6", ["sdst:s2"], ["ssrc0:s2", "ssrc1:s1"]),
        ("SOPK", "s_cmpk_eq_i32", "s10, 0x1234", [], ["sdst:s1"]),
        ("VOP2", "v_add_f16_e32", "v12.l, v4.l, v6.l", ["vdst:h"], ["src0:c", "vsrc1:h"]),
        ("VOPC", "v_cmp_lt_f32_e32", "vcc_lo, v4, v6", ["vcc:m"], ["src0:a1", "vsrc1:v1"]),
        ("VOP3", "v_cmpx_lt_f64_e64", "v[4:5], v[20:21]", ["exec:m"], ["src0:a2", "src1:a2"]),
        (
            "VOP3",
            "v_add_co_ci_u32_e64",
            "v12, s0, v4, v20, v30",  # LLVM shows a VGPR where the mask stands
            ["vdst:v1", "sdst:m"],
            ["src0:a1", "src1:a1", "src2:m"],
        ),
        (
            "GLOBAL",
            "global_atomic_cmpswap_b32",
            "v[2:3], v[20:21], off offset:8",
            ["return:v1"],
            ["addr:g", "data:v2", "saddr:s2"],
        ),
        ("DS", "ds_load_b128", "v[40:43], v2 offset:16", ["vdst:v4"], ["addr:v1"]),
    ],
)
def test_operands_of_an_example(form, name, example, destinations, sources):
    assert operands(form, name, example) == (destinations, sources)
