"""Driver series and how long their parameter structs are: the simulator's own numbers.

The driver's tables are hcq/ioctl_defs'; these are written down once more, as literals, so
that a wrong table there is noticed. Source: NVIDIA open-gpu-kernel-modules tags 550.163.01,
570.211.01, 580.142, 595.45.04, compiled and measured; 610.43.03 from public ABI tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from hcq.errors import ConfigError
from hcq.ioctl_defs import Ioctl, nv_rm, nv_uvm

ROOT, DEVICE, SUBDEVICE = 0x41, 0x80, 0x2080
SYSTEM_MEMORY, VIDEO_MEMORY = 0x3E, 0x40
ADDRESS_SPACE, CONTEXT_SHARE, CHANNEL_GROUP = 0x90F1, 0x9067, 0xA06C
CHANNEL = 0x6F  # the low byte of every channel class
USERMODE, COMPUTE, COPY = 0x61, 0xC0, 0xB5  # likewise
DEBUGGER, CONFIDENTIAL, OS_EVENT = 0x83DE, 0xCB33, 0x79

# Bytes of allocation parameters, by class or by a family's low byte.
_ALLOC: dict[int, int] = {
    ROOT: 0x78, DEVICE: 0x38, SUBDEVICE: 4, SYSTEM_MEMORY: 0x80, VIDEO_MEMORY: 0x80,
    ADDRESS_SPACE: 0x38, CONTEXT_SHARE: 0xC, CHANNEL_GROUP: 0x14, CHANNEL: 0x170, USERMODE: 2,
    COMPUTE: 0x10, COPY: 8, DEBUGGER: 0xC, CONFIDENTIAL: 4, OS_EVENT: 0x18,
}  # fmt: skip
# Bytes of control parameters, by command.
_CONTROL: dict[int, int] = {
    0x0000_0205: 0x20, 0x0080_0201: 0x10, 0x2080_0101: 0x10,
    0x2080_0131: 4, 0x2080_014A: 0x10C, 0x2080_200A: 8, 0x2080_1201: 0x20, 0x2080_1301: 0x10,
    0xA06C_0101: 3, 0xC36F_0108: 4, 0x906F_0106: 0x68,
    0x83DE_030C: 0x12D8, 0x83DE_0328: 0x48, 0xCB33_0101: 6,
}  # fmt: skip
# Bytes of unified-memory structs, by number.
_UVM: dict[int, int] = {
    0x3000_0001: 0x10, 0x3000_0002: 0, 25: 0x20, 26: 0x14, 27: 0x38, 28: 0x1C, 29: 0x24,
    30: 0x24, 33: 0x2430, 34: 0x18, 37: 0x28, 38: 0x14, 66: 0x28, 73: 0x18, 75: 8,
}  # fmt: skip
# Bytes of the escapes' structs: the kernel takes no other size.
ESCAPES: Mapping[int, tuple[int, ...]] = {
    201: (4,), 206: (0x10,), 207: (0x10,), 210: (0x48,), 0x27: (0x38,), 0x29: (0x10,),
    0x2A: (0x20,), 0x2B: (0x20, 0x30), 0x4E: (0x38,), 0x4F: (0x20,),
}  # fmt: skip
CARD_BYTES = 0x48


@dataclass(frozen=True)
class Series:
    """One driver series as the simulated driver has it."""

    number: int
    newest: str
    alloc: Mapping[int, int]
    control: Mapping[int, int]
    uvm: Mapping[int, int]
    address_space: Ioctl
    channel: Ioctl
    free: Ioctl
    unregister_channel: Ioctl


_OLD_SCHEDULE = {0xA06C_0101: 2}
_OLD_UVM = (nv_uvm.FREE, nv_uvm.UNREGISTER_CHANNEL)
_NEW_UVM = (nv_uvm.FREE_590, nv_uvm.UNREGISTER_CHANNEL_590)
_UVM_590 = _UVM | {34: 0x10, 28: 0xC}

SERIES = {
    550: Series(
        550, "550.163.01", _ALLOC | {ROOT: 0x6C, ADDRESS_SPACE: 0x30, CHANNEL: 0x168},
        _CONTROL | _OLD_SCHEDULE, _UVM, nv_rm.ADDRESS_SPACE,
        nv_rm.CHANNEL, *_OLD_UVM,
    ),
    570: Series(
        570, "570.211.01", _ALLOC | {ADDRESS_SPACE: 0x30},
        _CONTROL | _OLD_SCHEDULE, _UVM, nv_rm.ADDRESS_SPACE,
        nv_rm.CHANNEL_570, *_OLD_UVM,
    ),
    580: Series(
        580, "580.159.03", _ALLOC, _CONTROL, _UVM, nv_rm.ADDRESS_SPACE_580,
        nv_rm.CHANNEL_570, *_OLD_UVM,
    ),
    590: Series(
        590, "595.45.04", _ALLOC, _CONTROL, _UVM_590, nv_rm.ADDRESS_SPACE_580,
        nv_rm.CHANNEL_570, *_NEW_UVM,
    ),
    610: Series(
        610, "610.43.03", _ALLOC | {CHANNEL: 0x178}, _CONTROL, _UVM_590,
        nv_rm.ADDRESS_SPACE_580, nv_rm.CHANNEL_610, *_NEW_UVM,
    ),
}  # fmt: skip
_BRANCHES = {**SERIES, 595: SERIES[590]}


def resolve(driver: str) -> tuple[str, Series]:
    """The full version for one, or for a series; its tables.

    A version of a branch that is not simulated keeps its number and has the tables of the
    nearest one, so that a driver's refusal of it can be tested.
    """
    branch = driver.split(".")[0]
    if not branch.isdecimal():
        raise ConfigError(f"driver {driver!r} is no version such as 580.159.03, or series")
    number = int(branch)
    if driver == branch and number not in SERIES:
        raise ConfigError(f"driver series {driver} is not known; there are {known()}")
    if driver == branch:
        return SERIES[number].newest, SERIES[number]
    nearest = min(_BRANCHES, key=lambda other: abs(other - number))
    return driver, _BRANCHES[nearest]


def known() -> str:
    """The series that are simulated, for messages."""
    return ", ".join(map(str, SERIES))


def family(number: int) -> int:
    """The key of a class in the table of allocation sizes."""
    return number if number in _ALLOC else number & 0xFF
