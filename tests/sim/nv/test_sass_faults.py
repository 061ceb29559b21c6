"""What stops a warp at one memory instruction: the same in both engines."""

import pytest
from nv_straight import Machine, NativeFault, State

from sim.memory import PageFault
from sim.nv.sass.decode import decode
from sim.nv.sass.interpret import BadAccess

ENGINES = ("interpret", "translate")
CHIPS = ("sm_86", "sm_90", "sm_120")
WINDOW = 0x7294  # the high half of generic addresses of shared memory

# Name -> the word on each of CHIPS, and the registers of its address.
ATOMICS = {
    "add": (0x004EA200081EE1C40000000C020F79A8, 2, 0x004EA200081EE1C80000000E080779A8, 8,
            0x008EA200081EF1088000000E020779A8, 2),
    "cas": (0x000EE800001EE10D0000000C021173A9, 2, 0x000EA800001EE10F0000000E080D73A9, 8,
            0x000EA800001EE10F0000000E020D73A9, 2),
    "add.f32": (0x000EE800081EE7C40000000C021379A8, 2, 0x000EA200081EF3C80000000E081179A3, 8,
                0x000EA2000C1EF3088000000E021179A3, 2),
    "add.u64": (0x000EE800081EE5C400000004020A79A8, 2, 0x000EA200081EE5C800000004080A79A8, 8,
                0x000EA200081EF50880000004020A79A8, 2),
    "red": (0x000FE8000C10E1840000000C0200798E, 2, 0x000FE8000C10E1880000000E0800798E, 8,
            0x000FE8000C12E1080000000E0200798E, 2),
    "red.u64": (0x000FE8000C10E584000000040200798E, 2, 0x008FE8000C10E588000000040800798E, 8,
                0x010FE8000C12E508000000040200798E, 2),
    "generic add": (0x004EA200081EE1C40000000C020F798A, 2, 0x000EA800081EE1C80000000E0811798A, 8,
                    0x000EA800081EF1088000000E0211798A, 2),
    "generic cas": (0x000EA800001EE10D0000000C020D738B, 2, 0x000EA800001EE10F0000000E080F738B, 8,
                    0x000EA800001EE10F0000000E020F738B, 2),
    "shared add": (0x000E2A00000000000000000C1715738C, 23, 0x000E2800080000040000000E1313798C, 19,
                   0x000E2800080000040000000E1313798C, 19),
    "shared cas": (0x008E680000000406000000041706738D, 23, 0x000E680000000406000000040D06738D, 13,
                   0x000E680000000406000000040D06738D, 13),
}  # fmt: skip
# The same of sm_90 for what it has in addition, and the bytes of its data.
WIDE = {
    "add.v2.f32": (0x000EA800081EF5C600000008061079A3, 6, 8),
    "add.v4.f32": (0x004EA200081EF7C600000008040C79A3, 4, 16),
    "cas.b128": (0x0000A200001EE90C00000008020873A9, 2, 16),
    "shared cas.b128": (0x000E68000000080C000000081108738D, 17, 16),
}  # fmt: skip
# STS, STS.64 and LDS of R4, ATOMS.ADD of R4: all chips have them.
SHARED = {
    "store": (0x000FE200000008000000000804007388, "write"),
    "store of 64 bits": (0x000FE20000000A000000000804007388, "write"),
    "load": (0x000FE200000008000000000004147984, "read"),
    "atomic": (0x000FE20000000000000000080414738C, "write"),
}
SHARED_BYTES = 0x400  # of a State


def fault(engine, chip, word, before):
    """(kind, address, access) of what one instruction is stopped for."""
    with pytest.raises((BadAccess, NativeFault)) as caught:
        getattr(Machine(chip), engine)([decode(word, 0, target=chip)], before)
    found = caught.value
    return found.kind, found.address, found.access


def aimed(register, *addresses):
    """Lanes 0 and on run, with an address each in a register pair."""
    before = State()
    before.mask = (1 << len(addresses)) - 1
    for lane, address in enumerate(addresses):
        before.registers[register, lane] = address & 0xFFFF_FFFF
        before.registers[register + 1, lane] = address >> 32
    return before


@pytest.mark.refusal
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("number", range(3), ids=CHIPS)
@pytest.mark.parametrize("name", ATOMICS)
def test_a_misaligned_atomic_is_a_fault(name, number, engine):
    word, register = ATOMICS[name][2 * number :][:2]
    at = (0 if name.startswith("shared") else 0x1_0000_0000) + 0x102
    found = fault(engine, CHIPS[number], word, aimed(register, at))
    assert found == ("misaligned", at, "write")


@pytest.mark.refusal
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", WIDE)
def test_an_atomic_of_several_registers_is_aligned_as_a_whole(name, engine):
    word, register, size = WIDE[name]
    at = (0 if name.startswith("shared") else 0x1_0000_0000) + 0x100 + size // 2
    assert fault(engine, "sm_90", word, aimed(register, at)) == ("misaligned", at, "write")


@pytest.mark.refusal
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", SHARED)
def test_misaligned_and_beyond_shared_memory_is_beyond_it(name, chip, engine):
    word, access = SHARED[name]
    at = SHARED_BYTES + 0x1001
    assert fault(engine, chip, word, aimed(4, at)) == ("shared", at, access)


@pytest.mark.refusal
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", SHARED)
def test_a_lane_beyond_shared_memory_counts_before_a_misaligned_one(name, engine):
    word, access = SHARED[name]
    at = SHARED_BYTES + 0x1000
    assert fault(engine, "sm_90", word, aimed(4, 0x11, at)) == ("shared", at, access)


@pytest.mark.refusal
@pytest.mark.parametrize("engine", ENGINES)
def test_a_generic_atomic_beyond_shared_memory_is_a_fault(engine):
    word, register = ATOMICS["generic cas"][2:4]
    at = SHARED_BYTES + 0x1000
    before = aimed(register, WINDOW << 32 | at)
    assert fault(engine, "sm_90", word, before) == ("shared", at, "write")


@pytest.mark.refusal
@pytest.mark.parametrize("engine", ENGINES)
def test_an_atomic_of_memory_that_is_not_mapped_is_a_fault_of_a_write(engine):
    word, register = ATOMICS["generic cas"][2:4]
    before = aimed(register, 0x1_0000_0000)
    if engine == "interpret":
        with pytest.raises(PageFault) as caught:
            Machine("sm_90").interpret([decode(word, 0, target="sm_90")], before)
        assert (caught.value.address, caught.value.access) == (0x1_0000_0000, "write")
    else:
        assert fault(engine, "sm_90", word, before) == ("memory", 0x1_0000_0000, "write")


# LDL.64, STL.64 and LDL of R4, and how far their addresses lie beside a multiple of their size.
LOCAL = {
    "load of 64 bits": (0x000FE20000000A000000000004147983, 4, "read"),
    "store of 64 bits": (0x000FE20000000A000000000804007387, 4, "write"),
    "load": (0x000FE200000008000000000004147983, 2, "read"),
}
LOCAL_START = 0xFFFFC0  # of a State


@pytest.mark.refusal
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", LOCAL)
def test_a_misaligned_access_to_local_memory_is_a_fault(name, chip, engine):
    word, off, access = LOCAL[name]
    at = LOCAL_START + off
    assert fault(engine, chip, word, aimed(4, at)) == ("misaligned", at, access)
