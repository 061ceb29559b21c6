"""What `hcq-dump cat -x` printed, read back: the words at the ends of its lines."""

import re
from collections.abc import Iterator

from hcq.errors import FileFormatError
from tools.hcq_dump.record import Place
from tools.hcq_dump.source import Stream

_COLUMNS = r"(?P<device>[^\s/]+)/(?P<queue>\S+) +s(?P<sub>\d+) +b(?P<buffer>\d+) \+0x[0-9a-f]+ "
_PACKET = re.compile(_COLUMNS + r"\[ *(?P<count>\d+)\] (?P<engine>\S+) +(?P<rest>\S.*)")
_BITS = re.compile(_COLUMNS + r"  w\d+\[\d+:\d+\] ")
_HOST = re.compile(r"(ioctl|device) {5,}")
_ADDRESS = re.compile(r" at=(0x[0-9a-f]+)")
_CLASS = re.compile(r"[0-9A-F]{4}")
_KINDS = {"PM4": "pm4", "SDMA": "sdma", "GP": "gpfifo", "QMD": "qmd"}


def is_printed(text: str) -> bool:
    """Whether the first packet of a text is a line of hcq-dump."""
    lines = (line for line in text.splitlines() if line.strip() and not _HOST.match(line))
    return _PACKET.match(next(lines, "")) is not None


def streams(text: str, name: str) -> Iterator[tuple[Stream, set[int]]]:
    """The words of each buffer, and the class numbers in its engine column.

    FileFormatError for lines without their words and for other text between them.
    """
    found: Stream | None = None
    classes = set[int]()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or _HOST.match(line) or _BITS.match(line):
            continue
        matched = _PACKET.match(line)
        if matched is None:
            raise FileFormatError(
                f"{name}: line {number} is none of hcq-dump",
                facts={"file": name, "line": number, "begins": repr(line[:40])},
            )
        kind, place = _KINDS.get(matched["engine"], "pushbuffer"), _place(matched)
        if found is None or not _continues(found, kind, place):
            if found is not None:
                yield found, classes
            found, classes = Stream(kind, place, []), set()
        found.words.extend(_words(matched, name, number))
        if _CLASS.fullmatch(matched["engine"]):
            classes.add(int(matched["engine"], 16))
    if found is not None:
        yield found, classes


def _place(matched: re.Match[str]) -> Place:
    address = _ADDRESS.search(matched["rest"])
    return Place(
        matched["device"],
        matched["queue"],
        int(matched["sub"]),
        int(matched["buffer"]),
        int(address[1], 16) if address else None,
    )


def _continues(found: Stream, kind: str, place: Place) -> bool:
    before = found.place
    same = (place.device, place.queue, place.submission, place.buffer)
    return kind == found.kind and same == (
        before.device, before.queue, before.submission, before.buffer,
    )  # fmt: skip


def _words(matched: re.Match[str], name: str, number: int) -> list[int]:
    wanted = int(matched["count"])
    listed = matched["rest"].rpartition(" ; ")[2].split() if " ; " in matched["rest"] else []
    if len(listed) != wanted or not all(re.fullmatch(r"[0-9a-f]{8}", word) for word in listed):
        raise FileFormatError(
            f"{name}: line {number} of hcq-dump has not its {wanted} words",
            facts={"file": name, "line": number, "found": len(listed), "wanted": wanted},
            hint="print the words too: hcq-dump cat -x",
        )
    return [int(word, 16) for word in listed]
