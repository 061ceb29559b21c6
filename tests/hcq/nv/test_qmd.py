"""Launch records as literal words, worked out from the headers' bit numbers per version."""

import pytest

from hcq.errors import FieldError
from hcq.nv.defs import qmd as defs
from hcq.nv.qmd import HOLES, Constants, LaunchFacts, build

SMALL = (8, 16, 32, 64, 100)
LARGEST = (8, 16, 32, 64, 100, 132, 164, 196, 228)


def facts(bank, sass, sizes, **changes):
    plain = {
        "code": 0x12_3456_7880,
        "code_size": 0x480,
        "block": (64, 2, 1),
        "registers": 24,
        "barriers": 1,
        "shared": 0x2400,
        "shared_sizes": sizes,
        "local": 0x260,
        "sass_version": sass,
        "constants": {0: Constants(0, bank), 3: Constants(0x21_2345_6700, 0x58)},
    }
    return LaunchFacts(**{**plain, **changes})


def set_words(record):
    return {index: word for index, word in enumerate(record) if word}


@pytest.mark.row("NV-07")
def test_a_record_of_version_3_for_sm_86():
    record = build(3, facts(0x180, 0x86, SMALL))
    assert len(record) == 64
    assert set_words(record) == {
        4: 0x0000007F,  # group 0x3f, global caching
        5: 0x3C000000,  # drop texture and shader data caches
        8: 0x12345678,  # prefetch address >> 8
        11: 0x44010000,  # sysmembar at the end, no call limit check, sampler via header
        17: 0x34142400,  # shared 0x2400; SM set to at least 16 KiB (5), at most 100 (0x1a)
        18: 0x00400030,  # version 3.0, block x 64
        19: 0x00010002,  # block y 2, z 1
        20: 0x000A1809,  # banks 0 and 3, 24 registers, SM aims at 16 KiB (5)
        23: 0x08000000,  # 1 barrier
        33: 0x00C40000,  # bank 0: invalidate, 0x180 bytes
        38: 0x23456700,  # bank 3: address
        39: 0x00340021,  # upper, invalidate, 0x58 bytes
        48: 0x34567880,  # program
        49: 0x00000012,
        50: 0x00000260,  # private bytes
        51: 0x86000800,  # SASS 8.6, prefetch 4 x 256 bytes
    }


@pytest.mark.row("NV-07")
def test_a_record_of_version_4_for_sm_90():
    record = build(4, facts(0x230, 0x90, LARGEST))
    assert len(record) == 96
    assert set_words(record) == {
        0: 0x013F0000,  # group 0x3f, a grid of blocks
        13: 0x00009009,  # banks 0 and 3 valid, to be invalidated
        16: 0x90000000,  # SASS 9.0
        17: 0x03000260,  # private bytes, no call limit check, sampler via header
        18: 0x3C240040,  # version 4.0, shared 0x2400, drop data caches
        19: 0x00005E85,  # SM set to at least 16 KiB (5), at most 228 (0x3a), aims at 16 (5)
        35: 0x00010000,  # sysmembar at the end
        36: 0x00020040,  # block x, y
        37: 0x08180001,  # block z, 24 registers, 1 barrier
        38: 0x34567880,  # program
        39: 0x00000012,
        42: 0x12345678,  # prefetch address >> 8
        43: 0x00080000,  # 4 x 256 bytes
        49: 0x01180000,  # bank 0: 0x230 bytes
        54: 0x848D159C,  # bank 3: address >> 6
        55: 0x00300000,
    }


@pytest.mark.row("NV-07")
def test_a_record_of_version_5_for_sm_120():
    record = build(5, facts(0x3A0, 0xA4, SMALL))
    assert len(record) == 96
    assert set_words(record) == {
        4: 0x013F0000,  # group 0x3f, a grid of blocks
        14: 0x0F5003A4,  # SASS 10.4, flags, version 5.0, drop data caches
        19: 0x00010000,  # sysmembar at the end
        32: 0x23456788,  # program >> 4
        33: 0x00800001,  # upper, prefetch 4 x 256 bytes
        34: 0x00020040,  # block x, y
        35: 0x00021801,  # block z, 24 registers, 1 barrier
        36: 0x02B42848,  # shared 0x2400 >> 7, SM set to 16 KiB (5), at most 100 (0x1a)
        37: 0x00260000,  # private bytes >> 4
        43: 0x01D00000,  # bank 0: 0x3a0 bytes
        48: 0x848D159C,  # bank 3: address >> 6
        49: 0x00300000,
        58: 0x00009009,  # banks 0 and 3 valid, to be invalidated
        59: 0x12345678,  # prefetch address >> 8
    }


@pytest.mark.parametrize(
    ("version", "grid", "bank0", "unit"), [(3, 12, 32, 1), (4, 32, 48, 64), (5, 39, 42, 64)]
)
def test_holes_are_where_the_tables_have_them(version, grid, bank0, unit):
    holes = HOLES[version]
    assert (holes.grid, holes.bank0, holes.bank0_unit) == (grid, bank0, unit)
    layout = defs.TABLES[version]
    names = ("cta_raster_width", "cta_raster_height", "cta_raster_depth")
    if version > 3:
        names = ("grid_width", "grid_height", "grid_depth")
    assert [layout.span(name)[1] for name in names] == [
        32 * grid, 32 * (grid + 1), 32 * (grid + 2)
    ]  # fmt: skip


@pytest.mark.row("NV-13")
@pytest.mark.parametrize(
    ("version", "pointer", "flags", "bits"),
    [(3, 15, 16, 0x00000013), (4, 14, 11, 0x00130000), (5, 12, 10, 0x00130000)],
)
def test_a_dependent_record_is_enabled_scheduled_and_fetched_ahead(version, pointer, flags, bits):
    holes = HOLES[version]
    assert (holes.dependent_pointer, holes.dependent_flags) == (pointer, flags)
    assert holes.dependent_bits == bits


@pytest.mark.row("NV-07")
@pytest.mark.refusal
@pytest.mark.parametrize(
    ("version", "change", "field"),
    [
        (3, {"registers": 512}, "register_count_v"),
        (4, {"block": (1 << 16, 1, 1)}, "cta_thread_dimension0"),
        (5, {"block": (1, 1, 256)}, "cta_thread_dimension2"),
        (5, {"local": 1 << 21}, "shader_local_memory_high_size_shifted4"),
        (4, {"barriers": 32}, "barrier_count"),
    ],
)
def test_what_does_not_fit_a_field_is_refused(version, change, field):
    with pytest.raises(FieldError, match=f"{field}: .* does not fit"):
        build(version, facts(0x180, 0x86, LARGEST, **change))


def test_an_address_of_57_bits_fits():
    record = build(4, facts(0x230, 0x90, LARGEST, code=0x1FF_FFFF_FFFF_FF80))
    assert record[38:40] == [0xFFFFFF80, 0x1FFFFFF]
