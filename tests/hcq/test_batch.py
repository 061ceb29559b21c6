"""Batches: slots, the patch table, and what a replay may change."""

import random

import pytest

from hcq.batch import Batch
from hcq.errors import FieldError, QueueError
from hcq.queue import Formula, Half, Patch, Slot, SlotKind


def test_formulas_apply_their_steps_in_the_order_written():
    slot = Slot("n", SlotKind.VARIABLE)
    assert ((slot + 63) // 64).of(100) == 2
    assert (slot * 4 + 1).of(3) == 13
    assert (slot + 1) == Formula(slot, (("+", 1),))
    assert slot + 4 + 8 == slot + 12
    assert slot + 4 + -4 == Formula(slot)
    assert (slot * 2 + 4 + 8).steps == (("*", 2), ("+", 12))


@pytest.mark.row("BAT-03")
def test_a_patch_replaces_only_the_bits_of_its_mask():
    value = Formula(Slot("v"))
    assert Patch("q", 0, value).apply(0xAAAAAAAA, 0x1_00000002) == 2
    assert Patch("q", 0, value, Half.HIGH).apply(0xAAAAAAAA, 0x1_00000002) == 1
    byte = Patch("q", 0, value, bits=8, shift=16, mask=0xFF0000)
    assert byte.apply(0xAAAAAAAA, 0x5C) == 0xAA5CAAAA


@pytest.mark.row("BAT-03")
@pytest.mark.refusal
def test_a_value_over_the_patchs_width_is_refused():
    patch = Patch("compute0", 3, Formula(Slot("v")), bits=8, mask=0xFF)
    with pytest.raises(FieldError, match="compute0 word 3: 0x100 does not fit in 8 bits"):
        patch.apply(0, 256)


@pytest.mark.row("BAT-03")
def test_slots_of_all_three_kinds_stand_in_the_patch_table(device):
    batch = Batch(device)
    queue = batch.queue("copy")
    queue.wait(Slot("cell"), Slot("value", SlotKind.TIMELINE, bits=32))
    queue.copy(Slot("out") + 16, 0x1000, 64)
    batch.seal()
    entries = [(p.queue, p.word, p.half.value, p.formula.slot.name) for p in batch.patches]
    assert entries == [
        ("copy0", 1, "low", "cell"),
        ("copy0", 2, "high", "cell"),
        ("copy0", 3, "low", "value"),
        ("copy0", 16, "low", "out"),
        ("copy0", 17, "high", "out"),
    ]
    assert batch.patches[3].formula.steps == (("+", 16),)
    batch.free()


@pytest.mark.row("BAT-03")
def test_between_a_thousand_replays_only_listed_words_differ(device):
    device = device
    buffer = device.allocate(4096, cpu_access=False, zero=True)
    batch = Batch(device)
    batch.queue("copy").copy(Slot("to"), buffer.address, 4).fill(buffer.address, 1, 256).write(
        Slot("also") + 8, [5]
    )
    batch.seal()
    (region,) = batch._regions.values()
    listed = {patch.word for patch in batch.patches}
    rng = random.Random(3)
    before = region.read(0, region.size)
    for _ in range(1000):
        slots = {name: buffer.address + 4 * rng.randrange(64, 1000) for name in ("to", "also")}
        batch.submit(slots)
        after = region.read(0, region.size)
        changed = {i // 4 for i in range(len(after)) if after[i] != before[i]}
        assert changed <= listed
        before = after
    device.synchronize()
    batch.free()


@pytest.mark.row("BAT-03")
def test_equal_values_write_nothing(device):
    device = device
    buffer = device.allocate(64, cpu_access=False)
    batch = Batch(device)
    batch.queue("copy").fill(Slot("to"), 1, 16)
    for _ in range(3):
        batch.submit({"to": buffer.address})
    assert batch.words_written == 2
    batch.submit({"to": buffer.address + 16})
    assert batch.words_written == 4
    device.synchronize()
    batch.free()


@pytest.mark.row("BAT-03")
@pytest.mark.refusal
def test_unset_and_unknown_slots_are_named_before_any_word_is_written(device):
    batch = Batch(device)
    batch.queue("copy").fill(Slot("weights", high=0xFFFF_FFFF), 1, 16)
    with pytest.raises(QueueError, match="slot 'weights' was given no value"):
        batch.submit({})
    with pytest.raises(QueueError, match="no slot 'wieghts', did you mean 'weights'"):
        batch.submit({"wieghts": 1, "weights": 2})
    with pytest.raises(FieldError, match="slot weights: 4294967296 is outside its range"):
        batch.submit({"weights": 1 << 32})
    assert batch.words_written == 0
    batch.free()


@pytest.mark.refusal
def test_a_sealed_batch_takes_nothing_more(device):
    batch = Batch(device)
    queue = batch.queue("copy").fill(0x1000, 1, 16)
    batch.seal()
    with pytest.raises(QueueError, match="the batch is sealed"):
        batch.queue("copy")
    with pytest.raises(QueueError, match="is bound"):
        queue.fill(0x1000, 1, 16)
    batch.free()


@pytest.mark.refusal
def test_a_queue_with_slots_cannot_be_submitted_alone(device):
    queue = device.queue("copy").fill(Slot("to"), 1, 16)
    with pytest.raises(QueueError, match="has slots: submit it as a batch"):
        device.submit(queue)
