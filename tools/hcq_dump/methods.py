"""Which methods each NVIDIA class has, and what words sent to them mean."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from tools.hcq_dump.classes import NAMES
from tools.hcq_dump.compute_methods import AMPERE_A, AMPERE_B, BLACKWELL, HOPPER, INLINE_TO_MEMORY
from tools.hcq_dump.copy_methods import AMPERE_COPY, COPY
from tools.hcq_dump.fields import address, number, words
from tools.hcq_dump.host_methods import HOST, MEMORY_OPERATIONS
from tools.hcq_dump.method_table import WORD_BITS, Method, Table
from tools.hcq_dump.record import BitField, Fields

TABLES: dict[int, Table] = {
    0xA140: INLINE_TO_MEMORY,
    0xC6C0: AMPERE_A,
    **dict.fromkeys((0xC7C0, 0xC9C0), AMPERE_B),
    0xCBC0: HOPPER,
    **dict.fromkeys((0xCDC0, 0xCEC0), BLACKWELL),
    **dict.fromkeys((0xC6B5, 0xC7B5), AMPERE_COPY),
    **dict.fromkeys((0xC8B5, 0xC9B5, 0xCAB5), COPY),
}
CACHED = 1 << 12  # words of a stream repeat
IMMEDIATE_HIGH = 28  # the highest bit of the data in a header
_MEM_OP_D = next(offset for offset, method in HOST.items() if method.name == "MEM_OP_D")


@dataclass(frozen=True)
class Sent:
    """A word for a method: where in its packet the word is, and at which bit it begins there."""

    at: int
    method: int
    word: int
    low_bit: int = 0


@dataclass
class Meaning:
    """What words mean, for the line, and whether all of it is known."""

    fields: Fields = field(default_factory=list)
    known: bool = True


def meaning(table: Table, sent: Sequence[Sent]) -> Meaning:
    """The words of one header. Fields of another than the first method have its name before."""
    table = _with_operation(table, sent)
    found = Meaning()
    for group in _groups(table, sent):
        found.fields += _shown(table, group, group[0].method == sent[0].method)
    found.known = all(_is_known(table.get(item.method), item.word) for item in sent)
    return found


def bit_by_bit(table: Table, sent: Sequence[Sent]) -> list[BitField]:
    """Every field of every word, zeros too."""
    table = _with_operation(table, sent)
    return [bits for item in sent for bits in _bits(table.get(item.method), item)]


@lru_cache(maxsize=CACHED)
def _is_known(method: Method | None, word: int) -> bool:
    if method is None or method.layout.unknown(word):
        return False
    values = method.layout.unpack(word).items()
    return not any(value_text(method, name, value)[0] == "?" for name, value in values)


def _with_operation(table: Table, sent: Sequence[Sent]) -> Table:
    """The methods; the host's MEM_OP_A to MEM_OP_C as the operation behind them has them."""
    for item in sent if table is HOST else ():
        if item.method == _MEM_OP_D:
            operation = HOST[_MEM_OP_D].layout.unpack(item.word)["OPERATION"]
            name = HOST[_MEM_OP_D].values["OPERATION"].text(operation)
            return {**HOST, **MEMORY_OPERATIONS.get(str(name), {})}
    return table


def _groups(table: Table, sent: Sequence[Sent]) -> Iterator[list[Sent]]:
    """What is shown as one value: words for one method, or two methods that make one."""
    index = 0
    while index < len(sent):
        end = index + 1
        while end < len(sent) and sent[end].method == sent[index].method:
            end += 1
        method = table.get(sent[index].method)
        if end == index + 1 and method is not None and method.pair and _follows(sent, index):
            end += 1
        yield list(sent[index:end])
        index = end


def _follows(sent: Sequence[Sent], index: int) -> bool:
    after = sent[index + 1 : index + 2]
    return bool(after) and after[0].method == sent[index].method + 4


def _shown(table: Table, group: list[Sent], first: bool) -> Fields:
    method = table.get(group[0].method)
    if method is None:
        return [(f"?{group[0].method:#06x}", words(item.word for item in group))]
    if len(group) == 1:
        return _word_fields(method, group[0].word, first)
    if method.pair and group[1].method != group[0].method:
        low, high = (item.word for item in group)
        if method.pair == "high":
            low, high = high, low
        strays = [_stray(table, item) for item in group]
        other = table[group[1].method].name
        return [(_joined(method.name, other), address(low, high)), *_reserved(strays)]
    return [(method.name, words(item.word for item in group))]


def _joined(first: str, second: str) -> str:
    """SEM_ADDR_LO:HI of SEM_ADDR_LO and SEM_ADDR_HI."""
    stem = first.rpartition("_")[0] + "_"
    if second.startswith(first + "_"):
        return f"{first}:{second.removeprefix(first + '_')}"
    return f"{first}:{second.removeprefix(stem)}"


def _stray(table: Table, item: Sent) -> int:
    method = table.get(item.method)
    return 0 if method is None else method.layout.unknown(item.word)


def _reserved(strays: Iterable[int]) -> Fields:
    return [("reserved", f"?{stray:#x}") for stray in strays if stray]


@lru_cache(maxsize=CACHED)
def _word_fields(method: Method, word: int, first: bool) -> Fields:
    """What is worth a word on the line: fields that are not zero, zeros that say something."""
    strays = _reserved([method.layout.unknown(word)])
    if method.is_plain:
        return [(method.name, number(word)), *strays]
    prefix = "" if first else f"{method.name}."
    values = method.layout.unpack(word)
    shown = [
        (prefix + name, value_text(method, name, value))
        for name, value in values.items()
        if value or method.shows_zero(name, values)
    ]
    return [*(shown or [(method.name, number(word))]), *strays]


def value_text(method: Method, name: str, value: int) -> str:
    """The name of a field's value, or the number."""
    if method.name == "SET_OBJECT" and name == "NVCLASS":
        return NAMES.get(value, f"?{value:#06x}")
    return method.values[name].text(value) or number(value)


def _bits(method: Method | None, item: Sent) -> Iterator[BitField]:
    width = WORD_BITS - item.low_bit
    if method is None:
        span = (width - 1 + item.low_bit, item.low_bit)
        yield BitField(item.at, span, f"?{item.method:#06x}", number(item.word), item.word)
        return
    values: Mapping[str, int] = method.layout.unpack(item.word)
    for name, value in values.items():
        high, low = method.layout.fields[name]
        if item.low_bit + low > IMMEDIATE_HIGH and item.low_bit:
            continue
        span = (min(high + item.low_bit, _top(item)), low + item.low_bit)
        label = method.name if method.is_plain else f"{method.name}.{name}"
        yield BitField(item.at, span, label, value_text(method, name, value), value)
    stray = method.layout.unknown(item.word)
    if stray:
        span = (_top(item), item.low_bit)
        yield BitField(item.at, span, f"{method.name}.reserved", f"?{stray:#x}", stray)


def _top(item: Sent) -> int:
    return IMMEDIATE_HIGH if item.low_bit else WORD_BITS - 1
