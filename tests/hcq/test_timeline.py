"""Cells, their pool, and the timeline's payloads around 2**31, 2**32 and 2**64."""

import pytest

from hcq.errors import BufferUseError, FieldError, QueueError
from hcq.timeline import Signal, SignalPool, Timeline


class Page:
    """A region of plain bytes."""

    def __init__(self, size=64):
        self.bytes = bytearray(size)
        self.size = size

    def read64(self, at):
        if at + 8 > self.size:
            raise BufferUseError("outside")
        return int.from_bytes(self.bytes[at : at + 8], "little")

    def write64(self, at, value):
        self.bytes[at : at + 8] = value.to_bytes(8, "little")

    def window(self, offset, size):
        part = Page(size)
        part.bytes = memoryview(self.bytes)[offset : offset + size]
        return part


def pool(pages=None):
    pages = [] if pages is None else pages

    def grow():
        pages.append(Page())
        return 0x1000 * len(pages), pages[-1]

    return SignalPool(grow)


@pytest.mark.row("HCQ-05")
def test_a_signal_is_sixteen_bytes_value_then_time():
    page = Page(16)
    signal = Signal(0x5000, page)
    page.write64(0, 9)
    page.write64(8, 77)
    assert (signal.address, signal.value, signal.time) == (0x5000, 9, 77)


@pytest.mark.row("HCQ-06")
def test_pool_grows_by_pages_and_cells_do_not_overlap():
    signals = pool()
    cells = [signals.take().address for _ in range(6)]
    assert cells == [0x1000, 0x1010, 0x1020, 0x1030, 0x2000, 0x2010]


@pytest.mark.row("HCQ-06")
def test_a_returned_signal_is_reset_before_it_is_given_again():
    pages = []
    signals = pool(pages)
    first = signals.take()
    first.reset(41)
    signals.give(first)
    again = signals.take()
    assert (again.address, again.value) == (first.address, 0)


@pytest.mark.row("HCQ-06")
@pytest.mark.refusal
def test_a_signal_cannot_be_given_back_twice():
    signals = pool()
    cell = signals.take()
    signals.give(cell)
    with pytest.raises(QueueError, match="already given back"):
        signals.give(cell)


@pytest.mark.row("HCQ-12")
@pytest.mark.parametrize(
    ("address", "text"),
    [
        (0x1000, "signal cell 0x1000 (16 bytes), offset 0"),
        (0x1018, "signal cell 0x1010 (16 bytes), in no use, offset 8"),
        (0x0FFF, None),
        (0x1040, None),  # the page of the test ends here
    ],
)
def test_an_address_in_a_page_of_signals_is_told_as_the_cell_there(address, text):
    signals = pool()
    signals.take()
    assert signals.describe(address) == text


@pytest.mark.refusal
@pytest.mark.parametrize("value", ["5", None, 1.5])
def test_a_signal_is_set_to_whole_numbers_only(value):
    cell = pool().take()
    with pytest.raises(FieldError, match="a signal's value is a whole number, not"):
        cell.reset(value)


def timeline(start=0):
    signals = pool()
    return Timeline(signals.take(), signals.take(), start)


def submit(line):
    """One submission that finishes at once."""
    if line.must_turn:
        line.turn()
    value = line.following
    line.submitted = value
    line.cell.reset(line.payload(value))
    return value


@pytest.mark.row("HCQ-07")
def test_values_count_from_one():
    line = timeline()
    assert [submit(line) for _ in range(3)] == [1, 2, 3]
    assert line.is_done(3)
    assert not line.is_done(4)


@pytest.mark.row("HCQ-08")
@pytest.mark.parametrize("limit", [1 << 31, 1 << 32, 1 << 64])
def test_payloads_stay_below_32_bits_and_values_keep_growing(limit):
    line = timeline(limit - 3)
    values = [submit(line) for _ in range(6)]
    assert values == sorted(set(values))
    assert values[-1] > limit
    assert all(0 < line.payload(value) < 1 << 32 for value in values)
    assert all(line.is_done(value) for value in values)


@pytest.mark.row("HCQ-08")
def test_the_turn_goes_to_the_other_cell():
    line = timeline((1 << 32) - 2)
    first = line.cell.address
    assert submit(line) == (1 << 32) - 1
    assert line.must_turn
    assert submit(line) == (1 << 32) + 1
    assert line.cell.address != first
    assert line.cell.value == 1


@pytest.mark.row("HCQ-08")
@pytest.mark.refusal
def test_a_value_across_the_limit_is_refused_before_the_turn():
    line = timeline((1 << 32) - 1)
    with pytest.raises(QueueError, match="drained and turned"):
        _ = line.following
