import ctypes

import pytest
from user_pages import PAGE, Pages, read_only

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


@pytest.mark.refusal
def test_memory_that_can_only_be_read_is_not_written():
    page = read_only()
    with pytest.raises(user.UserFault, match="not the caller's memory"):
        user.write(page.address, b"x")
    assert user.read(page.address, 4) == b"\0" * 4


@pytest.mark.refusal
def test_a_write_that_runs_into_a_hole_is_efault():
    pages = Pages(2)
    pages.unmap(1)
    with pytest.raises(user.UserFault, match="8 bytes"):
        user.write(pages.address + PAGE - 4, b"12345678")


def test_missing_parts_are_told():
    pages = Pages(5)
    pages.unmap(1, 1)
    pages.unmap(4)
    start = pages.address
    assert user.missing(start, PAGE) == []
    assert user.missing(start + 2 * PAGE, 2 * PAGE) == []
    assert user.missing(start, 5 * PAGE)[0] == (start + PAGE, start + 2 * PAGE)
    assert user.missing(read_only(2).address + PAGE, 1) != []
