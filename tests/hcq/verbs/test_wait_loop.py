"""The loop of a wait, with a host and events of the test's own: no device, no time."""

import pytest

from hcq.errors import ConfigError
from hcq.settings import Context
from hcq.waits import Waits


class Host:
    """A second passes at each look at the clock."""

    def __init__(self):
        self.seconds = 0.0
        self.relaxed = 0

    def now(self):
        self.seconds += 1.0
        return self.seconds

    def relax(self):
        self.relaxed += 1


class Events:
    """What sleeps were asked for, and what the next ones bring."""

    def __init__(self, can_sleep=True, brings=()):
        self.can_sleep = can_sleep
        self.slept = []
        self.brings = list(brings)

    def sleep(self, seconds):
        self.slept.append(seconds)
        return self.brings.pop(0) if self.brings else []


class LateError(Exception):
    pass


def late(limit, is_hang):
    return LateError(limit, is_hang)


def waits(events, progress=lambda: 0, check=lambda: None, incidents=None):
    told = [] if incidents is None else incidents
    return Waits(Host(), events, check, progress, told.append)


@pytest.mark.row("HCQ-05")
@pytest.mark.refusal
def test_a_callers_limit_is_not_restarted_by_progress():
    count = iter(range(1000))
    found = waits(Events(), progress=lambda: next(count))
    with pytest.raises(LateError) as caught:
        found.until(lambda: False, 5.0, late)
    assert caught.value.args == (5.0, False)
    assert found._host.seconds < 9


@pytest.mark.row("HCQ-05")
@pytest.mark.refusal
@pytest.mark.parametrize("can_sleep", [True, False])
def test_the_default_limit_without_progress_is_a_hang(can_sleep):
    found = waits(Events(can_sleep))
    with Context(HCQ_TIMEOUT_MS=5000), pytest.raises(LateError) as caught:
        found.until(lambda: False, None, late)
    assert caught.value.args == (5.0, True)


@pytest.mark.row("HCQ-05")
@pytest.mark.parametrize("moving", [True, False])
def test_what_one_waits_for_is_progress_where_it_moves(moving):
    count = iter(range(1000))
    steps = iter(range(20))
    found = waits(Events())
    with Context(HCQ_TIMEOUT_MS=5000):
        if moving:
            found.until(lambda: next(steps) == 15, None, late, lambda: next(count))
            return
        with pytest.raises(LateError):
            found.until(lambda: next(steps) == 15, None, late, lambda: 7)


@pytest.mark.row("HCQ-05")
def test_what_came_with_the_last_look_is_no_timeout():
    events = Events()
    found = waits(events)
    # The last sleep takes no time: it asks the kernel once more.
    found.until(lambda: events.slept[-1:] == [0], 3.0, late)
    assert events.slept[-1] == 0


@pytest.mark.row("HCQ-05")
def test_sleeps_are_as_long_as_what_is_left():
    events = Events()
    with pytest.raises(LateError):
        waits(events).until(lambda: False, 4.0, late)
    assert events.slept == [3.0, 2.0, 1.0, 0]


@pytest.mark.row("HCQ-33")
@pytest.mark.refusal
def test_who_notes_ctrl_c_sleeps_for_a_twentieth_of_a_second():
    from hcq import interrupt

    events = Events()
    interrupt.enter()
    try:
        with pytest.raises(LateError):
            waits(events).until(lambda: False, 4.0, late)
    finally:
        interrupt.leave()
    assert events.slept == [0.05, 0.05, 0.05, 0]


@pytest.mark.row("HCQ-05")
def test_without_events_a_wait_polls():
    events = Events(can_sleep=False)
    found = waits(events)
    with pytest.raises(LateError):
        found.until(lambda: False, 4.0, late)
    assert (events.slept, found.sleeps, found._host.relaxed) == ([], 0, 3)


@pytest.mark.row("HCQ-12")
def test_incidents_of_a_sleep_are_passed_on():
    incidents = []
    found = waits(Events(brings=[[], ["reset"]]), incidents=incidents)
    with pytest.raises(LateError):
        found.until(lambda: False, 4.0, late)
    assert incidents == [["reset"]]
    assert found.sleeps == 4


@pytest.mark.row("HCQ-10")
@pytest.mark.refusal
def test_a_failure_ends_a_wait_also_where_its_value_came():
    def check():
        raise KeyError("failed")

    with pytest.raises(KeyError, match="failed"):
        waits(Events(), check=check).until(lambda: True, None, late)


@pytest.mark.row("HCQ-31")
def test_who_closes_waits_for_the_others_to_leave_but_not_for_ever():
    found = waits(Events())
    found.leave(10.0)
    assert found._host.relaxed == 0  # nobody waits
    found._waiting.append(object())
    found.leave(3.0)
    assert found._host.relaxed == 2


@pytest.mark.row("HCQ-31")
@pytest.mark.refusal
def test_a_wait_that_failed_is_over():
    found = waits(Events())
    with pytest.raises(LateError):
        found.until(lambda: False, 1.0, late)
    assert found._waiting == []


@pytest.mark.refusal
@pytest.mark.parametrize("timeout", ["5", True, float("nan"), [1]])
def test_a_limit_is_a_number_of_seconds(timeout):
    with pytest.raises(ConfigError, match="is no number of seconds"):
        waits(Events()).until(lambda: True, timeout, late)
