"""Kernels on GPUs: what they are given, in what order they run, how long, and how they fail."""

import threading
import time

import pytest
from gpu_calls import BUFFER, SCALAR, GpuKernel, adder, words

from hcq.errors import DeviceLost, GpuFault, GpuTimeout, LaunchError, WaitTimeout
from runtime.backend import LaunchSize, MemoryOptions
from runtime.buffer import Buffer
from runtime.call import ProgramCall
from runtime.counters import GlobalCounters
from runtime.device import Device
from runtime.execute import run_linear

HOW = {"AMD": "used a page that is not mapped", "NV": "wrote to a page"}
HELPS = {"AMD": "restart-process", "NV": "reset-device"}


@pytest.mark.parametrize(
    ("name", "chip"),
    [
        pytest.param("AMD", "gfx1100", marks=pytest.mark.row("BKE-03")),
        *(
            pytest.param("NV", chip, marks=pytest.mark.row("BKE-02"))
            for chip in ("sm_86", "sm_90", "sm_120")
        ),
    ],
)
def test_kernel_runs(place, adding, name, chip):
    place(chip)
    call, *_, out = adding()
    run_linear([call])
    assert out.copy_out() == words(11, 22, 33, 44)


@pytest.mark.row("EXE-03")
@pytest.mark.row("BKE-02")
def test_launch_size_and_scalars_come_from_variables(place, name, int32):
    place()
    kernel = GpuKernel(
        "fill", (BUFFER, SCALAR), (4, 1, 1), variables=("value",), sizes=(LaunchSize("n"), 1, 1)
    )
    out = Buffer(name, 4, int32).copy_in(words(0, 0, 0, 0))
    run_linear([ProgramCall(kernel, (out,), name, 1, {"value": 7, "n": 2})])
    assert out.copy_out() == words(7, 7, 0, 0)


@pytest.mark.row("EXE-11")
@pytest.mark.row("BKE-02")
def test_host_read_sees_all_earlier_writes(place, name, int32, held):
    place()
    a = Buffer(name, 4, int32).copy_in(words(1, 2, 3, 4))
    kernel = adder()
    Device[name].program(kernel)
    release = held()
    run_linear([ProgramCall(kernel, (a, a, a), name) for _ in range(5)])
    threading.Timer(0.02, release).start()
    assert a.copy_out() == words(32, 64, 96, 128)


@pytest.mark.row("CMP-06")
@pytest.mark.row("BKE-02")
def test_timed_run_gives_device_seconds(place, name, adding):
    place()
    call, a, b, out = adding()
    seconds = Device[name].program(call.kernel)(out, a, b, wait=True)
    assert 0 < seconds < 1
    assert GlobalCounters.time_sum_s == seconds
    assert out.copy_out() == words(11, 22, 33, 44)


@pytest.mark.row("BKE-02")
@pytest.mark.refusal
def test_launch_over_a_limit_is_refused_and_the_device_stays_good(place, name, adding):
    place()
    call, *_ = adding(block=(257, 1, 1))
    with pytest.raises(LaunchError, match="kernel add: threads 257 is outside the limit 256"):
        run_linear([call])
    Device[name].synchronize()
    assert Device[name].health() == "ok"


@pytest.mark.row("EXE-14")
@pytest.mark.row("BKE-02")
@pytest.mark.refusal
def test_fault_is_raised_at_the_first_wait_and_names_its_kernel(place, name, int32, adding):
    place()
    call, *_, out = adding()
    run_linear([call])
    Device[name].synchronize()
    target = Buffer(name, 4, int32, name="weights")
    run_linear([ProgramCall(GpuKernel("bad", (BUFFER,)), (target,), name), call])
    with pytest.raises(GpuFault, match=f"GpuFault on {name}:0: kernel bad {HOW[name]}") as caught:
        Device[name].synchronize()
    assert caught.value.facts["nearest"].startswith("no buffer near: ")
    assert "an index may reach past" not in caught.value.hint
    with pytest.raises(DeviceLost, match=f"is lost since: GpuFault on {name}:0: kernel bad"):
        out.copy_out()
    with pytest.raises(DeviceLost, match="kernel bad"):
        run_linear([call])
    assert Device[name].health() == HELPS[name]


@pytest.mark.row("CMP-06")
@pytest.mark.row("BKE-02")
@pytest.mark.refusal
def test_kernel_over_its_limit_is_a_gpu_timeout(place, name, int32):
    place()
    flag = Buffer(name, 1, int32, options=MemoryOptions(host=True)).allocate()
    view = flag.host_view()
    view[:] = bytes(4)
    program = Device[name].program(GpuKernel("hold", (BUFFER,)))
    start = time.monotonic()
    with pytest.raises(GpuTimeout, match="kernel hold did not finish within 100 ms"):
        program(flag, limit_ms=100)
    assert 0.09 < time.monotonic() - start < 1.1
    with pytest.raises(DeviceLost, match=r"is lost since: .*kernel hold did not finish"):
        Device[name].synchronize()
    view[:] = words(1)


@pytest.mark.row("CMP-06")
@pytest.mark.row("BKE-02")
@pytest.mark.refusal
def test_limit_on_waiting_leaves_the_device_good(place, name, held, adding):
    place()
    release = held()
    with pytest.raises(WaitTimeout, match=f"{name}:0"):
        Device[name].synchronize(timeout=0.05)
    release()
    call, *_, out = adding()
    run_linear([call])
    assert out.copy_out() == words(11, 22, 33, 44)
