"""Opening and closing: what must be there, what each refusal says, that nothing is left behind."""

import errno

import pytest

from hcq import host
from hcq.errors import (
    DeviceBanned,
    DeviceLost,
    DeviceNotFound,
    DeviceOpenError,
    HcqError,
    IoctlError,
    Unsupported,
)
from hcq.settings import Context

AMD, NV = "gfx1100", "sm_90"
NODES = [
    *((AMD, node) for node in ("/dev/kfd", "/dev/dri/renderD128")),
    *((NV, node) for node in ("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm")),
]
NEEDED = [
    *((AMD, f"KFD_{name}") for name in ("GET_VERSION", "ACQUIRE_VM", "CREATE_QUEUE")),
    (AMD, "KFD_MAP_MEMORY_TO_GPU"),
    *((NV, f"NV_ESC_{name}") for name in ("CARD_INFO", "CHECK_VERSION_STR")),
    *((NV, f"UVM_{name}") for name in ("INITIALIZE", "REGISTER_GPU", "MAP_EXTERNAL_ALLOCATION")),
]
SERIES = [
    *(
        pytest.param(AMD, {"kfd": version}, marks=pytest.mark.row("AMD-07"))
        for version in ((1, 11), (1, 14), (1, 16), (1, 17))
    ),
    *(
        pytest.param(NV, {"driver": series}, marks=pytest.mark.row("NV-02"))
        for series in ("550", "570", "580", "590", "610")
    ),
]


@pytest.fixture(params=[AMD, NV])
def chip(request):
    """One of each vendor."""
    return request.param


@pytest.fixture
def name(chip):
    """Of the vendor's devices."""
    return "NV" if chip == NV else "AMD"


@pytest.fixture
def node(chip):
    """The file that belongs to the GPU."""
    return "/dev/nvidia0" if chip == NV else "/dev/dri/renderD128"


def held(sim):
    """What the process holds: files, objects of the resource manager; buffers, queues, events."""
    kfd = sim.kfd
    amd = len(kfd.buffers._by_handle), len(kfd.queues), len(kfd.events._events)
    return sim.open_files, sim.nvidia.rm.handles(), *amd


class Bare(host.LinuxHost):
    """A machine without GPUs."""

    def exists(self, path):
        return not path.startswith("/dev/kfd") and super().exists(path)

    def open(self, path):
        if path.startswith("/dev/nvidia"):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return super().open(path)


@pytest.fixture
def bare():
    before = host.use(Bare())
    yield
    host.use(before)


@pytest.mark.row("AMD-01")
@pytest.mark.row("NV-01")
@pytest.mark.refusal
def test_no_node_names_node_module_and_simulator(bare, vendor, chip):
    node, module = ("/dev/nvidiactl", "nvidia") if chip == NV else ("/dev/kfd", "amdgpu")
    with pytest.raises(DeviceOpenError) as caught:
        vendor.open()
    text = str(caught.value)
    assert node in text
    assert f"module={module}" in text
    assert text.splitlines()[-1].startswith("hint: check that")
    assert "python -m sim" in text


@pytest.mark.row("AMD-01")
@pytest.mark.row("NV-01")
def test_without_a_node_there_are_no_gpus(bare, vendor):
    assert vendor.count() == 0


@pytest.mark.row("NV-01")
@pytest.mark.refusal
@pytest.mark.parametrize("chip", [NV])
def test_a_node_without_rights_lets_nobody_count(place, vendor):
    place().deny("/dev/nvidiactl", errno.EACCES)
    with pytest.raises(DeviceOpenError, match="no rights on /dev/nvidiactl"):
        vendor.count()


@pytest.mark.row("AMD-01")
@pytest.mark.row("NV-01")
def test_an_open_device_knows_its_name_and_target(device, vendor, chip, name):
    assert (device.name, device.index, device.target) == (f"{name}:0", 0, chip)
    assert repr(device) == f"<{name}:0 {chip}>"
    assert vendor.count() == 1


@pytest.mark.row("AMD-01")
@pytest.mark.row("NV-01")
@pytest.mark.refusal
@pytest.mark.parametrize(("chip", "node"), NODES)
def test_no_rights_name_node_and_group_and_how_to_join(place, vendor, chip, node):
    sim = place()
    sim.deny(node, errno.EACCES)
    group = sim.group(node)
    match = f"no rights on {node}: it belongs to group {group}"
    with pytest.raises(DeviceOpenError, match=match) as caught:
        vendor.open(0)
    assert f"usermod -aG {group}" in caught.value.hint


@pytest.mark.row("AMD-01")
@pytest.mark.row("AMD-23")
@pytest.mark.row("NV-01")
@pytest.mark.refusal
@pytest.mark.parametrize(
    ("number", "text", "hint"),
    [
        (errno.EBUSY, "is busy: another program has the GPU", "end that program"),
        (errno.EMFILE, "no file descriptor is free", "ulimit -n"),
        (errno.EIO, "cannot be opened", "kernel log"),
        (errno.ENOENT, "does not exist", "modprobe"),
    ],
)
def test_reasons_why_a_node_does_not_open_are_told_apart(place, vendor, node, number, text, hint):
    place().deny(node, number)
    with pytest.raises(DeviceOpenError, match=text) as caught:
        vendor.open(0)
    assert caught.value.facts["node"] == node
    assert hint in caught.value.hint


@pytest.mark.row("AMD-01")
@pytest.mark.row("NV-01")
@pytest.mark.refusal
@pytest.mark.parametrize("index", [-1, 1])
def test_an_index_that_is_none_of_a_gpu_says_how_many_there_are(place, vendor, chip, name, index):
    place()
    maker = "NVIDIA" if chip == NV else "AMD"
    with pytest.raises(DeviceNotFound, match=rf"no {name}:{index}: 1 {maker} GPU\(s\) here"):
        vendor.open(index)


@pytest.mark.row("AMD-01")
@pytest.mark.row("NV-01")
@pytest.mark.refusal
@pytest.mark.parametrize("index", [1.5, "0", None])
def test_an_index_that_is_no_int_is_refused_as_such(place, vendor, name, index):
    place()
    with pytest.raises(DeviceNotFound, match=rf"{name}: an index is an int, not {index!r}"):
        vendor.open(index)


@pytest.mark.refusal
def test_more_copy_queues_than_one_are_refused_by_name(place, vendor, monkeypatch):
    place()
    monkeypatch.setenv("HCQ_NUM_SDMA", "2")
    with pytest.raises(Unsupported, match="HCQ_NUM_SDMA=2: a device has one copy queue") as caught:
        vendor.open(0)
    assert caught.value.hint == "unset HCQ_NUM_SDMA"
    monkeypatch.setenv("HCQ_NUM_SDMA", "1")
    vendor.open(0).close()


@pytest.mark.refusal
def test_no_device_opens_where_none_may_be_used(place, vendor):
    sim = place()
    with Context(ALLOW_DEVICE_USAGE=0), pytest.raises(DeviceBanned, match="ALLOW_DEVICE_USAGE=0"):
        vendor.open(0)
    assert sim.open_files == 0


@pytest.mark.row("AMD-07")
@pytest.mark.row("NV-03")
@pytest.mark.refusal
@pytest.mark.parametrize(("chip", "call"), NEEDED)
def test_needed_requests_hint_at_a_sandbox(place, vendor, chip, call):
    place().refuse(call, errno.EPERM)
    with pytest.raises(IoctlError, match=f"{call}: Operation not permitted") as caught:
        vendor.open(0)
    assert "sandbox or container" in caught.value.hint


@pytest.mark.parametrize(("chip", "options"), SERIES)
def test_every_version_opens_copies_and_launches(place, vendor, compiled, words, chip, options):
    place(**options)
    device = vendor.open(0)
    assert device.notes == []
    program = device.load(compiled("bump"), "bump")
    cell = device.allocate(4, zero=True)
    for _ in range(3):
        device.launch(program, [cell.address], (1, 1, 1), (1, 1, 1))
    assert words(device, cell, 1) == [3]
    device.close()


@pytest.mark.row("HCQ-31")
@pytest.mark.row("NV-04")
def test_every_failing_call_of_open_leaves_nothing_more_than_the_process_keeps(place, vendor, chip):
    """Fail the Nth host call of an open, for all N."""
    sim = place()
    vendor.open(0).close()  # from here on the process keeps what the kernel ties to it
    kept = held(sim)
    before = len(sim.calls)
    device = vendor.open(0)
    calls = list(sim.calls)[before:]
    device.close()
    failures = 0
    for nth, call in enumerate(calls, 1):
        if chip == NV and call.startswith("close"):
            continue  # Linux closes a file even when it reports an error
        sim.fail(nth, errno.EIO)
        try:
            vendor.open(0).close()
        except (HcqError, OSError):
            failures += 1
        sim.injection = type(sim.injection)()
        assert held(sim) == kept, f"call {nth}"
    assert failures > 40
    device = vendor.open(0)
    assert device.health() == "ok"
    device.close()


@pytest.mark.row("HCQ-31")
def test_a_first_open_that_fails_can_be_tried_again(place, vendor):
    sim = place()
    for nth in range(1, 40):
        sim.fail(nth, errno.EIO)
        try:
            vendor.open(0).close()
        except (HcqError, OSError):
            continue
        finally:
            sim.injection = type(sim.injection)()
    device = vendor.open(0)
    device.synchronize()
    device.close()


@pytest.mark.row("HCQ-31")
@pytest.mark.refusal
def test_close_is_idempotent_and_a_closed_device_says_so_and_opens_again(place, vendor, name):
    place()
    device = vendor.open(0)
    device.close()
    device.close()
    with pytest.raises(DeviceLost, match=f"{name}:0 is closed"):
        device.allocate(4)
    again = vendor.open(0)
    again.synchronize()
    again.close()


@pytest.mark.row("HCQ-31")
def test_two_opens_of_one_gpu_share_its_address_space(place, vendor, compiled, words):
    sim = place()
    vendor.open(0).close()
    kept = held(sim)
    one, two = vendor.open(0), vendor.open(0)
    program = two.load(compiled("bump"), "bump")
    cell = one.allocate(4, zero=True)
    one.synchronize()
    two.launch(program, [cell.address], (1, 1, 1), (1, 1, 1), wait=True)
    assert words(one, cell, 1) == [1]
    two.close()
    one.synchronize()
    one.close()
    assert held(sim) == kept


@pytest.mark.row("HCQ-06")
def test_signal_pages_are_mapped_on_devices_that_open_later(place, vendor):
    place(count=2)
    first = vendor.open(0)
    signal = first.signals.take()
    second = vendor.open(1)
    # The second GPU signals a cell of a page that was made before it opened.
    second.wait(second.submit(second.queue("compute").signal(signal.address, 7)))
    assert signal.value == 7
    second.close()
    first.wait(first.submit(first.queue("compute").signal(signal.address, 8)))
    assert signal.value == 8
    first.close()


@pytest.mark.row("HCQ-06")
def test_the_first_device_may_close_before_another_that_has_a_signal(place, vendor):
    place(count=2)
    first, second = vendor.open(0), vendor.open(1)
    signal = second.signals.take()
    first.close()
    second.wait(second.submit(second.queue("copy").signal(signal.address, 7)))
    assert signal.value == 7
    second.close()


@pytest.mark.row("HCQ-31")
def test_closing_a_hung_device_takes_its_queues_before_its_memory(
    place, vendor, compiled, words, chip
):
    """Else the kernel that never ends would fault, and nothing would run on the GPU any more."""
    from hcq.errors import GpuTimeout

    sim = place()
    device = vendor.open(0)
    flag = device.allocate(4096, host=True, zero=True)
    program = device.load(compiled("spin"), "spin")
    with Context(HCQ_TIMEOUT_MS=60), pytest.raises(GpuTimeout, match=r"for 0\.06 s"):
        device.launch(program, [flag.address], (1, 1, 1), (1, 1, 1), wait=True)
    device.close()
    assert not sim.faults
    device = vendor.open(0)
    cell = device.allocate(4, zero=True)
    device.launch(device.load(compiled("bump"), "bump"), [cell.address], (1, 1, 1), (1, 1, 1))
    assert words(device, cell, 1) == [1]
    device.close()
