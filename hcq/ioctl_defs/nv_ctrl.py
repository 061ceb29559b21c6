"""NVIDIA resource manager: control calls and their parameters.

Source: NVIDIA open-gpu-kernel-modules, src/common/sdk/nvidia/inc/ctrl/*.h.
The resource manager compares the size of the parameters with its own table and
answers a wrong one with NV_ERR_INVALID_PARAM_STRUCT. Lists are given as pointers into
this process.
"""

from dataclasses import dataclass

from cffi import FFI

from hcq.ioctl_defs import Ioctl, ListField

ffi = FFI()
ffi.cdef("""
struct NVXXXX_CTRL_XXX_INFO {
    uint32_t index;
    uint32_t data;
};
struct NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS {
    uint32_t gpuId;
    uint32_t gpuFlags;
    uint32_t deviceInstance;
    uint32_t subDeviceInstance;
    uint32_t sliStatus;
    uint32_t boardId;
    uint32_t gpuInstance;
    int32_t numaId;
};
struct NV0080_CTRL_GPU_GET_CLASSLIST_PARAMS {
    uint32_t numClasses;
    uint64_t classList;
};
struct NV2080_CTRL_GPU_GET_INFO_PARAMS {
    uint32_t gpuInfoListSize;
    uint64_t gpuInfoList;
};
struct NV2080_CTRL_GPU_GET_GID_INFO_PARAMS {
    uint32_t index;
    uint32_t flags;
    uint32_t length;
    uint8_t data[256];
};
struct NV2080_CTRL_GPU_QUERY_COMPUTE_MODE_RULES_PARAMS {
    uint32_t rules;
};
struct NV2080_CTRL_PERF_BOOST_PARAMS {
    uint32_t flags;
    uint32_t duration;
};
struct NV2080_CTRL_FB_GET_INFO_PARAMS {
    uint32_t fbInfoListSize;
    uint64_t fbInfoList;
};
struct NV2080_CTRL_GR_GET_INFO_PARAMS {
    uint32_t grInfoListSize;
    uint64_t grInfoList;
    uint32_t routeFlags;
    uint64_t route;
};
struct NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS {
    uint8_t bEnable;
    uint8_t bSkipSubmit;
};
struct NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS_580 {
    uint8_t bEnable;
    uint8_t bSkipSubmit;
    uint8_t bSkipEnable;
};
struct NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS {
    uint32_t workSubmitToken;
};
struct NV906F_CTRL_GET_MMU_FAULT_INFO_PARAMS {
    uint32_t addrHi;
    uint32_t addrLo;
    uint32_t faultType;
    char faultString[32];
    uint64_t shaderProgramVA[7];
};
struct NV83DE_SM_ERROR_STATE_REGISTERS {
    uint32_t hwwGlobalEsr;
    uint32_t hwwWarpEsr;
    uint32_t hwwWarpEsrPc;
    uint32_t hwwGlobalEsrReportMask;
    uint32_t hwwWarpEsrReportMask;
    uint64_t hwwEsrAddr;
    uint64_t hwwWarpEsrPc64;
    uint32_t hwwCgaEsr;
    uint32_t hwwCgaEsrReportMask;
};
struct NV83DE_MMU_FAULT_INFO {
    uint8_t valid;
    uint32_t faultInfo;
};
struct NV83DE_CTRL_DEBUG_READ_ALL_SM_ERROR_STATES_PARAMS {
    uint32_t hTargetChannel;
    uint32_t numSMsToRead;
    struct NV83DE_SM_ERROR_STATE_REGISTERS smErrorStateArray[100];
    uint32_t mmuFaultInfo;
    struct NV83DE_MMU_FAULT_INFO mmuFault;
    uint32_t startingSM;
};
struct NV83DE_MMU_FAULT_ENTRY {
    uint64_t faultAddress;
    uint32_t faultType;
    uint32_t accessType;
};
struct NV83DE_CTRL_DEBUG_READ_MMU_FAULT_INFO_PARAMS {
    struct NV83DE_MMU_FAULT_ENTRY mmuFaultInfoList[4];
    uint32_t count;
};
struct NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES_PARAMS {
    uint8_t cpuCapability;
    uint8_t gpusCapability;
    uint8_t environment;
    uint8_t ccFeature;
    uint8_t devToolsMode;
    uint8_t multiGpuMode;
};
""")


@dataclass(frozen=True)
class Control(Ioctl):
    """One control call: `number` is its command."""


def _control(name: str, number: int, struct: str, lists: tuple[ListField, ...] = ()) -> Control:
    return Control(name, number, f"struct {struct}", ffi, lists=lists)


def _infos(kind: str) -> tuple[ListField, ...]:
    """The list of the *_GET_INFO controls: indices in, their data out."""
    item = "struct NVXXXX_CTRL_XXX_INFO"
    return (ListField(f"{kind}InfoList", item, f"{kind}InfoListSize"),)


GET_ID_INFO = _control(
    "NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2", 0x205, "NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS"
)
GET_CLASSLIST = _control(
    "NV0080_CTRL_CMD_GPU_GET_CLASSLIST",
    0x800201,
    "NV0080_CTRL_GPU_GET_CLASSLIST_PARAMS",
    (ListField("classList", "uint32_t", "numClasses"),),
)
GPU_GET_INFO = _control(
    "NV2080_CTRL_CMD_GPU_GET_INFO",
    0x20800101,
    "NV2080_CTRL_GPU_GET_INFO_PARAMS",
    _infos("gpu"),
)
QUERY_COMPUTE_MODE = _control(
    "NV2080_CTRL_CMD_GPU_QUERY_COMPUTE_MODE_RULES",
    0x20800131,
    "NV2080_CTRL_GPU_QUERY_COMPUTE_MODE_RULES_PARAMS",
)
GET_GID_INFO = _control(
    "NV2080_CTRL_CMD_GPU_GET_GID_INFO", 0x2080014A, "NV2080_CTRL_GPU_GET_GID_INFO_PARAMS"
)
PERF_BOOST = _control("NV2080_CTRL_CMD_PERF_BOOST", 0x2080200A, "NV2080_CTRL_PERF_BOOST_PARAMS")
GR_GET_INFO = _control(
    "NV2080_CTRL_CMD_GR_GET_INFO",
    0x20801201,
    "NV2080_CTRL_GR_GET_INFO_PARAMS",
    _infos("gr"),
)
FB_GET_INFO = _control(
    "NV2080_CTRL_CMD_FB_GET_INFO",
    0x20801301,
    "NV2080_CTRL_FB_GET_INFO_PARAMS",
    _infos("fb"),
)
SCHEDULE_GROUP = _control(
    "NVA06C_CTRL_CMD_GPFIFO_SCHEDULE", 0xA06C0101, "NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS"
)
SCHEDULE_GROUP_580 = _control(
    "NVA06C_CTRL_CMD_GPFIFO_SCHEDULE", 0xA06C0101, "NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS_580"
)
GET_WORK_SUBMIT_TOKEN = _control(
    "NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN",
    0xC36F0108,
    "NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS",
)
GET_MMU_FAULT_INFO = _control(
    "NV906F_CTRL_CMD_GET_MMU_FAULT_INFO", 0x906F0106, "NV906F_CTRL_GET_MMU_FAULT_INFO_PARAMS"
)
READ_SM_ERRORS = _control(
    "NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES",
    0x83DE030C,
    "NV83DE_CTRL_DEBUG_READ_ALL_SM_ERROR_STATES_PARAMS",
)
READ_MMU_FAULTS = _control(
    "NV83DE_CTRL_CMD_DEBUG_READ_MMU_FAULT_INFO",
    0x83DE0328,
    "NV83DE_CTRL_DEBUG_READ_MMU_FAULT_INFO_PARAMS",
)
CONFIDENTIAL_CAPABILITIES = _control(
    "NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES",
    0xCB330101,
    "NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES_PARAMS",
)

CONTROLS: tuple[Control, ...] = (
    GET_ID_INFO, GET_CLASSLIST, GPU_GET_INFO, QUERY_COMPUTE_MODE, GET_GID_INFO, PERF_BOOST,
    GR_GET_INFO, FB_GET_INFO, SCHEDULE_GROUP, GET_WORK_SUBMIT_TOKEN, GET_MMU_FAULT_INFO,
    READ_SM_ERRORS, READ_MMU_FAULTS, CONFIDENTIAL_CAPABILITIES,
)  # fmt: skip
_BY_NUMBER = {control.number: control for control in CONTROLS}


def by_number(number: int) -> Control | None:
    """The control call with this command; None for one that is not declared here."""
    return _BY_NUMBER.get(number)


GID_BINARY_SHA1 = 2
UUID_BYTES = 16

# PERF_BOOST flags: boost to the maximum, for compute, priority high.
PERF_BOOST_MAX = 2
PERF_BOOST_CUDA = 1 << 4
PERF_BOOST_HIGH = 1 << 6
PERF_BOOST_FOREVER = 0xFFFF_FFFF

# Source: ctrl2080gpu.h
GPU_INFO_SMC_MODE = 0x2A  # multi-instance (MIG) mode
SMC_MODE_ENABLED = 2
COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}

# Source: ctrl0080gr.h, ctrl2080gr.h
GR_INFO_SM_VERSION = 0x0C
GR_INFO_MAX_WARPS_PER_SM = 0x0D
GR_INFO_NUM_GPCS = 0x14
GR_INFO_NUM_TPC_PER_GPC = 0x17
GR_INFO_NUM_SM_PER_TPC = 0x20

# Source: ctrl2080fb.h; values are KiB.
FB_INFO_BAR1_SIZE = 0x05
FB_INFO_TOTAL_RAM_SIZE = 0x08
FB_INFO_HEAP_SIZE = 0x09
FB_INFO_HEAP_FREE = 0x16

# Source: ctrlcb33.h
CONFIDENTIAL_FEATURES = {0: "off", 1: "APM", 2: "HCC"}

SM_ERRORS_PER_CALL = 100
