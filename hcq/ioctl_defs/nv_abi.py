"""What differs between NVIDIA driver series: one frozen object per series.

Source: NVIDIA open-gpu-kernel-modules tags 550.163.01, 570.211.01, 580.142, 595.45.04
(structs compiled and compared); 610.43.03 from public ABI tables. The driver's
version is asked once, the object picked here and passed on.
"""

from dataclasses import dataclass, replace

from hcq.errors import UnsupportedDevice
from hcq.ioctl_defs import Ioctl, nv_ctrl, nv_rm, nv_uvm
from hcq.ioctl_defs.nv_ctrl import Control
from hcq.ioctl_defs.nv_rm import AllocParams


@dataclass(frozen=True)
class Abi:
    """One driver series; `newest` is the version its layouts were checked with."""

    series: int
    newest: str
    root: AllocParams
    address_space: AllocParams
    channel: AllocParams
    schedule_group: Control
    free: Ioctl
    unregister_channel: Ioctl


ABI_550 = Abi(
    series=550,
    newest="550.163.01",
    root=nv_rm.ROOT,
    address_space=nv_rm.ADDRESS_SPACE,
    channel=nv_rm.CHANNEL,
    schedule_group=nv_ctrl.SCHEDULE_GROUP,
    free=nv_uvm.FREE,
    unregister_channel=nv_uvm.UNREGISTER_CHANNEL,
)
# From here on what differs from the series before.
ABI_570 = replace(
    ABI_550,
    series=570,
    newest="570.211.01",
    root=nv_rm.ROOT_570,
    channel=nv_rm.CHANNEL_570,
)
ABI_580 = replace(
    ABI_570,
    series=580,
    newest="580.159.03",
    address_space=nv_rm.ADDRESS_SPACE_580,
    schedule_group=nv_ctrl.SCHEDULE_GROUP_580,
)
ABI_590 = replace(
    ABI_580,
    series=590,
    newest="595.45.04",
    free=nv_uvm.FREE_590,
    unregister_channel=nv_uvm.UNREGISTER_CHANNEL_590,
)
ABI_610 = replace(ABI_590, series=610, newest="610.43.03", channel=nv_rm.CHANNEL_610)

SERIES: tuple[Abi, ...] = (ABI_550, ABI_570, ABI_580, ABI_590, ABI_610)
_BRANCHES = {550: ABI_550, 570: ABI_570, 580: ABI_580, 590: ABI_590, 595: ABI_590, 610: ABI_610}


def numbers(version: str) -> tuple[int, ...]:
    """580.159.03 -> (580, 159, 3); UnsupportedDevice for text that is no version."""
    parts = version.split(".")
    if not all(part.isdigit() for part in parts):
        raise UnsupportedDevice(
            f"the NVIDIA driver gives its version as {version!r}, which cannot be read",
            facts={"found": version, "known": known()},
        )
    return tuple(int(part) for part in parts)


def known() -> str:
    """The series in words."""
    return ", ".join(f"{abi.series} (up to {abi.newest})" for abi in SERIES)


def abi_of(version: str) -> Abi:
    """The layouts for a driver version; UnsupportedDevice for a series without a row."""
    branch = numbers(version)[0]
    if branch not in _BRANCHES:
        raise UnsupportedDevice(
            f"NVIDIA driver {version} is of a series that is not known here",
            facts={"found": version, "known": known()},
            hint="install a driver of one of the known series",
        )
    return _BRANCHES[branch]


def is_newer(version: str, abi: Abi) -> bool:
    """Whether a driver is newer than what its series' layouts were checked with."""
    return numbers(version) > numbers(abi.newest)
