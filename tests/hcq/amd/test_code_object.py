"""Code objects: descriptor, metadata, relocations, and everything a bad one is refused for."""

import random
import struct
import time

import pytest

from hcq.amd.arch import GFX1100
from hcq.amd.code_object import parse, relocate
from hcq.amd.defs import descriptor as defs
from hcq.amd.metadata import decode
from hcq.elf import ObjectFile, Relocation, Symbol
from hcq.errors import CodeObjectError


@pytest.mark.row("AMD-13")
def test_arguments_come_from_the_metadata(compiled):
    code = parse(compiled("add"), "add", GFX1100)
    assert [(a.name, a.offset, a.size, a.is_pointer) for a in code.layout.arguments] == [
        ("out", 0, 8, True),
        ("a", 8, 8, True),
        ("b", 16, 8, True),
        ("k", 24, 4, False),
    ]
    assert code.layout.size == 28
    assert code.max_threads == 1024


@pytest.mark.row("AMD-13")
def test_code_comes_first_and_is_followed_by_readable_bytes(compiled):
    code = parse(compiled("add"), "add", GFX1100)
    text = next(s for s in code.file.sections if s.name == ".text")
    assert code.places[text.index] == 0
    assert code.descriptor_at >= text.size + 256


@pytest.mark.row("CMP-16")
def test_entry_offset_is_relocated_from_the_descriptor_to_the_code(compiled):
    code = parse(compiled("add"), "add", GFX1100)
    image = code.image(0x10000)
    (offset,) = struct.unpack_from("<q", image, code.descriptor_at + 16)
    assert code.descriptor_at + offset == 0


@pytest.mark.row("AMD-14")
@pytest.mark.refusal
def test_object_for_another_chip_is_refused_with_both_names(compiled):
    with pytest.raises(CodeObjectError, match="is for gfx1030, the device is gfx1100"):
        parse(compiled("add", chip="gfx1030"), "add", GFX1100)


@pytest.mark.row("AMD-14")
@pytest.mark.refusal
def test_object_that_wants_xnack_is_refused(compiled):
    image = bytearray(compiled("add"))
    image[49] |= 3  # e_flags bits 9:8: xnack on
    with pytest.raises(CodeObjectError, match=r"is for gfx1100:xnack\+, the device is gfx1100"):
        parse(bytes(image), "add", GFX1100)


@pytest.mark.row("AMD-14")
@pytest.mark.refusal
def test_object_of_another_machine_is_refused(compiled):
    image = bytearray(compiled("add"))
    image[18:20] = (62).to_bytes(2, "little")
    with pytest.raises(CodeObjectError, match="is for x86-64, the device is gfx1100"):
        parse(bytes(image), "add", GFX1100)
    image[18:20] = (190).to_bytes(2, "little")
    image[16] = 2  # cubins are executables: their machine is what counts
    with pytest.raises(CodeObjectError, match="is for an NVIDIA GPU, the device is gfx1100"):
        parse(bytes(image), "add", GFX1100)
    image[18:20] = (0x1234).to_bytes(2, "little")
    with pytest.raises(CodeObjectError, match="is for machine 4660, the device is gfx1100"):
        parse(bytes(image), "add", GFX1100)


@pytest.mark.refusal
def test_a_missing_kernel_names_those_there_are(compiled):
    with pytest.raises(CodeObjectError, match="no kernel 'ad', did you mean 'add'"):
        parse(compiled("add"), "ad", GFX1100)


@pytest.mark.row("CMP-15")
@pytest.mark.refusal
@pytest.mark.parametrize(
    ("offset", "data", "match"),
    [
        (0, b"\x7fELG", "e_ident magic"),
        (4, b"\x01", "e_ident class"),
        (7, b"\x00", "OSABI"),
        (8, b"\x09", "ABI version"),
        (16, b"\x02\x00", "e_type"),
        (40, struct.pack("<Q", 1 << 63), "e_shoff"),
        (40, struct.pack("<Q", (1 << 64) - 8), "e_shoff"),
        (58, b"\x00\x00", "e_shentsize"),
        (60, b"\xff\xff", "e_shnum"),
        (62, b"\xff\x00", "e_shstrndx"),
    ],
)
def test_bad_header_fields_are_named(compiled, offset, data, match):
    image = bytearray(compiled("add"))
    image[offset : offset + len(data)] = data
    with pytest.raises(CodeObjectError, match=match):
        parse(bytes(image), "add", GFX1100)


def section_header(image, name):
    file = ObjectFile(image)
    index = next(s.index for s in file.sections if s.name == name)
    return int.from_bytes(image[40:48], "little") + 64 * index


@pytest.mark.row("CMP-15")
@pytest.mark.refusal
@pytest.mark.parametrize("value", [1 << 63, (1 << 64) - 1, 1 << 40])
@pytest.mark.parametrize("field", [24, 32])  # sh_offset, sh_size
def test_section_sums_are_checked_for_wrap(compiled, field, value):
    image = bytearray(compiled("add"))
    at = section_header(bytes(image), ".text") + field
    image[at : at + 8] = struct.pack("<Q", value)
    with pytest.raises(CodeObjectError, match=r"sh_offset.sh_size|sh_size"):
        parse(bytes(image), "add", GFX1100)


@pytest.mark.row("CMP-15")
@pytest.mark.refusal
def test_overlapping_sections_are_refused(compiled):
    image = bytearray(compiled("add"))
    text, rodata = (section_header(bytes(image), name) for name in (".text", ".rodata"))
    image[rodata + 24 : rodata + 32] = image[text + 24 : text + 32]
    with pytest.raises(CodeObjectError, match=r"overlaps section"):
        parse(bytes(image), "add", GFX1100)


@pytest.mark.row("CMP-15")
@pytest.mark.refusal
def test_every_prefix_is_refused(compiled):
    image = compiled("add")
    started = time.perf_counter()
    for size in range(0, len(image) - 1, 97):
        with pytest.raises(CodeObjectError):
            parse(image[:size], "add", GFX1100)
    assert (time.perf_counter() - started) / (len(image) // 97) < 1


@pytest.mark.row("CMP-15")
@pytest.mark.refusal
def test_a_flipped_bit_is_a_refusal_or_a_program_never_anything_else(compiled):
    image = compiled("add")
    rng = random.Random(5)
    refused = 0
    for _ in range(600):
        bit = rng.randrange(len(image) * 8)
        flipped = bytearray(image)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            parse(bytes(flipped), "add", GFX1100).image(0x10000)
        except CodeObjectError:
            refused += 1
    assert refused > 50


@pytest.mark.row("CMP-15")
@pytest.mark.refusal
def test_a_refused_object_uploads_nothing(device, compiled):
    before = device.stats.allocations
    with pytest.raises(CodeObjectError):
        device.load(compiled("add")[:-200], "add")
    assert device.stats.allocations == before


@pytest.mark.row("CMP-15")
@pytest.mark.refusal
def test_a_kernel_that_asks_for_what_is_not_provided_is_refused(compiled):
    image = bytearray(compiled("add"))
    file = ObjectFile(bytes(image))
    home = next(s for s in file.sections if s.name == ".rodata")
    image[home.offset + 56] |= 2  # kernel_code_properties: dispatch pointer
    with pytest.raises(CodeObjectError, match="kernel add needs enable_sgpr_dispatch_ptr"):
        parse(bytes(image), "add", GFX1100)


def relocated(code, kind, offset, value, addend=0):
    """Image of code with one relocation against an absolute symbol, loaded at 0x1000."""
    image = bytearray(code.size)
    text = next(s for s in code.file.sections if s.name == ".text")
    symbol = Symbol("s", None, value, 0, True)
    relocate(code, image, Relocation(text.index, offset, kind, symbol, addend), 0x1000)
    return bytes(image)


@pytest.mark.row("CMP-16")
@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (defs.R_AMDGPU_ABS64, 0x1122334455667788, "8877665544332211"),
        (defs.R_AMDGPU_ABS32, 0x11223344, "44332211"),
        (defs.R_AMDGPU_ABS32_LO, 0x1122334455667788, "88776655"),
        (defs.R_AMDGPU_ABS32_HI, 0x1122334455667788, "44332211"),
        (defs.R_AMDGPU_REL32, 0x1018, "10000000"),
        (defs.R_AMDGPU_REL32, 0x1000, "f8ffffff"),
        (defs.R_AMDGPU_REL64, 0x1000, "f8ffffffffffffff"),
        (defs.R_AMDGPU_REL32_LO, 0x5_0000_1018, "10000000"),
        (defs.R_AMDGPU_REL32_HI, 0x5_0000_1018, "05000000"),
    ],
)
def test_relocations_write_the_value(compiled, kind, value, expected):
    image = relocated(parse(compiled("add"), "add", GFX1100), kind, 8, value)
    assert image[8 : 8 + len(expected) // 2].hex() == expected


@pytest.mark.row("CMP-16")
@pytest.mark.parametrize("value", [0x1008 + 0x7FFF_FFFF, 0x1008 - 0x8000_0000])
def test_relative_relocation_reaches_the_edges(compiled, value):
    code = parse(compiled("add"), "add", GFX1100)
    if value < 0:
        assert relocated(code, defs.R_AMDGPU_REL32, 8, 0, addend=value)[8:12].hex() == "00000080"
    else:
        assert relocated(code, defs.R_AMDGPU_REL32, 8, value)[8:12].hex() == "ffffff7f"


@pytest.mark.row("CMP-16")
@pytest.mark.refusal
@pytest.mark.parametrize(
    ("kind", "offset", "value", "match"),
    [
        (defs.R_AMDGPU_REL32, 8, 0x1008 + 0x8000_0000, "relocation 4 of 's', value.*32 bits"),
        (defs.R_AMDGPU_ABS32, 8, 1 << 32, "relocation 6 of 's', value"),
        (defs.R_AMDGPU_GOTPCREL32_LO, 8, 0, "relocation of 's', kind is not supported"),
        (99, 8, 0, "kind is not supported"),
        (defs.R_AMDGPU_ABS64, 1 << 20, 0, "offset is outside its section"),
    ],
)
def test_bad_relocations_are_refused(compiled, kind, offset, value, match):
    code = parse(compiled("add"), "add", GFX1100)
    with pytest.raises(CodeObjectError, match=match):
        relocated(code, kind, offset, value)


@pytest.mark.row("CMP-16")
@pytest.mark.refusal
def test_an_undefined_symbol_is_refused(compiled):
    code = parse(compiled("add"), "add", GFX1100)
    symbol = Symbol("missing", None, 0, 0, False)
    with pytest.raises(CodeObjectError, match="symbol 'missing' is undefined"):
        relocate(code, bytearray(code.size), Relocation(2, 8, 5, symbol, 0), 0)


def test_metadata_values_are_decoded():
    packed = bytes.fromhex("86a16101a162ffa163cd0100a16492c3c0a165d9026869a166cb3ff8000000000000")
    assert decode(packed) == {"a": 1, "b": -1, "c": 256, "d": [True, None], "e": "hi", "f": 1.5}


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("packed", "match"),
    [
        ("81a161", "ends inside a value"),
        ("81a161dfffffffff", "past the end"),
        ("81a161" + "91" * 40 + "01", "depth"),
        ("81a161c1", "tag"),
        ("91c0", "is not a map"),
    ],
)
def test_bad_metadata_is_refused(packed, match):
    with pytest.raises(CodeObjectError, match=match):
        decode(bytes.fromhex(packed))


@pytest.mark.row("AMD-13")
def test_freed_code_memory_is_used_again(device, compiled):
    first = device.load(compiled("add"), "add")
    address = first.address
    first.free()
    first.free()
    assert device.load(compiled("add"), "add").address == address


@pytest.mark.row("CMP-15")
@pytest.mark.refusal
def test_overlapping_arguments_are_refused(compiled):
    image = compiled("add")
    assert image.count(b"\xa7.offset\x08") == 1  # the second argument, in the MessagePack note
    with pytest.raises(CodeObjectError, match="argument a offset overlaps another"):
        parse(image.replace(b"\xa7.offset\x08", b"\xa7.offset\x04"), "add", GFX1100)
