"""DRM render node of an AMD GPU: the calls a compute client meets there.

Source: Linux include/uapi/drm/drm.h and include/uapi/drm/amdgpu_drm.h.
"""

from dataclasses import replace

from cffi import FFI

from hcq.ioctl_defs import ListField, iow, iowr

ffi = FFI()
ffi.cdef("""
struct drm_version {
    int32_t version_major;
    int32_t version_minor;
    int32_t version_patchlevel;
    uint64_t name_len;
    uint64_t name;
    uint64_t date_len;
    uint64_t date;
    uint64_t desc_len;
    uint64_t desc;
};
struct drm_client {
    int32_t idx;
    int32_t auth;
    uint64_t pid;
    uint64_t uid;
    uint64_t magic;
    uint64_t iocs;
};
struct drm_amdgpu_info {
    uint64_t return_pointer;
    uint32_t return_size;
    uint32_t query;
    uint32_t argument[4];
};
""")

VERSION     = replace(
    iowr(ffi, "DRM_VERSION", "d", 0x00, "struct drm_version"),
    lists=tuple(ListField(text, "uint8_t", f"{text}_len") for text in ("name", "date", "desc")),
)
GET_CLIENT  = iowr(ffi, "DRM_GET_CLIENT", "d", 0x05, "struct drm_client")
INFO        = replace(
    iow(ffi, "DRM_AMDGPU_INFO", "d", 0x45, "struct drm_amdgpu_info"),
    lists=(ListField("return_pointer", "uint8_t", "return_size"),),
)

INFO_ACCEL_WORKING = 0x00

