import ctypes

import pytest
from user_pages import PAGE, Pages

from hcq.errors import SimFault
from sim.memory import GpuMemory, PageFault

BASE = 0x7000_0000_0000


@pytest.fixture
def memory():
    return GpuMemory()


@pytest.fixture
def page():
    raw = ctypes.create_string_buffer(3 * 4096)
    return -(-ctypes.addressof(raw) // 4096) * 4096, raw


def test_neighbours_with_equal_flags_are_one_range(memory):
    memory.map(BASE, 4096)
    memory.map(BASE + 8192, 4096)
    memory.map(BASE + 4096, 4096)
    assert memory.ranges() == [(BASE, BASE + 12288, 3)]


def test_neighbours_with_other_flags_stay_apart(memory):
    memory.map(BASE, 4096)
    memory.map(BASE + 4096, 4096, writable=False, executable=True)
    assert memory.ranges() == [(BASE, BASE + 4096, 3), (BASE + 4096, BASE + 8192, 5)]


def test_unmapping_the_middle_leaves_two_ranges(memory):
    memory.map(BASE, 12288)
    memory.unmap(BASE + 4096, 4096)
    assert memory.ranges() == [(BASE, BASE + 4096, 3), (BASE + 8192, BASE + 12288, 3)]


def test_unmapping_may_span_ranges(memory):
    memory.map(BASE, 8192)
    memory.map(BASE + 8192, 8192, executable=True)
    memory.unmap(BASE + 4096, 8192)
    assert memory.ranges() == [(BASE, BASE + 4096, 3), (BASE + 12288, BASE + 16384, 7)]


def test_the_table_in_memory_lists_count_version_and_ranges(memory):
    memory.map(BASE, 4096, writable=False)
    table = ctypes.c_uint64.from_address(memory.table_pointer).value
    words = (ctypes.c_uint64 * 5).from_address(table)
    assert list(words) == [1, 2, BASE, BASE + 4096, 1]


def test_a_table_that_is_in_use_outlives_a_change(memory):
    memory.map(BASE, 4096)
    table = ctypes.c_uint64.from_address(memory.table_pointer).value
    with memory.in_use():
        for i in range(1, 50):
            memory.map(BASE + 8192 * i, 4096)
        assert list((ctypes.c_uint64 * 3).from_address(table)) == [1, 2, BASE]


def test_discarding_takes_only_what_is_there(memory):
    memory.map(BASE, 4096)
    memory.map(BASE + 8192, 8192)
    memory.discard(BASE - 8192, 3 * 4096 + 8192)
    assert memory.ranges() == [(BASE + 12288, BASE + 16384, 3)]


def test_discarding_around_nothing_changes_nothing(memory):
    memory.map(BASE, 4096)
    memory.discard(BASE + 4096, 4096)
    memory.discard(BASE - 4096, 4096)
    assert memory.ranges() == [(BASE, BASE + 4096, 3)]


@pytest.mark.row("SIM-06")
@pytest.mark.refusal
@pytest.mark.parametrize("address", [0, BASE - 4, BASE + 4096, 1 << 60])
def test_an_unmapped_address_faults_as_not_present(memory, address):
    memory.map(BASE, 4096)
    with pytest.raises(PageFault, match="page is not-present") as fault:
        memory.check(address, 4, "read")
    assert (fault.value.address, fault.value.access) == (address, "read")


@pytest.mark.refusal
def test_one_byte_past_the_end_faults_at_the_page_after(memory):
    memory.map(BASE, 4096)
    with pytest.raises(PageFault, match=f"{BASE + 4096:#x}"):
        memory.check(BASE + 4094, 4, "write")


@pytest.mark.refusal
def test_a_store_to_a_read_only_page_faults(memory):
    memory.map(BASE, 4096, writable=False)
    with pytest.raises(PageFault, match="read-only"):
        memory.check(BASE, 4, "write")


@pytest.mark.refusal
def test_executing_plain_data_faults(memory):
    memory.map(BASE, 4096)
    with pytest.raises(PageFault, match="no-execute"):
        memory.check(BASE, 4, "execute")


@pytest.mark.refusal
def test_mapping_over_a_mapping_is_refused(memory):
    memory.map(BASE, 8192)
    with pytest.raises(SimFault, match="mapped already"):
        memory.map(BASE + 4096, 8192)


@pytest.mark.refusal
@pytest.mark.parametrize(("address", "size"), [(BASE + 1, 4096), (BASE, 100), (BASE, 0)])
def test_only_whole_pages_can_be_mapped(memory, address, size):
    with pytest.raises(SimFault, match="whole pages"):
        memory.map(address, size)


@pytest.mark.refusal
def test_unmapping_what_is_not_mapped_is_refused(memory):
    memory.map(BASE, 4096)
    with pytest.raises(PageFault, match="not-present"):
        memory.unmap(BASE, 8192)


def test_reads_and_writes_reach_the_process_memory(memory, page):
    address, _ = page
    memory.map(address, 4096)
    memory.write(address + 16, b"abcd")
    memory.write32(address + 20, 0x11223344)
    memory.write64(address + 24, 2**64 - 1)
    assert memory.read(address + 16, 16) == b"abcd\x44\x33\x22\x11" + b"\xff" * 8
    assert memory.read32(address + 16) == 0x64636261
    assert memory.read64(address + 24) == 2**64 - 1


def test_a_move_copies_between_ranges(memory, page):
    address, _ = page
    memory.map(address, 8192)
    memory.write(address, b"0123456789")
    memory.move(address + 4090, address, 10)
    assert memory.read(address + 4090, 10) == b"0123456789"


@pytest.mark.refusal
def test_an_unaligned_word_is_refused(memory):
    memory.map(BASE, 4096)
    with pytest.raises(SimFault, match="not aligned"):
        memory.read64(BASE + 4)


# Pages of the program's own


@pytest.fixture
def lent(memory):
    """Four pages of the program's, mapped as such."""
    pages = Pages(4)
    memory.map(pages.address, pages.size, lent=True)
    return pages


def test_lent_pages_are_read_and_written(memory, lent):
    memory.write(lent.address + 10, b"abc")
    memory.move(lent.address + PAGE, lent.address + 8, 8)
    assert lent.read(PAGE, 5) == b"\0\0abc"


@pytest.mark.refusal
def test_a_lent_page_that_is_gone_is_a_page_fault_of_its_first_byte(memory, lent):
    lent.unmap(2, 1)
    assert memory.read(lent.address, 2 * PAGE) == bytes(2 * PAGE)
    with pytest.raises(PageFault, match="not-present; the program has unmapped") as caught:
        memory.read(lent.address + 10, 3 * PAGE)
    assert (caught.value.kind, caught.value.address) == ("not-present", lent.address + 2 * PAGE)
    assert memory.note_of(lent.address + 2 * PAGE).startswith("the program has unmapped")


@pytest.mark.refusal
def test_a_lent_page_that_may_not_be_written_any_more_is_gone(memory, lent):
    lent.protect(1)
    with pytest.raises(PageFault, match="not-present"):
        memory.write32(lent.address, 1)


def test_native_code_does_not_see_lent_pages_that_are_gone(memory, lent):
    lent.unmap(0, 2)
    with memory.in_use():
        assert memory.ranges() == [(lent.address + 2 * PAGE, lent.address + 4 * PAGE, 3)]


def test_lent_pages_that_are_gone_can_be_unmapped(memory, lent):
    lent.unmap(1)
    memory.unmap(lent.address, 2 * PAGE)
    memory.unmap(lent.address + 2 * PAGE, 2 * PAGE)
    assert memory.ranges() == []
    assert memory.note_of(lent.address) == ""


@pytest.mark.refusal
def test_what_is_not_lent_is_not_unmapped_twice(memory, lent):
    memory.unmap(lent.address, PAGE)
    with pytest.raises(PageFault, match=r"not-present$"):
        memory.unmap(lent.address, PAGE)
