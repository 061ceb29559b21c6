import random

import pytest

from hcq.errors import BufferUseError, IoctlError, OutOfMemory
from hcq.settings import Context
from runtime.allocator import CACHE_FLOOR, BlockInfo
from runtime.backend import MemoryOptions
from runtime.buffer import Buffer
from runtime.counters import GlobalCounters
from runtime.device import Device

MIB = 1 << 20


def calls(backend, name):
    return [entry for entry in backend.log if entry[0] == name]


@pytest.mark.row("ALC-03")
def test_freed_memory_is_reused_without_a_driver_call(fake, uint8):
    first = Buffer("FAKE", 100, uint8).allocate()
    address = first.memory.address
    first.free()
    assert Buffer("FAKE", 100, uint8).allocate().memory.address == address
    assert fake().log == [("allocate", 100)]


@pytest.mark.row("ALC-03")
@pytest.mark.parametrize(
    ("size", "options"), [(101, MemoryOptions()), (100, MemoryOptions(host=True))]
)
def test_other_sizes_and_options_are_not_mixed(fake, uint8, size, options):
    Buffer("FAKE", 100, uint8).allocate().free()
    Buffer("FAKE", size, uint8, options=options).allocate()
    assert calls(fake(), "allocate") == [("allocate", 100), ("allocate", size)]


@pytest.mark.row("ALC-03")
@pytest.mark.parametrize("options", [MemoryOptions(nolru=True), MemoryOptions(zero=True)])
def test_some_options_never_enter_the_cache(fake, uint8, options):
    for _ in range(3):
        Buffer("FAKE", 100, uint8, options=options).allocate().free()
    assert len(calls(fake(), "allocate")) == 3
    assert Device["FAKE"].allocator.statistics.cached == 0


@pytest.mark.row("ALC-03")
def test_external_memory_is_never_freed_or_cached(fake, uint8, fake_backend, monkeypatch):
    Buffer("FAKE", 100, uint8, options=MemoryOptions(external=4096)).allocate().free()
    assert calls(fake(), "free") == []
    assert Device["FAKE"].allocator.statistics.cached == 0


@pytest.mark.row("ALC-03")
def test_lru_0_turns_reuse_off(fake, uint8):
    with Context(LRU=0):
        for _ in range(3):
            Buffer("FAKE", 100, uint8).allocate().free()
    assert len(calls(fake(), "allocate")) == len(calls(fake(), "free")) == 3


@pytest.mark.row("ALC-04")
def test_large_block_is_had_after_small_ones_were_freed(fake, fake_backend, uint8, monkeypatch):
    monkeypatch.setattr(fake_backend, "limit", 64 * MIB)
    for size in range(5, 11):
        Buffer("FAKE", size * MIB, uint8).allocate().free()
    # 45 MiB lie in the cache; 48 more do not fit beside them.
    large = Buffer("FAKE", 48 * MIB, uint8).allocate()
    assert large.is_allocated
    statistics = Device["FAKE"].allocator.statistics
    assert (statistics.live, statistics.cached) == (48 * MIB, 0)
    assert (statistics.retries, statistics.failures) == (1, 0)


@pytest.mark.row("ALC-04")
@pytest.mark.refusal
def test_out_of_memory_says_where_memory_is(fake, fake_backend, uint8, monkeypatch):
    monkeypatch.setattr(fake_backend, "limit", 1000)
    kept = Buffer("FAKE", 600, uint8).allocate()
    Buffer("FAKE", 200, uint8).allocate().free()
    with pytest.raises(OutOfMemory, match="FAKE:0 has no memory for 500 bytes") as caught:
        Buffer("FAKE", 500, uint8).allocate()
    facts = {"step": "fake", "device": "FAKE:0", "asked": 500, "live": 600, "cached": 0}
    assert caught.value.facts == facts
    assert kept.is_allocated
    assert Device["FAKE"].allocator.statistics.failures == 1
    assert GlobalCounters.mem_used == 600


@pytest.mark.row("ALC-04")
@pytest.mark.refusal
def test_retry_happens_once(fake, fake_backend, uint8, monkeypatch):
    monkeypatch.setattr(fake_backend, "limit", 10)
    with pytest.raises(OutOfMemory, match="no memory for 11 bytes"):
        Buffer("FAKE", 11, uint8).allocate()
    assert len(calls(fake(), "allocate")) == 2


@pytest.mark.row("ALC-01")
@pytest.mark.refusal
def test_failure_of_the_driver_is_out_of_memory_with_its_facts(fake, fake_backend, uint8):
    allocate = fake_backend.allocate

    def refuse(self, size, options):
        raise IoctlError("ALLOC: Cannot allocate memory", number=12, facts={"errno": "ENOMEM"})

    fake_backend.allocate = refuse
    try:
        with pytest.raises(OutOfMemory, match="ALLOC: Cannot allocate memory") as caught:
            Buffer("FAKE", 11, uint8).allocate()
    finally:
        fake_backend.allocate = allocate
    assert caught.value.facts["errno"] == "ENOMEM"


@pytest.mark.row("ALC-01")
@pytest.mark.refusal
def test_negative_size_is_refused():
    with pytest.raises(BufferUseError, match="CPU:0 cannot have -4 bytes"):
        Device["CPU"].allocator.allocate(-4)


@pytest.mark.row("ALC-05")
def test_loop_of_equal_steps_stops_allocating(fake, uint8):
    fake()

    def step():
        parts = [Buffer("FAKE", 100 * n, uint8).allocate() for n in range(1, 6)]
        return [Buffer("FAKE", 100, uint8).allocate() for _ in parts]

    kept = step()
    for _ in range(2):
        kept = step()
    before = Device["FAKE"].allocator.statistics
    for _ in range(50):
        kept = step()
    after = Device["FAKE"].allocator.statistics
    assert len(kept) == 5
    assert (after.calls - before.calls, after.reserved - before.reserved) == (0, 0)


@pytest.mark.row("ALC-05")
def test_changing_sizes_never_exceed_the_device(fake, fake_backend, uint8, monkeypatch):
    monkeypatch.setattr(fake_backend, "limit", 64 * MIB)
    sizes = random.Random(5)
    kept = []
    for _ in range(2000):
        kept = [*kept[-3:], Buffer("FAKE", sizes.randrange(1, 8 * MIB), uint8).allocate()]
        assert Device["FAKE"].allocator.statistics.reserved <= 64 * MIB
    assert Device["FAKE"].allocator.statistics.failures == 0


@pytest.mark.row("ALC-05")
def test_cache_is_bounded_where_the_device_is_not(fake, uint8):
    for size in range(1, 40):
        Buffer("FAKE", size * MIB, uint8).allocate().free()
    assert Device["FAKE"].allocator.statistics.cached <= CACHE_FLOOR


@pytest.mark.row("ALC-06")
def test_statistics_equal_a_model(fake, fake_backend, uint8, monkeypatch):
    monkeypatch.setattr(fake_backend, "limit", 1000)
    a = Buffer("FAKE", 300, uint8).allocate()
    b = Buffer("FAKE", 200, uint8).allocate()
    b.free()
    with pytest.raises(OutOfMemory, match="no memory for 900 bytes"):
        Buffer("FAKE", 900, uint8).allocate()
    c = Buffer("FAKE", 100, uint8).allocate()
    c.free()
    statistics = Device["FAKE"].allocator.statistics
    assert a.is_allocated
    assert (statistics.live, statistics.cached, statistics.reserved) == (300, 100, 400)
    assert (statistics.peak, statistics.calls) == (500, 5)
    assert (statistics.retries, statistics.failures) == (1, 1)


@pytest.mark.row("ALC-06")
def test_snapshot_lists_blocks_with_their_owners(fake, uint8):
    a = Buffer("FAKE", 300, uint8, name="weights").allocate()
    b = Buffer("FAKE", 200, uint8, name="scratch").allocate()
    at = b.memory.address
    b.free()
    assert Device["FAKE"].allocator.snapshot() == [
        BlockInfo("weights", 300, a.memory.address, "live"),
        BlockInfo("scratch", 200, at, "cached"),
    ]


def test_drop_cache_gives_memory_back(fake, uint8):
    Buffer("FAKE", 300, uint8).allocate().free()
    Device["FAKE"].allocator.drop_cache()
    assert calls(fake(), "free") == [("free", 300)]
