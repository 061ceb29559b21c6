"""The ring of argument blocks: when a block may be used again, and by whom; on every chip."""

import threading

import pytest

from hcq.errors import LaunchError, QueueError
from hcq.memory import BumpAllocator

ONE = (1, 1, 1)
# How many blocks of `bump` fit into 4 segments of 1 KiB: 16 bytes each, or constant bank 0
# up to the parameter, 256-byte aligned.
BLOCKS = {"gfx1100": 256, "sm_86": 8, "sm_89": 8, "sm_90": 4, "sm_120": 4}


@pytest.fixture
def ring(device):
    """A ring of 4 segments of 1 KiB in the place of the 16 MiB."""
    device.ring.blocks = BumpAllocator(
        device.ring._ring.address, 4096, device.work.wait_reused, segments=4
    )
    return device.ring.blocks


@pytest.fixture
def bump(device, compiled):
    return device.load(compiled("bump"), "bump")


def go_round(device, program):
    spare = device.allocate(4, zero=True)
    for _ in range(300):
        device.launch(program, [spare.address], ONE, ONE)


@pytest.mark.row("HCQ-13")
def test_a_block_is_not_used_again_before_its_launch_is_over(device, chip, bump, ring, words):
    cells = device.allocate(1200, zero=True)
    flag = device.allocate(16, host=True, uncached=True, zero=True)
    device.submit(device.queue("compute").poll(flag.address, 1))
    done = []

    def work():
        for i in range(300):
            device.launch(bump, [cells.address + 4 * i], ONE, ONE)
            done.append(i)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(0.3)
    assert len(done) == BLOCKS[chip]  # 4 segments full, the submitter waits
    flag.region.write32(0, 1)
    thread.join(20)
    assert words(device, cells, 300) == [1] * 300


@pytest.mark.row("HCQ-13")
@pytest.mark.refusal
def test_launches_that_were_refused_take_nothing_from_the_ring(device, bump, ring, words):
    cell = device.allocate(4, zero=True)
    for _ in range(100):
        with pytest.raises(LaunchError, match="2000 is outside the limit 1024"):
            device.launch(bump, [cell.address], ONE, (2000, 1, 1))
        device.launch(bump, [cell.address], (0, 1, 1), ONE)
        for _ in range(5):
            device.launch(bump, [cell.address], ONE, ONE)
    assert words(device, cell, 1) == [500]
    assert [len(segment.open) for segment in ring._segments] == [0, 0, 0, 0]


@pytest.mark.row("HCQ-13")
def test_a_queue_may_be_submitted_again_while_its_arguments_stand(device, bump, ring, words):
    cell = device.allocate(4, zero=True)
    queue = device.queue("compute").launch(bump, device.arguments(bump, [cell.address]), ONE, ONE)
    for _ in range(3):
        device.submit(queue)
    assert words(device, cell, 1) == [3]


@pytest.mark.row("HCQ-13")
@pytest.mark.refusal
def test_a_queue_whose_arguments_were_overwritten_is_refused(device, bump, ring, words):
    cell = device.allocate(4, zero=True)
    queue = device.queue("compute").launch(bump, device.arguments(bump, [cell.address]), ONE, ONE)
    device.submit(queue)
    go_round(device, bump)
    put = device.channels["compute"].put
    with pytest.raises(QueueError, match="arguments of this queue's launches have been overwri"):
        device.submit(queue)
    assert device.channels["compute"].put == put
    assert words(device, cell, 1) == [1]


@pytest.mark.row("HCQ-13")
@pytest.mark.row("HCQ-26")
def test_a_bound_queue_keeps_its_arguments_until_it_is_unbound(device, bump, ring, words):
    cell = device.allocate(4, zero=True)
    queue = device.queue("compute").launch(bump, device.arguments(bump, [cell.address]), ONE, ONE)
    device.submit(device.bind(queue))
    go_round(device, bump)
    device.submit(queue)
    assert words(device, cell, 1) == [2]
    device.unbind(queue)
    assert [segment.pins for segment in ring._segments] == [0, 0, 0, 0]
