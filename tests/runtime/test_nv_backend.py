"""The runtime on a simulated NVIDIA GPU."""

import array
import errno
import functools
import threading
import time

import pytest

from hcq.errors import (
    CodeObjectError,
    DeviceLost,
    DeviceNotFound,
    DeviceOpenError,
    FallbackWarning,
    GpuFault,
    GpuTimeout,
    LaunchError,
    OutOfMemory,
    Unsupported,
    WaitTimeout,
)
from hcq.settings import Context
from runtime.backend import Code, CodeArgument, LaunchSize, MemoryOptions
from runtime.buffer import Buffer
from runtime.call import CopyCall, ProgramCall
from runtime.device import Device
from runtime.execute import run_linear
from runtime.transfer import transfer

HEAD = """
target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
"""
TAIL = """
attributes #0 = { "nvvm.maxntid"="256,1,1" }
"""
# out[i] = a[i] + b[i] with i = 4 * group + item
ADD = """
define ptx_kernel void @add(ptr addrspace(1) %out, ptr addrspace(1) %a, ptr addrspace(1) %b) #0 {
  %item = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %group = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
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
define ptx_kernel void @hold(ptr addrspace(1) %flag) #0 {
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
define ptx_kernel void @bad(ptr addrspace(1) %out) #0 {
  %far = getelementptr i8, ptr addrspace(1) %out, i64 274877906944
  store i32 1, ptr addrspace(1) %far
  ret void
}
"""
FILL = """
define ptx_kernel void @fill(ptr addrspace(1) %out, i64 %value) #0 {
  %group = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %out.i = getelementptr i32, ptr addrspace(1) %out, i32 %group
  %short = trunc i64 %value to i32
  store i32 %short, ptr addrspace(1) %out.i
  ret void
}
"""
TEXTS = {"add": ADD, "hold": HOLD, "bad": BAD, "fill": FILL}
BUFFER = CodeArgument("buffer", "int32", 8)
SCALAR = CodeArgument("scalar", "int64", 8)


@functools.cache
def cubin(name, chip):
    """The machine code of a kernel of TEXTS."""
    pytest.importorskip("nvidia", reason="nvidia-nvjitlink (extra nv) is not installed")
    import llvmlite.binding as llvm

    from jit.codegen.nvjitlink import link

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine(cpu=chip, opt=2)
    return link(target.emit_assembly(llvm.parse_assembly(HEAD + TEXTS[name] + TAIL)), chip, name)


class GpuKernel:
    """A kernel of TEXTS."""

    def __init__(self, name, arguments, grid=(1, 1, 1), block=(1, 1, 1), **rest):
        self.name = self.key = name
        self.variables = rest.pop("variables", ())
        self.parts = (arguments, grid, block, rest)

    def compile(self, target):
        arguments, grid, block, rest = self.parts
        image = cubin(self.name, target.partition(":")[2])
        return Code(target, "cubin", image, self.name, arguments, grid, block, **rest)


@pytest.fixture
def nv(machine):
    """nv(**options): a simulated machine with an NVIDIA GPU; devices are closed before it goes."""

    def make(gpu="sm_90", **options):
        return machine(gpu, **options)

    yield make
    Device.close_all()


@pytest.fixture
def adding(int32):
    """A call out = a + b over 4 int32, and out."""

    def make(block=(4, 1, 1)):
        a, b, out = (Buffer("NV", 4, int32) for _ in range(3))
        a.copy_in(words(1, 2, 3, 4))
        b.copy_in(words(10, 20, 30, 40))
        return ProgramCall(GpuKernel("add", (BUFFER,) * 3, block=block), (out, a, b), "NV"), out

    return make


@pytest.fixture
def held(int32):
    """A launched kernel that runs until release() is called."""

    def make():
        flag = Buffer("NV", 1, int32, options=MemoryOptions(host=True, nolru=True)).allocate()
        view = flag.host_view()
        view[:] = bytes(4)
        run_linear([ProgramCall(GpuKernel("hold", (BUFFER,)), (flag,), "NV")])

        def release():
            view[:] = words(1)

        return release

    return make


def words(*values):
    return array.array("I", values).tobytes()


@pytest.mark.row("BKE-02")
def test_device_says_what_it_is(nv):
    nv()
    device = Device["NV"]
    assert (device.name, device.canonical, device.arch) == ("NV:0", "NV", "sm_90")
    assert (device.renderers, device.health(), device.count()) == (("PTX:sm_90",), "ok", 1)


@pytest.mark.row("BKE-02")
def test_device_is_chosen_by_the_setting(nv):
    nv()
    with Context(DEVICE="NV"):
        assert Device[Device.DEFAULT].target == "PTX:sm_90"


@pytest.mark.row("BKE-02")
@pytest.mark.parametrize("chip", ["sm_86", "sm_90", "sm_120"])
def test_kernel_runs(nv, adding, chip):
    nv(chip)
    call, out = adding()
    run_linear([call])
    assert out.copy_out() == words(11, 22, 33, 44)


@pytest.mark.row("BKE-02")
def test_launch_size_and_scalars_come_from_variables(nv, int32):
    nv()
    kernel = GpuKernel(
        "fill", (BUFFER, SCALAR), (4, 1, 1), variables=("value",), sizes=(LaunchSize("n"), 1, 1)
    )
    out = Buffer("NV", 4, int32).copy_in(words(0, 0, 0, 0))
    run_linear([ProgramCall(kernel, (out,), "NV", 1, {"value": 7, "n": 2})])
    assert out.copy_out() == words(7, 7, 0, 0)


@pytest.mark.row("BKE-02")
def test_views_of_one_buffer_may_overlap_in_a_copy(nv, uint8):
    nv()
    buffer = Buffer("NV", 6, uint8).copy_in(b"abcdef")
    run_linear([CopyCall(buffer.view(5, uint8, 1), buffer.view(5, uint8, 0))])
    assert bytes(buffer.copy_out()) == b"aabcde"


@pytest.mark.row("BKE-02")
@pytest.mark.parametrize("options", [MemoryOptions(cpu_access=True), MemoryOptions(host=True)])
def test_memory_with_a_host_view(nv, int32, options):
    nv()
    buffer = Buffer("NV", 2, int32, options=options).copy_in(words(1, 2))
    view = buffer.host_view()
    assert bytes(view) == words(1, 2)
    view[4:] = words(9)
    assert buffer.copy_out() == words(1, 9)


@pytest.mark.row("BKE-02")
@pytest.mark.parametrize("size", [1, 5000])
def test_zero_memory_reads_zero(nv, uint8, size):
    nv()
    dirty = Buffer("NV", size, uint8, options=MemoryOptions(nolru=True))
    dirty.copy_in(b"\xff" * size)
    del dirty
    Device["NV"].synchronize()
    options = MemoryOptions(zero=True)
    assert not any(Buffer("NV", size, uint8, options=options).allocate().copy_out())


@pytest.mark.row("BKE-02")
def test_host_read_sees_all_earlier_writes(nv, int32, held):
    nv()
    a = Buffer("NV", 4, int32).copy_in(words(1, 2, 3, 4))
    kernel = GpuKernel("add", (BUFFER,) * 3, block=(4, 1, 1))
    Device["NV"].program(kernel)
    release = held()
    run_linear([ProgramCall(kernel, (a, a, a), "NV") for _ in range(5)])
    threading.Timer(0.02, release).start()
    assert a.copy_out() == words(32, 64, 96, 128)


@pytest.mark.row("BKE-02")
def test_devices_of_two_vendors_exchange_bytes(nv, uint8):
    nv(["sm_90", "gfx1100"])
    far = Buffer("AMD", 5, uint8).copy_in(b"abcde")
    near = Buffer("NV", 5, uint8)
    transfer(near, far)
    back = Buffer("AMD", 5, uint8).allocate().copy_from(near)
    assert bytes(near.copy_out()) == bytes(back.copy_out()) == b"abcde"


@pytest.mark.row("BKE-02")
def test_timed_run_gives_device_seconds(nv, adding):
    nv()
    call, out = adding()
    seconds = Device["NV"].program(call.kernel)(*call.buffers, wait=True)
    assert 0 < seconds < 1
    assert out.copy_out() == words(11, 22, 33, 44)


@pytest.mark.row("BKE-02")
def test_closed_device_opens_again(nv, adding):
    nv()
    Buffer("NV", 1, adding()[1].dtype).copy_in(words(1))
    Device.close_all()
    call, out = adding()
    run_linear([call])
    assert out.copy_out() == words(11, 22, 33, 44)


# Refusals and failures.


@pytest.mark.row("BKE-02")
@pytest.mark.refusal
def test_index_beyond_the_gpus_gets_their_number(nv):
    nv(count=2)
    with pytest.raises(DeviceNotFound, match="no device 'NV:9': there are 2 NV devices"):
        Device["NV:9"]


@pytest.mark.row("BKE-02")
@pytest.mark.refusal
def test_named_device_without_hardware_is_an_error():
    with Context(DEVICE="NV"), pytest.raises(DeviceOpenError, match="/dev/nvidiactl") as caught:
        Device[Device.DEFAULT]
    assert "python -m sim" in caught.value.hint


@pytest.mark.row("BKE-02")
@pytest.mark.row("REG-06")
@pytest.mark.refusal
def test_gpu_whose_kernel_refuses_is_an_error_by_name_and_passed_over_by_default(nv, monkeypatch):
    monkeypatch.delenv("DEVICE", raising=False)
    nv().refuse("UVM_REGISTER_GPU", errno.EBUSY)
    with pytest.raises(DeviceOpenError, match="UVM_REGISTER_GPU"):
        Device["NV"]
    with pytest.warns(FallbackWarning, match=r"CPU is used: NV: .*UVM_REGISTER_GPU"):
        assert Device.DEFAULT == "CPU"


@pytest.mark.row("BKE-02")
@pytest.mark.refusal
@pytest.mark.parametrize(
    ("option", "options"),
    [("uncached", MemoryOptions(uncached=True)), ("external", MemoryOptions(external=4096))],
)
def test_impossible_options_are_unsupported_by_name(nv, int32, option, options):
    nv()
    with pytest.raises(Unsupported, match="NV:0 ") as caught:
        Buffer("NV", 2, int32, options=options).allocate()
    assert caught.value.facts == {"option": option}


@pytest.mark.row("BKE-02")
@pytest.mark.refusal
def test_more_than_the_gpu_has_is_out_of_memory(nv, uint8):
    nv()
    with pytest.raises(OutOfMemory, match="NV:0 has no memory for") as caught:
        Buffer("NV", 1 << 45, uint8).allocate()
    assert (caught.value.facts["device"], caught.value.facts["asked"]) == ("NV:0", 1 << 45)


@pytest.mark.row("BKE-02")
@pytest.mark.refusal
def test_code_for_another_chip_is_refused(nv):
    nv()
    with pytest.raises(CodeObjectError, match="NV:0 cannot run 'k'") as caught:
        Device["NV"].load(Code("PTX:sm_86", "cubin", b"", "k", ()))
    assert caught.value.facts == {"found": "cubin for PTX:sm_86", "wanted": "PTX:sm_90"}


@pytest.mark.row("BKE-02")
@pytest.mark.refusal
def test_launch_over_a_limit_is_refused_and_the_device_stays_good(nv, adding):
    nv()
    call, _ = adding(block=(257, 1, 1))
    with pytest.raises(LaunchError, match="kernel add: threads 257 is outside the limit 256"):
        run_linear([call])
    Device["NV"].synchronize()
    assert Device["NV"].health() == "ok"


@pytest.mark.row("BKE-02")
@pytest.mark.refusal
def test_fault_is_raised_at_the_first_wait_and_names_its_kernel(nv, int32, adding):
    nv()
    call, out = adding()
    run_linear([call])
    Device["NV"].synchronize()
    target = Buffer("NV", 4, int32, name="weights")
    run_linear([ProgramCall(GpuKernel("bad", (BUFFER,)), (target,), "NV")])
    with pytest.raises(GpuFault, match="GpuFault on NV:0: kernel bad wrote to a page") as caught:
        Device["NV"].synchronize()
    assert caught.value.facts["nearest"].startswith("no buffer near: ")
    assert "an index may reach past" not in caught.value.hint
    with pytest.raises(DeviceLost, match="is lost since: GpuFault on NV:0: kernel bad"):
        out.copy_out()
    with pytest.raises(DeviceLost, match="kernel bad"):
        run_linear([call])
    assert Device["NV"].health() == "reset-device"


@pytest.mark.row("BKE-02")
@pytest.mark.refusal
def test_kernel_over_its_limit_is_a_gpu_timeout(nv, int32):
    nv()
    flag = Buffer("NV", 1, int32, options=MemoryOptions(host=True)).allocate()
    view = flag.host_view()
    view[:] = bytes(4)
    program = Device["NV"].program(GpuKernel("hold", (BUFFER,)))
    start = time.monotonic()
    with pytest.raises(GpuTimeout, match="kernel hold did not finish within 100 ms"):
        program(flag, limit_ms=100)
    assert 0.09 < time.monotonic() - start < 2
    view[:] = words(1)


@pytest.mark.row("BKE-02")
@pytest.mark.refusal
def test_limit_on_waiting_leaves_the_device_good(nv, held, adding):
    nv()
    release = held()
    with pytest.raises(WaitTimeout, match="NV:0"):
        Device["NV"].synchronize(timeout=0.05)
    release()
    call, out = adding()
    run_linear([call])
    assert out.copy_out() == words(11, 22, 33, 44)
