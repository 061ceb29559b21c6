"""Buffers on GPUs: options, views, reuse, running out, and when memory goes back."""

import gc
import os
import random
import threading
import time
from pathlib import Path

import pytest
from gpu_calls import words

from hcq.errors import OutOfMemory, Unsupported
from runtime.backend import MemoryOptions
from runtime.buffer import Buffer
from runtime.call import CopyCall, ProgramCall
from runtime.device import Device
from runtime.execute import run_linear
from runtime.transfer import transfer

MIB = 1 << 20
# Video memory that the driver itself needs: of AMD for saving waves, of NVIDIA for rings; code.
DRIVER_BYTES = {"AMD": 45 * MIB, "NV": 24 * MIB}
FREE = {"AMD": "KFD_FREE_MEMORY_OF_GPU", "NV": "UVM_FREE"}


@pytest.fixture
def small(place, name):
    """A GPU with 64 MiB for buffers; how much it has in all."""
    size = 64 * MIB + DRIVER_BYTES[name]
    place(vram=size)
    return size


def test_two_gpus_have_memory_of_their_own(place, name, int32):
    place(count=2)
    first, second = (Buffer(f"{name}:{index}", 2, int32) for index in range(2))
    first.copy_in(words(1, 2))
    second.copy_in(words(3, 4))
    assert (first.copy_out(), second.copy_out()) == (words(1, 2), words(3, 4))


@pytest.mark.row("EXE-05")
@pytest.mark.row("BKE-02")
def test_views_of_one_buffer_may_overlap_in_a_copy(place, name, uint8):
    place()
    buffer = Buffer(name, 6, uint8).copy_in(b"abcdef")
    run_linear([CopyCall(buffer.view(5, uint8, 1), buffer.view(5, uint8, 0))])
    assert bytes(buffer.copy_out()) == b"aabcde"


@pytest.mark.row("EXE-05")
@pytest.mark.parametrize(
    ("options", "route"),
    [(MemoryOptions(), "staged"), (MemoryOptions(cpu_access=True), "target view")],
)
def test_gpus_exchange_bytes(place, name, uint8, options, route):
    place(count=2)
    source = Buffer(f"{name}:0", 5, uint8).copy_in(b"abcde")
    target = Buffer(f"{name}:1", 5, uint8, options=options)
    assert transfer(target, source) == route
    assert bytes(target.copy_out()) == b"abcde"


@pytest.mark.row("BKE-02")
def test_devices_of_two_vendors_exchange_bytes(place, uint8):
    place(["sm_90", "gfx1100"])
    far = Buffer("AMD", 5, uint8).copy_in(b"abcde")
    near = Buffer("NV", 5, uint8)
    transfer(near, far)
    back = Buffer("AMD", 5, uint8).allocate().copy_from(near)
    assert bytes(near.copy_out()) == bytes(back.copy_out()) == b"abcde"


def test_gpu_and_cpu_exchange_bytes(place, name, int32):
    place()
    near = Buffer("CPU", 3, int32).copy_in(words(1, 2, 3))
    far = Buffer(name, 3, int32).allocate().copy_from(near)
    back = Buffer("CPU", 3, int32).allocate().copy_from(far)
    assert back.copy_out() == words(1, 2, 3)


@pytest.mark.row("BUF-08")
@pytest.mark.row("BKE-02")
@pytest.mark.parametrize("options", [MemoryOptions(cpu_access=True), MemoryOptions(host=True)])
def test_memory_with_a_host_view(place, name, int32, options):
    place()
    buffer = Buffer(name, 2, int32, options=options).copy_in(words(1, 2))
    view = buffer.host_view()
    assert bytes(view) == words(1, 2)
    view[4:] = words(9)
    assert buffer.copy_out() == words(1, 9)


@pytest.mark.row("BUF-08")
@pytest.mark.refusal
def test_memory_without_a_host_view(place, name, int32):
    place()
    match = f"{name} memory of <Buffer {name} 2 int32> cannot be addressed"
    with pytest.raises(Unsupported, match=match):
        Buffer(name, 2, int32).host_view()


@pytest.mark.row("BUF-12")
@pytest.mark.row("BKE-02")
@pytest.mark.refusal
@pytest.mark.parametrize(
    ("option", "options"),
    [("uncached", MemoryOptions(uncached=True)), ("external", MemoryOptions(external=4096))],
)
def test_impossible_options_are_unsupported_by_name(place, name, int32, option, options):
    place()
    with pytest.raises(Unsupported, match=f"{name}:0 ") as caught:
        Buffer(name, 2, int32, options=options).allocate()
    assert caught.value.facts == {"option": option}


@pytest.mark.row("BUF-12")
@pytest.mark.refusal
@pytest.mark.parametrize("name", ["AMD"])
def test_host_view_of_vram_without_a_large_bar_is_refused_with_the_remedy(place, name, int32):
    place(large_bar=False)
    options = MemoryOptions(cpu_access=True)
    with pytest.raises(OutOfMemory, match=r"hint: turn on resizable BAR"):
        Buffer(name, 2, int32, options=options).allocate()
    assert Buffer(name, 2, int32).copy_in(words(1, 2)).copy_out() == words(1, 2)


@pytest.mark.row("BUF-12")
@pytest.mark.row("BKE-02")
@pytest.mark.parametrize("size", [1, 5000])
def test_zero_memory_reads_zero(place, name, uint8, size):
    place()
    dirty = Buffer(name, size, uint8, options=MemoryOptions(nolru=True))
    dirty.copy_in(b"\xff" * size)
    del dirty
    Device[name].synchronize()
    options = MemoryOptions(zero=True)
    assert not any(Buffer(name, size, uint8, options=options).allocate().copy_out())


@pytest.mark.row("ALC-03")
def test_reused_memory_costs_no_call_to_the_kernel(place, name, int32):
    machine = place()
    Buffer(name, 1000, int32).copy_in(bytes(4000))
    Device[name].synchronize()
    machine.calls.clear()
    for _ in range(10):
        Buffer(name, 1000, int32).ensure_allocated()
    assert [c for c in machine.calls if c.startswith("ioctl")] == []


@pytest.mark.row("ALC-05")
def test_many_steps_leave_everything_as_it_was(place, name, adding):
    place()
    call, a, b, _ = adding()

    def steps(count):
        for _ in range(count):
            out = Buffer(name, 4, a.dtype)
            run_linear([ProgramCall(call.kernel, (out, a, b), name)])
            a.copy_in(words(1, 2, 3, 4))
            assert out.copy_out() == words(11, 22, 33, 44)

    def state():
        device = Device[name]
        live = device.backend.device.stats.live
        return device.allocator.statistics, live, len(os.listdir("/proc/self/fd"))

    steps(100)
    before, memory = state(), resident()
    steps(400)
    assert state() == before
    assert resident() <= memory * 1.02


def resident():
    """Bytes of this process that lie in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.row("ALC-04")
def test_large_block_is_had_after_small_ones_on_a_small_gpu(small, name, uint8):
    kept = []
    for size in range(5, 11):
        kept.append(Buffer(name, size * MIB, uint8).allocate())
    kept.clear()
    large = Buffer(name, 48 * MIB, uint8).allocate()
    assert large.is_allocated
    assert Device[name].allocator.statistics.cached == 0


@pytest.mark.row("BUF-13")
@pytest.mark.row("ALC-05")
def test_changing_sizes_never_exceed_a_small_gpu_without_the_cyclic_collector(small, name, uint8):
    sizes = random.Random(3)
    kept = []
    gc.disable()
    try:
        for step in range(2000):
            buffer = Buffer(name, sizes.randrange(1, 12 * MIB), uint8).allocate()
            if step % 20 == 0:
                mark = bytes([step % 251]) * min(64, buffer.size)
                buffer.view(len(mark), uint8, 0).copy_in(mark)
            kept = [*kept[-3:], buffer]
            assert Device[name].allocator.statistics.reserved <= small
        assert Device[name].allocator.live == sum(buffer.size for buffer in kept)
    finally:
        gc.enable()
    assert Device[name].allocator.statistics.failures == 0


@pytest.mark.row("ALC-01")
@pytest.mark.row("ALC-04")
@pytest.mark.row("BKE-02")
@pytest.mark.refusal
def test_more_than_the_gpu_has_is_out_of_memory(small, name, uint8):
    kept = Buffer(name, 20 * MIB, uint8).allocate()
    with pytest.raises(OutOfMemory, match=f"{name}:0 has no memory for 62914560 bytes") as caught:
        Buffer(name, 60 * MIB, uint8).allocate()
    facts = caught.value.facts
    assert (facts["device"], facts["asked"], facts["live"]) == (f"{name}:0", 60 * MIB, 20 * MIB)
    assert (facts["limit"], facts["cached"]) == (small, 0)
    assert kept.is_allocated


@pytest.mark.row("BUF-13")
def test_memory_is_not_rewritten_while_a_queued_copy_reads_it(place, name, uint8, held):
    place()
    source = Buffer(name, 4096, uint8).copy_in(b"a" * 4096)
    target = Buffer(name, 4096, uint8).allocate()
    release = held()
    run_linear([CopyCall(target, source)])
    address = source.memory.address
    source.free()
    # The same memory for a new owner, while the copy that reads it waits for the kernel.
    again = Buffer(name, 4096, uint8)
    writer = threading.Thread(target=lambda: again.copy_in(b"b" * 4096))
    writer.start()
    time.sleep(0.02)
    release()
    writer.join()
    assert again.memory.address == address
    assert bytes(target.copy_out()) == b"a" * 4096
    assert bytes(again.copy_out()) == b"b" * 4096


@pytest.mark.row("BUF-13")
def test_memory_goes_back_only_when_its_queue_is_done(place, name, uint8, held):
    machine = place()
    release = held()
    buffer = Buffer(name, 4096, uint8, options=MemoryOptions(nolru=True)).allocate()
    machine.calls.clear()
    del buffer
    assert [c for c in machine.calls if FREE[name] in c] == []
    release()
    Device[name].synchronize()
    assert [c for c in machine.calls if FREE[name] in c] == [f"ioctl {FREE[name]}"]


def test_buffer_name_reaches_the_driver(place, name, int32):
    place()
    buffer = Buffer(name, 4, int32, name="weights").allocate()
    assert "weights" in Device[name].backend.device.buffers_at(buffer.memory.address)
