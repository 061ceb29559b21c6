"""Recordings that HCQ_CAPTURE=file wrote: host traffic as lines, submissions as word streams."""

from collections.abc import Iterator
from typing import Any

from hcq.errors import FileFormatError
from tools.hcq_dump import lists, nv_recording
from tools.hcq_dump.record import Place
from tools.hcq_dump.source import Stream, records

SCHEMA = "0"  # the major version this reads; minor ones only add keys


def read(data: bytes, name: str, tally: Any) -> Iterator["Stream | str"]:
    """Every submission as Streams, devices and ioctls as lines of text, in order.

    Ring words come first, as buffer 0; indirect buffers they point to follow as 1, 2, ...
    Unknown kinds of record and unknown keys are passed over. FileFormatError for another
    major version of the schema and for records without the keys of their kind.
    """
    for record in records(data, name):
        kind = record.get("record")
        try:
            if kind == "capture":
                _check_schema(record, name)
            elif kind == "submission":
                yield from _streams(record)
            elif kind in ("ioctl", "device"):
                yield _ioctl(record) if kind == "ioctl" else _device(record)
            elif kind == "torn":
                tally.torn += 1
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, FileFormatError):
                raise
            raise FileFormatError(
                f"{name}: record {record.get('seq')} is no {kind} record: {error!r}",
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
    buffers = [record["words"], *(part["words"] for part in record.get("indirect", ()))]
    for number, listed in enumerate(buffers):
        place = Place(device, queue, int(record.get("seq", 0)), number)
        words = [int(word, 16) for word in listed]
        yield Stream("sdma" if is_copy else "pm4", place, words)


def _device(record: dict[str, Any]) -> str:
    known = [f"{key}={record[key]}" for key in ("vendor", "arch") if key in record]
    return " ".join([f"{'device':12} {record['name']}", *known])


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
