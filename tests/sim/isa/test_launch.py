"""The first lanes of a work-group, and the records that native code reads."""

from sim.isa import state
from sim.isa.launch import SharedRecord, ThreadMemory, starting_lanes
from sim.isa.native import Library

LIBRARY = Library(32, (11, 22), 0)


def test_ids_are_packed_x_first():
    assert starting_lanes((2, 2, 2)).ids[0, :8].tolist() == [
        0, 1, 1 << 10, 1 << 10 | 1, 1 << 20, 1 << 20 | 1, 1 << 20 | 1 << 10,
        1 << 20 | 1 << 10 | 1,
    ]  # fmt: skip


def test_a_work_group_ends_in_a_wave_that_is_partly_filled():
    assert starting_lanes((40, 1, 1)).masks.tolist() == [0xFFFF_FFFF, 0xFF]


def test_a_wave_of_64_lanes_holds_more():
    lanes = starting_lanes((64, 1, 1), 64)
    assert (lanes.count, lanes.kinds) == (1, frozenset({True}))


def test_both_kinds_of_waves_are_known():
    assert starting_lanes((40, 1, 1)).kinds == {True, False}


def described():
    launch = SharedRecord()
    lanes = starting_lanes((40, 1, 1))
    launch.describe((3, 2, 1), lanes, (5, 6, 7), wave_size=1000, scratch_size=256)
    return launch


def test_a_launch_counts_its_groups():
    assert described().get(state.GROUP_COUNT) == 6


def test_records_of_waves_lie_on_cache_lines():
    assert described().get(state.WAVE_STRIDE) == 1024


def test_a_thread_has_scratch_behind_that_of_the_threads_before_it():
    assert ThreadMemory(3, 64).scratch_offset(described()) == 3 * 2 * 256


def test_a_thread_gets_the_library_and_the_fields_of_the_launch():
    thread = ThreadMemory(0, 64)
    thread.begin(described(), LIBRARY, {state.CODE: 0x1000})
    assert thread.get(state.CODE) == 0x1000
    assert thread.get(state.FUNCTIONS + 8) == 22


def test_counters_start_at_zero_again():
    thread = ThreadMemory(0, 64)
    thread.set(state.INSTRUCTIONS, 9)
    thread.begin(described(), LIBRARY, {})
    assert thread.get(state.INSTRUCTIONS) == 0
