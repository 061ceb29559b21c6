"""The same test bodies run on a chip of each vendor and generation."""

import pytest

CHIPS = ("gfx1100", "sm_86", "sm_89", "sm_90", "sm_120")


@pytest.fixture(params=CHIPS)
def chip(request):
    """The chip's name."""
    return request.param
