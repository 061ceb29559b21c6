"""Chips: rows, class choice, names, and sizes of private memory."""

import pytest

from hcq.errors import UnsupportedDevice
from hcq.nv.arch import Classes, arch_of, choose, sm_name
from hcq.nv.gpu import Shape
from hcq.nv.local import local_size

# Class lists as drivers give them (excerpts), by SM version.
CHIPS = {
    "sm_80": (0x800, [0xC56F, 0xC6C0, 0xC6B5, 0xC561, 0xC461], (0xC56F, 0xC6C0, 0xC6B5, 0xC561)),
    "sm_86": (0x806, [0xC56F, 0xC7C0, 0xC7B5, 0xC461, 0x9067], (0xC56F, 0xC7C0, 0xC7B5, 0xC461)),
    "sm_89": (0x809, [0xC56F, 0xC9C0, 0xC7B5, 0xC561, 0xC461], (0xC56F, 0xC9C0, 0xC7B5, 0xC561)),
    "sm_90": (0x900, [0xC86F, 0xCBC0, 0xC8B5, 0xC661, 0xC56F], (0xC86F, 0xCBC0, 0xC8B5, 0xC661)),
    "sm_100": (0xA00, [0xC96F, 0xCDC0, 0xC9B5, 0xC761, 0xC661], (0xC96F, 0xCDC0, 0xC9B5, 0xC761)),
    "sm_120": (0xA04, [0xCA6F, 0xC96F, 0xCEC0, 0xCAB5, 0xC761], (0xCA6F, 0xCEC0, 0xCAB5, 0xC761)),
}  # fmt: skip


@pytest.mark.row("NV-05")
@pytest.mark.row("NV-06")
@pytest.mark.parametrize("chip", CHIPS)
def test_classes_are_chosen_from_what_the_driver_offers(chip):
    version, offered, expected = CHIPS[chip]
    arch = arch_of(version, offered)
    assert arch.name == chip
    assert choose(arch, offered) == Classes(*expected)


@pytest.mark.row("NV-05")
@pytest.mark.parametrize("version", [0xA04, 0xC00])
def test_consumer_blackwell_is_one_row_under_both_of_its_versions(version):
    # 10.4 is the resource manager's count of generations, 12.0 the compute capability.
    assert arch_of(version, []).name == "sm_120"
    assert arch_of(version, []).compute_class == 0xCEC0


@pytest.mark.row("NV-05")
@pytest.mark.parametrize(
    ("version", "name"),
    [(0x806, "sm_86"), (0x900, "sm_90"), (0xA00, "sm_100"), (0xA04, "sm_120"), (0xC00, "sm_120"),
     (0x705, "sm_75"), (0xC01, "sm_121")],
)  # fmt: skip
def test_names_of_chips(version, name):
    assert sm_name(version) == name


@pytest.mark.row("NV-05")
@pytest.mark.refusal
@pytest.mark.parametrize(
    ("version", "name"), [(0x705, "sm_75"), (0x700, "sm_70"), (0x807, "sm_87")]
)
def test_a_chip_without_a_row_is_refused(version, name):
    with pytest.raises(UnsupportedDevice, match=f"an {name}, which is not supported") as caught:
        arch_of(version, [0xC46F, 0xC5C0])
    assert caught.value.facts["classes"] == "c46f c5c0"
    assert "sm_90" in caught.value.facts["supported"]


@pytest.mark.row("NV-05")
@pytest.mark.refusal
@pytest.mark.parametrize(
    ("kind", "missing"),
    [("channel", 0xC86F), ("compute", 0xCBC0), ("copy", 0xC8B5), ("usermode", 0xC661)],
)
def test_a_class_list_without_one_kind_is_refused(kind, missing):
    version, offered, _ = CHIPS["sm_90"]
    left = [number for number in offered if number != missing]
    with pytest.raises(UnsupportedDevice, match=f"sm_90, but offers no {kind} class"):
        choose(arch_of(version, left), left)


@pytest.mark.row("NV-17")
@pytest.mark.parametrize(
    ("shape", "thread", "per_tpc", "total"),
    [
        # H200: 64 warps, 8 GPCs of 9 TPCs of 2 SMs; 0x240 bytes each.
        (Shape(0x900, 64, 8, 9, 2), 0x240, 0x240000, 0xA200000),
        # A small chip: 48 warps, 1 GPC of 2 TPCs of 2 SMs; 0x350 rounds to 0x360.
        (Shape(0x806, 48, 1, 2, 2), 0x350, 0x288000, 0x520000),
    ],
)
def test_private_memory_of_a_chip(shape, thread, per_tpc, total):
    size = local_size(shape, thread)
    assert (size.bytes_per_tpc, size.total) == (per_tpc, total)
