"""What the kernel driver is asked for when a device opens, allocates and closes, as literals."""

import struct

import pytest

from hcq import nv
from hcq.errors import HcqError
from hcq.ioctl_defs import nv_escape
from hcq.nv.memory import Kind, allocate, free

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
    kept = sim.rm_objects, sim.open_files
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
        assert (sim.rm_objects, sim.open_files) == kept, f"call {nth}, {name}"
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
