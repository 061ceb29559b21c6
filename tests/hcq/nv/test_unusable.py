"""GPUs, memory and code that cannot be used are told as what they are."""

import errno
import struct

import pytest

from hcq import nv
from hcq.errors import CodeObjectError, DeviceOpenError, OutOfMemory, UnsupportedDevice
from hcq.nv.arch import arch_of, sm_name


@pytest.mark.row("NV-05")
@pytest.mark.refusal
@pytest.mark.parametrize(
    ("version", "text"),
    [
        (0xFFFF_FFFF, "the GPU is an SM version 0xffffffff, which is not supported"),
        (0x87, "the GPU is an SM version 0x87, which is not supported"),
        (0x90F, "the GPU is an SM version 0x90f, which is not supported"),
        (0xD00, "the GPU is an sm_130, which is not supported"),
    ],
)
def test_a_version_that_names_no_chip_is_shown_as_the_driver_gave_it(version, text):
    with pytest.raises(UnsupportedDevice, match=text) as caught:
        arch_of(version, [])
    assert caught.value.facts["sm_version"] == f"{version:#x}"


def test_versions_of_chips_are_still_named():
    assert [sm_name(v) for v in (0x705, 0x809, 0xA04)] == ["sm_75", "sm_89", "sm_120"]


@pytest.mark.row("NV-01")
@pytest.mark.refusal
def test_a_gpu_off_the_bus_is_not_told_as_a_missing_node(machine):
    sim = machine("sm_90")
    sim.lose_gpu(0)
    with pytest.raises(DeviceOpenError, match="/dev/nvidia0 is there, but nothing behind it") as c:
        nv.open(0)
    assert c.value.facts == {"node": "/dev/nvidia0", "errno": "ENODEV"}
    assert "off the bus: see the kernel log (dmesg), then reboot" in c.value.hint


@pytest.mark.row("NV-01")
@pytest.mark.refusal
@pytest.mark.parametrize("number", [errno.ENODEV, errno.ENXIO])
@pytest.mark.parametrize("node", ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0"])
def test_a_node_without_its_module_says_which_to_load(machine, node, number):
    machine("sm_90").deny(node, number)
    with pytest.raises(DeviceOpenError, match=f"{node} is there, but nothing behind it") as caught:
        nv.open(0)
    module = "nvidia_uvm" if node == "/dev/nvidia-uvm" else "nvidia"
    assert f"modprobe {module})" in caught.value.hint


@pytest.mark.row("NV-18")
@pytest.mark.refusal
def test_a_bar1_too_small_to_open_is_told_to_who_opens(machine):
    machine("sm_90", bar1=8 << 20)
    with pytest.raises(OutOfMemory) as caught:
        nv.open(0)
    error = caught.value
    assert error.facts["bar1_size"] == 8 << 20
    assert error.facts["while"] == "opening NV:0"
    assert error.hint == (
        "close other devices of this GPU, and programs that use it; where BAR1 is too small, "
        "turn on resizable BAR in the firmware"
    )


@pytest.mark.row("NV-07")
@pytest.mark.refusal
def test_code_that_takes_up_no_memory_is_refused(device, compiled):
    image = bytearray(compiled("add"))
    (headers,) = struct.unpack_from("<Q", image, 40)
    count, names = struct.unpack_from("<2H", image, 60)
    (texts,) = struct.unpack_from("<Q", image, headers + 64 * names + 24)
    for at in range(headers, headers + 64 * count, 64):
        (name,) = struct.unpack_from("<I", image, at)
        if image[texts + name :].startswith(b".text.add\0"):
            (flags,) = struct.unpack_from("<Q", image, at + 8)
            struct.pack_into("<Q", image, at + 8, flags & ~2)
    text = "section .text.add sh_flags says that the code takes up no memory"
    with pytest.raises(CodeObjectError, match=text):
        device.load(bytes(image), "add")
