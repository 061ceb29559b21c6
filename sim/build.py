"""Putting a simulated machine together: its GPUs from names and options, its scheduler."""

from collections.abc import Sequence
from dataclasses import fields
from itertools import count
from typing import Any

from hcq.errors import ConfigError, nearest
from sim.amd import chips
from sim.amd.gpu import Gpu, Limits
from sim.board import Board
from sim.clock import Clock, RealClock
from sim.nv import chips as nv_chips
from sim.nv.gpu import Gpu as NvGpu
from sim.nv.limits import NvLimits
from sim.schedule import FreeRunning, Scheduler, Seeded


def gpus(board: Board, names: Sequence[str], options: dict[str, Any]) -> list[Gpu | NvGpu]:
    """The GPUs; each vendor's take the options that are theirs."""
    limits = Limits(**_known(Limits, options))
    nv_limits = NvLimits(**_known(NvLimits, options))
    for name in options:
        if not hasattr(limits, name) and not hasattr(nv_limits, name):
            raise TypeError(f"a machine has no option {name!r}")
    made: list[Gpu | NvGpu] = []
    counts = {True: count(), False: count()}
    for name in names:
        index = next(counts[name in nv_chips.CHIPS])
        if name in nv_chips.CHIPS:
            made.append(NvGpu(board, nv_chips.find(name), index, nv_limits))
        else:
            made.append(Gpu(board, _amd_chip(name), index, limits))
    return made


def scheduler(gpus: Sequence[Gpu | NvGpu], seed: int, clock: Clock) -> Scheduler:
    """Who steps the GPUs: threads with a real clock, calls with a virtual one."""
    return FreeRunning(gpus) if isinstance(clock, RealClock) else Seeded(gpus, seed, clock)


def _amd_chip(name: str) -> chips.Chip:
    known = (*chips.CHIPS, *nv_chips.CHIPS)
    if name not in chips.CHIPS:
        raise ConfigError(
            f"no simulated chip {name!r}{nearest(name, known)}; there are: {', '.join(known)}",
            facts={"gpu": name},
        )
    return chips.find(name)


def _known(kind: Any, options: dict[str, Any]) -> dict[str, Any]:
    """The options that a class of limits has."""
    names = {field.name for field in fields(kind)}
    return {name: value for name, value in options.items() if name in names}

