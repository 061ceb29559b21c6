"""Cubins: what is read from them, what is refused, how they are relocated."""

import struct

import pytest

from hcq.errors import CodeObjectError
from hcq.nv.arch import ARCHES, SM_86, SM_90
from hcq.nv.cubin import Cubin

CHIPS = [arch.name for arch in ARCHES]
ADDRESS = 0x12_3456_7000


def arch_of(chip):
    return next(arch for arch in ARCHES if arch.name == chip)


@pytest.mark.row("NV-09")
@pytest.mark.parametrize("chip", CHIPS)
def test_parameters_and_needs(compiled, chip):
    cubin = Cubin(compiled("add", chip), "add", arch_of(chip))
    assert [(a.offset, a.size) for a in cubin.parameters] == [(0, 8), (8, 8), (16, 8), (24, 4)]
    assert 8 <= cubin.needs.registers <= 32
    assert cubin.needs.max_threads == (1024, 1, 1)
    assert cubin.needs.stack == 0


@pytest.mark.row("NV-09")
@pytest.mark.parametrize("chip", CHIPS)
def test_shared_memory_is_counted_without_the_system_part(compiled, chip):
    # 256 words; the section of sm_90 and later holds 1 KiB more.
    assert Cubin(compiled("shared", chip), "shared", arch_of(chip)).needs.shared == 1024


@pytest.mark.parametrize("chip", CHIPS)
def test_a_barrier_is_counted(compiled, chip):
    assert Cubin(compiled("shared", chip), "shared", arch_of(chip)).needs.barriers == 1


@pytest.mark.row("NV-09")
@pytest.mark.parametrize("chip", CHIPS)
def test_private_arrays_are_stack(compiled, chip):
    stack = Cubin(compiled("spill", chip), "spill", arch_of(chip)).needs.stack
    assert stack == 1600


@pytest.mark.row("NV-09")
@pytest.mark.row("CMP-16")
@pytest.mark.parametrize("chip", CHIPS)
def test_relocations_hold_the_address_of_data(compiled, chip):
    cubin = Cubin(compiled("data", chip), "data", arch_of(chip))
    image = cubin.image(ADDRESS)
    table = image.index(struct.pack("<4I", 10, 20, 30, 50))
    low = struct.pack("<I", ADDRESS + table & 0xFFFFFFFF)
    code = image[cubin.code_at : cubin.code_at + cubin.text.size]
    # The address is an immediate (its low and high word) of two instructions.
    assert code.count(low) >= 1
    assert code.count(struct.pack("<I", ADDRESS >> 32)) >= 1
    moved = cubin.image(ADDRESS + 0x1000)
    assert moved != image


def test_what_follows_the_code_is_mapped(compiled):
    cubin = Cubin(compiled("add"), "add", SM_90)
    assert cubin.size - (cubin.code_at + cubin.text.size) >= 4096


@pytest.mark.row("NV-09")
@pytest.mark.refusal
def test_a_cubin_for_another_chip_is_refused(compiled):
    with pytest.raises(CodeObjectError, match="for sm_86, the GPU is an sm_90") as caught:
        Cubin(compiled("add", "sm_86"), "add", SM_90)
    assert caught.value.facts == {"found": "sm_86", "wanted": "sm_90"}


@pytest.mark.refusal
def test_a_missing_kernel_is_named(compiled):
    with pytest.raises(CodeObjectError, match="no kernel 'nothing'") as caught:
        Cubin(compiled("add"), "nothing", SM_90)
    assert caught.value.facts["found"] == "add"


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda d: d[:40], "less than an ELF header"),
        (lambda d: b"XELF" + d[4:], "is not ELF"),
        (lambda d: d[:16] + b"\3\0" + d[18:], "is not executable"),
        (lambda d: d[:18] + b"\x3e\0" + d[20:], "not for an NVIDIA GPU"),
        (lambda d: d[:7] + b"\x00" + d[8:], "EI_OSABI"),
        (lambda d: d[:3000], "past the end"),
    ],
)
def test_a_damaged_cubin_is_refused(compiled, change, text):
    with pytest.raises(CodeObjectError, match=text):
        Cubin(change(compiled("add")), "add", SM_90)


@pytest.mark.row("CMP-15")
@pytest.mark.refusal
@pytest.mark.parametrize("chip", ["sm_86", "sm_90"])
def test_every_cut_is_a_typed_error(compiled, chip):
    data = compiled("data", chip)
    for size in range(0, len(data) - 1, 97):
        with pytest.raises(CodeObjectError):
            Cubin(data[:size], "data", arch_of(chip))


@pytest.mark.row("CMP-15")
def test_flipped_bits_are_typed_errors_or_loadable(compiled):
    data = compiled("data", "sm_86")
    for at in range(0, len(data), 41):
        flipped = bytearray(data)
        flipped[at] ^= 1 << at % 8
        try:
            cubin = Cubin(bytes(flipped), "data", SM_86)
        except CodeObjectError:
            continue
        assert cubin.size < 1 << 25


@pytest.mark.row("CMP-16")
@pytest.mark.refusal
def test_an_unknown_relocation_is_refused(compiled):
    data = bytearray(compiled("data", "sm_90"))
    # r_info of an entry: type 0x38 in the low word.
    at = data.index(struct.pack("<I", 0x38), data.index(b".rela.text.data") + 64)
    found = False
    for place in range(at, len(data) - 4, 4):
        if struct.unpack_from("<I", data, place)[0] == 0x38:
            struct.pack_into("<I", data, place, 0x77)
            found = True
            break
    assert found
    with pytest.raises(CodeObjectError, match="relocation kind 0x77 is not known"):
        Cubin(bytes(data), "data", SM_90)
