"""PM4 packets of a compute queue, carried out. Written from the packet descriptions.

Source: hcq/amd/defs/pm4.py names the documents. A field or value that is not
simulated is refused by name; nothing is skipped.
"""

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from hcq.amd.defs import pm4
from hcq.amd.defs.pm4 import Opcode
from hcq.errors import SimFault
from sim.amd import launch
from sim.amd.queue import Frame, Queue, compare
from sim.fields import fields, not_simulated

if TYPE_CHECKING:
    from sim.amd.gpu import Gpu
    from sim.amd.queue import Setup

Handler = Callable[["Pm4Queue", "array[int]"], bool]

HANDLERS: dict[int, tuple[Handler, range]] = {}


def packet(opcode: Opcode, least: int, most: int | None = None) -> Callable[[Handler], Handler]:
    """Register what an opcode does, and how many words may follow its header."""

    def register(handler: Handler) -> Handler:
        if opcode in HANDLERS:
            raise SimFault(f"PM4 {opcode.name} has two owners")
        HANDLERS[opcode] = handler, range(least, (most or least) + 1)
        return handler

    return register


class Pm4Queue(Queue):
    """A compute queue. Positions count words."""

    unit = 4

    def __init__(self, gpu: "Gpu", setup: "Setup") -> None:
        super().__init__(gpu, setup)
        self.registers = launch.initial_registers()  # shader registers by dword address

    def length(self, frame: Frame) -> int:
        """Words of the packet, header included."""
        return _header(frame.words[frame.position]).length

    def packet(self, words: "array[int]") -> bool:
        """Carry out one packet; False: it waits."""
        known = _header(words[0])
        if self.gpu.traces:
            self.gpu.record("packet", self.gpu.index, self.name, known.name)
        return known.handler(self, words[1:])


@dataclass(frozen=True)
class _Header:
    """What a header says: words of the packet with it, and who carries it out."""

    name: str
    length: int
    handler: Handler


def _nothing(queue: Pm4Queue, body: "array[int]") -> bool:
    return True


@lru_cache(maxsize=1024)
def _header(header: int) -> _Header:
    """Read a header; SimFault when it is not a packet that is simulated."""
    if header == pm4.TYPE2_FILLER:
        return _Header("FILLER", 1, _nothing)
    kind = header >> 30
    if kind != pm4.TYPE3:
        raise SimFault(f"PM4 packet type {kind} is not known: header {header:#010x}")
    known = fields(pm4.HEADER, header)
    opcode, count = known["opcode"], known["count"]
    name = Opcode(opcode).name if opcode in _OPCODES else f"opcode {opcode:#x}"
    if opcode not in HANDLERS:
        raise SimFault(f"PM4 {name} is not simulated: header {header:#010x}")
    if known["predicate"]:
        raise SimFault(f"PM4 {name}: predication is not simulated")
    if opcode == Opcode.NOP and count == pm4.NOP_ONE_WORD_COUNT:
        return _Header(name, 1, _nothing)
    handler, lengths = HANDLERS[opcode]
    if count + 1 not in lengths:
        wanted = f"{lengths.start}" if len(lengths) == 1 else f"{lengths.start} or more"
        raise SimFault(f"PM4 {name} has {count + 1} words after its header, not {wanted}")
    return _Header(name, count + 2, handler)


_OPCODES = frozenset(Opcode)
_ANY = 1 << 14


@packet(Opcode.NOP, 1, _ANY)
def nop(queue: Pm4Queue, body: "array[int]") -> bool:
    return True


@packet(Opcode.SET_SH_REG, 2, _ANY)
def set_sh_reg(queue: Pm4Queue, body: "array[int]") -> bool:
    offset = fields(pm4.SET_REG_OFFSET, body[0])
    if offset["index"]:
        raise SimFault(f"SET_SH_REG index {offset['index']} is not simulated")
    first = pm4.SH_BASE + offset["reg_offset"]
    state = queue.registers
    for register, value in enumerate(body[1:], first):
        if register not in state:
            raise SimFault(f"SET_SH_REG: register {register:#x} is not simulated")
        state[register] = value
    return True


@packet(Opcode.DISPATCH_DIRECT, 4)
def dispatch_direct(queue: Pm4Queue, body: "array[int]") -> bool:
    x, y, z, initiator = body
    dispatch = launch.read(queue.registers, (x, y, z), initiator)
    return queue.gpu.dispatch(queue, dispatch)


@packet(Opcode.INDIRECT_BUFFER, 3)
def indirect_buffer(queue: Pm4Queue, body: "array[int]") -> bool:
    high = fields(pm4.INDIRECT_BUFFER_HIGH, body[1])["ib_base_hi"]
    control = fields(pm4.INDIRECT_BUFFER_CONTROL, body[2])
    if body[0] % 4:
        raise SimFault(f"INDIRECT_BUFFER address {body[0]:#x} is not aligned to a word")
    if not control["valid"]:
        raise SimFault("INDIRECT_BUFFER without its valid bit")
    if not control["ib_size"]:
        raise SimFault("INDIRECT_BUFFER of no words")
    queue.call(high << 32 | body[0], control["ib_size"], chain=bool(control["chain"]))
    return True


@packet(Opcode.ACQUIRE_MEM, 7)
def acquire_mem(queue: Pm4Queue, body: "array[int]") -> bool:
    fields(pm4.ACQUIRE_MEM_SIZE_HIGH, body[2])
    fields(pm4.ACQUIRE_MEM_BASE_HIGH, body[4])
    control = fields(pm4.ACQUIRE_MEM_GCR, body[6])
    if queue.gpu.caches:
        queue.gpu.caches.acquire(control)
    if body[0]:
        raise SimFault(f"ACQUIRE_MEM: word 1 is {body[0]:#x}; it is reserved on this chip")
    return True


@packet(Opcode.RELEASE_MEM, 7)
def release_mem(queue: Pm4Queue, body: "array[int]") -> bool:
    event = fields(pm4.RELEASE_MEM_EVENT, body[0])
    kinds = {pm4.EVENT_CACHE_FLUSH_AND_INV_TS: "CACHE_FLUSH_AND_INV_TS",
             pm4.EVENT_BOTTOM_OF_PIPE_TS: "BOTTOM_OF_PIPE_TS"}  # fmt: skip
    if event["event_type"] not in kinds:
        raise not_simulated("RELEASE_MEM event_type", event["event_type"], kinds)
    if event["event_index"] != pm4.EVENT_INDEX_END_OF_PIPE:
        raise not_simulated("RELEASE_MEM event_index", event["event_index"], {5: "end of pipe"})
    select = fields(pm4.RELEASE_MEM_SELECT, body[1])
    if select["dst_sel"] > pm4.RELEASE_DST_L2:
        raise not_simulated("RELEASE_MEM dst_sel", select["dst_sel"], {0: "memory", 1: "L2"})
    if queue.gpu.caches:
        queue.gpu.caches.release(event)
    _release(queue, select["data_sel"], body[3] << 32 | body[2], body[5] << 32 | body[4])
    context = fields(pm4.RELEASE_MEM_CONTEXT, body[6])["int_ctxid"]
    if select["int_sel"] in (pm4.RELEASE_INT_ONLY, pm4.RELEASE_INT_AFTER_WRITE):
        queue.gpu.interrupt(context)
    elif select["int_sel"] > pm4.RELEASE_INT_DATA_AFTER_WRITE:
        kinds = {0: "none", 1: "interrupt only", 2: "interrupt after write", 3: "data after write"}
        raise not_simulated("RELEASE_MEM int_sel", select["int_sel"], kinds)
    queue.gpu.notify()
    return True


def _release(queue: Pm4Queue, data_sel: int, address: int, value: int) -> None:
    memory = queue.gpu.memory
    if data_sel == pm4.RELEASE_DATA_32:
        memory.write32(address, value & 0xFFFF_FFFF)
    elif data_sel == pm4.RELEASE_DATA_64:
        memory.write64(address, value)
    elif data_sel == pm4.RELEASE_DATA_GPU_CLOCK:
        memory.write64(address, queue.gpu.ticks())
    elif data_sel != pm4.RELEASE_DATA_NONE:
        known = {0: "none", 1: "32 bits", 2: "64 bits", 3: "GPU clock"}
        raise not_simulated("RELEASE_MEM data_sel", data_sel, known)


@packet(Opcode.WAIT_REG_MEM, 6)
def wait_reg_mem(queue: Pm4Queue, body: "array[int]") -> bool:
    control = fields(pm4.WAIT_REG_MEM_CONTROL, body[0])
    if control["mem_space"] != pm4.WAIT_SPACE_MEMORY:
        raise SimFault(f"WAIT_REG_MEM of register {body[1]:#x} is not simulated")
    if control["operation"] != pm4.WAIT_OPERATION_WAIT:
        raise not_simulated("WAIT_REG_MEM operation", control["operation"], {0: "wait"})
    fields(pm4.WAIT_REG_MEM_POLL, body[5])
    address, reference, mask = body[2] << 32 | body[1], body[3], body[4]
    value = queue.gpu.memory.read32(address) & mask
    return compare(control["function"], value, reference)


@packet(Opcode.WRITE_DATA, 4, _ANY)
def write_data(queue: Pm4Queue, body: "array[int]") -> bool:
    control = fields(pm4.WRITE_DATA_CONTROL, body[0])
    if control["dst_sel"] not in (pm4.WRITE_DST_MEMORY, pm4.WRITE_DST_L2):
        raise not_simulated("WRITE_DATA dst_sel", control["dst_sel"], {2: "L2", 5: "memory"})
    address = body[2] << 32 | body[1]
    step = 0 if control["addr_incr"] else 4
    for index, word in enumerate(body[3:]):
        queue.gpu.memory.write32(address + step * index, word)
    queue.gpu.notify()
    return True


@packet(Opcode.COPY_DATA, 5)
def copy_data(queue: Pm4Queue, body: "array[int]") -> bool:
    control = fields(pm4.COPY_DATA_CONTROL, body[0])
    size = 8 if control["count_sel"] else 4
    source = body[2] << 32 | body[1]
    gpu = queue.gpu
    if control["src_sel"] == pm4.COPY_MEMORY:
        value = gpu.memory.read64(source) if size == 8 else gpu.memory.read32(source)
    elif control["src_sel"] == pm4.COPY_IMMEDIATE:
        value = source
    elif control["src_sel"] == pm4.COPY_GPU_CLOCK:
        value = gpu.ticks()
    else:
        known = {2: "memory", 5: "immediate", 9: "GPU clock"}
        raise not_simulated("COPY_DATA src_sel", control["src_sel"], known)
    if control["dst_sel"] != pm4.COPY_MEMORY:
        raise not_simulated("COPY_DATA dst_sel", control["dst_sel"], {2: "memory"})
    destination = body[4] << 32 | body[3]
    if size == 8:
        gpu.memory.write64(destination, value)
    else:
        gpu.memory.write32(destination, value & 0xFFFF_FFFF)
    gpu.notify()
    return True


@packet(Opcode.EVENT_WRITE, 1)
def event_write(queue: Pm4Queue, body: "array[int]") -> bool:
    event = fields(pm4.EVENT_WRITE_CONTROL, body[0])
    known = {pm4.EVENT_CS_PARTIAL_FLUSH: "CS_PARTIAL_FLUSH"}
    if event["event_type"] not in known:
        raise not_simulated("EVENT_WRITE event_type", event["event_type"], known)
    if event["event_index"] != pm4.EVENT_INDEX_CS_PARTIAL_FLUSH:
        raise not_simulated("EVENT_WRITE event_index", event["event_index"], {4: "partial flush"})
    # Waves of earlier dispatches are over by now: a dispatch is carried out to its end.
    return True


@packet(Opcode.DMA_DATA, 6)
def dma_data(queue: Pm4Queue, body: "array[int]") -> bool:
    control = fields(pm4.DMA_DATA_CONTROL, body[0])
    size = fields(pm4.DMA_DATA_COMMAND, body[5])["byte_count"]
    destination = body[4] << 32 | body[3]
    if control["dst_sel"] not in (pm4.DMA_SRC_ADDRESS, pm4.DMA_ADDRESS_L2):
        raise not_simulated("DMA_DATA dst_sel", control["dst_sel"], {0: "address", 3: "L2"})
    if control["src_sel"] == pm4.DMA_SRC_DATA:
        if size % 4:
            raise SimFault(f"DMA_DATA fill of {size} bytes is no whole word")
        queue.gpu.memory.write(destination, body[1].to_bytes(4, "little") * (size // 4))
    elif control["src_sel"] in (pm4.DMA_SRC_ADDRESS, pm4.DMA_ADDRESS_L2):
        queue.gpu.memory.move(destination, body[2] << 32 | body[1], size)
    else:
        known = {0: "address", 2: "data", 3: "L2"}
        raise not_simulated("DMA_DATA src_sel", control["src_sel"], known)
    queue.gpu.notify()
    return True
