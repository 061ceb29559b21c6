"""Putting a simulated machine together: its GPUs from names and options, its scheduler."""

from collections.abc import Sequence
from dataclasses import fields
from itertools import count
from typing import Any

from hcq.errors import ConfigError
from sim.amd.chips import CHIPS as AMD_CHIPS
from sim.amd.gpu import Gpu, Limits
from sim.board import Board
from sim.clock import Clock, RealClock
from sim.nv import series
from sim.nv.chips import CHIPS as NV_CHIPS
from sim.nv.gpu import Gpu as NvGpu
from sim.nv.limits import NvLimits
from sim.products import meant
from sim.schedule import FreeRunning, Scheduler, Seeded

CHIPS = (*AMD_CHIPS, *NV_CHIPS)


def check(names: Sequence[str], driver: str) -> None:
    """ConfigError for a chip that is not simulated, or that a driver version never knew."""
    version = series.resolve(driver)[0]
    for name in names:
        if name not in CHIPS:
            raise ConfigError(
                f"no simulated chip {name!r}{meant(name, CHIPS)}; there are: {', '.join(CHIPS)}",
                facts={"gpu": name},
            )
        first = NV_CHIPS[name].first_series if name in NV_CHIPS else 0
        if int(version.partition(".")[0]) < first:
            raise ConfigError(
                f"no driver {version} for {name}: series {first} is the first that has it",
                facts={"gpu": name, "driver": version},
                hint=f"driver {first} or later, or an older chip",
            )


def gpus(board: Board, names: Sequence[str], options: dict[str, Any]) -> list[Gpu | NvGpu]:
    """The GPUs of names that were checked; each vendor's take the options that are theirs."""
    limits = Limits(**_known(Limits, options))
    nv_limits = NvLimits(**_known(NvLimits, options))
    for name in options:
        if not hasattr(limits, name) and not hasattr(nv_limits, name):
            raise TypeError(f"a machine has no option {name!r}")
    made: list[Gpu | NvGpu] = []
    counts = {True: count(), False: count()}
    for name in names:
        index = next(counts[name in NV_CHIPS])
        if name in NV_CHIPS:
            made.append(NvGpu(board, NV_CHIPS[name], index, nv_limits))
        else:
            made.append(Gpu(board, AMD_CHIPS[name], index, limits))
    return made


def scheduler(gpus: Sequence[Gpu | NvGpu], seed: int, clock: Clock) -> Scheduler:
    """Who steps the GPUs: threads with a real clock, calls with a virtual one."""
    return FreeRunning(gpus) if isinstance(clock, RealClock) else Seeded(gpus, seed, clock)


def _known(kind: Any, options: dict[str, Any]) -> dict[str, Any]:
    """The options that a class of limits has."""
    names = {field.name for field in fields(kind)}
    return {name: value for name, value in options.items() if name in names}

