"""NVIDIA unified memory: calls on /dev/nvidia-uvm.

Source: NVIDIA open-gpu-kernel-modules, kernel-open/nvidia-uvm/uvm_ioctl.h,
uvm_linux_ioctl.h, kernel-open/common/inc/nv_uvm_user_types.h. The request is the bare
number; the kernel copies its own struct's size in and out, and the result is
`rmStatus`. Structs with a series in their name are that series' form and later ones'.
"""

from cffi import FFI

from hcq.ioctl_defs import Ioctl

NODE = "/dev/nvidia-uvm"

ffi = FFI()
ffi.cdef("""
struct UVM_INITIALIZE_PARAMS {
    uint64_t flags;
    uint32_t rmStatus;
};
struct UVM_DEINITIALIZE_PARAMS {
    uint32_t unused;                 /* the kernel takes no struct */
};
struct UVM_MM_INITIALIZE_PARAMS {
    int32_t uvmFd;
    uint32_t rmStatus;
};
struct UVM_REGISTER_GPU_PARAMS {
    uint8_t gpu_uuid[16];
    uint8_t numaEnabled;
    int32_t numaNodeId;
    int32_t rmCtrlFd;
    uint32_t hClient;
    uint32_t hSmcPartRef;
    uint32_t rmStatus;
};
struct UVM_UNREGISTER_GPU_PARAMS {
    uint8_t gpu_uuid[16];
    uint32_t rmStatus;
};
struct UVM_REGISTER_GPU_VASPACE_PARAMS {
    uint8_t gpuUuid[16];
    int32_t rmCtrlFd;
    uint32_t hClient;
    uint32_t hVaSpace;
    uint32_t rmStatus;
};
struct UVM_UNREGISTER_GPU_VASPACE_PARAMS {
    uint8_t gpuUuid[16];
    uint32_t rmStatus;
};
struct UVM_REGISTER_CHANNEL_PARAMS {
    uint8_t gpuUuid[16];
    int32_t rmCtrlFd;
    uint32_t hClient;
    uint32_t hChannel;
    uint64_t base;
    uint64_t length;
    uint32_t rmStatus;
};
struct UVM_UNREGISTER_CHANNEL_PARAMS {
    uint8_t gpuUuid[16];
    uint32_t hClient;
    uint32_t hChannel;
    uint32_t rmStatus;
};
struct UVM_UNREGISTER_CHANNEL_PARAMS_590 {
    uint32_t hClient;
    uint32_t hChannel;
    uint32_t rmStatus;
};
struct UVM_ENABLE_PEER_ACCESS_PARAMS {
    uint8_t gpuUuidA[16];
    uint8_t gpuUuidB[16];
    uint32_t rmStatus;
};
struct UvmGpuMappingAttributes {
    uint8_t gpuUuid[16];
    uint32_t gpuMappingType;
    uint32_t gpuCachingType;
    uint32_t gpuFormatType;
    uint32_t gpuElementBits;
    uint32_t gpuCompressionType;
};
struct UVM_MAP_EXTERNAL_ALLOCATION_PARAMS {
    uint64_t base;
    uint64_t length;
    uint64_t offset;
    struct UvmGpuMappingAttributes perGpuAttributes[256];
    uint64_t gpuAttributesCount;
    int32_t rmCtrlFd;
    uint32_t hClient;
    uint32_t hMemory;
    uint32_t rmStatus;
};
struct UVM_FREE_PARAMS {
    uint64_t base;
    uint64_t length;
    uint32_t rmStatus;
};
struct UVM_FREE_PARAMS_590 {
    uint64_t base;
    uint32_t rmStatus;
};
struct UVM_UNMAP_EXTERNAL_PARAMS {
    uint64_t base;
    uint64_t length;
    uint8_t gpuUuid[16];
    uint32_t rmStatus;
};
struct UVM_CREATE_EXTERNAL_RANGE_PARAMS {
    uint64_t base;
    uint64_t length;
    uint32_t rmStatus;
};
""")


def _uvm(name: str, number: int, struct: str = "") -> Ioctl:
    return Ioctl(name, number, f"struct {struct or name + '_PARAMS'}", ffi)


INITIALIZE = _uvm("UVM_INITIALIZE", 0x3000_0001)
DEINITIALIZE = _uvm("UVM_DEINITIALIZE", 0x3000_0002)
REGISTER_GPU_VASPACE = _uvm("UVM_REGISTER_GPU_VASPACE", 25)
UNREGISTER_GPU_VASPACE = _uvm("UVM_UNREGISTER_GPU_VASPACE", 26)
REGISTER_CHANNEL = _uvm("UVM_REGISTER_CHANNEL", 27)
UNREGISTER_CHANNEL = _uvm("UVM_UNREGISTER_CHANNEL", 28)
UNREGISTER_CHANNEL_590 = _uvm("UVM_UNREGISTER_CHANNEL", 28, "UVM_UNREGISTER_CHANNEL_PARAMS_590")
ENABLE_PEER_ACCESS = _uvm("UVM_ENABLE_PEER_ACCESS", 29)
DISABLE_PEER_ACCESS = _uvm("UVM_DISABLE_PEER_ACCESS", 30, "UVM_ENABLE_PEER_ACCESS_PARAMS")
MAP_EXTERNAL_ALLOCATION = _uvm("UVM_MAP_EXTERNAL_ALLOCATION", 33)
FREE = _uvm("UVM_FREE", 34)
FREE_590 = _uvm("UVM_FREE", 34, "UVM_FREE_PARAMS_590")
REGISTER_GPU = _uvm("UVM_REGISTER_GPU", 37)
UNREGISTER_GPU = _uvm("UVM_UNREGISTER_GPU", 38)
UNMAP_EXTERNAL = _uvm("UVM_UNMAP_EXTERNAL", 66)
CREATE_EXTERNAL_RANGE = _uvm("UVM_CREATE_EXTERNAL_RANGE", 73)
MM_INITIALIZE = _uvm("UVM_MM_INITIALIZE", 75)

CALLS: tuple[Ioctl, ...] = (
    INITIALIZE, DEINITIALIZE, REGISTER_GPU_VASPACE, UNREGISTER_GPU_VASPACE, REGISTER_CHANNEL,
    UNREGISTER_CHANNEL, ENABLE_PEER_ACCESS, DISABLE_PEER_ACCESS, MAP_EXTERNAL_ALLOCATION, FREE,
    REGISTER_GPU, UNREGISTER_GPU, UNMAP_EXTERNAL, CREATE_EXTERNAL_RANGE, MM_INITIALIZE,
)  # fmt: skip

MAPPING_READ_WRITE_ATOMIC = 1
MAPPING_READ_WRITE = 2
MAPPING_READ_ONLY = 3
CACHING_DEFAULT = 0
