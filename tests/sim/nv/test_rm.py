"""The simulated resource manager: objects, controls, mappings, and how it says no."""

from errno import EACCES, EFAULT, EINVAL, ENOENT

import pytest
from nv_client import Client, Status, errno, pointer, status, why

from hcq.ioctl_defs import Ioctl, nv_ctrl, nv_escape, nv_rm
from sim.machine import Machine
from sim.refusal import Refusal

CHIPS = {
    "sm_80": (0x800, 0xC56F, 0xC6C0, 0xC6B5, 0xC561),
    "sm_86": (0x806, 0xC56F, 0xC7C0, 0xC7B5, 0xC561),
    "sm_89": (0x809, 0xC56F, 0xC9C0, 0xC7B5, 0xC561),
    "sm_90": (0x900, 0xC86F, 0xCBC0, 0xC8B5, 0xC661),
    "sm_100": (0xA00, 0xC96F, 0xCDC0, 0xC9B5, 0xC761),
    "sm_120": (0xA04, 0xCA6F, 0xCEC0, 0xCAB5, 0xC761),
}


def info(client, target, call, indices, **names):
    """Ask one of the list controls."""
    entries = nv_ctrl.ffi.new("struct NVXXXX_CTRL_XXX_INFO[]", [{"index": i} for i in indices])
    count, where = names["count"], names["where"]
    client.control(target, call, **{count: len(indices), where: pointer(entries)})
    return [entry.data for entry in entries]


# The nodes.


@pytest.mark.row("SIM-05")
@pytest.mark.parametrize(
    ("driver", "version"), [("550", "550.163.01"), ("595.45.04", "595.45.04"), ("610", "610.43.03")]
)
def test_the_version_is_told_three_ways(bare, driver, version):
    client = bare(driver=driver)
    args = client.escape(nv_escape.CHECK_VERSION_STR, cmd=ord("2"))
    assert bytes(args.versionString).rstrip(b"\0").decode() == version
    assert f"  {version}  ".encode() in client.host.read("/proc/driver/nvidia/version")
    assert client.host.read("/sys/module/nvidia/version") == f"{version}\n".encode()


@pytest.mark.refusal
def test_another_version_is_refused_in_the_strict_check(bare):
    client = bare()
    args = nv_escape.CHECK_VERSION_STR.args(cmd=0, versionString=b"1.2.3".ljust(64, b"\0"))
    assert errno(client.host.ioctl, client.ctl, nv_escape.CHECK_VERSION_STR, args) == EINVAL
    assert args.reply == 0


def test_cards_carry_bus_device_and_minor(bare):
    args = bare(gpu=["sm_90", "sm_86"]).escape(nv_escape.CARD_INFO)
    found = [(c.valid, c.pci_info.vendor_id, c.pci_info.device_id, c.minor_number)
             for c in args.cards[0:3]]  # fmt: skip
    assert found == [(1, 0x10DE, 0x2335, 0), (1, 0x10DE, 0x2204, 1), (0, 0, 0, 0)]


def test_gpus_of_both_vendors_in_one_machine(machine):
    host = machine(gpu=["gfx1100", "sm_90", "gfx1100"])
    assert [gpu.name for gpu in host.gpus] == ["amd0", "nv0", "amd1"]
    assert host.exists("/dev/kfd")
    assert host.exists("/dev/nvidia0")


def test_a_machine_without_such_a_gpu_has_none_of_the_nodes(machine):
    host = machine(gpu="gfx1100")
    assert not host.exists("/dev/nvidiactl")
    assert not machine(gpu="sm_90").exists("/dev/kfd")


@pytest.mark.refusal
def test_the_unified_memory_node_can_be_missing(machine):
    with pytest.raises(OSError, match="nvidia-uvm") as caught:
        machine(gpu="sm_90", uvm=False).open("/dev/nvidia-uvm")
    assert caught.value.errno == ENOENT


@pytest.mark.refusal
def test_a_node_can_be_denied(machine):
    host = machine(gpu="sm_90")
    host.deny("/dev/nvidiactl")
    with pytest.raises(OSError, match="/dev/nvidiactl") as caught:
        host.open("/dev/nvidiactl")
    assert caught.value.errno == EACCES


def test_the_first_open_of_a_gpu_takes_its_time(machine):
    host = machine(gpu="sm_90", seed=1, open_seconds=12)
    before = host.now()
    host.open("/dev/nvidia0")
    took = host.now() - before
    host.open("/dev/nvidia0")
    assert took == pytest.approx(12)
    assert host.now() - before == pytest.approx(took)


@pytest.mark.refusal
def test_an_unknown_option_of_a_machine(machine):
    with pytest.raises(TypeError, match="no option 'vramm'"):
        machine(gpu="sm_90", vramm=1)


# Malformed calls.


@pytest.mark.refusal
@pytest.mark.row("SIM-03")
@pytest.mark.parametrize("nr", [1, 0x28, 0x34, 0x57, 200 + 16, 255])
def test_an_unknown_escape_is_an_errno(bare, nr):
    client = bare()
    call = Ioctl("nothing", 3 << 30 | 8 << 16 | 0x46 << 8 | nr, "struct nv_ioctl_register_fd",
                 nv_escape.ffi)  # fmt: skip
    assert errno(client.host.ioctl, client.ctl, call, call.args()) == EINVAL
    assert f"escape {nr} is not simulated" in why(client)


@pytest.mark.refusal
def test_a_struct_of_another_size_is_an_errno(bare):
    client = bare()
    number = nv_escape.RM_FREE.number + (8 << 16)
    call = Ioctl("RM_FREE", number, "struct NVOS64_PARAMETERS", nv_escape.ffi)
    assert errno(client.host.ioctl, client.ctl, call, call.args()) == EINVAL


@pytest.mark.refusal
def test_an_escape_on_the_wrong_node_is_an_errno(client):
    mine = client()
    args = nv_escape.RM_FREE.args(hRoot=mine.root)
    assert errno(mine.host.ioctl, mine.node, nv_escape.RM_FREE, args) == EINVAL


@pytest.mark.refusal
def test_a_bad_pointer_to_the_struct_is_efault(bare):
    client = bare()
    args = nv_escape.ffi.cast("struct NVOS00_PARAMETERS *", 0x1000)
    call = nv_escape.RM_FREE
    call = Ioctl(call.name, call.number, "struct nv_ioctl_register_fd", nv_escape.ffi)
    safe = nv_escape.ffi.cast("struct nv_ioctl_register_fd *", args)
    with pytest.raises(Refusal) as caught:
        client.host._ioctl(client.ctl, call, pointer(safe))
    assert caught.value.number == EFAULT


@pytest.mark.refusal
def test_a_file_is_registered_once(client):
    mine = client()
    args = nv_escape.REGISTER_FD.args(ctl_fd=mine.ctl)
    assert errno(mine.host.ioctl, mine.node, nv_escape.REGISTER_FD, args) == EINVAL


# The tree of objects.


@pytest.mark.row("SIM-05")
def test_closing_the_control_node_frees_everything(client):
    mine = client()
    mine.channel()
    assert mine.host.rm_objects > 8
    mine.host.close(mine.uvm)
    mine.host.close(mine.ctl)
    assert mine.host.rm_objects == 0


def test_freeing_a_parent_frees_what_is_below(client):
    mine = client()
    before = mine.host.rm_objects
    channel = mine.channel()
    mine.free(channel.group)
    mine.free(mine.device)
    assert mine.host.rm_objects == 1 < before


def test_the_caller_may_choose_a_handle(client):
    mine = client()
    assert mine.rm_alloc(mine.device, 0x1234, 0x2080, bytes(4)) == 0x1234


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("parent", "handle", "number", "expected"),
    [
        ("device", "subdevice", 0x2080, 0x19),  # handle in use
        ("nothing", 0, 0x2080, 0x36),
        ("root", 0, 0x2080, 0x36),
        ("device", 0, 0xC56F, 0x36),
        ("device", 0, 0x9999, 0x22),
        ("device", 0, 0x0079, 0x22),
        ("subdevice", 0, 0xC561, 0x22),  # no class of this chip
    ],
)
def test_allocations_that_are_refused(client, parent, handle, number, expected):
    mine = client()
    mine.nothing = 0xABCD
    wanted = getattr(mine, handle) if handle else 0
    assert status(mine.rm_alloc, getattr(mine, parent), wanted, number, bytes(8)) == expected


@pytest.mark.refusal
def test_needed_parameters_that_are_missing(client):
    mine = client()
    assert status(mine.rm_alloc, mine.device, 0, 0x90F1) == 0x3D


@pytest.mark.refusal
def test_a_device_needs_its_node_opened_once(bare):
    client = bare()
    assert status(client.alloc, client.root, 0x80, nv_rm.DEVICE) == 0x26


@pytest.mark.refusal
def test_an_unknown_client(client):
    mine = client()
    args = {"hRoot": 0x1111, "hObjectOld": mine.device}
    assert status(mine.escape, nv_escape.RM_FREE, **args) == 0x23


@pytest.mark.refusal
def test_too_many_clients(bare):
    client = bare(clients=1)
    assert status(client.rm_alloc, 0, 0, 0x41) == 0x1A


@pytest.mark.refusal
def test_a_gpu_that_another_process_has_for_itself(client):
    mine = client(compute_mode=3, occupied=True)
    assert mine.control(mine.subdevice, nv_ctrl.QUERY_COMPUTE_MODE).rules == 3
    assert status(mine.channel) == 0x63


def test_statuses_can_be_wished_for(client):
    mine = client()
    mine.host.answer(0x40, 0x51, times=1)
    assert status(mine.memory, 4096) == 0x51
    assert mine.memory(4096)


def test_the_nth_call_can_be_let_fail(client):
    mine = client()
    mine.host.answer_nth(2, 0x65)
    mine.memory(4096)
    assert status(mine.memory, 4096) == 0x65
    assert mine.memory(4096)


# Controls.


@pytest.mark.refusal
@pytest.mark.row("SIM-03")
@pytest.mark.parametrize(("driver", "right", "wrong"), [("570", 2, 3), ("580", 3, 2)])
def test_parameters_of_another_size(client, driver, right, wrong):
    mine = client(driver=driver)
    channel = mine.channel(schedule=False)
    call = nv_ctrl.SCHEDULE_GROUP_580
    assert status(mine.control, channel.group, call, size=wrong, bEnable=1) == 0x3A
    assert f"with {wrong:#x} bytes, not {right:#x}" in why(mine)
    mine.control(channel.group, call, size=right, bEnable=1)


@pytest.mark.refusal
def test_an_unknown_control(client):
    mine = client()
    call = nv_ctrl.Control("x", 0x2080_9999, "struct NV2080_CTRL_PERF_BOOST_PARAMS", nv_ctrl.ffi)
    assert status(mine.control, mine.subdevice, call) == 0x56
    assert "control 0x20809999 is not simulated" in why(mine)


@pytest.mark.refusal
def test_a_control_of_the_wrong_object(client):
    mine = client()
    assert status(mine.control, mine.device, nv_ctrl.GET_GID_INFO) == 0x56


@pytest.mark.refusal
def test_a_control_of_an_unknown_object(client):
    mine = client()
    assert status(mine.control, 0x4444, nv_ctrl.GET_GID_INFO) == 0x57


@pytest.mark.row("SIM-05")
@pytest.mark.parametrize("name", CHIPS)
def test_the_class_list(client, name):
    mine = client(gpu=name)
    count = mine.control(mine.device, nv_ctrl.GET_CLASSLIST).numClasses
    listed = nv_ctrl.ffi.new("uint32_t[]", count)
    mine.control(mine.device, nv_ctrl.GET_CLASSLIST, numClasses=count, classList=pointer(listed))
    assert set(CHIPS[name][1:]) | {0x90F1, 0xA06C, 0x9067} <= set(listed)


@pytest.mark.row("SIM-05")
@pytest.mark.parametrize("name", CHIPS)
def test_the_sm_version(client, name):
    mine = client(gpu=name)
    found = info(
        mine, mine.subdevice, nv_ctrl.GR_GET_INFO, [0x0C], count="grInfoListSize",
        where="grInfoList",
    )  # fmt: skip
    assert found == [CHIPS[name][0]]


def test_the_shape_of_hopper(client):
    mine = client()
    found = info(
        mine, mine.subdevice, nv_ctrl.GR_GET_INFO, [0x0D, 0x14, 0x17, 0x20],
        count="grInfoListSize", where="grInfoList",
    )  # fmt: skip
    assert found == [64, 8, 9, 2]


@pytest.mark.refusal
def test_an_unknown_index_of_a_list(client):
    mine = client()
    with pytest.raises(Status):
        info(mine, mine.subdevice, nv_ctrl.GR_GET_INFO, [0x99], count="grInfoListSize",
             where="grInfoList")  # fmt: skip
    assert "index 0x99 is not simulated" in why(mine)


def test_memory_and_bar_sizes_are_told_in_kib(client):
    mine = client(vram=1 << 30, bar1=1 << 28)
    mine.memory(1 << 20)
    found = info(
        mine, mine.subdevice, nv_ctrl.FB_GET_INFO, [5, 8, 0x16], count="fbInfoListSize",
        where="fbInfoList",
    )  # fmt: skip
    assert found == [1 << 18, 1 << 20, (1 << 20) - 1024]


@pytest.mark.parametrize(("mig", "mode"), [(False, 0), (True, 2)])
def test_slices(client, mig, mode):
    mine = client(mig=mig)
    found = info(
        mine, mine.subdevice, nv_ctrl.GPU_GET_INFO, [0x2A], count="gpuInfoListSize",
        where="gpuInfoList",
    )  # fmt: skip
    assert found == [mode]


@pytest.mark.parametrize(("wanted", "feature"), [(False, 0), (True, 2)])
def test_confidential_computing_can_be_asked_for(client, wanted, feature):
    mine = client(confidential=wanted)
    target = mine.rm_alloc(mine.root, 0, 0xCB33, bytes(8))
    assert mine.control(target, nv_ctrl.CONFIDENTIAL_CAPABILITIES).ccFeature == feature


@pytest.mark.refusal
def test_a_gpu_off_the_bus_answers_nothing(client):
    mine = client()
    mine.host.lose_gpu()
    assert status(mine.control, mine.subdevice, nv_ctrl.GET_GID_INFO, flags=2) == 0x0F


def test_the_same_seed_gives_the_same_log():
    def digest():
        host = Machine(["sm_90"], seed=9)
        try:
            mine = Client(host).attach()
            channel = mine.channel()
            channel.submit(0x2001_0002, 0)
            assert channel.finished()
            return host.log_hash
        finally:
            host.shut_down()

    assert digest() == digest()
