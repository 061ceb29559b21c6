"""AMD GPUs through the kernel's compute device, /dev/kfd.

    from hcq import amd
    device = amd.open(0)

Importing this opens nothing and loads nothing: what talks to the machine comes in
with the first call.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hcq.amd.device import Device


def open(index: int = 0, *, timeline_start: int = 0) -> "Device":
    """The index-th GPU; DeviceOpenError, DeviceNotFound or UnsupportedDevice when it cannot be.

    `timeline_start` is the first value of the device's timeline, for tests of its wrap.
    """
    from hcq.amd.device import Device

    return Device(index, timeline_start=timeline_start)


def count() -> int:
    """How many GPUs there are: 0 without a compute device, DeviceOpenError on garbled lists."""
    from hcq import host
    from hcq.amd import topology

    return topology.count(host.current())
