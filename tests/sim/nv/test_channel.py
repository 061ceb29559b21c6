"""Simulated channels: ring, pushbuffer headers, host methods. Literal words from clc56f.h."""

import pytest

from hcq.errors import SimFault
from sim.nv import pushbuffer

# A release without time of a 32-bit payload, and one of 64 bits with it.
RELEASE, RELEASE_64, RELEASE_TIME, WFI = 0x1, 0x0100_0001, 0x0300_0001, 0x0010_0000


def semaphore(address, payload, execute):
    return (
        0x2005_0017, address & 0xFFFFFFFF, address >> 32, payload & 0xFFFFFFFF, payload >> 32,
        execute,
    )  # fmt: skip


def faulted(channel):
    """(number in the notifier, what the machine noted)."""
    number = channel.failed()
    return number, channel.client.host.faults[-1].text


@pytest.fixture(params=[None, 4], ids=["free-running", "seeded"])
def channel(client, request):
    return client(seed=request.param).channel()


@pytest.fixture
def cell(channel):
    return channel.client.buffer()


# Ring and doorbell.


@pytest.mark.row("SIM-05")
def test_nothing_runs_before_the_doorbell(channel, cell):
    channel.segment(*semaphore(cell.address, 7, RELEASE))
    assert not channel.client.until(lambda: cell.region.read32(0), turns=30)
    channel.ring()
    assert channel.finished()
    assert cell.region.read32(0) == 7


@pytest.mark.row("SIM-03")
def test_a_doorbell_without_new_work_does_nothing(channel, cell):
    channel.submit(*semaphore(cell.address, 7, RELEASE))
    assert channel.finished()
    cell.region.write32(0, 0)
    channel.ring()
    channel.client.until(lambda: False, turns=20)
    assert (channel.get, cell.region.read32(0), channel.error) == (1, 0, None)


@pytest.mark.refusal
@pytest.mark.row("SIM-03")
def test_a_doorbell_with_a_token_of_nobody_is_noted_and_starts_nothing(channel, cell):
    channel.segment(*semaphore(cell.address, 7, RELEASE)).ring(0x3FF)
    faults = channel.client.host.faults
    assert channel.client.until(lambda: faults)
    assert "no channel has the token 0x3ff" in faults[0].text
    assert cell.region.read32(0) == 0


@pytest.mark.parametrize(("gpu", "bit"), [("sm_90", 0), ("sm_120", 1)])
def test_tokens_name_channel_and_runlist(client, gpu, bit):
    assert client(gpu=gpu).channel().token == bit << 30 | 1


def test_the_token_is_repeated_in_the_notifier(channel):
    assert channel.notifier.region.read32(16 + 8) == channel.token


def test_the_ring_wraps(channel, cell):
    for count in range(2 * channel.ENTRIES):
        channel.written = 0
        channel.submit(*semaphore(cell.address, count, RELEASE))
        assert channel.finished()
        assert cell.region.read32(0) == count


def test_a_held_gpu_stands_still(channel, cell):
    host = channel.client.host
    host.hold()
    channel.submit(*semaphore(cell.address, 7, RELEASE))
    assert not channel.client.until(lambda: cell.region.read32(0), turns=20)
    host.release_held()
    assert channel.finished()


@pytest.mark.row("SIM-03")
def test_an_unscheduled_channel_does_not_run(client):
    mine = client()
    channel, cell = mine.channel(schedule=False), mine.buffer()
    channel.submit(*semaphore(cell.address, 7, RELEASE))
    assert not mine.until(lambda: cell.region.read32(0), turns=20)
    channel.schedule()
    assert channel.finished()


@pytest.mark.refusal
def test_a_put_index_beyond_the_ring(channel):
    channel.memory.region.write32(0x8000 + 0x8C, 64)
    channel.ring()
    assert faulted(channel) == (32, "channel1: GPPut 0x40 in a ring of 0x40 entries")


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("word", "text"),
    [
        (1, "conditional fetch"),
        (1 << 40, "unknown bits 0x10000000000"),
    ],
)
def test_bad_bits_of_a_ring_entry(channel, word, text):
    channel.entry(channel.push.address | 4 << 42 | word).ring()
    number, found = faulted(channel)
    assert number == 32
    assert text in found


@pytest.mark.refusal
@pytest.mark.parametrize(("opcode", "fine"), [(0, True), (1, False), (2, False), (9, False)])
def test_control_entries(channel, opcode, fine):
    channel.entry(opcode << 32).ring()
    if fine:
        assert channel.finished()
        return
    number, text = faulted(channel)
    assert number == 32
    assert f"control opcode {opcode} is not simulated" in text


def test_hopper_has_pushbuffers_above_40_bits(client):
    assert pushbuffer.entry(4 << 32 | 0x000100, wide=True).operand == 1 << 40
    with pytest.raises(SimFault, match="opcode 4"):
        pushbuffer.entry(4 << 32 | 0x000100, wide=False)


@pytest.mark.row("SIM-06")
def test_a_pushbuffer_that_is_not_mapped_is_an_mmu_fault(channel):
    channel.entry(0x10_0000 | 1 << 41 | 4 << 42).ring()
    number, text = faulted(channel)
    assert number == 31
    assert "channel1 at ring entry 0: read of 0x100000: page is not-present: FAULT_PDE" in text


# Method headers.


def test_incrementing_words_go_to_methods_in_order():
    method = pushbuffer.header(0x2002_0017, 2)
    assert (method.subchannel, method.offset, method.left) == (0, 0x5C, 2)
    method.advance(1)
    assert (method.offset, method.left) == (0x60, 1)


def test_the_other_forms_of_headers():
    fixed = pushbuffer.header(0x6002_206D, 2)
    fixed.advance(1)
    assert (fixed.subchannel, fixed.offset, fixed.left) == (1, 0x1B4, 1)
    once = pushbuffer.header(0xA003_0040, 3)
    once.advance(1)
    once.advance(1)
    assert (once.offset, once.left) == (0x104, 1)
    immediate = pushbuffer.header(0x9234_2040, 0)
    assert (immediate.immediate, immediate.offset) == (0x1234, 0x100)
    old = pushbuffer.header(2 << 18 | 1 << 13 | 0x100, 2)
    old.advance(1)
    assert (old.subchannel, old.offset, old.left) == (1, 0x104, 1)
    old_fixed = pushbuffer.header(2 << 29 | 2 << 18 | 0x100, 2)
    old_fixed.advance(1)
    assert (old_fixed.offset, old_fixed.left) == (0x100, 1)
    assert pushbuffer.header(0xE000_0000, 5).ends
    assert pushbuffer.header(0, 5).left == 0


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("word", "text"),
    [
        (0xC000_0000, "operation 6 is not known"),
        (0x0001_0000, "subdevice mask 1 is not simulated"),
        (0x2006_0017, "6 words, but 5 are left"),
    ],
)
def test_bad_headers(word, text):
    with pytest.raises(SimFault, match=text):
        pushbuffer.header(word, 5)


def test_nothing_follows_the_end_of_a_segment(channel, cell):
    channel.submit(0xE000_0000, *semaphore(cell.address, 7, RELEASE))
    assert channel.finished()
    assert cell.region.read32(0) == 0


@pytest.mark.refusal
@pytest.mark.row("SIM-03")
def test_an_unknown_host_method_stops_the_channel(channel, cell):
    channel.submit(0x2001_0010, 1, *semaphore(cell.address, 7, RELEASE))
    number, text = faulted(channel)
    assert number == 32
    assert "host method 0x0040 is not simulated" in text
    assert "pushbuffer" in text
    assert "(words 20010010 00000001 " in text
    assert (channel.get, cell.region.read32(0)) == (0, 0)


# Semaphores.


@pytest.mark.row("SIM-05")
def test_releases_write_as_much_as_they_say(channel, cell):
    cell.region.write(0, b"\xff" * 48)
    channel.submit(
        *semaphore(cell.address, 1, RELEASE), *semaphore(cell.address + 8, 2 << 32, RELEASE_64),
        *semaphore(cell.address + 16, 3, RELEASE_TIME | WFI), *semaphore(cell.address + 32, 4,
                                                                        0x0200_0001),
    )  # fmt: skip
    assert channel.finished()
    words = [cell.region.read64(offset) for offset in (0, 8, 16, 32)]
    assert words == [0xFFFFFFFF_00000001, 2 << 32, 3, 4]
    assert 0 < cell.region.read64(24) <= channel.page.read64(0x80)


@pytest.mark.row("SIM-05")
@pytest.mark.parametrize(
    ("execute", "payload", "blocked", "passing"),
    [
        (0, 5, 6, 5),  # equal
        (2, 5, 4, 6),  # strict
        (3, 5, 4, 6),  # circular
        (3, 0xFFFFFFF0, 0xFFFFFFEF, 2),  # across the wrap
        (4, 0b110, 0b001, 0b010),  # and
        (5, 0xFFFF_FFFC, 3, 1),  # nor
        (0x0100_0003, 1 << 40, (1 << 40) - 1, 1 << 41),  # 64 bits
        (0x0100_0003, 2**64 - 1, 2**64 - 2, 1),
    ],
)
def test_an_acquire_waits_for_its_value(channel, cell, execute, payload, blocked, passing):
    cell.region.write64(0, blocked)
    channel.submit(
        *semaphore(cell.address, payload, execute), *semaphore(cell.address + 64, 1, RELEASE)
    )
    assert not channel.client.until(lambda: cell.region.read32(64), turns=20)
    cell.region.write64(0, passing)
    assert channel.finished()
    assert cell.region.read32(64) == 1


@pytest.mark.parametrize(("how", "result"), [(2, 0b0110), (3, 0b1000), (4, 0b1110), (5, 22)])
def test_reductions(channel, cell, how, result):
    cell.region.write32(0, 0b1100)
    channel.submit(*semaphore(cell.address, 0b1010, 6 | how << 27))
    assert channel.finished()
    assert cell.region.read32(0) == result


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("offset", "execute", "text"),
    [
        (4, RELEASE_64, "not aligned to 8 bytes"),
        (8, RELEASE_TIME, "not aligned to 16 bytes"),
        (0, 7, "operation 7 is not known"),
        (0, 0x6, "reduction 0 is not simulated"),
        (0, 0x0000_0011, "unknown bits 0x10"),
    ],
)
def test_bad_semaphores(channel, cell, offset, execute, text):
    channel.submit(*semaphore(cell.address + offset, 0, execute))
    number, found = faulted(channel)
    assert number == 32
    assert text in found


@pytest.mark.refusal
def test_ampere_has_semaphores_of_40_bits(client):
    channel = client(gpu="sm_86").channel()
    channel.submit(*semaphore(1 << 40, 0, RELEASE))
    assert "SEM_ADDR_HI: unknown bits 0x100" in faulted(channel)[1]


@pytest.mark.row("SIM-06")
def test_a_release_to_a_read_only_page(channel):
    cell = channel.client.buffer(kind=3)
    channel.submit(*semaphore(cell.address, 7, RELEASE))
    number, text = faulted(channel)
    assert number == 31
    assert f"write of {cell.address:#x}: page is read-only: FAULT_RO_VIOLATION" in text


@pytest.mark.parametrize(("c", "d", "fine"), [(0, 5, True), (1, 5, True), (0, 0x10, True),
                                              (2, 5, False), (0, 9, False)])  # fmt: skip
def test_memory_operations(channel, c, d, fine):
    channel.submit(0x2004_000A, 0, 0, c, d << 27)
    assert channel.finished() if fine else faulted(channel)[0] == 32


def test_harmless_host_methods(channel):
    channel.submit(0x8001_001E, 0x8000_0020, 0x8000_0008, 0x8000_0002)
    assert channel.finished()


# Two channels.


def test_a_channel_waits_for_another(client):
    mine = client(seed=2)
    first, second, cell = mine.channel(), mine.channel(), mine.buffer()
    second.submit(
        *semaphore(cell.address, 5, 0x0100_0003), *semaphore(cell.address + 64, 1, RELEASE)
    )
    assert not mine.until(lambda: cell.region.read32(64), turns=20)
    first.submit(*semaphore(cell.address, 5, RELEASE_64))
    assert second.finished()


def test_rings_that_overwrite_each_other_reach_both_channels(client):
    mine = client(seed=2)
    first, second, cell = mine.channel(), mine.channel(), mine.buffer()
    first.submit(*semaphore(cell.address, 1, RELEASE))
    second.submit(*semaphore(cell.address + 4, 2, RELEASE))
    assert first.finished()
    assert second.finished()
    assert cell.region.read64(0) == 1 | 2 << 32


@pytest.mark.row("SIM-03")
def test_a_channel_number_that_is_used_again_begins_empty(client):
    mine = client()
    cell = mine.buffer()
    for count in range(5):
        channel = mine.channel()
        channel.submit(*semaphore(cell.address, count, RELEASE))
        assert channel.finished()
        assert cell.region.read32(0) == count
        mine.free(channel.group)
    assert mine.host.nvidia.gpus[0].queues == []


def test_channels_come_and_go_while_they_are_rung(client):
    mine = client()
    cell = mine.buffer()
    for count in range(40):
        channel = mine.channel()
        channel.submit(*semaphore(cell.address, count, RELEASE), 0x2001_0010, 0)
        mine.free(channel.group)
        mine.host.munmap(channel.memory.region)
    assert mine.host.nvidia.gpus[0].queues == []
