"""c = a + b on raw queues: python examples/vector_add.py

DEVICE=NV, DEVICE=AMD or DEVICE=AMD:1 chooses a GPU; without it the first that is there is taken.
"""

import os
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy

from hcq.errors import HcqError

VENDORS = ("AMD", "NV")
COUNT, BLOCK = 1 << 16, 256


def opened(text: str) -> Any:
    """The GPU that DEVICE names; where it names none, the first that opens."""
    if not text:
        reasons = []
        for name in VENDORS:
            try:
                return opened(name)
            except HcqError as error:
                reasons.append(str(error))
        raise SystemExit("\n".join(reasons))
    name, _, index = text.partition(":")
    if name.upper() not in VENDORS or not (index or "0").isdecimal():
        raise SystemExit(f"DEVICE={text}: raw queues are there for AMD and NV, also as NV:1")
    vendor = import_module(f"hcq.{name.lower()}")  # from hcq import nv
    return vendor.open(int(index or 0))


def main() -> None:
    device = opened(os.environ.get("DEVICE", ""))

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
    try:
        main()
    except HcqError as error:
        raise SystemExit(f"{type(error).__name__}: {error}") from None
