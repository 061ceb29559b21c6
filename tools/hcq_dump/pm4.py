"""PM4 words to packets. Decodes what is there; never reads past the end."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from hcq.amd.defs import pm4, registers
from hcq.bits import Layout
from tools.hcq_dump.fields import (
    COMPARE,
    WHOLE,
    address,
    bits,
    count,
    hexadecimal,
    number,
    packet_bits,
    upper,
    words,
)
from tools.hcq_dump.record import BitField, Fields, Packet

Decoder = Callable[[list[int]], Fields]

REGISTERS = {
    value: name
    for name, value in vars(registers).items()
    if name.startswith("COMPUTE_") and isinstance(value, int) and value >= pm4.SH_BASE
}
USER_DATA = range(
    registers.COMPUTE_USER_DATA_0,
    registers.COMPUTE_USER_DATA_0 + registers.COMPUTE_USER_DATA_COUNT,
)
REGISTER_LAYOUTS = {
    layout.name: layout for layout in vars(registers).values() if isinstance(layout, Layout)
}
EVENTS = {
    pm4.EVENT_CS_PARTIAL_FLUSH: "CS_PARTIAL_FLUSH",
    pm4.EVENT_CACHE_FLUSH_AND_INV_TS: "CACHE_FLUSH_AND_INV_TS",
    pm4.EVENT_BOTTOM_OF_PIPE_TS: "BOTTOM_OF_PIPE_TS",
}


def decode(listed: list[int]) -> Iterator[Packet]:
    """Every packet of the words; the last one may be torn."""
    at = 0
    while at < len(listed):
        packet = _packet(listed, at)
        yield packet
        at += len(packet.raw)


def _packet(listed: list[int], at: int) -> Packet:
    head = listed[at]
    fields = pm4.HEADER.unpack(head)
    if head == pm4.TYPE2_FILLER:
        return Packet("PM4", "FILLER", at, [head])
    if fields["type"] != pm4.TYPE3:
        kind: Fields = [("type", count(fields["type"]))]
        return Packet("PM4", f"?{head:#010x}", at, [head], kind, unknown=True,
                      notes=["not a type 2 filler or type 3 packet"])  # fmt: skip
    code = fields["opcode"]
    if code == pm4.Opcode.NOP and fields["count"] == pm4.NOP_ONE_WORD_COUNT:
        return Packet("PM4", "NOP", at, [head])
    needs = fields["count"] + 1
    body = listed[at + 1 : at + 1 + needs]
    raw = [head, *body]
    known = code in pm4.Opcode._value2member_map_
    name = pm4.Opcode(code).name if known else f"?{code:#04x}"
    flags: Fields = [(k, count(1)) for k in ("predicate",) if fields[k]]
    if len(body) < needs:
        torn = _listed(body)
        return Packet("PM4", name, at, raw, flags + torn, torn=True, unknown=not known,
                      notes=[f"!torn needs {needs}, has {len(body)}"])  # fmt: skip
    if not known:
        note = f"unknown opcode 0x{code:02X}, {needs} word{'s' if needs != 1 else ''}"
        return Packet("PM4", name, at, raw, flags + _listed(body), notes=[note], unknown=True)
    return _known(pm4.Opcode(code), at, raw, flags)


def _known(code: pm4.Opcode, at: int, raw: list[int], flags: Fields) -> Packet:
    body = raw[1:]
    decoder, length = DECODERS.get(code, (_plain, 0))
    if len(body) < length:
        note = f"{code.name} has {length} words, this one {len(body)}"
        return Packet("PM4", code.name, at, raw, flags + _plain(body), notes=[note], unknown=True)
    return Packet("PM4", code.name, at, raw, flags + decoder(body),
                  partial(_bits, code, raw))  # fmt: skip


def _plain(body: list[int]) -> Fields:
    return [(f"w{i}", hexadecimal(word)) for i, word in enumerate(body)]


def _listed(body: list[int]) -> Fields:
    return [("words", words(body))] if body else []


def _nop(body: list[int]) -> Fields:
    return [("words", count(len(body)))]


def register_name(register: int) -> str:
    """The register's name, or ?0x... for one that has none here."""
    if register in USER_DATA:
        return f"COMPUTE_USER_DATA_{register - USER_DATA.start}"
    return REGISTERS.get(register, f"?{register:#06x}")


def _set_registers(base: int) -> Decoder:
    def decoder(body: list[int]) -> Fields:
        first = base + pm4.SET_REG_OFFSET.unpack(body[0])["reg_offset"]
        return [(register_name(first + i), hexadecimal(word)) for i, word in enumerate(body[1:])]

    return decoder


def _bits(code: pm4.Opcode, raw: list[int]) -> list[BitField]:
    """Every bit field of a packet; those of registers have the register's name in front."""
    if code not in (pm4.Opcode.SET_SH_REG, pm4.Opcode.SET_UCONFIG_REG):
        return list(packet_bits(raw, {0: pm4.HEADER, **LAYOUTS.get(code, {})}))
    names = [name for name, _ in DECODERS[code][0](raw[1:])]
    layouts = {at: REGISTER_LAYOUTS.get(name, WHOLE) for at, name in enumerate(names, 2)}
    found = packet_bits(raw, {0: pm4.HEADER, 1: pm4.SET_REG_OFFSET, **layouts})
    return [
        replace(bits, name=f"{names[bits.word - 2]}.{bits.name}") if bits.word >= 2 else bits
        for bits in found
    ]


def _dispatch(body: list[int]) -> Fields:
    sizes = [(k, count(v)) for k, v in zip("xyz", body, strict=False)]
    return sizes + upper(bits(registers.DISPATCH_INITIATOR, body[3]))


def _indirect_buffer(body: list[int]) -> Fields:
    control = pm4.INDIRECT_BUFFER_CONTROL.unpack(body[2])
    rest = bits(pm4.INDIRECT_BUFFER_CONTROL, body[2], skip=("ib_size",))
    return [("ib", address(body[0], body[1])), ("ndw", count(control["ib_size"])), *rest]


def _acquire(body: list[int]) -> Fields:
    whole = body[1] == 0xFFFFFFFF
    size = "all" if whole else f"{(body[2] << 32 | body[1]) << 8:#x}"
    span = [("base", f"{(body[4] << 32 | body[3]) << 8:#x}"), ("size", size)]
    return span + upper(bits(pm4.ACQUIRE_MEM_GCR, body[6]))


def _release(body: list[int]) -> Fields:
    event = pm4.RELEASE_MEM_EVENT.unpack(body[0])["event_type"]
    caches = bits(pm4.RELEASE_MEM_EVENT, body[0], skip=("event_type", "event_index"))
    select = pm4.RELEASE_MEM_SELECT.unpack(body[1])
    found = [("event", EVENTS.get(event, f"?{event:#x}")), *upper(caches)]
    found += [("data_sel", count(select["data_sel"]))]
    if select["data_sel"]:
        found += [("mem", address(body[2], body[3])), ("data", address(body[4], body[5]))]
    if select["int_sel"]:
        found += [("int_sel", count(select["int_sel"])), ("ctxid", count(body[6]))]
    return found


def _wait(body: list[int]) -> Fields:
    control = pm4.WAIT_REG_MEM_CONTROL.unpack(body[0])
    memory = control["mem_space"] == pm4.WAIT_SPACE_MEMORY
    where = ("mem", address(body[1], body[2])) if memory else ("reg", hexadecimal(body[1]))
    mask = "~0" if body[4] == 0xFFFFFFFF else f"{body[4]:#x}"
    extra = [("operation", count(control["operation"]))] if control["operation"] else []
    func = ("func", COMPARE.get(control["function"], f"?{control['function']}"))
    return [func, where, ("ref", number(body[3])), ("mask", mask), *extra]


def _write_data(body: list[int]) -> Fields:
    control = bits(pm4.WRITE_DATA_CONTROL, body[0])
    return [*control, ("dst", address(body[1], body[2])), ("data", words(body[3:]))]


def _copy_data(body: list[int]) -> Fields:
    control = bits(pm4.COPY_DATA_CONTROL, body[0])
    return [*control, ("src", address(body[1], body[2])), ("dst", address(body[3], body[4]))]


def _event(body: list[int]) -> Fields:
    control = pm4.EVENT_WRITE_CONTROL.unpack(body[0])
    event = EVENTS.get(control["event_type"], f"?{control['event_type']:#x}")
    return [("event", event), ("index", count(control["event_index"]))]


def _dma(body: list[int]) -> Fields:
    ends = [("src", address(body[1], body[2])), ("dst", address(body[3], body[4]))]
    return [*bits(pm4.DMA_DATA_CONTROL, body[0]), *ends, *bits(pm4.DMA_DATA_COMMAND, body[5])]


def _predicated(body: list[int]) -> Fields:
    return bits(pm4.PRED_EXEC_CONTROL, body[0])


# Per opcode: its decoder and the least number of words after the header.
DECODERS: dict[pm4.Opcode, tuple[Decoder, int]] = {
    pm4.Opcode.NOP: (_nop, 0),
    pm4.Opcode.SET_SH_REG: (_set_registers(pm4.SH_BASE), 2),
    pm4.Opcode.SET_UCONFIG_REG: (_set_registers(pm4.UCONFIG_BASE), 2),
    pm4.Opcode.DISPATCH_DIRECT: (_dispatch, 4),
    pm4.Opcode.INDIRECT_BUFFER: (_indirect_buffer, 3),
    pm4.Opcode.ACQUIRE_MEM: (_acquire, 7),
    pm4.Opcode.RELEASE_MEM: (_release, 7),
    pm4.Opcode.WAIT_REG_MEM: (_wait, 6),
    pm4.Opcode.WRITE_DATA: (_write_data, 4),
    pm4.Opcode.COPY_DATA: (_copy_data, 5),
    pm4.Opcode.EVENT_WRITE: (_event, 1),
    pm4.Opcode.DMA_DATA: (_dma, 6),
    pm4.Opcode.PRED_EXEC: (_predicated, 1),
}
# The layouts of words behind the header, by their place in the packet.
LAYOUTS: dict[pm4.Opcode, dict[int, Layout]] = {
    pm4.Opcode.DISPATCH_DIRECT: {4: registers.DISPATCH_INITIATOR},
    pm4.Opcode.INDIRECT_BUFFER: {2: pm4.INDIRECT_BUFFER_HIGH, 3: pm4.INDIRECT_BUFFER_CONTROL},
    pm4.Opcode.ACQUIRE_MEM: {
        3: pm4.ACQUIRE_MEM_SIZE_HIGH,
        5: pm4.ACQUIRE_MEM_BASE_HIGH,
        7: pm4.ACQUIRE_MEM_GCR,
    },
    pm4.Opcode.RELEASE_MEM: {
        1: pm4.RELEASE_MEM_EVENT,
        2: pm4.RELEASE_MEM_SELECT,
        7: pm4.RELEASE_MEM_CONTEXT,
    },
    pm4.Opcode.WAIT_REG_MEM: {1: pm4.WAIT_REG_MEM_CONTROL, 6: pm4.WAIT_REG_MEM_POLL},
    pm4.Opcode.WRITE_DATA: {1: pm4.WRITE_DATA_CONTROL},
    pm4.Opcode.COPY_DATA: {1: pm4.COPY_DATA_CONTROL},
    pm4.Opcode.EVENT_WRITE: {1: pm4.EVENT_WRITE_CONTROL},
    pm4.Opcode.DMA_DATA: {1: pm4.DMA_DATA_CONTROL, 6: pm4.DMA_DATA_COMMAND},
    pm4.Opcode.PRED_EXEC: {1: pm4.PRED_EXEC_CONTROL},
}
