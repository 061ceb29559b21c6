"""The boundary: windows, ioctl arguments, and how a refusal reads."""

import ast
import errno
from pathlib import Path

import pytest
from cffi import FFI

from hcq import host
from hcq.errors import BufferUseError, FieldError, IoctlError
from hcq.host import MappedRegion, refused
from hcq.ioctl_defs import Ioctl, iowr, kfd

ROOT = Path(__file__).parents[2]


@pytest.fixture
def region():
    ffi = FFI()
    memory = ffi.new("char[64]")
    found = MappedRegion(int(ffi.cast("uintptr_t", memory)), 64)
    found.keep = memory
    return found


@pytest.mark.row("HCQ-03")
@pytest.mark.parametrize(
    ("bits", "value", "stored"),
    [
        (8, 0xAB, "ab"),
        (16, 0xABCD, "cdab"),
        (32, 0x89ABCDEF, "efcdab89"),
        (64, 0x0123456789ABCDEF, "efcdab8967452301"),
    ],
)
def test_windows_read_and_write_8_to_64_bits(region, bits, value, stored):
    getattr(region, f"write{bits}")(8, value)
    assert region.read(8, bits // 8).hex() == stored
    assert getattr(region, f"read{bits}")(8) == value


@pytest.mark.row("HCQ-03")
def test_sub_windows_start_at_their_own_zero(region):
    region.window(16, 8).write32(4, 7)
    assert region.read32(20) == 7


@pytest.mark.row("HCQ-03")
@pytest.mark.refusal
@pytest.mark.parametrize(
    "use",
    [
        lambda r: r.read64(60),
        lambda r: r.read32(64),
        lambda r: r.write8(-1, 0),
        lambda r: r.window(60, 8),
        lambda r: r.read(0, 65),
        lambda r: r.write(63, b"ab"),
    ],
)
def test_outside_a_window_is_refused(region, use):
    with pytest.raises(BufferUseError, match=r"outside a mapped window|not aligned"):
        use(region)


@pytest.mark.row("HCQ-03")
@pytest.mark.refusal
def test_unaligned_and_too_wide_accesses_are_refused(region):
    with pytest.raises(BufferUseError, match="not aligned"):
        region.read32(2)
    with pytest.raises(FieldError, match="0x100 does not fit in 8 bits"):
        region.write8(0, 256)


@pytest.mark.row("HCQ-02")
@pytest.mark.refusal
def test_unknown_and_too_wide_ioctl_fields_are_refused_before_the_call():
    with pytest.raises(FieldError, match="no field 'gpu_idd', did you mean 'gpu_id'"):
        kfd.ACQUIRE_VM.args(gpu_idd=1)
    with pytest.raises(FieldError, match=r"KFD_ACQUIRE_VM.gpu_id"):
        kfd.ACQUIRE_VM.args(gpu_id=1 << 32)


@pytest.mark.row("HCQ-02")
@pytest.mark.refusal
@pytest.mark.parametrize(
    ("call", "fields", "number", "text"),
    [
        (kfd.ACQUIRE_VM, {"drm_fd": 5, "gpu_id": 7}, errno.EBUSY,
         "KFD_ACQUIRE_VM: Device or resource busy; drm_fd=0x5 gpu_id=0x7"),
        (kfd.FREE_MEMORY_OF_GPU, {"handle": 1 << 33}, errno.EINVAL,
         "KFD_FREE_MEMORY_OF_GPU: Invalid argument; handle=0x200000000"),
        (kfd.DESTROY_EVENT, {"event_id": 3}, errno.EPERM,
         "KFD_DESTROY_EVENT: Operation not permitted; event_id=0x3 pad=0x0"),
    ],
)  # fmt: skip
def test_a_refusal_names_request_reason_and_arguments(call, fields, number, text):
    error = refused(call, call.args(**fields), number)
    assert isinstance(error, IoctlError)
    assert error.what == text
    assert error.errno == number
    assert error.facts["request"] == hex(call.number)


class Interrupted(host.LinuxHost):
    """Gives EINTR twice, then EAGAIN twice, then success."""

    def __init__(self):
        super().__init__()
        self.answers = [errno.EINTR, errno.EINTR, errno.EAGAIN, errno.EAGAIN, 0]
        self.relaxed = 0
        self._libc = self

    def ioctl_raw(self, fd, request, args):
        number = self.answers.pop(0)
        host._ffi.errno = number
        return -1 if number else 0

    def relax(self):
        self.relaxed += 1


@pytest.mark.row("HCQ-02")
def test_eintr_is_retried_and_eagain_waited_out():
    class Libc:
        pass

    machine = Interrupted()
    machine._libc = Libc()
    machine._libc.ioctl = machine.ioctl_raw
    call = iowr(kfd.ffi, "TEST", "K", 1, "struct kfd_ioctl_acquire_vm_args")
    assert isinstance(call, Ioctl)
    machine.ioctl(3, call, call.args())
    assert machine.relaxed == 4
    assert machine.answers == []


@pytest.mark.row("HCQ-01")
def test_the_boundary_is_one_object_that_can_be_replaced():
    other = host.LinuxHost()
    before = host.use(other)
    try:
        assert host.current() is other
    finally:
        host.use(before)


@pytest.mark.row("HCQ-01")
def test_nothing_in_the_driver_goes_around_the_host():
    """No file, process, clock or mapping calls of Python outside hcq/host.py.

    The recorder writes and locks its own file, settings read the environment, and the process
    id is how a fork is noticed.
    """
    banned = {"time", "mmap", "ctypes", "select", "fcntl", "subprocess", "socket"}
    allowed_os = {"environ", "getpid", "register_at_fork"}
    for path in (ROOT / "hcq").rglob("*.py"):
        if path.name in ("host.py", "capture.py"):
            continue
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                assert not {a.name for a in node.names} & banned, path
            if isinstance(node, ast.ImportFrom):
                assert node.module not in banned, path
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert node.value.id != "os" or node.attr in allowed_os, (path, node.attr)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "open", path


@pytest.mark.row("HCQ-01")
def test_a_whole_run_passes_through_the_replaced_host(machine):
    from hcq import amd

    sim = machine()

    class Counting:
        """Every call of the driver, by name."""

        def __init__(self):
            self.names = []

        def __getattr__(self, name):
            def call(*args):
                self.names.append(name)
                return getattr(sim, name)(*args)

            return call

    counting = Counting()
    host.use(counting)
    device = amd.open(0)
    device.wait(device.submit(device.queue("compute").barrier()))
    device.close()
    used = set(counting.names)
    assert {"open", "ioctl", "reserve", "mmap", "munmap", "read", "list", "exists", "now"} <= used
    # The machine met no call but these: nothing went around the object.
    known = {"exists", "now", "relax", "group", "poll"}
    made = ["munmap" if name == "release" else name for name in counting.names]
    assert [call.split()[0] for call in sim.calls] == [name for name in made if name not in known]


@pytest.mark.row("AMD-01")
@pytest.mark.refusal
def test_a_group_without_a_name_is_its_number(monkeypatch, tmp_path):
    import grp

    def nobody(number):
        raise KeyError(number)

    monkeypatch.setattr(grp, "getgrgid", nobody)
    assert host.LinuxHost().group(str(tmp_path)) == str(tmp_path.stat().st_gid)
