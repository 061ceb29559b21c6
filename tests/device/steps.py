"""First contact with a device: named steps from the driver's version to training.

One list for both vendors, in the order in which things come to depend on one another.
A step says what it saw, or raises; the first that fails ends the run (meet.py).
"""

import io
import json
import os
import runpy
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contact import MEBI, WAIT_SECONDS, Contact, Unexpected, expect, until
from kernels import THREADS

EXAMPLES = Path(__file__).parents[2] / "examples"
BAD_ADDRESS = 0x1234_5678_9000  # nothing is there
TRAIN_STEPS = 20


# Memory and the host engine.


def video_memory(contact: Contact) -> str:
    """2 MiB with a view of the CPU's: what is written there is read there."""
    device = contact.opened()
    buffer = device.allocate(2 * MEBI, cpu_access=True, name="first memory")
    view = buffer.view()
    pattern = bytes(range(256))
    for at in (0, MEBI, 2 * MEBI - 256):
        view[at : at + 256] = pattern
    for at in (0, MEBI, 2 * MEBI - 256):
        found = bytes(view[at : at + 256])
        expect(found == pattern, f"offset {at:#x} reads {found[:8].hex()}...")
    seen = f"2 MiB at {buffer.address:#x}, three places read back"
    device.free(buffer)
    return seen


def semaphore_32(contact: Contact) -> str:
    """A release of 32 bits, an acquire of it, a second release behind that."""
    first, second = contact.device.signals.take(), contact.device.signals.take()
    queue = contact.queue("copy").write(first.address, [0x1234]).poll(first.address, 0x1234)
    contact.past_timeline(queue.write(second.address, [0x5678]))
    seconds = until(lambda: first.value, 0x1234, "the released word")
    until(lambda: second.value, 0x5678, "the word behind the acquire")
    return f"released and acquired within {seconds * 1e6:.0f} us"


def semaphore_64(contact: Contact) -> str:
    """Releases of 64 bits, an acquire of the last."""
    cell, last = contact.device.signals.take(), contact.device.signals.take()
    queue = contact.queue("copy")
    values = contact.release(queue, cell.address)
    contact.past_timeline(queue.wait(cell.address, values[-1]).write(last.address, [1]))
    until(lambda: cell.value, values[-1], "the released value")
    until(lambda: last.value, 1, "the word behind the acquire")
    return f"{len(values)} releases, last {values[-1]:#x}, acquired"


def semaphore_time(contact: Contact) -> str:
    """Two releases with a time, the host's time around them."""
    first, second = contact.device.signals.take(), contact.device.signals.take()
    queue = contact.queue("copy").signal(first.address, 5).signal(second.address, 6)
    contact.past_timeline(queue)
    until(lambda: second.value, 6, "the released value")
    ticks = second.time - first.time
    expect(first.time > 0 and ticks >= 0, f"times {first.time} and {second.time}")
    return f"time {first.time}, the next {ticks} ticks later"


# Copies and kernels.


def copy(contact: Contact) -> str:
    """Host to device, device to device, device to host; and the timeline's frame around it."""
    device = contact.device
    source, target = (device.allocate(MEBI, host=True, name="host end") for _ in range(2))
    middle = device.allocate(MEBI, cpu_access=False, name="device end")
    pattern = struct.pack("<1024I", *range(1024)) * 256
    source.view()[:] = pattern
    queue = contact.queue("copy").copy(middle.address, source.address, MEBI)
    contact.run(queue.copy(target.address, middle.address, MEBI))
    found = bytes(target.view())
    wrong = next((at for at in range(MEBI) if found[at] != pattern[at]), None)
    expect(wrong is None, f"byte {wrong} of 1 MiB differs")
    for buffer in (source, middle, target):
        device.free(buffer)
    return "1 MiB through device memory and back"


def inline_write(contact: Contact) -> str:
    """Words that lie in the command stream, stored by the compute queue."""
    cell = contact.device.signals.take()
    words = [0x01234567, 0x89ABCDEF]
    contact.run(contact.queue("compute").write(cell.address, words))
    expect(cell.value == 0x89ABCDEF01234567, f"the cell holds {cell.value:#x}")
    return f"{cell.value:#x}"


def empty_kernel(contact: Contact) -> str:
    """A kernel that ends at once; the grid is complete."""
    program = contact.program("empty")
    seconds = contact.device.launch(program, (0,), (1, 1, 1), (THREADS, 1, 1), wait=True)
    return f"complete after {seconds * 1e6:.1f} us"


def store_kernel(contact: Contact) -> str:
    return contact.launched("store", [3 * item + 1 for item in range(THREADS)])


def dependent_chain(contact: Contact) -> str:
    """Eight kernels, each needs what the one before left."""
    device = contact.device
    buffer = device.allocate(4, zero=True, name="chain")
    program, queue = contact.program("link"), contact.queue("compute")
    for _ in range(8):
        arguments = device.arguments(program, (buffer.address,))
        queue.launch(program, arguments, (1, 1, 1), (1, 1, 1)).barrier()
    contact.run(queue)
    (found,) = contact.words(buffer, 1)
    expect(found == 255, f"eight links made {found}, not 255")
    device.free(buffer)
    return "8 links made 255"


def shared_memory(contact: Contact) -> str:
    return contact.launched("shared", [63 - item for item in range(THREADS)])


def local_memory(contact: Contact) -> str:
    return contact.launched("local", [item * (item & 31) for item in range(THREADS)])


def timestamps(contact: Contact) -> str:
    """Times around kernels: none negative, one of many launches longer than one of one."""
    device, program = contact.device, contact.program("store")
    buffer = device.allocate(4 * THREADS, name="timed")
    times = []
    for _ in range(3):
        values = (buffer.address,)
        times.append(device.launch(program, values, (1, 1, 1), (THREADS, 1, 1), wait=True))
    expect(all(0 < seconds < WAIT_SECONDS for seconds in times), f"{times} seconds")
    device.free(buffer)
    return ", ".join(f"{seconds * 1e6:.1f} us" for seconds in times)


def vector_add(contact: Contact) -> str:
    """float32 sums, all checked."""
    import numpy

    device, count = contact.device, contact.size.sums
    a, b, out = (device.allocate(4 * count, name=name) for name in ("a", "b", "out"))
    left = numpy.arange(count, dtype=numpy.float32)
    right = numpy.full(count, 0.5, numpy.float32)
    device.copy_in(a, 0, memoryview(left).cast("B"))
    device.copy_in(b, 0, memoryview(right).cast("B"))
    values = (out.address, a.address, b.address)
    seconds = device.launch(
        contact.program("add"), values, (count // THREADS, 1, 1), (THREADS, 1, 1), wait=True
    )
    found = numpy.empty(count, numpy.float32)
    device.copy_out(out, 0, memoryview(found).cast("B"))
    wrong = int((found != left + right).sum())
    expect(wrong == 0, f"{wrong} of {count} sums are wrong")
    for buffer in (a, b, out):
        device.free(buffer)
    return f"{count} sums in {seconds * 1e6:.1f} us"


def train(contact: Contact) -> str:
    """20 steps of examples/train.py with everything between Tensor and doorbell."""
    contact.close()
    os.environ["DEVICE"] = contact.name
    log = contact.capture.with_suffix(".losses")
    before, sys.argv = sys.argv, ["train.py", "--steps", str(TRAIN_STEPS), "--log", str(log)]
    start, said = time.monotonic(), io.StringIO()
    try:
        with redirect_stdout(said):
            runpy.run_path(str(EXAMPLES / "train.py"), run_name="__main__")
    except SystemExit as error:  # with what went wrong as its text
        raise Unexpected(error.code) from None
    finally:
        sys.argv = before
    seconds = time.monotonic() - start
    losses = [json.loads(line)["loss"] for line in log.read_text().splitlines()]
    log.unlink()
    from tensor import Device

    Device.close_all()
    expect(len(losses) == TRAIN_STEPS, f"{len(losses)} losses")
    expect(losses[-1] < 0.8 * losses[0], f"losses {losses[0]:.4f} to {losses[-1]:.4f}")
    last = said.getvalue().splitlines()[-1]
    return f"loss {losses[0]:.4f} to {losses[-1]:.4f}, {last}, {seconds:.1f} s with compiling"


# Failing, and coming back.


def bad_store(contact: Contact) -> str:
    """A store outside all memory is a fault that names the address."""
    from hcq.errors import GpuFault

    contact.open()
    device = contact.opened()
    arguments = (BAD_ADDRESS,)
    try:
        device.launch(contact.program("store"), arguments, (1, 1, 1), (THREADS, 1, 1))
        device.synchronize()
    except GpuFault as fault:
        report = str(fault)
    else:
        raise Unexpected("nothing was reported")
    expect(f"{BAD_ADDRESS:#x}" in report, f"the report does not name {BAD_ADDRESS:#x}: {report}")
    expect(device.health() != "ok", "the device says it is well")
    return report.splitlines()[0]


def reopen(contact: Contact) -> str:
    """The device opens again and copies; in a new process where the kernel wants that."""
    with suppress(Exception):  # what it said it has said before
        contact.close()
    contact.device = None
    if contact.needs_new_process:
        return _in_new_process(contact)
    return open_and_copy(contact)


def open_and_copy(contact: Contact) -> str:
    """One copy on a device just opened."""
    contact.open()
    contact.opened()
    seen = copy(contact)
    contact.close()
    return seen


def _in_new_process(contact: Contact) -> str:
    simulator = ["-m", "sim", "--gpu", contact.target] if contact.is_simulated() else []
    capture = contact.capture.with_suffix(".reopened.jsonl")
    words = [sys.executable, *simulator, sys.argv[0], "--reopen", "--capture", str(capture)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    expect(done.returncode == 0, done.stdout + done.stderr)
    return f"in a new process: {done.stdout.strip()}"


@dataclass(frozen=True)
class Step:
    """A name and what to do; returns what was seen."""

    name: str
    run: Callable[[Any], str]


STEPS = (
    Step("version", lambda contact: contact.version()),
    Step("card info", lambda contact: contact.cards()),
    Step("client and device", lambda contact: contact.client()),
    Step("class list", lambda contact: contact.classes()),
    Step("usermode timer", lambda contact: contact.timer()),
    Step("address space", lambda contact: contact.space()),
    Step("2 MiB of video memory", video_memory),
    Step("channel and token", lambda contact: contact.channel()),
    Step("host semaphore 32-bit", semaphore_32),
    Step("host semaphore 64-bit", semaphore_64),
    Step("host semaphore timestamp", semaphore_time),
    Step("copy", copy),
    Step("inline write", inline_write),
    Step("empty kernel", empty_kernel),
    Step("store kernel", store_kernel),
    Step("dependent chain", dependent_chain),
    Step("shared", shared_memory),
    Step("local", local_memory),
    Step("timestamps", timestamps),
    Step("vector add", vector_add),
    Step("20 train steps", train),
    Step("bad store", bad_store),
    Step("reopen and copy", reopen),
)
