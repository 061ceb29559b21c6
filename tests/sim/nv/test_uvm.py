"""Simulated unified memory: registrations, ranges, mappings, and how it says no."""

from errno import EINVAL

import pytest
from nv_client import status, why

from hcq.errors import IoctlError
from hcq.ioctl_defs import Ioctl, nv_escape, nv_uvm


@pytest.mark.refusal
@pytest.mark.row("SIM-03")
@pytest.mark.parametrize("number", [0, 1, 35, 64, 76, 0x30000003])
def test_an_unknown_call_is_an_errno(client, number):
    mine = client()
    call = Ioctl("nothing", number, nv_uvm.FREE.struct, nv_uvm.ffi)
    with pytest.raises(IoctlError) as caught:
        mine.host.ioctl(mine.uvm, call, call.args())
    assert caught.value.number == EINVAL
    assert f"call {number:#x} is not simulated" in why(mine)


@pytest.mark.refusal
def test_initialisation_comes_first(bare):
    client = bare()
    uuid = bytes(16)
    assert status(client.unified, nv_uvm.REGISTER_GPU, gpu_uuid=uuid) == 0x16


@pytest.mark.refusal
def test_unknown_flags_and_a_second_way_of_initialising(bare):
    client = bare()
    assert status(client.unified, nv_uvm.INITIALIZE, flags=4) == 0x1F
    client.unified(nv_uvm.INITIALIZE, flags=0)
    client.unified(nv_uvm.INITIALIZE, flags=0)
    assert status(client.unified, nv_uvm.INITIALIZE, flags=1) == 0x1F


def test_a_second_file_can_be_joined(client):
    mine = client()
    second = mine.host.open("/dev/nvidia-uvm")
    mine.unified(nv_uvm.MM_INITIALIZE, fd=second, uvmFd=mine.uvm)
    assert status(mine.unified, nv_uvm.MM_INITIALIZE, fd=second, uvmFd=second) == 0x1F


@pytest.mark.refusal
@pytest.mark.parametrize(("uuid", "expected"), [(b"\1" * 16, 0x12), (None, 0x26)])
def test_unknown_and_repeated_gpus(client, uuid, expected):
    mine = client()
    found = status(mine.unified, nv_uvm.REGISTER_GPU, gpu_uuid=uuid or mine.uuid, rmCtrlFd=-1)
    assert found == expected


@pytest.mark.row("SIM-05")
def test_gpu_and_program_see_memory_at_one_address(client):
    mine = client()
    buffer = mine.buffer()
    memory = mine.host.nvidia.rm.clients[mine.root].find(mine.space).payload.memory
    buffer.region.write32(16, 0x1234)
    assert memory.read32(buffer.address + 16) == 0x1234


def test_a_mapping_can_begin_inside_its_memory(client):
    mine = client()
    handle = mine.memory(8192)
    region = mine.cpu_map(handle, 8192)
    region.write32(4096, 77)
    address = mine.host.reserve(4096)
    mine.gpu_map(handle, 4096, address, offset=4096)
    memory = mine.host.nvidia.rm.clients[mine.root].find(mine.space).payload.memory
    assert memory.read32(address) == 77


def test_a_view_may_come_before_the_mapping(client):
    mine = client()
    handle = mine.memory(8192)
    address = mine.host.reserve(8192)
    region = mine.cpu_map(handle, 4096, address)
    region.write32(0, 5)
    mine.gpu_map(handle, 8192, address)
    memory = mine.host.nvidia.rm.clients[mine.root].find(mine.space).payload.memory
    assert memory.read32(address) == 5
    mine.unified(mine.series.free, base=address, **length(mine, 8192))
    region.write32(0, 6)
    assert region.read32(0) == 6


def length(client, size):
    return {"length": size} if client.series.number < 590 else {}


def test_mappings_outlive_the_memory_object(client):
    mine = client()
    buffer = mine.buffer()
    mine.free(buffer.handle)
    memory = mine.host.nvidia.rm.clients[mine.root].find(mine.space).payload.memory
    assert memory.read32(buffer.address) == 0
    mine.unified(nv_uvm.FREE, base=buffer.address, length=4096)
    mine.host.munmap(buffer.region)
    assert mine.host.nvidia.rm.memories.live() == 0


@pytest.mark.row("SIM-06")
def test_unmapped_memory_is_gone_for_the_gpu_only(client):
    mine = client()
    buffer = mine.buffer()
    mine.unified(nv_uvm.UNMAP_EXTERNAL, base=buffer.address, length=4096, gpuUuid=mine.uuid)
    memory = mine.host.nvidia.rm.clients[mine.root].find(mine.space).payload.memory
    assert not memory.is_mapped(buffer.address, 1)
    assert buffer.region.read32(0) == 0


@pytest.mark.refusal
def test_ranges_do_not_overlap(client):
    mine = client()
    base = mine.host.reserve(8192)
    mine.unified(nv_uvm.CREATE_EXTERNAL_RANGE, base=base, length=8192)
    assert status(mine.unified, nv_uvm.CREATE_EXTERNAL_RANGE, base=base + 4096, length=4096) == 0x68


@pytest.mark.refusal
@pytest.mark.parametrize(("base", "size"), [(0x1001, 4096), (0x1000, 100), (0x1000, 0)])
def test_ranges_are_whole_pages(client, base, size):
    mine = client()
    found = status(mine.unified, nv_uvm.CREATE_EXTERNAL_RANGE, base=base, length=size)
    assert found == 0x1E


@pytest.mark.refusal
def test_a_mapping_needs_a_range(client):
    mine = client()
    assert status(mine.map_external, mine.memory(4096), 4096, 0x10_0000_0000) == 0x1E


@pytest.mark.refusal
def test_a_mapping_stays_inside_its_memory(client):
    mine = client()
    base = mine.host.reserve(8192)
    assert status(mine.gpu_map, mine.memory(4096), 8192, base) == 0x1F


@pytest.mark.refusal
def test_large_pages_are_aligned(client):
    mine = client()
    base = mine.host.reserve(4 << 20, 2 << 20) + 4096
    assert status(mine.gpu_map, mine.memory(2 << 20, huge=True), 2 << 20, base) == 0x1E


def table(client):
    return client.host.nvidia.rm.clients[client.root].find(client.space).payload.memory


def test_a_mapping_takes_the_place_of_the_one_before(client):
    mine = client()
    old, new = mine.memory(8192), mine.memory(4096)
    for handle, value in ((old, 1), (new, 2)):
        mine.cpu_map(handle, 4096).write32(0, value)
    base = mine.host.reserve(8192, 4096, 1 << 40)
    mine.gpu_map(old, 8192, base)
    mine.map_external(old, 8192, base)
    assert table(mine).read32(base) == 1
    mine.unified(nv_uvm.UNMAP_EXTERNAL, base=base, length=8192, gpuUuid=mine.uuid)
    mine.map_external(new, 4096, base)
    assert table(mine).read32(base) == 2


# Which pages of five stay mapped when these (first, count) are unmapped.
@pytest.mark.parametrize(
    ("first", "count", "left"), [(0, 2, [2, 3, 4]), (3, 2, [0, 1, 2]), (1, 2, [0, 3, 4])]
)
def test_a_part_of_a_mapping_is_unmapped_alone(client, first, count, left):
    mine = client()
    buffer = mine.buffer(5 * 4096)
    part = {"base": buffer.address + 4096 * first, "length": 4096 * count}
    mine.unified(nv_uvm.UNMAP_EXTERNAL, gpuUuid=mine.uuid, **part)
    pages = [buffer.address + 4096 * page for page in range(5)]
    assert [i for i, page in enumerate(pages) if table(mine).is_mapped(page, 4096)] == left
    mine.unified(nv_uvm.FREE, base=buffer.address, length=5 * 4096)
    assert table(mine).ranges() == []


@pytest.mark.refusal
def test_large_pages_are_not_unmapped_in_parts(client):
    mine = client()
    base = mine.host.reserve(4 << 20, 2 << 20, 1 << 40)
    mine.gpu_map(mine.memory(4 << 20, huge=True), 4 << 20, base)
    call, uuid = nv_uvm.UNMAP_EXTERNAL, mine.uuid
    part = base + (1 << 20)
    assert status(mine.unified, call, base=part, length=1 << 20, gpuUuid=uuid) == 0x1E
    assert table(mine).is_mapped(base, 4 << 20)
    mine.unified(call, base=base + (2 << 20), length=2 << 20, gpuUuid=uuid)
    assert table(mine).ranges() == [(base, base + (2 << 20), 7)]


@pytest.mark.refusal
def test_an_unknown_way_of_mapping(client):
    mine = client()
    base = mine.host.reserve(4096)
    assert status(mine.gpu_map, mine.memory(4096), 4096, base, kind=9) == 0x1F


@pytest.mark.refusal
def test_an_address_that_the_program_uses_otherwise(client):
    mine = client()
    anonymous = mine.host.mmap(-1, 4096, 0)
    assert status(mine.gpu_map, mine.memory(4096), 4096, anonymous.address) == 0x68


@pytest.mark.parametrize("driver", ["550", "580", "590", "610"])
def test_a_range_is_freed(client, driver):
    mine = client(driver=driver)
    base = mine.host.reserve(4096)
    mine.unified(nv_uvm.CREATE_EXTERNAL_RANGE, base=base, length=4096)
    mine.unified(mine.series.free, base=base, **length(mine, 4096))
    assert status(mine.unified, mine.series.free, base=base, **length(mine, 4096)) == 0x1E


@pytest.mark.refusal
@pytest.mark.row("SIM-03")
def test_the_old_struct_is_misread_by_a_new_driver_as_on_hardware(client):
    mine = client(driver="590")
    base = mine.host.reserve(4096)
    args = nv_uvm.FREE.args(base=base, length=4096)
    mine.host.ioctl(mine.uvm, nv_uvm.FREE, args)
    # The status lies where the old struct has its length.
    assert (args.length & 0xFFFFFFFF, args.rmStatus) == (0x1E, 0)


def test_pinned_memory_has_its_own_address(client):
    mine = client()
    region = mine.host.mmap(-1, 8192, 0)
    args = nv_escape.RM_ALLOC_MEMORY.args(
        hRoot=mine.root, hObjectParent=mine.device, hObjectNew=0x77, hClass=0x71,
        flags=1 << 4 | 1 << 12 | 1 << 30, pMemory=region.address, limit=8191, fd=-1,
    )  # fmt: skip
    mine.host.ioctl(mine.node, nv_escape.RM_ALLOC_MEMORY, args)
    assert args.status == 0
    mine.gpu_map(0x77, 8192, region.address)
    region.write32(8, 9)
    memory = mine.host.nvidia.rm.clients[mine.root].find(mine.space).payload.memory
    assert memory.read32(region.address + 8) == 9
    elsewhere = mine.host.reserve(8192)
    assert status(mine.gpu_map, 0x77, 8192, elsewhere) == 0x56


@pytest.mark.refusal
def test_a_small_span_for_context_buffers(client):
    mine = client()
    assert status(mine.channel, span=1 << 20) == 0x68


@pytest.mark.parametrize("driver", ["580", "590"])
def test_a_channel_can_be_unregistered_after_it_is_freed(client, driver):
    mine = client(driver=driver)
    channel = mine.channel()
    mine.free(channel.handle)
    uuid = {"gpuUuid": mine.uuid} if driver == "580" else {}
    call = mine.series.unregister_channel
    fields = {"hClient": mine.root, "hChannel": channel.handle, **uuid}
    mine.unified(call, **fields)
    assert status(mine.unified, call, **fields) == 0x1F


def test_peers_have_to_be_enabled(bare):
    first = bare(gpu=["sm_90", "sm_90"]).attach()
    uuid = other_gpu(first)
    fields = {"gpuUuidA": first.uuid, "gpuUuidB": uuid}
    first.unified(nv_uvm.ENABLE_PEER_ACCESS, **fields)
    assert status(first.unified, nv_uvm.ENABLE_PEER_ACCESS, **fields) == 0x26
    first.unified(nv_uvm.DISABLE_PEER_ACCESS, **fields)


@pytest.mark.refusal
def test_peers_can_be_impossible(bare):
    first = bare(gpu=["sm_86", "sm_86"], peers=False).attach()
    fields = {"gpuUuidA": first.uuid, "gpuUuidB": other_gpu(first)}
    assert status(first.unified, nv_uvm.ENABLE_PEER_ACCESS, **fields) == 0x56


def other_gpu(client):
    uuid = client.host.gpus[1].uuid
    client.unified(nv_uvm.REGISTER_GPU, gpu_uuid=uuid, rmCtrlFd=-1)
    return uuid


def test_closing_the_file_ends_every_mapping(client):
    mine = client()
    buffer = mine.buffer()
    memory = mine.host.nvidia.rm.clients[mine.root].find(mine.space).payload.memory
    mine.host.close(mine.uvm)
    assert not memory.is_mapped(buffer.address, 1)
