"""Renderers by name, the memory cache, and what happens when compiling fails."""

import pytest
from kernel_maker import Maker, elementwise, matmul

import jit.compile
from hcq.errors import CompileError, Unsupported
from hcq.settings import Context
from jit.codegen.amdgcn import AmdRenderer
from jit.compile import choose, compile_kernel, compile_many, counts, is_allowed, renderer
from jit.dtype import dtypes
from jit.kernel import Kernel

CPU, AMD = "LLVM:x86-64-v2", "LLVM:gfx1100"


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CACHEDB", str(tmp_path / "cache.db"))
    jit.compile.forget()
    return tmp_path


def kernel(count=40, op="add"):
    return elementwise(op, dtypes.float32, dtypes.float32, count, 2)


def fatal():
    """A kernel of an intrinsic that AMDGCN cannot select: LLVM ends the process."""
    m = Maker()
    i = m.axis(0)
    x = m.load(1, dtypes.float64, i)
    made = m.pool.make("intrinsic", dtypes.float64, (x.expr,), "exp")
    return m.kernel([(dtypes.float64, 9)] * 2, [9], [(0, i, x.__class__(m.pool, made))])


@pytest.mark.row("REG-09")
def test_a_name_has_one_renderer():
    assert renderer(AMD) is renderer(AMD)
    assert isinstance(renderer(AMD), AmdRenderer)
    assert renderer(AMD) is not renderer(CPU)


@pytest.mark.row("REG-09")
@pytest.mark.refusal
def test_an_unknown_compiler_is_refused_with_the_known_ones():
    with pytest.raises(CompileError, match=r"no compiler 'GCC'(.|\n)*hint: compilers: LLVM"):
        renderer("GCC:gfx1100")


@pytest.mark.refusal
def test_an_unknown_architecture_is_refused_with_the_nearest():
    with pytest.raises(CompileError, match="no code generator for LLVM:x86-64-v5, did you mean"):
        renderer("LLVM:x86-64-v5")
    with pytest.raises(CompileError, match="no code generator for LLVM:gfx42"):
        renderer("LLVM:gfx42")


@pytest.mark.row("REG-09")
def test_the_first_usable_name_is_chosen():
    assert choose(["GCC:gfx1100", AMD, CPU]) == AMD


@pytest.mark.row("REG-09")
@pytest.mark.refusal
def test_without_a_usable_name_every_reason_is_told():
    with pytest.raises(CompileError, match=r"GCC:a(.|\n)*'GCC'(.|\n)*'ICC'"):
        choose(["GCC:a", "ICC:b"])


@pytest.mark.row("CMP-05")
def test_the_same_kernel_is_compiled_once():
    before = counts.compiled
    first = kernel().compile(AMD)
    assert kernel().compile(AMD) is first
    assert counts.compiled == before + 1


@pytest.mark.row("CMP-05")
def test_an_option_that_changes_code_is_part_of_the_key():
    plain, other = matmul(8, 8, 8), matmul(8, 8, 8, NOOPT=1)
    assert plain.key != other.key
    assert plain.compile(AMD).image != other.compile(AMD).image


def test_several_kernels_at_once_and_each_only_once():
    before = counts.compiled
    codes = compile_many([kernel(n) for n in (1, 2, 3, 2, 1)], CPU)
    assert [c.grid for c in codes] == [(1, 1, 1)] * 5
    assert counts.compiled == before + 3
    assert codes[0] is codes[4]


@pytest.mark.refusal
def test_checked_accesses_are_refused_rather_than_left_unchecked():
    checked = matmul(8, 8, 8, CHECK_OOB=1)
    with pytest.raises(Unsupported, match="CHECK_OOB: no compiler here"):
        checked.compile(CPU)
    with pytest.raises(Unsupported, match="CHECK_OOB"):
        compile_many([checked], AMD)


@pytest.mark.refusal
def test_approximate_functions_are_refused_rather_than_computed_exactly():
    fast = matmul(8, 8, 8, FASTMATH=1)
    with pytest.raises(Unsupported, match="FASTMATH: no compiler here approximates") as caught:
        fast.compile(CPU)
    assert caught.value.hint == "unset FASTMATH"
    with pytest.raises(Unsupported, match="FASTMATH"):
        compile_many([fast], AMD)


def test_workers_share_the_kernels():
    kernels = [kernel(n) for n in range(10, 26)]
    with Context(PARALLEL=2):
        codes = compile_many(kernels, AMD)
    assert [c.key for c in codes] == [k.key for k in kernels]


def test_prepare_makes_code_for_later():
    kernels = [kernel(n) for n in (5, 6)]
    Kernel.prepare(kernels, CPU)
    before = counts.compiled
    assert [k.compile(CPU).key for k in kernels] == [k.key for k in kernels]
    assert counts.compiled == before


@pytest.mark.row("CMP-08")
@pytest.mark.refusal
def test_a_compiler_that_ends_its_process_is_a_compile_error():
    with pytest.raises(CompileError, match="the compiler died on kernel made for LLVM:gfx1100"):
        fatal().compile(AMD)
    assert kernel().compile(AMD).format == "hsaco"


def test_what_is_not_on_the_allow_list_is_not_compiled_here():
    assert not is_allowed(renderer(AMD).render(fatal()))
    assert is_allowed(renderer(AMD).render(kernel()))


@pytest.mark.row("CMP-07")
@pytest.mark.refusal
def test_a_failure_is_not_cached_and_names_a_file_with_the_kernel(fresh):
    broken = kernel(op="frobnicate")
    for _ in range(2):
        with pytest.raises(CompileError, match="no code for frobnicate") as caught:
            compile_kernel(broken, CPU)
    path = caught.value.facts["source"]
    assert fresh in path.parents
    assert path.read_text() == broken.text() + "\n"


@pytest.mark.refusal
def test_the_first_failure_of_several_is_raised_when_the_others_are_done():
    good = kernel(31)
    with pytest.raises(CompileError, match="frobnicate"):
        compile_many([kernel(op="frobnicate"), good], CPU)
    before = counts.compiled
    good.compile(CPU)
    assert counts.compiled == before
