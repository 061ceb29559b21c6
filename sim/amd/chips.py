"""AMD chips that can be simulated: what the topology says about each, as data.

Source: ROCm rocr-runtime and k8s-device-plugin topology fixtures; a recorded node of
a 7900 XTX (gfx1100). Sizes of save area and control stack by the formula of Linux
drivers/gpu/drm/amd/amdkfd/kfd_queue.c, kfd_queue_ctx_save_restore_size.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from hcq.bits import align

PAGE = 4096
EOP_SIZE = 4096


@dataclass(frozen=True)
class Chip:
    """One chip. `node` holds the lines of its topology node that do not depend on the machine."""

    name: str
    node: Mapping[str, int]
    vgpr_bytes_per_cu: int
    vram_bytes: int
    memory_bank: Mapping[str, int]
    ip_versions: Mapping[int, tuple[int, int, int]]  # hardware id -> version in IP discovery

    @property
    def compute_units(self) -> int:
        """Compute units of one XCC."""
        return self.node["simd_count"] // self.node["simd_per_cu"] // self.node["num_xcc"]

    @property
    def waves(self) -> int:
        """Waves that a save area has room for; gfx10.1 and later."""
        return self.compute_units * 32

    @property
    def control_stack_size(self) -> int:
        """Bytes CREATE_QUEUE insists on: 12 for each wave and 48 more, in whole pages."""
        return align(40 + 8 + self.waves * 12, PAGE)

    @property
    def save_area_size(self) -> int:
        """Bytes of control stack and wave state of one XCC."""
        lds, sgprs, hardware = self.node["lds_size_in_kb"] * 1024, 0x4000, 0x1000
        per_cu = self.vgpr_bytes_per_cu + sgprs + lds + hardware
        return self.control_stack_size + align(self.compute_units * per_cu, PAGE)

    @property
    def save_buffer_size(self) -> int:
        """Bytes of the buffer: the save areas and the debugger's part of every XCC."""
        debug = align(self.waves * 32, 64)
        return align((self.save_area_size + debug) * self.node["num_xcc"], PAGE)

    @property
    def sdma_queues(self) -> int:
        """How many SDMA queues all processes may have."""
        return self.node["num_sdma_engines"] * self.node["num_sdma_queues_per_engine"]


GFX1100 = Chip(
    name="gfx1100",
    node={
        "cpu_cores_count": 0,
        "simd_count": 192,
        "mem_banks_count": 1,
        "caches_count": 1,
        "io_links_count": 1,
        "p2p_links_count": 0,
        "cpu_core_id_base": 0,
        "simd_id_base": 0x80001000,
        "max_waves_per_simd": 16,
        "lds_size_in_kb": 64,
        "gds_size_in_kb": 0,
        "num_gws": 64,
        "wave_front_size": 32,
        "array_count": 12,
        "simd_arrays_per_engine": 2,
        "cu_per_simd_array": 8,
        "simd_per_cu": 2,
        "max_slots_scratch_cu": 32,
        "gfx_target_version": 110000,
        "vendor_id": 4098,
        "device_id": 29772,
        "domain": 0,
        "num_sdma_engines": 2,
        "num_sdma_xgmi_engines": 0,
        "num_sdma_queues_per_engine": 6,
        "num_cp_queues": 8,
        "max_engine_clk_fcompute": 2482,
        "local_mem_size": 0,
        "fw_version": 2140,
        "capability": 0x2807A280,
        "debug_prop": 1495,
        "sdma_fw_version": 20,
        "num_xcc": 1,
        "max_engine_clk_ccompute": 3000,
    },
    vgpr_bytes_per_cu=0x60000,
    vram_bytes=24 << 30,
    memory_bank={"width": 384, "mem_clk_max": 1249},
    ip_versions={11: (11, 0, 0), 42: (6, 0, 0), 108: (4, 3, 0)},
)

CHIPS = {chip.name: chip for chip in (GFX1100,)}
