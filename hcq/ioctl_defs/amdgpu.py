"""DRM render node of an AMD GPU: the calls a compute client meets there.

Source: Linux include/uapi/drm/drm.h and include/uapi/drm/amdgpu_drm.h.
"""

from cffi import FFI

from hcq.ioctl_defs import iow, iowr

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

VERSION     = iowr(ffi, "DRM_VERSION", "d", 0x00, "struct drm_version")
GET_CLIENT  = iowr(ffi, "DRM_GET_CLIENT", "d", 0x05, "struct drm_client")
INFO        = iow(ffi, "DRM_AMDGPU_INFO", "d", 0x45, "struct drm_amdgpu_info")

INFO_ACCEL_WORKING = 0x00

