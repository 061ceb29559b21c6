"""The words of a launch, literally.

Sources: gc_11_0_0_offset.h for register addresses (less 0x2c00, the shader window),
nvd.h for packets, the kernel descriptor of the object for RSRC values.
"""

import struct

import pytest

from hcq.amd.arch import GFX1100
from hcq.amd.code_object import parse
from hcq.amd.program import Program, Scratch
from hcq.amd.queue import ComputeQueue
from hcq.elf import ObjectFile
from hcq.queue import Slot, SlotKind

ADDRESS = 0x7F12_3456_7000
ARGUMENTS = 0x7F00_0000_0040
NOTHING = Scratch(0, 0)


def descriptor(image):
    """RSRC3, RSRC1, RSRC2 as they stand at bytes 44, 48, 52 of the kernel descriptor."""
    file = ObjectFile(image)
    home = next(s for s in file.sections if s.name == ".rodata")
    return struct.unpack_from("<III", image, home.offset + 44)


@pytest.fixture
def program(compiled):
    def make(name, scratch=NOTHING):
        code = parse(compiled(name), name, GFX1100)
        return Program(code, GFX1100, ADDRESS, lambda: scratch, lambda program: None)

    return make


@pytest.mark.row("AMD-09")
@pytest.mark.row("HCQ-04")
def test_launch_words(program, compiled):
    rsrc3, rsrc1, rsrc2 = descriptor(compiled("add"))
    queue = ComputeQueue(GFX1100).launch(program("add"), ARGUMENTS, (7, 5, 3), (64, 2, 1))
    assert queue.words == [
        0xC0027602, 0x20C, 0x12345670, 0x0000007F,  # PGM_LO/HI: address >> 8
        0xC0027602, 0x212, rsrc1, rsrc2,
        0xC0017602, 0x228, rsrc3,
        0xC0017602, 0x218, 0,  # TMPRING_SIZE
        0xC0027602, 0x210, 0, 0,  # DISPATCH_SCRATCH_BASE
        0xC0037602, 0x21B, 0, 0, 0,  # RESTART
        0xC0017602, 0x215, 0,  # RESOURCE_LIMITS
        0xC0087602, 0x204, 0, 0, 0, 64, 2, 1, 0, 0,  # START, NUM_THREAD, counters off
        0xC0027602, 0x240, 0x00000040, 0x00007F00,  # USER_DATA 0, 1: arguments
        0xC0031502, 7, 5, 3, 0x00008005,  # DISPATCH_DIRECT: on, start at 0, wave32
    ]  # fmt: skip


@pytest.mark.row("AMD-09")
def test_every_packets_start_is_known(program):
    queue = ComputeQueue(GFX1100).launch(program("add"), ARGUMENTS, (1, 1, 1), (1, 1, 1))
    assert queue.starts == [0, 4, 8, 11, 14, 18, 23, 26, 36, 40]
    assert {queue.words[at] >> 30 for at in queue.starts} == {3}


@pytest.mark.row("AMD-13")
def test_private_memory_goes_into_the_launch(program):
    scratch = Scratch(0x7E00_0010_0000, 0x00003200)
    words = (
        ComputeQueue(GFX1100)
        .launch(program("spill", scratch), ARGUMENTS, (1, 1, 1), (64, 1, 1))
        .words
    )
    assert words[11:18] == [
        0xC0017602, 0x218, 0x3200,
        0xC0027602, 0x210, 0x00001000, 0x0000007E,  # address >> 8
    ]  # fmt: skip


@pytest.mark.row("AMD-13")
def test_local_memory_goes_into_rsrc2_in_units_of_512_bytes(program, compiled):
    _, _, rsrc2 = descriptor(compiled("lds"))
    words = ComputeQueue(GFX1100).launch(program("lds"), ARGUMENTS, (1, 1, 1), (64, 1, 1)).words
    assert rsrc2 >> 15 & 0x1FF == 0
    assert words[7] == rsrc2 | 64 << 15  # 32 KiB


@pytest.mark.row("AMD-15")
def test_wave64_launches_without_the_wave32_bit(compiled):
    code = parse(compiled("sum", features="+wavefrontsize64"), "sum", GFX1100)
    program = Program(code, GFX1100, ADDRESS, lambda: Scratch(0, 0), lambda program: None)
    words = ComputeQueue(GFX1100).launch(program, ARGUMENTS, (1, 1, 1), (64, 1, 1)).words
    assert words[-1] == 0x00000005


@pytest.mark.row("BAT-03")
def test_slots_of_a_launch_are_the_argument_words_and_the_grid(program):
    n = Slot("n", SlotKind.VARIABLE, bits=32)
    queue = ComputeQueue(GFX1100, "q")
    queue.launch(program("add"), Slot("args"), (n, 1, n // 2), (64, 1, 1))
    assert [(p.word, p.half.value, p.bits, p.formula.slot.name) for p in queue.patches] == [
        (38, "low", 64, "args"),
        (39, "high", 64, "args"),
        (41, "low", 32, "n"),
        (43, "low", 32, "n"),
    ]
