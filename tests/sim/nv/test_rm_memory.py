"""The simulated resource manager's memory: objects, mappings, the doorbell page, pinned pages."""

from errno import EINVAL

import pytest
from nv_client import Status, status, why

from hcq.ioctl_defs import nv_escape


def test_video_memory_has_an_end(client):
    mine = client(vram=1 << 20)
    first = mine.memory(3 << 18)
    assert status(mine.memory, 1 << 19) == 0x51
    mine.free(first)
    assert mine.memory(1 << 19)


@pytest.mark.refusal
@pytest.mark.parametrize("size", [1 << 47, (1 << 48) + 1, (1 << 64) - 4095, (1 << 64) - 1])
@pytest.mark.parametrize("system", [True, False])
def test_memory_beyond_any_address_space_is_no_memory(client, size, system):
    assert status(client().memory, size, system=system) == 0x51


@pytest.mark.row("SIM-06")
def test_fresh_memory_holds_noise(client):
    mine = client()
    region = mine.cpu_map(mine.memory(8192), 8192)
    assert len(set(region.read(0, 8192))) > 100


def test_two_mappings_show_the_same_bytes(client):
    mine = client()
    handle = mine.memory(8192)
    one, other = mine.cpu_map(handle, 8192), mine.cpu_map(handle, 4096, offset=4096)
    one.write32(4096, 0xABCD1234)
    assert other.read32(0) == 0xABCD1234


@pytest.mark.refusal
def test_one_mapping_for_each_file(client):
    mine = client()
    handle = mine.memory(4096)
    fields = {"hClient": mine.root, "hDevice": mine.device, "hMemory": handle, "length": 4096}
    fd = mine.host.open("/dev/nvidia0")
    mine.escape(nv_escape.RM_MAP_MEMORY, fd=fd, **fields)
    assert status(mine.escape, nv_escape.RM_MAP_MEMORY, fd=fd, **fields) == 0x63


@pytest.mark.refusal
@pytest.mark.parametrize(("system", "path"), [(True, "/dev/nvidia0"), (False, "/dev/nvidiactl")])
def test_the_file_has_to_fit_the_memory(client, system, path):
    mine = client()
    fields = {"hClient": mine.root, "hDevice": mine.device, "length": 4096}
    fields["hMemory"] = mine.memory(4096, system=system)
    fd = mine.host.open(path)
    assert status(mine.escape, nv_escape.RM_MAP_MEMORY, fd=fd, **fields) == 0x1F


@pytest.mark.refusal
def test_mmap_without_a_prepared_mapping(client):
    mine = client()
    with pytest.raises(OSError, match="no mapping was prepared"):
        mine.host.mmap(mine.node, 4096, 0)


@pytest.mark.refusal
@pytest.mark.parametrize("system", [False, True])
@pytest.mark.parametrize("again", [False, True])
def test_a_prepared_mapping_ends_with_its_object(client, system, again):
    mine = client()
    handle = mine.memory(1 << 20, system=system)
    fd = mine.host.open("/dev/nvidiactl" if system else "/dev/nvidia0")
    fields = {"hClient": mine.root, "hDevice": mine.device, "hMemory": handle, "length": 1 << 20}
    mine.escape(nv_escape.RM_MAP_MEMORY, fd=fd, **fields)
    mine.free(handle)
    if again:  # its pages may be those of the object before
        mine.cpu_map(mine.memory(1 << 20, system=system), 1 << 20, system=system).write32(0, 77)
    with pytest.raises(OSError, match="has ended") as caught:
        mine.host.mmap(fd, 1 << 20, 0)
    assert caught.value.errno == EINVAL


@pytest.mark.refusal
def test_a_prepared_mapping_that_was_ended_is_not_made(client):
    mine = client()
    handle = mine.memory(4096)
    fd = mine.host.open("/dev/nvidia0")
    fields = {"hClient": mine.root, "hMemory": handle}
    made = mine.escape(nv_escape.RM_MAP_MEMORY, fd=fd, hDevice=mine.device, length=4096, **fields)
    mine.escape(nv_escape.RM_UNMAP_MEMORY, pLinearAddress=made.pLinearAddress, **fields)
    with pytest.raises(OSError, match="has ended"):
        mine.host.mmap(fd, 4096, 0)


@pytest.mark.refusal
def test_more_than_was_prepared(client):
    mine = client()
    with pytest.raises(Status):
        mine.cpu_map(mine.memory(4096), 8192)


@pytest.mark.refusal
@pytest.mark.row("SIM-06")
def test_views_of_video_memory_are_limited_by_bar1(client):
    mine = client(bar1=1 << 20)
    handle = mine.memory(2 << 20)
    mine.cpu_map(handle, 1 << 20)
    assert status(mine.cpu_map, handle, 4096) == 0x51
    assert "BAR1" in why(mine)
    mine.escape(
        nv_escape.RM_UNMAP_MEMORY, hClient=mine.root, hMemory=handle, pLinearAddress=mine.linear
    )
    assert mine.cpu_map(handle, 4096)


@pytest.mark.refusal
def test_a_mapping_ends_by_its_own_name(client):
    mine = client()
    handle = mine.memory(4096)
    fields = {"hClient": mine.root, "hMemory": handle, "pLinearAddress": 0x1000}
    assert status(mine.escape, nv_escape.RM_UNMAP_MEMORY, **fields) == 0x1E


@pytest.mark.refusal
def test_confidential_video_memory_is_not_mapped(client):
    mine = client(confidential=True)
    assert status(mine.cpu_map, mine.memory(4096), 4096) == 0x56


def test_a_view_outlives_its_memory_object(client):
    mine = client()
    handle = mine.memory(4096)
    region = mine.cpu_map(handle, 4096)
    mine.free(handle)
    region.write32(0, 5)
    assert region.read32(0) == 5
    mine.host.munmap(region)
    assert mine.host.nvidia.rm.memories.live() == 0


@pytest.mark.row("SIM-05")
def test_the_clock_of_the_doorbell_page_runs(client):
    mine = client(seed=1)
    page = mine.cpu_map(mine.rm_alloc(mine.subdevice, 0, 0xC661), 0x10000)
    before = page.read64(0x80)
    mine.host.relax()
    mine.host.relax()
    assert page.window(0x80, 8).read32(0) > before & 0xFFFFFFFF


@pytest.mark.refusal
def test_a_privileged_doorbell_page(client):
    mine = client()
    assert status(mine.rm_alloc, mine.subdevice, 0, 0xC661, b"\x00\x01") == 0x1B


@pytest.mark.refusal
def test_pinning_needs_whole_pages_and_a_handle(client):
    mine = client()
    call, flags = nv_escape.RM_ALLOC_MEMORY, 1 << 4 | 1 << 12 | 1 << 30
    base = {"hRoot": mine.root, "hObjectParent": mine.device, "hClass": 0x71, "flags": flags}
    for fields, expected in (
        ({"hObjectNew": 0}, 0x33),
        ({"hObjectNew": 7, "pMemory": 0x1001, "limit": 4095}, 0x1F),
        ({"hObjectNew": 7, "pMemory": 0x1000, "limit": 4095}, 0x1E),
    ):
        args = call.args(**base, **fields)
        mine.host.ioctl(mine.node, call, args)
        assert args.status == expected
