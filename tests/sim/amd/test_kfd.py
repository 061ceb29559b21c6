import ctypes
import errno

import pytest

from hcq.errors import IoctlError
from hcq.ioctl_defs import Ioctl, kfd

PAGE = 4096
GTT = 0xD6000002
VRAM = 0xD0000001
VISIBLE_VRAM = 0xF0000001


def refused(number):
    return pytest.raises(IoctlError, match=rf"errno={errno.errorcode.get(number, number)}")


def test_the_interface_version_is_the_machines(bare_client):
    version = bare_client(kfd=(1, 11)).call(kfd.GET_VERSION)
    assert (version.major_version, version.minor_version) == (1, 11)


@pytest.mark.row("SIM-03")
@pytest.mark.refusal
@pytest.mark.parametrize("number", [0x00, 0x1D, 0x20, 0x22, 0x26, 0x30, 0x7F, 0x80, 0x85, 0xFF])
def test_an_unknown_request_is_enotty(bare_client, number):
    unknown = Ioctl("KFD_UNKNOWN", 3 << 30 | 8 << 16 | 0x4B << 8 | number,
                    "struct kfd_ioctl_free_memory_of_gpu_args", kfd.ffi)  # fmt: skip
    client = bare_client()
    with refused(errno.ENOTTY) as refusal:
        client.host.ioctl(client.fd, unknown, unknown.args())
    assert refusal.value.errno == errno.ENOTTY


@pytest.mark.refusal
def test_a_request_newer_than_the_interface_is_enotty(client):
    with refused(errno.ENOTTY):
        client(kfd=(1, 11)).call(kfd.RUNTIME_ENABLE)


@pytest.mark.row("SIM-04")
@pytest.mark.parametrize("call", [kfd.CREATE_QUEUE, kfd.CREATE_QUEUE_1_16])
def test_old_and_new_struct_sizes_are_taken(client, call):
    c = client()
    fields, *_ = c.queue_fields()
    assert c.call(call, **fields).doorbell_offset >> 62 == 3


def test_the_machine_knows_why_it_refused(client):
    c = client()
    with refused(errno.EINVAL):
        c.allocate(0)
    name, number, why = c.host.refusals[-1]
    assert (name, number) == ("KFD_ALLOC_MEMORY_OF_GPU", errno.EINVAL)
    assert "no bytes" in why


def test_a_refused_call_says_name_and_fields(client):
    with pytest.raises(IoctlError, match="KFD_ALLOC_MEMORY_OF_GPU: Invalid argument; va_addr=0x"):
        client().allocate(0)


# The VM


@pytest.mark.refusal
def test_acquiring_with_a_file_that_is_no_render_node_is_refused(bare_client):
    c = bare_client()
    with refused(errno.EINVAL):
        c.call(kfd.ACQUIRE_VM, drm_fd=c.fd, gpu_id=c.gpu_id)


def test_acquiring_twice_with_one_file_is_allowed(client):
    client().acquire()


@pytest.mark.refusal
def test_acquiring_through_another_open_of_the_node_is_busy(client):
    c = client()
    c.render = c.host.open("/dev/dri/renderD128")
    with refused(errno.EBUSY):
        c.acquire()


@pytest.mark.refusal
def test_the_vm_stays_after_the_files_are_closed(client):
    c = client()
    c.host.close(c.render)
    c.host.close(c.fd)
    c.fd, c.render = c.host.open("/dev/kfd"), c.host.open("/dev/dri/renderD128")
    with refused(errno.EBUSY):
        c.acquire()


@pytest.mark.refusal
def test_allocating_before_the_vm_is_acquired_is_enodev(bare_client):
    with refused(errno.ENODEV):
        bare_client().allocate(PAGE)


# Memory


def test_memory_lies_at_its_gpu_address(client):
    buffer = client().memory(PAGE)
    buffer.region.write32(8, 0x12345678)
    assert ctypes.c_uint32.from_address(buffer.address + 8).value == 0x12345678


@pytest.mark.row("SIM-06")
@pytest.mark.parametrize("size", [PAGE, 4 << 20])
def test_fresh_memory_holds_noise(client, size):
    data = client().memory(size).region.read(0, PAGE)
    assert len(set(data)) > 200


def test_a_buffer_can_be_seen_at_a_second_address(client):
    c = client()
    made = c.allocate(2 * PAGE, VISIBLE_VRAM)
    region = c.host.mmap(c.render, 2 * PAGE, made.mmap_offset)
    region.write32(PAGE, 77)
    assert region.address != made.va_addr
    assert ctypes.c_uint32.from_address(made.va_addr + PAGE).value == 77


def test_mapping_tells_how_many_devices_are_done(client):
    c = client()
    made = c.allocate(PAGE)
    assert c.map(made.handle).n_success == 1
    assert c.host.gpus[0].memory.ranges() == [(made.va_addr, made.va_addr + PAGE, 7)]


def test_flags_decide_what_a_gpu_may_do(client):
    c = client()
    made = c.allocate(PAGE, kfd.ALLOC_GTT)
    c.map(made.handle)
    assert c.host.gpus[0].memory.ranges()[0][2] == 1


def test_mapping_again_is_allowed(client):
    c = client()
    made = c.allocate(PAGE)
    c.map(made.handle)
    assert c.map(made.handle).n_success == 1


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("size", "flags", "address"),
    [
        (0, GTT, None),
        (PAGE + 1, GTT, None),
        (PAGE, GTT, 0x1800),
        (PAGE, 1 << 31, None),
        (PAGE, GTT, 1 << 47),
        (PAGE, kfd.ALLOC_DOORBELL, None),
        (2 * PAGE, kfd.ALLOC_MMIO_REMAP, None),
    ],
)
def test_bad_allocations_are_einval(client, size, flags, address):
    with refused(errno.EINVAL):
        client().allocate(size, flags, address)


@pytest.mark.refusal
def test_an_unknown_gpu_is_einval(client):
    c = client()
    c.gpu_id = 7
    with refused(errno.EINVAL):
        c.allocate(PAGE)


@pytest.mark.refusal
def test_memory_over_the_program_itself_is_refused(client):
    own = ctypes.create_string_buffer(PAGE)
    address = ctypes.addressof(own) // PAGE * PAGE
    with refused(errno.EINVAL):
        client().allocate(PAGE, GTT, address)


@pytest.mark.refusal
def test_more_vram_than_there_is_is_enomem(client):
    c = client(vram=1 << 20)
    c.allocate(1 << 20, VRAM)
    with refused(errno.ENOMEM):
        c.allocate(PAGE, VRAM)


def test_freed_vram_can_be_had_again(client):
    c = client(vram=1 << 20)
    for _ in range(3):
        made = c.allocate(1 << 20, VRAM)
        c.call(kfd.FREE_MEMORY_OF_GPU, handle=made.handle)
    assert c.call(kfd.AVAILABLE_MEMORY, gpu_id=c.gpu_id).available == 1 << 20


@pytest.mark.refusal
def test_more_host_memory_than_gpus_may_use_is_enomem(client):
    with refused(errno.ENOMEM):
        client(gtt=1 << 20).allocate(2 << 20)


@pytest.mark.refusal
def test_visible_vram_needs_a_large_bar(client):
    with refused(errno.EINVAL):
        client(large_bar=False).allocate(PAGE, VISIBLE_VRAM)


@pytest.mark.refusal
def test_vram_without_cpu_access_cannot_be_mapped_by_the_host(client):
    c = client()
    made = c.allocate(PAGE, VRAM)
    with pytest.raises(PermissionError, match="without CPU access"):
        c.host.mmap(c.render, PAGE, made.mmap_offset, made.va_addr)


@pytest.mark.refusal
def test_freeing_a_mapped_buffer_is_busy(client):
    c = client()
    buffer = c.memory(PAGE)
    with refused(errno.EBUSY):
        c.call(kfd.FREE_MEMORY_OF_GPU, handle=buffer.handle)


@pytest.mark.refusal
def test_freeing_twice_is_einval(client):
    c = client()
    made = c.allocate(PAGE)
    c.call(kfd.FREE_MEMORY_OF_GPU, handle=made.handle)
    with refused(errno.EINVAL):
        c.call(kfd.FREE_MEMORY_OF_GPU, handle=made.handle)


@pytest.mark.refusal
def test_a_map_array_that_leads_nowhere_is_efault(client):
    c = client()
    made = c.allocate(PAGE)
    with refused(errno.EFAULT):
        c.call(kfd.MAP_MEMORY_TO_GPU, handle=made.handle, device_ids_array_ptr=8, n_devices=1)


@pytest.mark.refusal
def test_mapping_for_no_device_is_einval(client):
    c = client()
    made = c.allocate(PAGE)
    with refused(errno.EINVAL):
        c.call(kfd.MAP_MEMORY_TO_GPU, handle=made.handle)


def test_a_map_that_fails_half_way_tells_how_far_it_came(client):
    c = client(count=2)
    made = c.allocate(PAGE)
    ids = kfd.ffi.new("uint32_t[]", [c.gpu_id, 0x5E32])
    args = kfd.MAP_MEMORY_TO_GPU.args(
        handle=made.handle,
        device_ids_array_ptr=int(kfd.ffi.cast("uintptr_t", ids)),
        n_devices=2,
    )
    with refused(errno.ENODEV):
        c.host.ioctl(c.fd, kfd.MAP_MEMORY_TO_GPU, args)
    assert args.n_success == 1


def test_a_freed_buffer_stays_readable_until_its_view_is_unmapped(client):
    c = client()
    buffer = c.memory(PAGE)
    buffer.region.write32(0, 5)
    c.unmap(buffer.handle)
    c.call(kfd.FREE_MEMORY_OF_GPU, handle=buffer.handle)
    assert buffer.region.read32(0) == 5
    c.host.munmap(buffer.region)


def test_unmapping_the_view_first_keeps_the_buffer_for_the_gpu(client):
    c = client()
    buffer = c.memory(PAGE)
    buffer.region.write32(0, 5)
    c.host.munmap(buffer.region)
    assert c.host.gpus[0].memory.read32(buffer.address) == 5


def test_an_address_can_be_used_again(client):
    c = client()
    address = c.host.reserve(PAGE)
    for _ in range(3):
        made = c.allocate(PAGE, GTT, address)
        c.map(made.handle)
        c.unmap(made.handle)
        c.call(kfd.FREE_MEMORY_OF_GPU, handle=made.handle)
    c.host.release(address, PAGE)


def test_user_memory_is_mapped_where_it_is(client):
    c = client()
    region = c.host.mmap(-1, PAGE, 0)
    region.write32(4, 9)
    made = c.call(
        kfd.ALLOC_MEMORY_OF_GPU, va_addr=region.address, mmap_offset=region.address,
        size=PAGE, gpu_id=c.gpu_id, flags=kfd.ALLOC_USERPTR | kfd.ALLOC_WRITABLE,
    )  # fmt: skip
    c.map(made.handle)
    assert c.host.gpus[0].memory.read32(region.address + 4) == 9


def test_two_gpus_use_one_buffer(machine, client):
    first = client(count=2)
    second = type(first)(first.host, 1).acquire()
    made = first.allocate(PAGE)
    first.map(made.handle, gpu_ids=[first.gpu_id, second.gpu_id])
    queue = second.queue()
    at = made.va_addr
    queue.submit(0xC0033700, 0x00100500, at & 0xFFFFFFFF, at >> 32, 5)
    assert queue.finished()
    assert first.host.gpus[0].memory.read32(at) == 5


# Queues


@pytest.mark.row("SIM-04")
def test_a_doorbell_offset_names_type_gpu_and_cell(client):
    c = client()
    fields, *_ = c.queue_fields()
    made = c.call(kfd.CREATE_QUEUE, **fields)
    assert made.doorbell_offset == 3 << 62 | 0x5D31 << 46


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("change", "number"),
    [
        ({"queue_percentage": 101}, errno.EINVAL),
        ({"queue_priority": 16}, errno.EINVAL),
        ({"ring_size": 12288}, errno.EINVAL),
        ({"ring_size": 4096}, errno.EINVAL),
        ({"gpu_id": 1}, errno.EINVAL),
        ({"read_pointer_address": 64}, errno.EFAULT),
        ({"eop_buffer_size": 8192}, errno.EINVAL),
        ({"ctl_stack_size": 0x9000}, errno.EINVAL),
        ({"ctx_save_restore_size": 0x2BE9000}, errno.EINVAL),
        ({"queue_type": 9}, 524),
    ],
)
def test_bad_queues_are_refused(client, change, number):
    c = client()
    fields, *_ = c.queue_fields()
    with refused(number):
        c.call(kfd.CREATE_QUEUE, **(fields | change))


@pytest.mark.row("SIM-03")
@pytest.mark.refusal
@pytest.mark.parametrize("size", [0x2C01000, 0x2C03000])
def test_a_save_area_one_page_off_is_refused(client, size):
    c = client()
    fields, *_ = c.queue_fields()
    fields["ctx_save_restore_address"] = c.memory(size, VRAM).address
    with refused(errno.EINVAL):
        c.call(kfd.CREATE_QUEUE, **fields)


@pytest.mark.refusal
def test_pointers_in_a_mapping_of_two_pages_are_refused(client):
    c = client()
    fields, *_ = c.queue_fields()
    fields["write_pointer_address"] = c.memory(2 * PAGE).address
    with refused(errno.EINVAL):
        c.call(kfd.CREATE_QUEUE, **fields)


@pytest.mark.refusal
def test_a_queue_before_the_vm_is_acquired_is_esrch(bare_client):
    region = ctypes.create_string_buffer(64)
    at = ctypes.addressof(region)
    c = bare_client()
    with refused(errno.ESRCH):
        c.call(
            kfd.CREATE_QUEUE, gpu_id=c.gpu_id, ring_size=4096,
            read_pointer_address=at, write_pointer_address=at,
        )  # fmt: skip


@pytest.mark.refusal
def test_buffers_of_a_living_queue_cannot_be_unmapped(client):
    c = client()
    queue = c.queue()
    with refused(errno.EBUSY):
        c.unmap(queue.ring.handle)
    queue.destroy()
    c.unmap(queue.ring.handle)


@pytest.mark.refusal
def test_a_queue_cannot_be_given_another_ring(client):
    queue = client().queue()
    with refused(errno.EINVAL):
        queue.client.call(
            kfd.UPDATE_QUEUE, queue_id=queue.id, ring_base_address=queue.ring.address + 4096,
            ring_size=4096, queue_percentage=100,
        )  # fmt: skip


@pytest.mark.refusal
def test_updating_an_unknown_queue_is_efault(client):
    with refused(errno.EFAULT):
        client().call(kfd.UPDATE_QUEUE, queue_id=9, queue_percentage=100)


@pytest.mark.refusal
def test_destroying_a_queue_twice_is_einval(client):
    queue = client().queue()
    queue.destroy()
    with refused(errno.EINVAL):
        queue.destroy()


@pytest.mark.refusal
def test_copy_queues_run_out(client):
    c = client()
    for _ in range(12):
        c.queue(kfd.QUEUE_TYPE_SDMA)
    with refused(errno.ENOMEM):
        c.queue(kfd.QUEUE_TYPE_SDMA)


@pytest.mark.refusal
def test_a_doorbell_slice_has_exactly_8192_bytes(client):
    c = client()
    fields, *_ = c.queue_fields()
    offset = c.call(kfd.CREATE_QUEUE, **fields).doorbell_offset & ~0x1FFF
    with pytest.raises(OSError, match="8192 bytes"):
        c.host.mmap(c.fd, 4096, offset)


# The rest


def test_the_gpu_counter_runs_at_100_mhz(client):
    c = client(seed=1)
    first = c.call(kfd.GET_CLOCK_COUNTERS, gpu_id=c.gpu_id)
    second = c.call(kfd.GET_CLOCK_COUNTERS, gpu_id=c.gpu_id)
    passed = second.system_clock_counter - first.system_clock_counter
    assert first.system_clock_freq == 10**9
    assert abs((second.gpu_clock_counter - first.gpu_clock_counter) * 10 - passed) <= 10


def test_apertures_lie_above_the_address_space(client):
    c = client()
    entries = kfd.ffi.new("struct kfd_process_device_apertures[4]")
    args = c.call(
        kfd.GET_PROCESS_APERTURES_NEW,
        kfd_process_device_apertures_ptr=int(kfd.ffi.cast("uintptr_t", entries)),
        num_of_nodes=4,
    )
    assert args.num_of_nodes == 1
    assert entries[0].gpu_id == c.gpu_id
    assert entries[0].lds_base > entries[0].gpuvm_limit == (1 << 47) - 1


@pytest.mark.refusal
def test_retrying_page_faults_is_not_permitted(client):
    c = client()
    assert c.call(kfd.SET_XNACK_MODE, xnack_enabled=-1).xnack_enabled == 0
    with refused(errno.EPERM):
        c.call(kfd.SET_XNACK_MODE, xnack_enabled=1)


@pytest.mark.refusal
def test_the_runtime_cannot_be_enabled_while_there_are_queues(client):
    c = client()
    c.queue()
    with refused(errno.EEXIST):
        c.call(kfd.RUNTIME_ENABLE, mode_mask=1)


@pytest.mark.refusal
def test_a_closed_descriptor_is_ebadf(client):
    c = client()
    c.host.close(c.fd)
    with refused(errno.EBADF):
        c.call(kfd.GET_VERSION)
