"""A batch of launches and copies on every chip."""

import pytest

from hcq.batch import Batch
from hcq.queue import Slot, SlotKind


@pytest.mark.row("BAT-03")
def test_addresses_variables_and_launch_sizes_are_patched(device, compiled, words):
    program = device.load(compiled("add"), "add")
    a = device.allocate(1024, zero=True)
    outs = [device.allocate(1024, zero=True) for _ in range(2)]
    k, n = Slot("k", SlotKind.VARIABLE, bits=32), Slot("n", SlotKind.VARIABLE, bits=32)
    batch = Batch(device)
    block = batch.arguments(program, [Slot("out"), a.address, a.address, k])
    batch.queue("compute").launch(program, block, ((n + 63) // 64, 1, 1), (64, 1, 1)).barrier()
    batch.queue("copy").copy(Slot("out") + 512, Slot("out"), 256)
    batch.submit({"out": outs[0].address, "k": 3, "n": 64})
    batch.submit({"out": outs[1].address, "k": 4, "n": 65})
    assert words(device, outs[0], 256) == [3] * 64 + [0] * 64 + [3] * 64 + [0] * 64
    assert words(device, outs[1], 256) == [4] * 128 + [4] * 64 + [0] * 64
    batch.free()


@pytest.mark.row("BAT-03")
def test_a_run_in_flight_keeps_its_own_values(device, compiled, words):
    program = device.load(compiled("add"), "add")
    a, out = device.allocate(256, zero=True), device.allocate(256 * 50)
    batch = Batch(device)
    k = Slot("k", SlotKind.VARIABLE, bits=32)
    block = batch.arguments(program, [Slot("out"), a.address, a.address, k])
    batch.queue("compute").launch(program, block, (1, 1, 1), (64, 1, 1))
    for run in range(50):
        batch.submit({"out": out.address + 256 * run, "k": run})
    assert words(device, out, 64 * 50)[::64] == list(range(50))
    batch.free()


@pytest.mark.row("BAT-04")
@pytest.mark.row("ALC-06")
def test_a_freed_batch_gives_words_and_arguments_back(device, compiled):
    program = device.load(compiled("add"), "add")
    a = device.allocate(256, zero=True)
    device.synchronize()
    live = device.stats.live
    batch = Batch(device)
    block = batch.arguments(program, [Slot("out"), a.address, a.address, 1])
    batch.queue("compute").launch(program, block, (1, 1, 1), (64, 1, 1))
    batch.queue("copy").copy(Slot("out") + 64, Slot("out"), 64)
    batch.submit({"out": a.address})
    assert device.stats.live >= live + 3 * 4096  # two queues, one block of arguments
    batch.free()
    device.synchronize()
    assert device.stats.live == live
