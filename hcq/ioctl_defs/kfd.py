"""KFD ioctls: the AMD compute device file, /dev/kfd.

Source: Linux include/uapi/linux/kfd_ioctl.h, interface versions 1.11 to 1.17.
Only what the driver calls or the kernel side must answer is declared; order and
spelling are the header's. The kernel dispatches on the number alone, copies the
caller's size and zero-fills or cuts to its own struct.
"""

from collections.abc import Callable
from dataclasses import replace

from cffi import FFI

from hcq.bits import Layout
from hcq.ioctl_defs import Ioctl, ListField, ior, iow, iowr

Direction = Callable[[FFI, str, str, int, str], Ioctl]

ffi = FFI()
ffi.cdef("""
struct kfd_ioctl_get_version_args {
    uint32_t major_version;             /* from KFD */
    uint32_t minor_version;             /* from KFD */
};
/* 1.17 form, 96 bytes; up to 1.16 it ends after ctl_stack_size, 88 bytes. */
struct kfd_ioctl_create_queue_args {
    uint64_t ring_base_address;
    uint64_t write_pointer_address;     /* in, whatever the header says: user memory, GPU-mapped */
    uint64_t read_pointer_address;      /* in, likewise */
    uint64_t doorbell_offset;           /* from KFD */
    uint32_t ring_size;
    uint32_t gpu_id;
    uint32_t queue_type;
    uint32_t queue_percentage;
    uint32_t queue_priority;
    uint32_t queue_id;                  /* from KFD */
    uint64_t eop_buffer_address;
    uint64_t eop_buffer_size;
    uint64_t ctx_save_restore_address;
    uint32_t ctx_save_restore_size;
    uint32_t ctl_stack_size;
    uint32_t sdma_engine_id;
    uint32_t pad;
};
struct kfd_ioctl_create_queue_1_16_args {
    uint64_t ring_base_address;
    uint64_t write_pointer_address;
    uint64_t read_pointer_address;
    uint64_t doorbell_offset;
    uint32_t ring_size;
    uint32_t gpu_id;
    uint32_t queue_type;
    uint32_t queue_percentage;
    uint32_t queue_priority;
    uint32_t queue_id;
    uint64_t eop_buffer_address;
    uint64_t eop_buffer_size;
    uint64_t ctx_save_restore_address;
    uint32_t ctx_save_restore_size;
    uint32_t ctl_stack_size;
};
struct kfd_ioctl_destroy_queue_args {
    uint32_t queue_id;
    uint32_t pad;
};
struct kfd_ioctl_update_queue_args {
    uint64_t ring_base_address;
    uint32_t queue_id;
    uint32_t ring_size;
    uint32_t queue_percentage;
    uint32_t queue_priority;
};
struct kfd_ioctl_set_memory_policy_args {
    uint64_t alternate_aperture_base;
    uint64_t alternate_aperture_size;
    uint32_t gpu_id;
    uint32_t default_policy;
    uint32_t alternate_policy;
    uint32_t pad;
};
struct kfd_ioctl_get_clock_counters_args {
    uint64_t gpu_clock_counter;         /* from KFD */
    uint64_t cpu_clock_counter;         /* from KFD */
    uint64_t system_clock_counter;      /* from KFD */
    uint64_t system_clock_freq;         /* from KFD */
    uint32_t gpu_id;
    uint32_t pad;
};
struct kfd_process_device_apertures {
    uint64_t lds_base;
    uint64_t lds_limit;
    uint64_t scratch_base;
    uint64_t scratch_limit;
    uint64_t gpuvm_base;
    uint64_t gpuvm_limit;
    uint32_t gpu_id;
    uint32_t pad;
};
struct kfd_ioctl_get_process_apertures_new_args {
    uint64_t kfd_process_device_apertures_ptr;
    uint32_t num_of_nodes;              /* in: room, out: entries */
    uint32_t pad;
};
struct kfd_ioctl_create_event_args {
    uint64_t event_page_offset;         /* in: handle of the page or 0; out: mmap offset */
    uint32_t event_trigger_data;        /* from KFD */
    uint32_t event_type;
    uint32_t auto_reset;
    uint32_t node_id;
    uint32_t event_id;                  /* from KFD */
    uint32_t event_slot_index;          /* from KFD */
};
struct kfd_ioctl_destroy_event_args { uint32_t event_id; uint32_t pad; };
struct kfd_ioctl_set_event_args { uint32_t event_id; uint32_t pad; };
struct kfd_ioctl_reset_event_args { uint32_t event_id; uint32_t pad; };
struct kfd_memory_exception_failure {
    uint32_t NotPresent;
    uint32_t ReadOnly;
    uint32_t NoExecute;
    uint32_t imprecise;
};
struct kfd_hsa_memory_exception_data {
    struct kfd_memory_exception_failure failure;
    uint64_t va;
    uint32_t gpu_id;
    uint32_t ErrorType;
};
struct kfd_hsa_hw_exception_data {
    uint32_t reset_type;
    uint32_t reset_cause;
    uint32_t memory_lost;
    uint32_t gpu_id;
};
struct kfd_hsa_signal_event_data { uint64_t last_event_age; };   /* 1.14 */
struct kfd_event_data {
    union {
        struct kfd_hsa_memory_exception_data memory_exception_data;
        struct kfd_hsa_hw_exception_data hw_exception_data;
        struct kfd_hsa_signal_event_data signal_event_data;
    };
    uint64_t kfd_event_data_ext;
    uint32_t event_id;
    uint32_t pad;
};
struct kfd_ioctl_wait_events_args {
    uint64_t events_ptr;
    uint32_t num_events;
    uint32_t wait_for_all;
    uint32_t timeout;                   /* ms; 0 polls, 0xffffffff forever */
    uint32_t wait_result;               /* from KFD */
};
struct kfd_ioctl_set_scratch_backing_va_args {
    uint64_t va_addr;
    uint32_t gpu_id;
    uint32_t pad;
};
struct kfd_ioctl_set_trap_handler_args {
    uint64_t tba_addr;
    uint64_t tma_addr;
    uint32_t gpu_id;
    uint32_t pad;
};
struct kfd_ioctl_acquire_vm_args {
    uint32_t drm_fd;
    uint32_t gpu_id;
};
struct kfd_ioctl_alloc_memory_of_gpu_args {
    uint64_t va_addr;
    uint64_t size;
    uint64_t handle;                    /* from KFD */
    uint64_t mmap_offset;               /* in: CPU address (userptr); out: mmap offset */
    uint32_t gpu_id;
    uint32_t flags;
};
struct kfd_ioctl_free_memory_of_gpu_args { uint64_t handle; };
struct kfd_ioctl_map_memory_to_gpu_args {
    uint64_t handle;
    uint64_t device_ids_array_ptr;
    uint32_t n_devices;
    uint32_t n_success;                 /* in and out */
};
struct kfd_ioctl_unmap_memory_from_gpu_args {
    uint64_t handle;
    uint64_t device_ids_array_ptr;
    uint32_t n_devices;
    uint32_t n_success;                 /* in and out */
};
struct kfd_ioctl_set_cu_mask_args {
    uint32_t queue_id;
    uint32_t num_cu_mask;
    uint64_t cu_mask_ptr;
};
struct kfd_ioctl_set_xnack_mode_args { int32_t xnack_enabled; };
struct kfd_ioctl_get_available_memory_args {
    uint64_t available;                 /* from KFD */
    uint32_t gpu_id;
    uint32_t pad;
};
struct kfd_ioctl_runtime_enable_args {
    uint64_t r_debug;
    uint32_t mode_mask;
    uint32_t capabilities_mask;         /* from KFD */
};
""")


def _call(
    direction: Direction, name: str, number: int, struct: str, *lists: ListField
) -> Ioctl:
    made = direction(ffi, f"KFD_{name}", "K", number, f"struct kfd_ioctl_{struct}_args")
    return replace(made, lists=lists)


_DEVICE_IDS = ListField("device_ids_array_ptr", "uint32_t", "n_devices")


GET_VERSION                = _call(ior, "GET_VERSION", 0x01, "get_version")
CREATE_QUEUE               = _call(iowr, "CREATE_QUEUE", 0x02, "create_queue")
CREATE_QUEUE_1_16          = _call(iowr, "CREATE_QUEUE", 0x02, "create_queue_1_16")
DESTROY_QUEUE              = _call(iowr, "DESTROY_QUEUE", 0x03, "destroy_queue")
SET_MEMORY_POLICY          = _call(iow, "SET_MEMORY_POLICY", 0x04, "set_memory_policy")
GET_CLOCK_COUNTERS         = _call(iowr, "GET_CLOCK_COUNTERS", 0x05, "get_clock_counters")
UPDATE_QUEUE               = _call(iow, "UPDATE_QUEUE", 0x07, "update_queue")
CREATE_EVENT               = _call(iowr, "CREATE_EVENT", 0x08, "create_event")
DESTROY_EVENT              = _call(iow, "DESTROY_EVENT", 0x09, "destroy_event")
SET_EVENT                  = _call(iow, "SET_EVENT", 0x0A, "set_event")
RESET_EVENT                = _call(iow, "RESET_EVENT", 0x0B, "reset_event")
WAIT_EVENTS                = _call(
    iowr, "WAIT_EVENTS", 0x0C, "wait_events",
    ListField("events_ptr", "struct kfd_event_data", "num_events"),
)
SET_SCRATCH_BACKING_VA     = _call(iowr, "SET_SCRATCH_BACKING_VA", 0x11, "set_scratch_backing_va")
SET_TRAP_HANDLER           = _call(iow, "SET_TRAP_HANDLER", 0x13, "set_trap_handler")
GET_PROCESS_APERTURES_NEW  = _call(
    iowr, "GET_PROCESS_APERTURES_NEW", 0x14, "get_process_apertures_new",
    ListField(
        "kfd_process_device_apertures_ptr", "struct kfd_process_device_apertures", "num_of_nodes"
    ),
)
ACQUIRE_VM                 = _call(iow, "ACQUIRE_VM", 0x15, "acquire_vm")
ALLOC_MEMORY_OF_GPU        = _call(iowr, "ALLOC_MEMORY_OF_GPU", 0x16, "alloc_memory_of_gpu")
FREE_MEMORY_OF_GPU         = _call(iow, "FREE_MEMORY_OF_GPU", 0x17, "free_memory_of_gpu")
MAP_MEMORY_TO_GPU          = _call(
    iowr, "MAP_MEMORY_TO_GPU", 0x18, "map_memory_to_gpu", _DEVICE_IDS
)
UNMAP_MEMORY_FROM_GPU      = _call(
    iowr, "UNMAP_MEMORY_FROM_GPU", 0x19, "unmap_memory_from_gpu", _DEVICE_IDS
)
SET_CU_MASK                = _call(
    iow, "SET_CU_MASK", 0x1A, "set_cu_mask",
    ListField("cu_mask_ptr", "uint32_t", "num_cu_mask", per=32),
)
SET_XNACK_MODE             = _call(iowr, "SET_XNACK_MODE", 0x21, "set_xnack_mode")
AVAILABLE_MEMORY           = _call(iowr, "AVAILABLE_MEMORY", 0x23, "get_available_memory")
RUNTIME_ENABLE             = _call(iowr, "RUNTIME_ENABLE", 0x25, "runtime_enable")

NODE = "/dev/kfd"
NUMBER_MASK = 0xFF  # the kernel's table is indexed by these bits of a request

# queue_type
QUEUE_TYPE_COMPUTE      = 0
QUEUE_TYPE_SDMA         = 1
QUEUE_TYPE_COMPUTE_AQL  = 2
QUEUE_TYPE_SDMA_XGMI    = 3
QUEUE_TYPE_SDMA_BY_ENG_ID = 4
MAX_QUEUE_PERCENTAGE    = 100
MAX_QUEUE_PRIORITY      = 15

# event_type
EVENT_SIGNAL            = 0
EVENT_NODECHANGE        = 1
EVENT_DEVICESTATECHANGE = 2
EVENT_HW_EXCEPTION      = 3
EVENT_SYSTEM_EVENT      = 4
EVENT_DEBUG_EVENT       = 5
EVENT_PROFILE_EVENT     = 6
EVENT_QUEUE_EVENT       = 7
EVENT_MEMORY            = 8

WAIT_RESULT_COMPLETE    = 0
WAIT_RESULT_TIMEOUT     = 1
WAIT_RESULT_FAIL        = 2
WAIT_FOREVER            = 0xFFFF_FFFF

# The event page: one 8-byte slot per signal event, all ones while unsignaled.
SIGNAL_EVENT_LIMIT      = 4096
EVENT_PAGE_SIZE         = 0x8000
EVENT_SLOT_SIZE         = 8
UNSIGNALED_EVENT_SLOT   = (1 << 64) - 1
FIRST_NONSIGNAL_EVENT_ID = 0x4000_0000  # Source: Linux amdkfd/kfd_events.h

HW_EXCEPTION_WHOLE_GPU_RESET  = 0
HW_EXCEPTION_PER_ENGINE_RESET = 1
HW_EXCEPTION_GPU_HANG   = 0
HW_EXCEPTION_ECC        = 1

MEM_ERR_NO_RAS          = 0
MEM_ERR_SRAM_ECC        = 1
MEM_ERR_POISON_CONSUMED = 2
MEM_ERR_GPU_HANG        = 3

# ALLOC_MEMORY_OF_GPU flags
ALLOC_VRAM              = 1 << 0
ALLOC_GTT               = 1 << 1
ALLOC_USERPTR           = 1 << 2
ALLOC_DOORBELL          = 1 << 3
ALLOC_MMIO_REMAP        = 1 << 4
ALLOC_CONTIGUOUS_BEST_EFFORT = 1 << 23
ALLOC_EXT_COHERENT      = 1 << 24
ALLOC_UNCACHED          = 1 << 25
ALLOC_COHERENT          = 1 << 26
ALLOC_AQL_QUEUE_MEM     = 1 << 27
ALLOC_NO_SUBSTITUTE     = 1 << 28
ALLOC_PUBLIC            = 1 << 29
ALLOC_EXECUTABLE        = 1 << 30
ALLOC_WRITABLE          = 1 << 31

# mmap offsets on /dev/kfd. Source: Linux amdkfd/kfd_priv.h, KFD_MMAP_TYPE_*.
MMAP_OFFSET = Layout("KFD_MMAP", 64, {
    "type":   (63, 62),
    "gpu_id": (61, 46),
    "offset": (45,  0),
})
MMAP_TYPE_DOORBELL      = 3
MMAP_TYPE_EVENTS        = 2
MMAP_TYPE_RESERVED_MEM  = 1
MMAP_TYPE_MMIO          = 0
# The slice of doorbells one process gets per GPU; a queue's doorbell_offset lies in it.
DOORBELL_SLICE          = 8192

# Buffer handles. Source: Linux amdkfd/kfd_chardev.c, MAKE_HANDLE.
HANDLE = Layout("KFD_HANDLE", 64, {
    "gpu_id": (63, 32),
    "idr":    (31,  0),
})

# queue_percentage since 1.16: bits 15:8 name the XCC of a PM4 queue.
QUEUE_PERCENTAGE = Layout("KFD_QUEUE_PERCENTAGE", 32, {
    "target_xcc": (15, 8),
    "percentage": ( 7, 0),
})

EOP_BUFFER_SIZE         = 4096
# Exception codes of queues and devices as they appear in a save area.
# Source: interface 1.13, enum kfd_dbg_trap_exception_code.
EXCEPTION_CODES = {
    1: "wave abort", 2: "wave trap", 3: "wave math error", 4: "illegal instruction",
    5: "memory violation", 6: "aperture violation", 16: "bad dispatch dimensions",
    17: "bad LDS size", 18: "bad code object", 19: "reserved packet", 20: "unsupported packet",
    21: "bad work-group size", 22: "bad register", 23: "unsupported vendor packet",
    30: "preemption error", 31: "new queue", 32: "queue deleted",
    33: "memory violation", 34: "RAS error", 35: "fatal halt", 36: "new device",
    48: "runtime", 49: "device removed",
}  # fmt: skip

TOPOLOGY = "/sys/devices/virtual/kfd/kfd/topology"
