"""Clients of the simulated NVIDIA driver with nothing in between."""

import pytest
from nv_client import Client


@pytest.fixture
def bare(machine):
    """bare(**options of machine): a client that has opened the control node only."""

    def make(minor=0, gpu="sm_90", **options):
        return Client(machine(gpu=gpu, **options), minor)

    return make


@pytest.fixture
def client(bare):
    """As bare, with device, address space and unified memory."""

    def make(**options):
        return bare(**options).attach()

    return make
