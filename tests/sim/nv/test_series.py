"""The simulator's own sizes, as literals, beside the structs that are declared for the driver."""

import pytest

from hcq.errors import ConfigError
from hcq.ioctl_defs import nv_abi, nv_ctrl, nv_escape, nv_rm, nv_uvm
from sim.nv import alloc, series

EVERY = (550, 570, 580, 590, 610)


@pytest.mark.row("SIM-05")
@pytest.mark.parametrize(
    ("number", "root", "space", "channel", "schedule", "free", "unregister"),
    [
        (550, 0x6C, 0x30, 0x168, 2, 0x18, 0x1C),
        (570, 0x78, 0x30, 0x170, 2, 0x18, 0x1C),
        (580, 0x78, 0x38, 0x170, 3, 0x18, 0x1C),
        (590, 0x78, 0x38, 0x170, 3, 0x10, 0x0C),
        (610, 0x78, 0x38, 0x178, 3, 0x10, 0x0C),
    ],
)
def test_sizes_that_changed(number, root, space, channel, schedule, free, unregister):
    found = series.SERIES[number]
    assert (found.alloc[0x41], found.alloc[0x90F1], found.alloc[0x6F]) == (root, space, channel)
    assert (found.control[0xA06C0101], found.uvm[34], found.uvm[28]) == (schedule, free, unregister)


@pytest.mark.parametrize("number", EVERY)
def test_allocation_structs_have_the_size_that_is_copied(number):
    found = series.SERIES[number]
    assert found.address_space.size == found.alloc[0x90F1]
    assert found.channel.size == found.alloc[0x6F]


@pytest.mark.parametrize(
    ("params", "key"),
    [
        (nv_rm.DEVICE, 0x80), (nv_rm.SUBDEVICE, 0x2080), (nv_rm.MEMORY, 0x40),
        (nv_rm.CHANNEL_GROUP, 0xA06C), (nv_rm.CONTEXT_SHARE, 0x9067), (nv_rm.USERMODE, 0x61),
        (nv_rm.DEBUGGER, 0x83DE), (nv_rm.CONFIDENTIAL, 0xCB33),
    ],
)  # fmt: skip
def test_allocation_structs_of_all_series(params, key):
    assert params.size == series.SERIES[580].alloc[key]
    assert key in alloc.ALLOCATORS


@pytest.mark.parametrize("control", nv_ctrl.CONTROLS, ids=lambda c: c.name)
def test_control_structs_of_the_oldest_series(control):
    assert control.size == series.SERIES[550].control[control.number]


@pytest.mark.parametrize("call", nv_uvm.CALLS, ids=lambda c: c.name)
def test_unified_memory_structs_of_the_oldest_series(call):
    if call is nv_uvm.DEINITIALIZE:
        assert series.SERIES[550].uvm[call.number] == 0
    else:
        assert call.size == series.SERIES[550].uvm[call.number]


@pytest.mark.parametrize("call", nv_escape.CALLS, ids=lambda c: c.name)
def test_escape_structs(call):
    nr = call.number & 0xFF
    if call is nv_escape.CARD_INFO:
        assert call.size % series.CARD_BYTES == 0
    elif call is nv_escape.RM_ALLOC:
        assert call.size in series.ESCAPES[nr]
    else:
        assert (call.size,) == series.ESCAPES[nr]


@pytest.mark.parametrize("abi", nv_abi.SERIES, ids=lambda abi: str(abi.series))
def test_a_series_means_its_newest_version(abi):
    version, found = series.resolve(str(abi.series))
    assert (version, found.number) == (abi.newest, abi.series)


def test_595_is_of_the_series_590():
    assert series.resolve("595.45.04")[1].number == 590


def test_a_version_of_an_unknown_branch_keeps_its_number():
    assert series.resolve("999.10.01")[0] == "999.10.01"


@pytest.mark.refusal
@pytest.mark.parametrize(("driver", "text"), [("999", "series 999 is not known"), ("x", "no ver")])
def test_unknown_series(driver, text):
    with pytest.raises(ConfigError, match=text):
        series.resolve(driver)
