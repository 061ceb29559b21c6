"""Programs: constant bank 0, launch limits, what a launch record says."""

import struct

import pytest

from hcq.errors import FieldError, LaunchError
from hcq.nv.arch import ARCHES

CHIPS = [arch.name for arch in ARCHES]
# Where sizes and windows lie in bank 0, and where parameters begin.
OFFSETS = {
    "sm_80": (0x00, 0x0C, 0x18, 0x20, 0x28, 0x160),
    "sm_86": (0x00, 0x0C, 0x18, 0x20, 0x28, 0x160),
    "sm_89": (0x00, 0x0C, 0x18, 0x20, 0x28, 0x160),
    "sm_90": (0x00, 0x0C, None, 0x20, 0x28, 0x210),
    "sm_100": (0x360, 0x370, 0x2F0, 0x2F8, 0x37C, 0x380),
    "sm_120": (0x360, 0x370, 0x2F0, 0x2F8, 0x37C, 0x380),
}


@pytest.mark.row("NV-08")
@pytest.mark.parametrize("chip", CHIPS)
def test_bank_0_holds_sizes_windows_stack_and_parameters(placed, chip):
    block, grid, shared, local, stack, base = OFFSETS[chip]
    values = [0x11_0000_0000, 0x22_0000_0000, 0x33_0000_0000, -2]
    bank = placed("add", chip).bank(values, (5, 6, 7), (64, 2, 1))
    assert struct.unpack_from("<3I", bank, block) == (64, 2, 1)
    assert struct.unpack_from("<3I", bank, grid) == (5, 6, 7)
    if shared is not None:
        assert struct.unpack_from("<Q", bank, shared) == (0x2F_0000_0000,)
    assert struct.unpack_from("<Q", bank, local) == (0x2E_0000_0000,)
    assert struct.unpack_from("<I", bank, stack) == (0xFFFDC0,)
    assert struct.unpack_from("<3Qi", bank, base) == tuple(values)
    assert len(bank) == base + 32


@pytest.mark.row("NV-08")
@pytest.mark.parametrize(
    ("chip", "offset", "end", "size"),
    [("sm_86", 0x114, 0x120, 0), ("sm_90", 0x114, 0x68, 1024), ("sm_100", 0x16C, 0x278, 1024),
     ("sm_120", 0x16C, 0x278, 1024)],
)  # fmt: skip
def test_bank_0_tells_what_the_system_keeps_of_shared_memory(placed, chip, offset, end, size):
    bank = placed("add", chip).bank([1, 2, 3, 4])
    assert struct.unpack_from("<I", bank, offset) == (size,)
    assert struct.unpack_from("<I", bank, end) == (size,)


@pytest.mark.parametrize("chip", ["sm_90"])
def test_a_batch_lays_down_the_same_bank_without_sizes(placed, chip):
    program = placed("add", chip)
    values = [1, 2, 3, 4]
    assert program.arguments.pack(values) == program.bank(values)
    assert program.arguments.size == len(program.bank(values))
    assert program.alignment == 256


@pytest.mark.refusal
def test_wrong_arguments_are_refused(placed):
    with pytest.raises(LaunchError, match="takes 4 arguments, got 3"):
        placed("add").bank([1, 2, 3])
    with pytest.raises(FieldError, match="does not fit in 4 bytes"):
        placed("add").bank([1, 2, 3, 1 << 32])


@pytest.mark.row("NV-16")
@pytest.mark.row("HCQ-16")
@pytest.mark.refusal
@pytest.mark.parametrize(
    ("grid", "block", "text"),
    [
        ((1, 1, 1), (1025, 1, 1), r"block\[0\] 1025 is outside the limit 1024"),
        ((1, 1, 1), (1, 1025, 1), r"block\[1\] 1025 is outside the limit 1024"),
        ((1, 1, 1), (1, 1, 65), r"block\[2\] 65 is outside the limit 64"),
        ((1, 1, 1), (512, 3, 1), r"threads 1536 is outside the limit 1024"),
        ((1, 1, 1), (0, 1, 1), r"at least 1"),
        ((1 << 31, 1, 1), (1, 1, 1), r"grid\[0\] 2147483648 is outside the limit 2147483647"),
        ((1, 65536, 1), (1, 1, 1), r"grid\[1\] 65536 is outside the limit 65535"),
        ((1, 1, 65536), (1, 1, 1), r"grid\[2\] 65536 is outside the limit 65535"),
        ((-1, 1, 1), (1, 1, 1), r"grid\[0\] -1"),
        ((1, 1), (1, 1, 1), r"three axes"),
        (5, (1, 1, 1), r"three axes each, whole numbers"),
        ((1, 1, 1), None, r"three axes each, whole numbers"),
        ((1.0, 1, 1), (1, 1, 1), r"three axes each, whole numbers"),
        ((1, 1, 1), ("32", 1, 1), r"three axes each, whole numbers"),
    ],
)
def test_a_launch_outside_a_limit_is_refused(placed, grid, block, text):
    with pytest.raises(LaunchError, match=text):
        placed("add").check_launch(grid, block)


@pytest.mark.row("NV-16")
@pytest.mark.parametrize(
    ("grid", "block"),
    [
        ((1, 1, 1), (1024, 1, 1)),
        ((1, 65535, 65535), (16, 1, 64)),
        (((1 << 31) - 1, 1, 1), (1, 1, 1)),
    ],
)
def test_a_launch_at_its_limits_passes(placed, grid, block):
    placed("add").check_launch(grid, block)


@pytest.mark.row("NV-16")
@pytest.mark.refusal
def test_the_bounds_a_kernel_was_compiled_for_hold(placed):
    placed("limited").check_launch((1, 1, 1), (128, 1, 1))
    with pytest.raises(LaunchError, match="threads 129 is outside the limit 128"):
        placed("limited").check_launch((1, 1, 1), (129, 1, 1))
    placed("fixed").check_launch((1, 1, 1), (32, 2, 1))
    with pytest.raises(LaunchError, match=r"\(32, 2, 1\) it was compiled for"):
        placed("fixed").check_launch((1, 1, 1), (64, 1, 1))


@pytest.mark.row("NV-16")
@pytest.mark.parametrize(
    ("registers", "threads"),
    [(32, 2048), (33, 1536), (64, 1024), (65, 896), (128, 512), (255, 256)],
)
def test_registers_bound_the_threads(placed, monkeypatch, registers, threads):
    program = placed("add", address=0x10_0001_0000)
    monkeypatch.setattr(type(program), "registers", registers)
    assert program.register_threads == threads


@pytest.mark.row("NV-16")
@pytest.mark.refusal
def test_a_block_whose_registers_the_chip_lacks_is_refused(placed, monkeypatch):
    program = placed("add", address=0x10_0004_0000)
    monkeypatch.setattr(type(program), "registers", 255)
    program.check_launch((1, 1, 1), (256, 1, 1))
    text = "255 registers of each thread, threads 257 is outside the limit 256"
    with pytest.raises(LaunchError, match=text):
        program.check_launch((1, 1, 1), (257, 1, 1))


@pytest.mark.row("NV-16")
@pytest.mark.refusal
@pytest.mark.parametrize(
    ("chip", "limit"),
    [("sm_80", 163), ("sm_86", 99), ("sm_89", 99), ("sm_90", 227), ("sm_100", 227), ("sm_120", 99)],
)
def test_shared_memory_is_bounded_by_the_chip(placed, monkeypatch, chip, limit):
    program = placed("shared", chip, 0x10_0002_0000)
    program._limits.clear()
    program._passed = (None, None)
    monkeypatch.setattr(type(program), "shared_size", limit << 10)
    program.check_launch((1, 1, 1), (32, 1, 1))
    program._limits.clear()
    program._passed = (None, None)
    monkeypatch.setattr(type(program), "shared_size", (limit << 10) + 1)
    text = f"shared memory bytes {(limit << 10) + 1} is outside the limit {limit << 10}"
    with pytest.raises(LaunchError, match=text):
        program.check_launch((1, 1, 1), (32, 1, 1))


@pytest.mark.row("NV-17")
def test_private_bytes_hold_the_stack_and_what_the_hardware_keeps(placed):
    assert placed("add").local_size == 0x240
    assert placed("spill").local_size == 0x880  # 1600 + 0x240, in units of 32


@pytest.mark.refusal
def test_arguments_laid_down_for_another_size_are_refused(placed):
    program = placed("add", address=0x10_0003_0000)
    program.filled[0x1000] = ((1, 1, 1), (64, 1, 1))
    assert program.knows_sizes(0x1000, (1, 1, 1), (64, 1, 1))
    assert not program.knows_sizes(0x2000, (1, 1, 1), (64, 1, 1))
    with pytest.raises(LaunchError, match="laid down for another launch size"):
        program.knows_sizes(0x1000, (2, 1, 1), (64, 1, 1))
