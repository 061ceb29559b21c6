"""ioctl numbers and struct sizes, as measured from the header by a C compiler."""

import pytest

from hcq.ioctl_defs import amdgpu, kfd

NUMBERS = {
    "GET_VERSION": 0x80084B01, "CREATE_QUEUE": 0xC0604B02, "CREATE_QUEUE_1_16": 0xC0584B02,
    "DESTROY_QUEUE": 0xC0084B03, "SET_MEMORY_POLICY": 0x40204B04,
    "GET_CLOCK_COUNTERS": 0xC0284B05, "UPDATE_QUEUE": 0x40184B07, "CREATE_EVENT": 0xC0204B08,
    "DESTROY_EVENT": 0x40084B09, "SET_EVENT": 0x40084B0A, "RESET_EVENT": 0x40084B0B,
    "WAIT_EVENTS": 0xC0184B0C, "SET_SCRATCH_BACKING_VA": 0xC0104B11,
    "SET_TRAP_HANDLER": 0x40184B13, "GET_PROCESS_APERTURES_NEW": 0xC0104B14,
    "ACQUIRE_VM": 0x40084B15, "ALLOC_MEMORY_OF_GPU": 0xC0284B16,
    "FREE_MEMORY_OF_GPU": 0x40084B17, "MAP_MEMORY_TO_GPU": 0xC0184B18,
    "UNMAP_MEMORY_FROM_GPU": 0xC0184B19, "SET_CU_MASK": 0x40104B1A,
    "SET_XNACK_MODE": 0xC0044B21, "AVAILABLE_MEMORY": 0xC0104B23, "RUNTIME_ENABLE": 0xC0104B25,
}  # fmt: skip


@pytest.mark.row("AMD-07")
@pytest.mark.parametrize(("name", "number"), NUMBERS.items())
def test_request_numbers(name, number):
    assert getattr(kfd, name).number == number


@pytest.mark.row("AMD-07")
@pytest.mark.parametrize(
    ("struct", "field", "offset"),
    [
        ("kfd_ioctl_create_queue_args", "doorbell_offset", 24),
        ("kfd_ioctl_create_queue_args", "queue_id", 52),
        ("kfd_ioctl_create_queue_args", "ctx_save_restore_address", 72),
        ("kfd_ioctl_create_queue_args", "sdma_engine_id", 88),
        ("kfd_ioctl_alloc_memory_of_gpu_args", "mmap_offset", 24),
        ("kfd_ioctl_alloc_memory_of_gpu_args", "flags", 36),
        ("kfd_ioctl_create_event_args", "event_slot_index", 28),
        ("kfd_ioctl_wait_events_args", "wait_result", 20),
        ("kfd_event_data", "event_id", 40),
        ("kfd_hsa_memory_exception_data", "va", 16),
        ("kfd_hsa_memory_exception_data", "ErrorType", 28),
    ],
)
def test_field_offsets(struct, field, offset):
    assert kfd.ffi.offsetof(f"struct {struct}", field) == offset


def test_event_data_is_48_bytes():
    assert kfd.ffi.sizeof("struct kfd_event_data") == 48


def test_render_node_requests():
    assert amdgpu.VERSION.number == 0xC0406400
    assert amdgpu.INFO.number == 0x40206445


def test_doorbell_offsets_take_apart():
    assert kfd.MMAP_OFFSET.unpack(0xC000_0000_0000_0000 | 0x5D31 << 46 | 0x1008) == {
        "type": 3, "gpu_id": 0x5D31, "offset": 0x1008,
    }  # fmt: skip
