"""Launch records: a launch as data -> the words of a QMD, one function per version.

A record is laid down once per kernel and block; grid and constant bank 0 are holes
filled per launch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hcq.bits import Layout, hi32, lo32
from hcq.nv.defs import qmd

GROUP_ID = 0x3F
MAX_PREFETCH = 0x1FF


@dataclass(frozen=True)
class Constants:
    """A constant bank: where it lies and its bytes."""

    address: int
    size: int


@dataclass(frozen=True)
class LaunchFacts:
    """What a record says of a kernel; sizes are bytes, `shared_sizes` KiB an SM can be set to."""

    code: int
    code_size: int
    block: tuple[int, int, int]
    registers: int
    barriers: int
    shared: int
    shared_sizes: tuple[int, ...]
    local: int
    sass_version: int
    constants: Mapping[int, Constants]  # by bank; bank 0's address is filled in per launch
    virtual_resources: int = 0


@dataclass(frozen=True)
class Holes:
    """Words of a record that change with each launch, and where a dependent record is named."""

    grid: int  # three words
    bank0: int  # address low, then high in the bits of bank0_mask
    bank0_mask: int
    bank0_unit: int  # the address is given divided by this
    dependent_pointer: int
    dependent_flags: int
    dependent_bits: int


def _flags(layout: Layout, word: int) -> int:
    # Enabled, scheduled when this one is complete, fetched ahead.
    packed = layout.pack(
        dependent_qmd0_enable=1,
        dependent_qmd0_action=qmd.DEPENDENT_SCHEDULE,
        dependent_qmd0_prefetch=1,
    )
    return packed >> 32 * word & 0xFFFF_FFFF


HOLES = {
    3: Holes(12, 32, 0x1FFFF, 1, 15, 16, _flags(qmd.QMD_V3, 16)),
    4: Holes(32, 48, 0x7FFFF, 64, 14, 11, _flags(qmd.QMD_V4, 11)),
    5: Holes(39, 42, 0x7FFFF, 64, 12, 10, _flags(qmd.QMD_V5, 10)),
}


def build(version: int, facts: LaunchFacts) -> list[int]:
    """The words of a record, holes zero."""
    record, layout = _BUILDERS[version](facts), qmd.TABLES[version]
    return [record >> at & 0xFFFF_FFFF for at in range(0, layout.size_bits, 32)]


def _shared_code(kib: int) -> int:
    return kib // 4 + 1


def _same(facts: LaunchFacts) -> dict[str, int]:
    """Fields that every version has under one name."""
    fits = next(kib for kib in facts.shared_sizes if kib << 10 >= facts.shared)
    return {
        "qmd_version": 0,
        "qmd_group_id": GROUP_ID,
        "sampler_index": qmd.SAMPLER_VIA_HEADER,
        "api_visible_call_limit": qmd.CALL_LIMIT_NO_CHECK,
        "cwd_membar_type": qmd.MEMBAR_L1_SYSMEMBAR,
        "invalidate_texture_header_cache": 1,
        "invalidate_texture_sampler_cache": 1,
        "invalidate_texture_data_cache": 1,
        "invalidate_shader_data_cache": 1,
        "sass_version": facts.sass_version,
        "barrier_count": facts.barriers,
        "cta_thread_dimension0": facts.block[0],
        "cta_thread_dimension1": facts.block[1],
        "cta_thread_dimension2": facts.block[2],
        "min_sm_config_shared_mem_size": _shared_code(fits),
        "target_sm_config_shared_mem_size": _shared_code(fits),
        "max_sm_config_shared_mem_size": _shared_code(facts.shared_sizes[-1]),
        "program_prefetch_addr_lower_shifted": lo32(facts.code >> qmd.PREFETCH_SHIFT),
        "program_prefetch_addr_upper_shifted": hi32(facts.code >> qmd.PREFETCH_SHIFT),
        "program_prefetch_size": min(facts.code_size >> qmd.PREFETCH_SHIFT, MAX_PREFETCH),
        **{f"constant_buffer_invalidate_{bank}": 1 for bank in facts.constants},
        **{f"constant_buffer_valid_{bank}": 1 for bank in facts.constants},
        **{
            f"constant_buffer_size_shifted4_{bank}": -(-constants.size // qmd.CONSTANT_SIZE_UNIT)
            for bank, constants in facts.constants.items()
        },
    }


def _build_3(facts: LaunchFacts) -> int:
    addresses = {}
    for bank, constants in facts.constants.items():
        addresses[f"constant_buffer_addr_lower_{bank}"] = lo32(constants.address)
        addresses[f"constant_buffer_addr_upper_{bank}"] = hi32(constants.address)
    return qmd.QMD_V3.pack(
        **_same(facts),
        **addresses,
        qmd_major_version=3,
        sm_global_caching_enable=1,
        register_count_v=facts.registers,
        program_address_lower=lo32(facts.code),
        program_address_upper=hi32(facts.code),
        shared_memory_size=facts.shared,
        shader_local_memory_high_size=facts.local,
    )


def _addresses_shifted6(facts: LaunchFacts) -> dict[str, int]:
    fields = {}
    for bank, constants in facts.constants.items():
        fields[f"constant_buffer_addr_lower_shifted6_{bank}"] = lo32(constants.address >> 6)
        fields[f"constant_buffer_addr_upper_shifted6_{bank}"] = hi32(constants.address >> 6)
    return fields


def _build_4(facts: LaunchFacts) -> int:
    return qmd.QMD_V4.pack(
        **_same(facts),
        **_addresses_shifted6(facts),
        qmd_major_version=4,
        qmd_type=qmd.TYPE_GRID_CTA,
        register_count=facts.registers,
        program_address_lower=lo32(facts.code),
        program_address_upper=hi32(facts.code),
        shared_memory_size=facts.shared,
        shader_local_memory_high_size=facts.local,
    )


def _build_5(facts: LaunchFacts) -> int:
    return qmd.QMD_V5.pack(
        **_same(facts),
        **_addresses_shifted6(facts),
        qmd_major_version=5,
        qmd_type=qmd.TYPE_GRID_CTA,
        register_count=facts.registers,
        program_address_lower_shifted4=lo32(facts.code >> 4),
        program_address_upper_shifted4=hi32(facts.code >> 4),
        shared_memory_size_shifted7=facts.shared >> 7,
        shader_local_memory_high_size_shifted4=facts.local >> 4,
        virtual_resource_count=facts.virtual_resources,
    )


_BUILDERS: dict[int, Callable[[LaunchFacts], int]] = {3: _build_3, 4: _build_4, 5: _build_5}
