"""NVIDIA pushbuffer words to packets: one method header with its words is one packet.

Never reads past the end. Which class a subchannel holds is followed over all words of a
channel: SET_OBJECT says it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

from hcq.bits import Layout
from hcq.nv.arch import ARCHES
from hcq.nv.defs import compute, host
from hcq.nv.defs.host import SecOp
from hcq.nv.methods import COMPUTE_SUBCHANNEL, COPY_SUBCHANNEL
from tools.hcq_dump import qmd
from tools.hcq_dump.classes import NAMES
from tools.hcq_dump.fields import bit_fields, count, hexadecimal, words
from tools.hcq_dump.host_methods import HOST
from tools.hcq_dump.method_table import Table
from tools.hcq_dump.methods import CACHED, TABLES, Sent, bit_by_bit, meaning
from tools.hcq_dump.record import WORD_BYTES, BitField, Fields, Packet

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
IMMEDIATE_HEADER = Layout("IMMEDIATE_HEADER", 32, {
    "sec_op":            (31, 29),
    "immd_data":         (28, 16),
    "method_subchannel": (15, 13),
    "method_address":    (11,  0),
})  # fmt: skip
_IMMEDIATE_BIT = IMMEDIATE_HEADER.fields["immd_data"][1]
# SET_INLINE_QMD_ADDRESS_A: the address has 57 bits, of which 8 are not there.
_INLINE_UPPER = Layout("INLINE_QMD_UPPER", 32, {"address": (16, 0)})
_LAUNCHING = frozenset(
    (compute.SEND_PCAS_A, compute.SET_INLINE_QMD_ADDRESS_A, compute.LOAD_INLINE_QMD_DATA)
)
_MASK_OPERATIONS = {1: "SET_SUB_DEV_MASK", 2: "STORE_SUB_DEV_MASK", 3: "USE_SUB_DEV_MASK"}
_FORMS = {
    SecOp.INC_METHOD: "INC",
    SecOp.NON_INC_METHOD: "NON_INC",
    SecOp.ONE_INC: "1INC",
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
    buffer: int = 0  # whose words are being read
    records: Mapping[int, str] = field(default_factory=dict)  # address: where it is shown
    launches: dict[int, str] = field(default_factory=dict)  # address: what started it last

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
        if number in NAMES and number not in TABLES:
            notes.append(f"{NAMES[number]}: its methods have no names here")
        return f"{number:04X}", TABLES.get(number), notes


@dataclass(frozen=True)
class _Header:
    form: str
    subchannel: int
    method: int
    count: int
    layout: Layout

    @property
    def fields(self) -> Fields:
        """What every line of a method says of its header."""
        return [("subch", count(self.subchannel)), ("form", self.form)]


def decode(listed: list[int], channel: Channel | None = None, needed: int = 0) -> Iterator[Packet]:
    """Every packet of one segment; the last one may be torn.

    needed: how many words the segment has, where fewer may be here.
    """
    channel = channel or Channel()
    missing = needed - len(listed)
    if missing > 0:
        yield from decode(listed, channel)
        yield Packet("PB", "UNRECORDED", len(listed), [], [("words", count(missing))], torn=True)
        return
    at = 0
    while at < len(listed):
        packet = _packet(listed, at, channel)
        yield packet
        at += len(packet.raw)
        if packet.opcode == "END_PB_SEGMENT" and at < len(listed):
            rest: Fields = [("words", count(len(listed) - at))]
            yield Packet("PB", "UNFETCHED", at, listed[at:], rest)
            return


def bound_classes(listed: list[int]) -> list[int]:
    """The classes that the words bind to subchannels, in order."""
    channel, found = Channel(), list[int]()
    for packet in decode(listed, channel):
        if packet.opcode == "SET_OBJECT":
            found += [number for number in channel.bound.values() if number not in found]
    return found


def _packet(listed: list[int], at: int, channel: Channel) -> Packet:
    head = listed[at]
    if head == 0:
        return _nothing(listed, at)
    operation, tert = _operations(head)
    if operation == SecOp.END_PB_SEGMENT:
        return _lone("END_PB_SEGMENT", at, head, head ^ SecOp.END_PB_SEGMENT << 29)
    if operation == SecOp.GRP0 and tert:
        mask = hexadecimal(SUBDEVICE_MASK.unpack(head)["subdevice_mask"])
        stray = SUBDEVICE_MASK.unknown(head)
        return _lone(_MASK_OPERATIONS[tert], at, head, stray, [("SUBDEVICE_MASK", mask)])
    header = _header(head, operation, tert)
    if header is None:
        kind: Fields = [("sec_op", count(operation)), ("tert_op", count(tert))]
        return Packet("PB", f"?{head:#010x}", at, [head], kind, unknown=True,
                      notes=["no method header"])  # fmt: skip
    if header.form == "IMMD":
        return _methods(header, at, [head], [header.count], channel)
    body = listed[at + 1 : at + 1 + header.count]
    return _methods(header, at, [head, *body], body, channel)


def _nothing(listed: list[int], at: int) -> Packet:
    """Words of 0, which do nothing, as one packet."""
    end = at
    while end < len(listed) and listed[end] == 0:
        end += 1
    return Packet("PB", "NOP", at, listed[at:end])


def _lone(name: str, at: int, head: int, stray: int, fields: Fields | None = None) -> Packet:
    found = [*(fields or [])] + ([("reserved", f"?{stray:#x}")] if stray else [])
    layout = SUBDEVICE_MASK if fields else Layout("END_PB_SEGMENT", 32, {"sec_op": (31, 29)})
    bits = partial(_header_bits, layout, head)
    return Packet("PB", name, at, [head], found, bits, unknown=bool(stray))


def _header_bits(layout: Layout, head: int) -> tuple[BitField, ...]:
    """The fields of a header word, in the header files' capitals."""
    return tuple(replace(bits, name=bits.name.upper()) for bits in bit_fields(layout, head, 0))


@lru_cache(maxsize=CACHED)
def _operations(head: int) -> tuple[int, int]:
    """What a header is: its operation and, for the old forms, the third one."""
    return host.METHOD_HEADER.unpack(head)["sec_op"], OLD_HEADER.unpack(head)["tert_op"]


@lru_cache(maxsize=CACHED)
def _header(head: int, operation: int, tert: int) -> _Header | None:
    if operation in _OLD_FORMS:
        layout, form, unit = OLD_HEADER, _OLD_FORMS[SecOp(operation)], 4
        if tert:
            return None
    elif operation in _FORMS:
        is_immediate = operation == SecOp.IMMD_DATA_METHOD
        layout = IMMEDIATE_HEADER if is_immediate else host.METHOD_HEADER
        form, unit = _FORMS[SecOp(operation)], 4
    else:
        return None
    found = layout.unpack(head)
    amount = found.get("method_count", found.get("immd_data", 0))
    method = found["method_address"] * unit
    return _Header(form, found["method_subchannel"], method, amount, layout)


def _methods(header: _Header, at: int, raw: list[int], data: list[int], channel: Channel) -> Packet:
    engine, table, notes = channel.table(header.subchannel, header.method)
    method = table.get(header.method) if table else None
    name = method.name if method else f"?{header.method:#06x}"
    fields, known = header.fields, method is not None
    sent = _sent(header, data)
    if table is None:
        fields += [("words", words(data))] if data else []
    else:
        found = meaning(table, sent)
        fields += found.fields
        known = known and found.known
        _follow(header.subchannel, table, sent, channel)
        notes = [*notes, *_launches(table, sent, channel, at)]
    missing = 0 if header.form == "IMMD" else header.count - len(data)
    if missing:
        notes = [*notes, f"!torn needs {header.count}, has {len(data)}"]
    if table is not None and method is None:
        notes = [*notes, f"unknown method on subchannel {header.subchannel}"]
    bits = partial(_bits, header.layout, raw[0], table, sent)
    return Packet(engine, name, at, raw, fields, bits, notes, not known, missing > 0)


def _bits(layout: Layout, head: int, table: Table | None, sent: list[Sent]) -> list[BitField]:
    return [*_header_bits(layout, head), *(bit_by_bit(table, sent) if table else [])]


def _sent(header: _Header, data: list[int]) -> list[Sent]:
    """Each word with the method it goes to."""
    if header.form == "IMMD":
        return [Sent(0, header.method, data[0], _IMMEDIATE_BIT)]
    return [
        Sent(1 + index, header.method + 4 * _steps(header, index), word)
        for index, word in enumerate(data)
    ]


def _steps(header: _Header, index: int) -> int:
    if header.form in _STAYS:
        return 0
    return min(index, 1) if header.form == "1INC" else index


def _follow(subchannel: int, table: Table, sent: list[Sent], channel: Channel) -> None:
    """Remember what SET_OBJECT binds."""
    for item in sent:
        if table is HOST and item.method == host.SET_OBJECT:
            channel.bound[subchannel] = host.SET_OBJECT_WORD.unpack(item.word)["nvclass"]


def _launches(table: Table, sent: list[Sent], channel: Channel, at: int) -> Iterator[str]:
    """Where the launch records lie that the words start, and records among the words."""
    if compute.SEND_PCAS_A not in table or _LAUNCHING.isdisjoint(item.method for item in sent):
        return
    named = [(table[item.method].name, item.word) for item in sent if item.method in table]
    for name, word in named:
        if name == "SEND_PCAS_A":
            address = word << compute.QMD_ADDRESS_SHIFT
            channel.launches[address] = f"b{channel.buffer}+{at * WORD_BYTES:#06x}"
            shown = channel.records.get(address)
            yield f"qmd={address:#x}" + (f" in {shown}" if shown else "")
    words_of = dict(named)
    if "SET_INLINE_QMD_ADDRESS_A" in words_of and "SET_INLINE_QMD_ADDRESS_B" in words_of:
        upper = _INLINE_UPPER.unpack(words_of["SET_INLINE_QMD_ADDRESS_A"])["address"]
        lower = words_of["SET_INLINE_QMD_ADDRESS_B"]
        yield f"qmd={(upper << 32 | lower) << compute.QMD_ADDRESS_SHIFT:#x}"
    inline = [word for name, word in named if name.startswith("LOAD_INLINE_QMD_DATA(")]
    if inline and named[-len(inline)][0] == "LOAD_INLINE_QMD_DATA(0)":
        yield from _inline_record(inline, channel.arch)


def _inline_record(listed: list[int], arch: str) -> Iterator[str]:
    """A launch record in a run of methods, if it is all there."""
    record = next(qmd.decode(listed, arch))
    if not record.torn and not record.unknown:
        yield " ".join([record.opcode, *(f"{key}={value}" for key, value in record.fields)])
