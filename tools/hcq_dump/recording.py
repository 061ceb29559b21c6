"""Recordings that HCQ_CAPTURE=file wrote: ioctls as lines, submissions as word streams."""

from collections.abc import Iterator
from typing import Any

from tools.hcq_dump.record import Place
from tools.hcq_dump.source import Stream, records


def read(data: bytes, name: str, tally: Any) -> Iterator["Stream | str"]:
    """Every submission as a Stream, every ioctl as a line of text, in order."""
    for record in records(data, name):
        kind = record.get("record")
        if kind == "submission":
            yield _stream(record)
        elif kind == "ioctl":
            yield _ioctl(record)
        elif kind == "torn":
            tally.torn += 1


def _stream(record: dict[str, Any]) -> Stream:
    queue = str(record.get("queue", "-"))
    device = str(record.get("device", "device"))
    words = [int(word, 16) for word in record["words"]]
    place = Place(device, queue, int(record.get("seq", 0)))
    return Stream("sdma" if "copy" in queue or "sdma" in queue else "pm4", place, words)


def _ioctl(record: dict[str, Any]) -> str:
    args = " ".join(f"{key}={value}" for key, value in dict(record.get("args", {})).items())
    errno = record.get("errno") or 0
    failed = f" errno={errno}" if errno else ""
    call = f"{record.get('name')} fd={record.get('fd')} ret={record.get('ret')}{failed}"
    return f"ioctl        {call} {args}"
