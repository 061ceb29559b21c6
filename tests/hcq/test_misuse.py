"""What a caller gets wrong, told before anything reaches the GPU; on both vendors' shared code."""

import time
import tomllib
from pathlib import Path

import pytest

import hcq
from hcq import amd
from hcq.batch import Batch
from hcq.errors import (
    BufferUseError,
    ConfigError,
    DeviceLost,
    DeviceNotFound,
    FieldError,
    GpuFault,
    GpuTimeout,
    LaunchError,
    QueueError,
)
from hcq.queue import Slot
from hcq.settings import Context

ROOT = Path(__file__).parents[2]


@pytest.fixture
def program(device):
    code = (ROOT / "examples" / "data" / "vector_add.gfx1100.o").read_bytes()
    return device.load(code, "vector_add")


@pytest.fixture
def host_buffer(device):
    return device.allocate(64, host=True, zero=True, name="cells")


@pytest.mark.row("HCQ-02")
@pytest.mark.refusal
@pytest.mark.parametrize(
    ("verb", "call", "alignment"),
    [
        ("signal", lambda queue, at: queue.signal(at + 4, 1), 8),
        ("timestamp", lambda queue, at: queue.timestamp(at + 4), 8),
        ("wait", lambda queue, at: queue.wait(at + 4 + 2, 1), 4),
        ("poll", lambda queue, at: queue.poll(at + 4 + 2, 1), 4),
        ("write", lambda queue, at: queue.write(at + 4 + 2, [1]), 4),
    ],
)
@pytest.mark.parametrize("kind", ["compute", "copy"])
def test_a_misaligned_address_names_verb_address_and_alignment(kind, verb, call, alignment, device):
    queue = device.queue(kind)
    with pytest.raises(FieldError, match=rf"{verb}: address 0x\w+ is not aligned to") as caught:
        call(queue, 0x10_0000)
    facts = caught.value.facts
    assert (facts["verb"], facts["alignment"], queue.words) == (verb, alignment, [])
    assert int(facts["address"], 16) - 0x10_0000 in (4, 6)


@pytest.mark.row("HCQ-02")
@pytest.mark.refusal
@pytest.mark.parametrize(("kind", "channel"), [("compute", "copy"), ("copy", "compute")])
def test_a_queue_of_the_other_kind_is_refused_before_any_word(kind, channel, device, host_buffer):
    queue = device.queue(kind).write(host_buffer.address, [7])
    found = device.channels[channel]
    before = found.put
    match = f"a {kind} queue cannot be submitted to the {channel} channel"
    with pytest.raises(QueueError, match=match):
        found.submit(queue)
    assert found.put == before
    device.wait(device.submit(queue))
    assert host_buffer.region.read32(0) == 7


@pytest.mark.row("HCQ-10")
@pytest.mark.refusal
def test_after_a_fault_opening_again_is_refused_at_once_with_what_helps(machine):
    machine()
    device = amd.open(0)
    device.submit(device.queue("compute").write(0x10_0000, [1]))
    with pytest.raises(GpuFault):
        device.synchronize()
    device.close()
    begun = time.monotonic()
    with pytest.raises(DeviceLost, match="AMD:0 cannot be opened again in this process") as caught:
        amd.open(0)
    assert time.monotonic() - begun < 0.1
    assert "since: GpuFault on AMD:0" in caught.value.what
    assert caught.value.hint.startswith("restart the process")
    assert caught.value.facts["health"] == device.health() == "restart-process"


@pytest.mark.row("HCQ-10")
def test_after_a_fault_another_process_opens_the_gpu(machine):
    machine()
    device = amd.open(0)
    device.submit(device.queue("compute").write(0x10_0000, [1]))
    with pytest.raises(GpuFault):
        device.synchronize()
    device.close()
    machine()  # a fresh machine stands for a fresh process
    amd.open(0).close()


@pytest.mark.row("HCQ-12")
@pytest.mark.refusal
def test_an_address_far_from_every_buffer_is_near_none(device):
    device.allocate(4096, name="weights")
    device.submit(device.queue("copy").copy(0x10_0000, 0x20_0000, 64))
    with pytest.raises(GpuFault) as caught:
        device.synchronize()
    assert caught.value.facts["nearest"].startswith("no buffer near: ")
    assert caught.value.hint.startswith("the address belongs to no buffer")
    assert "bytes past" not in str(caught.value)


@pytest.mark.row("HCQ-11")
@pytest.mark.refusal
def test_an_unmet_wait_is_told_as_one_and_no_stop_is_claimed(device, host_buffer):
    queue = device.queue("compute").wait(host_buffer.address, 1)
    with Context(HCQ_TIMEOUT_MS=50):
        with pytest.raises(GpuTimeout) as caught:
            device.wait(device.submit(queue))
        with pytest.raises(DeviceLost) as again:
            device.synchronize()
    assert "a wait or poll in it may never be met" in caught.value.hint
    for error in (caught.value, again.value):
        assert "restart the process" in error.hint
        assert "the kernel has stopped" not in error.hint


@pytest.mark.refusal
@pytest.mark.parametrize("size", [10.5, "10", None])
def test_a_size_that_is_no_whole_number_is_refused(size, device):
    with pytest.raises(BufferUseError, match="a size is a whole number of bytes, not"):
        device.allocate(size)


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("grid", "block"),
    [(4, 256), ((4, 1), (64, 1, 1)), ((4.0, 1, 1), (64, 1, 1)), ((4, 1, 1), ("64", 1, 1))],
)
def test_sizes_of_a_launch_are_three_whole_numbers_each(grid, block, device, program):
    with pytest.raises(LaunchError, match="grid and block have three axes each, whole numbers"):
        device.launch(program, (0, 0, 0), grid, block)


@pytest.mark.refusal
@pytest.mark.parametrize("thing", [None, 5, [1, 2]])
def test_submitting_what_is_no_queue_is_refused(thing, device):
    with pytest.raises(QueueError, match="AMD:0: submit takes a queue, not "):
        device.submit(thing)


@pytest.mark.refusal
def test_a_buffer_in_place_of_an_address_is_refused_by_verb_with_a_short_text(device, host_buffer):
    queue = device.queue("copy")
    with pytest.raises(QueueError, match="copy: an address is a number, not Buffer") as caught:
        queue.copy(host_buffer, host_buffer, 16)
    assert "hint: give buffer.address" in str(caught.value)
    assert len(str(caught.value)) < 250


@pytest.mark.refusal
def test_a_size_of_a_verb_is_a_number_of_bytes(device):
    with pytest.raises(QueueError, match="fill: a size is a number of bytes, not str"):
        device.queue("copy").fill(0, 0, "16")


@pytest.mark.refusal
def test_a_buffer_as_an_argument_is_refused_with_a_short_text(device, program, host_buffer):
    with pytest.raises(FieldError, match=r"argument .* does not fit in 8 bytes") as caught:
        device.arguments(program, (host_buffer, 0, 0))
    assert caught.value.hint == "numbers only: give buffer.address"
    assert len(caught.value.what) < 150


def test_a_buffer_prints_as_its_name_size_and_address(device, host_buffer):
    where = hex(host_buffer.address)
    assert repr(host_buffer) == f"<Buffer 'cells' 64 bytes at {where}>"
    device.free(host_buffer)
    assert repr(host_buffer) == f"<Buffer 'cells' 64 bytes at {where}, freed>"


@pytest.mark.refusal
@pytest.mark.parametrize("timeout", ["1", float("nan"), True])
def test_a_timeout_is_a_number_of_seconds(timeout, device):
    with pytest.raises(ConfigError, match=r"timeout=.* is no number of seconds"):
        device.synchronize(timeout=timeout)


def test_a_batch_takes_slots_or_their_names(device, host_buffer):
    batch, where = Batch(device), Slot("where")
    batch.queue("copy").fill(where, 9, 4)
    device.wait(batch.submit({where: host_buffer.address}))
    device.wait(batch.submit({"where": host_buffer.address + 8}))
    assert host_buffer.region.read(0, 12).hex() == "090909090000000009090909"
    batch.free()


@pytest.mark.row("HCQ-03")
@pytest.mark.refusal
@pytest.mark.parametrize("size", [64, 4096])
@pytest.mark.parametrize("end", ["free", "close"])
def test_a_region_kept_past_its_buffer_is_refused(end, size, device):
    buffer = device.allocate(size, host=True)
    region = buffer.region
    device.free(buffer) if end == "free" else device.close()
    with pytest.raises(BufferUseError, match="the memory behind this window was given back"):
        region.view()
    with pytest.raises(BufferUseError, match="access outside a mapped window"):
        region.read32(0)


def test_a_with_block_closes_the_device(machine):
    machine()
    with amd.open(0) as device:
        assert device.allocate(16).size == 16
    with pytest.raises(DeviceLost, match="AMD:0 is closed"):
        device.synchronize()


def test_the_package_tells_its_version_and_purpose():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert hcq.__version__ == version
    assert hcq.__doc__.startswith("Raw GPU command queues")


@pytest.mark.refusal
def test_a_value_below_the_least_tells_what_the_setting_means(monkeypatch):
    monkeypatch.setenv("DEBUG", "-1")
    with pytest.raises(ConfigError, match="DEBUG='-1' is below 0") as caught:
        hcq.settings.get("DEBUG")
    assert caught.value.hint == (
        "DEBUG: 1 devices, 2 kernels, 3 plans, 4 source, 5-6 IR, 7 code; default 0"
    )


@pytest.mark.row("BAT-03")
@pytest.mark.refusal
def test_a_slot_that_makes_an_address_misaligned_is_refused_before_any_word(device, host_buffer):
    batch, cell = Batch(device), Slot("cell")
    batch.queue("compute").signal(cell + 8, 5)
    match = r"signal: address 0x\w+c is not aligned to 8 bytes"
    with pytest.raises(FieldError, match=match):
        batch.submit({cell: host_buffer.address + 4})
    assert batch.words_written == 0
    device.wait(batch.submit({cell: host_buffer.address}))
    assert host_buffer.region.read64(8) == 5
    batch.free()


@pytest.mark.row("BAT-03")
@pytest.mark.refusal
def test_a_slot_takes_whole_numbers_only(device, host_buffer):
    batch, cell = Batch(device), Slot("cell")
    batch.queue("compute").write(cell, [1])
    with pytest.raises(FieldError, match=r"slot cell: <Buffer 'cells' .* is no whole") as caught:
        batch.submit({cell: host_buffer})
    assert caught.value.hint == "give buffer.address"
    batch.free()


CALLS = [
    (lambda d, b: d.free(None), BufferUseError, "free takes a buffer, not NoneType"),
    (lambda d, b: d.copy_in(7, 0, b"1"), BufferUseError, "copy_in takes a buffer, not int"),
    (lambda d, b: d.copy_out(7, 0, bytearray(1)), BufferUseError, "copy_out takes a buffer"),
    (lambda d, b: d.copy_in(b, 0, "x"), BufferUseError, "copies take bytes .*, not str"),
    (lambda d, b: d.copy_in(b, "0", b"1"), BufferUseError, "an offset is a whole number"),
    (lambda d, b: d.copy(b, b, 4), QueueError, "copy: an address is a number, not Buffer"),
    (lambda d, b: d.wait("1"), QueueError, "a timeline value is a whole number, not str"),
    (lambda d, b: d.time(b, b), BufferUseError, "time takes an address, not Buffer"),
    (lambda d, b: d.queue().signal(b.address, "1"), QueueError, "a whole number or a slot, not"),
    (lambda d, b: d.queue().write(b.address, 5), QueueError, "write takes 1 to 16380 words, in a"),
    (lambda d, b: d.queue().write(b.address, ["a"]), QueueError, "a whole number or a slot"),
    (lambda d, b: d.queue("copy").fill(0, b"a", 4), FieldError, "fill value b'a' does not fit"),
    (lambda d, b: amd.open("0"), DeviceNotFound, "AMD: an index is an int, not '0'"),
]


@pytest.mark.refusal
@pytest.mark.parametrize(("call", "kind", "text"), CALLS)
def test_a_wrong_kind_of_thing_is_a_typed_error(call, kind, text, device, host_buffer):
    with pytest.raises(kind, match=text):
        call(device, host_buffer)


@pytest.mark.row("HCQ-04")
@pytest.mark.refusal
@pytest.mark.parametrize("kind", ["compute", "copy"])
def test_queue_of_another_chip_is_refused(machine, kind):
    from hcq import nv

    machine(["gfx1100", "sm_90", "sm_86"])
    with amd.open(0) as first, nv.open(0) as second, nv.open(1) as third:
        for built, given in ((first, second), (second, first), (second, third)):
            text = f"was built for {built.target}, the channel is of {given.target}"
            queue = built.queue(kind).signal(0x10000, 1)
            with pytest.raises(QueueError, match=text):
                given.submit(queue)
            with pytest.raises(QueueError, match=text):
                given.channels[kind].submit(queue)
            given.synchronize()
