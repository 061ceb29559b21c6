"""Launches on a simulated GPU: results, limits, arguments, private and local memory."""

import pytest

from hcq.errors import LaunchError, OutOfMemory


@pytest.mark.row("AMD-15")
@pytest.mark.parametrize(("threads", "total"), [(64, 2016), (100, 4950)])
@pytest.mark.parametrize("features", ["", "+wavefrontsize64"])
def test_partly_filled_waves_add_up(device, compiled, words, threads, total, features):
    program = device.load(compiled("sum", features=features), "sum")
    cell = device.allocate(4, zero=True)
    device.launch(program, [cell.address], (1, 1, 1), (threads, 1, 1))
    assert words(device, cell, 1) == [total]


@pytest.mark.row("AMD-15")
def test_wave64_object_runs_in_waves_of_64(device, compiled):
    assert device.load(compiled("sum", features="+wavefrontsize64"), "sum").wave_size == 64


@pytest.mark.row("HCQ-16")
@pytest.mark.refusal
@pytest.mark.parametrize(
    ("grid", "block", "match"),
    [
        ((1, 1, 1), (1025, 1, 1), "threads 1025 is outside the limit 1024"),
        ((1, 1, 1), (32, 33, 1), "threads 1056 is outside the limit 1024"),
        ((1, 1, 1), (0, 1, 1), "block .* is outside the limit at least 1"),
        ((1 << 31, 1, 1), (1, 1, 1), "grid.0. 2147483648 is outside the limit"),
        ((-1, 1, 1), (1, 1, 1), "grid.0. -1 is outside"),
        ((1 << 30, 1, 1), (64, 1, 1), "grid.0. . block"),
        ((1, 1), (1, 1, 1), "three axes"),
    ],
)
def test_launch_outside_limits_is_refused_before_any_word(device, add, grid, block, match):
    queue = device.queue("compute")
    with pytest.raises(LaunchError, match=match):
        queue.launch(add[0], 0x1000, grid, block)
    assert queue.words == []


@pytest.mark.row("HCQ-16")
def test_launch_at_the_limit_of_threads_is_taken(device, add):
    assert device.queue("compute").launch(add[0], 0x1000, (1, 1, 1), (1024, 1, 1)).words


@pytest.mark.row("AMD-15")
@pytest.mark.refusal
def test_local_memory_over_the_limit_is_refused(device, compiled):
    from dataclasses import replace

    program = device.load(compiled("lds"), "lds")
    program.arch = replace(program.arch, lds_bytes=32767)
    with pytest.raises(LaunchError, match="local memory bytes 32768 is outside the limit 32767"):
        device.queue("compute").launch(program, 0x1000, (1, 1, 1), (64, 1, 1))


def test_local_memory_is_given(device, compiled, words):
    program = device.load(compiled("lds"), "lds")
    out = device.allocate(256)
    device.launch(program, [out.address], (1, 1, 1), (64, 1, 1))
    assert words(device, out, 64) == list(range(64))


@pytest.mark.row("AMD-13")
def test_spilling_kernel_has_private_memory_per_thread(device, compiled, words):
    program = device.load(compiled("spill"), "spill")
    assert program.scratch_size >= 256
    out = device.allocate(256)
    device.launch(program, [out.address, 7], (1, 1, 1), (64, 1, 1))
    assert words(device, out, 64) == [7 * t for t in range(64)]


@pytest.mark.row("AMD-13")
def test_hidden_arguments_tell_the_launch_size(device, compiled, words):
    program = device.load(compiled("hidden"), "hidden")
    out = device.allocate(8)
    device.launch(program, [out.address], (3, 1, 1), (32, 1, 1))
    assert words(device, out, 2) == [3, 32]


@pytest.mark.row("AMD-13")
@pytest.mark.refusal
def test_hidden_arguments_need_the_launch_size(device, compiled):
    program = device.load(compiled("hidden"), "hidden")
    with pytest.raises(LaunchError, match="give grid and block"):
        device.arguments(program, [0x1000])


@pytest.mark.row("AMD-13")
@pytest.mark.refusal
def test_hidden_arguments_of_another_launch_size_are_refused(device, compiled, words):
    program = device.load(compiled("hidden"), "hidden")
    out = device.allocate(8)
    arguments = device.arguments(program, [out.address], (3, 1, 1), (32, 1, 1))
    queue = device.queue()
    text = "the argument block was laid down for another launch size"
    for grid, block in (((2, 1, 1), (32, 1, 1)), ((3, 1, 1), (64, 1, 1))):
        with pytest.raises(LaunchError, match=text):
            queue.launch(program, arguments, grid, block)
    assert queue.words == []
    device.submit(queue.launch(program, arguments, (3, 1, 1), (32, 1, 1)))
    assert words(device, out, 2) == [3, 32]


@pytest.mark.row("ALC-11")
def test_private_memory_grows_with_the_neediest_program(device, compiled, words):
    device.load(compiled("spill"), "spill")
    small = device.loader.scratch.bytes_per_thread
    program = device.load(compiled("spill_huge"), "spill_huge")
    assert device.loader.scratch.bytes_per_thread > small
    out = device.allocate(256)
    device.launch(program, [out.address, 3999], (1, 1, 1), (64, 1, 1))
    assert words(device, out, 3) == [0, 3999, 7998]


@pytest.mark.row("ALC-11")
@pytest.mark.refusal
def test_private_memory_that_cannot_be_had_names_kernel_and_bytes(machine, compiled, words):
    from hcq import amd

    machine(vram=256 << 20)
    device = amd.open(0)
    program = device.load(compiled("spill"), "spill")
    with pytest.raises(OutOfMemory, match=r"kernel spill_huge: 160\d\d bytes of private memory"):
        device.load(compiled("spill_huge"), "spill_huge")
    out = device.allocate(256)
    device.launch(program, [out.address, 2], (1, 1, 1), (64, 1, 1))
    assert words(device, out, 3) == [0, 2, 4]
    device.close()


@pytest.mark.row("HCQ-14")
def test_argument_blocks_are_aligned_as_the_kernel_needs(device, add):
    values = [1, 2, 3, 4]
    assert [device.arguments(add[0], values) % 16 for _ in range(3)] == [0, 0, 0]


@pytest.mark.row("ALC-11")
def test_private_memory_is_laid_out_for_every_wave_that_can_run(device, compiled):
    program = device.load(compiled("spill"), "spill")
    size = program.scratch_size
    # 96 units of 32 slots each, counted per shader engine (6); wave size in 256 bytes.
    assert device.loader.scratch.current.tmpring == 512 | -(-size * 64 // 256) << 12


@pytest.mark.row("HCQ-16")
@pytest.mark.refusal
@pytest.mark.parametrize(("over", "refused"), [(0, False), (1, True)])
def test_argument_bytes_over_the_limit_are_refused(device, compiled, over, refused):
    from hcq.arguments import Argument, ArgumentLayout

    program = device.load(compiled("bump"), "bump")
    limit = device.loader.blocks.limit
    program.arguments = ArgumentLayout((Argument("cell", 0, 8, True),), limit + over)
    if refused:
        with pytest.raises(LaunchError, match="argument bytes 262145 is outside the limit 262144"):
            device.arguments(program, [0])
    else:
        assert device.arguments(program, [0])


@pytest.fixture
def hungry(compiled):
    """The add kernel of waves of `wave`, saying that each thread needs 256 registers; in a WGP."""

    def make(wave):
        from hcq.elf import ObjectFile

        image = bytearray(compiled("add", features="+wavefrontsize64" if wave == 64 else ""))
        home = next(s for s in ObjectFile(bytes(image)).sections if s.name == ".rodata")
        at = home.offset + 48  # compute_pgm_rsrc1
        rsrc1 = int.from_bytes(image[at : at + 4], "little") & ~0x3F
        granules = 256 // (8 if wave == 32 else 4)
        image[at : at + 4] = (rsrc1 | granules - 1).to_bytes(4, "little")
        assert rsrc1 >> 29 & 1
        return bytes(image)

    return make


@pytest.mark.row("HCQ-16")
@pytest.mark.row("AMD-15")
@pytest.mark.refusal
# 256 registers take 264 of a SIMD's 1536 (waves of 32; of 64: 264 of 768): 5 and 2 waves,
# 4 SIMDs in a work-group processor.
@pytest.mark.parametrize(("wave", "limit"), [(32, 5 * 4 * 32), (64, 2 * 4 * 64)])
def test_threads_whose_registers_do_not_fit_are_refused(device, hungry, wave, limit):
    program = device.load(hungry(wave), "add")
    queue = device.queue("compute").launch(program, 0, (1, 1, 1), (limit, 1, 1))
    before = list(queue.words)
    text = f"256 registers of each thread, threads {limit + 1} is outside the limit {limit}"
    with pytest.raises(LaunchError, match=text):
        queue.launch(program, 0, (1, 1, 1), (limit + 1, 1, 1))
    assert queue.words == before
