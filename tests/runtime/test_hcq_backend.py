"""The runtime on a simulated AMD GPU."""

import array
import errno
import gc
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hcq.errors import (
    CodeObjectError,
    DeviceLost,
    DeviceNotFound,
    DeviceOpenError,
    FallbackWarning,
    GpuFault,
    GpuTimeout,
    OutOfMemory,
    Unsupported,
    WaitTimeout,
)
from hcq.settings import Context
from runtime.backend import Code, CodeArgument, LaunchSize, MemoryOptions
from runtime.buffer import Buffer
from runtime.call import CopyCall, ProgramCall
from runtime.counters import GlobalCounters
from runtime.device import Device
from runtime.execute import run_linear
from runtime.transfer import transfer

MIB = 1 << 20
DRIVER_BYTES = 45 * MIB  # VRAM that queues need for saving waves, and code
TRIPLE = "amdgcn-amd-amdhsa"
HEAD = """
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
"""
ADD = """
define amdgpu_kernel void @add(ptr addrspace(1) %out, ptr addrspace(1) %a, ptr addrspace(1) %b) #0 {
  %item = call i32 @llvm.amdgcn.workitem.id.x()
  %group = call i32 @llvm.amdgcn.workgroup.id.x()
  %start = mul i32 %group, 4
  %i = add i32 %start, %item
  %a.i = getelementptr i32, ptr addrspace(1) %a, i32 %i
  %b.i = getelementptr i32, ptr addrspace(1) %b, i32 %i
  %out.i = getelementptr i32, ptr addrspace(1) %out, i32 %i
  %x = load i32, ptr addrspace(1) %a.i
  %y = load i32, ptr addrspace(1) %b.i
  %sum = add i32 %x, %y
  store i32 %sum, ptr addrspace(1) %out.i
  ret void
}
"""
# Runs until flag[0] is not 0.
HOLD = """
define amdgpu_kernel void @hold(ptr addrspace(1) %flag) #0 {
  br label %loop
loop:
  %value = load volatile i32, ptr addrspace(1) %flag
  %more = icmp eq i32 %value, 0
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""
BAD = """
define amdgpu_kernel void @bad(ptr addrspace(1) %out) #0 {
  %far = getelementptr i8, ptr addrspace(1) %out, i64 1099511627776
  store i32 1, ptr addrspace(1) %far
  ret void
}
"""
FILL = """
define amdgpu_kernel void @fill(ptr addrspace(1) %out, i64 %value) #0 {
  %group = call i32 @llvm.amdgcn.workgroup.id.x()
  %out.i = getelementptr i32, ptr addrspace(1) %out, i32 %group
  %short = trunc i64 %value to i32
  store i32 %short, ptr addrspace(1) %out.i
  ret void
}
"""
# What the kernels do without, so that the driver is not asked for it.
UNUSED = (
    *("dispatch-id", "dispatch-ptr", "queue-ptr", "implicitarg-ptr", "workgroup-id-y"),
    *("workgroup-id-z", "workitem-id-y", "workitem-id-z", "hostcall-ptr", "heap-ptr"),
    *("multigrid-sync-arg", "default-queue", "completion-action", "lds-kernel-id"),
)
WITHOUT = " ".join(f'"amdgpu-no-{name}"' for name in UNUSED)
TAIL = f"""
attributes #0 = {{ "amdgpu-flat-work-group-size"="1,256" "uniform-work-group-size"="true"
  {WITHOUT} }}
"""
BUFFER = CodeArgument("buffer", "int32", 8)
SCALAR = CodeArgument("scalar", "int64", 8)


class GpuKernel:
    """A kernel from LLVM assembly for gfx1100."""

    def __init__(self, name, text, arguments, grid=(1, 1, 1), block=(1, 1, 1), **rest):
        self.name = self.key = name
        self.variables = rest.pop("variables", ())
        self.parts = (text, arguments, grid, block, rest)

    def compile(self, target):
        from jit.codegen.machine import emit_object

        text, arguments, grid, block, rest = self.parts
        image = emit_object(TRIPLE, target.partition(":")[2], HEAD + text + TAIL)
        return Code(target, "hsaco", image, self.name, arguments, grid, block, **rest)


@pytest.fixture
def amd(machine):
    """A simulated machine with an AMD GPU; devices are closed before it goes away."""

    def make(**limits):
        return machine(**limits)

    yield make
    Device.close_all()


@pytest.fixture
def adding(int32):
    """A call out = a + b over 4 int32, with its buffers."""

    def make(device="AMD"):
        a, b, out = (Buffer(device, 4, int32) for _ in range(3))
        a.copy_in(words(1, 2, 3, 4))
        b.copy_in(words(10, 20, 30, 40))
        kernel = GpuKernel("add", ADD, (BUFFER,) * 3, (1, 1, 1), (4, 1, 1))
        return ProgramCall(kernel, (out, a, b), device), a, b, out

    return make


@pytest.fixture
def held(int32):
    """A launched kernel that runs until release() is called."""

    def make(device="AMD"):
        flag = Buffer(device, 1, int32, options=MemoryOptions(host=True, nolru=True)).allocate()
        view = flag.host_view()
        view[:] = bytes(4)
        run_linear([ProgramCall(GpuKernel("hold", HOLD, (BUFFER,)), (flag,), device)])

        def release():
            view[:] = words(1)

        return release

    return make


def words(*values):
    return array.array("I", values).tobytes()


@pytest.mark.row("BKE-03")
def test_device_says_what_it_is(amd):
    amd()
    device = Device["AMD"]
    assert (device.name, device.canonical, device.arch) == ("AMD:0", "AMD", "gfx1100")
    assert device.renderers == ("LLVM:gfx1100",)
    assert (device.health(), device.count()) == ("ok", 1)


@pytest.mark.row("REG-16")
def test_device_object_has_what_a_user_needs(amd):
    amd(count=2)
    device = Device["AMD:1"]
    assert (device.name, device.index, device.canonical) == ("AMD:1", 1, "AMD:1")
    assert (device.count(), device.allocator.live, len(device.batch())) == (2, 0, 0)
    assert device.capabilities >= {"copy_in", "copy_out", "host_view", "transfer"}
    device.synchronize()


@pytest.mark.row("REG-08")
def test_interface_may_be_named(amd):
    amd()
    with Context(DEVICE="KFD+AMD:0:LLVM:gfx1100"):
        assert Device[Device.DEFAULT].target == "LLVM:gfx1100"


@pytest.mark.row("BKE-03")
def test_kernel_runs(amd, adding):
    amd()
    call, *_, out = adding()
    run_linear([call])
    assert out.copy_out() == words(11, 22, 33, 44)


@pytest.mark.row("REG-02")
def test_nothing_is_asked_of_the_machine_before_first_use(amd, int32):
    machine = amd()
    buffer = Buffer("AMD", 4, int32)
    assert list(machine.calls) == []
    buffer.ensure_allocated()
    assert "open /dev/kfd" in machine.calls


@pytest.mark.row("REG-03")
@pytest.mark.refusal
def test_index_beyond_the_gpus_gets_their_number(amd):
    amd(count=2)
    with pytest.raises(DeviceNotFound, match="no device 'AMD:9': there are 2 AMD devices"):
        Device["AMD:9"]


@pytest.mark.refusal
def test_named_device_without_hardware_is_an_error():
    with Context(DEVICE="AMD"), pytest.raises(DeviceOpenError, match="/dev/kfd"):
        Device[Device.DEFAULT]


@pytest.mark.row("REG-08")
@pytest.mark.refusal
@pytest.mark.parametrize("call", ["KFD_ACQUIRE_VM", "KFD_CREATE_QUEUE", "KFD_MAP_MEMORY_TO_GPU"])
def test_gpu_whose_kernel_refuses_is_an_error_by_name_and_passed_over_by_default(
    amd, monkeypatch, call
):
    monkeypatch.delenv("DEVICE", raising=False)
    amd().refuse(call, errno.EBUSY)
    with pytest.raises(DeviceOpenError, match=f"AMD does not open: {call}: Device or") as caught:
        Device["AMD"]
    assert (caught.value.facts["step"], caught.value.facts["errno"]) == (call, "EBUSY")
    with pytest.warns(FallbackWarning, match=f"CPU is used: AMD: AMD does not open: {call}"):
        assert Device.DEFAULT == "CPU"


def test_unset_default_is_the_gpu_where_there_is_one(amd, monkeypatch):
    monkeypatch.delenv("DEVICE", raising=False)
    amd()
    assert Device.DEFAULT == "AMD"


def test_unset_default_is_the_cpu_elsewhere(monkeypatch):
    monkeypatch.delenv("DEVICE", raising=False)
    assert Device.DEFAULT == "CPU"


def test_two_gpus_have_memory_of_their_own(amd, int32):
    amd(count=2)
    first, second = (Buffer(name, 2, int32) for name in ("AMD:0", "AMD:1"))
    first.copy_in(words(1, 2))
    second.copy_in(words(3, 4))
    assert (first.copy_out(), second.copy_out()) == (words(1, 2), words(3, 4))


@pytest.mark.row("EXE-03")
def test_launch_size_and_scalars_come_from_variables(amd, int32):
    amd()
    kernel = GpuKernel(
        "fill", FILL, (BUFFER, SCALAR), (4, 1, 1), variables=("value",),
        sizes=(LaunchSize("n"), 1, 1),
    )  # fmt: skip
    out = Buffer("AMD", 4, int32).copy_in(words(0, 0, 0, 0))
    run_linear([ProgramCall(kernel, (out,), "AMD", 1, {"value": 7, "n": 2})])
    assert out.copy_out() == words(7, 7, 0, 0)


@pytest.mark.row("EXE-05")
def test_views_of_one_buffer_may_overlap_in_a_copy(amd, uint8):
    amd()
    buffer = Buffer("AMD", 6, uint8).copy_in(b"abcdef")
    run_linear([CopyCall(buffer.view(5, uint8, 1), buffer.view(5, uint8, 0))])
    assert bytes(buffer.copy_out()) == b"aabcde"


@pytest.mark.row("EXE-05")
@pytest.mark.parametrize(
    ("options", "route"),
    [(MemoryOptions(), "staged"), (MemoryOptions(cpu_access=True), "target view")],
)
def test_gpus_exchange_bytes(amd, uint8, options, route):
    amd(count=2)
    source = Buffer("AMD:0", 5, uint8).copy_in(b"abcde")
    target = Buffer("AMD:1", 5, uint8, options=options)
    assert transfer(target, source) == route
    assert bytes(target.copy_out()) == b"abcde"


@pytest.mark.row("BUF-08")
@pytest.mark.parametrize("options", [MemoryOptions(cpu_access=True), MemoryOptions(host=True)])
def test_memory_with_a_host_view(amd, int32, options):
    amd()
    buffer = Buffer("AMD", 2, int32, options=options).copy_in(words(1, 2))
    view = buffer.host_view()
    assert bytes(view) == words(1, 2)
    view[4:] = words(9)
    assert buffer.copy_out() == words(1, 9)


@pytest.mark.row("BUF-08")
@pytest.mark.refusal
def test_memory_without_a_host_view(amd, int32):
    amd()
    with pytest.raises(Unsupported, match="AMD memory of <Buffer AMD 2 int32> cannot be addressed"):
        Buffer("AMD", 2, int32).host_view()


@pytest.mark.row("BUF-12")
@pytest.mark.refusal
@pytest.mark.parametrize(
    ("option", "options"),
    [("uncached", MemoryOptions(uncached=True)), ("external", MemoryOptions(external=4096))],
)
def test_impossible_options_are_unsupported_by_name(amd, int32, option, options):
    amd()
    with pytest.raises(Unsupported, match="AMD:0 ") as caught:
        Buffer("AMD", 2, int32, options=options).allocate()
    assert caught.value.facts == {"option": option}


@pytest.mark.row("BUF-12")
@pytest.mark.refusal
def test_host_view_of_vram_without_a_large_bar_is_refused_with_the_remedy(amd, int32):
    amd(large_bar=False)
    options = MemoryOptions(cpu_access=True)
    with pytest.raises(OutOfMemory, match=r"hint: turn on resizable BAR"):
        Buffer("AMD", 2, int32, options=options).allocate()
    assert Buffer("AMD", 2, int32).copy_in(words(1, 2)).copy_out() == words(1, 2)


@pytest.mark.row("BUF-12")
@pytest.mark.parametrize("size", [1, 5000])
def test_zero_memory_reads_zero(amd, uint8, size):
    amd()
    dirty = Buffer("AMD", size, uint8, options=MemoryOptions(nolru=True))
    dirty.copy_in(b"\xff" * size)
    del dirty
    Device["AMD"].synchronize()
    assert not any(
        Buffer("AMD", size, uint8, options=MemoryOptions(zero=True)).allocate().copy_out()
    )


@pytest.mark.row("ALC-03")
def test_reused_memory_costs_no_call_to_the_kernel(amd, int32):
    machine = amd()
    Buffer("AMD", 1000, int32).copy_in(bytes(4000))
    Device["AMD"].synchronize()
    machine.calls.clear()
    for _ in range(10):
        Buffer("AMD", 1000, int32).ensure_allocated()
    assert [c for c in machine.calls if c.startswith("ioctl")] == []


@pytest.mark.row("ALC-05")
def test_many_steps_leave_everything_as_it_was(amd, adding):
    amd()
    call, a, b, _ = adding()

    def steps(count):
        for _ in range(count):
            out = Buffer("AMD", 4, a.dtype)
            run_linear([ProgramCall(call.kernel, (out, a, b), "AMD")])
            a.copy_in(words(1, 2, 3, 4))
            assert out.copy_out() == words(11, 22, 33, 44)

    steps(100)
    raw = Device["AMD"].backend.device
    before = Device["AMD"].allocator.statistics, raw.stats.live, len(os.listdir("/proc/self/fd"))
    memory = resident()
    steps(400)
    after = Device["AMD"].allocator.statistics, raw.stats.live, len(os.listdir("/proc/self/fd"))
    assert after == before
    assert resident() <= memory * 1.02


def resident():
    """Bytes of this process that lie in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.row("ALC-04")
def test_large_block_is_had_after_small_ones_on_a_small_gpu(amd, uint8):
    amd(vram=64 * MIB + DRIVER_BYTES)
    kept = []
    for size in range(5, 11):
        kept.append(Buffer("AMD", size * MIB, uint8).allocate())
    kept.clear()
    large = Buffer("AMD", 48 * MIB, uint8).allocate()
    assert large.is_allocated
    assert Device["AMD"].allocator.statistics.cached == 0


@pytest.mark.row("BUF-13")
@pytest.mark.row("ALC-05")
def test_changing_sizes_never_exceed_a_small_gpu_without_the_cyclic_collector(amd, uint8):
    amd(vram=64 * MIB + DRIVER_BYTES)
    sizes = random.Random(3)
    kept = []
    gc.disable()
    try:
        for step in range(2000):
            buffer = Buffer("AMD", sizes.randrange(1, 12 * MIB), uint8).allocate()
            if step % 20 == 0:
                mark = bytes([step % 251]) * min(64, buffer.size)
                buffer.view(len(mark), uint8, 0).copy_in(mark)
            kept = [*kept[-3:], buffer]
            assert Device["AMD"].allocator.statistics.reserved <= 64 * MIB + DRIVER_BYTES
        assert Device["AMD"].allocator.live == sum(buffer.size for buffer in kept)
    finally:
        gc.enable()
    assert Device["AMD"].allocator.statistics.failures == 0


@pytest.mark.row("ALC-01")
@pytest.mark.row("ALC-04")
@pytest.mark.refusal
def test_more_than_the_gpu_has_is_out_of_memory(amd, uint8):
    amd(vram=64 * MIB + DRIVER_BYTES)
    kept = Buffer("AMD", 20 * MIB, uint8).allocate()
    with pytest.raises(OutOfMemory, match="AMD:0 has no memory for 62914560 bytes") as caught:
        Buffer("AMD", 60 * MIB, uint8).allocate()
    facts = caught.value.facts
    assert (facts["device"], facts["asked"], facts["live"]) == ("AMD:0", 60 * MIB, 20 * MIB)
    assert (facts["limit"], facts["cached"]) == (64 * MIB + DRIVER_BYTES, 0)
    assert kept.is_allocated


@pytest.mark.row("BUF-13")
def test_memory_is_not_rewritten_while_a_queued_copy_reads_it(amd, uint8, held):
    amd()
    source = Buffer("AMD", 4096, uint8).copy_in(b"a" * 4096)
    target = Buffer("AMD", 4096, uint8).allocate()
    release = held()
    run_linear([CopyCall(target, source)])
    address = source.memory.address
    source.free()
    # The same memory for a new owner, while the copy that reads it waits for the kernel.
    again = Buffer("AMD", 4096, uint8)
    writer = threading.Thread(target=lambda: again.copy_in(b"b" * 4096))
    writer.start()
    time.sleep(0.02)
    release()
    writer.join()
    assert again.memory.address == address
    assert bytes(target.copy_out()) == b"a" * 4096
    assert bytes(again.copy_out()) == b"b" * 4096


@pytest.mark.row("BUF-13")
def test_memory_goes_back_only_when_its_queue_is_done(amd, uint8, held):
    machine = amd()
    release = held()
    buffer = Buffer("AMD", 4096, uint8, options=MemoryOptions(nolru=True)).allocate()
    machine.calls.clear()
    del buffer
    assert [c for c in machine.calls if "FREE_MEMORY" in c] == []
    release()
    Device["AMD"].synchronize()
    assert [c for c in machine.calls if "FREE_MEMORY" in c] == ["ioctl KFD_FREE_MEMORY_OF_GPU"]


@pytest.mark.row("EXE-11")
def test_host_read_sees_all_earlier_writes(amd, int32, held):
    amd()
    a = Buffer("AMD", 4, int32).copy_in(words(1, 2, 3, 4))
    kernel = GpuKernel("add", ADD, (BUFFER,) * 3, (1, 1, 1), (4, 1, 1))
    Device["AMD"].program(kernel)
    release = held()
    run_linear([ProgramCall(kernel, (a, a, a), "AMD") for _ in range(5)])
    threading.Timer(0.02, release).start()
    assert a.copy_out() == words(32, 64, 96, 128)


@pytest.mark.row("EXE-14")
@pytest.mark.refusal
def test_fault_is_raised_at_the_first_wait_and_names_its_kernel(amd, int32, adding):
    amd()
    call, *_, out = adding()
    run_linear([call])
    Device["AMD"].synchronize()
    target = Buffer("AMD", 4, int32, name="weights")
    run_linear([ProgramCall(GpuKernel("bad", BAD, (BUFFER,)), (target,), "AMD"), call])
    with pytest.raises(GpuFault, match="bad"):
        Device["AMD"].synchronize()
    with pytest.raises(DeviceLost, match="is lost since: GpuFault on AMD:0: kernel bad"):
        out.copy_out()
    with pytest.raises(DeviceLost, match="kernel bad"):
        run_linear([call])
    assert Device["AMD"].health() == "restart-process"


@pytest.mark.row("CMP-06")
def test_timed_run_gives_device_seconds(amd, adding):
    amd()
    call, a, b, out = adding()
    program = Device["AMD"].program(call.kernel)
    seconds = program(out, a, b, wait=True)
    assert 0 < seconds < 1
    assert GlobalCounters.time_sum_s == seconds
    assert out.copy_out() == words(11, 22, 33, 44)


@pytest.mark.row("CMP-06")
@pytest.mark.refusal
def test_kernel_over_its_limit_is_a_gpu_timeout(amd, int32):
    amd()
    flag = Buffer("AMD", 1, int32, options=MemoryOptions(host=True)).allocate()
    view = flag.host_view()
    view[:] = bytes(4)
    program = Device["AMD"].program(GpuKernel("hold", HOLD, (BUFFER,)))
    start = time.monotonic()
    with pytest.raises(GpuTimeout, match="kernel hold did not finish within 100 ms"):
        program(flag, limit_ms=100)
    assert 0.09 < time.monotonic() - start < 1.1
    with pytest.raises(DeviceLost, match=r"is lost since: .*kernel hold did not finish"):
        Device["AMD"].synchronize()
    view[:] = words(1)


@pytest.mark.row("CMP-06")
@pytest.mark.refusal
def test_limit_on_waiting_leaves_the_device_good(amd, held, adding):
    amd()
    release = held()
    with pytest.raises(WaitTimeout, match="AMD:0"):
        Device["AMD"].synchronize(timeout=0.05)
    release()
    call, *_, out = adding()
    run_linear([call])
    assert out.copy_out() == words(11, 22, 33, 44)


@pytest.mark.refusal
def test_code_for_another_chip_is_refused(amd):
    amd()
    with pytest.raises(CodeObjectError, match="AMD:0 cannot run 'k'") as caught:
        Device["AMD"].load(Code("LLVM:gfx1201", "hsaco", b"", "k", ()))
    assert caught.value.facts == {"found": "hsaco for LLVM:gfx1201", "wanted": "LLVM:gfx1100"}


def test_buffer_name_reaches_the_driver(amd, int32):
    amd()
    buffer = Buffer("AMD", 4, int32, name="weights").allocate()
    assert "weights" in Device["AMD"].backend.device.buffers_at(buffer.memory.address)


def test_devices_of_two_kinds_exchange_bytes(amd, int32):
    amd()
    near = Buffer("CPU", 3, int32).copy_in(words(1, 2, 3))
    far = Buffer("AMD", 3, int32).allocate().copy_from(near)
    back = Buffer("CPU", 3, int32).allocate().copy_from(far)
    assert back.copy_out() == words(1, 2, 3)


HANG = """
import time
from runtime.backend import MemoryOptions
from runtime.buffer import Buffer
from runtime.call import ProgramCall
from runtime.execute import run_linear
from tests.runtime.test_hcq_backend import BUFFER, GpuKernel, HOLD
class E: name='int32'; itemsize=4
kept = [Buffer('AMD', 1000, E).ensure_allocated() for _ in range(10)]
flag = Buffer('AMD', 1, E, options=MemoryOptions(host=True)).allocate()
flag.host_view()[:] = bytes(4)
run_linear([ProgramCall(GpuKernel('hold', HOLD, (BUFFER,)), (flag,), 'AMD')])
print('end', time.monotonic(), flush=True)
"""

FORK = """
import os
from runtime.buffer import Buffer
from runtime.device import Device
from hcq.errors import DeviceBanned
class E: name='uint8'; itemsize=1
buffer = Buffer('AMD', 4, E).copy_in(b'abcd')
child = os.fork()
if child == 0:
    try:
        buffer.copy_out()
    except DeviceBanned as error:
        print(error.what, flush=True)
    raise SystemExit(0)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(status, bytes(buffer.copy_in(b'wxyz').copy_out()))
"""


def simulated(script, tmp_path):
    """Run a script under the launcher: (status, lines, errors)."""
    path = tmp_path / "script.py"
    path.write_text(script)
    done = subprocess.run(
        [sys.executable, "-m", "sim", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(["", *sys.path]), "DEVICE": "AMD"},
        check=False,
    )
    return done.returncode, done.stdout.splitlines(), done.stderr


@pytest.mark.row("REG-15")
def test_process_with_a_hung_kernel_and_live_buffers_ends(tmp_path):
    status, lines, error = simulated(HANG, tmp_path)
    assert (status, len(lines)) == (0, 1), error
    ended = float(lines[0].removeprefix("end "))
    assert time.monotonic() - ended < 5
    assert "did not finish before it was closed" not in error  # logged, not printed


FAULT = """
from hcq.errors import GpuFault
from runtime.buffer import Buffer
from runtime.call import ProgramCall
from runtime.execute import run_linear
from tensor import Device, Tensor
from tests.runtime.test_hcq_backend import BAD, BUFFER, GpuKernel
class E: name='int32'; itemsize=4
kept = [(Tensor([1.0, 2.0]) * n).realize() for n in range(10)]
target = Buffer('AMD', 4, E).allocate()
run_linear([ProgramCall(GpuKernel('bad', BAD, (BUFFER,)), (target,), 'AMD')])
try:
    kept[3].numpy()
except GpuFault as error:
    print(error.facts['kernel'] if 'kernel' in error.facts else error.what)
"""


@pytest.mark.row("REG-15")
@pytest.mark.row("EXE-14")
def test_process_with_a_failed_device_and_live_tensors_ends_in_peace(tmp_path):
    status, lines, error = simulated(FAULT, tmp_path)
    assert (status, error) == (0, "")
    assert len(lines) == 1
    assert "bad" in lines[0]


@pytest.mark.row("REG-17")
def test_parent_goes_on_after_a_fork(tmp_path):
    status, lines, error = simulated(FORK, tmp_path)
    assert (status, lines) == (
        0,
        ["AMD:0 cannot be used here: it was opened before fork", "0 b'wxyz'"],
    ), error
