"""Tables of methods, written like the class headers: a method, its fields, their values.

    SEM_EXECUTE 006c                   name, offset
      OPERATION 2:0 ACQUIRE* RELEASE   field, bits, the names of 0, 1, ...
      PAYLOAD_SIZE 24:24 32BIT* 64BIT

Behind an offset, x8 means eight methods of that name, four bytes apart (x8/16: 16 bytes).
`high` or `low`: this method and the next one make one value, this one the high or the low
word. A method without fields is one value. A field without names is a number; 9=NAME sets
the count. A zero is worth a word on the line where its name carries a star: always (*), or
when another field is not zero (*FIELD) or has that value (*FIELD=NAME).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hcq.bits import Layout

WORD_BITS = 32
_BOOLEAN = ("FALSE", "TRUE")
_HEAD = re.compile(r"(?P<name>\w+) (?P<offset>[0-9a-f]{4})(?: x(?P<count>\d+)(?:/(?P<step>\d+))?)?"
                   r"(?: (?P<pair>high|low))?")  # fmt: skip


@dataclass(frozen=True)
class Values:
    """The values of a field by name, and when a zero is worth showing."""

    names: Mapping[int, str] = field(default_factory=dict)
    zero: str | None = None  # None: never; "": always; FIELD or FIELD=NAME

    def text(self, value: int) -> str | None:
        """The name of a value; None where the field is a number."""
        return self.names.get(value, f"?{value:#x}") if self.names else None


@dataclass(frozen=True, eq=False)
class Method:
    """One method: its name, the fields of its word."""

    name: str
    layout: Layout
    values: Mapping[str, Values]
    pair: str = ""  # high, low: with the next method one value

    @property
    def is_plain(self) -> bool:
        """Whether the word is one value without a name of its own."""
        return list(self.layout.fields) == ["V"]

    def shows_zero(self, field_name: str, found: Mapping[str, int]) -> bool:
        """Whether a zero in this field says something, given the other fields."""
        rule = self.values[field_name].zero
        if not rule:
            return rule is not None
        other, _, wanted = rule.partition("=")
        if wanted:
            return self.values[other].text(found[other]) == wanted
        return found[other] != 0


Table = Mapping[int, Method]


def parse(text: str) -> dict[int, Method]:
    """The methods of a table by offset."""
    found: dict[int, Method] = {}
    for head, fields in _blocks(text):
        matched = _HEAD.fullmatch(head)
        if matched is None:
            raise ValueError(f"no method: {head!r}")
        for name, offset in _places(matched):
            found[offset] = _method(name, fields, matched["pair"] or "")
    return found


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    head, fields = "", list[str]()
    for line in text.splitlines():
        if not line.strip():
            continue
        if not line.startswith(" "):
            if head:
                yield head, fields
            head, fields = line.strip(), []
        else:
            fields.append(line.strip())
    if head:
        yield head, fields


def _places(matched: re.Match[str]) -> Iterator[tuple[str, int]]:
    name, offset = matched["name"], int(matched["offset"], 16)
    if matched["count"] is None:
        yield name, offset
        return
    for index in range(int(matched["count"])):
        yield f"{name}({index})", offset + index * int(matched["step"] or 4)


def _method(name: str, lines: list[str], pair: str) -> Method:
    parts = [line.split() for line in lines] or [["V", "31:0"]]
    spans = {}
    for field_name, bits, *_ in parts:
        high, _, low = bits.partition(":")
        spans[field_name] = int(high), int(low)
    values = {field_name: _values(names) for field_name, _, *names in parts}
    return Method(name, Layout(name, WORD_BITS, spans), values, pair)


def _values(names: list[str]) -> Values:
    if names == ["bool"]:
        return Values(dict(enumerate(_BOOLEAN)))
    found: dict[int, str] = {}
    zero: str | None = None
    count = 0
    for text in names:
        text, star, rule = text.partition("*")
        number, is_set, named = text.partition("=")
        if is_set:
            count, text = int(number, 16), named
        if star:
            zero = rule
        found.setdefault(count, text)
        count += 1
    return Values(found, zero)
