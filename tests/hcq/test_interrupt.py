"""Ctrl-C held back: when it comes, and that devices survive it at any moment."""

import os
import random
import signal
import threading
import time
from contextlib import suppress

import pytest

from hcq import interrupt
from hcq.interrupt import Lock, unbroken


@pytest.fixture
def ctrl_c(monkeypatch):
    """Sends this process a Ctrl-C, as the handler of Python treats it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: os.kill(os.getpid(), signal.SIGINT)
    signal.signal(signal.SIGINT, before)


@pytest.mark.row("HCQ-33")
def test_it_comes_at_the_end_of_an_unbroken_function(ctrl_c):
    done = []

    @unbroken
    def work():
        ctrl_c()
        time.sleep(0.001)
        done.append(True)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == [True]


@pytest.mark.row("HCQ-33")
def test_it_comes_at_a_point_and_only_once(ctrl_c):
    steps = []

    @unbroken
    def work():
        ctrl_c()
        steps.append("before")
        interrupt.point()
        steps.append("after")

    with pytest.raises(KeyboardInterrupt):
        work()
    time.sleep(0.001)
    assert steps == ["before"]


def test_what_nests_holds_it_to_the_end_of_the_outermost(ctrl_c):
    steps = []
    inner = unbroken(ctrl_c)

    @unbroken
    def outer():
        inner()
        steps.append("between")
        with Lock():
            pass
        steps.append("end")

    with pytest.raises(KeyboardInterrupt):
        outer()
    assert steps == ["between", "end"]


def test_the_handler_of_the_program_is_back_afterwards(ctrl_c):
    called = []

    def handler(number, frame):
        called.append(number)

    signal.signal(signal.SIGINT, handler)
    with Lock():
        ctrl_c()
        time.sleep(0.001)
        assert called == []
    assert called == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is handler


def test_an_ignored_ctrl_c_stays_ignored(ctrl_c):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Lock():
        ctrl_c()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_who_waits_for_a_lock_is_interrupted(ctrl_c):
    lock, taken, release = Lock(), threading.Event(), threading.Event()

    def other():
        with lock:
            taken.set()
            release.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    taken.wait(10)
    threading.Timer(0.05, ctrl_c).start()
    try:
        with pytest.raises(KeyboardInterrupt), lock:
            pass
    finally:
        release.set()
        thread.join()
    with lock:
        pass


def test_other_threads_hold_nothing_back(ctrl_c):
    depths = []
    thread = threading.Thread(target=unbroken(lambda: depths.append(interrupt.is_held())))
    thread.start()
    thread.join()
    assert depths == [False]


class Alarm(KeyboardInterrupt):
    """The Ctrl-C of the tests below."""


@pytest.mark.row("HCQ-33")
@pytest.mark.parametrize("gpu", ["gfx1100", "sm_90"])
def test_a_device_survives_it_at_any_moment(machine, gpu, ctrl_c):
    """Some hundred at random moments of opening, allocating, copying, submitting, closing."""
    from hcq import amd, nv

    found, rng = machine(gpu), random.Random(gpu)
    armed, came = [False], [0]

    def ring(*_):
        if armed[0]:
            armed[0] = False
            signal.raise_signal(signal.SIGINT)

    def come(*_):
        came[0] += 1
        raise Alarm

    signal.signal(signal.SIGINT, come)
    before = signal.signal(signal.SIGALRM, ring)
    vendor = amd if gpu == "gfx1100" else nv
    vendor.open(0).close()
    kept = found.open_files  # KFD stays open to the end of the process
    device, live = vendor.open(0), []
    cell = device.signals.take()
    shared = device.allocate(256, host=True)

    def allocate():
        live.append(device.allocate(rng.choice([100, 5000, 300_000]), host=rng.random() < 0.5))

    def submit():
        device.submit(device.queue("copy").fill(shared.address, 7, 64))

    def bound():
        queue = device.bind(device.queue("copy").fill(shared.address, 8, 64))
        device.submit(queue)
        device.unbind(queue)

    def reopen():
        vendor.open(0).close()

    steps = [
        allocate, lambda: live and device.free(live.pop()), submit, bound, device.synchronize,
        lambda: device.copy_in(shared, 0, b"a" * 64), reopen,
    ]  # fmt: skip
    try:
        for _ in range(400):
            with suppress(Alarm):
                try:
                    armed[0] = True
                    signal.setitimer(signal.ITIMER_REAL, 1e-5 + rng.random() * 0.002)
                    rng.choice(steps)()
                finally:
                    armed[0] = False
                    signal.setitimer(signal.ITIMER_REAL, 0)
        assert came[0] > 50
        device.submit(device.queue("copy").fill(shared.address, 9, 64).signal(cell.address, 5))
        device.wait_signal(cell, 5)
        assert bytes(shared.view()[:64]) == b"\t" * 64
        device.close()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert found.open_files == kept
