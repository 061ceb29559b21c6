"""A device being met: opening it under a recording, reading that, launching on it.

What lies before the first submission is read from the recording of the driver's
calls, so a device that does not open is reported at the call that failed.
"""

import json
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels import THREADS, Dialect

from hcq import host as hosts
from hcq.capture import innermost

WAIT_SECONDS = 5.0  # for one value
MEBI = 1 << 20


class Unexpected(Exception):
    """A step saw something else than it should have."""


@dataclass(frozen=True)
class Size:
    """How much is moved and measured: less on a simulator."""

    copy_bytes: int = 64 * MEBI
    sums: int = 1 << 20
    rounds: int = 200


class Contact:
    """One device being met. A vendor fills in what comes before the first submission."""

    name = ""  # "NV": hcq.nv, DEVICE=NV
    dialect: Dialect
    needs_new_process = False  # after a fault

    def __init__(self, vendor: Any, capture: Path) -> None:
        self.vendor = vendor
        self.capture = capture
        self.size = Size()
        self.device: Any = None
        self.error: BaseException | None = None
        self.target = ""
        self.programs: dict[str, Any] = {}

    # Opening.

    def open(self) -> None:
        """Open the device; what goes wrong is kept for the step it belongs to."""
        try:
            self.device = self.vendor.open(0)
            self.target = self.device.target
        except Exception as error:  # any is reported by the step that misses its call
            self.error = error

    def is_simulated(self) -> bool:
        """Whether this runs under `python -m sim`."""
        return type(innermost(hosts.current())).__module__.startswith("sim.")

    def close(self) -> None:
        """Close the device where it is open."""
        self.programs.clear()
        if self.device is not None:
            self.device.close()
            self.device = None

    def records(self, kind: str = "ioctl") -> list[dict[str, Any]]:
        """What was recorded so far."""
        found: list[dict[str, Any]] = []
        if not self.capture.exists():  # the host was never asked for anything
            return found
        for line in self.capture.read_text().splitlines():
            with suppress(ValueError):
                record = json.loads(line)
                if record["record"] == kind:
                    found.append(record)
        return found

    def call(self, name: str, **arguments: int) -> dict[str, Any]:
        """The last recorded call of a name with these arguments; Unexpected if it failed."""
        wanted = {key: hex(value) for key, value in arguments.items()}
        found = [
            record
            for record in self.records()
            if record["name"] == name and wanted.items() <= record["args"].items()
        ]
        what = " ".join([name, *(f"{key}={value}" for key, value in wanted.items())])
        if not found:
            raise self.error or Unexpected(f"{what} was never called")
        status = found[-1]["out"].get("status", found[-1]["out"].get("rmStatus", "0x0"))
        if found[-1]["ret"] or int(status, 16):
            errno = found[-1]["errno"]
            raise self.error or Unexpected(f"{what}: errno {errno}, status {status}")
        return found[-1]

    def opened(self) -> Any:
        """The device; what kept it from opening is raised."""
        if self.error is not None:
            raise self.error
        return self.device

    # What a vendor says: version(), cards(), client(), classes(), timer(), space() and channel()
    # of its steps, and these.

    def image(self, name: str) -> bytes:
        """Machine code of a kernel for the device."""
        raise NotImplementedError

    def release(self, queue: Any, address: int) -> list[int]:
        """Add releases of 64 bits to a queue, the simplest first; the values in order."""
        raise NotImplementedError

    def others(self) -> dict[str, float]:
        """The vendor's own stack's figures, measured in this run; none where it is not here."""
        return {}

    # What steps share.

    def queue(self, kind: str) -> Any:
        return self.device.queue(kind)

    def past_timeline(self, queue: Any) -> None:
        """Submit with as little as possible around it."""
        self.device.channels[queue.kind].submit(queue)

    def run(self, queue: Any) -> None:
        """Submit and wait."""
        self.device.wait(self.device.submit(queue), WAIT_SECONDS)

    def program(self, name: str) -> Any:
        if name not in self.programs:
            self.programs[name] = self.device.load(self.image(name), name)
        return self.programs[name]

    def words(self, buffer: Any, count: int) -> list[int]:
        data = bytearray(4 * count)
        self.device.copy_out(buffer, 0, data)
        return list(struct.unpack(f"<{count}I", data))

    def launched(self, name: str, expected: list[int]) -> str:
        """Run a kernel of one group over a cleared buffer; the words it left are as expected."""
        buffer = self.device.allocate(4 * THREADS, zero=True, name=name)
        self.device.launch(
            self.program(name), (buffer.address,), (1, 1, 1), (THREADS, 1, 1), wait=True
        )
        found = self.words(buffer, THREADS)
        expect(found == expected, f"the kernel left {found[:8]}..., not {expected[:8]}...")
        self.device.free(buffer)
        return f"{THREADS} words right"


def expect(truth: bool, what: str) -> None:
    """Unexpected, unless true."""
    if not truth:
        raise Unexpected(what)


def until(read: Callable[[], int], wanted: int, what: str) -> float:
    """Seconds until a value is there; Unexpected with what is there instead."""
    start = time.monotonic()
    while (found := read()) != wanted:
        if time.monotonic() - start > WAIT_SECONDS:
            raise Unexpected(f"{what} is {found:#x} after {WAIT_SECONDS:g} s, not {wanted:#x}")
        time.sleep(0)
    return time.monotonic() - start
