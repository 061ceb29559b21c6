"""Lists that a call pointed to, as a recording holds them: decoded, numbers by name.

Source of the indices: NVIDIA open-gpu-kernel-modules, ctrl/ctrl2080gpu.h, ctrl0080gr.h,
ctrl2080gr.h, ctrl2080fb.h.
"""

from typing import Any

from cffi import FFI, CDefError

from hcq.ioctl_defs import amdgpu, kfd, listed, nv_ctrl
from tools.hcq_dump.classes import NAMES

UNREAD = "?unread"
_INFO = "struct NVXXXX_CTRL_XXX_INFO"
_FFIS: dict[str, FFI] = {"NV_": nv_ctrl.ffi, "KFD": kfd.ffi, "DRM": amdgpu.ffi}


def _indices(prefix: str) -> dict[int, str]:
    return {
        value: name.removeprefix(prefix)
        for name, value in vars(nv_ctrl).items()
        if name.startswith(prefix)
    }


# Lists of (index, data): the names of the indices.
_INFOS = {
    "gpuInfoList": _indices("GPU_INFO_"),
    "grInfoList": _indices("GR_INFO_"),
    "fbInfoList": _indices("FB_INFO_"),
}


def texts(record: dict[str, Any], when: str) -> dict[str, str]:
    """Every list of a call by the field that points to it; when: "in" or "out" of the call."""
    name = str(record.get("name"))
    found = dict(record.get("lists", {}))
    return {field: _text(name, field, entry, when) for field, entry in found.items()}


def _text(name: str, field: str, entry: dict[str, Any], when: str) -> str:
    item, data = str(entry["item"]), bytes.fromhex(entry[when])
    if not data:
        return UNREAD
    ffi = _FFIS.get(name[:3])
    if ffi is None or not _declares(ffi, item):
        return f"?0x{data.hex()}"
    if field == "classList":
        return "[" + ",".join(_classes(ffi, item, data)) + "]"
    if item == _INFO:
        pairs = _infos(ffi, data, _INFOS.get(field, {})).items()
        return "{" + ",".join(f"{index}={value:#x}" for index, value in pairs) + "}"
    return listed(ffi, item, data) + ("..." if len(data) < entry["size"] else "")


def _declares(ffi: FFI, item: str) -> bool:
    """Whether a type is known here; a later recording may name others."""
    try:
        ffi.sizeof(item)
    except (CDefError, ValueError):
        return False
    return True


def as_json(record: dict[str, Any], when: str) -> dict[str, object]:
    """As texts(), but class lists as lists and info lists as objects of numbers."""
    found: dict[str, object] = {}
    for field, text in texts(record, when).items():
        entry = record["lists"][field]
        item, data = str(entry["item"]), bytes.fromhex(entry[when])
        found[field] = text
        if data and field == "classList":
            found[field] = _classes(nv_ctrl.ffi, item, data)
        elif data and item == _INFO:
            found[field] = _infos(nv_ctrl.ffi, data, _INFOS.get(field, {}))
    return found


def _classes(ffi: FFI, item: str, data: bytes) -> list[str]:
    """Class numbers: names where one is known."""
    found = [int(number) for number in ffi.from_buffer(f"{item}[]", data)]
    return [NAMES.get(number, f"?{number:#06x}") for number in found if number]


def _infos(ffi: FFI, data: bytes, names: dict[int, str]) -> dict[str, int]:
    pairs = ffi.from_buffer(f"{_INFO}[]", data)
    return {names.get(pair.index, f"?{pair.index:#x}"): int(pair.data) for pair in pairs}
