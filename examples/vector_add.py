"""c = a + b on raw queues: DEVICE=AMD python examples/vector_add.py"""

import os
from importlib import import_module
from pathlib import Path

import numpy

COUNT, BLOCK = 1 << 16, 256


def main() -> None:
    vendor = os.environ.get("DEVICE", "AMD").lower()
    device = import_module(f"hcq.{vendor}").open(0)  # from hcq import amd; amd.open(0)

    # Memory that both sides see: the address is the GPU's, the view is ours.
    a, b, c = (device.allocate(4 * COUNT, host=True) for _ in range(3))
    left, right, result = (numpy.frombuffer(m.region.view(), numpy.float32) for m in (a, b, c))
    left[:] = numpy.arange(COUNT)
    right[:] = 0.5

    code = Path(__file__).parent / "data" / f"vector_add.{device.target}.o"
    program = device.load(code.read_bytes(), "vector_add")
    arguments = device.arguments(program, (c.address, a.address, b.address))

    queue = device.queue("compute")
    queue.launch(program, arguments, grid=(COUNT // BLOCK, 1, 1), block=(BLOCK, 1, 1))
    device.wait(device.submit(queue))

    wrong = int((result != left + right).sum())
    print(f"{device.name} {device.target}: {COUNT} sums, {wrong} wrong")
    device.close()
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
