"""The topology in sysfs, and what is derived from it."""

import errno

import pytest

from hcq.amd import topology
from hcq.amd.arch import GFX1100, save_area, target_name
from hcq.errors import DeviceOpenError
from hcq.ioctl_defs import kfd

ROOT = f"{kfd.TOPOLOGY}/nodes"


@pytest.mark.row("AMD-02")
def test_gpus_are_nodes_with_an_id(machine):
    nodes = topology.gpus(machine(count=2))
    assert [(n.number, n.target, n.render_node) for n in nodes] == [
        (1, "gfx1100", "/dev/dri/renderD128"),
        (2, "gfx1100", "/dev/dri/renderD129"),
    ]
    assert (nodes[0].compute_units, nodes[0].engines, nodes[0].xccs) == (96, 6, 1)


@pytest.mark.row("AMD-02")
def test_masked_nodes_are_left_out(machine):
    assert [n.number for n in topology.gpus(machine(count=2, masked=[0]))] == [2]


@pytest.mark.row("AMD-02")
@pytest.mark.refusal
def test_a_garbled_line_names_file_and_key(machine):
    sim = machine()
    sim.files.add(f"{ROOT}/1/properties", b"simd_count 192\nsimd_per_cu two\n")
    with pytest.raises(DeviceOpenError, match=r"nodes/1/properties is garbled at 'simd_per_cu'"):
        topology.gpus(sim)


@pytest.mark.row("AMD-02")
@pytest.mark.refusal
def test_a_missing_key_names_file_and_key(machine):
    sim = machine()
    sim.files.add(f"{ROOT}/1/properties", b"simd_count 192\n")
    with pytest.raises(DeviceOpenError, match="node 1 lacks 'gfx_target_version'"):
        _ = topology.gpus(sim)[0].target


@pytest.mark.row("AMD-02")
def test_a_change_while_reading_is_read_again(machine):
    sim = machine()
    generations = iter([b"1\n", b"2\n", b"2\n", b"2\n"])
    sim.files.add(f"{kfd.TOPOLOGY}/generation_id", lambda: next(generations))
    assert len(topology.gpus(sim)) == 1
    assert next(generations, None) is None


@pytest.mark.row("AMD-02")
@pytest.mark.refusal
def test_endless_change_is_an_error(machine):
    sim = machine()
    numbers = iter(range(100))
    sim.files.add(f"{kfd.TOPOLOGY}/generation_id", lambda: b"%d\n" % next(numbers))
    with pytest.raises(DeviceOpenError, match="kept changing"):
        topology.gpus(sim)


@pytest.mark.refusal
def test_an_unreadable_topology_names_the_path(machine):
    sim = machine()
    sim.files.remove(ROOT)
    with pytest.raises(DeviceOpenError, match="the topology cannot be read"):
        topology.gpus(sim)


@pytest.mark.row("AMD-03")
@pytest.mark.parametrize(
    ("version", "name"),
    [(110000, "gfx1100"), (90010, "gfx90a"), (90402, "gfx942"), (120001, "gfx1201")],
)
def test_target_names_have_hex_digits(version, name):
    assert target_name(version) == name


@pytest.mark.row("AMD-06")
@pytest.mark.parametrize(
    ("units", "control", "area", "debug", "total"),
    [
        (96, 0xA000, 0x2BEA000, 0x18000, 0x2C02000),  # recorded from ROCm on a 7900 XTX
        (16, 0x2000, 0x752000, 0x4000, 0x756000),
    ],
)
def test_save_area_sizes(units, control, area, debug, total):
    found = save_area(GFX1100, units)
    assert (found.control_stack, found.area, found.debug, found.total) == (
        control, area, debug, total,
    )  # fmt: skip


@pytest.mark.row("AMD-06")
def test_sizes_the_driver_states_are_used(machine):
    from hcq import amd

    machine(save_sizes=True)
    amd.open(0).close()


def test_deny_is_not_garbled(machine):
    sim = machine(count=2)
    sim.deny(f"{ROOT}/1/properties", errno.EPERM)
    assert [n.number for n in topology.gpus(sim)] == [2]


@pytest.mark.row("AMD-02")
@pytest.mark.refusal
@pytest.mark.parametrize(
    ("name", "text", "key"),
    [
        ("properties", "simd_count -192", "simd_count"),
        ("properties", "simd_count 99999999999999999999999", "simd_count"),
        ("properties", "simd_per_cu 0", "simd_per_cu"),
        ("properties", "num_xcc 0", "num_xcc"),
        ("properties", "drm_render_minor -1", "drm_render_minor"),
        ("gpu_id", "-5", "whole file"),
        ("gpu_id", "99999999999", "whole file"),
    ],
)
def test_numbers_no_gpu_can_have_are_garbage(machine, name, text, key):
    from hcq import amd

    host = machine()
    path = f"{kfd.TOPOLOGY}/nodes/1/{name}"
    table = host.read(path).decode().splitlines() if name == "properties" else []
    kept = [line for line in table if line.split()[0] != text.split()[0]]
    host.files.add(path, "\n".join([*kept, text, ""]).encode())
    with pytest.raises(DeviceOpenError, match=rf"nodes/1/{name} is garbled at '\(?{key}"):
        amd.open(0)
