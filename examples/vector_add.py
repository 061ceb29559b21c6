"""c = a + b on raw queues: DEVICE=AMD python examples/vector_add.py (AMD:1, NV, NV:1 too)"""

import os
from importlib import import_module
from pathlib import Path

import numpy

VENDORS = ("AMD", "NV")
COUNT, BLOCK = 1 << 16, 256


def chosen(text: str) -> tuple[str, int]:
    """The vendor's package and the index that DEVICE names."""
    name, _, index = text.partition(":")
    if name.upper() not in VENDORS or not (index or "0").isdecimal():
        raise SystemExit(f"DEVICE={text}: raw queues are there for {', '.join(VENDORS)}, or AMD:1")
    return name.lower(), int(index or 0)


def main() -> None:
    vendor, index = chosen(os.environ.get("DEVICE") or "AMD")
    device = import_module(f"hcq.{vendor}").open(index)  # from hcq import amd; amd.open(0)

    # Memory that both sides see: the address is the GPU's, the view is ours.
    a, b, c = (device.allocate(4 * COUNT, host=True) for _ in range(3))
    left, right, result = (numpy.frombuffer(m.region.view(), numpy.float32) for m in (a, b, c))
    left[:] = numpy.arange(COUNT)
    right[:] = 0.5

    code = Path(__file__).parent / "data" / f"vector_add.{device.target}.o"
    if not code.exists():
        raise SystemExit(f"{device.name}: no {code.name} here; tools/gen_vector_add.py makes them")
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
