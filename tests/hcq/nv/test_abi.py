"""Sizes and offsets of every field that is set or read, per driver series, as literals.

Worked out from the driver's public headers, so that a wrong declaration cannot agree
with itself.
"""

import pytest

from hcq.errors import UnsupportedDevice
from hcq.ioctl_defs import nv_abi, nv_ctrl, nv_escape, nv_rm, nv_uvm

VERSIONS = {
    "550.163.01": 550,
    "570.211.01": 570,
    "580.159.03": 580,
    "580.142": 580,
    "590.48.01": 590,
    "595.45.04": 590,
    "610.43.03": 610,
}
SERIES = (550, 570, 580, 590, 610)
NEWEST = {550: "550.163.01", 570: "570.211.01", 580: "580.159.03", 590: "595.45.04",
          610: "610.43.03"}  # fmt: skip

ESCAPES = {
    # name: (request, size, {field: offset})
    "CARD_INFO": (0xC90046C8, 0x900, {}),
    "REGISTER_FD": (0xC00446C9, 4, {"ctl_fd": 0}),
    "CHECK_VERSION_STR": (0xC04846D2, 0x48, {"cmd": 0, "reply": 4, "versionString": 8}),
    "RM_ALLOC_MEMORY": (0xC0384627, 0x38, {
        "hRoot": 0, "hObjectParent": 4, "hObjectNew": 8, "hClass": 0xC, "flags": 0x10,
        "pMemory": 0x18, "limit": 0x20, "status": 0x28, "fd": 0x30}),
    "RM_FREE": (0xC0104629, 0x10, {
        "hRoot": 0, "hObjectParent": 4, "hObjectOld": 8, "status": 0xC}),
    "RM_CONTROL": (0xC020462A, 0x20, {
        "hClient": 0, "hObject": 4, "cmd": 8, "flags": 0xC, "params": 0x10, "paramsSize": 0x18,
        "status": 0x1C}),
    "RM_ALLOC": (0xC030462B, 0x30, {
        "hRoot": 0, "hObjectParent": 4, "hObjectNew": 8, "hClass": 0xC, "pAllocParms": 0x10,
        "pRightsRequested": 0x18, "paramsSize": 0x20, "flags": 0x24, "status": 0x28}),
    "RM_MAP_MEMORY": (0xC038464E, 0x38, {
        "hClient": 0, "hDevice": 4, "hMemory": 8, "offset": 0x10, "length": 0x18,
        "pLinearAddress": 0x20, "status": 0x28, "flags": 0x2C, "fd": 0x30}),
    "RM_UNMAP_MEMORY": (0xC020464F, 0x20, {
        "hClient": 0, "hDevice": 4, "hMemory": 8, "pLinearAddress": 0x10, "status": 0x18,
        "flags": 0x1C}),
}  # fmt: skip

# The same in every series.
ALLOCATIONS = {
    "DEVICE": (0x38, {"deviceId": 0, "hClientShare": 4, "vaMode": 0x30}),
    "SUBDEVICE": (4, {"subDeviceId": 0}),
    "USERMODE": (2, {"bBar1Mapping": 0, "bPriv": 1}),
    "MEMORY": (0x80, {
        "owner": 0, "type": 4, "flags": 8, "attr": 0x18, "attr2": 0x1C, "format": 0x20,
        "size": 0x40, "alignment": 0x48, "offset": 0x50, "limit": 0x58, "address": 0x60,
        "hVASpace": 0x6C, "numaNode": 0x78}),
    "CHANNEL_GROUP": (0x14, {
        "hObjectError": 0, "hObjectEccError": 4, "hVASpace": 8, "engineType": 0xC}),
    "CONTEXT_SHARE": (0xC, {"hVASpace": 0, "flags": 4, "subctxId": 8}),
    "DEBUGGER": (0xC, {"hAppClient": 4, "hClass3dObject": 8}),
    "CONFIDENTIAL": (4, {"hClient": 0}),
}  # fmt: skip
CONTROLS = {
    "GET_ID_INFO": (0x205, 0x20, {"gpuId": 0, "deviceInstance": 8, "subDeviceInstance": 0xC}),
    "GET_CLASSLIST": (0x800201, 0x10, {"numClasses": 0, "classList": 8}),
    "GPU_GET_INFO": (0x20800101, 0x10, {"gpuInfoListSize": 0, "gpuInfoList": 8}),
    "QUERY_COMPUTE_MODE": (0x20800131, 4, {"rules": 0}),
    "GET_GID_INFO": (0x2080014A, 0x10C, {"index": 0, "flags": 4, "length": 8, "data": 0xC}),
    "PERF_BOOST": (0x2080200A, 8, {"flags": 0, "duration": 4}),
    "GR_GET_INFO": (0x20801201, 0x20, {"grInfoListSize": 0, "grInfoList": 8, "routeFlags": 0x10}),
    "FB_GET_INFO": (0x20801301, 0x10, {"fbInfoListSize": 0, "fbInfoList": 8}),
    "GET_WORK_SUBMIT_TOKEN": (0xC36F0108, 4, {"workSubmitToken": 0}),
    "GET_MMU_FAULT_INFO": (0x906F0106, 0x68, {
        "addrHi": 0, "addrLo": 4, "faultType": 8, "faultString": 0xC}),
    "READ_SM_ERRORS": (0x83DE030C, 0x12D8, {
        "hTargetChannel": 0, "numSMsToRead": 4, "smErrorStateArray": 8, "mmuFault": 0x12CC,
        "startingSM": 0x12D4}),
    "READ_MMU_FAULTS": (0x83DE0328, 0x48, {"mmuFaultInfoList": 0, "count": 0x40}),
}  # fmt: skip
SM_STATE = (0x30, {
    "hwwGlobalEsr": 0, "hwwWarpEsr": 4, "hwwWarpEsrPc": 8, "hwwEsrAddr": 0x18,
    "hwwWarpEsrPc64": 0x20})  # fmt: skip
UVM = {
    "INITIALIZE": (0x30000001, 0x10, {"flags": 0, "rmStatus": 8}),
    "MM_INITIALIZE": (75, 8, {"uvmFd": 0, "rmStatus": 4}),
    "REGISTER_GPU": (37, 0x28, {
        "gpu_uuid": 0, "numaEnabled": 0x10, "numaNodeId": 0x14, "rmCtrlFd": 0x18,
        "hClient": 0x1C, "hSmcPartRef": 0x20, "rmStatus": 0x24}),
    "UNREGISTER_GPU": (38, 0x14, {"gpu_uuid": 0, "rmStatus": 0x10}),
    "REGISTER_GPU_VASPACE": (25, 0x20, {
        "gpuUuid": 0, "rmCtrlFd": 0x10, "hClient": 0x14, "hVaSpace": 0x18, "rmStatus": 0x1C}),
    "UNREGISTER_GPU_VASPACE": (26, 0x14, {"gpuUuid": 0, "rmStatus": 0x10}),
    "REGISTER_CHANNEL": (27, 0x38, {
        "gpuUuid": 0, "rmCtrlFd": 0x10, "hClient": 0x14, "hChannel": 0x18, "base": 0x20,
        "length": 0x28, "rmStatus": 0x30}),
    "MAP_EXTERNAL_ALLOCATION": (33, 0x2430, {
        "base": 0, "length": 8, "offset": 0x10, "perGpuAttributes": 0x18,
        "gpuAttributesCount": 0x2418, "rmCtrlFd": 0x2420, "hClient": 0x2424, "hMemory": 0x2428,
        "rmStatus": 0x242C}),
    "UNMAP_EXTERNAL": (66, 0x28, {"base": 0, "length": 8, "gpuUuid": 0x10, "rmStatus": 0x20}),
    "CREATE_EXTERNAL_RANGE": (73, 0x18, {"base": 0, "length": 8, "rmStatus": 0x10}),
}  # fmt: skip
# What differs: role -> series -> (size, {field: offset}).
CHANNEL_FIELDS = {
    "hObjectError": 0, "gpFifoOffset": 8, "gpFifoEntries": 0x10, "flags": 0x14,
    "hContextShare": 0x18, "hVASpace": 0x1C, "hUserdMemory": 0x20, "userdOffset": 0x40,
    "engineType": 0x80, "errorNotifierMem": 0xF8, "ProcessID": 0x128, "encryptIv": 0x130,
    "decryptIv": 0x13C, "hmacNonce": 0x148,
}  # fmt: skip
CHANNEL_FIELDS_610 = {
    "hObjectError": 0, "gpFifoOffset": 8, "gpFifoEntries": 0x10, "flags": 0x14,
    "hContextShare": 0x18, "hVASpace": 0x1C, "hHandleVASpace": 0x20, "hUserdMemory": 0x24,
    "userdOffset": 0x48, "engineType": 0x88, "errorNotifierMem": 0x100, "ProcessID": 0x130,
    "tpcConfigID": 0x170,
}  # fmt: skip
WITH_TPC = {**CHANNEL_FIELDS, "tpcConfigID": 0x168}
SPACE = {"index": 0, "flags": 4, "vaSize": 8, "bigPageSize": 0x20, "vaBase": 0x28}
DIFFERING = {
    "root": {
        550: (0x6C, {"hClient": 0, "processID": 4, "processName": 8}),
        **{s: (0x78, {"hClient": 0, "processName": 8, "pOsPidInfo": 0x70}) for s in SERIES[1:]},
    },
    "address_space": {
        550: (0x30, SPACE),
        570: (0x30, SPACE),
        **{s: (0x38, {**SPACE, "pasid": 0x30}) for s in SERIES[2:]},
    },
    "channel": {
        550: (0x168, CHANNEL_FIELDS),
        570: (0x170, WITH_TPC),
        580: (0x170, WITH_TPC),
        590: (0x170, WITH_TPC),
        610: (0x178, CHANNEL_FIELDS_610),
    },
    "schedule_group": {
        550: (2, {"bEnable": 0, "bSkipSubmit": 1}),
        570: (2, {"bEnable": 0, "bSkipSubmit": 1}),
        **{s: (3, {"bEnable": 0, "bSkipSubmit": 1, "bSkipEnable": 2}) for s in SERIES[2:]},
    },
    "free": {
        **{s: (0x18, {"base": 0, "length": 8, "rmStatus": 0x10}) for s in SERIES[:3]},
        **{s: (0x10, {"base": 0, "rmStatus": 8}) for s in SERIES[3:]},
    },
    "unregister_channel": {
        **{
            s: (0x1C, {"gpuUuid": 0, "hClient": 0x10, "hChannel": 0x14, "rmStatus": 0x18})
            for s in SERIES[:3]
        },
        **{s: (0xC, {"hClient": 0, "hChannel": 4, "rmStatus": 8}) for s in SERIES[3:]},
    },
}


def layout(call, fields):
    """What the declaration says: size and offsets."""
    return call.size, {name: call.ffi.offsetof(call.struct, name) for name in fields}


@pytest.mark.row("NV-02")
@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("role", DIFFERING)
def test_structs_that_differ_by_series(role, series):
    size, fields = DIFFERING[role][series]
    abi = nv_abi.abi_of(NEWEST[series])
    assert layout(getattr(abi, role), fields) == (size, fields)


@pytest.mark.parametrize("name", ESCAPES)
def test_calls_on_the_control_node(name):
    number, size, fields = ESCAPES[name]
    call = getattr(nv_escape, name)
    assert call.number == number
    assert layout(call, fields) == (size, fields)


def test_a_card_is_72_bytes():
    offsets = {name: nv_escape.ffi.offsetof("struct nv_ioctl_card_info", name)
               for name in ("valid", "pci_info", "gpu_id", "reg_address", "fb_size",
                            "minor_number", "dev_name")}  # fmt: skip
    assert nv_escape.ffi.sizeof("struct nv_ioctl_card_info") == 0x48
    assert offsets == {"valid": 0, "pci_info": 4, "gpu_id": 0x10, "reg_address": 0x18,
                       "fb_size": 0x30, "minor_number": 0x38, "dev_name": 0x3C}  # fmt: skip


@pytest.mark.parametrize("name", ALLOCATIONS)
def test_allocation_parameters(name):
    size, fields = ALLOCATIONS[name]
    assert layout(getattr(nv_rm, name), fields) == (size, fields)


@pytest.mark.parametrize("name", CONTROLS)
def test_controls(name):
    number, size, fields = CONTROLS[name]
    call = getattr(nv_ctrl, name)
    assert call.number == number
    assert layout(call, fields) == (size, fields)


def test_the_state_of_one_sm():
    size, fields = SM_STATE
    struct = "struct NV83DE_SM_ERROR_STATE_REGISTERS"
    assert nv_ctrl.ffi.sizeof(struct) == size
    assert {name: nv_ctrl.ffi.offsetof(struct, name) for name in fields} == fields


@pytest.mark.parametrize("name", UVM)
def test_calls_on_the_unified_memory_node(name):
    number, size, fields = UVM[name]
    call = getattr(nv_uvm, name)
    assert call.number == number
    assert layout(call, fields) == (size, fields)


def test_a_mapping_attribute_is_36_bytes():
    struct = "struct UvmGpuMappingAttributes"
    names = ("gpuUuid", "gpuMappingType", "gpuCachingType", "gpuCompressionType")
    assert nv_uvm.ffi.sizeof(struct) == 0x24
    assert [nv_uvm.ffi.offsetof(struct, n) for n in names] == [0, 0x10, 0x14, 0x20]


@pytest.mark.row("NV-02")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_picks_its_series(version):
    assert nv_abi.abi_of(version).series == VERSIONS[version]


@pytest.mark.row("NV-02")
@pytest.mark.refusal
@pytest.mark.parametrize("version", ["535.54.03", "620.10", "470.1.1"])
def test_an_unknown_series_is_refused(version):
    with pytest.raises(UnsupportedDevice, match=rf"{version}.*series.*not known") as caught:
        nv_abi.abi_of(version)
    assert caught.value.facts["found"] == version
    assert "550" in caught.value.facts["known"]
    assert "610.43.03" in caught.value.facts["known"]


@pytest.mark.refusal
def test_a_version_that_is_no_number_is_refused():
    with pytest.raises(UnsupportedDevice, match="cannot be read"):
        nv_abi.abi_of("unknown")


@pytest.mark.parametrize(
    ("version", "newer"), [("580.159.03", False), ("580.159.04", True), ("580.142", False)]
)
def test_what_is_newer_than_what_was_checked(version, newer):
    assert nv_abi.is_newer(version, nv_abi.ABI_580) is newer
