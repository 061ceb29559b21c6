"""What differs between AMD generations. The only place that does.

Source: Linux amdkfd/kfd_queue.c (save area sizes); LLVM AMDGPU usage guide (register
granules, local memory), AMDGPUBaseInfo.cpp (registers of a SIMD); ROCr
amd_gpu_agent.cpp (largest copy); Mesa ac_shader_util.c (scratch waves counted per
engine from gfx11 on).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hcq.amd.defs import pm4, registers
from hcq.bits import Layout, align
from hcq.host import PAGE


@dataclass(frozen=True)
class Arch:
    """One chip family as data."""

    name: str
    target_version: int  # gfx_target_version of the topology
    wave_sizes: tuple[int, ...]
    lds_bytes: int  # most local memory of a work-group
    max_threads: int  # of a work-group
    user_registers: int
    # The vector register file, in registers of a wave of 32.
    simds_per_unit: int
    vgprs_per_simd: int
    vgpr_granule: int
    # Save area: bytes per compute unit, waves per compute unit, bytes per wave.
    vgpr_bytes: int
    sgpr_bytes: int
    saved_lds_bytes: int
    hardware_register_bytes: int
    waves_per_unit: int
    control_bytes_per_wave: int
    # Scratch: TMPRING_SIZE and the unit of its wave size.
    tmpring: Layout
    scratch_unit: int
    scratch_waves_per_engine: bool
    # Copy engine.
    max_copy_bytes: int
    # Cache words of the packets.
    acquire: Mapping[str, int]  # between kernels
    acquire_all: Mapping[str, int]  # after a wait: also what others wrote
    acquire_code: Mapping[str, int]  # after code was uploaded
    release: Mapping[str, int]
    program_register3: int = registers.COMPUTE_PGM_RSRC3
    acquire_layout: Layout = field(default=pm4.ACQUIRE_MEM_GCR)
    release_layout: Layout = field(default=pm4.RELEASE_MEM_EVENT)


GFX1100 = Arch(
    name="gfx1100",
    target_version=110000,
    wave_sizes=(32, 64),
    lds_bytes=0x10000,
    max_threads=1024,
    user_registers=16,
    simds_per_unit=2,
    vgprs_per_simd=1536,
    vgpr_granule=24,
    vgpr_bytes=0x60000,
    sgpr_bytes=0x4000,
    saved_lds_bytes=0x10000,
    hardware_register_bytes=0x1000,
    waves_per_unit=32,
    control_bytes_per_wave=12,
    tmpring=registers.TMPRING_SIZE,
    scratch_unit=256,
    scratch_waves_per_engine=True,
    max_copy_bytes=0x3FFF_FF00,
    acquire={"glk_inv": 1, "glv_inv": 1, "gl1_inv": 1},
    acquire_all={
        "glk_inv": 1, "glv_inv": 1, "gl1_inv": 1, "gl2_inv": 1, "gl2_wb": 1,
        "glm_inv": 1, "glm_wb": 1,
    },
    acquire_code={"gli_inv": 1, "glk_inv": 1, "glv_inv": 1, "gl1_inv": 1},
    release={"gl2_wb": 1, "glm_wb": 1, "glm_inv": 1, "glv_inv": 1, "gl1_inv": 1, "seq": 1},
)  # fmt: skip

ARCHES = {arch.target_version: arch for arch in (GFX1100,)}


def target_name(version: int) -> str:
    """gfx_target_version as a target name: 110000 -> gfx1100, 90010 -> gfx90a."""
    major, minor, stepping = version // 10000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{stepping:x}"


@dataclass(frozen=True)
class SaveArea:
    """Sizes the kernel checks when a compute queue is made, in bytes per XCC."""

    control_stack: int
    area: int
    debug: int
    total: int  # the whole buffer, all XCCs


def save_area(arch: Arch, compute_units: int, xccs: int = 1) -> SaveArea:
    """Where the kernel saves waves; compute_units counts one XCC's."""
    waves = compute_units * arch.waves_per_unit
    per_unit = (
        arch.vgpr_bytes + arch.sgpr_bytes + arch.saved_lds_bytes + arch.hardware_register_bytes
    )
    control = align(40 + 8 + waves * arch.control_bytes_per_wave, PAGE)
    area = control + align(compute_units * per_unit, PAGE)
    debug = align(waves * 32, 64)
    return SaveArea(control, area, debug, align((area + debug) * xccs, PAGE))
