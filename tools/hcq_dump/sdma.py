"""SDMA words to packets (generation 6.0). Never reads past the end."""

from collections.abc import Callable, Iterator
from functools import partial

from hcq.amd.defs import sdma
from hcq.bits import Layout
from tools.hcq_dump.fields import (
    COMPARE,
    address,
    bits,
    count,
    hexadecimal,
    number,
    packet_bits,
    words,
)
from tools.hcq_dump.record import BitField, Fields, Packet

COMMON = ("op", "sub_op")
Decoder = Callable[[list[int]], Fields]


def decode(listed: list[int]) -> Iterator[Packet]:
    """Every packet of the words; the last one may be torn."""
    at = 0
    while at < len(listed):
        packet = _packet(listed, at)
        yield packet
        at += len(packet.raw)


def _packet(listed: list[int], at: int) -> Packet:
    head = listed[at]
    fields = sdma.HEADER.unpack(head)
    kind = PACKETS.get((fields["op"], fields["sub_op"]))
    if kind is None:
        name = sdma.Op(fields["op"]).name if fields["op"] in _OPS else f"?{fields['op']:#04x}"
        note = f"unknown operation 0x{fields['op']:02X} sub 0x{fields['sub_op']:02X}, word skipped"
        word = [("word", hexadecimal(head))]
        return Packet("SDMA", name, at, [head], word, partial(_bits, [head]), [note], True)
    name, length, decoder = kind
    needs = _length(name, length, listed[at:])
    raw = listed[at : at + needs]
    if len(raw) < needs:
        torn = [("words", words(raw[1:]))] if raw[1:] else []
        return Packet("SDMA", name, at, raw, torn, partial(_bits, raw), torn=True,
                      notes=[f"!torn needs {needs - 1}, has {len(raw) - 1}"])  # fmt: skip
    return Packet("SDMA", name, at, raw, decoder(raw), partial(_bits, raw))


def _bits(raw: list[int]) -> list[BitField]:
    head = sdma.HEADER.unpack(raw[0])
    known = LAYOUTS.get((head["op"], head["sub_op"]), {})
    return list(packet_bits(raw, {0: sdma.HEADER, **known}))


def _length(name: str, fixed: int, listed: list[int]) -> int:
    """Words of the packet, header included; WRITE and NOP say it themselves."""
    if name == "NOP":
        return 1 + sdma.NOP_HEADER.unpack(listed[0])["count"]
    if name == "WRITE_LINEAR" and len(listed) > 3:
        return 4 + sdma.WRITE_COUNT.unpack(listed[3])["count"] + 1
    return fixed


def _nop(raw: list[int]) -> Fields:
    return [("skips", count(len(raw) - 1))] if len(raw) > 1 else []


def _copy(raw: list[int]) -> Fields:
    size = sdma.COPY_LINEAR_COUNT.unpack(raw[1])["count"] + 1
    flags = bits(sdma.COPY_LINEAR_HEADER, raw[0], skip=COMMON)
    ends = [("src", address(raw[3], raw[4])), ("dst", address(raw[5], raw[6]))]
    return [("n", count(size)), *ends, *flags, *bits(sdma.COPY_LINEAR_PARAMETER, raw[2])]


def _write(raw: list[int]) -> Fields:
    return [("dst", address(raw[1], raw[2])), ("data", words(raw[4:]))]


def _fill(raw: list[int]) -> Fields:
    size = sdma.CONST_FILL_HEADER.unpack(raw[0])["fillsize"]
    last = sdma.CONST_FILL_COUNT.unpack(raw[4])["count"]
    total = last + 4 if size == sdma.FILL_DWORD else last + 1
    where = ("dst", address(raw[1], raw[2]))
    return [("n", count(total)), where, ("value", hexadecimal(raw[3]))]


def _fence(raw: list[int]) -> Fields:
    flags = bits(sdma.FENCE_HEADER, raw[0], skip=COMMON)
    return [("mem", address(raw[1], raw[2])), ("data", number(raw[3])), *flags]


def _poll(raw: list[int]) -> Fields:
    head = sdma.POLL_REGMEM_HEADER.unpack(raw[0])
    func = COMPARE.get(head["func"], f"?{head['func']}")
    mask = "~0" if raw[4] == 0xFFFFFFFF else hexadecimal(raw[4])
    where = ("mem" if head["mem_poll"] else "reg", address(raw[1], raw[2]))
    flush = [("hdp_flush", count(1))] if head["hdp_flush"] else []
    return [("func", func), where, ("ref", number(raw[3])), ("mask", mask), *flush]


def _trap(raw: list[int]) -> Fields:
    return [("ctxid", count(sdma.TRAP_CONTEXT.unpack(raw[1])["int_context"]))]


def _timestamp(raw: list[int]) -> Fields:
    return [("mem", address(raw[1], raw[2]))]


def _atomic(raw: list[int]) -> Fields:
    flags = bits(sdma.ATOMIC_HEADER, raw[0], skip=COMMON)
    values = [("src", address(raw[3], raw[4])), ("cmp", address(raw[5], raw[6]))]
    return [("mem", address(raw[1], raw[2])), *values, *flags]


def _indirect(raw: list[int]) -> Fields:
    size = sdma.INDIRECT_SIZE.unpack(raw[3])["ib_size"]
    return [("ib", address(raw[1], raw[2])), ("ndw", count(size))]


def _gcr(raw: list[int]) -> Fields:
    low = sdma.GCR_BASE_HIGH.unpack(raw[2])["gcr_control_15_0"]
    high = sdma.GCR_LIMIT_LOW.unpack(raw[3])["gcr_control_18_16"]
    return [("gcr_control", hexadecimal(high << 16 | low))]


_OPS = {op.value for op in sdma.Op}

# (op, sub_op): name, words with header, decoder
PACKETS: dict[tuple[int, int], tuple[str, int, Decoder]] = {
    (sdma.Op.NOP, 0): ("NOP", 1, _nop),
    (sdma.Op.COPY, sdma.SUBOP_COPY_LINEAR): ("COPY_LINEAR", sdma.COPY_LINEAR_WORDS, _copy),
    (sdma.Op.WRITE, sdma.SUBOP_WRITE_LINEAR): ("WRITE_LINEAR", 5, _write),
    (sdma.Op.CONST_FILL, 0): ("CONST_FILL", sdma.CONST_FILL_WORDS, _fill),
    (sdma.Op.FENCE, 0): ("FENCE", sdma.FENCE_WORDS, _fence),
    (sdma.Op.POLL_REGMEM, 0): ("POLL_REGMEM", sdma.POLL_REGMEM_WORDS, _poll),
    (sdma.Op.TRAP, 0): ("TRAP", sdma.TRAP_WORDS, _trap),
    (sdma.Op.TIMESTAMP, sdma.SUBOP_TIMESTAMP_GET_GLOBAL): (
        "TIMESTAMP_GET_GLOBAL", sdma.TIMESTAMP_WORDS, _timestamp,
    ),
    (sdma.Op.ATOMIC, 0): ("ATOMIC", sdma.ATOMIC_WORDS, _atomic),
    (sdma.Op.INDIRECT, 0): ("INDIRECT", sdma.INDIRECT_WORDS, _indirect),
    (sdma.Op.GCR_REQ, sdma.SUBOP_USER_GCR): ("GCR_REQ", sdma.GCR_WORDS, _gcr),
}  # fmt: skip
# The layouts of words by their place in the packet, where they are more than one number.
LAYOUTS: dict[tuple[int, int], dict[int, Layout]] = {
    (sdma.Op.NOP, 0): {0: sdma.NOP_HEADER},
    (sdma.Op.COPY, sdma.SUBOP_COPY_LINEAR): {
        0: sdma.COPY_LINEAR_HEADER,
        1: sdma.COPY_LINEAR_COUNT,
        2: sdma.COPY_LINEAR_PARAMETER,
    },
    (sdma.Op.WRITE, sdma.SUBOP_WRITE_LINEAR): {3: sdma.WRITE_COUNT},
    (sdma.Op.CONST_FILL, 0): {0: sdma.CONST_FILL_HEADER, 4: sdma.CONST_FILL_COUNT},
    (sdma.Op.FENCE, 0): {0: sdma.FENCE_HEADER},
    (sdma.Op.POLL_REGMEM, 0): {0: sdma.POLL_REGMEM_HEADER, 5: sdma.POLL_REGMEM_RETRY},
    (sdma.Op.TRAP, 0): {1: sdma.TRAP_CONTEXT},
    (sdma.Op.ATOMIC, 0): {0: sdma.ATOMIC_HEADER},
    (sdma.Op.INDIRECT, 0): {0: sdma.INDIRECT_HEADER, 3: sdma.INDIRECT_SIZE},
    (sdma.Op.GCR_REQ, sdma.SUBOP_USER_GCR): {
        1: sdma.GCR_BASE_LOW,
        2: sdma.GCR_BASE_HIGH,
        3: sdma.GCR_LIMIT_LOW,
        4: sdma.GCR_LIMIT_HIGH,
    },
}
