"""SDMA packets as functions: fields in, words out."""

from collections.abc import Sequence

from hcq.amd.defs import pm4, sdma
from hcq.amd.defs.sdma import Op
from hcq.bits import hi32, lo32
from hcq.queue import Number, Word, high, low, word32

CACHE_WORD_BITS = 16  # of the cache control that lie in the packet's third word


def copy_linear(destination: Number, source: Number, size: int) -> list[Word]:
    """Copy bytes; size is within the engine's limit."""
    return [
        sdma.COPY_LINEAR_HEADER.pack(op=Op.COPY, sub_op=sdma.SUBOP_COPY_LINEAR),
        sdma.COPY_LINEAR_COUNT.pack(count=size - 1),
        0,
        low(source),
        high(source),
        low(destination),
        high(destination),
    ]


def fill(destination: Number, value: int, size: int) -> list[Word]:
    """Set bytes to the low byte of value; whole words when size and value allow."""
    whole = size % 4 == 0 and (isinstance(destination, int) and destination % 4 == 0)
    count = size - 4 if whole else size - 1
    return [
        sdma.CONST_FILL_HEADER.pack(
            op=Op.CONST_FILL, fillsize=sdma.FILL_DWORD if whole else sdma.FILL_BYTE
        ),
        low(destination),
        high(destination),
        value & 0xFF if not whole else (value & 0xFF) * 0x0101_0101,
        sdma.CONST_FILL_COUNT.pack(count=count),
    ]


def write_linear(destination: Number, words: Sequence[int]) -> list[Word]:
    """Store words that stand in the packet."""
    return [
        sdma.HEADER.pack(op=Op.WRITE, sub_op=sdma.SUBOP_WRITE_LINEAR),
        low(destination),
        high(destination),
        sdma.WRITE_COUNT.pack(count=len(words) - 1),
        *words,
    ]


def fence(address: Number, value: Number) -> list[Word]:
    """Store 32 bits once everything before has finished."""
    return [
        sdma.FENCE_HEADER.pack(op=Op.FENCE, mtype=sdma.MTYPE_UNCACHED),
        low(address),
        high(address),
        word32(value, "FENCE data"),
    ]


def poll_memory(address: Number, function: int, value: Number, mask: int) -> list[Word]:
    """Stall until the 32-bit word at address, under mask, compares with value."""
    return [
        sdma.POLL_REGMEM_HEADER.pack(op=Op.POLL_REGMEM, func=function, mem_poll=1),
        low(address),
        high(address),
        word32(value, "POLL_REGMEM reference"),
        word32(mask, "POLL_REGMEM mask"),
        sdma.POLL_REGMEM_RETRY.pack(
            interval=sdma.POLL_INTERVAL, retry_count=sdma.POLL_RETRY_FOREVER
        ),
    ]


def timestamp(address: Number) -> list[Word]:
    """Store the 64-bit GPU clock."""
    return [
        sdma.HEADER.pack(op=Op.TIMESTAMP, sub_op=sdma.SUBOP_TIMESTAMP_GET_GLOBAL),
        low(address),
        high(address),
    ]


def trap(event: int) -> list[Word]:
    """Interrupt the host with an event id."""
    return [sdma.HEADER.pack(op=Op.TRAP), sdma.TRAP_CONTEXT.pack(int_context=event)]


def cache_request(**caches: int) -> list[Word]:
    """Invalidate or write back the engine's caches for all memory; names as in GCR_CNTL."""
    control = pm4.ACQUIRE_MEM_GCR.pack(**caches)
    first, rest = control % (1 << CACHE_WORD_BITS), control >> CACHE_WORD_BITS
    return [
        sdma.HEADER.pack(op=Op.GCR_REQ, sub_op=sdma.SUBOP_USER_GCR),
        0,
        sdma.GCR_BASE_HIGH.pack(gcr_control_15_0=first),
        sdma.GCR_LIMIT_LOW.pack(gcr_control_18_16=rest),
        0,
    ]


def indirect(address: int, count: int) -> list[Word]:
    """Run `count` words that lie at a 32-byte aligned address."""
    return [
        sdma.INDIRECT_HEADER.pack(op=Op.INDIRECT),
        lo32(address),
        hi32(address),
        sdma.INDIRECT_SIZE.pack(ib_size=count),
        0,
        0,
    ]
