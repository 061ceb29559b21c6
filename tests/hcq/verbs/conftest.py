"""The same test bodies run on a chip of each vendor and generation."""

import pytest

CHIPS = ("gfx1100", "sm_86", "sm_89", "sm_90", "sm_120")


@pytest.fixture(params=CHIPS)
def chip(request):
    """The chip's name."""
    return request.param


@pytest.fixture
def placed_for(compiled):
    """placed_for(chip): a program for an NVIDIA chip, without a device."""
    from hcq.nv.arch import ARCHES
    from hcq.nv.cubin import Cubin
    from hcq.nv.driver import Windows
    from hcq.nv.program import Program

    def place(chip):
        arch = next(arch for arch in ARCHES if arch.name == chip)
        cubin = Cubin(compiled("bump", chip), "bump", arch)
        return Program(cubin, arch, 0x10_0000_0000, Windows(0, 0), {}, lambda program: None)

    return place
