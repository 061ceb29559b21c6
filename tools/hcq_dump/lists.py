"""Lists that a call pointed to, as a recording holds them: as text, numbers by name.

Source of the indices: NVIDIA open-gpu-kernel-modules, ctrl/ctrl2080gpu.h, ctrl0080gr.h,
ctrl2080gr.h, ctrl2080fb.h.
"""

from typing import Any

from cffi import FFI

from hcq.ioctl_defs import amdgpu, kfd, listed, nv_ctrl
from tools.hcq_dump.classes import NAMES

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
        return "?unread"
    ffi = _FFIS[name[:3]]
    if field == "classList":
        return _numbers(ffi, item, data)
    if item == _INFO:
        return _infos(ffi, data, _INFOS.get(field, {}))
    return listed(ffi, item, data) + ("..." if len(data) < entry["size"] else "")


def _numbers(ffi: FFI, item: str, data: bytes) -> str:
    """Class numbers: names where one is known."""
    found = [int(number) for number in ffi.from_buffer(f"{item}[]", data)]
    return "[" + ",".join(NAMES.get(n, f"?{n:#06x}") for n in found if n) + "]"


def _infos(ffi: FFI, data: bytes, names: dict[int, str]) -> str:
    pairs = ffi.from_buffer(f"{_INFO}[]", data)
    shown = [f"{names.get(p.index, f'?{p.index:#x}')}={p.data:#x}" for p in pairs]
    return "{" + ",".join(shown) + "}"
