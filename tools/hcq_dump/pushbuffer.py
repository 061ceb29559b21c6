"""NVIDIA pushbuffer words to packets: one method header with its words is one packet.

Never reads past the end. Which class a subchannel holds is followed over all words of a
channel: SET_OBJECT says it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from hcq.bits import Layout
from hcq.nv.arch import ARCHES
from hcq.nv.defs import classes, host
from hcq.nv.defs.host import SecOp
from hcq.nv.methods import COMPUTE_SUBCHANNEL, COPY_SUBCHANNEL
from tools.hcq_dump.methods import HOST, TABLES, Table, joined, word_fields
from tools.hcq_dump.record import Fields, Packet

# Source: NVIDIA open-gpu-doc, classes/host/clc56f.h, NVC56F_DMA (TERT_OP, the _OLD fields).
OLD_HEADER = Layout("OLD_HEADER", 32, {
    "sec_op":            (31, 29),
    "method_count":      (28, 18),
    "tert_op":           (17, 16),
    "method_subchannel": (15, 13),
    "method_address":    (12,  2),
})  # fmt: skip
SUBDEVICE_MASK = Layout("SUBDEVICE_MASK", 32, {
    "sec_op":         (31, 29),
    "tert_op":        (17, 16),
    "subdevice_mask": (15,  4),
})  # fmt: skip
_MASK_OPERATIONS = {1: "SET_SUB_DEV_MASK", 2: "STORE_SUB_DEV_MASK", 3: "USE_SUB_DEV_MASK"}
_FORMS = {
    SecOp.INC_METHOD: "INC",
    SecOp.NON_INC_METHOD: "NON_INC",
    SecOp.ONE_INC: "ONE_INC",
    SecOp.IMMD_DATA_METHOD: "IMMD",
}
_OLD_FORMS = {SecOp.GRP0: "OLD_INC", SecOp.GRP2: "OLD_NON_INC"}
# How the words after a header move from method to method.
_STAYS = ("NON_INC", "OLD_NON_INC")


@dataclass
class Channel:
    """What was seen of a channel so far: the class of each subchannel that was bound."""

    arch: str = "sm_90"
    bound: dict[int, int] = field(default_factory=dict)
    noted: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        row = next(row for row in ARCHES if row.name == self.arch)
        self.host_class = row.channel_classes[0]
        self.usual = {COMPUTE_SUBCHANNEL: row.compute_class, COPY_SUBCHANNEL: row.copy_class}

    def table(self, subchannel: int, method: int) -> tuple[str, Table | None, list[str]]:
        """Engine column, methods and a note for what is addressed."""
        if method < host.HOST_METHODS_END:
            return f"{self.host_class:04X}", HOST, []
        number = self.bound.get(subchannel)
        notes = []
        if number is None:
            number = self.usual.get(subchannel)
            if number is None:
                return f"SUB{subchannel}", None, [f"subchannel {subchannel} is not bound"]
            if subchannel not in self.noted:
                self.noted.add(subchannel)
                notes = [f"subchannel {subchannel} is bound elsewhere, taken as {number:04x}"]
        return f"{number:04X}", TABLES.get(number), notes


@dataclass(frozen=True)
class _Header:
    form: str
    subchannel: int
    method: int
    count: int


def decode(words: list[int], channel: Channel | None = None, needed: int = 0) -> Iterator[Packet]:
    """Every packet of one segment; the last one may be torn.

    needed: how many words the segment has, where fewer may be here.
    """
    channel = channel or Channel()
    missing = needed - len(words)
    if missing > 0:
        yield from decode(words, channel)
        yield Packet("PB", "UNRECORDED", len(words), [], [("words", str(missing))], torn=True)
        return
    at = 0
    while at < len(words):
        packet = _packet(words, at, channel)
        yield packet
        at += len(packet.raw)
        if packet.opcode == "END_PB_SEGMENT" and at < len(words):
            rest = [("words", str(len(words) - at))]
            yield Packet("PB", "UNFETCHED", at, words[at:], rest)
            return


def _packet(words: list[int], at: int, channel: Channel) -> Packet:
    head = words[at]
    if head == 0:
        return _nothing(words, at)
    operation = host.METHOD_HEADER.unpack(head)["sec_op"]
    tert = OLD_HEADER.unpack(head)["tert_op"]
    if operation == SecOp.END_PB_SEGMENT:
        return _lone("END_PB_SEGMENT", at, head, head ^ SecOp.END_PB_SEGMENT << 29)
    if operation == SecOp.GRP0 and tert:
        mask = [("SUBDEVICE_MASK", f"{SUBDEVICE_MASK.unpack(head)['subdevice_mask']:#x}")]
        return _lone(_MASK_OPERATIONS[tert], at, head, SUBDEVICE_MASK.unknown(head), mask)
    header = _header(head, operation, tert)
    if header is None:
        kind = [("sec_op", str(operation)), ("tert_op", str(tert))]
        return Packet("PB", f"?{head:#010x}", at, [head], kind, unknown=True,
                      notes=["no method header"])  # fmt: skip
    if header.form == "IMMD":
        return _methods(header, at, [head], [header.count], channel)
    body = words[at + 1 : at + 1 + header.count]
    return _methods(header, at, [head, *body], body, channel)


def _nothing(words: list[int], at: int) -> Packet:
    """Words of 0, which do nothing, as one packet."""
    end = at
    while end < len(words) and words[end] == 0:
        end += 1
    return Packet("PB", "NOP", at, words[at:end])


def _lone(name: str, at: int, head: int, stray: int, fields: Fields | None = None) -> Packet:
    found = [*(fields or [])] + ([("reserved", f"?{stray:#x}")] if stray else [])
    return Packet("PB", name, at, [head], found, unknown=bool(stray))


def _header(head: int, operation: int, tert: int) -> _Header | None:
    if operation in _OLD_FORMS:
        old = OLD_HEADER.unpack(head)
        form = _OLD_FORMS[SecOp(operation)]
        if tert:
            return None
        method = old["method_address"] * 4
        return _Header(form, old["method_subchannel"], method, old["method_count"])
    if operation not in _FORMS:
        return None
    new = host.METHOD_HEADER.unpack(head)
    return _Header(
        _FORMS[SecOp(operation)],
        new["method_subchannel"],
        new["method_address"] * 4,
        new["method_count"],
    )


def _methods(header: _Header, at: int, raw: list[int], data: list[int], channel: Channel) -> Packet:
    engine, table, notes = channel.table(header.subchannel, header.method)
    known = table is not None and header.method in table.names
    name = table.names[header.method] if table and known else f"?{header.method:#06x}"
    fields = [] if header.form == "INC" else [("form", header.form)]
    if table is None or not data:
        fields += [("words", ",".join(f"{word:#x}" for word in data))] if data else []
    else:
        more, is_known = _words(header, data, table, channel)
        fields += more
        known = known and is_known
    missing = 0 if header.form == "IMMD" else header.count - len(data)
    if missing:
        notes = [*notes, f"!torn needs {header.count}, has {len(data)}"]
    if not known and name.startswith("?"):
        notes = [*notes, f"unknown method on subchannel {header.subchannel}"]
    return Packet(engine, name, at, raw, fields, notes=notes, unknown=not known, torn=missing > 0)


def _words(header: _Header, data: list[int], table: Table, channel: Channel) -> tuple[Fields, bool]:
    """The words' meanings, method by method; two that make one address are shown as one."""
    if header.form in _STAYS and len(data) > 1:
        values = ",".join(f"{word:#x}" for word in data)
        return [(table.names.get(header.method, f"?{header.method:#06x}"), values)], True
    fields: Fields = []
    known = True
    index = 0
    while index < len(data):
        method = _method_of(header, index)
        pair = joined(table, method) if _moves_on(header, index, len(data)) else None
        if pair is not None:
            is_upper_first, name = pair
            first, second = data[index], data[index + 1]
            value = first << 32 | second if is_upper_first else second << 32 | first
            fields.append((name, f"{value:#x}"))
            index += 2
            continue
        if table is HOST and method == host.SET_OBJECT:
            more, is_known = _bind(header.subchannel, data[index], channel)
        else:
            more, is_known = word_fields(table, method, data[index])
        fields += more
        known = known and is_known
        index += 1
    return fields, known


def _method_of(header: _Header, index: int) -> int:
    if header.form in _STAYS:
        return header.method
    step = min(index, 1) if header.form == "ONE_INC" else index
    return header.method + 4 * step


def _moves_on(header: _Header, index: int, count: int) -> bool:
    """Whether the next word is there and goes to the next method."""
    return index + 1 < count and _method_of(header, index + 1) != _method_of(header, index)


def _bind(subchannel: int, word: int, channel: Channel) -> tuple[Fields, bool]:
    found = host.SET_OBJECT_WORD.unpack(word)
    number = found["nvclass"]
    channel.bound[subchannel] = number
    is_known = number in TABLES
    name = classes.NAMES.get(number, "") if is_known else f"?{number:#06x}"
    fields = [("subchannel", str(subchannel)), ("NVCLASS", name)]
    if found["engine"]:
        fields.append(("ENGINE", str(found["engine"])))
    stray = host.SET_OBJECT_WORD.unknown(word)
    if stray:
        fields.append(("reserved", f"?{stray:#x}"))
    return fields, is_known and not stray
