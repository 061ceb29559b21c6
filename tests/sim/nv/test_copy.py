"""The simulated copy engine. Literal words from clc8b5.h."""

import pytest

COPY = 0x182  # not pipelined, both pitch
LAYOUT = COPY & ~3


@pytest.fixture(params=["sm_86", "sm_90"])
def channel(client, request):
    made = client(gpu=request.param, seed=6).channel()
    made.segment(0x2001_8000, made.chip.copy_class)
    return made


@pytest.fixture
def buffer(channel):
    return channel.client.buffer(64 << 10)


def places(source, destination):
    return (
        0x2004_8100, source >> 32, source & 0xFFFFFFFF,
        destination >> 32, destination & 0xFFFFFFFF,
    )  # fmt: skip


def size(length, lines=1, pitch_in=0, pitch_out=0):
    return (0x2004_8104, pitch_in, pitch_out, length, lines)


def semaphore(address, payload):
    return (0x2003_8090, address >> 32, address & 0xFFFFFFFF, payload)


def launch(word):
    return (0x2001_80C0, word)


def faulted(channel):
    number = channel.failed()
    return number, channel.client.host.faults[-1].text


@pytest.mark.row("SIM-05")
@pytest.mark.parametrize("length", [1, 3, 4096, 5001])
def test_copies_of_any_size(channel, buffer, length):
    data = bytes(range(256)) * 20
    buffer.region.write(1, data)
    start = buffer.address
    channel.submit(*places(start + 1, start + 0x8003), *size(length), *launch(COPY))
    assert channel.finished()
    assert buffer.region.read(0x8003, length) == data[:length]
    assert buffer.region.read8(0x8003 + length) == 0
    assert channel.client.host.stats["copied_bytes"] == length


def test_copies_of_several_lines(channel, buffer):
    buffer.region.write(0, b"abcdefgh")
    start = buffer.address
    channel.submit(
        *places(start, start + 0x100), *size(2, lines=3, pitch_in=3, pitch_out=4),
        *launch(COPY | 0x200),
    )  # fmt: skip
    assert channel.finished()
    assert buffer.region.read(0x100, 12) == b"ab\0\0de\0\0gh\0\0"


@pytest.mark.row("SIM-05")
@pytest.mark.parametrize(
    ("components", "expected"),
    [
        (0x0000_0004, b"\x44" * 3),  # one byte of A
        (0x0001_0004, b"\x44\x33" * 3),
        (0x0003_0004, b"\x44\x33\x22\x11" * 3),
        (0x0103_0054, b"\x44\x33\x22\x11\x88\x77\x66\x55" * 3),  # A, then B
    ],
)
def test_fills_by_remapping(channel, buffer, components, expected):
    channel.submit(
        0x2003_81C0, 0x11223344, 0x55667788, components, *places(0, buffer.address), *size(3),
        *launch(LAYOUT | 0x400 | 2),
    )  # fmt: skip
    assert channel.finished()
    assert buffer.region.read(0, len(expected) + 1) == expected + b"\0"


def test_a_large_fill(channel):
    buffer = channel.client.buffer(3 << 20)
    channel.submit(
        0x2003_81C0, 0xA5A5A5A5, 0, 0x0003_0004, *places(0, buffer.address),
        *size((3 << 20) // 4 - 1), *launch(LAYOUT | 0x400 | 1),
    )  # fmt: skip
    assert channel.finished()
    assert buffer.region.read((3 << 20) - 8, 8) == b"\xa5" * 4 + b"\0" * 4
    assert buffer.region.read(0, 2 << 20) == b"\xa5" * (2 << 20)


def test_semaphores_of_one_and_of_four_words(channel, buffer):
    buffer.region.write(0, b"\xff" * 32)
    channel.submit(
        *semaphore(buffer.address, 7), *launch(0x8),
        *semaphore(buffer.address + 16, 8), *launch(0x14),
    )  # fmt: skip
    assert channel.finished()
    words = [buffer.region.read64(offset) for offset in (0, 16)]
    assert words == [0xFFFFFFFF_00000007, 8]
    assert 0 < buffer.region.read64(24) < 1 << 62


def test_semaphores_of_two_words_came_with_hopper(client):
    for gpu in ("sm_90", "sm_86"):
        channel = client(gpu=gpu, seed=1).channel()
        cell = channel.client.buffer()
        channel.submit(
            0x2001_8000, channel.chip.copy_class, *semaphore(cell.address, 7),
            0x2001_8093, 9, *launch(0x0800_0010),
        )  # fmt: skip
        if gpu == "sm_90":
            assert channel.finished()
            assert cell.region.read64(0) == 7 | 9 << 32
        else:
            assert faulted(channel)[0] == 39


@pytest.mark.row("SIM-03")
def test_the_semaphore_comes_after_the_data(channel, buffer):
    start = buffer.address
    buffer.region.write32(0, 99)
    channel.submit(
        *places(start, start + 0x100), *size(4), *semaphore(start + 0x200, 1),
        *launch(COPY | 0x14),
    )  # fmt: skip
    assert channel.client.until(lambda: buffer.region.read32(0x200))
    assert buffer.region.read32(0x100) == 99


@pytest.mark.refusal
@pytest.mark.row("SIM-03")
@pytest.mark.parametrize(
    ("word", "text"),
    [
        (0x2, "block-linear"),
        (COPY | 0x1000, "src_type 1 is not simulated"),
        (COPY | 0x18, "semaphore_type 3 is not simulated"),
        (COPY | 1, "data_transfer_type 3 is not simulated"),
        (COPY | 1 << 19, "semaphore_reduction_enable"),
        (COPY | 1 << 30, "unknown bits 0x40000000"),
    ],
)
def test_what_a_launch_refuses(channel, buffer, word, text):
    start = buffer.address
    channel.submit(*places(start, start + 64), *size(16), *semaphore(start, 1), *launch(word))
    number, found = faulted(channel)
    assert number == 39
    assert text in found


@pytest.mark.refusal
def test_a_method_that_was_never_set(channel):
    channel.submit(*launch(COPY))
    assert "LINE_LENGTH_IN is used, but was never set" in faulted(channel)[1]


@pytest.mark.refusal
def test_a_component_from_the_source_is_not_simulated(channel, buffer):
    channel.submit(
        0x2003_81C0, 0, 0, 0, *places(0, buffer.address), *size(3), *launch(LAYOUT | 0x402)
    )
    assert "dst_x 0 is not simulated" in faulted(channel)[1]


@pytest.mark.refusal
@pytest.mark.row("SIM-03")
def test_an_unknown_method_of_the_class(channel):
    channel.submit(0x2001_8200, 1)
    number, text = faulted(channel)
    assert number == 39
    assert "method 0x0800 is not simulated" in text


@pytest.mark.row("SIM-06")
def test_a_copy_beyond_its_memory_writes_nothing(channel, buffer):
    end = buffer.address + buffer.size
    channel.submit(*places(buffer.address, end - 16), *size(32), *launch(COPY))
    number, text = faulted(channel)
    assert number == 31
    assert f"write of {end:#x}" in text
    assert buffer.region.read(buffer.size - 16, 16) == bytes(16)


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("header", "text"),
    [(0x2001_2000, "not served on subchannel 1"), (0x2001_A000, "not served on subchannel 5")],
)
def test_the_class_has_its_subchannel(channel, header, text):
    channel.submit(header, channel.chip.copy_class)
    number, found = faulted(channel)
    assert number == 32
    assert text in found


@pytest.mark.refusal
def test_a_class_needs_its_object(client):
    channel = client(seed=1).channel(copy=False)
    channel.submit(0x2001_8000, channel.chip.copy_class)
    assert "of which the channel has no object" in faulted(channel)[1]


@pytest.mark.refusal
def test_methods_without_a_class(client):
    channel = client(seed=1).channel()
    channel.submit(0x2001_80C0, 0)
    assert "subchannel 4, which has no class" in faulted(channel)[1]


@pytest.mark.refusal
def test_engines_need_a_channel_that_unified_memory_knows(client):
    channel = client(seed=1).channel(span=0)
    channel.submit(0x2001_8000, channel.chip.copy_class, 0x2001_80C0, 0)
    assert "not registered with unified memory" in faulted(channel)[1]
