"""What goes wrong on the device, told with address, access, kernel and buffer."""

import time

import pytest

from hcq import nv
from hcq.errors import DeviceLost, GpuFault, GpuTimeout
from hcq.faults import Scene
from hcq.ioctl_defs import nv_ctrl, nv_escape
from hcq.nv.faults import Details, MmuFault, Notice, SmError, _sm_errors, failure
from hcq.nv.gpu import Shape
from hcq.settings import Context

ONE = (1, 1, 1)


def start(machine, chip="sm_90"):
    sim = machine(chip)
    return sim, nv.open(0)


@pytest.mark.row("NV-20")
@pytest.mark.row("HCQ-10")
@pytest.mark.refusal
@pytest.mark.parametrize("chip", ["sm_86", "sm_90", "sm_120"])
def test_a_bad_store_names_kernel_address_access_and_nearest_buffer(machine, compiled, chip):
    _, device = start(machine, chip)
    program = device.load(compiled("add", chip), "add")
    a = device.allocate(4096, name="weights")
    device.synchronize()
    bad = a.address + (64 << 20)
    device.launch(program, [bad, a.address, a.address, 1], ONE, (1, 1, 1))
    started = time.monotonic()
    with pytest.raises(GpuFault, match="kernel add wrote to a page that is not mapped") as caught:
        device.synchronize()
    assert time.monotonic() - started < 2
    facts = caught.value.facts
    assert facts["error"] == 31
    assert facts["meaning"] == "MMU fault"
    assert int(facts["address"], 16) & ~0xFFF == bad & ~0xFFF
    assert facts["access"] == "write"
    assert facts["kind"] in ("PDE", "PTE")
    assert facts["queue"] == "compute0"
    assert "bytes past its end" in facts["nearest"]
    with pytest.raises(DeviceLost, match="NV:0 is lost since: GpuFault on NV:0"):
        device.allocate(4)
    device.close()


@pytest.mark.row("NV-20")
@pytest.mark.refusal
def test_a_bad_load_is_a_read(machine, compiled):
    _, device = start(machine)
    program = device.load(compiled("add"), "add")
    a = device.allocate(4096)
    device.launch(program, [a.address, 0x8000, a.address, 1], ONE, ONE)
    with pytest.raises(GpuFault, match="kernel add read from a page that is not mapped") as caught:
        device.synchronize()
    assert caught.value.facts["address"] == "0x8000"
    device.close()


@pytest.mark.row("NV-20")
@pytest.mark.row("HCQ-12")
@pytest.mark.refusal
def test_use_after_free_names_the_freed_buffer(machine, compiled):
    _, device = start(machine)
    program = device.load(compiled("bump"), "bump")
    gone = device.allocate(4096, name="gone")
    address = gone.address
    device.free(gone)
    device.synchronize()
    device.launch(program, [address + 16], ONE, ONE)
    with pytest.raises(GpuFault) as caught:
        device.synchronize()
    assert caught.value.facts["nearest"].startswith("gone (4096 bytes), freed at submission")
    device.close()


@pytest.mark.row("NV-20")
@pytest.mark.refusal
def test_a_bad_copy_is_the_copy_engines(machine):
    _, device = start(machine)
    target = device.allocate(4096, name="target")
    device.copy(target.address, 0x7000, 64)
    with pytest.raises(GpuFault, match="a copy read from a page that is not mapped") as e:
        device.synchronize()
    assert e.value.facts["channel"] == "copy0"
    assert e.value.facts["address"] == "0x7000"
    device.close()


@pytest.mark.row("NV-20")
@pytest.mark.refusal
def test_a_bad_method_is_told(machine):
    _, device = start(machine)
    queue = device.queue("compute")
    queue._packet(0x20012000 | 0xFFC >> 2, 0)  # a method no compute class has
    device.submit(queue)
    with pytest.raises(GpuFault) as caught:
        device.synchronize()
    assert caught.value.facts["error"] in (13, 69)
    assert caught.value.facts["channel"] == "compute0"
    device.close()


@pytest.mark.row("NV-20")
@pytest.mark.refusal
def test_a_fetch_fault_names_the_host_unit(machine):
    _, device = start(machine)
    channel = device.channels["compute"]
    channel._write_entry(channel.put, 0x6000, 4)  # a ring entry that leads nowhere
    channel.put += 1
    channel.ring_doorbell()
    device.submit(device.queue("compute").barrier())
    started = time.monotonic()
    with pytest.raises(GpuFault, match="the host unit read from a page that is not") as caught:
        device.synchronize()
    assert time.monotonic() - started < 2
    assert caught.value.facts["address"] == "0x6000"
    assert caught.value.facts["kind"] in ("PDE", "PTE")
    device.close()


@pytest.mark.row("NV-20")
@pytest.mark.row("HCQ-12")
@pytest.mark.refusal
def test_without_details_the_notifier_and_a_sentence_are_left(machine, compiled, monkeypatch):
    """As in gVisor, where most questions are refused."""
    sim, device = start(machine)
    ioctl = sim.ioctl

    def refusing(fd, call, args):
        if call is nv_escape.RM_CONTROL and args.cmd in (
            nv_ctrl.GET_MMU_FAULT_INFO.number,
            nv_ctrl.READ_MMU_FAULTS.number,
            nv_ctrl.READ_SM_ERRORS.number,
        ):
            args.status = nv_escape.NOT_SUPPORTED
            return
        ioctl(fd, call, args)

    monkeypatch.setattr(sim, "ioctl", refusing)
    device.launch(device.load(compiled("bump"), "bump"), [0x8000], ONE, ONE)
    with pytest.raises(GpuFault, match="kernel bump failed: MMU fault") as caught:
        device.synchronize()
    facts = caught.value.facts
    assert facts["detail"] == "the driver gave no details"
    assert facts["error"] == 31
    assert "compute0 put" in facts["rings"]
    assert len(device.notes) == 3
    device.close()


@pytest.mark.row("HCQ-10")
@pytest.mark.refusal
def test_a_kernel_that_never_ends_is_a_hang(machine, compiled):
    _, device = start(machine)
    flag = device.allocate(16, host=True, uncached=True, zero=True)
    device.launch(device.load(compiled("spin"), "spin"), [flag.address], ONE, ONE)
    with Context(HCQ_TIMEOUT_MS=60), pytest.raises(GpuTimeout, match="no progress") as caught:
        device.synchronize()
    assert caught.value.facts["kernel"] == "spin"
    started = time.monotonic()
    device.close()
    assert time.monotonic() - started < 1


def bump(device, compiled, chip, words):
    """What a kernel that adds 1 makes of 0."""
    cell = device.allocate(4, zero=True)
    device.launch(device.load(compiled("bump", chip), "bump"), [cell.address], ONE, ONE)
    return words(device, cell, 1)


@pytest.mark.row("NV-21")
@pytest.mark.parametrize("chip", ["sm_86", "sm_89", "sm_90", "sm_120"])
def test_after_a_fault_the_gpu_opens_again_in_the_same_process(machine, compiled, words, chip):
    _, device = start(machine, chip)
    device.launch(device.load(compiled("bump", chip), "bump"), [0x8000], ONE, ONE)
    with pytest.raises(GpuFault) as caught:
        device.synchronize()
    assert caught.value.hint.endswith("close the device and open it again")
    with pytest.raises(DeviceLost) as later:
        device.synchronize()
    assert later.value.hint == "close the device and open it again"
    assert later.value.facts["health"] == device.health() == "reset-device"
    device.close()
    again = nv.open(0)
    assert again.health() == "ok"
    assert bump(again, compiled, chip, words) == [1]
    again.close()


@pytest.mark.row("NV-21")
def test_after_a_hang_the_gpu_opens_again_in_the_same_process(machine, compiled, words):
    _, device = start(machine)
    flag = device.allocate(16, host=True, uncached=True, zero=True)
    device.launch(device.load(compiled("spin"), "spin"), [flag.address], ONE, ONE)
    with Context(HCQ_TIMEOUT_MS=60), pytest.raises(GpuTimeout) as caught:
        device.synchronize()
    assert caught.value.hint.endswith("close the device and open it again")
    assert device.health() == "reset-device"
    device.close()
    again = nv.open(0)
    assert bump(again, compiled, "sm_90", words) == [1]
    again.close()


@pytest.mark.row("NV-21")
def test_a_fault_leaves_another_device_of_the_same_gpu_alone(machine, compiled, words):
    _, device = start(machine)
    other = nv.open(0)
    device.launch(device.load(compiled("bump"), "bump"), [0x8000], ONE, ONE)
    with pytest.raises(GpuFault):
        device.synchronize()
    device.close()
    assert other.health() == "ok"
    assert bump(other, compiled, "sm_90", words) == [1]
    other.close()


@pytest.mark.row("NV-21")
def test_off_the_bus_only_a_reboot_helps(machine):
    _, device = start(machine)
    device.failed = told(79)
    assert device.health() == "reboot"
    with pytest.raises(DeviceLost) as later:
        device.synchronize()
    assert later.value.hint == "reboot; the kernel log (dmesg) says more"
    device.close()


# Which channel, which SM.


def notify(channel, number, nanoseconds):
    """An error in a channel's notifier, as the kernel writes it."""
    channel.notices.write64(0, nanoseconds)
    channel.notices.write32(8, number)
    channel.notices.write16(14, 0xFFFF)


@pytest.mark.row("NV-20")
@pytest.mark.refusal
def test_the_channel_that_failed_is_told_not_those_that_fell_with_it(machine):
    _, device = start(machine)
    device.synchronize()
    notify(device.channels["copy"], 45, 1)  # earlier, but only what followed
    notify(device.channels["compute"], 31, 9)
    with pytest.raises(GpuFault) as caught:
        device.synchronize()
    assert (caught.value.facts["error"], caught.value.facts["channel"]) == (31, "compute0")
    device.close()


@pytest.mark.row("NV-20")
@pytest.mark.refusal
def test_of_equal_errors_the_running_queues_is_told_else_the_first(machine):
    _, device = start(machine)
    device.synchronize()
    notify(device.channels["compute"], 31, 9)
    notify(device.channels["copy"], 31, 1)
    with pytest.raises(GpuFault) as caught:
        device.synchronize()
    assert (caught.value.facts["channel"], caught.value.facts["time_ns"]) == ("copy0", 1)
    device.close()


class ManySms:
    """A GPU whose SM 131 of 132 met an error; the questions are kept."""

    def __init__(self):
        self.shape = Shape(0x900, 64, 3, 22, 2)
        self.rm = self
        self.asked = []

    def optional(self, handle, control, **fields):
        first, count = fields["startingSM"], fields["numSMsToRead"]
        self.asked.append((first, count))
        found = control.args()
        if first <= 131 < first + count:
            state = found.smErrorStateArray[131 - first]
            state.hwwWarpEsr, state.hwwWarpEsrPc64, state.hwwEsrAddr = 0x0F, 0x12340, 0x99
        return found


@pytest.mark.row("NV-20")
def test_every_sm_is_asked_a_hundred_in_a_call():
    gpu = ManySms()
    assert _sm_errors(gpu, 1, 2) == [SmError(131, 0x0F, 0x12340, 0x99)]
    assert gpu.asked == [(0, 100), (100, 32)]


# Sentences.

SCENE = Scene("NV:0", 0, 1, [], ["compute0 put 1 get 0"])


def told(number, details=None, channel="compute0"):
    notice = Notice(channel, number, 5)
    return failure(notice, details or Details(), SCENE, lambda address: f"near {address:#x}")


@pytest.mark.row("NV-20")
@pytest.mark.parametrize(
    ("number", "text"),
    [
        (13, "graphics engine exception"),
        (31, "MMU fault"),
        (32, "the host unit failed: pushbuffer engine error"),
        (43, "channel reset"),
        (48, "double-bit ECC error"),
        (69, "graphics class error"),
        (94, "contained memory error"),
        (109, "context switch timeout"),
        (77, "a number not known here"),
    ],
)
def test_every_number_has_a_sentence(number, text):
    error = told(number)
    assert isinstance(error, GpuFault)
    assert text in str(error)
    assert error.facts["detail"] == "the driver gave no details"


@pytest.mark.row("NV-21")
def test_off_the_bus_is_lost_and_says_reboot():
    error = told(79)
    assert type(error) is DeviceLost
    assert "fallen off the bus" in str(error)
    assert "reboot" in error.hint


@pytest.mark.row("NV-20")
@pytest.mark.parametrize(
    ("kind", "access", "text"),
    [
        (2, 0, "read from a page that is not mapped"),
        (0, 1, "wrote to a page that is not mapped"),
        (6, 1, "wrote to a read-only page"),
        (3, 0, "used an address beyond the address space"),
        (14, 0, "used poisoned memory"),
        (15, 2, "used an atomic where none is allowed"),
        (2, 2, "used a page that is not mapped"),
    ],
)
def test_kinds_and_accesses_of_memory_faults(kind, access, text):
    error = told(31, Details([MmuFault(0x1234000, kind, access)]))
    assert text in str(error)
    assert error.facts["address"] == "0x1234000"
    assert error.facts["nearest"] == "near 0x1234000"


@pytest.mark.row("NV-20")
@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0x08, "illegal instruction encoding"),
        (0x0E, "out-of-range address of local or shared memory"),
        (0x0F, "misaligned address"),
        (0x77, "error 0x77"),
    ],
)
def test_what_an_sm_met_comes_with_its_program_counter(code, text):
    error = told(13, Details([], [SmError(7, code, 0x12345, 0x99)]))
    assert f"stopped with: {text}" in str(error)
    assert error.facts["pc"] == "0x12345"
    assert error.facts["sm"] == 7


@pytest.mark.row("NV-20")
@pytest.mark.row("HCQ-12")
def test_the_address_an_sm_stopped_at_is_translated():
    error = told(13, Details([], [SmError(0, 0x0F, 0x12345, 0x99002)]))
    assert (error.facts["address"], error.facts["nearest"]) == ("0x99002", "near 0x99002")
    for address in (0, 0x12345):  # no address of data
        none = told(13, Details([], [SmError(0, 0x08, 0x12345, address)]))
        assert none.facts["nearest"] == "unknown"


@pytest.mark.row("HCQ-12")
@pytest.mark.parametrize(
    ("nearest", "hint"),
    [
        ("w (64 bytes), 8 bytes past its end", "an index may reach past w; close the"),
        ("w (64 bytes), freed at submission 3, offset 8", "w was freed while still in use; clos"),
        ("no buffer near: w is the nearest, and far away", "close the device and open it again"),
    ],
)
def test_the_hint_follows_from_what_is_near(nearest, hint):
    notice = Notice("compute0", 31, 5)
    error = failure(notice, Details([MmuFault(0x1000, 2, 1)]), SCENE, lambda address: nearest)
    assert error.hint.startswith(hint)
