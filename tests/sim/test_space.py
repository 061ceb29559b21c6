import pytest

from hcq.host import MappedRegion
from sim.space import AddressSpace


def mappings(start, size):
    """Permissions of what /proc/self/maps shows in a span."""
    found = []
    with open("/proc/self/maps") as file:
        for line in file:
            span, permissions = line.split()[:2]
            low, high = (int(part, 16) for part in span.split("-"))
            if low < start + size and high > start:
                inside = max(low, start) - start, min(high, start + size) - start
                found.append((*inside, permissions))
    return found


@pytest.fixture
def space():
    made = AddressSpace()
    yield made
    made.close()


def test_a_reservation_is_aligned_and_inaccessible(space):
    address = space.reserve(8192, 1 << 21, 1 << 47)
    assert address % (1 << 21) == 0
    assert mappings(address, 8192) == [(0, 8192, "---p")]


def test_placed_memory_is_shared_and_gone_after_vacating(space):
    address = space.reserve(8192, 4096, 1 << 47)
    space.place(address, 4096)
    assert mappings(address, 8192) == [(0, 4096, "rw-s"), (4096, 8192, "---p")]
    space.vacate(address, 4096)
    assert mappings(address, 8192) == [(0, 8192, "---p")]


def test_releasing_a_reservation_keeps_memory_until_it_is_vacated(space):
    address = space.reserve(8192, 4096, 1 << 47)
    space.place(address, 4096)
    space.release(address, 8192)
    assert mappings(address, 8192) == [(0, 4096, "rw-s")]
    space.vacate(address, 4096)
    assert mappings(address, 8192) == []


def test_a_page_that_nobody_gets_follows(space):
    address = space.reserve(4096, 4096, 1 << 47)
    assert space.reserve(4096, 4096, 1 << 47) > address + 4096


def test_an_alias_shows_the_same_bytes(space):
    address = space.reserve(4096, 4096, 1 << 47)
    space.place(address, 4096)
    other = space.alias(address, 4096, None)
    MappedRegion(other, 4096).write32(8, 0xABCD)
    assert MappedRegion(address, 4096).read32(8) == 0xABCD
    space.drop(other, 4096)


@pytest.mark.refusal
def test_memory_over_something_else_is_refused(space):
    own = space.anonymous(4096)
    with pytest.raises(OSError, match="in use in this process"):
        space.place(own, 4096)
    space.drop(own, 4096)


@pytest.mark.refusal
def test_no_room_below_a_limit_is_enomem(space):
    with pytest.raises(OSError, match="no address space below"):
        space.reserve(4096, 4096, 1 << 36)


def test_low_address_space_lies_below_its_limit(space):
    assert space.reserve(8192, 1 << 21, 1 << 40) + 8192 <= 1 << 40
