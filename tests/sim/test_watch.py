import ctypes
import threading
import time

import pytest

from sim.watch import Watch


@pytest.fixture
def cell():
    return ctypes.c_uint64(5)


def at(cell):
    return ctypes.addressof(cell)


def test_a_cell_that_changed_before_is_seen_at_once(cell):
    assert Watch().wait([(at(cell), 4)], 1000)


def test_patience_ends(cell):
    started = time.monotonic()
    assert not Watch().wait([(at(cell), 5)], 3)
    assert time.monotonic() - started < 0.5


def test_a_store_from_another_thread_ends_the_wait(cell):
    def ring():
        cell.value = 6

    threading.Timer(0.02, ring).start()
    assert Watch().wait([(at(cell), 5)], 100_000)


def test_the_interpreter_runs_on_while_one_thread_waits(cell):
    watch = Watch()
    thread = threading.Thread(target=watch.wait, args=([(at(cell), 5)], 100_000))
    thread.start()
    counted = sum(1 for _ in range(10_000))
    watch.wake()
    thread.join(5)
    assert counted == 10_000
    assert not thread.is_alive()


def test_a_wake_before_the_wait_counts_once(cell):
    watch = Watch()
    watch.wake()
    assert not watch.wait([(at(cell), 5)], 1_000_000)
    assert not watch.wait([(at(cell), 5)], 2)


def test_no_cells_is_only_a_sleep():
    assert not Watch().wait([], 2)
