"""Known answers of instructions that look across lanes, of approximations and special registers.

Machine words are literal; the answers are worked out from the PTX ISA's descriptions.
"""

import math
import struct
from dataclasses import replace

import numpy as np
import pytest
from nv_straight import ALWAYS, Machine, State

from sim.nv.sass.decode import decode
from sim.nv.sass.instruction import Instruction, Operand

LANE = np.arange(32, dtype=np.uint32)
ENGINES = ("interpret", "translate")


@pytest.fixture(params=ENGINES)
def run(request, tmp_path):
    """run(word, chip, mask, **registers): the state after one instruction."""

    def one(word, chip="sm_90", mask=0xFFFF_FFFF, **registers):
        before = State()
        before.mask = mask
        for name, value in registers.items():
            if name.startswith("UR"):
                before.uniform[int(name[2:])] = value
            elif name.startswith("R"):
                before.registers[int(name[1:])] = value
            else:
                before.predicates[int(name[1:])] = value
        instruction = word
        if isinstance(word, int):
            instruction = replace(decode(word, 0, target=chip), guard=ALWAYS)
        machine = Machine(chip, str(tmp_path))
        return getattr(machine, request.param)([instruction], before)

    return one


VALUES = LANE * 7 + 5


@pytest.mark.parametrize(("word", "register", "sources"), [
    (0x004E2400000E00000E001F0000057F89, 5, LANE ^ 16),  # BFLY 0x10, 0x1f
    (0x000E2200000E000008601F0000117F89, 17, np.where(LANE + 3 < 32, LANE + 3, LANE)),  # DOWN 3
    (0x000F2800000E000000601F00001D7F89, 29, LANE * 0 + 3),  # IDX 3
], ids=["BFLY", "DOWN", "IDX"])  # fmt: skip
def test_shuffles_by_a_number(run, word, register, sources):
    after = run(word, R0=VALUES)
    np.testing.assert_array_equal(after.registers[register], VALUES[sources])


def test_shuffle_up_in_segments_of_eight(run):
    # SHFL.UP PT, R11, R0, 0x1, R5: bounds 0x1800 are segments of 8, clamped at their first lane.
    after = run(0x020EE200000E000504200000000B7989, R0=VALUES, R5=0x1800)
    sources = np.where(LANE % 8 >= 1, LANE - 1, LANE)
    np.testing.assert_array_equal(after.registers[11], VALUES[sources])


def test_shuffle_index_in_segments(run):
    # SHFL.IDX PT, R16, R0, R5, R5: index and bounds of each lane in one register.
    bounds = 0x1C03 | np.zeros(32, np.uint32)  # segments of 4, index 3
    after = run(0x000F2800000E00050000000500107389, R0=VALUES, R5=bounds)
    np.testing.assert_array_equal(after.registers[16], VALUES[LANE // 4 * 4 + 3])


@pytest.mark.parametrize(("word", "holds", "result"), [
    (0x000FDA00040200000000000000FF7806, LANE < 32, False),  # VOTE.ALL P1, !P0
    (0x000FDA00040200000000000000FF7806, LANE < 0, True),
    (0x000FDA00040201000000000000FF7806, LANE < 31, True),  # VOTE.ANY P1, !P0
    (0x000FDA00040201000000000000FF7806, LANE < 32, False),
    (0x000FDA00040202000000000000FF7806, LANE < 32, True),  # VOTE.EQ P1, !P0
    (0x000FDA00040202000000000000FF7806, LANE < 4, False),
])  # fmt: skip
def test_votes(run, word, holds, result):
    after = run(word, P0=holds)
    assert (after.predicates[1] == result).all()


def test_votes_ask_only_lanes_that_run(run):
    after = run(0x000FDA00040200000000000000FF7806, mask=0xFFFF_FF00, P0=LANE < 8)
    assert after.predicates[1, 8:].all()
    assert not after.predicates[1, :8].any()


def test_uniform_vote_gives_the_lanes_that_run(run):
    after = run(0x000FE400038E01000000000000047886, mask=0x00FF_00F0)
    assert after.uniform[4] == 0x00FF_00F0


def test_match_any(run):
    after = run(0x000EB000000E800000000000040D73A1, R4=LANE % 3)
    masks = [0x49249249, 0x92492492, 0x24924924]
    assert after.registers[13].tolist() == [masks[lane % 3] for lane in range(32)]


def test_match_any_of_pairs(run):
    after = run(0x000EE200000E820000000000080F73A1, R8=LANE % 2, R9=LANE // 16)
    masks = {0: 0x5555, 1: 0xAAAA, 2: 0x5555_0000, 3: 0xAAAA_0000}
    want = [masks[lane // 16 * 2 + lane % 2] for lane in range(32)]
    assert after.registers[15].tolist() == want


@pytest.mark.parametrize(("values", "mask", "agreed"), [
    (LANE * 0 + 9, 0xFFFF_FFFF, True), (np.where(LANE == 31, 8, 9), 0xFFFF_FFFF, False),
])  # fmt: skip
def test_match_all(run, values, mask, agreed):
    after = run(0x008E30000000000000000000040073A1, R4=values)
    assert (after.registers[0] == (mask if agreed else 0)).all()
    assert (after.predicates[0] == agreed).all()


@pytest.mark.parametrize(("word", "uniform", "answer"), [
    (0x000F70000000000000000000000C73C4, 12, 0xFFFF_FF00),  # AND
    (0x000F70000000400000000000000D73C4, 13, 0xFFFF_FF1F),  # OR
    (0x000F62000000800000000000000E73C4, 14, 0),  # XOR
    (0x000E70000000C00000000000000773C4, 7, 0xFFFF_E1F0),  # SUM
    (0x000FF0000001000000000000000973C4, 9, 0xFFFF_FF00),  # MIN
    (0x000EB0000001020000000000000873C4, 8, 0xFFFF_FF00),  # MIN.S32
    (0x000F30000001400000000000000B73C4, 11, 0xFFFF_FF1F),  # MAX
    (0x000EF0000001420000000000000A73C4, 10, 0xFFFF_FF1F),  # MAX.S32
], ids=["AND", "OR", "XOR", "SUM", "MIN", "MIN_S32", "MAX", "MAX_S32"])  # fmt: skip
def test_reductions(run, word, uniform, answer):
    after = run(word, R0=LANE + 0xFFFF_FF00)
    assert after.uniform[uniform] == answer


@pytest.mark.parametrize(("modifiers", "answer"), [
    (("MAX",), 0x8000_0000), (("MIN", "S32"), 0x8000_0000), (("MAX", "S32"), 32),
])  # fmt: skip
def test_uniform_extremes_of_sm_100(run, modifiers, answer):
    values = np.where(LANE == 3, 0x8000_0000, LANE + 1)
    after = run(made("CREDUX", modifiers, (Operand("ureg", 9),), (reg(0),)), "sm_100", R0=values)
    assert after.uniform[9] == answer


def test_signed_and_unsigned_extremes_differ(run):
    values = np.where(LANE == 3, 0x8000_0000, LANE + 1)
    assert run(0x000FF0000001000000000000000973C4, R0=values).uniform[9] == 1
    assert run(0x000EB0000001020000000000000873C4, R0=values).uniform[8] == 0x8000_0000


def test_sums_take_only_lanes_that_run(run):
    after = run(0x008FF0000000C20000000000040F73C4, mask=0x0000_0F00, R4=LANE)
    assert after.uniform[15] == 8 + 9 + 10 + 11


def test_a_register_becomes_uniform_from_the_first_lane_that_runs(run):
    after = run(0x004FC400000E0000000000000A0672CA, mask=0xFFF0_0000, R10=VALUES)
    assert after.uniform[6] == VALUES[20]


def test_one_lane_is_elected(run):
    after = run(0x000FCE0003800000000000000005782F, mask=0xFFFF_FF80)
    assert after.uniform[5] == 7
    assert np.flatnonzero(after.predicates[0]).tolist() == [7]


def test_matrices_of_halves_are_transposed(run):
    numbers = np.arange(64, dtype=np.uint16).reshape(8, 8)
    after = run(0x004E2C0000000000000000001917723A, R25=numbers.view(np.uint32).ravel())
    got = after.registers[23].view(np.uint16).reshape(8, 8)
    np.testing.assert_array_equal(got, numbers.T)


def test_product_of_doubles(run):
    # DMMA.8x8x4 R12, R8, R10, R4
    a, b = (np.arange(32, dtype=np.float64).reshape(8, 4) + at for at in (1, 50))
    c = np.arange(64, dtype=np.float64).reshape(8, 8)
    bits = {}
    for name, values in (("R8", a), ("R10", b)):
        pair = values.ravel().view(np.uint32).reshape(32, 2)
        number = int(name[1:])
        bits |= {name: pair[:, 0], f"R{number + 1}": pair[:, 1]}
    quads = c.reshape(32, 2).copy().view(np.uint32)
    bits |= {f"R{4 + at}": quads[:, at] for at in range(4)}
    after = run(0x004E2400000000040000000A080C723F, **bits)
    got = np.ascontiguousarray(after.registers[12:16].T).view(np.float64).reshape(8, 8)
    np.testing.assert_array_equal(got, a @ b.T + c)


@pytest.mark.parametrize(("word", "register", "values"), [
    (0x000F6C000000000000000000001D7919, 29, LANE),  # LANEID
    (0x000E2E00000021000000000000007919, 0, LANE),  # TID.X
    (0x000F2200000022000000000000197919, 25, LANE * 0),  # TID.Y
    (0x000E22000000380000000000000C7919, 12, np.uint32(1) << LANE),  # EQMASK
    (0x000E2800000039000000000000107919, 16, (np.uint32(1) << LANE) - 1),  # LTMASK
    (0x000E220000003A0000000000000E7919, 14, (np.uint64(2) << LANE.astype(np.uint64)) - 1),
    (0x000EA20000003C000000000000127919, 18, ~((np.uint32(1) << LANE) - 1)),  # GEMASK
    (0x001E220000002F0000000000000F7919, 15, LANE * 0 + 0x7294),  # SWINHI
], ids=["LANEID", "TID_X", "TID_Y", "EQMASK", "LTMASK", "LEMASK", "GEMASK", "SWINHI"])  # fmt: skip
def test_special_registers(run, word, register, values):
    np.testing.assert_array_equal(run(word).registers[register], values.astype(np.uint32))


def single(number):
    return struct.unpack("<I", struct.pack("<f", number))[0]


def ulp_apart(a, b):
    return abs(int(a) - int(b))


# (word, source register, result register, argument, answer); answers are rounded to single.
APPROXIMATIONS = [
    ("RCP", 0x000FF00000001000 << 64 | 0x0000000400047308, 4, 4, 3.0, 0.33333334),
    ("RCP_denormal", 0x000FF00000001000 << 64 | 0x0000000400047308, 4, 4, 1e-40, math.inf),
    ("EX2", 0x000E640000000800 << 64 | 0x0000000000077308, 0, 7, 3.5, 11.313708),
    ("EX2_small", 0x000E640000000800 << 64 | 0x0000000000077308, 0, 7, -130.0, 0.0),
    ("LG2", 0x000EA40000000C00 << 64 | 0x0000000200007308, 2, 0, 10.0, 3.321928),
    ("LG2_zero", 0x000EA40000000C00 << 64 | 0x0000000200007308, 2, 0, 0.0, -math.inf),
    ("COS", 0x0003E20000000000 << 64 | 0x0000000600157308, 6, 21, 0.125, 0.70710677),
    ("SIN", 0x000FE20000000400 << 64 | 0x0000000600177308, 6, 23, 0.125, 0.70710677),
    ("SQRT", 0x000FF00000002000 << 64 | 0x0000000E00047308, 14, 4, 2.0, 1.4142135),
    ("TANH", 0x000EF00000002400 << 64 | 0x0000000200077308, 2, 7, 0.5, 0.46211717),
    ("TANH_large", 0x000EF00000002400 << 64 | 0x0000000200077308, 2, 7, -30.0, -1.0),
]


@pytest.mark.parametrize("case", APPROXIMATIONS, ids=lambda case: case[0])
def test_approximations(run, case):
    _, word, source, result, argument, answer = case
    after = run(word, **{f"R{source}": single(argument)})
    assert (after.registers[result] == after.registers[result, 0]).all()
    assert ulp_apart(after.registers[result, 0], single(answer)) <= 1


def test_reciprocals_of_the_high_words_of_doubles(run):
    # MUFU.RCP64H R7, R5 and MUFU.RSQ64H R5, R15: 1/3 and 1/2.
    after = run(0x000E240000001800 << 64 | 0x0000000500077308, R5=0x4008_0000)
    assert after.registers[7, 0] == 0x3FD5_5555
    after = run(0x000E240000001C00 << 64 | 0x0000000F00057308, R15=0x4010_0000)
    assert after.registers[5, 0] == 0x3FE0_0000


def test_division_is_checked_for_its_range(run):
    word = 0x000EA2000000000000000005 << 32 | 0x21007302
    ordinary, tiny = (single(v) for v in (3.0, 1e-38))
    assert not run(word, R33=ordinary, R5=single(7.0)).predicates[0].any()
    for a, b in ((ordinary, 0), (ordinary, tiny), (tiny, ordinary), (0x7F80_0000, ordinary)):
        assert run(word, R33=a, R5=b).predicates[0].all()


def test_a_half_is_added_to_a_single(run):
    # FHADD R0, R2, R9 and FHADD.BF16 R10, R0, R15: 1.5 + 2.5
    word = 0x000FE2000002000000000009 << 32 | 0x02007221
    assert run(word, "sm_120", R2=0x4100, R9=single(1.5)).registers[0, 0] == single(4.0)
    word = 0x000FC800000600000000000F << 32 | 0x000A7221
    assert run(word, "sm_120", R0=0x4020, R15=single(1.5)).registers[10, 0] == single(4.0)


def test_minimum_of_doubles_by_two_predicates(run):
    # DSETP.MIN.AND P0, P1, R18, R16, PT: P0 where R18 is taken, P1 where both are NaN.
    word = 0x000FE2000390000000000010 << 32 | 0x1200722A
    nan, one, two = 0x7FF8_0000, 0x3FF0_0000, 0x4000_0000
    table = [(one, two, True, False), (two, one, False, False), (nan, one, False, False),
             (one, nan, True, False), (nan, nan, True, True)]  # fmt: skip
    for a, b, taken, both in table:
        after = run(word, R19=a, R17=b)
        assert after.predicates[1].all() == both
        if not both:
            assert after.predicates[0].all() == taken


def test_packed_integers(run):
    # VIADD.16x2, VIMNMX.S16x2, VIMNMX.U16x2, VIADD.U8x4 with a negated operand
    word = 0x0C8FE2000000020000000007 << 32 | 0x04097236
    assert run(word, R4=0xFFFF_0001, R7=0x0002_FFFF).registers[9, 0] == 0x0001_0000
    word = 0x0C0FE20003FE030000000007 << 32 | 0x040D7248
    assert run(word, R4=0xFFFF_0001, R7=0x0002_FFFF).registers[13, 0] == 0xFFFF_FFFF
    word = 0x0C0FE40007FE020000000007 << 32 | 0x040F7248
    assert run(word, R4=0xFFFF_0001, R7=0x0002_FFFF).registers[15, 0] == 0xFFFF_FFFF
    word = 0x000FE200000008008000000F << 32 | 0x12127236
    assert run(word, "sm_120", R18=0x0500_FF10, R15=0x0101_0120).registers[18, 0] == 0x04FF_FEF0


def test_saturated_sum(run):
    # VIADD.S32.ISAT R36, R0, R11
    word = 0x080FE200000104000000000B << 32 | 0x00247236
    assert run(word, "sm_120", R0=0x7FFF_FFFF, R11=1).registers[36, 0] == 0x7FFF_FFFF
    assert run(word, "sm_120", R0=0x8000_0000, R11=0xFFFF_FFFF).registers[36, 0] == 0x8000_0000


def test_a_number_of_64_bits_fills_a_uniform_pair(run):
    after = run(0x000FE200083FE921FB54442D18047482, "sm_120")
    assert after.uniform[4:6].tolist() == [0x5444_2D18, 0x3FE9_21FB]


def made(name, modifiers, destinations, sources):
    """An instruction of no compiled kernel."""
    return Instruction(0, 0, name, modifiers, ALWAYS, destinations, sources)


def reg(index, count=1):
    return Operand("reg", index, count)


def test_bits_become_predicates(run):
    sources = (Operand("reg", 1, modifiers=("B1",)), Operand("imm", value=0x15))
    after = run(made("R2P", (), (Operand("predset"),), sources), R1=0xFF04_FF, P1=True)
    assert after.predicates[:, 0].tolist() == [False, True, True, False, False, False, False]


@pytest.mark.parametrize(("name", "modifiers", "sources", "answer"), [
    ("UBREV", (), (4,), 0x8000_0000), ("UPOPC", (), (5,), 32), ("UFLO", ("U32",), (4,), 0),
    ("UBMSK", (), (4, 6), 0x1E), ("USGXT", (), (5, 6), 0xFFFF_FFFF),
])  # fmt: skip
def test_uniform_bits(run, name, modifiers, sources, answer):
    operands = tuple(Operand("ureg", index) for index in sources)
    instruction = made(name, modifiers, (Operand("ureg", 9),), operands)
    assert run(instruction, UR4=1, UR5=0xFFFF_FFFF, UR6=4).uniform[9] == answer


@pytest.mark.parametrize(("name", "sources", "answers"), [
    ("FADD2", (2, 4), (4.0, 6.0)), ("FMUL2", (2, 4), (3.0, 8.0)),
    ("FFMA2", (2, 4, 6), (3.5, 9.0)),
])  # fmt: skip
def test_pairs_of_singles(run, name, sources, answers):
    instruction = made(name, (), (reg(8, 2),), tuple(reg(s, 2) for s in sources))
    numbers = {2: 1.0, 3: 2.0, 4: 3.0, 5: 4.0, 6: 0.5, 7: 1.0}
    after = run(instruction, "sm_120", **{f"R{n}": single(v) for n, v in numbers.items()})
    assert [after.registers[8, 0], after.registers[9, 0]] == [single(v) for v in answers]


def test_least_and_greatest_of_three_integers(run):
    sources = (reg(1), reg(2), reg(3), Operand("pred", 7, inv=True))
    instruction = made("VIMNMX3", (), (reg(8),), sources)
    after = run(instruction, "sm_120", R1=3, R2=0xFFFF_FFFF, R3=7)
    assert after.registers[8, 0] == 7


def test_least_of_three(run):
    instruction = made("FMNMX3", (), (reg(8),), (reg(1), reg(2), reg(3), Operand("pred", 7)))
    after = run(instruction, "sm_120", R1=single(3.0), R2=single(-1.0), R3=0x7FC0_0000)
    assert after.registers[8, 0] == single(-1.0)


TRUE = Operand("pred", 7)


@pytest.mark.parametrize(("name", "modifiers", "sources", "answer"), [
    ("UFADD", (), (1.5, 2.0), 3.5), ("UFMUL", (), (1.5, 2.0), 3.0),
    ("UFMNMX", (), (1.5, -2.0, TRUE), -2.0), ("UFSEL", (), (1.5, -2.0, TRUE), 1.5),
    ("UFSET", ("BF", "GT", "AND"), (1.5, -2.0, TRUE), 1.0),
])  # fmt: skip
def test_uniform_floats(run, name, modifiers, sources, answer):
    values = [s for s in sources if not isinstance(s, Operand)]
    operands = [Operand("ureg", 4 + at) for at in range(len(values))]
    operands += [s for s in sources if isinstance(s, Operand)]
    instruction = made(name, modifiers, (Operand("ureg", 9),), tuple(operands))
    after = run(instruction, "sm_120", **{f"UR{4 + at}": single(v) for at, v in enumerate(values)})
    assert after.uniform[9] == single(answer)


@pytest.mark.parametrize(("name", "modifiers", "sources", "answer"), [
    ("UIABS", (), (0xFFFF_FFFB,), 5), ("UVIADD", (), (3, 0xFFFF_FFFF), 2),
    ("UIMNMX", (), (3, 0xFFFF_FFFF, TRUE), 0xFFFF_FFFF),
    ("UVIMNMX", ("U32",), (3, 0xFFFF_FFFF, TRUE), 3),
])  # fmt: skip
def test_uniform_integers(run, name, modifiers, sources, answer):
    values = [s for s in sources if not isinstance(s, Operand)]
    operands = [Operand("ureg", 4 + at) for at in range(len(values))]
    operands += [s for s in sources if isinstance(s, Operand)]
    instruction = made(name, modifiers, (Operand("ureg", 9),), tuple(operands))
    after = run(instruction, "sm_120", **{f"UR{4 + at}": v for at, v in enumerate(values)})
    assert after.uniform[9] == answer


def test_uniform_comparison_of_floats(run):
    results = (Operand("upred", 0), Operand("upred", 1))
    sources = (Operand("ureg", 4), Operand("ureg", 5), Operand("upred", 7))
    instruction = made("UFSETP", ("LT", "AND"), results, sources)
    after = run(instruction, "sm_120", UR4=single(1.0), UR5=single(2.0))
    assert after.uniform_predicates[:2].tolist() == [True, False]
