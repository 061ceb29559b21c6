"""Barriers, on a machine whose caches give nothing away by themselves."""

from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest

from hcq import amd

COUNT = 256
OBJECT = Path(__file__).parents[2] / "examples" / "data" / "vector_add.gfx1100.o"


@pytest.fixture
def add(machine):
    """Upload, add on the GPU and fetch, all through the copy engine."""

    def make(**options):
        sim = machine(late=True, **options)
        device = amd.open(0)
        buffers = [device.allocate(4 * COUNT, cpu_access=False) for _ in range(3)]
        program = device.load(OBJECT.read_bytes(), "vector_add")

        def run(left, right):
            for buffer, values in zip(buffers, (left, right), strict=False):
                data = numpy.asarray(values, numpy.float32)
                device.copy_in(buffer, 0, memoryview(data).cast("B"))
            arguments = device.arguments(
                program, (buffers[2].address, buffers[0].address, buffers[1].address)
            )
            queue = device.queue("compute")
            queue.launch(program, arguments, grid=(1, 1, 1), block=(COUNT, 1, 1))
            device.submit(queue)
            result = bytearray(4 * COUNT)
            device.copy_out(buffers[2], 0, memoryview(result))
            return numpy.frombuffer(result, numpy.float32)

        return SimpleNamespace(run=run, caches=sim.gpus[0].caches, device=device)

    return make


RAMP = numpy.arange(COUNT, dtype=numpy.float32)


@pytest.mark.row("HCQ-23")
@pytest.mark.parametrize("seed", [None, 1])
def test_results_and_inputs_are_seen_when_memory_is_slow_to_settle(add, seed):
    s = add(seed=seed)
    assert (s.run(RAMP, RAMP) == 2 * RAMP).all()
    assert (s.run(RAMP, RAMP + 1) == 2 * RAMP + 1).all()
    assert (s.run(RAMP * 3, RAMP) == 4 * RAMP).all()


@pytest.mark.row("HCQ-23")
def test_without_the_write_back_the_copy_engine_sees_old_bytes(add):
    s = add()
    s.caches.releases = False
    assert (s.run(RAMP, RAMP) != 2 * RAMP).any()


@pytest.mark.row("HCQ-23")
def test_without_the_invalidation_a_kernel_sees_old_input(add):
    s = add()
    assert (s.run(RAMP, RAMP) == 2 * RAMP).all()
    s.caches.acquires = False
    assert (s.run(RAMP, RAMP + 5) == 2 * RAMP).all()
