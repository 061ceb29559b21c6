"""NVIDIA chips that can be simulated, as data.

Source: class numbers: NVIDIA open-gpu-kernel-modules, src/common/sdk/nvidia/inc/class;
SM versions: ctrl2080gr.h; largest numbers of clusters: public block diagrams of GA100,
GA102, AD102, GH100, GB100, GB202. sm_120 reports 0xa04 as 580 drivers do. First driver series:
open-gpu-kernel-modules' README of 550.40.82 lists products up to Ada and Hopper and none of
Blackwell; Google's Container-Optimized OS brought 570.86.15 for B200; R570 was the first public
driver for the GeForce RTX 5090 (Phoronix, January 2025).
"""

from dataclasses import dataclass

from hcq.nv.defs import classes as c

GIB = 1 << 30
KIB = 1 << 10
# On every chip, whatever its generation.
COMMON = (
    c.NV01_ROOT_CLIENT, c.NV01_DEVICE_0, c.NV20_SUBDEVICE_0, c.NV01_MEMORY_SYSTEM,
    c.NV01_MEMORY_LOCAL_USER, c.NV01_MEMORY_SYSTEM_OS_DESCRIPTOR, c.NV01_EVENT_OS_EVENT,
    c.FERMI_VASPACE_A, c.FERMI_CONTEXT_SHARE_A, c.KEPLER_CHANNEL_GROUP_A, c.GT200_DEBUGGER,
)  # fmt: skip


@dataclass(frozen=True)
class Chip:
    """One chip. Video and graphics engines are not simulated."""

    name: str
    device_id: int
    sm_version: int
    sass_version: int  # as launch records name it
    channel_classes: tuple[int, ...]
    compute_class: int
    copy_class: int
    usermode_classes: tuple[int, ...]
    qmd_versions: tuple[int, ...]
    gpcs: int
    tpcs_per_gpc: int
    sms_per_tpc: int
    warps_per_sm: int
    shared_limit: int  # bytes of one block, the system's 1 KiB included
    vram_bytes: int
    bar1_bytes: int
    address_bits: int  # of host methods, ring and pushbuffer
    reports: bool = True  # has the semaphore methods at 0x158
    other_classes: tuple[int, ...] = ()
    first_series: int = 0  # of drivers that know it; 0: older than what is simulated

    @property
    def classes(self) -> tuple[int, ...]:
        """The class list the driver reports."""
        own = (self.compute_class, self.copy_class)
        listed = (*COMMON, *self.channel_classes, *self.usermode_classes, *own)
        return (*listed, *self.other_classes)

    @property
    def is_hopper_or_later(self) -> bool:
        """Whether addresses are wide and the doorbell page can be in BAR1."""
        return self.address_bits > 40


_AMPERE_USERMODE = (c.TURING_USERMODE_A, c.AMPERE_USERMODE_A)
_BLACKWELL_USERMODE = (c.HOPPER_USERMODE_A, c.BLACKWELL_USERMODE_A)

SM_80 = Chip(
    "sm_80", 0x20B0, 0x800, 0x80, (c.AMPERE_CHANNEL_GPFIFO_A,), c.AMPERE_COMPUTE_A,
    c.AMPERE_DMA_COPY_A, _AMPERE_USERMODE, (3,), 8, 8, 2, 64, 164 * KIB, 80 * GIB,
    128 * GIB, 40, reports=False, other_classes=(0x902D, 0xA140, 0xC697),
)  # fmt: skip
SM_86 = Chip(
    "sm_86", 0x2204, 0x806, 0x86, (c.AMPERE_CHANNEL_GPFIFO_A,), c.AMPERE_COMPUTE_B,
    c.AMPERE_DMA_COPY_B, _AMPERE_USERMODE, (3,), 7, 6, 2, 48, 100 * KIB, 24 * GIB,
    32 * GIB, 40, other_classes=(0x902D, 0xA140, 0xC797, 0xC7B0),
)  # fmt: skip
SM_89 = Chip(
    "sm_89", 0x2684, 0x809, 0x89, (c.AMPERE_CHANNEL_GPFIFO_A,), c.ADA_COMPUTE_A,
    c.AMPERE_DMA_COPY_B, _AMPERE_USERMODE, (3,), 12, 6, 2, 48, 100 * KIB, 24 * GIB,
    32 * GIB, 40, other_classes=(0x902D, 0xA140, 0xC997, 0xC9B0),
)  # fmt: skip
SM_90 = Chip(
    "sm_90", 0x2335, 0x900, 0x90, (c.HOPPER_CHANNEL_GPFIFO_A,), c.HOPPER_COMPUTE_A,
    c.HOPPER_DMA_COPY_A, (c.HOPPER_USERMODE_A,), (3, 4), 8, 9, 2, 64, 228 * KIB, 141 * GIB,
    256 * GIB, 57, other_classes=(0x902D, 0xA140, 0xCB97, 0xB8B0, c.NV_CONFIDENTIAL_COMPUTE),
)  # fmt: skip
SM_100 = Chip(
    "sm_100", 0x2901, 0xA00, 0xA0, (c.BLACKWELL_CHANNEL_GPFIFO_A,), c.BLACKWELL_COMPUTE_A,
    c.BLACKWELL_DMA_COPY_A, _BLACKWELL_USERMODE, (5,), 8, 10, 2, 64, 228 * KIB, 180 * GIB,
    256 * GIB, 57, other_classes=(0x902D, 0xA140, 0xCD97, c.NV_CONFIDENTIAL_COMPUTE),
    first_series=570,
)  # fmt: skip
SM_120 = Chip(
    "sm_120", 0x2B85, 0xA04, 0xA4,
    (c.BLACKWELL_CHANNEL_GPFIFO_A, c.BLACKWELL_CHANNEL_GPFIFO_B), c.BLACKWELL_COMPUTE_B,
    c.BLACKWELL_DMA_COPY_B, _BLACKWELL_USERMODE, (5,), 12, 8, 2, 48, 100 * KIB, 32 * GIB,
    32 * GIB, 57, other_classes=(0x902D, 0xA140, 0xCE97, 0xCFB0),
    first_series=570,
)  # fmt: skip

CHIPS = {chip.name: chip for chip in (SM_80, SM_86, SM_89, SM_90, SM_100, SM_120)}
