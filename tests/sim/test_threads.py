import threading

import pytest

from sim.threads import Helpers


@pytest.fixture
def helpers():
    made = Helpers("test", 2)
    yield made
    made.close()


def test_work_is_done_on_another_thread(helpers):
    seen = []
    helpers.submit(lambda: seen.append(threading.current_thread())).result(5)
    assert seen[0] is not threading.current_thread()
    assert seen[0].daemon


def test_two_pieces_of_work_run_side_by_side(helpers):
    barrier = threading.Barrier(2, timeout=5)
    for future in [helpers.submit(barrier.wait) for _ in range(2)]:
        future.result(5)


@pytest.mark.refusal
def test_an_error_reaches_who_asks(helpers):
    future = helpers.submit(lambda: {}["nothing"])
    with pytest.raises(KeyError, match="nothing"):
        future.result(5)
