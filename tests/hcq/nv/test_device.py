"""What is NVIDIA's own on a running device: bank 0, private and shared memory, chains, rings."""

import pytest

from hcq import nv
from hcq.batch import Batch
from hcq.errors import DeviceBanned, LaunchError, OutOfMemory
from hcq.queue import Slot, SlotKind

CHIPS = ("sm_86", "sm_90", "sm_120")
ONE = (1, 1, 1)


@pytest.fixture(params=CHIPS)
def chip(request):
    return request.param


@pytest.fixture
def load(device, compiled):
    """load(name): a program on the device."""
    return lambda name: device.load(compiled(name), name)


# Constant bank 0.


@pytest.mark.row("NV-08")
def test_a_kernel_reads_the_sizes_of_its_launch(device, load, words):
    out = device.allocate(24)
    device.launch(load("sizes"), [out.address], (5, 3, 2), (32, 2, 4))
    assert words(device, out, 6) == [32, 2, 4, 5, 3, 2]


@pytest.mark.row("NV-08")
def test_sizes_are_filled_in_when_arguments_came_without(device, load, words):
    program = load("sizes")
    out = device.allocate(24)
    arguments = device.arguments(program, [out.address])
    device.submit(device.queue("compute").launch(program, arguments, (7, 1, 1), (64, 1, 1)))
    assert words(device, out, 6) == [64, 1, 1, 7, 1, 1]


@pytest.mark.row("NV-08")
@pytest.mark.refusal
def test_arguments_of_another_size_are_refused(device, load):
    program = load("sizes")
    arguments = device.arguments(program, [0x1000], ONE, ONE)
    with pytest.raises(LaunchError, match="laid down for another launch size"):
        device.queue("compute").launch(program, arguments, (2, 1, 1), ONE)


@pytest.mark.row("NV-08")
@pytest.mark.row("BAT-03")
def test_a_batch_patches_the_sizes_in_bank_0(device, load, words):
    program = load("sizes")
    out = device.allocate(24)
    batch = Batch(device)
    n = Slot("n", SlotKind.VARIABLE, bits=16)
    block = batch.arguments(program, [out.address])
    batch.queue("compute").launch(program, block, (n, 2, 1), (32, 1, 1))
    for value in (3, 9):
        batch.submit({"n": value})
        assert words(device, out, 6) == [32, 1, 1, value, 2, 1]
    batch.free()


# Code, data, shared and private memory.


@pytest.mark.row("NV-09")
@pytest.mark.row("CMP-16")
def test_data_of_a_module_lies_where_the_code_says(device, load, words):
    program = load("data")
    out = device.allocate(4)
    found = []
    for index in (0, 2, 3):
        device.launch(program, [out.address, index], ONE, ONE)
        found += words(device, out, 1)
    assert found == [10 + 7, 30 + 8, 50 + 9]


@pytest.mark.row("NV-09")
def test_two_loads_have_data_of_their_own(device, load, words):
    out = device.allocate(8)
    for at, program in enumerate((load("data"), load("data"))):
        device.launch(program, [out.address + 4 * at, 0], ONE, ONE)
    assert words(device, out, 2) == [17, 17]


@pytest.mark.row("NV-16")
@pytest.mark.parametrize("name", ["shared", "shared_most"])
def test_shared_memory_is_given(device, load, words, name):
    out = device.allocate(256)
    device.launch(load(name), [out.address], ONE, (64, 1, 1))
    assert words(device, out, 64) == [3 * (t ^ 1) for t in range(64)]


@pytest.mark.row("NV-17")
def test_private_memory_of_threads_is_their_own(device, load, words):
    out = device.allocate(256)
    device.launch(load("spill"), [out.address, 7], ONE, (64, 1, 1))
    assert words(device, out, 64) == [7 * t for t in range(64)]


@pytest.mark.row("NV-17")
@pytest.mark.row("ALC-11")
def test_private_memory_grows_with_the_neediest_program(device, load, words):
    small = load("spill")
    before = device.local.bytes_per_thread
    big = load("spill_huge")
    assert before == small.local_size < device.local.bytes_per_thread == big.local_size
    out = device.allocate(256)
    device.launch(big, [out.address, 3999], ONE, (64, 1, 1))
    assert words(device, out, 3) == [0, 3999, 7998]
    device.launch(small, [out.address, 2], ONE, (64, 1, 1))
    assert words(device, out, 3) == [0, 2, 4]


@pytest.mark.row("NV-17")
@pytest.mark.row("ALC-11")
@pytest.mark.refusal
@pytest.mark.parametrize("chip", ["sm_90"])
def test_private_memory_that_cannot_be_had_names_kernel_and_bytes(place, compiled, words):
    place(vram=1 << 30)
    device = nv.open(0)
    program = device.load(compiled("spill"), "spill")
    rest = device.allocate(64 << 20, cpu_access=False)
    with pytest.raises(OutOfMemory, match=r"kernel spill_huge: 16\d\d\d bytes of private") as e:
        device.load(compiled("spill_huge"), "spill_huge")
    assert e.value.facts["have_per_thread"] == program.local_size
    out = device.allocate(256)
    device.launch(program, [out.address, 2], ONE, (64, 1, 1))
    assert words(device, out, 3) == [0, 2, 4]
    device.free(rest)
    device.close()


@pytest.mark.row("AMD-09")
def test_code_at_a_used_address_is_seen(device, load, words):
    """Code that lay there before must not run again."""
    out = device.allocate(24)
    for _ in range(3):
        program = load("data")
        address = program.address
        device.launch(program, [out.address, 1], ONE, ONE)
        program.free()
        device.synchronize()
        other = load("sizes")
        assert other.address == address
        device.launch(other, [out.address], ONE, ONE)
        assert words(device, out, 2) == [1, 1]
        other.free()
        device.synchronize()


# Chains.


@pytest.mark.row("NV-13")
@pytest.mark.parametrize("chained", [False, True])
def test_a_hundred_dependent_kernels(device, load, words, chained):
    program = load("bump")
    cell = device.allocate(4, zero=True)
    queue = device.queue("compute")
    queue.chained = chained
    for _ in range(100):
        arguments = device.arguments(program, [cell.address], ONE, ONE)
        queue.launch(program, arguments, ONE, ONE).barrier()
    device.submit(queue)
    assert words(device, cell, 1) == [100]


@pytest.mark.row("NV-13")
def test_a_bound_chain_runs_again(device, load, words):
    program = load("bump")
    cell = device.allocate(4, zero=True)
    queue = device.queue("compute")
    queue.chained = True
    for _ in range(10):
        arguments = device.arguments(program, [cell.address], ONE, ONE)
        queue.launch(program, arguments, ONE, ONE).barrier()
    device.bind(queue)
    for _ in range(3):
        device.submit(queue)
    assert words(device, cell, 1) == [30]


# The process.


@pytest.mark.refusal
@pytest.mark.row("REG-17")
def test_a_forked_child_is_refused(machine, monkeypatch):
    machine("sm_90")
    device = nv.open(0)
    monkeypatch.setattr(device.gpu.driver, "process", -1)
    for use in (lambda: device.allocate(4), device.synchronize, lambda: nv.open(0)):
        with pytest.raises(DeviceBanned, match="opened before fork"):
            use()
    monkeypatch.undo()
    device.close()
