"""What the kernel driver is asked for when a device opens, allocates and closes, as literals."""

import ctypes
import mmap
import struct

import pytest

from hcq import nv
from hcq.errors import BufferUseError, HcqError, OutOfMemory
from hcq.ioctl_defs import nv_escape
from hcq.nv.memory import Kind, allocate, free
from hcq.nv.rm import RmError

LOCAL_USER, SYSTEM = 0x40, 0x3E  # classes of video memory and of the machine's


def memories(calls):
    """(class, type, flags, attr, attr2) of the memory that was asked for."""
    found = [(number, data) for _, number, data in calls if number in (LOCAL_USER, SYSTEM)]
    return [
        (
            number,
            *struct.unpack_from("<2I", data, 4),
            *struct.unpack_from("<2I", data, 0x18),
        )
        for number, data in found
    ]


def spans(sim):
    """Address space of the process that is reserved, by start and end."""
    return [(start, end) for start, end, _ in sim._space._reserved.ranges()]


@pytest.mark.row("NV-18")
@pytest.mark.parametrize(
    ("kind", "size", "wanted"),
    [
        # attr: location from bit 25, page size from 23, contiguity from 27, coherency from 29.
        # attr2: GPU cacheable from bit 2, 2 MiB pages bit 20.
        (Kind.VRAM, 4096, (LOCAL_USER, 0, 0x18101, 0x18800000, 0x5)),
        (Kind.VRAM, 8 << 20, (LOCAL_USER, 0, 0x18101, 0x19800000, 0x100005)),
        (Kind.CONTIGUOUS, 8 << 20, (LOCAL_USER, 0, 0x18101, 0x10800000, 0x5)),
        (Kind.HOST, 4096, (SYSTEM, 13, 0x8101, 0xBA800000, 0x9)),
        (Kind.UNCACHED_HOST, 4096, (SYSTEM, 13, 0x8101, 0x1A800000, 0x9)),
    ],
)
def test_each_kind_of_memory_is_asked_for_by_its_attributes(machine, asked, kind, size, wanted):
    sim = machine("sm_90")
    device = nv.open(0)
    calls = asked(sim)
    found = allocate(device.gpu, size, kind)
    assert memories(calls) == [wanted]
    free(device.gpu, found)
    device.close()


@pytest.mark.row("NV-18")
@pytest.mark.row("HCQ-06")
def test_signals_and_notifiers_lie_in_uncached_memory_and_rings_in_one_piece(machine, asked):
    calls = asked(machine("sm_90"))
    device = nv.open(0)
    assert [attr for number, _, _, attr, _ in memories(calls) if number == SYSTEM] == [
        0x1A800000,  # the first page of signals
        0x1A800000, 0x1A800000,  # a notifier for each channel
    ]  # fmt: skip
    # Ring and pushbuffer of each channel; the arguments' ring has pages of 2 MiB.
    assert [attr for number, _, _, attr, _ in memories(calls) if number == LOCAL_USER] == [
        0x10800000, 0x18800000, 0x10800000, 0x18800000, 0x19800000
    ]  # fmt: skip
    device.close()


def test_the_clocks_are_asked_to_be_high_for_compute_and_for_good(machine, asked):
    calls = asked(machine("sm_90"))
    nv.open(0).close()
    # Flags: to the maximum (2), for compute (0x10), priority high (0x40).
    assert [data for _, number, data in calls if number == 0x2080200A] == [
        bytes.fromhex("52000000 ffffffff")
    ]


@pytest.mark.row("NV-04")
def test_channels_leave_unified_memory_before_they_are_freed(machine, asked):
    sim = machine("sm_90")
    device = nv.open(0)
    handles = {channel.handle for channel in device.channels.values()}
    calls = asked(sim)
    device.close()
    steps = [(name, number) for name, number, _ in calls if number in handles]
    assert len(handles) == 2
    assert sorted(name for name, _ in steps) == 2 * ["NV_ESC_RM_FREE"] + 2 * [
        "UVM_UNREGISTER_CHANNEL"
    ]
    for handle in handles:
        assert [name for name, number in steps if number == handle] == [
            "UVM_UNREGISTER_CHANNEL",
            "NV_ESC_RM_FREE",
        ]


@pytest.mark.row("NV-04")
@pytest.mark.refusal
def test_a_second_gpu_that_does_not_open_leaves_nothing_beside_the_first(machine, asked):
    """Each call of an open is refused in turn, while another GPU keeps the client."""
    sim = machine(["sm_86", "sm_90"])
    first = nv.open(0)
    nv.open(1).close()
    kept = sim.rm_objects, sim.open_files, spans(sim)
    calls = asked(sim)
    device = nv.open(1)
    # Lists of cards come without a status.
    names = [name for name, _, _ in calls if name != "NV_ESC_CARD_INFO"]
    device.close()
    failures = 0
    for nth, name in enumerate(names, 1):
        if name == "NV_ESC_RM_FREE":  # what the kernel does not free stays
            continue
        sim.answer_nth(nth, 0x40)  # NV_ERR_INVALID_STATE
        try:
            nv.open(1).close()
        except HcqError:
            failures += 1
        sim.nvidia.rm.answers.clear()
        assert (sim.rm_objects, sim.open_files, spans(sim)) == kept, f"call {nth}, {name}"
    assert failures > 40
    assert first.health() == "ok"
    first.close()
    assert (sim.rm_objects, sim.open_files) == (0, 0)


@pytest.mark.row("NV-04")
@pytest.mark.row("HCQ-31")
@pytest.mark.refusal
@pytest.mark.parametrize(
    "failing",
    [0x80, 0x2080014A, 0x90F1, 0xA06C, 0xC7C0, 0xC36F0108],
    ids=["device", "uuid", "space", "group", "engine", "token"],
)
def test_objects_of_an_open_that_fails_are_freed_youngest_first(machine, monkeypatch, failing):
    sim = machine("sm_86")
    sim.answer(failing, 0x40)  # NV_ERR_INVALID_STATE
    ioctl, alive, freed = sim.ioctl, [], []

    def noted(fd, call, args):
        ioctl(fd, call, args)
        if call is nv_escape.RM_ALLOC and not args.status:
            alive.append(args.hObjectNew)
        elif call is nv_escape.RM_FREE:
            assert alive.pop() == args.hObjectOld
            freed.append(args.hObjectOld)

    monkeypatch.setattr(sim, "ioctl", noted)
    with pytest.raises(HcqError, match="NV_ERR_INVALID_STATE"):
        nv.open(0)
    assert alive == []
    assert freed


def test_the_clock_is_read_again_when_its_upper_half_moved_meanwhile(machine):
    machine("sm_90")
    device = nv.open(0)
    reads = {0x84: [6, 7, 7, 7], 0x80: [0xFFFFFFFF, 3]}  # TIME_1, TIME_0

    class Doorbell:
        def read32(self, offset):
            return reads[offset].pop(0)

    real, device.gpu.doorbell = device.gpu.doorbell, Doorbell()
    try:
        assert device.gpu.clock() == 0x7_0000_0003
    finally:
        device.gpu.doorbell = real
    device.close()


@pytest.mark.row("HCQ-31")
@pytest.mark.row("NV-04")
def test_close_gives_every_span_of_addresses_back(machine, compiled):
    sim = machine("sm_90")
    before = spans(sim)
    device = nv.open(0)
    device.load(compiled("spill"), "spill")
    for options in ({}, {"cpu_access": True}, {"host": True}, {"host": True, "uncached": True}):
        device.allocate(4096, **options)
    assert len(spans(sim)) > len(before)
    device.close()
    assert spans(sim) == before


@pytest.mark.row("NV-04")
@pytest.mark.row("HCQ-31")
def test_the_last_device_takes_its_gpu_out_of_unified_memory_and_the_process(machine, asked):
    sim = machine(["sm_86", "sm_90"])
    other = nv.open(0)
    device = nv.open(1)
    calls = asked(sim)
    doorbell = device.gpu.doorbell
    device.close()
    names = [name for name, _, _ in calls]
    # The page of signals is the other GPU's, and was seen by this one.
    steps = ["UVM_UNMAP_EXTERNAL", "UVM_UNREGISTER_GPU_VASPACE", "UVM_UNREGISTER_GPU"]
    assert [name for name in names if name in steps] == steps
    with pytest.raises(BufferUseError, match="outside a mapped window"):
        doorbell.read32(0x80)
    other.close()


@pytest.mark.row("NV-04")
def test_close_frees_buffers_last_allocated_first(machine, asked):
    sim = machine("sm_90")
    device = nv.open(0)
    handles = [device.allocate(4096).owner.handle for _ in range(3)]
    calls = asked(sim)
    device.close()
    freed = [number for name, number, _ in calls if name == "NV_ESC_RM_FREE"]
    assert [handle for handle in freed if handle in handles] == handles[::-1]


@pytest.mark.row("NV-18")
@pytest.mark.parametrize("view", [False, True])
def test_a_buffers_span_of_addresses_comes_back_with_it(machine, view):
    sim = machine("sm_90")
    device = nv.open(0)
    before = spans(sim)
    device.free(device.allocate(9 << 20, cpu_access=view))
    assert spans(sim) == before
    device.close()


@pytest.mark.row("NV-06")
def test_the_objects_of_a_gpu_are_asked_for_by_their_parameters(machine, asked):
    calls = asked(machine("sm_90"))
    device = nv.open(0)
    given = {number: data for _, number, data in calls}
    space = given[0x90F1]
    # Flags: externally owned (8), page faults (0x40).
    assert struct.unpack_from("<I", space, 4) == (0x48,)
    assert struct.unpack_from("<Q", space, 8) == (0x1_FFFF_FB00_0000,)
    assert struct.unpack_from("<Q", space, 0x28) == (0x1000,)
    assert struct.unpack_from("<2I", given[0xA06C], 8) == (device.gpu.space, 1)  # graphics
    assert struct.unpack_from("<2I", given[0x9067]) == (device.gpu.space, 1)  # asynchronous
    channel, copy = given[0xC86F], device.channels["copy"]  # the last one made
    assert struct.unpack_from("<I", channel, 0) == (copy.notifier.handle,)
    assert struct.unpack_from("<QI", channel, 8) == (copy.ring.address, 4096)
    assert struct.unpack_from("<I", channel, 0x20) == (copy.ring.handle,)
    assert struct.unpack_from("<Q", channel, 0x40) == (0x8000,)
    device.close()


@pytest.mark.row("NV-18")
def test_memory_is_mapped_for_reads_writes_and_atomics(machine, monkeypatch):
    sim = machine("sm_90")
    device = nv.open(0)
    ioctl, seen = sim.ioctl, []

    def noted(fd, call, args):
        if call.name == "UVM_MAP_EXTERNAL_ALLOCATION":
            given = args.perGpuAttributes[0]
            seen.append((args.gpuAttributesCount, given.gpuMappingType, bytes(given.gpuUuid)))
        return ioctl(fd, call, args)

    monkeypatch.setattr(sim, "ioctl", noted)
    device.allocate(4096)
    assert seen == [(1, 1, device.gpu.uuid)]
    device.close()


MAPPED = ["UVM_CREATE_EXTERNAL_RANGE", "UVM_MAP_EXTERNAL_ALLOCATION"]


@pytest.mark.row("NV-18")
@pytest.mark.refusal
def test_memory_that_cannot_be_mapped_goes_back_step_by_step(machine, asked):
    sim = machine("sm_90")
    device = nv.open(0)
    kept = sim.rm_objects, spans(sim), device.gpu.bar1_used
    sim.answer("UVM_MAP_EXTERNAL_ALLOCATION", 0x1A)
    calls = asked(sim)
    with pytest.raises(RmError, match="UVM_MAP_EXTERNAL_ALLOCATION: NV_ERR_INSUFFICIENT_RESO"):
        allocate(device.gpu, 4096, Kind.VRAM, view=False)
    assert [name for name, _, _ in calls] == [
        "NV_ESC_RM_ALLOC", *MAPPED, "UVM_FREE", "NV_ESC_RM_FREE"
    ]  # fmt: skip
    with pytest.raises(RmError):
        allocate(device.gpu, 4096, Kind.VRAM)
    assert (sim.rm_objects, spans(sim), device.gpu.bar1_used) == kept
    sim.nvidia.rm.answers.clear()
    device.close()


@pytest.mark.row("NV-18")
@pytest.mark.refusal
def test_pages_of_the_process_that_cannot_be_mapped_are_let_go(machine, asked):
    sim = machine("sm_90")
    device = nv.open(0)
    kept = sim.rm_objects
    pages = mmap.mmap(-1, 4096)
    address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    sim.answer("UVM_MAP_EXTERNAL_ALLOCATION", 0x1A)
    calls = asked(sim)
    with pytest.raises(RmError, match="UVM_MAP_EXTERNAL_ALLOCATION"):
        device.adopt(address, 4096)
    assert [name for name, _, _ in calls] == [
        "NV_ESC_RM_ALLOC_MEMORY", *MAPPED, "UVM_FREE", "NV_ESC_RM_FREE"
    ]  # fmt: skip
    assert sim.rm_objects == kept
    sim.nvidia.rm.answers.clear()
    device.close()


@pytest.mark.row("NV-03")
@pytest.mark.refusal
@pytest.mark.parametrize("call", MAPPED)
def test_no_memory_for_a_mapping_is_out_of_memory(machine, call):
    sim = machine("sm_90")
    device = nv.open(0)
    sim.answer(call, 0x51)
    with pytest.raises(OutOfMemory, match=f"{call}: NV_ERR_NO_MEMORY"):
        allocate(device.gpu, 4096, Kind.VRAM)
    sim.nvidia.rm.answers.clear()
    device.close()


@pytest.mark.row("NV-04")
def test_what_nobody_freed_goes_youngest_first_and_the_client_last(machine, asked):
    sim = machine("sm_90")
    device = nv.open(0)
    rm = device.gpu.rm
    left = [allocate(device.gpu, 4096, Kind.HOST, view=False).handle for _ in range(2)]
    assert list(rm.objects)[-2:] == left
    calls = asked(sim)
    rm.close()
    freed = [number for name, number, _ in calls if name == "NV_ESC_RM_FREE"]
    assert freed[:2] == left[::-1]
    assert freed[-1] == rm.client
    assert rm.objects == {}
