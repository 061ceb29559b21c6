import errno
import threading
import time

import pytest

from hcq.errors import IoctlError
from hcq.ioctl_defs import kfd
from sim.amd.events import Events, SlotPage
from sim.refusal import Refusal

UNSIGNALED = 2**64 - 1


def words(count=16):
    return memoryview(bytearray(8 * count)).cast("Q")


@pytest.fixture
def events():
    made = Events(lambda *entry: None)
    made.page = SlotPage(words())
    return made


def wait(events, *ids):
    return events.begin_wait([(identity, 0) for identity in ids])


def test_a_new_page_is_all_ones():
    page = words(4)
    SlotPage(page)
    assert list(page) == [UNSIGNALED] * 4


def test_signal_events_count_from_one_and_others_from_40000000(events):
    assert events.create(0, True).identity == 1
    assert events.create(8, True).identity == 0x40000000
    assert events.create(3, True).identity == 0x40000001


def test_an_event_number_is_free_again_after_destruction(events):
    first = events.create(0, True).identity
    events.destroy(first)
    assert events.create(0, True).identity == first


@pytest.mark.row("SIM-03")
def test_a_slot_without_an_interrupt_wakes_nobody(events):
    event = events.create(0, True)
    waiters = wait(events, event.identity)
    events.page.words[event.identity] = 1
    assert not events.is_over(waiters, False)


@pytest.mark.row("SIM-03")
def test_an_interrupt_without_a_slot_wakes_nobody(events):
    event = events.create(0, True)
    waiters = wait(events, event.identity)
    events.interrupt(event.identity)
    assert not events.is_over(waiters, False)


def test_slot_and_interrupt_set_the_event_and_clear_the_slot(events):
    event = events.create(0, True)
    waiters = wait(events, event.identity)
    events.page.words[event.identity] = 1
    events.interrupt(event.identity)
    assert events.is_over(waiters, False)
    assert events.page.words[event.identity] == UNSIGNALED


def test_an_interrupt_that_names_no_event_scans_the_slots(events):
    first, second = events.create(0, True), events.create(0, True)
    waiters = wait(events, first.identity, second.identity)
    events.page.words[second.identity] = 1
    events.interrupt(0)
    assert [w.activated for w in waiters] == [False, True]


def test_a_lost_interrupt_sets_nothing(events):
    event = events.create(0, True)
    waiters = wait(events, event.identity)
    events.interrupts = False
    events.page.words[event.identity] = 1
    events.interrupt(event.identity)
    assert not events.is_over(waiters, False)
    assert events.page.words[event.identity] == 1


def test_set_with_nobody_waiting_stays_set_until_one_wait(events):
    event = events.create(0, True)
    events.set(event.identity)
    assert wait(events, event.identity)[0].activated
    assert not wait(events, event.identity)[0].activated


def test_set_with_waiters_wakes_all_and_does_not_stay(events):
    event = events.create(0, True)
    waiters = wait(events, event.identity) + wait(events, event.identity)
    events.set(event.identity)
    assert [w.activated for w in waiters] == [True, True]
    events.end_wait(waiters)
    assert not wait(events, event.identity)[0].activated


def test_an_event_that_does_not_reset_itself_stays_set(events):
    event = events.create(0, False)
    events.set(event.identity)
    assert wait(events, event.identity)[0].activated
    assert wait(events, event.identity)[0].activated
    events.reset(event.identity)
    assert not wait(events, event.identity)[0].activated


def test_waiting_for_all_needs_all(events):
    first, second = events.create(0, True), events.create(0, True)
    waiters = wait(events, first.identity, second.identity)
    events.set(first.identity)
    assert events.is_over(waiters, False)
    assert not events.is_over(waiters, True)


def test_an_age_that_was_not_seen_ends_the_wait_at_once(events):
    event = events.create(0, True)
    waiters = wait(events, event.identity)
    events.set(event.identity)
    events.end_wait(waiters)
    assert events.begin_wait([(event.identity, 1)])[0].activated
    assert not events.begin_wait([(event.identity, 2)])[0].activated


@pytest.mark.refusal
def test_events_run_out(events):
    for _ in range(4095):
        events.create(0, True)
    with pytest.raises(Refusal, match="taken"):
        events.create(0, True)


@pytest.mark.refusal
@pytest.mark.parametrize("identity", [0, 5, 0x40000000])
def test_setting_what_is_no_signal_event_is_refused(events, identity):
    events.create(8, True)
    with pytest.raises(Refusal, match=r"no (signal )?event"):
        events.set(identity)


# Through the ioctls


def test_waiting_for_nothing_times_out_with_success(client):
    c = client(seed=1)
    event = c.event(c.event_page())
    assert c.wait_events(event, timeout=0)[0] == kfd.WAIT_RESULT_TIMEOUT


def test_a_set_event_ends_a_wait(client):
    c = client(seed=1)
    event = c.event(c.event_page())
    c.call(kfd.SET_EVENT, event_id=event)
    assert c.wait_events(event, timeout=0)[0] == kfd.WAIT_RESULT_COMPLETE


def test_a_signal_event_brings_its_age(client):
    c = client(seed=1)
    event = c.event(c.event_page())
    c.call(kfd.SET_EVENT, event_id=event)
    assert c.wait_events(event)[1][0].signal_event_data.last_event_age == 2


def test_before_1_14_there_is_no_age(client):
    c = client(seed=1, kfd=(1, 13))
    event = c.event(c.event_page())
    c.call(kfd.SET_EVENT, event_id=event)
    assert c.wait_events(event)[1][0].signal_event_data.last_event_age == 0


def test_an_event_says_its_slot(client):
    c = client()
    page = c.event_page()
    c.event(page)
    made = c.call(kfd.CREATE_EVENT, auto_reset=1)
    assert (made.event_id, made.event_slot_index, made.event_page_offset) == (2, 2, 2 << 62)


@pytest.mark.refusal
def test_a_signal_event_needs_a_page(client):
    with pytest.raises(IoctlError, match="EINVAL"):
        client().call(kfd.CREATE_EVENT, auto_reset=1)


@pytest.mark.refusal
def test_a_second_event_page_is_einval(client):
    c = client()
    c.event(c.event_page())
    with pytest.raises(IoctlError, match="EINVAL"):
        c.call(kfd.CREATE_EVENT, event_page_offset=c.event_page().handle)


@pytest.mark.refusal
def test_the_event_page_cannot_be_freed(client):
    c = client()
    page = c.event_page()
    c.event(page)
    c.unmap(page.handle)
    with pytest.raises(IoctlError, match="EPERM"):
        c.call(kfd.FREE_MEMORY_OF_GPU, handle=page.handle)


@pytest.mark.refusal
def test_waiting_for_an_unknown_event_is_einval(client):
    with pytest.raises(IoctlError, match="EINVAL"):
        client(seed=1).wait_events(77)


@pytest.mark.refusal
def test_destroying_an_event_ends_the_wait_with_eio(client):
    c = client()
    event = c.event(c.event_page())
    found = []

    def waits():
        try:
            c.wait_events(event, timeout=5000)
        except IoctlError as error:
            found.append(error.errno)

    thread = threading.Thread(target=waits)
    thread.start()
    while not c.host.kfd.events._events[event].waiters:
        time.sleep(0.001)
    c.call(kfd.DESTROY_EVENT, event_id=event)
    thread.join(5)
    assert found == [errno.EIO]
