import pytest

from runtime.counters import ProcessCounters


@pytest.fixture
def counters():
    """Counters of a process with two devices that hold 100 and 30 bytes."""
    counters = ProcessCounters()
    counters.add_device("AMD:0", lambda: 100)
    counters.add_device("CPU:1", lambda: 30)
    return counters


@pytest.mark.row("PRO-06")
def test_a_kernel_counts_for_process_and_device(counters):
    counters.record(counters.device("AMD:0"), operations=5, size=7, seconds=0.5)
    for where in (counters, counters.device("AMD")):
        assert (where.kernel_count, where.global_ops, where.global_mem) == (1, 5, 7)
        assert where.time_sum_s == 0.5
    assert counters.device("CPU:1").kernel_count == 0


@pytest.mark.row("PRO-06")
@pytest.mark.row("BUF-04")
def test_live_memory_is_summed_over_devices(counters):
    assert counters.mem_used == 130
    counters.remove_device("CPU:1")
    assert counters.mem_used == 100


def test_copies_are_counted_apart_from_kernels(counters):
    counters.record_copy(counters.device("CPU:1"), 9)
    counters.record_copy(None, 1)
    assert (counters.copy_count, counters.copy_bytes, counters.kernel_count) == (2, 10, 0)
    assert counters.device("CPU:1").copy_bytes == 9


def test_device_that_never_opened_reads_zero(counters):
    assert counters.device("NV:0").kernel_count == 0


@pytest.mark.row("PRO-06")
def test_reset_clears_totals_everywhere(counters):
    counters.record(counters.device("AMD:0"), 5, 7, 0.5)
    counters.reset()
    for where in (counters, counters.device("AMD:0")):
        assert (where.kernel_count, where.global_ops, where.time_sum_s) == (0, 0, 0)
    assert counters.mem_used == 130
