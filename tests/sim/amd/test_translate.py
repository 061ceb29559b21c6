"""Control flow of kernels, and what the translated text does and leaves out."""

import pytest
from bare_amd import words

from hcq.errors import SimFault
from sim.amd.rdna.cfg import CodeReader, discover, mark_full
from sim.amd.rdna.translate import Translator
from sim.isa.jit import compile_text
from sim.memory import PageFault

EXEC, VCC = 126, 106


END = 0xBFB00000  # s_endpgm

LOOP = words(
    0xBE8A0080,  # 0  s_mov_b32 s10, 0
    0x7E040280,  # 4  v_mov_b32 v2, 0
    0x810A810A,  # 8  s_add_i32 s10, s10, 1
    0x4A040481,  # 12 v_add_nc_u32 v2, 1, v2
    0xBF048A0A,  # 16 s_cmp_lt_i32 s10, 10
    0xBFA2FFFC,  # 20 s_cbranch_scc1 8
    END,  # 24
)  # fmt: skip

MASKED = words(
    0x7C880081,  # 0  v_cmp_gt_u32 vcc_lo, 1, v0
    0xBE82206A,  # 4  s_and_saveexec_b32 s2, vcc_lo
    0xBFA50001,  # 8  s_cbranch_execz 16
    0x7E020281,  # 12 v_mov_b32 v1, 1
    0x8C7E027E,  # 16 s_or_b32 exec_lo, exec_lo, s2
    0x7E040282,  # 20 v_mov_b32 v2, 2
    0xBFBD0000,  # 24 s_barrier
    END,  # 28
)  # fmt: skip


def reader(code, entry=0):
    padded = code.ljust(4096, b"\0")
    return CodeReader(lambda address, size: padded[address : address + size], entry)


def program_of(code, wave_size=32, extra=()):
    return discover(reader(code), wave_size, extra)


def text_of(code, wave_size=32, *, full=True):
    return Translator(program_of(code, wave_size), wave_size, full=full).text("kernel")


def test_blocks_start_at_branch_targets_and_after_branches():
    assert sorted(program_of(LOOP).blocks) == [0, 8, 24]


def test_a_block_names_where_control_goes():
    blocks = program_of(LOOP).blocks
    assert [blocks[start].successors for start in (0, 8, 24)] == [(8,), (8, 24), ()]


def test_a_wave_can_be_resumed_at_the_entry_and_at_loop_heads():
    assert program_of(LOOP).entries == {0, 8}


def test_a_wave_can_be_resumed_after_a_barrier():
    assert program_of(MASKED).entries == {0, 28}


def test_code_is_as_long_as_what_is_reachable():
    assert program_of(LOOP).ranges() == [(0, 28)]


def test_code_behind_the_end_is_not_decoded():
    assert program_of(words(END, 0xFFFFFFFF)).blocks[0].problem is None


@pytest.mark.refusal
def test_an_unknown_word_is_a_problem_of_its_block_only():
    problem = program_of(words(0xBE8A0080, 0xFFFFFFFF)).blocks[0].problem
    assert "no instruction format starts with 0xffffffff" in str(problem)


@pytest.mark.refusal
def test_code_that_cannot_be_fetched_is_a_problem_of_its_block_only():
    def fetch(address, size):
        if address:
            raise PageFault(address, "execute", "not-present")
        return words(0xBE8A0080) * 1024

    assert isinstance(discover(CodeReader(fetch, 0), 32).blocks[0].problem, PageFault)


def test_an_instruction_may_lie_across_pages():
    code = words(*[0xBF800000] * 1023, 0xBE8A00FF, 0x12345678, END)  # s_nop; s_mov_b32 literal

    def fetch(address, size):
        return code.ljust(8192, b"\0")[address : address + size]

    block = discover(CodeReader(fetch, 0), 32).blocks[0]
    assert block.instructions[-2].literal == 0x12345678


def test_exec_is_full_again_after_a_masked_region():
    program = program_of(MASKED)
    mark_full(program, 32)
    assert [EXEC in program.blocks[start].full for start in (0, 12, 16, 28)] == [
        True, False, False, True,
    ]  # fmt: skip


def test_saved_exec_is_known_to_be_full_inside_a_masked_region():
    program = program_of(MASKED)
    mark_full(program, 32)
    assert program.blocks[12].full == {2}


def test_in_waves_of_64_lanes_both_words_of_exec_count():
    program = program_of(LOOP, 64)
    mark_full(program, 64)
    assert program.blocks[8].full == {EXEC, EXEC + 1}


def test_masks_vanish_while_all_lanes_are_active():
    assert "select" not in text_of(LOOP)


def test_a_wave_with_idle_lanes_keeps_their_registers():
    assert "select <32 x i1>" in text_of(LOOP, full=False)


def test_registers_that_nobody_reads_later_are_not_stored():
    # v2 lives on over the loop; it has no reader behind it, nor has s10.
    dead = words(0x7E040280, 0xBE8A0080, END)  # v_mov_b32 v2, 0; s_mov_b32 s10, 0
    assert "store <32 x i32>" not in text_of(dead)


def test_registers_that_a_loop_carries_are_stored():
    assert "store <32 x i32>" in text_of(LOOP)


def test_the_width_of_vectors_is_that_of_the_wave():
    text = text_of(LOOP, 64)
    assert "<64 x i32>" in text
    assert "<32 x i32>" not in text


@pytest.mark.parametrize("wave_size", [32, 64])
@pytest.mark.parametrize("full", [True, False])
def test_the_text_compiles(wave_size, full):
    assert compile_text(text_of(LOOP, wave_size, full=full))


@pytest.mark.refusal
def test_an_instruction_without_a_meaning_is_a_problem_where_it_stands():
    code = words(0xBE8A0080, 0xBE824A1C, END)  # s_rfe_b64
    translator = Translator(program_of(code), 32, full=True)
    translator.text("kernel")
    assert list(translator.problems) == [4]
    assert isinstance(translator.problems[4], SimFault)
    assert "s_rfe_b64 is not simulated" in str(translator.problems[4])
