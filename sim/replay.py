"""Playing recorded traffic back: a host that insists on the calls of a recording.

A recording is the file of JSON lines that HCQ_CAPTURE writes. Every call of the
driver is compared with the next one recorded and carried out by another machine;
a recorded refusal is given again. The first difference is a SimFault with both
calls. Addresses, handles and descriptors may be others than in the recording, but
each has to stay the same one; pointers into the program's own memory may be anything.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from hcq.errors import FileFormatError, SimFault
from hcq.host import Host, HostFront, Region, refused
from hcq.ioctl_defs import Ioctl

SCHEMA_MAJOR = "0"
# Fields whose values name something: compared by what they name, not by number.
NAMING = ("va_addr", "handle", "address", "offset", "base", "fd", "age")
CLOCKS = ("clock_counter", "available")
# The program's own memory; numbers nobody else sees.
CONTROL_ONLY = ("_ptr", "mmap_offset", "pallocparms", "params", "plinearaddress", "pmemory")


@dataclass(frozen=True)
class Recorded:
    """One call of a recording."""

    line: int
    kind: str  # ioctl, open or mmap
    name: str
    arguments: Mapping[str, str]
    results: Mapping[str, str]
    errno: int

    def __str__(self) -> str:
        return _text(self.kind, self.name, self.arguments)


def load(lines: Iterable[str]) -> list[Recorded]:
    """The calls of a recording in order; FileFormatError naming the line that is bad."""
    calls: list[Recorded] = []
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            kind = record["record"]
            if kind == "capture" and record["schema"].split(".")[0] != SCHEMA_MAJOR:
                raise ValueError(f"schema {record['schema']}, wanted {SCHEMA_MAJOR}.x")
            calls += _calls(number, kind, record)
        except (ValueError, KeyError, TypeError) as error:
            facts = {"line": number, "found": str(error)}
            raise FileFormatError(f"line {number} is no record of a capture", facts=facts) from None
    return calls


def _calls(number: int, kind: str, record: dict[str, Any]) -> list[Recorded]:
    if kind == "ioctl":
        outcome = record["args"], record["out"], record["errno"]
        return [Recorded(number, "ioctl", record["name"], *outcome)]
    if kind == "object" and record["kind"] == "file" and "path" in record:
        return [Recorded(number, "open", record["path"], {}, {}, 0)]
    if kind == "object" and record["kind"] == "map" and "size" in record:
        return [Recorded(number, "mmap", "", {"size": record["size"]}, {}, 0)]
    return []


class Replay(HostFront):
    """A host in front of another: the driver has to make the recorded calls, in order."""

    def __init__(self, inner: Host, calls: Iterable[Recorded]) -> None:
        super().__init__(inner)
        self._calls = list(calls)
        self._next = 0
        self._names: dict[tuple[str, str], str] = {}
        self._difference = ""  # the first one: calls that clean up afterwards must not hide it

    def finish(self) -> None:
        """SimFault when recorded calls were not made."""
        if self._next < len(self._calls):
            missing = self._calls[self._next]
            count = len(self._calls) - self._next
            raise SimFault(f"{count} recorded calls were not made; line {missing.line}: {missing}")

    def open(self, path: str) -> int:
        self._expect("open", path, {})
        return self.inner.open(path)

    def ioctl(self, fd: int, call: Ioctl, args: Any) -> None:
        recorded = self._expect("ioctl", call.name, call.values(args))
        if recorded.errno:
            raise refused(call, args, recorded.errno)
        self.inner.ioctl(fd, call, args)
        self._compare(recorded, recorded.results, call.values(args), "answered")

    def mmap(self, fd: int, size: int, offset: int, address: int | None = None) -> Region:
        if fd >= 0:
            self._expect("mmap", "", {"size": hex(size)})
        return self.inner.mmap(fd, size, offset, address)

    def close(self, fd: int) -> None:
        # Its number may be another file's from here on, in the recording a different one.
        gone = hex(fd)
        self._names = {
            key: live for key, live in self._names.items() if key[0] != "fd" or live != gone
        }
        self.inner.close(fd)

    def _differ(self, text: str) -> NoReturn:
        self._difference = self._difference or text
        raise SimFault(self._difference)

    def _expect(self, kind: str, name: str, values: Mapping[str, str]) -> Recorded:
        made = _text(kind, name, values)
        if self._difference:
            self._differ(made)
        if self._next == len(self._calls):
            self._differ(f"one call more than was recorded: {made}")
        recorded = self._calls[self._next]
        self._next += 1
        if (recorded.kind, recorded.name) != (kind, name):
            self._differ(f"line {recorded.line}: recorded {recorded}, made {made}")
        self._compare(recorded, recorded.arguments, values, "made")
        return recorded

    def _compare(
        self, recorded: Recorded, wanted: Mapping[str, str], found: Mapping[str, str], verb: str
    ) -> None:
        for field, value in wanted.items():
            if field not in found or self._same(field, value, found[field]):
                continue
            before = _text(recorded.kind, recorded.name, wanted)
            after = _text(recorded.kind, recorded.name, found)
            what = f"line {recorded.line}: {field} differs"
            self._differ(f"{what}: recorded {before}, {verb} {after}")

    def _same(self, field: str, recorded: str, live: str) -> bool:
        field = field.lower()
        if field.endswith(CONTROL_ONLY) or field.endswith(CLOCKS):
            return True
        if not any(part in field for part in NAMING) or recorded == "0x0":
            return recorded == live
        # The same name in the recording has to be the same thing here, whatever its number.
        kind = next(part for part in NAMING if part in field)
        return self._names.setdefault((kind, recorded), live) == live


def _text(kind: str, name: str, values: Mapping[str, str]) -> str:
    fields = " ".join(f"{field}={value}" for field, value in values.items())
    return " ".join(part for part in (kind, name, fields) if part)
