"""How the simulated resource manager says no: with a status word, not with an errno.

Source: NVIDIA open-gpu-kernel-modules, src/common/sdk/nvidia/inc/nvstatuscodes.h; the
codes that are not here are in hcq/ioctl_defs/nv_escape.py.
"""

GPU_UUID_NOT_FOUND = 0x12
ILLEGAL_ACTION = 0x16
INSERT_DUPLICATE_NAME = 0x19
INVALID_DEVICE = 0x26
INVALID_POINTER = 0x3D
OBJECT_TYPE_MISMATCH = 0x58


class RmStatus(Exception):
    """A call is answered with this status; `why` goes to the machine's `refusals`."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why
