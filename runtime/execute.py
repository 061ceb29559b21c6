"""run_linear: the one way that calls are carried out.

Everything is compiled and loaded before anything runs, so that a kernel that
does not compile leaves no half-done work behind. Then calls are dispatched in
order; devices are not waited for, unless DEBUG asks for times.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from hcq.errors import HcqError, LaunchError, Unsupported
from runtime.backend import Kernel
from runtime.buffer import HOST
from runtime.call import BatchCall, Call, CopyCall, ProgramCall
from runtime.counters import GlobalCounters
from runtime.device import Device
from runtime.log import debug_level
from runtime.opened import OpenedDevice
from runtime.program import Program, bound, check_device
from runtime.report import batch_line, copy_line, kernel_line
from runtime.transfer import transfer

Runner = Callable[[Any, bool], None]


def run_linear(calls: Sequence[Call]) -> None:
    """Carry out calls in order: compile what is missing, load, dispatch call by call.

    An unknown kind of call is Unsupported before anything runs; so is CompileError.
    LaunchError for an unbound variable or wrong argument counts. A device's fault
    appears at the first wait for it.
    """
    runners = [_runner(call) for call in calls]
    _prepare(calls)
    report = debug_level() >= 2
    for call, run in zip(calls, runners, strict=True):
        run(call, report)


def kind_name(call: object) -> str:
    """The printable name of a call's kind."""
    return NAMES.get(type(call), type(call).__name__)


def _runner(call: object) -> Runner:
    try:
        return RUNNERS[type(call)]
    except KeyError:
        known = ", ".join(NAMES.values())
        raise Unsupported(
            f"run_linear has no way to run a {kind_name(call)!r} call",
            facts={"kind": kind_name(call), "known": known},
        ) from None


def _prepare(calls: Sequence[Call]) -> None:
    """Compile and load every program that its device does not have yet."""
    missing: dict[tuple[str, str], tuple[OpenedDevice, Kernel]] = {}
    for call in calls:
        if isinstance(call, ProgramCall):
            device = Device[call.device]
            if device.find(call.kernel) is None:
                missing[device.name, call.kernel.key] = (device, call.kernel)
    if not missing:
        return
    targets: dict[str, list[Kernel]] = {}
    for device, kernel in missing.values():
        targets.setdefault(device.target, []).append(kernel)
    for target, kernels in targets.items():
        # Kernels that can be compiled together are; the results are then found by compile().
        together = getattr(kernels[0], "prepare", None)
        if together is not None and len(kernels) > 1:
            together(kernels, target)
    for device, kernel in missing.values():
        device.program(kernel)


def _run_program(call: ProgramCall, report: bool) -> None:
    device = Device[call.device]
    program = device.program(call.kernel)
    name = device.canonical
    for buffer in call.buffers:
        if buffer.device != name:
            check_device(program, buffer)
    places = [buffer.located() for buffer in call.buffers]
    scalars: Sequence[int] = ()
    grid = None
    if program.runs == 0 or len(places) != program.buffer_count:
        _check(program, call)
    if program.scalar_count:
        names = getattr(call.kernel, "variables", ())
        scalars = [bound(program, name, call.variables) for name in names]
    if program.code.sizes is not None:
        grid = program.launch_grid(call.variables)
    if program.is_empty or (grid is not None and 0 in grid):
        return
    seconds = 0.0
    estimate = call.estimate
    if report:
        first = program.runs == 0
        seconds = _timed(program, places, scalars, grid)
        kernel_line(program, call, seconds, first)
    else:
        program.launch(places, scalars, grid)
    GlobalCounters.record(device.counters, estimate.operations, estimate.bytes, seconds)


def _timed(program: Program, places: Any, scalars: Sequence[int], grid: Any) -> float:
    """Run and wait; device seconds, or those of this process's clock."""
    if "launch_timed" in program.device.capabilities:
        return program.timed(places, scalars, grid)
    start = time.perf_counter()
    program.launch(places, scalars, grid)
    program.device.synchronize()
    return time.perf_counter() - start


def _check(program: Program, call: ProgramCall) -> None:
    """Once per program, and whenever the counts do not fit."""
    if len(call.buffers) != program.buffer_count:
        raise LaunchError(
            f"{call.kernel.name} on {program.device.name} takes {program.buffer_count} buffers, "
            f"not {len(call.buffers)}",
            device=program.device.name,
            facts={"kernel": call.kernel.name, "buffers": len(call.buffers)},
        )
    names = getattr(call.kernel, "variables", ())
    if len(names) != program.scalar_count:
        raise LaunchError(
            f"{call.kernel.name} names {len(names)} variables, its code takes "
            f"{program.scalar_count} scalars",
            device=program.device.name,
            facts={"kernel": call.kernel.name, "variables": names},
        )


def _run_copy(call: CopyCall, report: bool) -> None:
    start = time.perf_counter()
    try:
        route = transfer(call.target, call.source)
    except HcqError as error:
        error.facts.setdefault("copy", f"{call.source.device} to {call.target.device}")
        raise
    if route == "empty":
        return
    worker = call.source if call.target.device == HOST else call.target
    counters = None if worker.device == HOST else worker.opened.counters
    if report:
        if counters is not None:
            worker.opened.synchronize()
        copy_line(call, route, time.perf_counter() - start)
    GlobalCounters.record_copy(counters, call.target.size)


def _run_batch(call: BatchCall, report: bool) -> None:
    device = Device[call.device]
    start = time.perf_counter()
    call.batch.run()
    if report:
        device.synchronize()
        batch_line(call, time.perf_counter() - start)


RUNNERS: dict[type, Runner] = {
    ProgramCall: _run_program,
    CopyCall: _run_copy,
    BatchCall: _run_batch,
}
NAMES: dict[type, str] = {ProgramCall: "program", CopyCall: "copy", BatchCall: "batch"}
