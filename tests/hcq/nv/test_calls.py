"""Absolute calls in cubins: their target is filled in where the code lies."""

import pytest

from hcq.nv.arch import ARCHES
from hcq.nv.cubin import Cubin
from jit.codegen.machine import emit_assembly
from jit.codegen.nvjitlink import link

CALL = 0x7943  # CALL.ABS: the low bits of the first word
AT = 0x7F_1234_5600


DIVIDE = """
target triple = "nvptx64-nvidia-cuda"
define ptx_kernel void @divide(ptr addrspace(1) %out, float %a, float %b) {
  %c = fdiv float %a, %b
  store float %c, ptr addrspace(1) %out
  ret void
}
"""


def compiled(chip):
    """The division is exact, which takes a function for its rare cases."""
    pytest.importorskip("nvidia", reason="nvidia-nvjitlink (extra nv) is not installed")
    return link(emit_assembly("nvptx64-nvidia-cuda", chip, DIVIDE), chip, "divide")


@pytest.fixture
def calling():
    """calling(chip): (address of the function called, the call's two words)."""

    def make(chip):
        arch = next(row for row in ARCHES if row.name == chip)
        cubin = Cubin(compiled(chip), "divide", arch)
        (called,) = (
            AT + cubin.places[section.index]
            for section in cubin.file.sections
            if section.name.endswith("_slowpath") and section.name.startswith(".text.")
        )
        image = cubin.image(AT)
        words = [
            (int.from_bytes(image[at : at + 8], "little"), image[at + 8 : at + 16])
            for at in range(0, len(image), 16)
        ]
        (low, high) = next((a, b) for a, b in words if a & 0xFFFF == CALL)
        return called, low, int.from_bytes(high, "little")

    return make


def test_up_to_ada_the_target_is_one_field(calling):
    called, low, high = calling("sm_86")
    # Bits 80:34 hold the address divided by 4.
    assert low >> 34 | (high & 0x1FFFF) << 30 == called // 4


@pytest.mark.parametrize("chip", ["sm_90", "sm_120"])
def test_from_hopper_on_the_low_eight_bits_stand_apart(calling, chip):
    called, low, high = calling(chip)
    # Bits 23:16 hold its low eight, bits 80:34 the rest.
    assert low >> 16 & 0xFF == called // 4 % 256
    assert low >> 34 | (high & 0x1FFFF) << 30 == called // 4 // 256
