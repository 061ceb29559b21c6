"""Host methods: semaphores, barriers, and binding classes to subchannels.

Source: NVIDIA open-gpu-doc, classes/host/clc56f.h; open-gpu-kernel-modules clc86f.h.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from hcq.bits import Layout
from hcq.errors import SimFault
from hcq.nv.defs import host
from hcq.nv.defs.host import Operation, Reduction
from sim.fields import fields
from sim.nv.compute import Compute
from sim.nv.copy import Copy
from sim.nv.engines import Engine

if TYPE_CHECKING:
    from sim.nv.channel import Channel

Handler = Callable[["Channel", int], bool]
LATCHES = frozenset({
    host.SEM_ADDR_LO, host.SEM_ADDR_HI, host.SEM_PAYLOAD_LO, host.SEM_PAYLOAD_HI,
    host.MEM_OP_A, host.MEM_OP_B, host.MEM_OP_C,
})  # fmt: skip
HANDLERS: dict[int, Handler] = {}
# Guess: as every public driver has it, the graphics runlist serves the copy engine on
# subchannel 4 and everything else below.
COPY_SUBCHANNEL = 4
_ADDRESS_LOW = Layout("SEM_ADDR_LO", 32, {"offset": (31, 2)})
_ADDRESS_HIGH = {
    False: Layout("SEM_ADDR_HI", 32, {"offset": (7, 0)}),
    True: Layout("SEM_ADDR_HI", 32, {"offset": (24, 0)}),
}
_MEMORY_OPERATIONS = {
    host.MEM_OP_MEMBAR, host.MEM_OP_L2_PEER_INVALIDATE, host.MEM_OP_L2_SYSMEM_INVALIDATE,
    host.MEM_OP_L2_FLUSH_DIRTY, host.MEM_OP_WAIT_SYS_READS,
}  # fmt: skip
_MEMBARS = (host.MEMBAR_SYS, 1)


def on(offset: int) -> Callable[[Handler], Handler]:
    """Register what a method does."""

    def register(handler: Handler) -> Handler:
        if offset in HANDLERS:
            raise SimFault(f"host method {offset:#06x} has two owners")
        HANDLERS[offset] = handler
        return handler

    return register


def write(channel: "Channel", subchannel: int, offset: int, word: int) -> bool:
    """Carry out a host method; False: it waits."""
    if offset == host.SET_OBJECT:
        channel.bind(subchannel, fields(host.SET_OBJECT_WORD, word)["nvclass"])
        return True
    if offset in LATCHES:
        channel.latches[offset] = word
        return True
    if offset not in HANDLERS:
        raise SimFault(f"host method {offset:#06x} is not simulated")
    return HANDLERS[offset](channel, word)


def engine(channel: "Channel", number: int, subchannel: int) -> Engine:
    """The engine of a class, on the subchannel where hardware has it."""
    is_copy = number == channel.gpu.chip.copy_class
    if is_copy != (subchannel == COPY_SUBCHANNEL) or subchannel > COPY_SUBCHANNEL:
        raise SimFault(f"class {number:#06x} is not served on subchannel {subchannel}")
    return Copy(channel, number) if is_copy else Compute(channel, number)


@on(host.NOP)
def nop(channel: "Channel", word: int) -> bool:
    return True


@on(host.NON_STALL_INTERRUPT)
def non_stall_interrupt(channel: "Channel", word: int) -> bool:
    channel.gpu.notify()
    return True


@on(host.YIELD)
def yield_(channel: "Channel", word: int) -> bool:
    return True


@on(host.WFI)
def wfi(channel: "Channel", word: int) -> bool:
    # Engines finish a method before the next one begins here.
    fields(host.WFI_WORD, word)
    return True


@on(host.MEM_OP_D)
def mem_op(channel: "Channel", word: int) -> bool:
    operation = fields(host.MEM_OP_D_WORD, word)["operation"]
    if operation not in _MEMORY_OPERATIONS:
        raise SimFault(f"MEM_OP_D operation {operation:#x} is not simulated")
    if operation == host.MEM_OP_MEMBAR:
        kind = fields(host.MEM_OP_C_WORD, channel.latches.get(host.MEM_OP_C, 0))["membar_type"]
        if kind not in _MEMBARS:
            raise SimFault(f"MEM_OP_C membar type {kind} is not known")
    return True


@on(host.SEM_EXECUTE)
def sem_execute(channel: "Channel", word: int) -> bool:
    found = fields(host.SEM_EXECUTE_WORD, word)
    wide, timestamp = bool(found["payload_size"]), bool(found["release_timestamp"])
    address = _semaphore(channel)
    size = 16 if timestamp else 8 if wide else 4
    if address % size:
        raise SimFault(f"semaphore at {address:#x} is not aligned to {size} bytes")
    payload = channel.latches.get(host.SEM_PAYLOAD_LO, 0)
    if wide:
        payload |= channel.latches.get(host.SEM_PAYLOAD_HI, 0) << 32
    operation = found["operation"]
    if operation == Operation.RELEASE:
        channel.release(address, payload, wide=wide, timestamp=timestamp)
        return True
    if operation == Operation.REDUCTION:
        _reduce(channel, address, payload, wide=wide, how=found["reduction"])
        return True
    return _acquire(channel, address, payload, wide=wide, operation=operation)


def _semaphore(channel: "Channel") -> int:
    for offset in (host.SEM_ADDR_LO, host.SEM_ADDR_HI):
        if offset not in channel.latches:
            raise SimFault("SEM_EXECUTE before the semaphore's address was set")
    wide = channel.gpu.chip.is_hopper_or_later
    low = fields(_ADDRESS_LOW, channel.latches[host.SEM_ADDR_LO])["offset"] << 2
    return fields(_ADDRESS_HIGH[wide], channel.latches[host.SEM_ADDR_HI])["offset"] << 32 | low


def _acquire(channel: "Channel", address: int, payload: int, *, wide: bool, operation: int) -> bool:
    memory = channel.memory
    value = memory.read64(address) if wide else memory.read32(address)
    bits = 64 if wide else 32
    if operation == Operation.ACQUIRE:
        passed = value == payload
    elif operation == Operation.ACQ_STRICT_GEQ:
        passed = value >= payload
    elif operation == Operation.ACQ_CIRC_GEQ:
        passed = (value - payload) % (1 << bits) < 1 << bits - 1
    elif operation == Operation.ACQ_AND:
        passed = bool(value & payload)
    elif operation == Operation.ACQ_NOR:
        passed = (value | payload) != (1 << bits) - 1
    else:
        raise SimFault(f"SEM_EXECUTE operation {operation} is not known")
    return passed


_REDUCTIONS: dict[int, Callable[[int, int], int]] = {
    Reduction.IXOR: lambda old, new: old ^ new,
    Reduction.IAND: lambda old, new: old & new,
    Reduction.IOR: lambda old, new: old | new,
    Reduction.IADD: lambda old, new: old + new,
}


def _reduce(channel: "Channel", address: int, payload: int, *, wide: bool, how: int) -> None:
    if how not in _REDUCTIONS:
        raise SimFault(f"SEM_EXECUTE reduction {how} is not simulated")
    memory = channel.memory
    if wide:
        memory.write64(address, _REDUCTIONS[how](memory.read64(address), payload) % 2**64)
    else:
        memory.write32(address, _REDUCTIONS[how](memory.read32(address), payload) % 2**32)
    channel.gpu.notify()
