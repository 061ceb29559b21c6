import ctypes

import pytest

from sim import user


def test_own_memory_is_read_and_written():
    data = ctypes.create_string_buffer(b"abcdef")
    user.write(ctypes.addressof(data) + 1, b"XY")
    assert user.read(ctypes.addressof(data), 6) == b"aXYdef"


@pytest.mark.refusal
@pytest.mark.parametrize("address", [0, 8, 1 << 46, (1 << 64) - 8])
def test_a_pointer_that_leads_nowhere_is_efault(address):
    with pytest.raises(user.UserFault, match="not the caller's memory"):
        user.read(address, 8)
    with pytest.raises(user.UserFault, match="not the caller's memory"):
        user.write(address, b"12345678")
