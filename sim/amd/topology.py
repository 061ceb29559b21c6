"""The sysfs tree of the simulated kfd: system, nodes, memory banks, caches, links.

Source: Linux drivers/gpu/drm/amd/amdkfd/kfd_topology.c (files and keys), the order
of lines as recorded nodes show it.
"""

import os
from collections.abc import Sequence
from errno import EPERM
from typing import Protocol

from hcq.ioctl_defs import kfd
from sim.amd.chips import EOP_SIZE, Chip
from sim.files import Files, properties

HEAP_SYSTEM, HEAP_VRAM_PUBLIC, HEAP_VRAM_PRIVATE = 0, 1, 2
LINK_PCIE = 2
LINK_WEIGHT_PCIE = 20
SYSTEM_MEMORY = 64 << 30


class Node(Protocol):
    """What the topology needs to know of a GPU."""

    chip: Chip
    gpu_id: int
    index: int
    minor: int
    vram: int
    large_bar: bool
    masked: bool


def build(files: Files, gpus: Sequence[Node], *, save_sizes: bool = False) -> None:
    """Lay out the tree: node 0 is the CPU, node i + 1 the GPU i.

    `save_sizes` adds the lines of recent kernels that give the save area's sizes.
    """
    root = kfd.TOPOLOGY
    files.link("/sys/class/kfd/kfd/topology", root)
    files.add(f"{root}/generation_id", b"2\n")
    system = properties(platform_oem=0x204C4C4F, platform_id=0x4D49532D, platform_rev=1)
    files.add(f"{root}/system_properties", system)
    _cpu(files, f"{root}/nodes/0", len(gpus))
    for gpu in gpus:
        _gpu(files, f"{root}/nodes/{gpu.index + 1}", gpu, save_sizes)
    files.add("/sys/module/amdgpu/initstate", b"live\n")
    files.add("/sys/module/amdgpu/version", b"6.10.5\n")


def _cpu(files: Files, folder: str, links: int) -> None:
    files.add(f"{folder}/gpu_id", b"0\n")
    files.add(f"{folder}/name", b"\n")
    cores = os.cpu_count() or 1
    node = properties(
        cpu_cores_count=cores, simd_count=0, mem_banks_count=1, caches_count=0,
        io_links_count=links, p2p_links_count=0, cpu_core_id_base=0, simd_id_base=0,
        max_waves_per_simd=0, lds_size_in_kb=0, gds_size_in_kb=0, wave_front_size=0,
        array_count=0, simd_arrays_per_engine=0, cu_per_simd_array=0, simd_per_cu=0,
        max_slots_scratch_cu=0, gfx_target_version=0, vendor_id=0, device_id=0,
        location_id=0, domain=0, drm_render_minor=0, hive_id=0, num_xcc=0,
        max_engine_clk_ccompute=3000,
    )  # fmt: skip
    files.add(f"{folder}/properties", node)
    bank = properties(
        heap_type=HEAP_SYSTEM, size_in_bytes=SYSTEM_MEMORY, flags=0, width=64, mem_clk_max=3200
    )
    files.add(f"{folder}/mem_banks/0/properties", bank)
    for link in range(links):
        _link(files, f"{folder}/io_links/{link}", 0, link + 1)


def _gpu(files: Files, folder: str, gpu: Node, save_sizes: bool) -> None:
    chip = gpu.chip
    lines = dict(chip.node)
    # Bus numbers as on a board with one GPU a slot; bus << 8.
    lines |= {"location_id": (gpu.index + 3) << 8, "drm_render_minor": gpu.minor}
    lines |= {"hive_id": 0, "unique_id": 0x1D3A_5C00_0000_0000 + gpu.gpu_id}
    if save_sizes:
        lines |= {"cwsr_size": chip.save_area_size, "ctl_stack_size": chip.control_stack_size}
        lines |= {"eop_buffer_size": EOP_SIZE}
    guarded = {
        "gpu_id": f"{gpu.gpu_id}\n".encode(),
        "name": b"ip discovery\n",
        "properties": properties(**lines),
    }
    for name, content in guarded.items():
        denied = PermissionError(EPERM, os.strerror(EPERM), f"{folder}/{name}")
        files.add(f"{folder}/{name}", denied if gpu.masked else content)
    heap = HEAP_VRAM_PUBLIC if gpu.large_bar else HEAP_VRAM_PRIVATE
    bank = properties(heap_type=heap, size_in_bytes=gpu.vram, flags=0, **chip.memory_bank)
    files.add(f"{folder}/mem_banks/0/properties", bank)
    cache = properties(
        processor_id_low=chip.node["simd_id_base"], level=1, size=32, cache_line_size=128,
        cache_lines_per_tag=1, association=0, latency=0, type=9, sibling_map=1,
    )  # fmt: skip
    files.add(f"{folder}/caches/0/properties", cache)
    _link(files, f"{folder}/io_links/0", gpu.index + 1, 0)
    _discovery(files, gpu)


def _link(files: Files, folder: str, source: int, target: int) -> None:
    link = properties(
        type=LINK_PCIE, version_major=0, version_minor=0, node_from=source, node_to=target,
        weight=LINK_WEIGHT_PCIE, min_latency=0, max_latency=0, min_bandwidth=0,
        max_bandwidth=31504, recommended_transfer_size=0, recommended_sdma_engine_id_mask=0,
        flags=1,
    )  # fmt: skip
    files.add(f"{folder}/properties", link)


def _discovery(files: Files, gpu: Node) -> None:
    device = f"/sys/class/drm/renderD{gpu.minor}/device"
    files.add(f"{device}/vendor", b"0x1002\n")
    files.add(f"{device}/device", f"{gpu.chip.node['device_id']:#06x}\n".encode())
    for hardware, (major, minor, revision) in gpu.chip.ip_versions.items():
        folder = f"{device}/ip_discovery/die/0/{hardware}/0"
        files.add(f"{folder}/major", f"{major}\n".encode())
        files.add(f"{folder}/minor", f"{minor}\n".encode())
        files.add(f"{folder}/revision", f"{revision}\n".encode())
