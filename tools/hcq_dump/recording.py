"""Recordings that HCQ_CAPTURE=file wrote: host traffic as lines, submissions as word streams."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hcq.errors import FileFormatError
from tools.hcq_dump import lists, nv_recording
from tools.hcq_dump.record import Place
from tools.hcq_dump.source import Stream, records
from tools.hcq_dump.words import recorded

SCHEMA = "0"  # the major version this reads; minor ones only add keys


@dataclass(frozen=True)
class Event:
    """Host traffic: what a line says of it, and what JSON lines say."""

    text: str
    json: dict[str, object]


@dataclass
class _Reader:
    """What was read so far: the paths of open files by their numbers."""

    name: str
    paths: dict[str, str] = field(default_factory=dict)

    def read(self, record: dict[str, Any]) -> Iterator[Stream | Event]:
        kind = record.get("record")
        if kind == "capture":
            _check_schema(record, self.name)
        elif kind == "submission":
            yield from _streams(record)
        elif kind == "device":
            yield _device(record)
        elif kind == "ioctl":
            yield Event(_ioctl(record), _ioctl_json(record, self.paths.get(f"fd{record['fd']}")))
        elif kind == "object" and "path" in record:
            self.paths[str(record["id"])] = str(record["path"])


def read(data: bytes, name: str, tally: Any) -> Iterator[Stream | Event]:
    """Every submission as Streams, devices and ioctls as Events, in order.

    Ring words come first, as buffer 0; indirect buffers they point to follow as 1, 2, ...
    Unknown kinds of record and unknown keys are passed over. FileFormatError for another
    major version of the schema and for records without the keys of their kind.
    """
    reader = _Reader(name)
    for record in records(data, name):
        if record.get("record") == "torn":
            tally.torn += 1
            continue
        try:
            yield from reader.read(record)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, FileFormatError):
                raise
            raise FileFormatError(
                f"{name}: record {record.get('seq')} is no {record.get('record')} record: "
                f"{error!r}",
                facts={"file": name, "record": record.get("seq")},
            ) from None


def _check_schema(record: dict[str, Any], name: str) -> None:
    found = str(record.get("schema", ""))
    if found.partition(".")[0] != SCHEMA:
        raise FileFormatError(
            f"{name}: recorded with schema {found or '(none)'}, this reads {SCHEMA}.x",
            facts={"file": name, "field": "schema", "found": found, "wanted": f"{SCHEMA}.x"},
        )


def _streams(record: dict[str, Any]) -> Iterator[Stream]:
    if "entries" in record:
        yield from nv_recording.streams(record)
        return
    queue = str(record.get("queue", "-"))
    device = str(record.get("device", "device"))
    is_copy = record.get("kind", queue.rstrip("0123456789")) in ("copy", "sdma")
    buffers = [{"words": record["words"]}, *record.get("indirect", ())]
    for number, part in enumerate(buffers):
        address = int(part["address"], 16) if "address" in part else None
        place = Place(device, queue, int(record.get("seq", 0)), number, address)
        words = recorded(part["words"])
        yield Stream("sdma" if is_copy else "pm4", place, words)


def _device(record: dict[str, Any]) -> Event:
    known: dict[str, object] = {key: record[key] for key in ("vendor", "arch") if key in record}
    text = [f"{'device':12} {record['name']}", *(f"{key}={value}" for key, value in known.items())]
    return Event(" ".join(text), {"record": "device", "name": record["name"], **known})


def _own_lists(record: dict[str, Any], when: str) -> dict[str, str]:
    """The lists that the arguments themselves point to; those further in are not theirs."""
    found = lists.texts(record, when)
    return {field: text for field, text in found.items() if field in record["args"]}


def _ioctl(record: dict[str, Any]) -> str:
    """Arguments as they went in; behind the arrow those that came back otherwise."""
    before = dict(record.get("args", {})) | _own_lists(record, "in")
    after = dict(record.get("out", {})) | _own_lists(record, "out")
    result = [f"fd={record['fd']}", f"ret={record['ret']}"]
    result += [f"errno={record['errno']}"] if record.get("errno") else []
    what = nv_recording.describe(record)
    sent = [f"{key}={what.get(key, value)}" for key, value in before.items()]
    changed = [
        f"{key}={what.get(f'{key} out', value)}"
        for key, value in after.items()
        if before.get(key) != value or key in nv_recording.STATUS
    ]
    answer = ["->", *changed] if changed else []
    inner = nv_recording.inner(record)
    return " ".join([f"{'ioctl':12} {record['name']}", *result, *sent, *answer, *inner])


_COPIED = ("seq", "t", "dur", "fd", "name", "ret", "errno")


def _ioctl_json(record: dict[str, Any], path: str | None) -> dict[str, object]:
    """The `ioctl` record: arguments before and after as hex text, lists decoded."""
    found: dict[str, object] = {"record": "ioctl"}
    found |= {key: record[key] for key in _COPIED if key in record}
    found["file"] = path
    for key, when in (("args", "in"), ("out", "out")):
        arguments = dict(record.get(key, {}))
        listed = lists.as_json(record, when)
        found[key] = arguments | {name: listed[name] for name in arguments if name in listed}
    named = nv_recording.describe(record)
    if named:
        found["names"] = {key.removesuffix(" out"): value for key, value in named.items()}
    return found | nv_recording.inner_json(record)
