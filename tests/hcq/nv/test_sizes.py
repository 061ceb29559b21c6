"""Launch sizes of argument blocks that were laid down without them."""

import pytest

from hcq.batch import Batch
from hcq.errors import BufferUseError, LaunchError
from hcq.queue import Slot, SlotKind

ONE = (1, 1, 1)
GRID, BLOCK = (3, 2, 1), (4, 5, 6)
SEEN = [4, 5, 6, 3, 2, 1]  # what the kernel writes for these
N = Slot("n", SlotKind.VARIABLE, bits=16)


@pytest.fixture(params=["sm_86", "sm_90", "sm_120"])
def chip(request):
    return request.param


@pytest.fixture
def sizes(device, compiled):
    """The program that writes its launch's sizes, and where to."""
    return device.load(compiled("sizes"), "sizes"), device.allocate(64, host=True, zero=True)


def seen(buffer, count=6):
    return list(buffer.view().cast("I"))[:count]


@pytest.mark.row("NV-08")
def test_launches_in_flight_keep_the_sizes_they_had(held, compiled):
    device, flag = held
    program = device.load(compiled("sizes"), "sizes")
    out, first = (device.allocate(64, host=True, zero=True) for _ in range(2))
    arguments = device.arguments(program, (out.address,))
    device.submit(device.queue().launch(program, arguments, GRID, BLOCK))
    device.copy(first.address, out.address, 64)
    device.submit(device.queue().launch(program, arguments, ONE, (2, 2, 2)))
    flag.region.write32(0, 1)
    device.synchronize()
    assert seen(first) == SEEN
    assert seen(out) == [2, 2, 2, 1, 1, 1]


@pytest.mark.row("NV-08")
@pytest.mark.row("HCQ-26")
def test_a_bound_queue_gets_the_sizes_in_blocks_of_the_callers_own(device, sizes):
    program, out = sizes
    own = device.allocate(4096)
    device.copy_in(own, 0, program.bank((out.address,)))
    queue = device.bind(device.queue().launch(program, own.address, GRID, BLOCK))
    for _ in range(2):
        device.copy_in(own, 0, program.bank((out.address,)))  # without sizes again
        device.wait(device.submit(queue))
        assert seen(out) == SEEN
        out.view()[:24] = bytes(24)


@pytest.mark.row("NV-08")
@pytest.mark.parametrize("chip", ["sm_90"])
def test_of_many_blocks_those_in_flight_are_remembered(held, compiled, monkeypatch):
    from hcq.nv import sizes

    monkeypatch.setattr(sizes, "MOST_HELD", 2)
    device, flag = held
    program = device.load(compiled("sizes"), "sizes")
    out = device.allocate(64, host=True, zero=True)

    def launch():
        arguments = device.arguments(program, (out.address,))
        device.submit(device.queue().launch(program, arguments, GRID, BLOCK))
        return arguments

    blocks = [launch() for _ in range(5)]
    assert list(device._sizes._held) == blocks
    flag.region.write32(0, 1)
    device.synchronize()
    last = launch()
    assert set(device._sizes._held) <= {last}


@pytest.mark.row("NV-08")
def test_a_block_serves_launches_of_any_size_one_after_the_other(device, sizes):
    program, out = sizes
    arguments = device.arguments(program, (out.address,))
    for count in (7, 3, 3, 9):
        queue = device.queue().launch(program, arguments, (count, 1, 1), BLOCK)
        device.wait(device.submit(queue))
        assert seen(out) == [4, 5, 6, count, 1, 1]


@pytest.mark.row("NV-08")
@pytest.mark.refusal
def test_a_queue_launches_one_size_with_a_block(device, sizes):
    program, out = sizes
    arguments = device.arguments(program, (out.address,))
    queue = device.queue().launch(program, arguments, GRID, BLOCK).barrier()
    queue.launch(program, arguments, GRID, BLOCK)
    words = list(queue.words)
    text = "the argument block was laid down for another launch size"
    with pytest.raises(LaunchError, match=text) as caught:
        queue.launch(program, arguments, ONE, BLOCK)
    assert queue.words == words
    assert "device.arguments(..., grid, block)" in caught.value.hint
    device.wait(device.submit(queue))
    assert seen(out) == SEEN


@pytest.mark.row("NV-08")
@pytest.mark.parametrize(
    "options",
    [{"cpu_access": False}, {"cpu_access": True}, {"host": True}],
    ids=["video memory", "video memory with a view", "host memory"],
)
def test_blocks_of_the_callers_own_get_their_sizes_too(device, sizes, options):
    program, out = sizes
    block = device.allocate(4096, **options)
    device.copy_in(block, 1024, program.bank((out.address,)))
    queue = device.queue().launch(program, block.address + 1024, GRID, BLOCK)
    device.wait(device.submit(queue))
    assert seen(out) == SEEN
    out.region.write(0, bytes(24))
    device.wait(device.submit(device.bind(queue)))
    assert seen(out) == SEEN
    device.unbind(queue)


@pytest.mark.row("NV-08")
def test_a_block_that_a_copy_in_flight_lays_down_gets_its_sizes_after_it(held, compiled):
    device, flag = held
    program = device.load(compiled("sizes"), "sizes")
    out, bank, block = (device.allocate(4096, host=True, zero=True) for _ in range(3))
    bank.region.write(0, program.bank((out.address,)))
    device.copy(block.address, bank.address, 4096)
    device.submit(device.queue().launch(program, block.address, GRID, BLOCK))
    flag.region.write32(0, 1)
    device.synchronize()
    assert seen(out) == SEEN


@pytest.mark.row("NV-08")
@pytest.mark.parametrize("is_own", [False, True])
def test_past_the_timeline_sizes_are_laid_down_as_well(device, sizes, is_own):
    program, out = sizes
    if is_own:
        block = device.allocate(4096)
        device.copy_in(block, 0, program.bank((out.address,)))
        arguments = block.address
    else:
        arguments = device.arguments(program, (out.address,))
    device.synchronize()
    device.channels["compute"].submit(device.queue().launch(program, arguments, GRID, BLOCK))
    device.submit(device.queue().barrier())
    device.synchronize()
    assert seen(out) == SEEN


@pytest.mark.row("NV-08")
@pytest.mark.row("BAT-03")
def test_a_block_that_is_a_slot_gets_the_sizes_of_each_launch(device, sizes):
    program, out = sizes
    batch, where = Batch(device), Slot("where")
    blocks = [batch.arguments(program, (out.address + 32 * at,)) for at in range(2)]
    batch.queue("compute").launch(program, where, (N, 2, 1), BLOCK).launch(
        program, where + (blocks[1] - blocks[0]), GRID, BLOCK
    )
    for value in (3, 5):
        device.wait(batch.submit({N: value, where: blocks[0]}))
        assert seen(out) == [4, 5, 6, value, 2, 1]
        assert seen(out, 14)[8:] == SEEN
    batch.free()


@pytest.mark.refusal
def test_a_block_that_lies_in_no_buffer_is_told_as_such(device, sizes):
    program, _ = sizes
    queue = device.queue().launch(program, 0x1000, GRID, BLOCK)
    text = "NV:0: the arguments of a launch lie at 0x1000, in no buffer of it"
    with pytest.raises(BufferUseError, match=text) as caught:
        device.submit(queue)
    assert caught.value.hint.startswith("give what device.arguments() returned")
    device.synchronize()


@pytest.mark.refusal
def test_a_block_in_a_freed_buffer_or_past_the_end_of_one_is_refused(device, sizes):
    program, _ = sizes
    block = device.allocate(4096, name="block")
    late = device.queue().launch(program, block.address + 4096 - 256, GRID, BLOCK)
    if program.arch.name == "sm_120":  # its sizes lie 0x360 bytes in
        with pytest.raises(BufferUseError, match="access outside buffer block"):
            device.submit(late)
    device.free(block)
    with pytest.raises(BufferUseError, match="buffer block was freed"):
        device.submit(late)
    device.synchronize()


@pytest.mark.row("BAT-03")
@pytest.mark.refusal
def test_queues_of_a_batch_launch_one_size_with_a_block(device, sizes):
    program, out = sizes
    batch = Batch(device)
    block = batch.arguments(program, (out.address,))
    for grid in ((N, 1, 1), (N + 1, 1, 1)):
        batch.queue("compute").launch(program, block, grid, BLOCK)
    with pytest.raises(LaunchError, match="queue compute1: the argument block was laid down for"):
        batch.submit({N: 1})
    batch.free()


@pytest.mark.row("BAT-03")
def test_queues_of_a_batch_share_a_block_of_one_size(device, sizes):
    program, out = sizes
    batch = Batch(device)
    block = batch.arguments(program, (out.address,))
    for _ in range(2):
        batch.queue("compute").launch(program, block, (N, 2, 1), BLOCK)
    for value in (3, 5):
        device.wait(batch.submit({N: value}))
        assert seen(out) == [4, 5, 6, value, 2, 1]
    batch.free()


@pytest.mark.row("BAT-03")
@pytest.mark.refusal
def test_a_grid_of_slots_wants_a_block_of_the_batch(device, sizes):
    program, out = sizes
    batch = Batch(device)
    arguments = device.arguments(program, (out.address,))
    batch.queue("compute").launch(program, arguments, (N, 1, 1), BLOCK)
    with pytest.raises(LaunchError, match="a grid of slots wants an argument block of the batch"):
        batch.submit({N: 1})
    batch.free()
