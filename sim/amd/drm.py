"""The simulated render node: the few DRM calls that a compute client makes.

Source: Linux include/uapi/drm/drm.h and amdgpu_drm.h.
"""

from errno import EINVAL, ENOTTY
from typing import Any

from cffi import FFI

from hcq.ioctl_defs import amdgpu
from sim import user
from sim.refusal import Refusal

_ffi = FFI()
DRIVER_VERSION = (3, 61, 0)
DRIVER_NAME = b"amdgpu"
_ANSWERS = 1 << 31  # of a request: the struct is copied back
_CALLS = {call.number & 0xFF: call for call in (amdgpu.VERSION, amdgpu.GET_CLIENT, amdgpu.INFO)}


def ioctl(number: int, address: int, size: int) -> None:
    """Answer one call, its struct at `address`; Refusal with the errno otherwise, UserFault."""
    entry = _CALLS.get(number & 0xFF)
    if number >> 8 & 0xFF != ord("d") or entry is None:
        raise Refusal(ENOTTY, f"request {number:#x} is not known to the render node")
    own: Any = entry.ffi.new(f"{entry.struct} *")
    shared = min(size, entry.size)
    _ffi.memmove(entry.ffi.buffer(own), user.read(address, size)[:shared], shared)
    if entry is amdgpu.VERSION:
        _version(own)
    elif entry is amdgpu.GET_CLIENT:
        own.auth = 1
    else:
        _info(own)
    if entry.number & _ANSWERS:
        user.write(address, bytes(entry.ffi.buffer(own))[:shared])


def _version(own: Any) -> None:
    own.version_major, own.version_minor, own.version_patchlevel = DRIVER_VERSION
    if own.name and own.name_len:
        user.write(own.name, DRIVER_NAME[: own.name_len])
    own.name_len = len(DRIVER_NAME)
    own.date_len = own.desc_len = 0


def _info(own: Any) -> None:
    if own.query != amdgpu.INFO_ACCEL_WORKING:
        raise Refusal(EINVAL, f"AMDGPU_INFO query {own.query:#x} is not simulated")
    user.write(own.return_pointer, (1).to_bytes(4, "little")[: own.return_size])
