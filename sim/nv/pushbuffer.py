"""Ring entries and method headers, decoded as strictly as a simulator should.

Source: NVIDIA open-gpu-doc, classes/host/clc56f.h; clc86f.h for the extended base.
"""

from dataclasses import dataclass

from hcq.bits import Layout
from hcq.errors import SimFault
from hcq.nv.defs import host
from hcq.nv.defs.host import SecOp
from sim.fields import fields

# The old forms, sec_op 0 and 2 with tert_op 0: count and offset lie elsewhere.
_OLD_HEADER = Layout("METHOD_HEADER (old)", 32, {
    "sec_op":            (31, 29),
    "method_count":      (28, 18),
    "tert_op":           (17, 16),
    "method_subchannel": (15, 13),
    "method_address":    (12,  2),
})
_EXTENDED_BASE = Layout("SET_PB_SEGMENT_EXTENDED_BASE", 32, {"base": (24, 8)})
_BASE_SHIFT = 40
_CONTROLS = {
    host.GP_OPCODE_NOP: "NOP",
    host.GP_OPCODE_SET_PB_SEGMENT_EXTENDED_BASE: "SET_PB_SEGMENT_EXTENDED_BASE",
}


@dataclass(frozen=True)
class Entry:
    """An entry of the ring: a segment (length in words), or a control with an operand."""

    address: int = 0
    length: int = 0
    opcode: int | None = None
    operand: int = 0


@dataclass
class Method:
    """A header that is being carried out; `left` data words are still to come."""

    subchannel: int
    offset: int
    left: int
    step: int = 0  # bytes that the offset moves after a word
    is_once: bool = False  # only after the first word
    immediate: int | None = None
    ends: bool = False  # nothing of the segment follows

    @property
    def is_fixed(self) -> bool:
        """Whether all data goes to one method."""
        return not self.step

    def advance(self, count: int) -> None:
        """`count` words were taken."""
        self.left -= count
        self.offset += self.step
        if self.is_once:
            self.step = 0


def entry(word: int, *, wide: bool) -> Entry:
    """A ring entry; SimFault for what hardware would not take."""
    control = host.GP_CONTROL.unpack(word)
    if control["length"]:
        found = fields(host.GP_ENTRY, word)
        if found["fetch"]:
            raise SimFault(f"ring entry {word:#018x}: conditional fetch is not simulated")
        return Entry(found["get_hi"] << 32 | found["get"] << 2, found["length"])
    opcode, operand = control["opcode"], control["operand"]
    if opcode not in _CONTROLS or (opcode and not wide):
        raise SimFault(f"ring entry {word:#018x}: control opcode {opcode} is not simulated")
    if opcode == host.GP_OPCODE_SET_PB_SEGMENT_EXTENDED_BASE:
        operand = fields(_EXTENDED_BASE, operand)["base"] << _BASE_SHIFT
    return Entry(opcode=opcode, operand=operand)


def header(word: int, left: int) -> Method:
    """A method header with `left` words after it; SimFault when it is none or cut off."""
    found = host.METHOD_HEADER.unpack(word)
    kind = found["sec_op"]
    if kind in (SecOp.GRP0, SecOp.GRP2):
        method = _old(word)
    else:
        offset, subchannel = 4 * found["method_address"], found["method_subchannel"]
        count = found["method_count"]
        if kind == SecOp.INC_METHOD:
            method = Method(subchannel, offset, count, step=4)
        elif kind == SecOp.NON_INC_METHOD:
            method = Method(subchannel, offset, count)
        elif kind == SecOp.ONE_INC:
            method = Method(subchannel, offset, count, step=4, is_once=True)
        elif kind == SecOp.IMMD_DATA_METHOD:
            return Method(subchannel, offset, 1, immediate=count)
        elif kind == SecOp.END_PB_SEGMENT:
            return Method(0, 0, 0, ends=True)
        else:
            raise SimFault(f"method header {word:#010x}: operation {kind} is not known")
    if method.left > left:
        raise SimFault(f"method header {word:#010x}: {method.left} words, but {left} are left")
    return method


def _old(word: int) -> Method:
    found = _OLD_HEADER.unpack(word)
    if found["tert_op"]:
        operation = found["tert_op"]
        raise SimFault(f"method header {word:#010x}: subdevice mask {operation} is not simulated")
    step = 4 if found["sec_op"] == SecOp.GRP0 else 0
    offset = 4 * found["method_address"]
    return Method(found["method_subchannel"], offset, found["method_count"], step=step)
