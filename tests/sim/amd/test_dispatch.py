import time
from types import SimpleNamespace

import pytest

from hcq.errors import IoctlError, SimFault
from hcq.ioctl_defs import kfd
from sim.amd import launch

PGM_LO, RSRC1, RSRC2, NUM_THREAD, USER_DATA = 0x2E0C, 0x2E12, 0x2E13, 0x2E07, 0x2E40
INITIATOR = 0x8005  # wave32, force start at 0, compute shader

# gfx1100, assembled by llvm-mc 22.
END = [0xBFB00000]  # s_endpgm
ENDLESS = [0xBFA0FFFF]  # s_branch to itself
UNKNOWN = [0xBFFF0000]  # no such SOPP


def set_registers(first, *values):
    return [0xC0007600 | len(values) << 16, first - 0x2C00, *values]


def dispatch(code, groups=(1, 1, 1), threads=(32, 1, 1), user=(), rsrc2=0):
    return [
        *set_registers(PGM_LO, code >> 8 & 0xFFFFFFFF, code >> 40),
        *set_registers(RSRC1, 0x600F0003, rsrc2),
        *set_registers(NUM_THREAD, *threads),
        *(set_registers(USER_DATA, *user) if user else ()),
        0xC0031500, *groups, INITIATOR,
    ]  # fmt: skip


class Recorder:
    """Stands in for the execution units: remembers what it was asked to run."""

    def __init__(self, memory):
        self.seen = []
        self.counters = {"waves": 3, "instructions": 5}

    def run(self, dispatch, stop):
        self.seen.append(dispatch)

    def close(self):
        pass


@pytest.fixture
def compute(client):
    def make(**options):
        c = client(**({"seed": 1} | options))
        code = c.memory(4096)
        return SimpleNamespace(c=c, queue=c.queue(), code=code, host=c.host)

    return make


def load(setup, words):
    for index, word in enumerate(words + [0xBF9F0000] * 64):  # s_code_end
        setup.code.region.write32(4 * index, word)
    return setup.code.address


def test_a_dispatch_hands_over_what_the_registers_say(compute):
    s = compute(executor=Recorder)
    s.queue.submit(*dispatch(0x1234567800, (2, 3, 4), (16, 2, 1), user=(7, 8)))
    assert s.queue.finished()
    (seen,) = s.host.gpus[0].executor.seen
    assert (seen.code, seen.groups, seen.threads) == (0x1234567800, (2, 3, 4), (16, 2, 1))
    assert (seen.wave_size, seen.rsrc1, seen.user_data[:3]) == (32, 0x600F0003, (7, 8, 0))


def test_registers_stay_from_one_dispatch_to_the_next(compute):
    s = compute(executor=Recorder)
    s.queue.submit(*dispatch(0x1000), 0xC0031500, 5, 1, 1, INITIATOR)
    assert s.queue.finished()
    assert [d.groups for d in s.host.gpus[0].executor.seen] == [(1, 1, 1), (5, 1, 1)]


def test_sizes_in_threads_become_groups(compute):
    s = compute(executor=Recorder)
    words = dispatch(0x1000, (64, 4, 1), (32, 2, 1))
    words[-1] |= 1 << 5
    s.queue.submit(*words)
    assert s.queue.finished()
    assert s.host.gpus[0].executor.seen[0].groups == (2, 2, 1)


def test_no_groups_run_nothing(compute):
    s = compute(executor=Recorder)
    s.queue.submit(*dispatch(0x1000, (0, 1, 1)))
    assert s.queue.finished()
    assert s.host.gpus[0].executor.seen == []


@pytest.mark.row("SIM-11")
@pytest.mark.parametrize("seed", [None, 1])
def test_a_bug_of_the_simulator_reaches_the_host_too(compute, seed):
    class Broken(Recorder):
        def run(self, dispatch, stop):
            raise ZeroDivisionError("oh")

    s = compute(executor=Broken, seed=seed)
    event = s.c.event(s.c.event_page(), kfd.EVENT_HW_EXCEPTION)
    s.queue.submit(*dispatch(0x1000))
    assert s.c.wait_events(event)[0] == kfd.WAIT_RESULT_COMPLETE
    assert "the simulator failed: ZeroDivisionError('oh')" in s.host.faults[0].text


def test_counters_of_the_machine(compute):
    s = compute(executor=Recorder)
    s.queue.submit(*dispatch(0x1000))
    assert s.queue.finished()
    assert s.host.stats == {
        "dispatches": 1, "packets": 4, "waves": 3, "instructions": 5, "sdma_bytes": 0,
    }  # fmt: skip


@pytest.mark.row("SIM-03")
@pytest.mark.refusal
@pytest.mark.parametrize(
    ("register", "value", "text"),
    [
        (NUM_THREAD, 0, "0 x 1 x 1 threads"),
        (NUM_THREAD, 1025, "1025 x 1 x 1 threads"),
        (NUM_THREAD, 32 | 5 << 16, "partial work-groups"),
        (RSRC2, 129 << 15, "66048 bytes of LDS"),
        (RSRC1, 1 << 25, "COMPUTE_PGM_RSRC1: unknown bits 0x2000000"),
        (0x2E1B, 1, "COMPUTE_RESTART_X 0x1"),
        (0x2E1E, 1, "COMPUTE_THREAD_TRACE_ENABLE"),
        (0x2E14, 8, "COMPUTE_VMID"),
    ],
)
def test_a_bad_register_is_refused_at_the_dispatch(register, value, text):
    state = launch.initial_registers() | {NUM_THREAD: 1, NUM_THREAD + 1: 1, NUM_THREAD + 2: 1}
    state[register] = value
    with pytest.raises(SimFault, match=text):
        launch.read(state, (1, 1, 1), INITIATOR)


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("initiator", "text"),
    [
        (0x8004, "without COMPUTE_SHADER_EN"),
        (0x8005 | 1 << 1, "partial_tg_en"),
        (0x8005 | 1 << 14, "restore"),
        (0x8005 | 1 << 20, "unknown bits 0x100000"),
    ],
)
def test_a_bad_initiator_is_refused(initiator, text):
    state = launch.initial_registers() | {NUM_THREAD: 1, NUM_THREAD + 1: 1, NUM_THREAD + 2: 1}
    with pytest.raises(SimFault, match=text):
        launch.read(state, (1, 1, 1), initiator)


@pytest.mark.parametrize("seed", [None, 1])
def test_machine_code_is_run(compute, seed):
    s = compute(seed=seed)
    s.queue.submit(*dispatch(load(s, END), (4, 1, 1)))
    assert s.queue.finished()
    assert s.host.stats["waves"] == 4


@pytest.mark.row("SIM-11")
@pytest.mark.refusal
def test_an_undefined_instruction_reaches_the_host_with_pc_and_words(compute):
    s = compute()
    event = s.c.event(s.c.event_page(), kfd.EVENT_HW_EXCEPTION)
    code = load(s, UNKNOWN)
    s.queue.submit(*dispatch(code))
    assert s.c.wait_events(event)[0] == kfd.WAIT_RESULT_COMPLETE
    text = s.host.read("/sys/class/drm/renderD128/device/devcoredump/data").decode()
    assert f"pc {code:#x}" in text
    assert "bfff0000" in text


def test_code_that_is_not_there_is_a_memory_exception(compute):
    s = compute()
    event = s.c.event(s.c.event_page(), kfd.EVENT_MEMORY)
    s.queue.submit(*dispatch(0x1234567800))
    told = s.c.wait_events(event)[1][0].memory_exception_data
    assert (told.failure.NotPresent, told.va) == (1, 0x1234567000)


@pytest.mark.row("SIM-10")
def test_a_kernel_that_never_ends_costs_little_in_virtual_time(compute):
    s = compute(kernel_seconds=0.02)
    s.queue.submit(*dispatch(load(s, END)))
    assert s.queue.finished()  # the machinery is warm
    s.queue.submit(*dispatch(load(s, ENDLESS)))
    started = time.monotonic()
    assert not s.c.until(lambda: s.queue.read == s.queue.written, 30.0)
    assert time.monotonic() - started < 0.5
    assert s.host.faults[-1].kind == "hang"


def test_a_kernel_that_never_ends_is_stopped_with_its_queue(compute):
    s = compute(seed=None)
    s.queue.submit(*dispatch(load(s, ENDLESS)))
    time.sleep(0.05)
    started = time.monotonic()
    s.queue.destroy()
    assert time.monotonic() - started < 1
    other = s.c.queue()
    other.submit(*dispatch(load(s, END)))
    assert other.finished()


def test_a_hang_in_virtual_time_gets_the_gpu_reset(compute):
    s = compute(kernel_seconds=0.02, watchdog=10)
    event = s.c.event(s.c.event_page(), kfd.EVENT_HW_EXCEPTION)
    s.queue.submit(*dispatch(load(s, ENDLESS)))
    assert s.c.wait_events(event, timeout=9000)[0] == kfd.WAIT_RESULT_TIMEOUT
    assert s.c.wait_events(event, timeout=2000)[0] == kfd.WAIT_RESULT_COMPLETE


@pytest.mark.refusal
def test_a_queue_that_cannot_be_preempted_costs_a_reset(compute):
    s = compute(seed=None, preemptible=False)
    event = s.c.event(s.c.event_page(), kfd.EVENT_HW_EXCEPTION)
    s.queue.submit(*dispatch(load(s, ENDLESS)))
    assert s.c.until(lambda: s.host.gpus[0].running)
    with pytest.raises(IoctlError, match="ETIME"):
        s.queue.destroy()
    told = s.c.wait_events(event)[1][0].hw_exception_data
    assert (told.reset_type, told.memory_lost) == (0, 1)


def test_a_kernel_that_runs_too_long_gets_the_gpu_reset(compute):
    s = compute(seed=None, watchdog=0.05)
    event = s.c.event(s.c.event_page(), kfd.EVENT_HW_EXCEPTION)
    s.queue.submit(*dispatch(load(s, ENDLESS)))
    told = s.c.wait_events(event, timeout=5000)[1][0].hw_exception_data
    assert (told.reset_type, told.reset_cause, told.memory_lost) == (0, 0, 1)
