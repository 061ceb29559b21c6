"""How fast simulated GPUs are, against numpy in the same run: `python tools/bench/sim.py --json`

Pinned to one core, after two warm-up rounds; medians of rounds in which both take turns;
ratios are numpy's time over ours, so 1.0 is numpy's speed. Also: host cost of an eager
launch, compile time of a small kernel. Other work on the core makes ours look worse than
numpy, since host and device take turns on it: run it on a quiet machine.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# This file is called sim: as a script its folder would hide the package of that name.
sys.path[0] = str(Path(__file__).parents[2])

WARM, ROUNDS = 2, 25
ELEMENTS, SIDE, LAUNCHES = 4_000_000, 512, 200


def median(work: Callable[[], Any]) -> float:
    """Median seconds of one round."""
    times = []
    for _ in range(WARM + ROUNDS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times[WARM:])


def against_numpy(reference: Callable[[], Any], ours: Callable[[], Any]) -> dict[str, float]:
    """Medians of both, measured turn by turn so that a busy machine slows both alike."""
    times: list[tuple[float, float]] = []
    for _ in range(WARM + ROUNDS):
        start = time.perf_counter()
        reference()
        middle = time.perf_counter()
        ours()
        times.append((middle - start, time.perf_counter() - middle))
    numpy_seconds, seconds = (
        statistics.median(column) for column in zip(*times[WARM:], strict=True)
    )
    return {"seconds": seconds, "numpy_seconds": numpy_seconds, "ratio": numpy_seconds / seconds}


def vector_add(device: str) -> dict[str, float]:
    import numpy as np

    from tensor import Device, Tensor

    left, right = (np.random.default_rng(s).random(ELEMENTS, np.float32) for s in (0, 1))
    out = np.empty_like(left)
    a, b = Tensor(left, device=device).realize(), Tensor(right, device=device).realize()

    def once() -> None:
        (a + b).realize()
        Device[device].synchronize()

    return against_numpy(lambda: np.add(left, right, out=out), once)


def matmul(device: str) -> dict[str, float]:
    import numpy as np

    from tensor import Device, Tensor

    left, right = (np.random.default_rng(s).random((SIDE, SIDE), np.float32) for s in (0, 1))
    a, b = Tensor(left, device=device).realize(), Tensor(right, device=device).realize()

    def once() -> None:
        (a @ b).realize()
        Device[device].synchronize()

    found = against_numpy(lambda: left @ right, once)
    return {**found, "gflops": 2 * SIDE**3 / found["seconds"] / 1e9}


def launch_cost(device: str) -> float:
    """Host microseconds per eager launch of a tiny kernel, schedule included in none of it."""
    from jit.schedule import schedule
    from runtime.execute import run_linear
    from tensor import Device, Tensor

    x = Tensor([1.0, 2.0], device=device).realize()
    calls = schedule([(x + 1).node])
    run_linear(calls)
    Device[device].synchronize()

    def burst() -> None:
        for _ in range(LAUNCHES):
            run_linear(calls)

    seconds = median(burst)
    Device[device].synchronize()
    return seconds / LAUNCHES * 1e6


def compile_cost(target: str) -> float:
    """Milliseconds to compile a small kernel, no cache: a chain of three operations."""
    from hcq.settings import Context
    from jit.compile import compile_kernel, forget
    from jit.schedule import schedule
    from tensor import Tensor

    times = []
    forget()
    for size in range(100, 109):
        x = Tensor.ones(size, device="CPU").contiguous().realize()
        calls = schedule([((x * 2 + 1).relu()).node])
        with Context(CCACHE=0):
            start = time.perf_counter()
            compile_kernel(calls[0].kernel, target)  # type: ignore[union-attr]
            times.append(time.perf_counter() - start)
    return statistics.median(times[WARM:]) * 1e3


CHIPS = {"gfx1100": ("AMD", "LLVM:gfx1100"), "sm_90": ("NV", "PTX:sm_90")}


def measure(chip: str) -> dict[str, Any]:
    """Every figure of one simulated chip."""
    device, target = CHIPS[chip]
    return {
        "vector_add_4M": vector_add(device),
        "matmul_512": matmul(device),
        "launch_us": launch_cost(device),
        "compile_ms": {t: compile_cost(t) for t in (target, "LLVM:x86-64-v3")},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--gpu", choices=CHIPS, action="append", help="only this chip")
    options = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    from hcq import host
    from sim.machine import Machine

    chips = options.gpu or list(CHIPS)
    host.use(Machine(chips))
    core = sorted(os.sched_getaffinity(0))
    found = {"core": core, **{chip: measure(chip) for chip in chips}}
    print(json.dumps(found) if options.json else json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
