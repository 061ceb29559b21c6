"""NVIDIA resource manager: allocation parameters per object class.

Source: NVIDIA open-gpu-kernel-modules, src/common/sdk/nvidia/inc: nvos.h, class/*.h,
alloc/alloc_channel.h; sizes and offsets measured from the tags 550.163.01, 570.211.01,
580.142, 595.45.04, and 610.43.03 as public ABI tables give it. A struct with a series in
its name (`_580`) is that series' form and that of later ones up to the next. The resource
manager copies its own size for the class, whatever the caller says: give it at
least ALLOC_BYTES.
"""

from dataclasses import dataclass

from cffi import FFI

from hcq.ioctl_defs import Ioctl

ALLOC_BYTES = 0x200  # every parameter buffer is at least this long, zero padded

ffi = FFI()
ffi.cdef("""
struct NV0000_ALLOC_PARAMETERS {
    uint32_t hClient;
    uint32_t processID;
    uint8_t processName[100];
};
struct NV0000_ALLOC_PARAMETERS_570 {
    uint32_t hClient;
    uint32_t processID;
    uint8_t processName[100];
    uint64_t pOsPidInfo;
};
struct NV0080_ALLOC_PARAMETERS {
    uint32_t deviceId;
    uint32_t hClientShare;
    uint32_t hTargetClient;
    uint32_t hTargetDevice;
    uint32_t flags;
    uint64_t vaSpaceSize;
    uint64_t vaStartInternal;
    uint64_t vaLimitInternal;
    uint32_t vaMode;
};
struct NV2080_ALLOC_PARAMETERS {
    uint32_t subDeviceId;
};
struct NV_HOPPER_USERMODE_A_PARAMS {
    uint8_t bBar1Mapping;
    uint8_t bPriv;
};
struct NV_VASPACE_ALLOCATION_PARAMETERS {
    uint32_t index;
    uint32_t flags;
    uint64_t vaSize;
    uint64_t vaStartInternal;
    uint64_t vaLimitInternal;
    uint32_t bigPageSize;
    uint64_t vaBase;
};
struct NV_VASPACE_ALLOCATION_PARAMETERS_580 {
    uint32_t index;
    uint32_t flags;
    uint64_t vaSize;
    uint64_t vaStartInternal;
    uint64_t vaLimitInternal;
    uint32_t bigPageSize;
    uint64_t vaBase;
    uint32_t pasid;
};
struct NV_MEMORY_ALLOCATION_PARAMS {
    uint32_t owner;
    uint32_t type;
    uint32_t flags;
    uint32_t width;
    uint32_t height;
    int32_t pitch;
    uint32_t attr;
    uint32_t attr2;
    uint32_t format;
    uint32_t comprCovg;
    uint32_t zcullCovg;
    uint64_t rangeLo;
    uint64_t rangeHi;
    uint64_t size;
    uint64_t alignment;
    uint64_t offset;
    uint64_t limit;
    uint64_t address;
    uint32_t ctagOffset;
    uint32_t hVASpace;
    uint32_t internalflags;
    uint32_t tag;
    int32_t numaNode;
};
struct NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS {
    uint32_t hObjectError;
    uint32_t hObjectEccError;
    uint32_t hVASpace;
    uint32_t engineType;
    uint8_t bIsCallingContextVgpuPlugin;
};
struct NV_CTXSHARE_ALLOCATION_PARAMETERS {
    uint32_t hVASpace;
    uint32_t flags;
    uint32_t subctxId;
};
struct NV_MEMORY_DESC_PARAMS {
    uint64_t base;
    uint64_t size;
    uint32_t addressSpace;
    uint32_t cacheAttrib;
};
""")

# A channel, without what some series put between or behind.
_CHANNEL_HEAD = """    uint32_t hObjectError;
    uint32_t hObjectBuffer;
    uint64_t gpFifoOffset;
    uint32_t gpFifoEntries;
    uint32_t flags;
    uint32_t hContextShare;
    uint32_t hVASpace;
"""
_CHANNEL_TAIL = """    uint32_t hUserdMemory[8];
    uint64_t userdOffset[8];
    uint32_t engineType;
    uint32_t cid;
    uint32_t subDeviceId;
    uint32_t hObjectEccError;
    struct NV_MEMORY_DESC_PARAMS instanceMem;
    struct NV_MEMORY_DESC_PARAMS userdMem;
    struct NV_MEMORY_DESC_PARAMS ramfcMem;
    struct NV_MEMORY_DESC_PARAMS mthdbufMem;
    uint32_t hPhysChannelGroup;
    uint32_t internalFlags;
    struct NV_MEMORY_DESC_PARAMS errorNotifierMem;
    struct NV_MEMORY_DESC_PARAMS eccErrorNotifierMem;
    uint32_t ProcessID;
    uint32_t SubProcessID;
    uint32_t encryptIv[3];
    uint32_t decryptIv[3];
    uint32_t hmacNonce[8];
"""
ffi.cdef(f"""
struct NV_CHANNEL_ALLOC_PARAMS {{
{_CHANNEL_HEAD}{_CHANNEL_TAIL}}};
struct NV_CHANNEL_ALLOC_PARAMS_570 {{
{_CHANNEL_HEAD}{_CHANNEL_TAIL}    uint32_t tpcConfigID;
}};
/* hHandleVASpace is 4 bytes, so hUserdMemory moves by 4 and what follows it by 8. */
struct NV_CHANNEL_ALLOC_PARAMS_610 {{
{_CHANNEL_HEAD}    uint32_t hHandleVASpace;
{_CHANNEL_TAIL}    uint32_t tpcConfigID;
}};
""")

ffi.cdef("""
struct NV83DE_ALLOC_PARAMETERS {
    uint32_t hDebuggerClient_Obsolete;
    uint32_t hAppClient;
    uint32_t hClass3dObject;
};
struct NV_CONFIDENTIAL_COMPUTE_ALLOC_PARAMS {
    uint32_t hClient;
};
struct NvNotification {
    uint32_t timestamp_lo;
    uint32_t timestamp_hi;
    uint32_t info32;
    uint16_t info16;
    uint16_t status;
};
""")


@dataclass(frozen=True)
class AllocParams(Ioctl):
    """Parameters of one kind of object; `number` is unused, the class comes with the call."""


def params(struct: str) -> AllocParams:
    """The parameters a struct of this file declares."""
    return AllocParams(struct, 0, f"struct {struct}", ffi)


ROOT = params("NV0000_ALLOC_PARAMETERS")
ROOT_570 = params("NV0000_ALLOC_PARAMETERS_570")
DEVICE = params("NV0080_ALLOC_PARAMETERS")
SUBDEVICE = params("NV2080_ALLOC_PARAMETERS")
USERMODE = params("NV_HOPPER_USERMODE_A_PARAMS")
ADDRESS_SPACE = params("NV_VASPACE_ALLOCATION_PARAMETERS")
ADDRESS_SPACE_580 = params("NV_VASPACE_ALLOCATION_PARAMETERS_580")
MEMORY = params("NV_MEMORY_ALLOCATION_PARAMS")
CHANNEL_GROUP = params("NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS")
CONTEXT_SHARE = params("NV_CTXSHARE_ALLOCATION_PARAMETERS")
CHANNEL = params("NV_CHANNEL_ALLOC_PARAMS")
CHANNEL_570 = params("NV_CHANNEL_ALLOC_PARAMS_570")
CHANNEL_610 = params("NV_CHANNEL_ALLOC_PARAMS_610")
DEBUGGER = params("NV83DE_ALLOC_PARAMETERS")
CONFIDENTIAL = params("NV_CONFIDENTIAL_COMPUTE_ALLOC_PARAMS")

# NV_VASPACE_ALLOCATION_PARAMETERS
ADDRESS_SPACE_EXTERNALLY_OWNED = 1 << 3
ADDRESS_SPACE_PAGE_FAULTING = 1 << 6

# NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS. Source: cl2080_notification.h
ENGINE_GRAPHICS = 1
CONTEXT_SHARE_ASYNC = 1

# NV_MEMORY_ALLOCATION_PARAMS. Source: nvos.h NVOS32_*
MEMORY_TYPE_IMAGE = 0
MEMORY_TYPE_NOTIFIER = 13
MEMORY_IGNORE_BANK_PLACEMENT = 0x1
MEMORY_ALIGNMENT_FORCE = 0x100
MEMORY_HANDLE_PROVIDED = 0x4000
MEMORY_MAP_NOT_REQUIRED = 0x8000
MEMORY_PERSISTENT = 0x10000
ATTR_FORMAT_PITCH = 0
ATTR_PAGE_SIZE_4K = 1 << 23
ATTR_PAGE_SIZE_BIG = 2 << 23
ATTR_PAGE_SIZE_HUGE = 3 << 23
ATTR_LOCATION_VIDMEM = 0 << 25
ATTR_LOCATION_PCI = 1 << 25
ATTR_PHYSICALITY_NONCONTIGUOUS = 1 << 27
ATTR_PHYSICALITY_CONTIGUOUS = 2 << 27
ATTR_PHYSICALITY_ALLOW_NONCONTIGUOUS = 3 << 27
ATTR_COHERENCY_UNCACHED = 0 << 29
ATTR_COHERENCY_CACHED = 1 << 29
ATTR_COHERENCY_WRITE_COMBINED = 2 << 29
ATTR_COHERENCY_WRITE_BACK = 5 << 29
ATTR2_ZBC_PREFER_NONE = 1
ATTR2_GPU_CACHEABLE_YES = 1 << 2
ATTR2_GPU_CACHEABLE_NO = 2 << 2
ATTR2_HUGE_2M = 1 << 20

# NvNotification entries of a channel's error object, 16 bytes each.
# Source: nvos.h NV_CHANNELGPFIFO_NOTIFICATION_TYPE_*
NOTIFICATION_BYTES = 16
NOTIFICATION_ERROR = 0
NOTIFICATION_TOKEN = 1
NOTIFICATION_KEY_ROTATION = 2
NOTIFICATION_COUNT = 3
NOTIFICATION_INFO32 = 8  # offset of the RC number
NOTIFICATION_STATUS = 14  # offset of the 16-bit status; 0xffff once an error was written
