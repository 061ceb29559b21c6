"""Launches on every chip: results, time, arguments."""

from pathlib import Path

import numpy as np
import pytest
from gpu_kernels import compiled as compiled_text

from hcq.errors import CodeObjectError, LaunchError


@pytest.mark.row("HCQ-15")
def test_add_gives_the_sums(device, add, words):
    program, out, a, b = add
    device.launch(program, [out.address, a.address, b.address, 100], (1, 1, 1), (64, 1, 1))
    assert words(device, out, 4) == [105, 106, 107, 108]
    assert words(device, out, 64)[63] == 168


@pytest.mark.row("HCQ-15")
def test_waited_launch_gives_the_devices_seconds(place, vendor, compiled):

    place(seed=1)
    device = vendor.open(0)
    program = device.load(compiled("bump"), "bump")
    cell = device.allocate(4, host=True, zero=True)
    seconds = device.launch(program, [cell.address], (1, 1, 1), (1, 1, 1), wait=True)
    # The simulated clock charges some microseconds for a dispatch.
    assert 2e-6 <= seconds < 1e-3
    assert cell.view()[0] == 1
    device.close()


@pytest.mark.row("HCQ-16")
def test_zero_grid_launches_nothing(device, add):
    assert device.queue("compute").launch(add[0], 0x1000, (0, 1, 1), (64, 1, 1)).words == []


@pytest.mark.row("HCQ-13")
def test_argument_ring_goes_round_and_every_launch_sees_its_own_values(device, compiled, words):
    from hcq.memory import BumpAllocator

    program = device.load(compiled("bump"), "bump")
    # A ring of 4 segments of 1 KiB instead of 16 MiB: 16 blocks each, so 200 launches go round.
    device.ring.blocks = BumpAllocator(
        device.ring._ring.address, 4096, device.work.wait_reused, segments=4
    )
    cells = device.allocate(800, zero=True)
    for i in range(200):
        device.launch(program, [cells.address + 4 * i], (1, 1, 1), (1, 1, 1))
    assert words(device, cells, 200) == [1] * 200


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("given", "text"),
    [
        (b"define void @add() { ret void }\n" * 9, "this is text, not a code object"),
        ("\ts_endpgm\n", "this is text, not a code object"),
        (None, "a code object is bytes, not NoneType"),
        (Path("add.o"), "a code object is bytes, not PosixPath"),
        (b"", "size is less than an ELF header"),
    ],
)
def test_what_is_no_code_object_is_told_as_what_it_is(device, given, text):
    with pytest.raises(CodeObjectError, match=text):
        device.load(given, "add")


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_a_code_object_may_lie_in_any_bytes(device, compiled, kind):
    assert device.load(kind(compiled("add")), "add").name == "add"


# out[0..] = the half, float and double it was given
NUMBERS = """
define KERNEL void @numbers(GLOBAL %out, half %h, float %f, double %d) #0 {
  store half %h, GLOBAL %out
  %pf = getelementptr i8, GLOBAL %out, i32 4
  store float %f, GLOBAL %pf
  %pd = getelementptr i8, GLOBAL %out, i32 8
  store double %d, GLOBAL %pd
  ret void
}
"""


@pytest.mark.row("HCQ-14")
@pytest.mark.parametrize("values", [(1.5, 2.5, -0.1), (np.float16(1.5), np.float32(2.5), -0.1)])
def test_a_kernel_gets_halves_floats_and_doubles(device, chip, words, values):
    program = device.load(compiled_text(chip, "numbers", NUMBERS), "numbers")
    out = device.allocate(16, zero=True)
    device.launch(program, (np.uint64(out.address), *values), (1, 1, 1), (1, 1, 1))
    assert words(device, out, 4) == [0x3E00, 0x40200000, 0x9999999A, 0xBFB99999]


@pytest.mark.row("HCQ-14")
def test_an_int_stays_an_integer_whatever_the_kernel_declares(device, chip, words):
    program = device.load(compiled_text(chip, "numbers", NUMBERS), "numbers")
    out = device.allocate(16, zero=True)
    device.launch(program, (out.address, 1, 2, 3), (1, 1, 1), (1, 1, 1))
    assert words(device, out, 4) == [1, 2, 3, 0]


@pytest.mark.row("HCQ-14")
@pytest.mark.refusal
@pytest.mark.parametrize("chip", ["gfx1100"])
def test_where_addresses_are_known_a_float_is_refused_for_one(device, add):
    with pytest.raises(LaunchError, match="argument out of 8 bytes cannot be a float"):
        device.arguments(add[0], (1.0, 0, 0, 0))


@pytest.mark.refusal
def test_cells_of_a_timed_launch_that_was_broken_off_are_not_used_before_it_is_over(
    device, compiled, monkeypatch
):
    flag, cell = (device.allocate(16, host=True, uncached=True, zero=True) for _ in range(2))
    program = device.load(compiled("bump"), "bump")
    device.submit(device.queue("compute").poll(flag.address, 1))
    with monkeypatch.context() as patch:

        def broken(*_):
            raise KeyboardInterrupt

        patch.setattr(device.work, "wait", broken)
        with pytest.raises(KeyboardInterrupt):
            device.launch(program, [cell.address], (1, 1, 1), (1, 1, 1), wait=True)
    ((_, pair),) = device._parked
    assert device._cells() is not pair
    flag.region.write32(0, 1)
    device.synchronize()
    assert device._cells() is pair


@pytest.mark.row("HCQ-14")
@pytest.mark.refusal
def test_wrong_number_of_arguments_is_refused(device, add):
    with pytest.raises(LaunchError, match="kernel add takes 4 arguments, got 1"):
        device.arguments(add[0], [1])


@pytest.mark.refusal
def test_freed_program_is_not_launched(device, add):
    program, out, a, b = add
    values = [out.address, a.address, b.address, 100]
    device.launch(program, values, (1, 1, 1), (64, 1, 1))
    program.free()
    program.free()
    with pytest.raises(LaunchError, match="kernel add was freed"):
        device.launch(program, values, (1, 1, 1), (64, 1, 1))
    device.synchronize()
