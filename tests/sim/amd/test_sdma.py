from types import SimpleNamespace

import pytest

from hcq.ioctl_defs import kfd

SDMA = kfd.QUEUE_TYPE_SDMA


def low(address):
    return address & 0xFFFFFFFF


def high(address):
    return address >> 32


def copy(destination, source, size, header=1):
    return [header, size - 1, 0, low(source), high(source), low(destination), high(destination)]


def fence(address, value):
    return [5 | 3 << 16, low(address), high(address), value]


@pytest.fixture
def copier(client):
    """A copy queue and two visible buffers."""

    def make(**options):
        c = client(**({"seed": 1} | options))
        a, b = c.memory(1 << 20), c.memory(1 << 20)
        a.region.write(0, bytes(range(256)) * 4096)
        b.region.write(0, bytes(1 << 20))
        return SimpleNamespace(c=c, queue=c.queue(SDMA, ring_size=4096), a=a, b=b, host=c.host)

    return make


def refused(setup, *words):
    setup.queue.submit(*words)
    assert setup.c.until(lambda: bool(setup.host.faults))
    return setup.host.faults[-1].text


@pytest.mark.row("SIM-04")
@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("size", [1, 3, 4096, 4097, 1 << 20])
def test_a_linear_copy_copies_exactly_its_bytes(copier, size, seed):
    s = copier(seed=seed)
    s.queue.submit(*copy(s.b.address, s.a.address, size))
    assert s.queue.finished()
    assert s.b.region.read(0, size) == (bytes(range(256)) * 4096)[:size]
    assert s.b.region.read(size, 1) == b"\0" if size < 1 << 20 else True
    assert s.host.stats["sdma_bytes"] == size


def test_positions_of_a_copy_queue_count_bytes(copier):
    s = copier()
    s.queue.submit(*copy(s.b.address, s.a.address, 4))
    assert s.queue.finished()
    assert s.queue.read == 28


def test_a_copy_upwards_into_itself_repeats_its_start(copier):
    s = copier()
    s.queue.submit(*copy(s.a.address + 3, s.a.address, 9))
    assert s.queue.finished()
    assert list(s.a.region.read(0, 13)) == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 13 - 1]


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(("size", "distance"), [(1, 1), (23, 1), (24, 3), (1000, 7), (99, 50)])
def test_a_copy_into_itself_goes_byte_by_byte(copier, size, distance, backwards):
    s = copier()
    expected = [byte % 256 for byte in range(2000)]
    low, high = 500, 500 + distance
    to, source = (low, high) if backwards else (high, low)
    for at in reversed(range(size)) if backwards else range(size):
        expected[to + at] = expected[source + at]
    start, header = s.a.address, 1 | backwards << 25
    s.queue.submit(*copy(start + to, start + source, size, header=header))
    assert s.queue.finished()
    assert list(s.a.region.read(0, 2000)) == expected


def test_a_long_copy_into_itself_is_soon_done(copier):
    s = copier(seed=None)
    s.a.region.write(0, b"x")
    size = (1 << 20) - 1  # one byte at a time this would be a million copies
    for _ in range(40):
        s.queue.put(copy(s.a.address + 1, s.a.address, size))
    s.queue.ring_doorbell()
    assert s.queue.finished()
    assert s.a.region.read(0, 1 << 20) == b"x" * (1 << 20)


def test_a_backward_copy_upwards_into_itself_is_right(copier):
    s = copier()
    s.queue.submit(*copy(s.a.address + 3, s.a.address, 9, header=1 | 1 << 25))
    assert s.queue.finished()
    assert list(s.a.region.read(0, 13)) == [0, 1, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8, 12]


def test_write_stores_its_words(copier):
    s = copier()
    s.queue.submit(2, low(s.b.address), high(s.b.address), 2, 7, 8, 9)
    assert s.queue.finished()
    assert [s.b.region.read32(4 * i) for i in range(4)] == [7, 8, 9, 0]


def test_fill_of_words(copier):
    s = copier()
    s.queue.submit(11 | 2 << 30, low(s.b.address), high(s.b.address), 0x01020304, 8)
    assert s.queue.finished()
    assert s.b.region.read(0, 13) == b"\x04\x03\x02\x01" * 3 + b"\0"


def test_fill_of_bytes(copier):
    s = copier()
    s.queue.submit(11, low(s.b.address), high(s.b.address), 0x0102FF04, 4)
    assert s.queue.finished()
    assert s.b.region.read(0, 6) == b"\x04\x04\x04\x04\x04\0"


def test_a_fence_writes_32_bits(copier):
    s = copier()
    s.queue.submit(*fence(s.a.address, 0x55))
    assert s.queue.finished()
    assert s.a.region.read64(0) == 0x07060504_00000055


@pytest.mark.row("SIM-03")
@pytest.mark.parametrize("seed", [None, 1])
def test_a_poll_holds_the_queue_until_memory_changes(copier, seed):
    s = copier(seed=seed)
    at = s.b.address
    poll = [8 | 5 << 28 | 1 << 31, low(at), high(at), 3, 0xFFFFFFFF, 0xFFF000A]
    s.queue.submit(*poll, *fence(at + 8, 1))
    assert not s.c.until(lambda: s.b.region.read32(8), 0.02)
    s.b.region.write32(0, 4)
    assert s.queue.finished()
    assert s.b.region.read32(8) == 1


def test_a_trap_sets_the_event_of_a_written_slot(copier):
    s = copier()
    page = s.c.event_page()
    event = s.c.event(page)
    s.queue.submit(*fence(page.address + 8 * event, event), 6, event)
    assert s.c.wait_events(event)[0] == kfd.WAIT_RESULT_COMPLETE


def test_a_timestamp_is_the_gpu_clock(copier):
    s = copier()
    before = s.c.call(kfd.GET_CLOCK_COUNTERS, gpu_id=s.c.gpu_id).gpu_clock_counter
    s.queue.submit(13 | 2 << 8, low(s.b.address), high(s.b.address))
    assert s.queue.finished()
    after = s.c.call(kfd.GET_CLOCK_COUNTERS, gpu_id=s.c.gpu_id).gpu_clock_counter
    assert before <= s.b.region.read64(0) <= after


def test_an_atomic_adds_64_bits(copier):
    s = copier()
    s.b.region.write64(0, 1)
    ones = 0xFFFFFFFF
    s.queue.submit(10 | 47 << 25, low(s.b.address), high(s.b.address), ones, ones, 0, 0, 0)
    assert s.queue.finished()
    assert s.b.region.read64(0) == 0


def test_an_indirect_buffer_ends_on_a_boundary_of_eight_words(copier):
    s = copier()
    for index, word in enumerate(fence(s.a.address, 0x77)):
        s.b.region.write32(4 * index, word)
    s.queue.submit(0, 0, 4, low(s.b.address), high(s.b.address), 4, 0, 0)
    assert s.queue.finished()
    assert s.a.region.read32(0) == 0x77


@pytest.mark.parametrize("words", [[0], [0x00030000, 1, 2, 3]])
def test_nops_skip_what_they_say(copier, words):
    s = copier()
    s.queue.submit(*words, *fence(s.a.address, 0x77))
    assert s.queue.finished()
    assert s.a.region.read32(0) == 0x77


def test_a_cache_request_is_read_and_has_no_effect(copier):
    s = copier()
    s.queue.submit(17 | 1 << 8, 0, 0xC180 << 16, 0, 0)
    assert s.queue.finished()


def test_a_ring_is_used_around_its_end(copier):
    s = copier()
    for value in range(300):  # 16 bytes each in a ring of 4096
        s.queue.submit(*fence(s.a.address, value))
        assert s.queue.finished()
    assert s.a.region.read32(0) == 299


@pytest.mark.row("SIM-03")
@pytest.mark.refusal
@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([0x99], "SDMA operation 0x99 sub-operation 0 is not simulated"),
        ([7], "SDMA SEM sub-operation 0"),
        ([1 | 4 << 8, *[0] * 6], "SDMA COPY sub-operation 4"),
        ([1 | 1 << 27, *[0] * 6], "SDMA broadcast 1 is not simulated"),
        ([1 | 1 << 17, *[0] * 6], "unknown bits 0x20000"),
        ([1, 1 << 30, *[0] * 5], "SDMA_COPY_LINEAR_COUNT: unknown bits 0x40000000"),
        ([11 | 1 << 30, *[0] * 4], "SDMA fillsize 1 is not simulated"),
        ([8 | 3 << 28, 0, 0, 0, 0, 0xFFF0000], "POLL_REGMEM of register 0x0"),
        ([8 | 3 << 28 | 1 << 31, 0, 0, 0, 0, 5], "retry_count 0x0 is not simulated"),
        ([10 | 48 << 25, *[0] * 7], "SDMA ATOMIC atomic_op 48 is not simulated"),
        ([4, 0, 0, 4, 0, 0], "INDIRECT ends at 0x18, not on a boundary of 8 words"),
        ([0, 0, 4, 16, 1, 4, 0, 0], "base 0x100000010 is not aligned to 32 bytes"),
    ],
)
def test_what_is_not_known_is_refused_by_name(copier, words, text):
    assert text in refused(copier(), *words)


@pytest.mark.refusal
def test_a_packet_across_the_ring_end_is_refused(copier):
    s = copier()
    s.queue.submit(*[0] * 1022)
    assert s.queue.finished()
    assert "FENCE crosses the end of the ring" in refused(s, *fence(s.a.address, 1))


@pytest.mark.row("SIM-06")
def test_a_copy_from_nowhere_is_a_memory_exception(copier):
    s = copier()
    event = s.c.event(s.c.event_page(), kfd.EVENT_MEMORY)
    s.queue.submit(*copy(s.b.address, 0x1000, 64))
    told = s.c.wait_events(event)[1][0].memory_exception_data
    assert (told.failure.NotPresent, told.va) == (1, 0x1000)


@pytest.mark.row("SIM-03")
def test_a_copy_that_faults_writes_nothing(copier):
    s = copier()
    s.queue.submit(*copy(s.b.address + (1 << 20) - 4, s.a.address, 4096))
    assert s.c.until(lambda: bool(s.host.faults))
    assert s.b.region.read32((1 << 20) - 4) == 0
