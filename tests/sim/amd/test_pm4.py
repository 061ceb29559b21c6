import time
from types import SimpleNamespace

import pytest

from hcq.ioctl_defs import kfd

# Words below are worked out by hand from the packet descriptions: header 0xC000_0000
# | (words after it - 1) << 16 | opcode << 8.
NOP_ONE = 0xFFFF1000
FILLER = 0x80000000
VRAM = 0xD0000001


def low(address):
    return address & 0xFFFFFFFF


def high(address):
    return address >> 32


def release(address, value, select=0x40000000, context=0, event=0x00200528):
    where, what = (low(address), high(address)), (low(value), high(value))
    return [0xC0064900, event, select, *where, *what, context]


def write32(address, *values):
    count = 2 + len(values)
    return [0xC0003700 | count << 16, 0x00100500, low(address), high(address), *values]


@pytest.fixture
def compute(client):
    """A compute queue and a page of results."""

    def make(first=0, **options):
        c = client(**({"seed": 1} | options))
        out = c.memory(8192)
        out.region.write(0, bytes(8192))
        return SimpleNamespace(c=c, queue=c.queue(first=first), out=out, host=c.host)

    return make


def faults(machine):
    return [fault.text for fault in machine.faults]


def refused(setup, *words):
    """Submit words that are to be refused; the text of the fault."""
    event = setup.c.event(setup.c.event_page(), kfd.EVENT_HW_EXCEPTION)
    setup.queue.submit(*words)
    result, data = setup.c.wait_events(event)
    assert result == kfd.WAIT_RESULT_COMPLETE
    assert data[0].hw_exception_data.reset_type == 1
    return setup.host.faults[-1].text


@pytest.mark.parametrize("seed", [None, 1])
def test_a_release_writes_64_bits(compute, seed):
    s = compute(seed=seed)
    s.queue.submit(*release(s.out.address, 0x1122334455667788))
    assert s.queue.finished()
    assert s.out.region.read64(0) == 0x1122334455667788


def test_a_release_of_32_bits_leaves_the_rest(compute):
    s = compute()
    s.queue.submit(*release(s.out.address, 0x1122334455667788, select=0x20000000))
    assert s.queue.finished()
    assert s.out.region.read64(0) == 0x55667788


def test_a_release_may_write_the_clock(compute):
    s = compute()
    before = s.c.call(kfd.GET_CLOCK_COUNTERS, gpu_id=s.c.gpu_id).gpu_clock_counter
    s.queue.submit(*release(s.out.address, 0, select=0x60000000))
    assert s.queue.finished()
    after = s.c.call(kfd.GET_CLOCK_COUNTERS, gpu_id=s.c.gpu_id).gpu_clock_counter
    assert before <= s.out.region.read64(0) <= after


@pytest.mark.parametrize("seed", [None, 1])
def test_a_release_with_an_interrupt_sets_the_event(compute, seed):
    s = compute(seed=seed)
    page = s.c.event_page()
    event = s.c.event(page)
    slot = page.address + 8 * event
    s.queue.submit(*release(slot, event, select=0x42000000, context=event))
    assert s.c.wait_events(event)[0] == kfd.WAIT_RESULT_COMPLETE


def test_write_data_stores_consecutive_words(compute):
    s = compute()
    s.queue.submit(*write32(s.out.address + 4, 1, 2, 3))
    assert s.queue.finished()
    assert [s.out.region.read32(4 * i) for i in range(5)] == [0, 1, 2, 3, 0]


def test_write_data_may_keep_its_address(compute):
    s = compute()
    words = write32(s.out.address, 1, 2)
    words[1] |= 1 << 16
    s.queue.submit(*words)
    assert s.queue.finished()
    assert [s.out.region.read32(0), s.out.region.read32(4)] == [2, 0]


def test_copy_data_copies_and_stores_immediates(compute):
    s = compute()
    s.out.region.write64(64, 0xAABBCCDD11223344)
    at = s.out.address
    s.queue.submit(
        0xC0044000, 0x00110202, low(at + 64), high(at), low(at), high(at),  # 64 bits, memory
        0xC0044000, 0x00100205, 0x77, 0x99, low(at + 8), high(at),  # 32 bits, immediate
    )  # fmt: skip
    assert s.queue.finished()
    assert s.out.region.read64(0) == 0xAABBCCDD11223344
    assert s.out.region.read64(8) == 0x77


def test_dma_data_fills_and_copies(compute):
    s = compute()
    at = s.out.address
    s.queue.submit(
        0xC0055000, 0x40000000, 0xABCD0123, 0, low(at), high(at), 8,  # data
        0xC0055000, 0x60300000, low(at), high(at), low(at + 16), high(at), 6,  # through L2
    )  # fmt: skip
    assert s.queue.finished()
    assert s.out.region.read(0, 8) == b"\x23\x01\xcd\xab" * 2
    assert s.out.region.read(16, 8) == b"\x23\x01\xcd\xab\x23\x01\0\0"


def test_fillers_and_one_word_nops_are_skipped(compute):
    s = compute()
    s.queue.submit(NOP_ONE, FILLER, 0xC0021000, 1, 2, 3, *write32(s.out.address, 5))
    assert s.queue.finished()
    assert s.out.region.read32(0) == 5


@pytest.mark.row("SIM-03")
@pytest.mark.parametrize("seed", [None, 1])
def test_a_wait_holds_the_queue_until_memory_changes(compute, seed):
    s = compute(seed=seed)
    at = s.out.address
    s.queue.submit(0xC0053C00, 0x00000015, low(at), high(at), 7, 0xFFFFFFFF, 4, *write32(at + 8, 1))
    assert not s.c.until(lambda: s.out.region.read32(8), 0.02)
    assert s.queue.read == 0
    s.out.region.write32(0, 7)
    assert s.queue.finished()
    assert s.out.region.read32(8) == 1


@pytest.mark.parametrize(
    ("function", "passing"),
    [(0, (6, 7, 8)), (1, (6,)), (2, (6, 7)), (3, (7,)), (4, (6, 8)), (5, (7, 8)), (6, (8,))],
)
def test_every_comparison_of_a_wait(compute, function, passing):
    s = compute()
    at = s.out.address
    for value in (6, 7, 8):
        s.out.region.write32(0, 0xF0 | value)
        s.queue.submit(0xC0053C00, 0x10 | function, low(at), high(at), 7, 0xF, 4)
        assert s.c.until(lambda: s.queue.read == s.queue.written, 0.001) == (value in passing)
        s.out.region.write32(0, passing[0])
        assert s.queue.finished()


def test_an_indirect_buffer_is_run_and_left_again(compute):
    s = compute()
    buffer = s.c.memory(4096)
    for index, word in enumerate(write32(s.out.address, 11)):
        buffer.region.write32(4 * index, word)
    s.queue.submit(
        0xC0023F00, low(buffer.address), high(buffer.address), 0x00800005,
        *write32(s.out.address + 4, 22),
    )  # fmt: skip
    assert s.queue.finished()
    assert s.out.region.read64(0) == 22 << 32 | 11


def test_a_wait_inside_an_indirect_buffer_goes_on_there(compute):
    s = compute()
    buffer = s.c.memory(4096)
    at = s.out.address
    wait = [0xC0053C00, 0x00000013, low(at), high(at), 7, 0xFFFFFFFF, 4]
    for index, word in enumerate(write32(at + 4, 11) + wait + write32(at + 8, 12)):
        buffer.region.write32(4 * index, word)
    s.queue.submit(0xC0023F00, low(buffer.address), high(buffer.address), 0x00800011)
    assert s.c.until(lambda: s.out.region.read32(4) == 11)
    assert s.out.region.read32(8) == 0
    s.out.region.write32(0, 7)
    assert s.queue.finished()
    assert s.out.region.read32(8) == 12


@pytest.mark.row("SIM-03")
def test_a_packet_rung_for_in_two_pieces_runs_once(compute):
    s = compute()
    words = write32(s.out.address, 5)
    s.queue.submit(*words[:3])
    assert not s.c.until(lambda: s.out.region.read32(0), 0.001)
    s.queue.submit(*words[3:])
    assert s.queue.finished()
    assert s.out.region.read32(0) == 5


def test_packets_may_cross_the_ring_end(compute):
    s = compute()
    for value in range(1, 1000):  # 5 words each in a ring of 2048
        s.queue.submit(*write32(s.out.address, value))
        assert s.queue.finished()
    assert s.out.region.read32(0) == 999


@pytest.mark.row("SIM-03")
@pytest.mark.parametrize("first", [2**16 - 3, 2**32 - 3, 2**40 + 5])
def test_positions_near_a_wrap_are_64_bits_wide(compute, first):
    s = compute(first=first)
    s.queue.submit(*write32(s.out.address, 1)).submit(*write32(s.out.address + 4, 2))
    assert s.queue.finished()
    assert s.queue.read == first + 10
    assert s.out.region.read64(0) == 2 << 32 | 1


@pytest.mark.row("SIM-03")
@pytest.mark.parametrize("seed", [None, 1])
def test_a_doorbell_without_new_work_does_nothing(compute, seed):
    s = compute(seed=seed)
    s.queue.submit(*write32(s.out.address, 1))
    assert s.queue.finished()
    s.out.region.write32(0, 0)
    s.queue.ring_doorbell()
    assert not s.c.until(lambda: s.out.region.read32(0), 0.02)
    assert not faults(s.host)


@pytest.mark.row("SIM-03")
@pytest.mark.parametrize("seed", [None, 1])
def test_words_without_a_doorbell_are_not_run(compute, seed):
    s = compute(seed=seed)
    s.queue.put(write32(s.out.address, 1))
    s.queue.pointers.write64(8, s.queue.written)
    assert not s.c.until(lambda: s.out.region.read32(0), 0.02)


@pytest.mark.row("SIM-03")
@pytest.mark.parametrize("seed", [None, 1])
def test_a_recycled_doorbell_neither_loses_nor_repeats_work(compute, seed):
    s = compute(seed=seed)
    s.queue.destroy()
    for value in range(1, 6):
        queue = s.c.queue()
        queue.submit(*write32(s.out.address, value))
        assert queue.finished()
        assert s.out.region.read32(0) == value
        queue.destroy()


@pytest.mark.refusal
def test_a_doorbell_ahead_of_the_write_pointer_is_refused(compute):
    s = compute()
    s.queue.put(write32(s.out.address, 1))
    s.queue.doorbell.write64(0, s.queue.written)
    assert s.c.until(lambda: bool(s.host.faults))
    assert "doorbell says 0x5, but the write pointer in memory only 0x0" in faults(s.host)[0]


@pytest.mark.refusal
def test_more_than_the_ring_holds_is_refused(compute):
    s = compute()
    s.queue.written = 5000
    s.queue.ring_doorbell()
    assert s.c.until(lambda: bool(s.host.faults))
    assert "in a ring of 0x2000" in faults(s.host)[0]


@pytest.mark.row("SIM-03")
@pytest.mark.refusal
@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([0xC0009900, 0], "PM4 opcode 0x99 is not simulated: header 0xc0009900"),
        ([0xC0002300, 0], "PM4 PRED_EXEC is not simulated"),
        ([0x00000000, 0], "PM4 packet type 0 is not known"),
        ([0xC0064901, *[0] * 7], "predication is not simulated"),
        ([0xC0017600, 0x01FF, 0], "SET_SH_REG: register 0x2dff is not simulated"),
        ([0xC0017600, 0x30000212, 0], "SET_SH_REG index 3"),
        ([0xC0064900, 0x0020052F, *[0] * 6], "RELEASE_MEM event_type 47 is not simulated"),
        ([0xC0064900, 0x00200628, *[0] * 6], "RELEASE_MEM event_index 6"),
        ([0xC0064900, 0x00200528, 0x80000000, *[0] * 5], "RELEASE_MEM data_sel 4"),
        ([0xC0064900, 0x40200528, *[0] * 6], "RELEASE_MEM_EVENT: unknown bits 0x40000000"),
        ([0xC0053C00, 0x03, 0, 0, 0, 0, 4], "WAIT_REG_MEM of register 0x0"),
        ([0xC0053C00, 0x53, 0, 0, 0, 0, 4], "WAIT_REG_MEM operation 1"),
        ([0xC0033700, 0x00100000, 0, 0, 1], "WRITE_DATA dst_sel 0"),
        ([0xC0044000, 0x00100204, 0, 0, 0, 0], "COPY_DATA src_sel 4"),
        ([0xC0004600, 0x00000035], "EVENT_WRITE event_type 53"),
        ([0xC0004600, 0x00000007], "EVENT_WRITE event_index 0"),
        ([0xC0055800, *[0] * 6], "PM4 ACQUIRE_MEM has 6 words after its header, not 7"),
        ([0xC0065800, *[0] * 6, 0x80000], "ACQUIRE_MEM_GCR_CNTL: unknown bits 0x80000"),
        ([0xC0023F00, 0x1000, 0, 5], "INDIRECT_BUFFER without its valid bit"),
        ([0xC0023F00, 0x1002, 0, 0x00800005], "not aligned to a word"),
    ],
)
def test_what_is_not_known_is_refused_by_name(compute, words, text):
    assert text in refused(compute(), *words)


@pytest.mark.row("SIM-03")
@pytest.mark.refusal
def test_an_unknown_packet_stops_the_queue_with_the_read_pointer_on_it(compute):
    s = compute()
    text = refused(s, NOP_ONE, 0xC0009900, 0, *write32(s.out.address, 1))
    assert "compute0 at ring+0x4 (words c0009900 00000000 c0033700" in text
    assert s.queue.read == 1
    assert s.out.region.read32(0) == 0


@pytest.mark.row("SIM-11")
def test_the_text_of_an_error_lies_in_the_device_core_dump(compute):
    s = compute()
    path = "/sys/class/drm/renderD128/device/devcoredump/data"
    assert not s.host.exists(path)
    refused(s, 0xC0009900, 0)
    assert b"PM4 opcode 0x99" in s.host.read(path)


@pytest.mark.refusal
def test_a_truncated_packet_at_the_end_of_an_indirect_buffer_is_refused(compute):
    s = compute()
    buffer = s.c.memory(4096)
    buffer.region.write32(0, 0xC0064900)
    text = refused(s, 0xC0023F00, low(buffer.address), high(buffer.address), 0x00800001)
    assert "a packet of 8 words, but the indirect buffer ends after 1" in text


@pytest.mark.row("SIM-06")
@pytest.mark.parametrize("seed", [None, 1])
def test_a_bad_address_becomes_a_memory_exception(compute, seed):
    s = compute(seed=seed)
    event = s.c.event(s.c.event_page(), kfd.EVENT_MEMORY)
    s.queue.submit(*write32(0x10_0000_5008, 1))
    result, data = s.c.wait_events(event)
    told = data[0].memory_exception_data
    assert result == kfd.WAIT_RESULT_COMPLETE
    assert (told.failure.NotPresent, told.failure.ReadOnly, told.failure.NoExecute) == (1, 0, 0)
    assert (told.va, told.gpu_id) == (0x10_0000_5000, s.c.gpu_id)


def test_a_store_to_read_only_memory_says_so(compute):
    s = compute()
    event = s.c.event(s.c.event_page(), kfd.EVENT_MEMORY)
    made = s.c.allocate(4096, kfd.ALLOC_GTT)
    s.c.map(made.handle)
    s.queue.submit(*write32(made.va_addr, 1))
    told = s.c.wait_events(event)[1][0].memory_exception_data
    assert (told.failure.NotPresent, told.failure.ReadOnly) == (0, 1)


def test_nothing_runs_after_a_fault(compute):
    s = compute()
    other = s.c.queue()
    s.queue.submit(*write32(0x10_0000_5008, 1))
    assert s.c.until(lambda: bool(s.host.faults))
    other.submit(*write32(s.out.address, 1))
    assert not s.c.until(lambda: s.out.region.read32(0), 0.01)


def test_a_free_running_machine_is_quiet_after_a_fault(compute):
    s = compute(seed=None)
    s.queue.submit(*write32(0x10_0000_5008, 1))
    assert s.c.until(lambda: bool(s.host.faults))
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.2


def test_memory_freed_by_the_host_faults_instead_of_crashing(compute):
    s = compute()
    page = s.c.memory(4096)
    s.c.unmap(page.handle)
    s.c.call(kfd.FREE_MEMORY_OF_GPU, handle=page.handle)
    s.host.munmap(page.region)
    s.queue.submit(*write32(page.address, 1))
    assert s.c.until(lambda: bool(s.host.faults))
    assert "not-present" in faults(s.host)[0]


def test_a_reset_sets_hardware_exceptions_and_loses_memory(compute):
    s = compute()
    page = s.c.event_page()
    hardware, memory = s.c.event(page, kfd.EVENT_HW_EXCEPTION), s.c.event(page, kfd.EVENT_MEMORY)
    s.host.reset_gpu(0)
    told = s.c.wait_events(hardware)[1][0].hw_exception_data
    assert (told.reset_type, told.reset_cause, told.memory_lost) == (0, 0, 1)
    assert s.c.wait_events(memory, timeout=0)[0] == kfd.WAIT_RESULT_TIMEOUT


def test_an_ecc_reset_sets_memory_exceptions_too(compute):
    s = compute()
    page = s.c.event_page()
    hardware, memory = s.c.event(page, kfd.EVENT_HW_EXCEPTION), s.c.event(page, kfd.EVENT_MEMORY)
    s.host.reset_gpu(0, "ecc")
    assert s.c.wait_events(hardware)[1][0].hw_exception_data.reset_cause == 1
    assert s.c.wait_events(memory)[1][0].memory_exception_data.ErrorType == 1


def test_a_queue_without_percentage_does_not_run(compute):
    s = compute()
    fields = {"ring_base_address": s.queue.ring.address, "ring_size": 8192}
    s.c.call(kfd.UPDATE_QUEUE, queue_id=s.queue.id, queue_percentage=0, **fields)
    s.queue.submit(*write32(s.out.address, 1))
    assert not s.c.until(lambda: s.out.region.read32(0), 0.01)
    s.c.call(kfd.UPDATE_QUEUE, queue_id=s.queue.id, queue_percentage=100, **fields)
    assert s.queue.finished()


@pytest.mark.row("SIM-06")
@pytest.mark.parametrize("seed", [None, 1])
def test_evicted_queues_go_on_later(compute, seed):
    s = compute(seed=seed)
    s.host.evict(0.05)
    s.queue.submit(*write32(s.out.address, 1))
    start = s.host.now()
    assert s.queue.finished()
    assert s.host.now() - start >= 0.03


@pytest.mark.parametrize("seed", [None, 1])
def test_held_queues_stand_still(compute, seed):
    s = compute(seed=seed)
    s.host.hold()
    s.queue.submit(*write32(s.out.address, 1))
    assert not s.c.until(lambda: s.out.region.read32(0), 0.02)
    s.host.release_held()
    assert s.queue.finished()


def test_destroying_a_queue_that_waits_for_ever_returns(compute):
    s = compute(seed=None)
    at = s.out.address
    s.queue.submit(0xC0053C00, 0x00000013, low(at), high(at), 7, 0xFFFFFFFF, 4)
    started = time.monotonic()
    s.queue.destroy()
    assert time.monotonic() - started < 1
