"""The lines of DEBUG=2: one per kernel or copy, in columns.

Kernel: device, number on that device, name, argument count, launch sizes, live
memory, device time, rates by the kernel's own account, `first` on its first run.
Copy: device, number, from and to, route, size, live memory, time, rate.
"""

from runtime.buffer import HOST, Buffer
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
    say(2, f"{call.batch.device.name:<8} batch        {name:<28} {_tail(seconds)}")


def copy_line(call: CopyCall, route: str, seconds: float) -> None:
    """Log one copy: from where to where, route, size, live memory, time, rate."""
    source, target = _name(call.source), _name(call.target)
    name = f"{source} -> {target}"
    say(
        2,
        f"{target:<8} copy   {GlobalCounters.copy_count + 1:>5} {name:<28} "
        f"{route:<12} {_bytes(call.target.size)}  "
        f"{_tail(seconds)} {_rate(call.target.size, seconds)} GB/s",
    )


def _name(buffer: Buffer) -> str:
    return HOST if buffer.device == HOST else buffer.opened.name


def _tail(seconds: float) -> str:
    return f"mem {_bytes(GlobalCounters.mem_used)}  tm {_time(seconds)}"


def _bytes(size: int) -> str:
    return _scaled(size, ("B ", "KB", "MB", "GB", "TB"))


def _time(seconds: float) -> str:
    return _scaled(seconds * 1e9, ("ns", "us", "ms", "s "))


def _scaled(amount: float, units: tuple[str, ...]) -> str:
    """Six digits and the first unit they fit in, in steps of 1000."""
    scale = 0
    while amount >= 1000 and scale < len(units) - 1:
        amount /= 1000
        scale += 1
    return f"{amount:>6.2f} {units[scale]}"


def _rate(amount: int, seconds: float) -> str:
    return f"{amount / seconds / 1e9:>9.2f}" if seconds > 0 else f"{'-':>9}"


def _sizes(sizes: tuple[int, int, int]) -> str:
    return "x".join(map(str, sizes))
