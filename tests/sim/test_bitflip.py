from pathlib import Path

import numpy
import pytest

from hcq import amd
from hcq.errors import DeviceLost

COUNT = 256
OBJECT = Path(__file__).parents[2] / "examples" / "data" / "vector_add.gfx1100.o"
ADD_F32 = 0x06000000  # v_add_f32_e32: bits 31:25 of its word are 0000011
OPCODE = 0xFE000000


def add_instruction(machine):
    """Where the uploaded code has its one vector add."""
    memory = machine.gpus[0].memory
    found = []
    for start, end, flags in memory.ranges():
        if flags & 4:
            words = numpy.frombuffer(memory.read(start, end - start), "<u4")
            found += [start + 4 * int(at) for at in numpy.flatnonzero(words & OPCODE == ADD_F32)]
    return found


@pytest.mark.row("SIM-04")
@pytest.mark.parametrize("launch_first", [False, True])
def test_one_flipped_bit_of_uploaded_code_changes_the_result(machine, launch_first):
    sim = machine()
    device = amd.open(0)
    a, b, c = (device.allocate(4 * COUNT, host=True) for _ in range(3))
    left, right, result = (numpy.frombuffer(m.region.view(), numpy.float32) for m in (a, b, c))
    left[:], right[:], result[:] = numpy.arange(COUNT), 0.5, 0
    program = device.load(OBJECT.read_bytes(), "vector_add")

    def launch():
        arguments = device.arguments(program, (c.address, a.address, b.address))
        queue = device.queue("compute")
        queue.launch(program, arguments, grid=(1, 1, 1), block=(COUNT, 1, 1))
        device.wait(device.submit(queue))

    if launch_first:
        launch()
        assert (result == left + right).all()
    memory = sim.gpus[0].memory
    places = add_instruction(sim)
    assert places
    for place in places:
        memory.write32(place, memory.read32(place) ^ 1 << 26)  # v_add_f32 -> v_sub_f32's space
    try:
        launch()
    except DeviceLost:
        return
    assert (result != left + right).any()
    device.close()
