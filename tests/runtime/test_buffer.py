import gc

import pytest

from hcq.errors import BufferUseError, OutOfMemory, Unsupported
from hcq.settings import Context
from runtime.backend import MemoryOptions
from runtime.buffer import Buffer
from runtime.call import CopyCall
from runtime.counters import GlobalCounters
from runtime.device import Device
from runtime.execute import run_linear


def words(*values):
    return b"".join(value.to_bytes(4, "little") for value in values)


@pytest.mark.row("BUF-01")
def test_creation_holds_metadata_only(fake, int32):
    buffer = Buffer("fake", 10, int32)
    assert (buffer.device, buffer.count, buffer.size) == ("FAKE", 10, 40)
    assert (buffer.is_allocated, buffer.is_initialized) == (False, False)
    assert fake().log == []


@pytest.mark.row("BUF-01")
def test_ensure_allocated_is_idempotent(fake, int32):
    buffer = Buffer("FAKE", 10, int32)
    assert buffer.ensure_allocated().ensure_allocated() is buffer
    assert fake().log == [("allocate", 40)]


@pytest.mark.row("BUF-01")
@pytest.mark.refusal
def test_allocate_twice_is_refused(fake, int32):
    buffer = Buffer("FAKE", 10, int32).allocate()
    with pytest.raises(BufferUseError, match="is already allocated"):
        buffer.allocate()


@pytest.mark.row("BUF-01")
def test_view_is_initialized_by_its_own_allocation(fake, int32):
    base = Buffer("FAKE", 10, int32).allocate()
    view = base.view(2, int32, 8)
    assert (view.is_allocated, view.is_initialized) == (True, False)
    view.allocate()
    assert view.is_initialized


def test_view_allocates_its_base(fake, int32):
    base = Buffer("FAKE", 10, int32)
    base.view(2, int32, 8).ensure_allocated()
    assert base.is_allocated
    assert fake().log == [("allocate", 40)]


@pytest.mark.row("BUF-02")
def test_view_shares_the_bytes_of_its_base(int32):
    base = Buffer("CPU", 4, int32).copy_in(words(1, 2, 3, 4))
    base.view(2, int32, 4).copy_in(words(20, 30))
    assert base.copy_out() == words(1, 20, 30, 4)


@pytest.mark.row("BUF-02")
def test_view_has_its_own_dtype(int32, uint8):
    view = Buffer("CPU", 4, int32).copy_in(words(1, 0x0A0B0C0D, 3, 4)).view(3, uint8, 5)
    assert bytes(view.copy_out()) == b"\x0c\x0b\x0a"


@pytest.mark.row("BUF-02")
def test_view_of_a_view_hangs_off_the_root(int32):
    base = Buffer("CPU", 10, int32)
    view = base.view(8, int32, 8).view(2, int32, 4)
    assert view.base is base
    assert view.offset == 12


@pytest.mark.row("BUF-02")
@pytest.mark.parametrize(("count", "offset"), [(4, 0), (0, 16), (0, 0), (1, 12)])
def test_views_up_to_the_edge_are_allowed(int32, count, offset):
    assert Buffer("CPU", 4, int32).view(count, int32, offset).size == count * 4


@pytest.mark.row("BUF-02")
@pytest.mark.refusal
@pytest.mark.parametrize(("count", "offset"), [(5, 0), (1, 16), (0, 17), (1, -4), (-1, 0)])
def test_view_beyond_its_base_is_refused(int32, count, offset):
    with pytest.raises(BufferUseError, match="does not fit") as caught:
        Buffer("CPU", 4, int32).view(count, int32, offset)
    assert caught.value.facts == {"offset": offset, "size": count * 4, "base_size": 16}


@pytest.mark.row("BUF-02")
@pytest.mark.refusal
def test_misaligned_view_is_refused(int32):
    with pytest.raises(BufferUseError, match="not aligned") as caught:
        Buffer("CPU", 4, int32).view(1, int32, 2)
    assert caught.value.facts == {"offset": 2, "size": 4, "base_size": 16, "alignment": 4}


@pytest.mark.row("BUF-02")
@pytest.mark.refusal
def test_buffer_of_another_device_is_refused_at_launch(fake, int32, add_kernel):
    from runtime.call import ProgramCall

    near = [Buffer("CPU", 4, int32) for _ in range(2)]
    far = Buffer("FAKE", 4, int32)
    with pytest.raises(BufferUseError, match="runs on CPU:0 and cannot use <Buffer FAKE"):
        run_linear([ProgramCall(add_kernel(), (*near, far), "CPU")])


@pytest.mark.row("BUF-03")
def test_freeing_a_view_keeps_its_base(int32):
    base = Buffer("CPU", 4, int32).copy_in(words(1, 2, 3, 4))
    base.view(2, int32, 0).ensure_allocated().free()
    assert base.copy_out() == words(1, 2, 3, 4)


@pytest.mark.row("BUF-03")
@pytest.mark.refusal
def test_double_free_is_refused(int32):
    buffer = Buffer("CPU", 4, int32, name="weights").allocate()
    buffer.free()
    with pytest.raises(BufferUseError, match="'weights' CPU 4 int32> was freed"):
        buffer.free()


@pytest.mark.row("BUF-03")
@pytest.mark.refusal
def test_read_after_free_is_refused_though_the_memory_is_reused(int32):
    buffer = Buffer("CPU", 4, int32, name="weights").copy_in(words(1, 2, 3, 4))
    buffer.free()
    Buffer("CPU", 4, int32).copy_in(words(9, 9, 9, 9))
    with pytest.raises(BufferUseError, match="'weights' CPU 4 int32> was freed"):
        buffer.copy_out()


@pytest.mark.row("BUF-03")
@pytest.mark.refusal
def test_view_of_a_freed_base_is_refused(int32):
    base = Buffer("CPU", 4, int32)
    view = base.view(2, int32, 0).ensure_allocated()
    base.free()
    with pytest.raises(BufferUseError, match="was freed"):
        view.copy_out()


@pytest.mark.refusal
def test_free_before_allocation_is_refused(int32):
    with pytest.raises(BufferUseError, match="is not allocated"):
        Buffer("CPU", 4, int32).free()


@pytest.mark.row("BUF-03")
@pytest.mark.refusal
def test_donated_buffer_cannot_be_used(int32):
    buffer = Buffer("CPU", 2, int32).copy_in(words(1, 2))
    heir = buffer.donate()
    assert heir.copy_out() == words(1, 2)
    with pytest.raises(BufferUseError, match="was donated"):
        buffer.copy_out()


@pytest.mark.row("BUF-04")
def test_live_bytes_follow_allocation_and_free(fake, int32):
    fake()
    buffer = Buffer("FAKE", 100, int32)
    assert GlobalCounters.mem_used == 0
    buffer.allocate()
    assert GlobalCounters.mem_used == GlobalCounters.device("FAKE:0").mem_used == 400
    buffer.free()
    assert GlobalCounters.mem_used == 0
    assert Device["FAKE"].allocator.statistics.cached == 400


@pytest.mark.row("BUF-04")
def test_live_bytes_are_counted_per_device(int32):
    first = Buffer("CPU", 10, int32).allocate()
    second = Buffer("CPU:1", 20, int32).allocate()
    assert first.is_allocated
    assert second.is_allocated
    assert GlobalCounters.device("CPU:0").mem_used == 40
    assert GlobalCounters.device("CPU:1").mem_used == 80
    assert GlobalCounters.mem_used == 120


@pytest.mark.row("BUF-04")
def test_external_memory_is_not_counted(int32):
    data = bytearray(words(5, 6))
    import ctypes

    address = ctypes.addressof(ctypes.c_char.from_buffer(data))
    buffer = Buffer("CPU", 2, int32, options=MemoryOptions(external=address))
    assert buffer.allocate().copy_out() == words(5, 6)
    assert GlobalCounters.mem_used == 0


@pytest.mark.row("BUF-08")
def test_host_view_is_the_memory_itself(int32):
    buffer = Buffer("CPU", 2, int32).copy_in(words(1, 2))
    view = buffer.view(1, int32, 4).host_view()
    view[:] = words(7)
    assert buffer.copy_out() == words(1, 7)


@pytest.mark.row("BUF-08")
def test_host_view_keeps_the_memory(int32):
    view = Buffer("CPU", 2, int32).copy_in(words(1, 2)).host_view()
    gc.collect()
    assert GlobalCounters.mem_used == 8
    assert bytes(view) == words(1, 2)
    del view
    assert GlobalCounters.mem_used == 0


@pytest.mark.row("BUF-03")
@pytest.mark.refusal
@pytest.mark.parametrize("end", [Buffer.free, Buffer.donate])
def test_memory_the_process_looks_at_is_not_given_to_others(int32, end):
    buffer = Buffer("CPU", 4, int32, name="weights").copy_in(words(1, 2, 3, 4))
    part = buffer.view(2, int32, 8).host_view()[4:]
    with pytest.raises(BufferUseError, match=r"'weights' CPU 4 int32> cannot be .*a host view"):
        end(buffer)
    assert bytes(part) == words(4)
    assert buffer.copy_out() == words(1, 2, 3, 4)
    del part
    end(buffer)


@pytest.mark.row("BUF-08")
@pytest.mark.refusal
def test_host_view_of_hidden_memory_is_unsupported(fake, int32):
    with pytest.raises(Unsupported, match="FAKE memory of <Buffer FAKE 2 int32> cannot"):
        Buffer("FAKE", 2, int32).host_view()


@pytest.mark.row("BUF-08")
@pytest.mark.refusal
def test_copy_between_unequal_sizes_is_refused(int32):
    with pytest.raises(BufferUseError, match="sizes differ") as caught:
        Buffer("CPU", 2, int32).allocate().copy_from(Buffer("CPU", 3, int32).allocate())
    assert caught.value.facts == {"target_size": 8, "source_size": 12}


@pytest.mark.row("BUF-08")
@pytest.mark.refusal
def test_copy_from_a_buffer_without_memory_is_refused(int32):
    with pytest.raises(BufferUseError, match="has no memory") as caught:
        Buffer("CPU", 2, int32).allocate().copy_from(Buffer("CPU", 2, int32))
    assert caught.value.facts == {"target_size": 8, "source_size": 8}


@pytest.mark.refusal
def test_copy_in_of_the_wrong_size_is_refused(int32):
    with pytest.raises(BufferUseError, match="sizes differ"):
        Buffer("CPU", 2, int32).copy_in(b"1234567")


@pytest.mark.row("BUF-09")
def test_every_copy_is_a_copy_call(fake, int32, monkeypatch):
    seen = []
    import runtime.execute as execute

    monkeypatch.setitem(
        execute.RUNNERS, CopyCall, lambda call, report: seen.append((call.target, call.source))
    )
    a, b = Buffer("FAKE", 1, int32).allocate(), Buffer("CPU", 1, int32).allocate()
    a.copy_in(b"1234")
    b.copy_from(a)
    b.copy_out()
    assert [(t.device, s.device) for t, s in seen] == [
        ("FAKE", "HOST"),
        ("CPU", "FAKE"),
        ("HOST", "CPU"),
    ]


@pytest.mark.row("BUF-09")
def test_copies_are_counted(fake, int32):
    Buffer("FAKE", 1, int32).copy_in(b"1234").copy_out()
    assert (GlobalCounters.copy_count, GlobalCounters.copy_bytes) == (2, 8)
    assert GlobalCounters.device("FAKE:0").copy_count == 2
    assert GlobalCounters.kernel_count == 0


def test_source_may_change_after_copy_in(int32):
    data = bytearray(b"abcd")
    buffer = Buffer("CPU", 1, int32).copy_in(data)
    data[:] = b"zzzz"
    assert bytes(buffer.copy_out()) == b"abcd"


@pytest.mark.row("BUF-12")
def test_zero_means_zero_bytes_seen(fake, int32):
    assert Buffer("FAKE", 2, int32).allocate().copy_out() == b"\xaa" * 8
    zero = MemoryOptions(zero=True)
    assert Buffer("FAKE", 2, int32, options=zero).allocate().copy_out() == bytes(8)


@pytest.mark.row("BUF-12")
def test_zero_memory_is_not_reused_memory(int32):
    Buffer("CPU", 2, int32).copy_in(words(1, 2)).free()
    zero = MemoryOptions(zero=True)
    assert Buffer("CPU", 2, int32, options=zero).allocate().copy_out() == bytes(8)


@pytest.mark.row("BUF-12")
@pytest.mark.refusal
def test_impossible_option_is_unsupported_by_name(int32):
    with pytest.raises(Unsupported, match="CPU:0 has no memory with option 'uncached'") as caught:
        Buffer("CPU", 2, int32, options=MemoryOptions(uncached=True)).allocate()
    assert caught.value.facts == {"option": "uncached"}


@pytest.mark.row("BUF-13")
def test_memory_goes_back_with_the_last_reference(fake, int32):
    gc.disable()
    try:
        buffer = Buffer("FAKE", 2, int32).allocate()
        view = buffer.view(1, int32, 0)
        del buffer
        assert GlobalCounters.mem_used == 8
        del view
        assert GlobalCounters.mem_used == 0
    finally:
        gc.enable()


@pytest.mark.row("BUF-13")
def test_memory_that_is_not_kept_goes_back_to_the_driver(fake, int32):
    buffer = Buffer("FAKE", 2, int32, options=MemoryOptions(nolru=True)).allocate()
    del buffer
    assert fake().log == [("allocate", 8), ("free", 8)]


@pytest.mark.row("BUF-03")
@pytest.mark.refusal
def test_buffer_of_a_closed_device_is_refused(int32):
    buffer = Buffer("CPU", 2, int32).copy_in(words(1, 2))
    Device.close_all()
    with pytest.raises(BufferUseError, match="lies on a device that was closed"):
        buffer.copy_out()


def test_release_while_the_allocator_is_busy_is_settled_later(fake, int32, fake_backend):
    # As when the cyclic collector runs a finalizer inside allocate().
    held = [Buffer("FAKE", 2, int32).allocate()]
    allocate = fake_backend.allocate

    def collecting(self, size, options):
        held.clear()
        return allocate(self, size, options)

    fake_backend.allocate = collecting
    try:
        other = Buffer("FAKE", 3, int32).allocate()
    finally:
        fake_backend.allocate = allocate
    assert other.is_allocated
    assert GlobalCounters.mem_used == 12
    assert Device["FAKE"].allocator.statistics.cached == 8


@pytest.mark.row("ALC-01")
def test_empty_buffer_costs_nothing(fake, int32):
    buffer = Buffer("FAKE", 0, int32).allocate()
    assert bytes(buffer.copy_out()) == b""
    assert fake().log == []
    assert len(buffer.host_view()) == 0


@pytest.mark.row("ALC-01")
@pytest.mark.refusal
def test_negative_count_is_refused(int32):
    with pytest.raises(BufferUseError, match="cannot have -1 elements"):
        Buffer("CPU", -1, int32)


@pytest.mark.row("ALC-01")
@pytest.mark.refusal
def test_more_than_the_machine_has_is_out_of_memory(uint8):
    with pytest.raises(OutOfMemory, match="CPU:0 has no memory for 1152921504606846976 bytes"):
        Buffer("CPU", 1 << 60, uint8).allocate()


def test_lru_off_gives_equal_results(int32):
    with Context(LRU=0):
        buffer = Buffer("CPU", 2, int32).copy_in(words(1, 2))
        assert buffer.copy_out() == words(1, 2)
        del buffer
        assert Device["CPU"].allocator.statistics.cached == 0
