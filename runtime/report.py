"""The lines of DEBUG=2: one per kernel or copy, in columns.

Kernel: device, number on that device, name, argument count, launch sizes, live
memory, device time, rates by the kernel's own account, `first` on its first run.
Copy: device, number, from and to, route, size, live memory, time, rate.
"""

from runtime.call import BatchCall, CopyCall, ProgramCall
from runtime.counters import GlobalCounters
from runtime.log import color, say
from runtime.program import Program


def kernel_line(program: Program, call: ProgramCall, seconds: float, first: bool) -> None:
    """Log one kernel: device, number, name, sizes, live memory, time, rates."""
    where = program.device
    rates = (
        f"{_rate(call.estimate.operations, seconds)} GFLOPS "
        f"{_rate(call.estimate.bytes, seconds)} GB/s"
    )
    name = color(f"{call.kernel.name:<28}", "yellow" if first else "green")
    say(
        2,
        f"{where.name:<8} kernel {where.counters.kernel_count + 1:>5} {name} "
        f"args {len(call.buffers):>2}  grid {_sizes(program.grid)} block {_sizes(program.block)}  "
        f"{_tail(seconds)} {rates}{'  first' if first else ''}",
    )


def batch_line(call: BatchCall, seconds: float) -> None:
    """Log one batch: device, how many kernels, live memory, time of the whole."""
    name = f"batch of {len(call.batch)} kernels"
    say(2, f"{call.device:<8} batch        {name:<28} {_tail(seconds)}")


def copy_line(call: CopyCall, route: str, seconds: float) -> None:
    """Log one copy: from where to where, route, size, live memory, time, rate."""
    name = f"{call.source.device} -> {call.target.device}"
    say(
        2,
        f"{call.target.device:<8} copy   {GlobalCounters.copy_count + 1:>5} {name:<28} "
        f"{route:<12} {_bytes(call.target.size)}  "
        f"{_tail(seconds)} {_rate(call.target.size, seconds)} GB/s",
    )


def _tail(seconds: float) -> str:
    return f"mem {_bytes(GlobalCounters.mem_used)}  tm {seconds * 1e6:>10.2f} us"


def _bytes(size: int) -> str:
    return f"{size / 1e6:>9.3f} MB"


def _rate(amount: int, seconds: float) -> str:
    return f"{amount / seconds / 1e9:>9.2f}" if seconds > 0 else f"{'-':>9}"


def _sizes(sizes: tuple[int, int, int]) -> str:
    return "x".join(map(str, sizes))
