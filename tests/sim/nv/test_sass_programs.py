"""Kernels with shared memory, atomics, calls, divergence and matrices, against numpy."""

import time

import numpy as np
import pytest
from bare_nv import Gpu, cubin, library
from nv_elementwise import brain
from nv_programs import MATRICES, ptx

from sim.nv.warp import WarpFault

CHIPS = ("sm_86", "sm_90", "sm_120")
ENGINES = ("interpreted", "translated")
pytestmark = pytest.mark.skipif(library() is None, reason="needs the wheel nvidia-nvjitlink")


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """loaded(chip, engine): the programs on a GPU."""
    made = {}
    folder = str(tmp_path_factory.mktemp("cache"))

    def program(chip, engine):
        if (chip, engine) not in made:
            gpu = Gpu(chip, interpret=engine == "interpreted", cache_directory=folder)
            made[chip, engine] = gpu.load(cubin(chip, ptx(chip)))
        return made[chip, engine]

    return program


@pytest.fixture(params=[(c, e) for c in CHIPS for e in ENGINES], ids=lambda p: f"{p[0]}-{p[1]}")
def program(loaded, request):
    return loaded(*request.param)


def run(program, kernel, a, b=None, c=None, grid=1, threads=128, n=0, size=1 << 14):
    """Launch with arrays; `out` as bytes."""
    gpu = program.gpu
    pointers = [gpu.put(x if x is not None else np.zeros(1, np.uint32)) for x in (a, b, c)]
    out = gpu.put(np.zeros(size, np.uint8))
    program.run(kernel, (grid,), (threads,), out, *pointers, np.uint32(n))
    return gpu.memory.read(out, size)


def words(data, count, dtype=np.uint32):
    return np.frombuffer(data, dtype)[:count]


RNG = np.random.default_rng(5)
SINGLES = RNG.standard_normal(256).astype(np.float32)
NUMBERS = RNG.integers(-50, 50, 256).astype(np.int32)


def test_warp_sum(program):
    got = words(run(program, "warp_sum", SINGLES), 128, np.float32)
    want = SINGLES[:128].reshape(4, 32).copy()
    for step in (16, 8, 4, 2, 1):
        want = want + want[:, np.arange(32) ^ step]
    np.testing.assert_array_equal(got, want.ravel())


def test_scan_over_a_warp(program):
    got = words(run(program, "scan", NUMBERS), 128, np.int32)
    np.testing.assert_array_equal(got, NUMBERS[:128].reshape(4, 32).cumsum(axis=1).ravel())


def test_block_sum_in_shared_memory(program):
    got = words(run(program, "block_sum", SINGLES, grid=2), 256, np.float32)
    for block in (0, 1):
        want = SINGLES[128 * block : 128 * block + 128].copy()
        for step in (64, 32, 16, 8, 4, 2, 1):
            want[:step] += want[step : 2 * step]
        assert (got[128 * block : 128 * block + 128] == want[0]).all()


def test_histogram_with_shared_and_global_atomics(program):
    got = words(run(program, "histogram", NUMBERS, grid=2), 16)
    np.testing.assert_array_equal(got, np.bincount(NUMBERS & 15, minlength=16))


def test_atomics(program):
    data = run(program, "atomics", NUMBERS)
    a = NUMBERS[:128]
    got = words(data, 5, np.int32)
    unsigned = a.view(np.uint32)
    assert got[0] == a.sum()
    assert got[1] == max(0, a.max())
    assert got[2] == 0
    assert got[3] == np.bitwise_xor.reduce(a)
    assert got[4] == 128 % 10
    assert int(words(data[24:], 1, np.uint64)[0]) == int(unsigned.astype(np.uint64).sum())
    assert words(data[32:], 1, np.float32)[0] == np.arange(128).sum()
    assert words(data[40:], 1, np.float64)[0] == np.arange(128).sum()
    assert words(data[48:], 1)[0] == 3 * 128


@pytest.mark.parametrize("engine", ["translated"])
@pytest.mark.parametrize("chip", CHIPS)
def test_a_spin_lock_between_lanes_of_a_warp_progresses(loaded, chip, engine):
    got = words(run(loaded(chip, engine), "spin_lock", NUMBERS), 2)
    assert got.tolist() == [0, 128]


def test_local_arrays(program):
    got = words(run(program, "local_array", NUMBERS), 128)
    index = NUMBERS[:128] & 15
    np.testing.assert_array_equal(got, 2 * (index * index + np.arange(128)))


def test_calls_and_recursion(program):
    got = words(run(program, "calls", NUMBERS), 128)
    x = NUMBERS[:128] & 7
    factorials = np.array([1, 1, 2, 6, 24, 120, 720, 5040])
    np.testing.assert_array_equal(got, x * x + 1 + factorials[x])


def test_branches_through_a_table(program):
    got = words(run(program, "switch", NUMBERS), 128)
    t = np.arange(128, dtype=np.uint32)
    ways = [t + 100, t * 3, t ^ 77, t << 5, 1000 - t, ~t,
            np.array([int(x).bit_count() for x in t], np.uint32),
            np.full(128, 7, np.uint32)]  # fmt: skip
    np.testing.assert_array_equal(got, np.choose(NUMBERS[:128] & 7, ways))


def test_lanes_that_leave_a_loop_apart_meet_behind_it(program):
    starts = (np.arange(128) * 7 % 40 + 1).astype(np.uint32)
    got = words(run(program, "collatz", starts), 128)

    def steps(x):
        count = 0
        while x > 1:
            x, count = (x * 3 + 1 if x % 2 else x // 2), count + 1
        return count

    want = np.array([steps(int(x)) for x in starts], np.uint32).reshape(4, 32)
    most = want.max(axis=1, keepdims=True)
    np.testing.assert_array_equal(got, (want | most << 16).ravel())


def test_votes_matches_and_reductions(program):
    small = (NUMBERS % 5).astype(np.int32)
    got = words(run(program, "votes", small), 512).reshape(4, 32, 4)
    for warp in range(4):
        a = small[32 * warp : 32 * warp + 32]
        ballot = sum(1 << lane for lane in range(32) if a[lane] > 0)
        same = [sum(1 << lane for lane in range(32) if a[lane] == x) for x in a]
        assert (got[warp, :, 0] == ballot).all()
        np.testing.assert_array_equal(got[warp, :, 1], np.array(same, np.uint32))
        assert (got[warp, :, 2].view(np.int32) == a.sum()).all()
        assert (got[warp, :, 3].view(np.int32) == a.max()).all()


def test_thread_and_block_numbers(program):
    got = words(run(program, "numbers", NUMBERS, grid=3), 3 * 512).reshape(3, 128, 4)
    for block in range(3):
        np.testing.assert_array_equal(got[block, :, 0], np.arange(128))
        assert (got[block, :, 1:] == [block, 128, 3]).all()


def test_a_block_that_is_no_multiple_of_32(program):
    got = words(run(program, "early_exit", SINGLES, threads=100, n=77), 128, np.float32)
    want = np.where(np.arange(128) < 77, SINGLES[:128] * 2, 0)
    np.testing.assert_array_equal(got, want)


def test_approximations_are_close(program):
    x = SINGLES[:128].astype(np.float64)
    got = words(run(program, "exponential", SINGLES), 1024, np.float32).reshape(128, 8)
    power = np.exp2((SINGLES[:128] * np.float32(1.442695)).astype(np.float64))
    one = got[:, 7].astype(np.float64)
    np.testing.assert_allclose(got[:, 0], power, rtol=2e-7)
    np.testing.assert_allclose(got[:, 1], np.log2(one), rtol=2e-7)
    np.testing.assert_allclose(got[:, 2], np.sin(x), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got[:, 3], np.cos(x), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got[:, 4], 1 / np.sqrt(one), rtol=2e-7)
    np.testing.assert_allclose(got[:, 5], np.tanh(x), rtol=2e-7)
    np.testing.assert_allclose(got[:, 6], 1 / one, rtol=2e-7)


def test_transpose_through_shared_memory(program):
    tile = np.arange(1024, dtype=np.uint32)
    got = words(run(program, "transpose", tile, threads=32), 1024)
    np.testing.assert_array_equal(got.reshape(32, 32), tile.reshape(32, 32).T)


@pytest.mark.parametrize("chip", CHIPS)
def test_tiled_matmul(loaded, chip):
    a, b = (RNG.standard_normal((64, 64)).astype(np.float32) for _ in range(2))
    got = run(loaded(chip, "translated"), "matmul", a, b, grid=16, threads=256, n=64)
    np.testing.assert_allclose(words(got, 4096, np.float32).reshape(64, 64), a @ b, rtol=1e-4,
                               atol=1e-5)  # fmt: skip


def test_barriers_with_a_result(program):
    got = words(run(program, "barrier_result", NUMBERS), 512).reshape(128, 4)
    a = NUMBERS[:128]
    assert (got[:, 0] == (a > 0).sum()).all()
    assert (got[:, 1] == (a > 0).all()).all()
    assert (got[:, 2] == (a > 0).any()).all()


def test_barriers_of_a_number_of_threads_that_are_the_block(program):
    got = words(run(program, "counted_barrier", NUMBERS), 128)
    np.testing.assert_array_equal(got, np.arange(128)[::-1])


def test_packed_halves(program):
    a, b = (RNG.standard_normal(256).astype(np.float16) for _ in range(2))
    got = words(run(program, "packed", a, b), 1024, np.float16).reshape(128, 4, 2)
    a, b = a.reshape(128, 2), b.reshape(128, 2)
    wide = a.astype(np.float64) * b.astype(np.float64) + a.astype(np.float64)
    for at, want in enumerate((a + b, a * b, wide.astype(np.float16), np.maximum(a, b))):
        np.testing.assert_array_equal(got[:, at], want)


def test_asynchronous_copies(program):
    data = np.arange(512, dtype=np.uint32)
    got = words(run(program, "async_copy", data), 512).reshape(64, 2, 4)
    np.testing.assert_array_equal(got, data.reshape(64, 2, 4)[:, ::-1])


def test_asynchronous_copies_of_a_part_end_in_zeros(program):
    data = RNG.integers(1, 255, (128, 16)).astype(np.uint8)
    got = np.frombuffer(run(program, "filled_copy", data), np.uint8)[: 128 * 16].reshape(128, 16)
    kept = np.arange(16) < (np.arange(128) % 17)[:, None]
    np.testing.assert_array_equal(got, np.where(kept, data, 0))


def test_asynchronous_copies_leave_zeros_where_they_have_no_source(program):
    data = np.arange(1, 513, dtype=np.uint32).reshape(128, 4)
    got = words(run(program, "fixed_copies", data), 128 * 12).reshape(128, 3, 4)
    np.testing.assert_array_equal(got[:, 0], data * [1, 1, 0, 0])
    np.testing.assert_array_equal(got[::2, 1], data[::2])
    np.testing.assert_array_equal(got[1::2, 1], 0 * data[1::2])
    np.testing.assert_array_equal(got[:, 2], np.arange(128)[:, None] * [0, 0, 1, 1])


def test_products_with_negative_powers_of_two(program):
    data = np.resize(np.array([0, 1, -1, 1 << 32, -(1 << 31), 5 << 22], np.int64), 128)
    got = words(run(program, "negative_powers", data), 256, np.int64).reshape(128, 2)
    np.testing.assert_array_equal(got, data[:, None] * [-2, -1024])


# --- matrices


def fragments(matrix, rows, columns, per):
    """For lane l, its registers: elements (row, column) as the layouts of matrix.py say."""
    g, t = np.arange(32) // 4, np.arange(32) % 4
    parts = []
    for part in range(columns // (4 * per)):
        for half in range(rows // 8):
            for element in range(per):
                parts.append(matrix[g + 8 * half, 4 * per * part + per * t + element])
    return np.stack(parts, axis=1)


def packed(values, width):
    """Elements of `width` bits beside each other, as words."""
    return np.ascontiguousarray(values).view(np.uint32) if width < 32 else values.view(np.uint32)


def check_product(program, name, make, to_bits, width):
    shape, types, (count_a, _, count_c) = MATRICES[name]
    k = int(shape.split("k")[1])
    a, b = make((16, k)), make((k, 8))
    per = 32 // width
    raw_a = packed(fragments(to_bits(a), 16, k, per), width)
    raw_b = packed(fragments(to_bits(b).T, 8, k, per), width)
    is_integer = types.startswith("s32")
    narrow = types.startswith("f16")
    kind = np.int32 if is_integer else np.float16 if narrow else np.float32
    c = RNG.integers(-4, 5, (16, 8)).astype(kind)
    raw_c = packed(fragments(c, 16, 8, 2).astype(kind), 16 if narrow else 32)
    data = run(program, name, raw_a, raw_b, raw_c, threads=32)
    got = words(data, 32 * 4, kind).reshape(32, 4)
    wide = np.int64 if is_integer else np.float64
    want = a.astype(wide) @ b.astype(wide) + c.astype(wide)
    np.testing.assert_array_equal(got, fragments(want, 16, 8, 2).astype(kind))
    assert (raw_a.shape[1], raw_c.shape[1]) == (count_a, count_c)


def small(shape):
    """Numbers whose products sum exactly in every format."""
    return RNG.integers(-4, 5, shape).astype(np.float32)


@pytest.mark.parametrize("name", ["mma_f16", "mma_f16_f16", "mma_f16_k8"])
def test_products_of_halves(program, name):
    check_product(program, name, small, lambda x: x.astype(np.float16), 16)


def test_products_of_bfloats(program):
    check_product(program, "mma_bf16", small, brain, 16)


def test_products_of_tf32(program):
    check_product(program, "mma_tf32", small, lambda x: x, 32)


def test_products_of_bytes(program):
    check_product(program, "mma_s8", small, lambda x: x.astype(np.int8), 8)


# --- what goes wrong


def fault(program, kernel, n=0, **options):
    gpu = program.gpu
    a = gpu.put(np.zeros(1024, np.uint32))
    out = gpu.put(np.zeros(1024, np.uint32))
    launch = program.launch(kernel, (1,), (128,), out, a, options.pop("b", a), a, np.uint32(n))
    with pytest.raises(WarpFault) as caught:
        gpu.executor.run(launch, **options)
    return caught.value, launch


@pytest.mark.refusal
def test_a_bad_store_names_the_byte_and_the_instruction(program):
    found, launch = fault(program, "bad_store", b=0x1234000)
    assert (found.kind, found.address, found.access) == ("memory", 0x1234000, "write")
    assert launch.code < found.pc < launch.code + 0x200
    assert found.pc % 16 == 0


@pytest.mark.refusal
def test_a_store_outside_shared_memory_names_the_byte(program):
    found, launch = fault(program, "bad_shared", n=1 << 20)
    base = 0 if program.gpu.chip == "sm_86" else 0x400
    assert (found.kind, found.address, found.access) == ("shared", (1 << 22) + base, "write")
    assert launch.code < found.pc < launch.code + 0x200


@pytest.mark.refusal
def test_a_misaligned_store_is_a_fault(program):
    found, _ = fault(program, "misaligned", n=2)
    assert (found.kind, found.access, found.address % 4) == ("misaligned", "write", 2)


@pytest.mark.refusal
def test_a_misaligned_store_to_shared_memory_names_its_offset(program):
    found, _ = fault(program, "misaligned_shared", n=1)
    base = 0 if program.gpu.chip == "sm_86" else 0x400
    assert (found.kind, found.access, found.address) == ("misaligned", "write", base + 1)


@pytest.mark.refusal
def test_a_store_outside_local_memory_is_a_fault(program):
    found, _ = fault(program, "bad_local", n=0x10_0000)
    assert found.kind == "local", found.text
    assert (found.kind, found.access) == ("local", "write")
    assert found.address >= 1 << 24


@pytest.mark.refusal
def test_an_endless_kernel_can_be_stopped(program):
    started = time.monotonic()
    found, _ = fault(program, "endless", stop=lambda: time.monotonic() > started + 0.05)
    assert found.kind == "aborted"
    assert time.monotonic() < started + 10


def test_a_barrier_of_half_a_block_opens_for_each_half(program):
    got = words(run(program, "part_barrier", None), 128)
    np.testing.assert_array_equal(got, np.arange(128))


@pytest.mark.refusal
def test_a_barrier_of_more_threads_than_the_block_has_is_named(program):
    found, _ = fault(program, "endless_barrier")
    assert found.kind == "illegal"
    assert "warps of one block wait at barriers that can never open" in found.text


@pytest.mark.refusal
def test_a_trap_stops_the_kernel(program):
    found, _ = fault(program, "trapped", n=3)
    assert found.kind == "illegal"
    assert "BPT.TRAP" in found.text


@pytest.mark.refusal
def test_registers_beyond_the_launch_are_refused(loaded):
    from dataclasses import replace

    program = loaded("sm_90", "translated")
    a = program.gpu.put(np.zeros(128, np.uint32))
    launch = replace(program.launch("votes", (1,), (128,), a, a, a, a, np.uint32(0)), registers=3)
    with pytest.raises(WarpFault, match="launch allocates 3 registers"):
        program.gpu.executor.run(launch)


@pytest.mark.refusal
def test_a_parameter_beyond_constant_bank_0_is_refused(program):
    from dataclasses import replace

    a = program.gpu.put(np.zeros(128, np.uint32))
    launch = program.launch("scan", (1,), (128,), a, a, a, a, np.uint32(0))
    short = (launch.constants[0][0], 0x100)
    launch = replace(launch, constants=(short, *launch.constants[1:]))
    with pytest.raises(WarpFault, match="of constant bank 0, which has 0x100"):
        program.gpu.executor.run(launch)


@pytest.mark.refusal
def test_code_that_is_not_mapped_is_a_fault(program):
    from dataclasses import replace

    a = program.gpu.put(np.zeros(128, np.uint32))
    launch = program.launch("scan", (1,), (128,), a, a, a, a, np.uint32(0))
    with pytest.raises(WarpFault) as caught:
        program.gpu.executor.run(replace(launch, code=0x7000))
    assert (caught.value.kind, caught.value.access) == ("memory", "execute")


def test_changed_code_is_noticed(loaded):
    program = loaded("sm_90", "translated")
    memory = program.gpu.memory
    number, section = program.section(".text.numbers")
    first = words(run(program, "numbers", NUMBERS), 4).tolist()
    original = memory.read(program.at[number], section[6])
    exit_now = bytes.fromhex("4d790000000000000000800300ea0f00")
    memory.write(program.at[number], exit_now)
    second = words(run(program, "numbers", NUMBERS), 4).tolist()
    memory.write(program.at[number], original)
    assert (first, second) == ([0, 0, 128, 1], [0, 0, 0, 0])
