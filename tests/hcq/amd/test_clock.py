"""GPU ticks and host time."""

import pytest

from hcq.amd.clock import Clock, ClockPair


@pytest.mark.row("AMD-20")
def test_a_tick_is_ten_nanoseconds():
    assert Clock.nanoseconds(100_000_000) == 1e9


@pytest.mark.row("AMD-20")
def test_host_times_follow_the_pair_and_keep_the_order_of_ticks(device):
    clock = Clock(None, 0)
    # Pairs with jitter: read later, a pair would put the host 3 us earlier.
    pairs = iter([ClockPair(1000, 5_000_000), ClockPair(1100, 4_998_000)])
    clock.pair = lambda: next(pairs)
    times = [clock.host_time(ticks) for ticks in (1000, 1001, 1100, 5000)]
    assert times == [5_000_000, 5_000_010, 5_001_000, 5_040_000]


@pytest.mark.row("AMD-20")
def test_timestamps_of_a_queue_never_run_backwards(device):
    stamps = device.allocate(8 * 50, host=True, uncached=True, zero=True)
    for at in range(50):
        kind = "compute" if at % 2 else "copy"
        device.submit(device.queue(kind).timestamp(stamps.address + 8 * at))
    device.synchronize()
    ticks = [stamps.region.read64(8 * at) for at in range(50)]
    assert ticks == sorted(ticks)
    before, after = device.clock.pair(), device.clock.pair()
    assert ticks[-1] <= before.ticks <= after.ticks
    assert device.time(stamps.address, stamps.address + 8) == (ticks[1] - ticks[0]) * 10
