"""Address-range allocators against a model, and the ring of blocks in flight."""

import itertools
import random

import pytest

from hcq.errors import BufferUseError, OutOfMemory, QueueError
from hcq.memory import Buffer, BumpAllocator, FreedBuffers, RangeAllocator


@pytest.mark.row("ALC-09")
def test_blocks_are_256_bytes_and_merge_when_they_come_back():
    free = RangeAllocator(0x1000, 0x1000)
    blocks = [free.take(1) for _ in range(16)]
    assert blocks == list(range(0x1000, 0x2000, 256))
    for block in (blocks[3], blocks[5], blocks[4]):
        free.give(block)
    assert free.largest == 768
    assert free.take(768) == blocks[3]


@pytest.mark.row("ALC-09")
@pytest.mark.refusal
def test_exhaustion_names_what_was_asked_and_what_is_left():
    free = RangeAllocator(0, 1024)
    free.take(512)
    with pytest.raises(OutOfMemory, match="no free block") as caught:
        free.take(600)
    assert caught.value.facts == {"asked": 768, "used": 512, "largest": 512}


@pytest.mark.row("ALC-09")
def test_alignment_is_kept():
    free = RangeAllocator(0x100, 1 << 20)
    free.take(256)
    assert free.take(256, 4096) == 0x1000


@pytest.mark.refusal
def test_giving_back_twice_is_refused():
    free = RangeAllocator(0, 1024)
    block = free.take(10)
    free.give(block)
    with pytest.raises(BufferUseError, match="not handed out"):
        free.give(block)


@pytest.mark.row("ALC-09")
@pytest.mark.parametrize("seed", range(4))
def test_range_allocator_agrees_with_a_model(seed):
    rng = random.Random(seed)
    start, size = 0x40000, 64 << 10
    free = RangeAllocator(start, size)
    model = {}  # block -> rounded size
    for _ in range(1500):
        if model and rng.random() < 0.48:
            block = rng.choice(list(model))
            del model[block]
            free.give(block)
            continue
        asked, alignment = rng.randint(1, 6000), 1 << rng.randint(8, 12)
        rounded = -(-asked // 256) * 256
        try:
            block = free.take(asked, alignment)
        except OutOfMemory:
            assert not _fits(model, start, size, rounded, alignment)
            continue
        assert block % alignment == 0
        assert start <= block
        assert block + rounded <= start + size
        assert all(b + n <= block or block + rounded <= b for b, n in model.items())
        model[block] = rounded
    assert free.used == sum(model.values())
    for block in list(model):
        free.give(block)
    assert free.largest == size


def _fits(model, start, size, wanted, alignment):
    edges = sorted([(start, 0), *model.items(), (start + size, 0)])
    for (below, length), (above, _) in itertools.pairwise(edges):
        at = -(-(below + length) // alignment) * alignment
        if at + wanted <= above:
            return True
    return False


@pytest.mark.row("ALC-08")
@pytest.mark.refusal
def test_bump_without_wrap_runs_out():
    bump = BumpAllocator(0x1000, 256)
    assert [bump.take(100, 16), bump.take(100, 16)] == [0x1000, 0x1070]
    with pytest.raises(OutOfMemory, match="range is full"):
        bump.take(100)


@pytest.mark.row("ALC-08")
def test_a_wrap_waits_for_the_blocks_in_flight():
    waited = []
    bump = BumpAllocator(0, 1024, waited.append, segments=4)
    for value in range(1, 5):
        bump.commit(bump.take(256), value)
    assert waited == [0, 0, 0]
    assert bump.take(64) == 0
    assert waited == [0, 0, 0, 1]


@pytest.mark.row("ALC-08")
def test_a_wrap_never_hands_out_bytes_in_flight():
    done = 0
    flying = {}  # address -> value

    def wait(value):
        nonlocal done
        done = max(done, value)

    bump = BumpAllocator(0x100, 4096, wait, segments=8)
    for value in range(1, 2000):
        address = bump.take(40 + value % 50)
        assert all(v <= done or abs(a - address) >= 40 for a, v in flying.items())
        flying = {a: v for a, v in flying.items() if v > done}
        flying[address] = value
        bump.commit(address, value)


@pytest.mark.row("ALC-08")
@pytest.mark.refusal
def test_alignment_never_pushes_a_block_out_of_its_segment():
    bump = BumpAllocator(0x110, 512, lambda value: None, segments=2)
    with pytest.raises(OutOfMemory, match="does not fit into a segment at its alignment"):
        bump.take(250, 256)
    assert bump.take(200, 16) >= 0x110


@pytest.mark.row("ALC-08")
@pytest.mark.refusal
def test_blocks_that_nobody_submits_end_in_an_error_not_a_wait():
    bump = BumpAllocator(0, 512, lambda value: None, segments=2)
    bump.take(256)
    bump.take(256)
    with pytest.raises(QueueError, match="never submitted"):
        bump.take(16)


@pytest.mark.refusal
def test_buffer_refuses_use_after_free_and_outside():
    buffer = Buffer(None, 0x1000, 64, None, "weights")
    with pytest.raises(BufferUseError, match="outside buffer weights"):
        buffer.check(60, 8)
    with pytest.raises(BufferUseError, match="no host view"):
        buffer.view()
    buffer.freed = 7
    with pytest.raises(BufferUseError, match="weights was freed"):
        buffer.check(0, 1)


def test_freed_buffers_remember_the_last_at_an_address():
    freed = FreedBuffers()
    for name in ("old", "new"):
        freed.add(Buffer(None, 0x1000, 64, None, name))
    assert freed.at(0x1010).name == "new"
    assert freed.at(0x2000) is None
