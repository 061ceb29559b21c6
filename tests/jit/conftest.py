"""Makes the oracle and the graph builders beside the tests importable."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def interpreter():
    """A device of numpy arrays: writes and reads buffers, runs calls."""
    from loop_oracle import Machine

    return Machine()
