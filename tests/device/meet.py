"""Runs the steps of a first contact: one line each, figures, and an end in any case."""

import argparse
import faulthandler
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contact import MEBI, Contact, Size
from kernels import THREADS
from steps import STEPS, open_and_copy, train

LIMIT_SECONDS = 280  # of the whole run
SMALL = Size(MEBI, 1 << 14, 5)  # for simulators
LAST_CALLS = 6  # of the recording, printed where a step fails


def say(line: str) -> None:
    """A line, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def measured(contact: Contact) -> dict[str, float]:
    """Launch latency in us, copy bandwidth in GB/s: on an open device, after its steps."""
    device, size = contact.device, contact.size
    program = contact.program("empty")
    times = []
    for _ in range(size.rounds):
        start = time.perf_counter()
        device.launch(program, (0,), (1, 1, 1), (THREADS, 1, 1))
        device.synchronize()
        times.append(time.perf_counter() - start)
    source, target = (
        device.allocate(size.copy_bytes, cpu_access=False, name="measured") for _ in range(2)
    )
    rates = []
    for _ in range(5):
        start = time.perf_counter()
        contact.run(contact.queue("copy").copy(target.address, source.address, size.copy_bytes))
        rates.append(size.copy_bytes / (time.perf_counter() - start) / 1e9)
    for buffer in (source, target):
        device.free(buffer)
    return {"launch and wait, us": statistics.median(times) * 1e6, "copy, GB/s": max(rates)}


def parser(about: str | None) -> argparse.ArgumentParser:
    """The options of both vendors' scripts."""
    made = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(
        "--capture",
        type=_new_file,
        metavar="FILE",
        help="record into this new file; default: first_contact_DATE-TIME.jsonl here",
    )
    made.add_argument("--reopen", action="store_true", help="only open, copy, close")
    return made


def _new_file(text: str) -> Path:
    path = Path(text)
    if path.exists():
        raise argparse.ArgumentTypeError(f"{text} is there already and is not overwritten")
    return path


def meet(make: Callable[[Path], Contact], options: argparse.Namespace) -> int:
    """Run the steps and print one line each; the exit code."""
    if options.capture is None:
        options.capture = Path(time.strftime("first_contact_%Y%m%d-%H%M%S.jsonl"))
    os.environ["HCQ_CAPTURE"] = str(options.capture)
    os.environ.setdefault("HCQ_TIMEOUT_MS", "10000")
    contact = make(options.capture)
    if contact.is_simulated():
        contact.size = SMALL
    _limit()
    if options.reopen:
        say(open_and_copy(contact))
        return 0
    contact.open()
    begun = time.monotonic()
    for number, step in enumerate(STEPS, 1):
        if step.run is train and not _measure(contact):
            return 1
        start = time.monotonic()
        try:
            seen = step.run(contact)
        except Exception as error:
            _report(f"{number:2d} {step.name}", error, contact)
            return 1
        took = time.monotonic() - start
        say(f"{number:2d} {step.name:26} ok {took:6.2f} s  {seen}")
    say(f"all {len(STEPS)} steps in {time.monotonic() - begun:.1f} s; {options.capture}")
    return 0


def _measure(contact: Contact) -> bool:
    """Print figures, the vendor's own beside them where they can be had; whether ours could."""
    try:
        _figures(measured(contact))
    except Exception as error:
        _report("   measuring", error, contact)
        return False
    try:
        _figures(contact.others())
    except Exception as error:  # not what is being met
        say(f"   not compared: {error}")
    return True


def _figures(found: dict[str, float]) -> None:
    for name, value in found.items():
        say(f"   {name:26} {value:10.2f}")


def _limit() -> None:
    def over(number: int, frame: Any) -> None:
        say(f"not done after {LIMIT_SECONDS} s")
        faulthandler.dump_traceback(file=sys.stdout)
        os._exit(1)

    signal.signal(signal.SIGALRM, over)
    signal.alarm(LIMIT_SECONDS)


def _report(name: str, error: BaseException, contact: Contact) -> None:
    say(f"{name:29} FAILED: {type(error).__name__}: {error}")
    for record in contact.records()[-LAST_CALLS:]:
        changed = {k: v for k, v in record["out"].items() if record["args"].get(k) != v}
        say(f"   {record['name']} ret={record['ret']} errno={record['errno']} {changed}")
    say(f"   recorded in {contact.capture}")
