"""Devices that tensor programs run on: the processor, and a simulated AMD GPU."""

import pytest

from tensor import Tensor


@pytest.fixture(params=["CPU", "AMD"])
def device(request):
    """The name of a device, made the default one's peer for this test."""
    if request.param == "AMD":
        request.getfixturevalue("simulated_amd")
    Tensor.manual_seed(0)
    return request.param
