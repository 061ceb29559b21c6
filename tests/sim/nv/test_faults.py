"""What the simulated driver shows of errors: notifiers, fault entries, SM registers, hangs."""

import threading
import time

import pytest
from nv_client import Status

from hcq.ioctl_defs import nv_ctrl, nv_rm, nv_uvm
from sim.nv.warp import WarpFault

RELEASE = 1


class Fake:
    """Execution units that fault, or run until they are stopped."""

    def __init__(self, memory):
        self.counters = {}
        self.fault = None
        self.is_endless = False
        self.runs = threading.Event()

    def run(self, launch, stop):
        self.runs.set()
        while self.is_endless:
            if stop():
                raise WarpFault("aborted", launch.code, "", launch.code, "stopped")
            time.sleep(0.001)
        if self.fault:
            raise self.fault

    def close(self):
        pass


class Bench:
    """Two channels of one group, and one of another; the first can launch."""

    def __init__(self, client, **options):
        self.units = []
        options.setdefault("seed", 8)
        self.client = client(executor=self.make, **options)
        self.channel = self.client.channel()
        self.sibling = self.client.channel(group=self.channel.group)
        self.stranger = self.client.channel()
        self.cell = self.client.buffer()
        self.data = self.client.buffer(16 << 10)
        self.channel.segment(0x2001_2000, 0xCBC0)

    def make(self, memory):
        self.units.append(Fake(memory))
        return self.units[-1]

    def release(self, channel, offset=0):
        at = self.cell.address + offset
        channel.submit(0x2005_0017, at & 0xFFFFFFFF, at >> 32, 1, 0, RELEASE)

    def launch(self):
        at = self.data.address
        word = (
            4 << 580 | 0x90 << 536 | at + 0x1000 << 1216 | 16 << 1200 | 32 << 1152 | 1 << 1168
            | 1 << 1184 | 1 << 1024 | 1 << 1056 | 1 << 1088 | 0x400 << 584 | 3 << 608 | 3 << 620
            | 0x1A << 614
        )  # fmt: skip
        self.data.region.write(0, word.to_bytes(0x180, "little"))
        self.channel.submit(0x2001_20AD, at >> 8, 0x2001_20B0, 9)

    def debugger(self):
        mine = self.client
        return mine.alloc(
            mine.device, 0x83DE, nv_rm.DEBUGGER, hAppClient=mine.root,
            hClass3dObject=self.channel.compute,
        )  # fmt: skip


@pytest.fixture
def bench(client):
    return lambda **options: Bench(client, **options)


@pytest.mark.row("SIM-11")
def test_the_notifier_says_when_and_what(bench):
    made = bench()
    before = made.client.host.now()
    made.channel.submit(0x2001_0010, 0)
    assert made.channel.failed() == 32
    region = made.channel.notifier.region
    assert before * 1e9 <= region.read64(0) <= made.client.host.now() * 1e9
    assert (region.read32(8), region.read16(12), region.read16(14)) == (32, 0, 0xFFFF)


@pytest.mark.row("SIM-11")
def test_the_whole_group_ends_and_others_go_on(bench):
    made = bench()
    made.channel.submit(0x2001_0010, 0)
    assert made.channel.failed() == 32
    assert (made.sibling.error, made.stranger.error) == (32, None)
    made.release(made.sibling)
    made.release(made.stranger, 4)
    assert made.stranger.finished()
    assert made.cell.region.read64(0) == 1 << 32


@pytest.mark.row("SIM-11")
def test_a_new_group_works_in_the_same_process(bench):
    made = bench()
    made.channel.submit(0x2001_0010, 0)
    made.channel.failed()
    made.client.free(made.channel.group)
    again = made.client.channel()
    made.release(again)
    assert again.finished()
    assert made.cell.region.read32(0) == 1


@pytest.mark.row("SIM-11")
@pytest.mark.parametrize(
    ("address", "access", "kind", "code"),
    [(0x123456000, "read", 0, 0), (None, "write", 2, 1)],
)
def test_the_debugger_reads_address_kind_and_access(bench, address, access, kind, code):
    made = bench()
    address = address or made.data.address + (16 << 10)
    made.units[0].fault = WarpFault("memory", address, access, 0x7010, "a bad pointer")
    made.launch()
    assert made.channel.failed() == 31
    mine, debugger = made.client, made.debugger()
    faults = mine.control(debugger, nv_ctrl.READ_MMU_FAULTS)
    entry = faults.mmuFaultInfoList[0]
    assert faults.count == 1
    assert (entry.faultAddress, entry.faultType, entry.accessType) == (address, kind, code)
    states = mine.control(
        debugger, nv_ctrl.READ_SM_ERRORS, hTargetChannel=made.channel.handle, numSMsToRead=100
    )
    first = states.smErrorStateArray[0]
    assert (first.hwwWarpEsr, first.hwwWarpEsrPc64, first.hwwEsrAddr) == (0x14, 0x7010, address)
    assert (states.mmuFault.valid, states.smErrorStateArray[1].hwwWarpEsr) == (1, 0)
    found = mine.control(made.channel.handle, nv_ctrl.GET_MMU_FAULT_INFO)
    assert found.addrHi << 32 | found.addrLo == address


def test_more_multiprocessors_than_one_call_reads(bench):
    made = bench()
    target = made.channel.handle
    ask = {"hTargetChannel": target, "numSMsToRead": 44, "startingSM": 100}
    debugger = made.debugger()
    states = made.client.control(debugger, nv_ctrl.READ_SM_ERRORS, **ask)
    assert states.smErrorStateArray[0].hwwWarpEsr == 0
    with pytest.raises(Status):
        made.client.control(debugger, nv_ctrl.READ_SM_ERRORS, **ask | {"numSMsToRead": 45})


@pytest.mark.refusal
def test_a_debugger_needs_a_compute_object(bench):
    made = bench()
    made.channel.compute = made.channel.copy
    with pytest.raises(Status):
        made.debugger()


def test_nothing_went_wrong_yet(bench):
    made = bench()
    assert made.client.control(made.debugger(), nv_ctrl.READ_MMU_FAULTS).count == 0


@pytest.mark.row("SIM-11")
def test_a_read_only_page_is_told_apart(bench):
    made = bench()
    page = made.client.buffer(kind=3)
    made.cell.address = page.address
    made.release(made.channel)
    assert made.channel.failed() == 31
    found = made.client.control(made.channel.handle, nv_ctrl.GET_MMU_FAULT_INFO)
    text = nv_ctrl.ffi.string(found.faultString)
    assert (found.faultType, text) == (6, b"FAULT_RO_VIOLATION")


@pytest.mark.row("SIM-11")
def test_a_failure_of_the_simulator_itself_is_told(bench):
    made = bench()
    made.units[0].fault = ZeroDivisionError("a bug")
    made.launch()
    assert made.channel.failed() == 13
    assert "the simulator failed: ZeroDivisionError" in made.client.host.faults[-1].text


def test_a_gpu_that_falls_off_the_bus(bench):
    made = bench()
    made.client.host.lose_gpu()
    assert (made.channel.error, made.stranger.error) == (79, 79)


# Kernels that do not end.


@pytest.mark.row("SIM-10")
def test_a_hang_in_virtual_time_leaves_others_running(bench):
    made = bench(kernel_seconds=0.02)
    made.units[0].is_endless = True
    made.launch()
    host = made.client.host
    assert made.client.until(lambda: host.faults)
    assert "does not end" in host.faults[0].text
    made.release(made.stranger)
    assert made.stranger.finished()
    before = host.now()
    made.client.until(lambda: host.now() > before + 30)
    assert made.channel.error is None


@pytest.mark.row("SIM-10")
@pytest.mark.parametrize("seed", [None, 3])
def test_the_watchdog_ends_the_channel(bench, seed):
    made = bench(seed=seed, kernel_seconds=0.02, watchdog=2.0 if seed else 0.05)
    made.units[0].is_endless = True
    made.launch()
    assert made.channel.failed() == 109


def test_a_running_kernel_ends_with_its_channel(bench):
    made = bench(seed=None)
    made.units[0].is_endless = True
    made.launch()
    assert made.units[0].runs.wait(5)
    started = time.monotonic()
    made.client.free(made.channel.handle)
    assert time.monotonic() - started < 2
    made.release(made.stranger)
    assert made.stranger.finished()


def test_memory_is_unmapped_under_a_running_kernel(bench):
    made = bench(seed=None)
    made.units[0].is_endless = True
    made.launch()
    assert made.units[0].runs.wait(5)
    made.client.unified(nv_uvm.FREE, base=made.cell.address, length=4096)
    made.client.host.munmap(made.cell.region)
    other = made.client.buffer()
    assert other.region.read32(0) == 0
    made.client.free(made.channel.handle)
