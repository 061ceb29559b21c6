"""NVIDIA resource manager: calls on /dev/nvidiactl and /dev/nvidiaN.

Source: NVIDIA open-gpu-kernel-modules, kernel-open/common/inc/nv-ioctl-numbers.h and
nv-ioctl.h, src/nvidia/arch/nvalloc/unix/include/nv_escape.h,
src/common/sdk/nvidia/inc/nvos.h. The kernel checks each struct's size. A call that
reached the resource manager returns 0; its result is the struct's `status`.
Structs whose layout changed carry the series they are good for (see nv_abi).
"""

from dataclasses import replace

from cffi import FFI

from hcq.ioctl_defs import Ioctl, iowr, nv_ctrl

CONTROL_NODE = "/dev/nvidiactl"
GPU_NODE = "/dev/nvidia{minor}"
VERSION_FILE = "/proc/driver/nvidia/version"
MODULE_VERSION_FILE = "/sys/module/nvidia/version"
UVM_MODULE_VERSION_FILE = "/sys/module/nvidia_uvm/version"

ffi = FFI()
ffi.cdef("""
struct nv_pci_info {
    uint32_t domain;
    uint8_t bus;
    uint8_t slot;
    uint8_t function;
    uint16_t vendor_id;
    uint16_t device_id;
};
struct nv_ioctl_card_info {
    uint8_t valid;
    struct nv_pci_info pci_info;
    uint32_t gpu_id;
    uint16_t interrupt_line;
    uint64_t reg_address;
    uint64_t reg_size;
    uint64_t fb_address;
    uint64_t fb_size;
    uint32_t minor_number;
    uint8_t dev_name[10];
};
/* The kernel takes as many entries as the size in the request says. */
struct nv_ioctl_card_info_list {
    struct nv_ioctl_card_info cards[32];
};
struct nv_ioctl_register_fd {
    int32_t ctl_fd;
};
struct nv_ioctl_alloc_os_event {
    uint32_t hClient;
    uint32_t hDevice;
    uint32_t fd;
    uint32_t Status;
};
struct nv_ioctl_rm_api_version {
    uint32_t cmd;
    uint32_t reply;
    uint8_t versionString[64];
};
struct NVOS00_PARAMETERS {
    uint32_t hRoot;
    uint32_t hObjectParent;
    uint32_t hObjectOld;
    uint32_t status;
};
struct nv_ioctl_nvos02_parameters_with_fd {
    uint32_t hRoot;
    uint32_t hObjectParent;
    uint32_t hObjectNew;             /* the caller chooses it; not 0 */
    uint32_t hClass;
    uint32_t flags;
    uint64_t pMemory;
    uint64_t limit;                  /* size - 1 */
    uint32_t status;
    uint32_t pad;                    /* of the struct this one wraps */
    int32_t fd;
};
struct nv_ioctl_nvos33_parameters_with_fd {
    uint32_t hClient;
    uint32_t hDevice;
    uint32_t hMemory;
    uint64_t offset;
    uint64_t length;
    uint64_t pLinearAddress;
    uint32_t status;
    uint32_t flags;
    int32_t fd;
    uint32_t pad;
};
struct NVOS34_PARAMETERS {
    uint32_t hClient;
    uint32_t hDevice;
    uint32_t hMemory;
    uint64_t pLinearAddress;
    uint32_t status;
    uint32_t flags;
};
struct NVOS54_PARAMETERS {
    uint32_t hClient;
    uint32_t hObject;
    uint32_t cmd;
    uint32_t flags;
    uint64_t params;                 /* in this process */
    uint32_t paramsSize;
    uint32_t status;
};
struct NVOS64_PARAMETERS {
    uint32_t hRoot;
    uint32_t hObjectParent;
    uint32_t hObjectNew;             /* 0: the resource manager chooses it */
    uint32_t hClass;
    uint64_t pAllocParms;            /* in this process */
    uint64_t pRightsRequested;
    uint32_t paramsSize;
    uint32_t flags;
    uint32_t status;
};
""")

CARD_INFO = iowr(ffi, "NV_ESC_CARD_INFO", "F", 200, "struct nv_ioctl_card_info_list")
REGISTER_FD = iowr(ffi, "NV_ESC_REGISTER_FD", "F", 201, "struct nv_ioctl_register_fd")
ALLOC_OS_EVENT = iowr(ffi, "NV_ESC_ALLOC_OS_EVENT", "F", 206, "struct nv_ioctl_alloc_os_event")
FREE_OS_EVENT = iowr(ffi, "NV_ESC_FREE_OS_EVENT", "F", 207, "struct nv_ioctl_alloc_os_event")
CHECK_VERSION_STR = iowr(
    ffi, "NV_ESC_CHECK_VERSION_STR", "F", 210, "struct nv_ioctl_rm_api_version"
)
RM_ALLOC_MEMORY = iowr(
    ffi, "NV_ESC_RM_ALLOC_MEMORY", "F", 0x27, "struct nv_ioctl_nvos02_parameters_with_fd"
)
RM_FREE = iowr(ffi, "NV_ESC_RM_FREE", "F", 0x29, "struct NVOS00_PARAMETERS")
RM_CONTROL = replace(
    iowr(ffi, "NV_ESC_RM_CONTROL", "F", 0x2A, "struct NVOS54_PARAMETERS"),
    inner=("params", "paramsSize"),
    inner_call=lambda args: nv_ctrl.by_number(args.cmd),
)
RM_ALLOC = replace(
    iowr(ffi, "NV_ESC_RM_ALLOC", "F", 0x2B, "struct NVOS64_PARAMETERS"),
    inner=("pAllocParms", "paramsSize"),
)
RM_MAP_MEMORY = iowr(
    ffi, "NV_ESC_RM_MAP_MEMORY", "F", 0x4E, "struct nv_ioctl_nvos33_parameters_with_fd"
)
RM_UNMAP_MEMORY = iowr(ffi, "NV_ESC_RM_UNMAP_MEMORY", "F", 0x4F, "struct NVOS34_PARAMETERS")

CALLS: tuple[Ioctl, ...] = (
    CARD_INFO, REGISTER_FD, ALLOC_OS_EVENT, FREE_OS_EVENT, CHECK_VERSION_STR, RM_ALLOC_MEMORY,
    RM_FREE, RM_CONTROL, RM_ALLOC, RM_MAP_MEMORY, RM_UNMAP_MEMORY,
)  # fmt: skip

# CHECK_VERSION_STR: cmd. A query is answered with the driver's own string.
VERSION_STRICT = 0
VERSION_RELAXED = ord("1")
VERSION_QUERY = ord("2")

# RM_ALLOC_MEMORY flags (NVOS02_FLAGS_*).
OS02_PHYSICALITY_NONCONTIGUOUS = 1 << 4
OS02_COHERENCY_CACHED = 1 << 12
OS02_MAPPING_NO_MAP = 1 << 30

# RM_MAP_MEMORY flags (NVOS33_FLAGS_CACHING_TYPE, bits 25:23).
OS33_CACHED = 0 << 23
OS33_UNCACHED = 1 << 23
OS33_WRITE_COMBINED = 2 << 23
OS33_WRITE_BACK = 5 << 23
OS33_DEFAULT = 6 << 23

# Status words. Source: kernel-open/common/inc/nvstatuscodes.h
STATUS_NAMES = {
    0x00: "NV_OK",
    0x0F: "NV_ERR_GPU_IS_LOST",
    0x1A: "NV_ERR_INSUFFICIENT_RESOURCES",
    0x1B: "NV_ERR_INSUFFICIENT_PERMISSIONS",
    0x1E: "NV_ERR_INVALID_ADDRESS",
    0x1F: "NV_ERR_INVALID_ARGUMENT",
    0x22: "NV_ERR_INVALID_CLASS",
    0x23: "NV_ERR_INVALID_CLIENT",
    0x31: "NV_ERR_INVALID_OBJECT",
    0x33: "NV_ERR_INVALID_OBJECT_HANDLE",
    0x36: "NV_ERR_INVALID_OBJECT_PARENT",
    0x3A: "NV_ERR_INVALID_PARAM_STRUCT",
    0x3B: "NV_ERR_INVALID_PARAMETER",
    0x40: "NV_ERR_INVALID_STATE",
    0x51: "NV_ERR_NO_MEMORY",
    0x55: "NV_ERR_NOT_READY",
    0x56: "NV_ERR_NOT_SUPPORTED",
    0x57: "NV_ERR_OBJECT_NOT_FOUND",
    0x62: "NV_ERR_RESET_REQUIRED",
    0x63: "NV_ERR_STATE_IN_USE",
    0x65: "NV_ERR_TIMEOUT",
    0x68: "NV_ERR_UVM_ADDRESS_IN_USE",
    0xFFFF: "NV_ERR_GENERIC",
}
OK = 0x00
GPU_IS_LOST = 0x0F
INSUFFICIENT_RESOURCES = 0x1A
INSUFFICIENT_PERMISSIONS = 0x1B
INVALID_ADDRESS = 0x1E
INVALID_ARGUMENT = 0x1F
INVALID_CLASS = 0x22
INVALID_CLIENT = 0x23
INVALID_OBJECT = 0x31
INVALID_OBJECT_HANDLE = 0x33
INVALID_OBJECT_PARENT = 0x36
INVALID_PARAM_STRUCT = 0x3A
INVALID_PARAMETER = 0x3B
INVALID_STATE = 0x40
NO_MEMORY = 0x51
NOT_READY = 0x55
NOT_SUPPORTED = 0x56
OBJECT_NOT_FOUND = 0x57
RESET_REQUIRED = 0x62
STATE_IN_USE = 0x63
TIMEOUT = 0x65
UVM_ADDRESS_IN_USE = 0x68
GENERIC = 0xFFFF


def status_name(status: int) -> str:
    """`NV_ERR_NO_MEMORY (0x51)`."""
    return f"{STATUS_NAMES.get(status, 'unknown status')} ({status:#x})"
