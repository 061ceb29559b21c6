"""A thing of a wrong kind is told as what it is, by the call it was given to: on every chip."""

import numpy as np
import pytest

from hcq.batch import Batch
from hcq.errors import (
    BufferUseError,
    CodeObjectError,
    ConfigError,
    DeviceLost,
    FieldError,
    LaunchError,
    QueueError,
)
from hcq.queue import Slot, SlotKind

ONE = (1, 1, 1)
SLOT = Slot("n", SlotKind.VARIABLE)


@pytest.fixture
def program(device, compiled):
    """The kernel that counts up."""
    return device.load(compiled("bump"), "bump")


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda d: d.buffers_at("x"), BufferUseError, "buffers_at takes an address, not str"),
        (lambda d: d.time(1.5, 0), BufferUseError, "time takes an address, not float"),
        (lambda d: d.load(b"\x7fELF", None), CodeObjectError, "named by a text, not by NoneType"),
        (lambda d: d.load(b"\x7fELF", 5), CodeObjectError, "named by a text, not by int"),
        (lambda d: d.arguments(None, ()), LaunchError, "arguments takes a program, not NoneType"),
        (lambda d: d.launch(5, (), ONE, ONE), LaunchError, "launch takes a program, not int"),
        (lambda d: d.queue().launch(None, 0, ONE, ONE), LaunchError, "launch takes a program"),
        (lambda d: Batch(d).arguments("x", ()), LaunchError, "arguments takes a program, not str"),
        (lambda d: d.queue([]), QueueError, r"no queue kind \[\]"),
        (lambda d: d.bind(None), QueueError, "bind takes a queue, not NoneType"),
        (lambda d: d.unbind(5), QueueError, "unbind takes a queue, not int"),
        (lambda d: d.channels["copy"].submit(5), QueueError, "submit takes a queue, not int"),
        (lambda d: Batch(None), QueueError, "a batch is made for a device, not for NoneType"),
        (lambda d: d.wait_signal(None, 1), QueueError, "wait_signal takes a signal cell and a"),
        (lambda d: d.signals.give(None), QueueError, "give takes a signal cell, not NoneType"),
    ],
)
def test_a_thing_of_a_wrong_kind_is_refused_by_the_call(device, call, kind, text):
    with pytest.raises(kind, match=text) as caught:
        call(device)
    assert caught.value.hint or caught.value.facts["kinds"] == "compute, copy"


@pytest.mark.refusal
@pytest.mark.parametrize("given", [5, None, SLOT])
def test_arguments_come_in_a_list(device, program, given):
    text = rf"kernel bump takes its arguments in a list, not as {type(given).__name__}"
    for call in (
        lambda: device.arguments(program, given),
        lambda: device.launch(program, given, ONE, ONE),
        lambda: Batch(device).arguments(program, given),
    ):
        with pytest.raises(LaunchError, match=text) as caught:
            call()
        assert caught.value.hint == "such as (out.address, 100)"


@pytest.mark.refusal
def test_a_cell_is_waited_for_with_a_number(device):
    cell = device.signals.take()
    with pytest.raises(QueueError, match="wait_signal takes a signal cell and a whole number"):
        device.wait_signal(cell, "1")
    device.signals.give(cell)


@pytest.mark.refusal
@pytest.mark.parametrize("value", ["a", None, 1.5, -1, 256, SLOT])
def test_a_fill_is_of_one_byte(device, value):
    queue = device.queue("copy")
    with pytest.raises(FieldError, match=r"fill value .* does not fit in 8 bits") as caught:
        queue.fill(0x1000, value, 4)
    assert (caught.value.hint, queue.words) == ("give a number from 0 to 255", [])


@pytest.mark.row("HCQ-02")
@pytest.mark.refusal
def test_a_fill_of_too_many_pieces_is_refused_before_any_word(device):
    queue = device.queue("copy")
    with pytest.raises(QueueError, match="the fill needs too many pieces") as caught:
        queue.fill(0x1000, 1, 1 << 50)
    assert queue.words == []
    assert caught.value.facts["limit"] == 4096 * caught.value.facts["piece"]


@pytest.mark.refusal
@pytest.mark.parametrize("kind", ["compute", "copy"])
@pytest.mark.parametrize("data", [b"abcd", bytearray(4), memoryview(b"abcd"), "abcd"])
def test_write_takes_words_and_no_bytes(device, kind, data):
    queue = device.queue(kind)
    with pytest.raises(QueueError, match=r"write takes 1 to \d+ words, in a list") as caught:
        queue.write(0x1000, data)
    assert caught.value.facts["words"] == f"not in {type(data).__name__}"
    assert "device.copy_in(), or as words: memoryview(data).cast('I').tolist()" in caught.value.hint
    assert queue.words == []


@pytest.mark.refusal
@pytest.mark.parametrize("kind", ["compute", "copy"])
@pytest.mark.parametrize("mask", [SLOT, None, "1"])
def test_a_mask_is_a_number(device, kind, mask):
    with pytest.raises(QueueError, match="poll: a mask is a number, not"):
        device.queue(kind).poll(0x1000, 1, mask)


@pytest.mark.row("HCQ-16")
@pytest.mark.refusal
@pytest.mark.parametrize("size", [1.0, np.float32(1), np.int32(1)])
def test_sizes_equal_to_some_that_passed_must_be_ints_too(device, program, size):
    program.check_launch(ONE, ONE)
    for grid, block in (((size, 1, 1), ONE), (ONE, (1, 1, size)), (size, ONE), (ONE, size)):
        with pytest.raises(LaunchError, match="grid and block have three axes each, whole numbers"):
            program.check_launch(grid, block)


@pytest.mark.refusal
def test_dates_of_numpy_are_no_bytes_to_copy(device):
    buffer = device.allocate(64, host=True)
    with pytest.raises(BufferUseError, match="copies take bytes or what has them, not ndarray"):
        device.copy_in(buffer, 0, np.array(["2020-01-01"], dtype="datetime64[D]"))


@pytest.mark.refusal
@pytest.mark.parametrize("start", [1.5, None, "0", -1])
def test_a_timeline_starts_at_a_whole_number(place, vendor, start):
    place()
    with pytest.raises(ConfigError, match=r"timeline_start=.* is no value of a timeline"):
        vendor.open(0, timeline_start=start)
    vendor.open(0).close()


@pytest.mark.refusal
def test_no_cell_is_had_once_the_devices_are_closed(place, vendor):
    place()
    with vendor.open(0) as device:
        signals = device.signals
    with pytest.raises(DeviceLost, match="no signal cell can be had: the devices") as caught:
        signals.take()
    assert caught.value.hint.startswith("open a device again")


@pytest.mark.refusal
def test_a_program_is_launched_on_queues_of_its_chip(device, chip, placed_for):
    other = "sm_90" if chip != "sm_90" else "sm_86"
    with pytest.raises(LaunchError, match=f"kernel bump is for {other}, queue compute for {chip}"):
        device.queue().launch(placed_for(other), 0x1000, ONE, ONE)
