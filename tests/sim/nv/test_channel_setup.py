"""Making channels: what the simulated resource manager checks before one exists."""

import pytest
from nv_client import status, why

from hcq.ioctl_defs import nv_ctrl, nv_rm, nv_uvm


class Parts:
    """Everything a channel needs, and room to change one part."""

    def __init__(self, client):
        self.client = client
        self.chip = client.host.nvidia.gpus[0].chip
        self.ring = client.buffer(64 << 10)
        self.group = self.make_group()
        self.share = client.alloc(
            self.group, 0x9067, nv_rm.CONTEXT_SHARE, hVASpace=client.space, flags=1
        )

    def make_group(self, **changes):
        fields = {"hVASpace": self.client.space, "engineType": 1} | changes
        return self.client.alloc(self.client.device, 0xA06C, nv_rm.CHANNEL_GROUP, **fields)

    def make(self, number=None, parent=None, **changes):
        fields = {
            "gpFifoOffset": self.ring.address, "gpFifoEntries": 64, "hContextShare": self.share,
            "hUserdMemory": [self.ring.handle], "userdOffset": [0x8000],
        } | changes  # fmt: skip
        return self.client.alloc(
            parent or self.group, number or self.chip.channel_classes[0],
            self.client.series.channel, **fields,
        )  # fmt: skip


@pytest.fixture
def parts(client):
    return lambda **options: Parts(client(**options))


@pytest.mark.row("SIM-05")
@pytest.mark.parametrize("driver", ["550", "570", "580", "590", "610"])
def test_a_channel_in_a_group(parts, driver):
    made = parts(driver=driver)
    handle = made.make()
    token = made.client.control(handle, nv_ctrl.GET_WORK_SUBMIT_TOKEN).workSubmitToken
    assert token == 1


@pytest.mark.refusal
@pytest.mark.row("SIM-05")
def test_a_channel_laid_out_for_another_series_is_misread(parts):
    made = parts(driver="610")
    args = nv_rm.CHANNEL_570.args(
        gpFifoOffset=made.ring.address, gpFifoEntries=64, hContextShare=made.share,
        hUserdMemory=[made.ring.handle], userdOffset=[0x8000],
    )  # fmt: skip
    params = bytes(nv_rm.ffi.buffer(args))
    assert status(made.client.rm_alloc, made.group, 0, 0xC86F, params) in (0x57, 0x58)


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("changes", "expected", "text"),
    [
        ({"gpFifoEntries": 0}, 0x1F, "a ring of 0 entries"),
        ({"gpFifoEntries": 48}, 0x1F, "a ring of 48 entries"),
        ({"userdOffset": [0x8100]}, 0x1F, "userdOffset 0x8100"),
        ({"userdOffset": [0x10000]}, 0x1F, "userdOffset 0x10000"),
        ({"hUserdMemory": [0]}, 0x57, "has no object 0x0"),
        ({"hVASpace": 5}, 0x1F, "hVASpace of a channel in a group"),
        ({"engineType": 9}, 0x1F, "engine type 9"),
        ({"flags": 4}, 0x56, "channel flags 0x4"),
        ({"number": 0xC56F}, 0x22, "sm_90 does not have class AMPERE_CHANNEL_GPFIFO_A"),
        ({"hObjectError": 9}, 0x57, "has no object 0x9"),
    ],
)
def test_what_a_channel_may_not_ask_for(parts, changes, expected, text):
    made = parts()
    assert status(made.make, **changes) == expected
    assert text in why(made.client)


@pytest.mark.refusal
@pytest.mark.row("SIM-05")
def test_ampere_has_rings_of_40_bits(parts):
    assert status(parts(gpu="sm_86").make, gpFifoOffset=(1 << 40) - 256) == 0x1F
    assert parts(gpu="sm_90").make(gpFifoOffset=(1 << 40) - 256)


@pytest.mark.refusal
def test_the_address_space_has_to_be_registered(parts):
    made = parts()
    made.client.unified(nv_uvm.UNREGISTER_GPU_VASPACE, gpuUuid=made.client.uuid)
    assert status(made.make) == 0x40


@pytest.mark.refusal
def test_hoppers_rule_holds_for_pushbuffers(parts):
    made = parts()
    mine = made.client
    made.ring = mine.buffer(system=True)
    handle = made.make(userdOffset=[0x800])
    mine.control(made.group, nv_ctrl.SCHEDULE_GROUP_580, bEnable=1)
    push = mine.buffer()
    made.ring.region.write64(0, push.address | 1 << 41 | 1 << 42)
    made.ring.region.write32(0x800 + 0x8C, 1)
    page = mine.cpu_map(mine.rm_alloc(mine.subdevice, 0, 0xC661), 0x10000)
    page.write32(0x90, mine.control(handle, nv_ctrl.GET_WORK_SUBMIT_TOKEN).workSubmitToken)
    assert mine.until(lambda: mine.host.faults)
    assert "USERD in system memory with a pushbuffer in video" in mine.host.faults[0].text


@pytest.mark.refusal
def test_an_object_of_another_kind(parts):
    made = parts()
    assert status(made.make, hContextShare=made.group) == 0x58
    assert status(made.make, parent=made.client.subdevice) == 0x36


@pytest.mark.refusal
def test_a_group_without_an_address_space_or_of_another_engine(parts):
    made = parts()
    assert status(made.make_group, hVASpace=0) == 0x57
    assert status(made.make_group, engineType=13) == 0x56


@pytest.mark.refusal
def test_an_address_space_that_the_driver_would_own(parts):
    made = parts()
    mine = made.client
    assert status(mine.alloc, mine.device, 0x90F1, mine.series.address_space, flags=0x40) == 0x56


@pytest.mark.refusal
@pytest.mark.row("SIM-05")
@pytest.mark.parametrize(("gpu", "is_refused"), [("sm_86", False), ("sm_90", True)])
def test_hoppers_rule_of_placement(parts, gpu, is_refused):
    made = parts(gpu=gpu)
    userd = made.client.memory(4096, system=True)
    fields = {"hUserdMemory": [userd], "userdOffset": [0]}
    if is_refused:
        assert status(made.make, **fields) == 0x56
        assert "USERD in system memory with GPFIFO in video memory" in why(made.client)
    else:
        assert made.make(**fields)


def test_hopper_takes_rings_in_system_memory_with_userd_beside_or_in_video_memory(parts):
    made = parts()
    video = made.client.memory(4096)
    ring = made.client.buffer(system=True)
    made.ring = ring
    assert made.make(userdOffset=[0x800])
    assert made.make(hUserdMemory=[video], userdOffset=[0])


@pytest.mark.refusal
def test_engine_classes_of_other_chips(parts):
    made = parts()
    handle = made.make()
    assert status(made.client.rm_alloc, handle, 0, 0xC7C0) == 0x22
    assert status(made.client.rm_alloc, made.group, 0, 0xCBC0) == 0x36


def test_a_channel_keeps_the_memory_of_its_control_words(parts):
    made = parts()
    userd = made.client.memory(4096)
    handle = made.make(hUserdMemory=[userd], userdOffset=[0])
    live = made.client.host.nvidia.rm.memories.live()
    made.client.free(userd)
    assert made.client.host.nvidia.rm.memories.live() == live
    made.client.free(handle)
    assert made.client.host.nvidia.rm.memories.live() == live - 1


def test_the_class_list_of_a_chip_that_is_not_simulated(client):
    mine = client(gpu="sm_86", classes=(0xC46F, 0xC5C0), sm_version=0x705)
    assert mine.control(mine.device, nv_ctrl.GET_CLASSLIST).numClasses == 2
