"""What differs between NVIDIA generations. The only place that does.

Source: NVIDIA open-gpu-kernel-modules class headers (class numbers per chip), CUDA
programming guide, table of technical specifications (shared memory, registers,
threads); the shared memory sizes an SM can be set to: CUDA's tuning guides.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hcq.errors import UnsupportedDevice
from hcq.nv.defs import bank0, classes
from hcq.nv.defs.bank0 import Bank0

KIB = 1 << 10
SMALL = (8, 16, 32, 64, 100)
LARGE = (8, 16, 32, 64, 100, 132, 164)
LARGEST = (*LARGE, 196, 228)
SYSTEM_SHARED = 1 * KIB  # of each block, for the system


@dataclass(frozen=True)
class Arch:
    """One chip family as data; classes best first."""

    name: str
    sm_versions: tuple[int, ...]  # as the driver reports them
    channel_classes: tuple[int, ...]
    compute_class: int
    copy_class: int
    usermode_classes: tuple[int, ...]
    usermode_in_bar1: bool  # the doorbell takes the same way as video memory
    qmd_version: int
    sass_version: int
    bank0: Bank0
    shared_sizes: tuple[int, ...]  # KiB an SM can be set to
    has_system_shared_in_code: bool  # a cubin's shared section includes the system's KiB
    max_shared: int  # bytes a block may use
    max_threads: int = 1024
    registers: int = 65536  # of an SM

    @property
    def sm(self) -> int:
        """90 for sm_90."""
        return int(self.name.removeprefix("sm_"))


_BLACKWELL_CHANNELS = (
    classes.BLACKWELL_CHANNEL_GPFIFO_B,
    classes.BLACKWELL_CHANNEL_GPFIFO_A,
)
_BLACKWELL_USERMODE = (classes.BLACKWELL_USERMODE_A, classes.HOPPER_USERMODE_A)
_AMPERE_USERMODE = (classes.AMPERE_USERMODE_A, classes.TURING_USERMODE_A)

SM_80 = Arch(
    name="sm_80",
    sm_versions=(0x800,),
    channel_classes=(classes.AMPERE_CHANNEL_GPFIFO_A,),
    compute_class=classes.AMPERE_COMPUTE_A,
    copy_class=classes.AMPERE_DMA_COPY_A,
    usermode_classes=_AMPERE_USERMODE,
    usermode_in_bar1=False,
    qmd_version=3,
    sass_version=0x80,
    bank0=bank0.AMPERE,
    shared_sizes=LARGE,
    has_system_shared_in_code=False,
    max_shared=163 * KIB,
)
SM_86 = Arch(
    name="sm_86",
    sm_versions=(0x806,),
    channel_classes=(classes.AMPERE_CHANNEL_GPFIFO_A,),
    compute_class=classes.AMPERE_COMPUTE_B,
    copy_class=classes.AMPERE_DMA_COPY_B,
    usermode_classes=_AMPERE_USERMODE,
    usermode_in_bar1=False,
    qmd_version=3,
    sass_version=0x86,
    bank0=bank0.AMPERE,
    shared_sizes=SMALL,
    has_system_shared_in_code=False,
    max_shared=99 * KIB,
)
SM_89 = Arch(
    name="sm_89",
    sm_versions=(0x809,),
    channel_classes=(classes.AMPERE_CHANNEL_GPFIFO_A,),
    compute_class=classes.ADA_COMPUTE_A,
    copy_class=classes.AMPERE_DMA_COPY_B,
    usermode_classes=_AMPERE_USERMODE,
    usermode_in_bar1=False,
    qmd_version=3,
    sass_version=0x89,
    bank0=bank0.AMPERE,
    shared_sizes=SMALL,
    has_system_shared_in_code=False,
    max_shared=99 * KIB,
)
SM_90 = Arch(
    name="sm_90",
    sm_versions=(0x900,),
    channel_classes=(classes.HOPPER_CHANNEL_GPFIFO_A,),
    compute_class=classes.HOPPER_COMPUTE_A,
    copy_class=classes.HOPPER_DMA_COPY_A,
    usermode_classes=(classes.HOPPER_USERMODE_A,),
    usermode_in_bar1=True,
    qmd_version=4,
    sass_version=0x90,
    bank0=bank0.HOPPER,
    shared_sizes=LARGEST,
    has_system_shared_in_code=True,
    max_shared=227 * KIB,
)
SM_100 = Arch(
    name="sm_100",
    sm_versions=(0xA00,),
    channel_classes=_BLACKWELL_CHANNELS,
    compute_class=classes.BLACKWELL_COMPUTE_A,
    copy_class=classes.BLACKWELL_DMA_COPY_A,
    usermode_classes=_BLACKWELL_USERMODE,
    usermode_in_bar1=True,
    qmd_version=5,
    sass_version=0xA0,
    bank0=bank0.BLACKWELL,
    shared_sizes=LARGEST,
    has_system_shared_in_code=True,
    max_shared=227 * KIB,
)
SM_120 = Arch(
    name="sm_120",
    sm_versions=(0xA04, 0xC00),  # drivers give either
    channel_classes=_BLACKWELL_CHANNELS,
    compute_class=classes.BLACKWELL_COMPUTE_B,
    copy_class=classes.BLACKWELL_DMA_COPY_B,
    usermode_classes=_BLACKWELL_USERMODE,
    usermode_in_bar1=True,
    qmd_version=5,
    sass_version=0xA4,
    bank0=bank0.BLACKWELL,
    shared_sizes=SMALL,
    has_system_shared_in_code=True,
    max_shared=99 * KIB,
)

ARCHES: tuple[Arch, ...] = (SM_80, SM_86, SM_89, SM_90, SM_100, SM_120)
_SPECIAL = {0xA04: "sm_120"}
LEAST_UNLIKELY = 0x20  # generations come in ones and twos: 0xC is the newest


@dataclass(frozen=True)
class Classes:
    """The classes chosen from what a GPU offers."""

    channel: int
    compute: int
    copy: int
    usermode: int


def sm_name(version: int) -> str:
    """The driver's SM version as a target name: 0x806 -> sm_86, 0xa04 -> sm_120.

    What is none as far as one knows, such as 0xffffffff, is shown as it is.
    """
    major, minor = version >> 8, version & 0xFF
    if not 0 < major < LEAST_UNLIKELY or minor > 9:
        return f"SM version {version:#x}"
    return _SPECIAL.get(version, f"sm_{major}{minor}")


def arch_of(version: int, offered: Sequence[int]) -> Arch:
    """The row of a chip; UnsupportedDevice with chip, classes offered and what is supported."""
    for arch in ARCHES:
        if version in arch.sm_versions:
            return arch
    error = _unsupported(sm_name(version), offered, "which is not supported")
    error.facts["sm_version"] = hex(version)
    raise error


def choose(arch: Arch, offered: Sequence[int]) -> Classes:
    """A chip's classes out of its class list; UnsupportedDevice when one is missing."""
    found = Classes(
        channel=_first(arch.channel_classes, offered),
        compute=_first((arch.compute_class,), offered),
        copy=_first((arch.copy_class,), offered),
        usermode=_first(arch.usermode_classes, offered),
    )
    for kind, number in vars(found).items():
        if not number:
            raise _unsupported(arch.name, offered, f"but offers no {kind} class known here")
    return found


def _first(wanted: Sequence[int], offered: Sequence[int]) -> int:
    return next((number for number in wanted if number in offered), 0)


def _unsupported(chip: str, offered: Sequence[int], why: str) -> UnsupportedDevice:
    return UnsupportedDevice(
        f"the GPU is an {chip}, {why}",
        facts={
            "found": chip,
            "classes": " ".join(f"{number:04x}" for number in sorted(offered)) or "none",
            "supported": ", ".join(arch.name for arch in ARCHES),
        },
        hint="a GPU of the Ampere, Ada, Hopper or Blackwell generation is needed",
    )
