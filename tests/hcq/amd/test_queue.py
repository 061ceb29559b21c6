"""Every verb as literal words, for both kinds of queue.

Sources: PM4 packets as in Linux amdkfd/kfd_pm4_headers_ai.h and nvd.h; SDMA packets
as in sdma_v6_0_0_pkt_open.h; registers as in gc_11_0_0_offset.h. Worked out by hand.
"""

import threading

import pytest

from hcq.amd.arch import GFX1100
from hcq.amd.queue import ComputeQueue, CopyQueue
from hcq.errors import FieldError, QueueError, Unsupported

CELL = 0x2_0000_1000


@pytest.fixture
def compute():
    return ComputeQueue(GFX1100)


@pytest.fixture
def copy():
    return CopyQueue(GFX1100)


@pytest.mark.row("HCQ-04")
@pytest.mark.row("AMD-09")
def test_compute_wait_words(compute):
    assert compute.wait(CELL, 41).words == [
        0xC0053C02,  # WAIT_REG_MEM, 7 words, compute
        0x00000015,  # memory, >=
        0x00001000, 0x00000002,
        0x00000029,  # reference
        0xFFFFFFFF,  # mask
        0x00000004,  # poll interval
        0xC0065802,  # ACQUIRE_MEM, 8 words
        0x00000000,
        0xFFFFFFFF, 0x000000FF,  # all memory
        0x00000000, 0x00000000,
        0x0000000A,
        0x0000C3B0,  # GLM wb inv, GLK inv, GLV inv, GL1 inv, GL2 inv wb
    ]  # fmt: skip


@pytest.mark.row("HCQ-04")
@pytest.mark.row("AMD-09")
def test_compute_signal_words(compute):
    assert compute.signal(CELL, 42).words == [
        0xC0064902,  # RELEASE_MEM, 8 words: the time
        0x00000528,  # bottom of pipe, end-of-pipe index, no cache action
        0x60000000,  # data: GPU clock
        0x00001008, 0x00000002,
        0x00000000, 0x00000000,
        0x00000000,
        0xC0064902,  # RELEASE_MEM: the value
        0x0060F514,  # cache flush and invalidate, GLM wb inv, GLV inv, GL1 inv, GL2 wb, seq 1
        0x40000000,  # data: 64 bits
        0x00001000, 0x00000002,
        0x0000002A, 0x00000000,
        0x00000000,
    ]  # fmt: skip


@pytest.mark.row("HCQ-04")
def test_compute_timestamp_words(compute):
    assert compute.timestamp(CELL).words == [
        0xC0064902, 0x00000528, 0x60000000, 0x00001000, 0x00000002, 0, 0, 0,
    ]  # fmt: skip


@pytest.mark.row("HCQ-04")
@pytest.mark.row("AMD-09")
def test_compute_barrier_words(compute):
    assert compute.barrier().words == [
        0xC0004602,  # EVENT_WRITE, 2 words
        0x00000407,  # CS_PARTIAL_FLUSH, index 4
        0xC0065802, 0, 0xFFFFFFFF, 0xFF, 0, 0, 0xA,
        0x00000380,  # GLK, GLV, GL1 invalidated; L2 is not touched
    ]  # fmt: skip


@pytest.mark.row("AMD-09")
def test_code_upload_also_drops_the_instruction_cache(compute):
    assert compute.acquire_code().words[-1] == 0x00000381  # GLI inv all besides


@pytest.mark.row("HCQ-04")
def test_compute_write_and_poll_words(compute):
    assert compute.write(CELL, [7, 8]).poll(CELL, 3, 0xFF).words == [
        0xC0043702,  # WRITE_DATA, 6 words
        0x00100500,  # to memory, confirmed
        0x00001000, 0x00000002,
        7, 8,
        0xC0053C02,
        0x00000013,  # memory, ==
        0x00001000, 0x00000002,
        3, 0xFF, 4,
    ]  # fmt: skip


@pytest.mark.row("AMD-16")
def test_compute_interrupt_words(compute):
    assert compute.interrupt(CELL, 5).words == [
        0xC0064902,
        0x00000528,
        0x42000000,  # 64-bit data, interrupt after the write is confirmed
        0x00001000, 0x00000002,
        5, 0,
        5,  # interrupt context: the event
    ]  # fmt: skip


@pytest.mark.row("HCQ-04")
@pytest.mark.row("AMD-12")
def test_copy_words(copy):
    assert copy.copy(0x3_0000_2000, 0x1_0000_1000, 4096).words == [
        0x00000001,  # COPY LINEAR
        0x00000FFF,  # bytes - 1
        0x00000000,
        0x00001000, 0x00000001,
        0x00002000, 0x00000003,
    ]  # fmt: skip


@pytest.mark.row("HCQ-04")
@pytest.mark.row("AMD-12")
def test_copy_queue_wait_and_signal_words(copy):
    assert copy.wait(CELL, 41).signal(CELL, 42).words == [
        0xD0000008,  # POLL_REGMEM memory, >=
        0x00001000, 0x00000002,
        0x00000029, 0xFFFFFFFF,
        0x0FFF000A,  # forever, interval 10
        0x00000111,  # GCR_REQ by user
        0x00000000,
        0xC0000000,  # GL2 inv, wb in the upper half
        0x00000000, 0x00000000,
        0x00000111, 0x00000000,
        0x80000000,  # GL2 wb
        0x00000000, 0x00000000,
        0x0000020D,  # TIMESTAMP get global
        0x00001008, 0x00000002,
        0x00030005,  # FENCE, uncached
        0x00001000, 0x00000002,
        0x0000002A,
    ]  # fmt: skip


@pytest.mark.row("HCQ-04")
@pytest.mark.row("AMD-12")
def test_copy_queue_fill_write_poll_interrupt_words(copy):
    copy.fill(CELL, 0xAB, 256).fill(CELL, 1, 5).write(CELL, [9]).poll(CELL, 3)
    assert copy.interrupt(CELL, 5).words == [
        0x8000000B,  # CONST_FILL by words
        0x00001000, 0x00000002,
        0xABABABAB,
        0x000000FC,  # (words - 1) * 4
        0x0000000B,  # CONST_FILL by bytes
        0x00001000, 0x00000002,
        0x00000001,
        0x00000004,  # bytes - 1
        0x00000002,  # WRITE
        0x00001000, 0x00000002,
        0x00000000,
        9,
        0xB0000008,  # POLL_REGMEM memory, ==
        0x00001000, 0x00000002, 3, 0xFFFFFFFF, 0x0FFF000A,
        0x00030005, 0x00001000, 0x00000002, 5,  # the event's slot
        0x00000006, 5,  # TRAP
    ]  # fmt: skip


@pytest.mark.row("HCQ-20")
@pytest.mark.parametrize(
    ("size", "pieces"),
    [
        (0x3FFF_FEFF, [0x3FFF_FEFF]),
        (0x3FFF_FF00, [0x3FFF_FF00]),
        (0x3FFF_FF01, [0x3FFF_FF00, 1]),
        (0x1_0000_0000, [0x3FFF_FF00] * 4 + [0x400]),
    ],
)
def test_copies_over_the_engines_limit_are_split(copy, size, pieces):
    words = copy.copy(1 << 40, 1 << 44, size).words
    assert [word + 1 for word in words[1::7]] == pieces
    ends = [(hi << 32 | lo) for lo, hi in zip(words[5::7], words[6::7], strict=True)]
    assert ends == [(1 << 40) + sum(pieces[:i]) for i in range(len(pieces))]


@pytest.mark.row("HCQ-20")
def test_overlapping_upward_copy_goes_from_the_end(copy):
    words = copy.copy(0x1300, 0x1000, 0x700).words
    # Pieces of the distance, last first, so that nothing is overwritten before it was read.
    assert [(words[i + 5], words[i + 3], words[i + 1] + 1) for i in range(0, len(words), 7)] == [
        (0x1900, 0x1600, 0x100), (0x1600, 0x1300, 0x300), (0x1300, 0x1000, 0x300),
    ]  # fmt: skip


@pytest.mark.row("HCQ-20")
def test_copy_onto_itself_is_nothing(copy):
    assert copy.copy(0x1000, 0x1000, 64).words == []


@pytest.mark.row("HCQ-04")
@pytest.mark.refusal
def test_a_verb_the_kind_lacks_names_both(compute, copy):
    with pytest.raises(Unsupported, match="a compute queue has no copy"):
        compute.copy(0, 4, 4)
    with pytest.raises(Unsupported, match="a compute queue has no fill"):
        compute.fill(0, 0, 4)
    with pytest.raises(Unsupported, match="a copy queue has no launch"):
        copy.launch(None, 0, (1, 1, 1), (1, 1, 1))


@pytest.mark.row("HCQ-02")
@pytest.mark.refusal
def test_values_over_32_bits_are_refused_while_building(compute, copy):
    with pytest.raises(FieldError, match="does not fit in 32 bits"):
        compute.wait(CELL, 1 << 32)
    with pytest.raises(FieldError, match="signal value"):
        copy.signal(CELL, 1 << 32)
    with pytest.raises(FieldError, match="write"):
        compute.write(CELL, [-1])
    with pytest.raises(FieldError, match="8 bits"):
        copy.fill(CELL, 256, 4)


@pytest.mark.row("HCQ-28")
@pytest.mark.refusal
def test_a_queue_belongs_to_the_thread_that_made_it(compute):
    caught = []

    def use():
        try:
            compute.barrier()
        except QueueError as error:
            caught.append(error)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert "belongs to the thread that made it" in str(caught[0])


@pytest.mark.refusal
def test_write_takes_at_least_a_word(compute):
    with pytest.raises(QueueError, match="1 to 16380 words"):
        compute.write(CELL, [])


@pytest.mark.row("HCQ-02")
@pytest.mark.refusal
@pytest.mark.parametrize("address", [-1, 1 << 64])
@pytest.mark.parametrize(
    "verb",
    [
        lambda address: ComputeQueue(GFX1100).wait(address, 0),
        lambda address: ComputeQueue(GFX1100).timestamp(address),
        lambda address: ComputeQueue(GFX1100).write(address, [1]),
        lambda address: CopyQueue(GFX1100).wait(address, 0),
        lambda address: CopyQueue(GFX1100).copy(address, 0, 4),
        lambda address: CopyQueue(GFX1100).fill(address, 0, 5),
    ],
)
def test_addresses_of_more_than_64_bits_are_refused_while_building(verb, address):
    with pytest.raises(FieldError, match="does not fit in 64 bits"):
        verb(address)


@pytest.mark.row("HCQ-02")
@pytest.mark.refusal
@pytest.mark.parametrize("queue", [ComputeQueue, CopyQueue])
def test_a_mask_of_more_than_32_bits_is_refused(queue):
    with pytest.raises(FieldError, match="mask: 0x100000000 does not fit in 32 bits"):
        queue(GFX1100).poll(0x1000, 0, 1 << 32)


@pytest.mark.row("HCQ-20")
@pytest.mark.refusal
def test_negative_sizes_are_refused():
    with pytest.raises(FieldError, match="copy size -1 is negative"):
        CopyQueue(GFX1100).copy(0, 4096, -1)
    with pytest.raises(FieldError, match="fill size -4 is negative"):
        CopyQueue(GFX1100).fill(0, 0, -4)
