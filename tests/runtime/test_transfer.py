import pytest

from hcq.errors import Unsupported
from runtime.buffer import Buffer, HostBytes
from runtime.transfer import CHUNK, transfer


@pytest.fixture
def pair(uint8):
    """A source with known bytes and a target, on two devices."""

    def make(source, target, size=5):
        data = bytes(i % 251 for i in range(size))
        return Buffer(source, size, uint8).copy_in(data), Buffer(target, size, uint8), data

    return make


@pytest.mark.row("EXE-05")
def test_one_backend_copies_directly(pair):
    source, target, data = pair("CPU", "CPU")
    assert transfer(target, source) == "direct"
    assert target.copy_out() == data


@pytest.mark.row("EXE-05")
def test_target_with_a_host_view_is_written_in_place(fake, pair):
    source, target, data = pair("FAKE", "CPU")
    assert transfer(target, source) == "target view"
    assert target.copy_out() == data
    assert ("copy_out", 5) in fake().log


@pytest.mark.row("EXE-05")
def test_source_with_a_host_view_is_read_in_place(fake, pair):
    source, target, data = pair("CPU", "FAKE")
    assert transfer(target, source) == "source view"
    assert target.copy_out() == data


@pytest.mark.row("EXE-05")
@pytest.mark.parametrize("size", [1, CHUNK, CHUNK + 1, 2 * CHUNK + 7])
def test_devices_without_views_copy_through_the_host_in_chunks(fake, pair, size):
    source, target, data = pair("FAKE:1", "FAKE:2", size)
    assert transfer(target, source) == "staged"
    assert target.copy_out() == data
    most = max(entry[1] for entry in fake(2).log if entry[0] == "copy_in")
    assert most <= CHUNK


def test_bytes_of_the_process_take_part(uint8):
    target = bytearray(3)
    assert transfer(HostBytes(target), HostBytes(b"abc")) == "target view"
    assert bytes(target) == b"abc"


def test_nothing_to_copy_asks_no_device(fake, uint8):
    assert transfer(Buffer("FAKE", 0, uint8), Buffer("CPU", 0, uint8)) == "empty"
    assert fake().log == []


def test_views_copy_at_their_offsets(fake, uint8):
    source = Buffer("CPU", 6, uint8).copy_in(b"abcdef")
    target = Buffer("FAKE", 6, uint8).copy_in(b"......")
    transfer(target.view(2, uint8, 3), source.view(2, uint8, 1))
    assert bytes(target.copy_out()) == b"...bc."


def test_ranges_of_one_buffer_may_overlap(uint8):
    buffer = Buffer("CPU", 6, uint8).copy_in(b"abcdef")
    transfer(buffer.view(5, uint8, 1), buffer.view(5, uint8, 0))
    assert bytes(buffer.copy_out()) == b"aabcde"


@pytest.mark.row("ALC-02")
@pytest.mark.refusal
def test_copy_to_a_device_that_cannot_take_any_is_unsupported(
    fake, fake_backend, uint8, monkeypatch
):
    monkeypatch.setattr(fake_backend, "copy_in", None)
    with pytest.raises(Unsupported, match="FAKE:0 has no operation 'copy_in'"):
        Buffer("FAKE", 3, uint8).copy_in(b"abc")
