"""PTX and cubins: what the text says, what a cubin asks of a launch, and every kernel family.

The cubins run on simulated chips in tests/tensor; here they are only made and read.
"""

import io
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from kernel_maker import Maker, convolution, elementwise, matmul, reduction

import jit.compile
from hcq.errors import CompileError
from jit.codegen import nvjitlink
from jit.codegen.nvptx import NvRenderer
from jit.compile import cache_key, choose, compile_kernel, is_allowed, renderer
from jit.dtype import dtypes
from jit.math import FUNCTIONS
from jit.tile_gpu import make_plan

ARCHES = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"]
MAIN = ["sm_86", "sm_90", "sm_120"]
F32 = dtypes.float32


@pytest.fixture(autouse=True)
def linker(tmp_path, monkeypatch):
    """A cache of its own; skips where the library is missing, unless CI is set."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CACHEDB", str(tmp_path / "cache.db"))
    jit.compile.forget()
    try:
        nvjitlink.find()
    except CompileError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(error.what)


def render(kernel, arch="sm_90"):
    return renderer(f"PTX:{arch}").render(kernel)


def ptx(kernel, arch="sm_90"):
    return renderer(f"PTX:{arch}").ptx(render(kernel, arch).text)


def attributes(image, kernel):
    """The entries of a kernel's .nv.info and those of the file's: attribute -> payload.

    Source: facts of the format: {u8 format, u8 attribute, u16 size or value}.
    """
    found = {}
    elf = ELFFile(io.BytesIO(image))
    for name in (".nv.info", f".nv.info.{kernel}"):
        data = elf.get_section_by_name(name).data()
        while data:
            size = int.from_bytes(data[2:4], "little") if data[0] == 4 else 0
            found[data[1]] = data[4 : 4 + size] if size else data[2:4]
            data = data[4 + size :]
    return found


def words(data):
    return [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]


def guarded():
    m = Maker()
    i = m.axis(0)
    valid = ~(i < 3) & (i < 48)
    store = (0, i, m.load(1, F32, i - 3, valid), (i & 1).equals(0))
    return m.kernel([(F32, 51), (F32, 45)], [51], [store])


def with_variable(index):
    m = Maker(index)
    i = m.axis(0)
    return m.kernel([(index, 35)], [35], [(0, i, i * m.variable("n"))])


def many_reductions(count, dtype=dtypes.float64):
    """More reductions in one kernel than there is shared memory for at once."""
    m = Maker()
    k = m.axis(0)
    x = m.load(1, dtype, k)
    total = m.reduce("sum", x)
    for n in range(1, count):
        total = total + m.reduce("sum", x * float(n) + 1.0)
    return m.kernel([(dtype, 1), (dtype, 70000)], [-70000], [(0, m.const(0, m.index), total)])


FAMILIES = {
    "copy": lambda: elementwise("neg", F32, F32, 70001),
    "one element": lambda: elementwise("add", F32, F32, 1, 2),
    "nothing": lambda: elementwise("add", F32, F32, 0, 2),
    "2^31 bytes": lambda: elementwise("neg", dtypes.float64, dtypes.float64, 1 << 28),
    "matrix product": lambda: matmul(512, 512, 512),
    "odd matrix product": lambda: matmul(33, 65, 129, transposed=True),
    "half matrix product": lambda: matmul(64, 64, 64, dtype=dtypes.float16),
    "bfloat16 matrix product": lambda: matmul(64, 64, 64, dtype=dtypes.bfloat16),
    "plain matrix product": lambda: matmul(32, 32, 32, NOOPT=1),
    "tree": lambda: reduction("sum", 3, 50000),
    "one warp each": lambda: reduction("max", 2000, 512),
    "columns": lambda: reduction("sum", 333, 1001, last=False),
    "product of int64": lambda: reduction("prod", 5, 300, dtype=dtypes.int64),
    "least of float16": lambda: reduction("min", 1, 2000, dtype=dtypes.float16),
    "sum of nothing": lambda: reduction("sum", 5, 0),
    "guards": guarded,
    "big matrix product": lambda: matmul(1024, 1024, 512),
    "big product of float64": lambda: matmul(1024, 1024, 100, dtype=dtypes.float64),
    "convolution": convolution,
    "convolution of padded images": lambda: convolution(images=64, padding=1),
    "int32 variable": lambda: with_variable(dtypes.int32),
    "int64 variable": lambda: with_variable(dtypes.int64),
    "many reductions": lambda: many_reductions(30),
}


@pytest.mark.parametrize("arch", MAIN)
def test_every_kernel_family_compiles(arch):
    for name, make in FAMILIES.items():
        kernel = make()
        rendered = render(kernel, arch)
        assert is_allowed(rendered), (name, rendered.intrinsics)
        assert rendered.finish().image[:4] == b"\x7fELF", name


@pytest.mark.parametrize("dtype", [F32, dtypes.float64, dtypes.float16], ids=lambda t: t.name)
def test_every_function_compiles(dtype):
    for name in FUNCTIONS:
        kernel = elementwise(name, dtype, dtype, 40, 2 if name in ("pow", "atan2") else 1)
        assert is_allowed(render(kernel)), name
        render(kernel).finish()


# All operations and conversions in a process of its own: LLVM ends it where it cannot select.
SELECTABLE = """
import sys
sys.path.insert(0, sys.argv[1])
from kernel_maker import Maker, elementwise, reduction
from jit.compile import ALLOWED, is_allowed, renderer
from jit.dtype import ALL, dtypes
made = renderer("PTX:" + sys.argv[2])
floats = "add sub mul div max min lt eq ne neg abs sqrt trunc floor ceil round fma".split()
integers = "add sub mul idiv mod max min lt eq ne and or xor shl shr neg not abs".split()
arity = {op: 1 for op in "neg not abs sqrt trunc floor ceil round".split()} | {"fma": 3}
seen = set()

def check(kernel):
    rendered = made.render(kernel)
    assert is_allowed(rendered), (kernel.text(), rendered.intrinsics)
    made.ptx(rendered.text)
    seen.update(rendered.intrinsics)

def bits(source, target):
    m = Maker()
    i = m.axis(0)
    value = m.load(1, source, i).bits(target)
    check(m.kernel([(target, 40), (source, 40)], [40], [(0, i, value)]))

for dtype in ALL.values():
    ops = floats if dtype.is_float else integers if dtype.is_int else ["and", "or", "xor", "not"]
    for op in ops:
        result = dtypes.bool if op in ("lt", "eq", "ne") else dtype
        check(elementwise(op, dtype, result, 40, arity.get(op, 2)))
    for other in ALL.values():
        check(elementwise("cast", dtype, other, 40))
        if other.bits == dtype.bits:
            bits(dtype, other)
    for kind in ("sum", "prod", "max", "min"):
        check(reduction(kind, 2, 300, dtype=dtype))
unseen = [s for s in ALLOWED if not any(n == s or n.startswith(s + ".") for n in seen)]
others = ("amdgcn", "masked", "arithmetic", "constrained")
print("not seen", [s for s in unseen if not any(o in s for o in others)])
"""


@pytest.mark.parametrize("arch", ARCHES)
def test_everything_on_the_allow_list_can_be_selected(arch):
    here = str(Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", SELECTABLE, here, arch], capture_output=True, text=True
    )
    assert done.stdout == "not seen []\n", done.stderr[-2000:]


@pytest.mark.row("CMP-08")
@pytest.mark.refusal
def test_a_compiler_that_ends_its_process_is_a_compile_error():
    m = Maker()
    i = m.axis(0)
    x = m.load(1, dtypes.float64, i)
    made = m.pool.make("intrinsic", dtypes.float64, (x.expr,), "exp")
    fatal = m.kernel([(dtypes.float64, 9)] * 2, [9], [(0, i, x.__class__(m.pool, made))])
    with pytest.raises(CompileError, match="the compiler died on kernel made for PTX:sm_90"):
        compile_kernel(fatal, "PTX:sm_90")
    assert compile_kernel(elementwise("add", F32, F32, 9, 2), "PTX:sm_90").format == "cubin"


SMALL = """\
.version 7.1
.target sm_86
.address_size 64

\t// .globl\tmade

.visible .entry made(
\t.param .u64 .ptr .global .align 1 made_param_0,
\t.param .u64 .ptr .global .align 1 made_param_1,
\t.param .u64 .ptr .global .align 1 made_param_2
)
.maxntid 7, 1, 1
{
\t.reg .b32 \t%r<5>;
\t.reg .b64 \t%rd<8>;

\tld.param.b64 \t%rd1, [made_param_0];
\tld.param.b64 \t%rd2, [made_param_1];
\tmov.u32 \t%r1, %tid.x;
\tld.param.b64 \t%rd3, [made_param_2];
\tmul.wide.u32 \t%rd4, %r1, 4;
\tadd.s64 \t%rd5, %rd2, %rd4;
\tld.global.nc.b32 \t%r2, [%rd5];
\tadd.s64 \t%rd6, %rd3, %rd4;
\tld.global.nc.b32 \t%r3, [%rd6];
\tadd.rn.f32 \t%r4, %r2, %r3;
\tadd.s64 \t%rd7, %rd1, %rd4;
\tst.global.b32 \t[%rd7], %r4;
\tret;

}
"""


def test_the_text_of_a_small_kernel():
    text = ptx(elementwise("add", F32, F32, 7, 2), "sm_86")
    assert text.partition("//\n\n")[2] == SMALL


@pytest.mark.parametrize(
    ("op", "arity", "word"),
    [
        ("add", 2, "add.rn.f32"),
        ("sub", 2, "sub.rn.f32"),
        ("mul", 2, "mul.rn.f32"),
        ("fma", 3, "fma.rn.f32"),
        ("div", 2, "div.rn.f32"),
        ("sqrt", 1, "sqrt.rn.f32"),
        ("round", 1, "cvt.rni.f32.f32"),
    ],
)
def test_operations_are_correctly_rounded(op, arity, word):
    assert word in ptx(elementwise(op, F32, F32, 40, arity))


@pytest.mark.row("TEN-10")
def test_no_approximate_instruction_nor_flushed_denormal_nor_contraction():
    for dtype in (F32, dtypes.float64, dtypes.float16, dtypes.bfloat16):
        for name in FUNCTIONS:
            kernel = elementwise(name, dtype, dtype, 40, 2 if name in ("pow", "atan2") else 1)
            text = ptx(kernel)
            assert not re.search(r"\.approx|\.ftz|\.full|\b(add|sub|mul)\.f(32|64)", text), name


def test_a_product_and_a_sum_stay_two_instructions():
    m = Maker()
    i = m.axis(0)
    value = m.load(1, F32, i) * m.load(1, F32, i) + 1.0
    text = ptx(m.kernel([(F32, 40)] * 2, [40], [(0, i, value)]))
    assert "fma" not in text
    assert "mul.rn.f32" in text


@pytest.mark.row("TEN-10")
def test_absolute_values_of_float32_are_cleared_bits():
    # Of abs.f32, nvJitLink 13.5 makes numbers that compare as not negative, NaN included.
    for dtype in (F32, dtypes.float16, dtypes.bfloat16):
        for name in ("abs", "asinh", "tan"):
            assert "abs.f32" not in ptx(elementwise(name, dtype, dtype, 40)), (name, dtype)
    assert "and.b32 \t%r3, %r2, 0x7FFFFFFF;" in ptx(elementwise("abs", F32, F32, 40))
    assert "abs.f64" in ptx(elementwise("abs", dtypes.float64, dtypes.float64, 40))


@pytest.mark.row("TEN-12")
@pytest.mark.parametrize(("op", "word"), [("shl", "shl.b64"), ("shr", "shr.u64")])
def test_the_count_of_a_64_bit_shift_is_compared_whole(op, word):
    text = ptx(elementwise(op, dtypes.uint64, dtypes.uint64, 40, 2))
    assert word in text
    assert re.search(r"setp\.gt\.u64 \t%p1, %rd\d+, 63;", text)


@pytest.mark.row("TEN-10")
@pytest.mark.parametrize("dtype", [F32, dtypes.float64, dtypes.float16], ids=repr)
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_a_choice_between_a_number_and_zero_is_no_minimum(dtype, zero):
    m = Maker()
    x = m.load(1, dtype, m.axis(0))
    for test in (x < zero, m.const(zero, dtype) < x):
        for value in (test.where(x, zero), test.where(zero, x)):
            text = ptx(m.kernel([(dtype, 40)] * 2, [40], [(0, m.axis(0), value)]))
            assert not re.search(r"\b(min|max)\.", text)


def test_halves_are_converted_by_rounding_instructions():
    text = ptx(elementwise("exp2", dtypes.float16, dtypes.float16, 40))
    assert text.count("cvt.f32.f16") == 1
    assert text.count("cvt.rn.f16.f32") == 1


@pytest.mark.row("NV-10")
@pytest.mark.parametrize("make", FAMILIES.values(), ids=FAMILIES)
def test_launch_bounds_are_always_given(make):
    kernel = make()
    rendered = render(kernel)
    assert f'"nvvm.maxntid"="{rendered.plan.threads},1,1"' in rendered.text


@pytest.mark.row("NV-10")
@pytest.mark.parametrize("arch", ARCHES)
def test_a_cubin_says_its_block_and_fits_in_the_register_file(arch):
    code = render(reduction("sum", 3, 50000), arch).finish()
    found = attributes(code.image, "made")
    assert code.block == (256, 1, 1)
    assert words(found[0x05]) == [256, 1, 1]  # MAX_THREADS
    assert 0 < words(found[0x2F])[1] <= 65536 // 256  # REGCOUNT
    assert code.image[18:20] == bytes([190, 0])  # EM_CUDA
    assert int.from_bytes(code.image[48:52], "little") >> 8 & 0xFF == int(arch[3:])


def test_parameters_are_pointers_then_variables_of_the_index_type():
    m = Maker()
    i = m.axis(0)
    value = m.load(1, dtypes.int32, i) + m.variable("a") * m.variable("b")
    kernel = m.kernel([(dtypes.int32, 35)] * 2, [35], [(0, i, value)])
    code = render(kernel).finish()
    assert [(a.kind, a.dtype, a.size, a.written) for a in code.arguments] == [
        ("buffer", "int32", 8, True),
        ("buffer", "int32", 8, False),
        ("scalar", "int32", 4, False),
        ("scalar", "int32", 4, False),
    ]
    assert int.from_bytes(attributes(code.image, "made")[0x19], "little") == 24  # CBANK_PARAM_SIZE


def test_static_shared_memory_stays_below_48_kib():
    kernel = many_reductions(30)
    threads = make_plan(kernel, NvRenderer.machines["sm_90"]).threads
    text = ptx(kernel)
    assert threads == 256
    assert text.count(".shared .align 16 .b8 local") == (48 << 10) // (threads * 8) == 24
    render(kernel, "sm_86").finish()


def test_few_outputs_and_a_long_reduction_share_memory_between_barriers():
    text = ptx(reduction("sum", 3, 50000))
    assert text.count("bar.sync \t0;") == 2
    assert "st.shared.b32" in text


def test_a_matrix_product_keeps_a_tile_in_registers():
    # 16 rows by 4 columns per thread, 4 deep.
    assert ptx(matmul(512, 512, 512)).count("fma.rn.f32") == 16 * 4 * 4


def test_warps_share_both_factors_of_a_big_matrix_product():
    text = ptx(matmul(1024, 1024, 512))
    assert text.count("fma.rn.f32") == 16 * 4 * 8
    assert text.count("bar.sync \t0;") == 2
    # 16 rows come four at a time, columns one by one; 8 deep.
    assert text.count("ld.shared.v4.b32") == 4 * 8
    assert text.count("ld.shared.b32") == 4 * 8
    # Each thread fetches 4 of 64 x 8 and 8 of 8 x 128, before the loop and in it.
    assert text.count("ld.global.nc.b32") == 2 * 12
    assert text.count("st.shared.b32") == 12


def test_a_kernel_takes_at_most_40_ms():
    kernels = [elementwise("add", F32, F32, n, 2) for n in range(1000, 1010)]
    kernels += [reduction("sum", 3, n) for n in range(5000, 5010)]
    times = []
    for kernel in kernels:
        begin = time.process_time()
        render(kernel).finish()
        times.append(time.process_time() - begin)
    assert sorted(times)[len(times) // 2] < 0.04


def test_the_cache_key_has_the_linkers_version(monkeypatch):
    kernel = elementwise("add", F32, F32, 9, 2)
    before, other = (cache_key(kernel, name) for name in ("PTX:sm_90", "LLVM:gfx1100"))
    monkeypatch.setattr(nvjitlink, "version", lambda: "nvidia-nvjitlink-13.0.1")
    assert cache_key(kernel, "PTX:sm_90") != before
    assert cache_key(kernel, "LLVM:gfx1100") == other


def test_the_version_is_the_wheels():
    assert re.fullmatch(r"nvidia-nvjitlink-13\.\d+\.\d+", nvjitlink.version())


def test_the_version_of_a_library_without_a_wheel_is_asked_of_it(tmp_path, monkeypatch):
    folder = tmp_path / nvjitlink.FOLDERS[0]
    folder.mkdir(parents=True)
    (folder / "libnvJitLink.so.13").symlink_to(nvjitlink.find())
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert re.fullmatch(r"nvidia-nvjitlink-13\.\d", nvjitlink.version.__wrapped__())


@pytest.fixture
def nothing(tmp_path, monkeypatch):
    """No folder of sys.path has the library."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    renderer.cache_clear()
    yield
    renderer.cache_clear()


@pytest.mark.row("NV-10")
@pytest.mark.refusal
def test_without_the_library_the_error_names_the_extra(nothing):
    with pytest.raises(
        CompileError,
        match=r"nvJitLink 13 is not installed(.|\n)*hint: pip install .* hcq\[nv\]",
    ):
        renderer("PTX:sm_90")


@pytest.mark.row("REG-09")
@pytest.mark.refusal
def test_without_the_library_no_compiler_is_usable_and_the_reason_is_told(nothing):
    with pytest.raises(
        CompileError,
        match=r"no usable compiler among PTX:sm_90: nvJitLink 13(.|\n)*hint: pip install .* hcq",
    ):
        choose(["PTX:sm_90"])


@pytest.mark.refusal
def test_a_library_that_cannot_be_loaded_is_told(tmp_path, monkeypatch, nothing):
    folder = tmp_path / nvjitlink.FOLDERS[1]
    folder.mkdir(parents=True)
    (folder / "libnvJitLink.so.13").write_bytes(b"not a library")
    with pytest.raises(CompileError, match="nvJitLink cannot be loaded"):
        nvjitlink._library.__wrapped__()


@pytest.mark.refusal
def test_text_that_is_not_ptx_is_refused_with_the_linkers_log():
    with pytest.raises(CompileError, match=r"refuses the PTX of wrong for sm_90: .*syntax error"):
        nvjitlink.link(".version 7.8\n.target sm_90\n.address_size 64\nwrong\n", "sm_90", "wrong")


@pytest.mark.refusal
def test_too_much_shared_memory_is_refused_with_both_numbers():
    text = (
        ".version 7.1\n.target sm_86\n.address_size 64\n.visible .entry k()\n"
        "{\n.shared .b8 s[50000];\nst.shared.u32 [s], 1;\nret;\n}\n"
    )
    with pytest.raises(CompileError, match=r"uses too much shared data \(0xc350.*, 0xc000 max"):
        nvjitlink.link(text, "sm_86", "k")


@pytest.mark.refusal
def test_an_architecture_the_linker_lacks_is_refused():
    with pytest.raises(CompileError, match="nvJitLink knows no sm_42"):
        nvjitlink.link("", "sm_42", "none")


@pytest.mark.refusal
def test_an_unknown_architecture_is_refused_with_the_nearest():
    with pytest.raises(
        CompileError, match=r"no code generator for PTX:sm_91, did you mean 'sm_90'(.|\n)*sm_120"
    ):
        renderer("PTX:sm_91")
