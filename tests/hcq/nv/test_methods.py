"""Pushbuffer words as literals, worked out from the class headers."""

import pytest

from hcq.errors import FieldError, LaunchError, QueueError, Unsupported
from hcq.nv import methods
from hcq.nv.arch import SM_86, SM_90, SM_120
from hcq.nv.defs import host
from hcq.nv.queue import ComputeQueue, CopyQueue
from hcq.queue import Half, Slot, SlotKind

CELL = 0x2_0000_1000
ARGUMENTS = 0x21_0000_0100


def compute(arch=SM_90):
    return ComputeQueue(arch)


@pytest.mark.row("NV-14")
@pytest.mark.row("HCQ-04")
def test_signal_words():
    assert compute().signal(CELL, 7).words == [
        0x20050017,  # incrementing, 5 words, host subchannel, SEM_ADDR_LO
        0x00001000, 0x00000002,  # address
        0x00000007, 0x00000000,  # payload
        0x03100001,  # release, wait idle, 64-bit, timestamp
    ]  # fmt: skip


@pytest.mark.row("NV-14")
def test_wait_words():
    assert compute().wait(CELL, (5 << 32) + 9).words == [
        0x20050017,
        0x00001000, 0x00000002,
        0x00000009, 0x00000005,
        0x01000003,  # acquire: at least, in a circle; 64-bit
    ]  # fmt: skip


def test_timestamp_words_release_zero_below_the_time():
    assert compute().timestamp(CELL + 8).words == [
        0x20050017, 0x00001000, 0x00000002, 0, 0, 0x03100001
    ]  # fmt: skip


def test_barrier_words():
    assert compute().barrier().words == [
        0x20012044, 0,  # WAIT_FOR_IDLE on subchannel 1
        0x200125A6, 0x00001011,  # INVALIDATE_SHADER_CACHES_NO_WFI: instruction, data, constant
    ]  # fmt: skip


def test_setup_words_bind_the_class_and_the_windows():
    queue = compute().setup(0xCBC0, 0x72_0000_0000, 0x73_0000_0000)
    assert queue.words == [
        0x20012000, 0x0000CBC0,  # SET_OBJECT
        0x200221EC, 0x00000073, 0x00000000,  # local window
        0x200220A8, 0x00000072, 0x00000000,  # shared window
    ]  # fmt: skip


@pytest.mark.row("NV-17")
def test_local_memory_words():
    assert compute().local_memory(0x12_3456_0000, 0x88000).words == [
        0x20012044, 0,
        0x200221E4, 0x00000012, 0x34560000,  # SET_SHADER_LOCAL_MEMORY_A, B
        0x200320B9, 0x00000000, 0x00088000, 0x000000FF,  # NON_THROTTLED_A, B, C
    ]  # fmt: skip


def test_inline_write_words():
    assert compute().write(0x12_3456_0000, [1, 0xFFFFFFFF]).words == [
        0x20042060, 8, 1, 0x12, 0x34560000,  # LINE_LENGTH_IN, LINE_COUNT, OFFSET_OUT
        0x2001206C, 0x00000011,  # LAUNCH_DMA: pitch, flush
        0x6002206D, 1, 0xFFFFFFFF,  # LOAD_INLINE_DATA, not incrementing
    ]  # fmt: skip


def test_poll_words_for_the_whole_word():
    assert compute().poll(CELL + 4, 3).words == [
        0x20050017, 0x00001004, 0x00000002, 3, 0, 0x00000000  # acquire: equal, 32-bit
    ]  # fmt: skip


@pytest.mark.parametrize(("value", "payload", "word"), [(0x10, 0x10, 0x4), (0, 0xFFFFFFEF, 0x5)])
def test_poll_words_for_one_bit(value, payload, word):
    # ACQ_AND passes when the bit is set, ACQ_NOR when it is clear.
    assert compute().poll(CELL, value, 0x10).words[3:] == [payload, 0, word]


@pytest.mark.refusal
def test_a_mask_of_several_bits_is_refused():
    with pytest.raises(Unsupported, match="polls all 32 bits or a single one"):
        compute().poll(CELL, 1, 0x3)


@pytest.mark.row("NV-12")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (methods.method(4, 0x400, 1, 2, 3, 4), [0x20048100, 1, 2, 3, 4]),
        (methods.method_once(1, 0x1B4, [9]), [0x6001206D, 9]),
        (methods.immediate(1, 0x110, 0), [0x80002044]),
        (methods.immediate(0, 0x78, 0x1FFF), [0x9FFF001E]),
    ],
)
def test_method_headers_in_all_forms(words, expected):
    assert words == expected


@pytest.mark.row("NV-12")
@pytest.mark.refusal
def test_a_method_with_too_many_words_is_refused():
    with pytest.raises(FieldError, match=r"method_count: 0x2000 does not fit"):
        methods.method_once(1, 0x1B4, [0] * 8192)


@pytest.mark.row("NV-11")
def test_a_ring_entry():
    entry = host.GP_ENTRY.pack(get=0x23456780 >> 2, get_hi=0x91, length=0x123, level=1)
    # word 0: address bits 31:2; word 1: bits 39:32, subroutine (bit 9), length from bit 10
    assert entry == 0x00048E91_23456780


@pytest.mark.row("NV-14")
@pytest.mark.refusal
@pytest.mark.parametrize(("verb", "address", "unit"), [("signal", 8, 16), ("wait", 4, 8)])
def test_a_semaphore_that_is_not_aligned_is_refused(verb, address, unit):
    with pytest.raises(FieldError, match=f"is not aligned to {unit} bytes"):
        getattr(compute(), verb)(CELL + address, 1)


@pytest.mark.refusal
def test_a_timestamp_at_a_payload_is_refused():
    with pytest.raises(FieldError, match="is not 8 above a multiple of 16"):
        compute().timestamp(CELL)


@pytest.mark.parametrize("kind", ["copy", "fill"])
@pytest.mark.refusal
def test_a_compute_queue_lacks_copies(kind):
    with pytest.raises(Unsupported, match=f"a compute queue has no {kind}"):
        getattr(compute(), kind)(0x1000, 0x2000 if kind == "copy" else 1, 4)


# Copy queues.


@pytest.mark.row("NV-15")
def test_copy_words():
    assert CopyQueue(SM_90).copy(0x21_0000_1000, 0x43_0000_2000, 5000).words == [
        0x20048100, 0x43, 0x00002000, 0x21, 0x00001000,  # OFFSET_IN, OFFSET_OUT on subchannel 4
        0x20018106, 5000,  # LINE_LENGTH_IN
        0x200180C0, 0x00000182,  # LAUNCH_DMA: non-pipelined, pitch to pitch
    ]  # fmt: skip


@pytest.mark.row("NV-15")
def test_fill_words_of_whole_words():
    assert CopyQueue(SM_90).fill(0x21_0000_1000, 0xAB, 64).words == [
        0x200181C0, 0xABABABAB,  # SET_REMAP_CONST_A
        0x200181C2, 0x00030004,  # x from constant A, 4 bytes
        0x20028102, 0x21, 0x00001000,  # OFFSET_OUT
        0x20018106, 16,  # components
        0x200180C0, 0x00000582,  # LAUNCH_DMA: remap
    ]  # fmt: skip


def test_fill_words_of_odd_sizes_are_bytes():
    words = CopyQueue(SM_90).fill(0x21_0000_1001, 0xAB, 7).words
    assert words[1] == 0xAB
    assert words[3] == 0x00000004
    assert words[8] == 7


@pytest.mark.row("NV-15")
def test_a_copy_queue_flushes_before_its_signal():
    assert CopyQueue(SM_86).signal(CELL, 7).words == [
        0x200180C0, 0x00000004,  # LAUNCH_DMA: flush, nothing else
        0x20050017, 0x00001000, 0x00000002, 7, 0, 0x03100001,
    ]  # fmt: skip


def test_a_copy_queue_writes_words_by_semaphore():
    assert CopyQueue(SM_90).write(CELL, [5, 6]).words == [
        0x20050017, 0x00001000, 0x00000002, 5, 0, 0x00100001,  # release, after what came before
        0x20050017, 0x00001004, 0x00000002, 6, 0, 0x00000001,
    ]  # fmt: skip


@pytest.mark.row("NV-15")
@pytest.mark.parametrize(
    ("size", "pieces"),
    [
        (0x7FFFF000, [0x7FFFF000]),
        (0x7FFFF001, [0x7FFFF000, 1]),
        (0x80000000, [0x7FFFF000, 0x1000]),
        (0x100000001, [0x7FFFF000, 0x7FFFF000, 0x2001]),
    ],
)
def test_copies_around_2_gib_are_cut(size, pieces):
    words = CopyQueue(SM_90).copy(1 << 41, 1 << 42, size).words
    assert [words[at + 6] for at in range(0, len(words), 9)] == pieces


def test_an_overlapping_copy_upward_goes_from_the_end():
    words = CopyQueue(SM_90).copy(0x1040, 0x1000, 0x100).words
    assert [words[at + 4] for at in range(0, len(words), 9)] == [0x1100, 0x10C0, 0x1080, 0x1040]


@pytest.mark.refusal
def test_a_copy_in_too_many_pieces_is_refused():
    with pytest.raises(QueueError, match="too many pieces"):
        CopyQueue(SM_90).copy(0x1001, 0x1000, 1 << 20)


@pytest.mark.refusal
@pytest.mark.parametrize("size", [-1, -4096])
def test_a_negative_size_is_refused(size):
    with pytest.raises(FieldError, match=f"{size} is negative"):
        CopyQueue(SM_90).copy(0x1000, 0x2000, size)


# Launches.


@pytest.mark.row("HCQ-04")
def test_launch_words(placed):
    queue = compute().launch(placed("add"), ARGUMENTS, (3, 2, 1), (64, 1, 1))
    queue.seal()
    queue.point(0x31_0000_0000)
    assert queue.method_count == 4
    assert queue.words[:4] == [
        0x200120AD, 0x31000001,  # SEND_PCAS_A: the record lies 256 bytes on
        0x200120B0, 0x00000003,  # SEND_SIGNALING_PCAS2_B: invalidate, copy, schedule
    ]  # fmt: skip
    assert queue.words[4:64] == [0] * 60
    assert len(queue.words) == 64 + 96


def test_a_launch_fills_grid_and_bank_0_of_its_record(placed):
    queue = compute().launch(placed("add"), ARGUMENTS, (3, 2, 5), (64, 1, 1))
    record = queue.records[0]
    assert record[32:35] == [3, 2, 5]
    assert record[48] == 0x84000004  # 0x21_0000_0100 >> 6
    assert record[49] & 0x7FFFF == 0


def test_a_record_of_sm_86_holds_the_whole_address(placed):
    queue = compute(SM_86).launch(placed("add", "sm_86"), ARGUMENTS, (3, 2, 5), (64, 1, 1))
    record = queue.records[0]
    assert record[12:15] == [3, 2, 5]
    assert record[32] == 0x00000100
    assert record[33] & 0x1FFFF == 0x21


@pytest.mark.row("NV-13")
@pytest.mark.parametrize(("arch", "chip"), [(SM_86, "sm_86"), (SM_90, "sm_90"), (SM_120, "sm_120")])
def test_launches_with_a_barrier_between_become_a_chain(placed, arch, chip):
    program = placed("bump", chip)
    queue = compute(arch)
    queue.chained = True
    for _ in range(3):
        queue.launch(program, ARGUMENTS, (1, 1, 1), (1, 1, 1)).barrier()
    queue.seal()
    queue.point(0x31_0000_0000)
    # One launch and one barrier at the end; the records name one another.
    assert queue.words[:8] == [
        0x200120AD, 0x31000001, 0x200120B0, 3,
        0x20012044, 0, 0x200125A6, 0x1011,
    ]  # fmt: skip
    pointer = {"sm_86": 15, "sm_90": 14, "sm_120": 12}[chip]
    stride = 64 if chip == "sm_86" else 128
    found = [queue.words[64 + stride * i + pointer] for i in range(3)]
    step = stride * 4 >> 8
    assert found == [0x31000001 + step, 0x31000001 + 2 * step, 0]


def test_without_chaining_every_launch_is_sent(placed):
    queue = compute()
    for _ in range(3):
        queue.launch(placed("bump"), ARGUMENTS, (1, 1, 1), (1, 1, 1)).barrier()
    queue.seal()
    assert queue.words[: queue.method_count].count(0x200120AD) == 3


@pytest.mark.row("NV-13")
@pytest.mark.parametrize(
    "between",
    [
        lambda queue: queue.signal(CELL, 1).barrier(),
        lambda queue: queue.wait(CELL, 1).barrier(),
        lambda queue: queue.barrier().wait(CELL, 1),
        lambda queue: queue.barrier().signal(CELL, 1),
        lambda queue: queue.write(CELL, [1]).barrier(),
        lambda queue: queue,
    ],
    ids=["signal-barrier", "wait-barrier", "barrier-wait", "barrier-signal", "write", "nothing"],
)
def test_a_chain_ends_where_anything_but_a_barrier_comes_between(placed, between):
    queue = compute()
    queue.chained = True
    program = placed("bump")
    between(queue.launch(program, ARGUMENTS, (1, 1, 1), (1, 1, 1)))
    queue.launch(program, ARGUMENTS, (1, 1, 1), (1, 1, 1))
    queue.seal()
    assert queue.words[: queue.method_count].count(0x200120AD) == 2  # both are sent
    assert [record[11] & 0x2 for record in queue.records] == [0, 0]


def test_a_zero_grid_launches_nothing(placed):
    queue = compute().launch(placed("add"), ARGUMENTS, (0, 1, 1), (64, 1, 1))
    assert (queue.words, queue.records) == ([], [])
    assert queue.blocks == [ARGUMENTS]


@pytest.mark.refusal
@pytest.mark.parametrize("address", [0x21_0000_0010, -256, 1 << 49])
def test_an_argument_block_elsewhere_is_refused(placed, address):
    with pytest.raises(LaunchError, match="256-byte"):
        compute().launch(placed("add"), address, (1, 1, 1), (64, 1, 1))


def test_slots_of_a_launch_become_patches_of_the_placed_record(placed):
    queue = compute()
    grid = Slot("n", SlotKind.VARIABLE, bits=32)
    queue.launch(placed("add"), Slot("args"), (grid, 1, 1), (64, 1, 1))
    queue.seal()
    placed_words = [p for p in queue.patches if p.word >= 64]
    assert {(p.word, p.half, p.mask) for p in placed_words} == {
        (64 + 32, Half.LOW, 0xFFFFFFFF),
        (64 + 48, Half.LOW, 0xFFFFFFFF),
        (64 + 49, Half.HIGH, 0x7FFFF),
    }
    named = [p.formula for p in placed_words if p.formula.slot.name == "args"]
    assert {formula.of(0x21_0000_0100) for formula in named} == {0x84000004}


@pytest.mark.row("NV-08")
def test_an_argument_block_that_is_a_slot_is_given_its_sizes_by_the_gpu(placed):
    queue, where = compute(), Slot("args")
    queue.launch(placed("add"), where, (9, 8, 7), (64, 2, 1))
    idle, caches = [0x2001_2044, 0], [0x2001_25A6, 0x1011]
    assert queue.words[:-4] == [
        *idle,
        *(0x2004_2060, 24, 1, 0, 0, 0x2001_206C, 0x11),
        *(0x6006_206D, 64, 2, 1, 9, 8, 7),
        *idle,
        *caches,
    ]
    assert [(p.word, p.half) for p in queue.patches] == [(5, Half.HIGH), (6, Half.LOW)]


@pytest.mark.row("HCQ-26")
def test_a_queue_that_is_unsealed_and_sealed_again_holds_what_it_held(placed):
    queue = compute().signal(CELL, Slot("value", SlotKind.VARIABLE, bits=32))
    queue.launch(placed("add"), Slot("args"), (1, 1, 1), (64, 1, 1))
    before = list(queue.words), list(queue.patches)
    queue.seal()
    sealed = list(queue.words), list(queue.patches)
    assert len(sealed[1]) == len(before[1]) + 2  # bank 0's address, low and high
    queue.unseal()
    assert (queue.words, queue.patches) == before
    queue.seal()
    assert (queue.words, queue.patches) == sealed


@pytest.mark.refusal
def test_a_copy_queue_lacks_launches(placed):
    with pytest.raises(Unsupported, match="a copy queue has no launch"):
        CopyQueue(SM_90).launch(placed("add"), ARGUMENTS, (1, 1, 1), (1, 1, 1))
