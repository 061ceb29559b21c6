"""Values of slots are held to what numbers are held to, before any word is written."""

import pytest

from hcq.batch import Batch
from hcq.errors import FieldError, LaunchError, QueueError
from hcq.queue import Slot, SlotKind

ONE = (1, 1, 1)
N = Slot("n", SlotKind.VARIABLE)
WHERE = Slot("where")


@pytest.fixture
def batch(device):
    """A batch of the device."""
    found = Batch(device)
    yield found
    found.free()


@pytest.mark.row("BAT-03")
@pytest.mark.refusal
@pytest.mark.parametrize("more", [1, 4, 8, 16, 32, 64, 128])
def test_a_slot_that_misaligns_an_argument_block_is_refused(device, chip, add, batch, words, more):
    program, out, a, b = add
    block = batch.arguments(program, (out.address, a.address, b.address, 7))
    batch.queue("compute").launch(program, WHERE, ONE, (64, 1, 1))
    alignment = 256 if chip.startswith("sm_") else 16
    if more % alignment:
        text = rf"launch: address 0x\w+ is not aligned to {alignment} bytes"
        with pytest.raises(FieldError, match=text):
            batch.submit({WHERE: block + more})
        assert batch.words_written == 0
    device.wait(batch.submit({WHERE: block}))
    assert words(device, out, 2) == [5 + 7, 6 + 7]


@pytest.mark.row("BAT-03")
@pytest.mark.refusal
@pytest.mark.parametrize("kind", ["compute", "copy"])
def test_a_slot_that_misaligns_a_timestamp_is_refused(device, chip, batch, kind):
    cell = device.allocate(64, host=True, zero=True)
    batch.queue(kind).timestamp(WHERE)
    is_nvidia = chip.startswith("sm_")
    text = "is not 8 above a multiple of 16" if is_nvidia else "is not aligned to 8 bytes"
    for more in (0, 16, 4) if is_nvidia else (4, 12):
        with pytest.raises(FieldError, match=text):
            batch.submit({WHERE: cell.address + more})
    device.wait(batch.submit({WHERE: cell.address + 8}))
    assert cell.region.read64(8) > 0


@pytest.mark.row("BAT-03")
@pytest.mark.refusal
@pytest.mark.parametrize("chip", ["gfx1100"])
@pytest.mark.parametrize("kind", ["compute", "copy"])
def test_a_slot_above_what_a_signal_takes_is_refused(device, batch, kind):
    cell = device.signals.take()
    batch.queue(kind).signal(cell.address, N + 1)
    with pytest.raises(FieldError, match="signal value: 0x100000000 does not fit in 32 bits"):
        batch.submit({N: (1 << 32) - 1})
    assert batch.words_written == 0
    device.wait(batch.submit({N: (1 << 32) - 2}))
    assert cell.value == (1 << 32) - 1
    device.signals.give(cell)


@pytest.mark.row("HCQ-16")
@pytest.mark.row("BAT-03")
@pytest.mark.refusal
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_slot_that_makes_a_grid_too_large_is_refused(device, chip, compiled, batch, words, axis):
    program = device.load(compiled("bump"), "bump")
    out = device.allocate(4, zero=True)
    block = batch.arguments(program, (out.address,))
    grid = tuple(N + 1 if axis == at else 1 for at in range(3))
    batch.queue("compute").launch(program, block, grid, ONE)
    limit = 65535 if axis and chip.startswith("sm_") else (1 << 31) - 1
    for value in (limit, 1 << 32, 1 << 63):
        text = rf"kernel bump: grid\[{axis}\] {value + 1} is outside the limit {limit}"
        with pytest.raises(LaunchError, match=text):
            batch.submit({N: value})
    assert batch.words_written == 0
    device.wait(batch.submit({N: 2}))
    assert words(device, out, 1) == [3]


@pytest.mark.row("HCQ-16")
@pytest.mark.refusal
@pytest.mark.parametrize("chip", ["gfx1100"])
def test_the_limit_of_a_grid_of_slots_is_that_of_its_block(device, compiled, batch):
    program = device.load(compiled("bump"), "bump")
    block = batch.arguments(program, (0x1000,))
    batch.queue("compute").launch(program, block, (N, 1, 1), (64, 1, 1))
    with pytest.raises(LaunchError, match=r"grid\[0\] \* block 4294967296 is outside the limit"):
        batch.submit({N: 1 << 26})


@pytest.mark.refusal
@pytest.mark.parametrize("kind", ["compute", "copy"])
def test_write_refuses_slots_as_words(device, kind):
    queue = device.queue(kind)
    for words in ([N], [1, N + 1]):
        with pytest.raises(QueueError, match="write stores numbers: only its address may be a"):
            queue.write(0x1000, words)
    assert queue.words == []


@pytest.mark.refusal
def test_a_grid_of_slots_has_no_arguments_outside_a_batch(device, compiled):
    program = device.load(compiled("bump"), "bump")
    with pytest.raises(LaunchError, match="a slot in a grid has no value before a batch") as caught:
        device.launch(program, (0x1000,), (N, 1, 1), ONE)
    assert caught.value.hint == "lay down arguments with batch.arguments()"


@pytest.mark.refusal
@pytest.mark.parametrize("given", [5, [1], "x"])
def test_values_of_slots_come_by_slot_or_name(batch, given):
    batch.queue("copy").fill(WHERE, 1, 4)
    with pytest.raises(QueueError, match="submit takes the values of slots by slot or name, not"):
        batch.submit(given)


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("compute", "text"),
    [
        (lambda: N // 0, "slot n // 0 is no formula"),
        (lambda: (N + 1) // 0, "slot n // 0 is no formula"),
        (lambda: N * 1.5, r"slot n \* 1.5 is no formula"),
        (lambda: N + "1", r"slot n \+ '1' is no formula"),
    ],
)
def test_a_formula_is_of_whole_numbers_and_divides_by_no_0(compute, text):
    with pytest.raises(QueueError, match=text):
        compute()
