"""PM4 packets as functions: fields in, words out.

Nothing here knows a device or an order; the queue puts the packets together.
"""

from collections.abc import Sequence

from hcq.amd.arch import Arch
from hcq.amd.defs import pm4, registers
from hcq.amd.defs.pm4 import Opcode
from hcq.bits import hi32, lo32
from hcq.errors import FieldError
from hcq.queue import Number, Word, high, low, word32

ALL_MEMORY = 0xFFFF_FFFF


def packet(opcode: Opcode, *body: Word) -> list[Word]:
    """A type 3 packet of the compute shader type."""
    header = pm4.HEADER.pack(
        type=pm4.TYPE3,
        count=len(body) - 1,
        opcode=opcode,
        shader_type=pm4.SHADER_TYPE_COMPUTE,
    )
    return [header, *body]


def set_registers(register: int, *values: Word) -> list[Word]:
    """Write consecutive shader registers, the first at a dword address."""
    if not pm4.SH_BASE <= register <= pm4.SH_END - len(values):
        raise FieldError(f"register {register:#x} is outside the shader window")
    return packet(Opcode.SET_SH_REG, register - pm4.SH_BASE, *values)


def dispatch(dimensions: Sequence[Word], initiator: int) -> list[Word]:
    """Start a grid of work-groups."""
    return packet(Opcode.DISPATCH_DIRECT, *dimensions, initiator)


def partial_flush() -> list[Word]:
    """Wait until every wave started so far has ended."""
    return packet(
        Opcode.EVENT_WRITE,
        pm4.EVENT_WRITE_CONTROL.pack(
            event_type=pm4.EVENT_CS_PARTIAL_FLUSH, event_index=pm4.EVENT_INDEX_CS_PARTIAL_FLUSH
        ),
    )


def acquire(arch: Arch, **caches: int) -> list[Word]:
    """Invalidate (and write back) the named caches for all memory."""
    return packet(
        Opcode.ACQUIRE_MEM,
        0,
        ALL_MEMORY,
        pm4.ACQUIRE_MEM_SIZE_HIGH.pack(coher_size_hi=0xFF),
        0,
        0,
        pm4.ACQUIRE_MEM_POLL_INTERVAL,
        arch.acquire_layout.pack(**caches),
    )


def release(
    arch: Arch,
    address: Number,
    value: Number,
    data: int,
    *,
    flush: bool = True,
    event: int | None = None,
) -> list[Word]:
    """At the end of the pipe: write back caches, write `data`, interrupt with an event id."""
    caches = arch.release if flush else {}
    kind = pm4.EVENT_CACHE_FLUSH_AND_INV_TS if flush else pm4.EVENT_BOTTOM_OF_PIPE_TS
    interrupt = pm4.RELEASE_INT_NONE if event is None else pm4.RELEASE_INT_AFTER_WRITE
    return packet(
        Opcode.RELEASE_MEM,
        arch.release_layout.pack(
            event_type=kind, event_index=pm4.EVENT_INDEX_END_OF_PIPE, **caches
        ),
        pm4.RELEASE_MEM_SELECT.pack(data_sel=data, int_sel=interrupt),
        low(address),
        high(address),
        low(value),
        high(value),
        pm4.RELEASE_MEM_CONTEXT.pack(int_ctxid=event or 0),
    )


def wait_memory(address: Number, function: int, value: Number, mask: int) -> list[Word]:
    """Stall until the 32-bit word at address, under mask, compares with value."""
    return packet(
        Opcode.WAIT_REG_MEM,
        pm4.WAIT_REG_MEM_CONTROL.pack(function=function, mem_space=pm4.WAIT_SPACE_MEMORY),
        low(address),
        high(address),
        word32(value, "WAIT_REG_MEM reference"),
        word32(mask, "WAIT_REG_MEM mask"),
        pm4.WAIT_REG_MEM_POLL.pack(poll_interval=pm4.WAIT_POLL_INTERVAL),
    )


def write_data(address: Number, words: Sequence[int]) -> list[Word]:
    """Store words to memory and wait for the store."""
    return packet(
        Opcode.WRITE_DATA,
        pm4.WRITE_DATA_CONTROL.pack(dst_sel=pm4.WRITE_DST_MEMORY, wr_confirm=1),
        low(address),
        high(address),
        *words,
    )


def indirect_buffer(address: int, count: int) -> list[Word]:
    """Run `count` words that lie at address."""
    return packet(
        Opcode.INDIRECT_BUFFER,
        lo32(address),
        pm4.INDIRECT_BUFFER_HIGH.pack(ib_base_hi=hi32(address)),
        pm4.INDIRECT_BUFFER_CONTROL.pack(ib_size=count, valid=1),
    )


def program_registers(address: int) -> list[Word]:
    """Where the code starts, 256-byte aligned."""
    where = address >> 8
    return set_registers(registers.COMPUTE_PGM_LO, lo32(where), hi32(where))
