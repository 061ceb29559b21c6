"""Methods of channels as functions that give words.

Pure: nothing here knows a device. Source: hcq.nv.defs.host, compute, copy.
"""

from collections.abc import Sequence

from hcq.bits import align
from hcq.errors import FieldError
from hcq.nv.defs import compute, copy, host
from hcq.nv.defs.host import Operation, SecOp
from hcq.queue import Number, Word, high, low

HOST_SUBCHANNEL, COMPUTE_SUBCHANNEL, COPY_SUBCHANNEL = 0, 1, 4


def method(subchannel: int, address: int, *data: Word) -> list[Word]:
    """Words for one method and those after it, one each."""
    return [_header(SecOp.INC_METHOD, subchannel, address, len(data)), *data]


def method_once(subchannel: int, address: int, data: Sequence[Word]) -> list[Word]:
    """All words for one and the same method."""
    return [_header(SecOp.NON_INC_METHOD, subchannel, address, len(data)), *data]


def immediate(subchannel: int, address: int, value: int) -> list[Word]:
    """One method whose 13-bit value lies in the header."""
    return [_header(SecOp.IMMD_DATA_METHOD, subchannel, address, value)]


def _header(kind: SecOp, subchannel: int, address: int, count: int) -> int:
    return host.METHOD_HEADER.pack(
        sec_op=kind,
        method_count=count,
        method_subchannel=subchannel,
        method_address=address // 4,
    )


# Host methods.


def semaphore(address: Number, value: Number, **execute: int) -> list[Word]:
    """A semaphore operation with a 64-bit payload (payload_size=0: 32 bits)."""
    unit = 16 if execute.get("release_timestamp") else 8 if execute.get("payload_size", 1) else 4
    if isinstance(address, int) and address % unit:
        raise FieldError(
            f"semaphore address {address:#x} is not a multiple of {unit}",
            facts={"address": hex(address), "alignment": unit},
        )
    word = host.SEM_EXECUTE_WORD.pack(**{"payload_size": 1, **execute})
    return method(
        HOST_SUBCHANNEL,
        host.SEM_ADDR_LO,
        low(address),
        high(address),
        low(value),
        high(value),
        word,
    )


def release(address: Number, value: Number) -> list[Word]:
    """Write value and time (16 bytes) once everything before has finished."""
    # wfi: without it the release may pass a kernel that is still running.
    return semaphore(
        address, value, operation=Operation.RELEASE, release_wfi=1, release_timestamp=1
    )


def acquire(address: Number, value: Number) -> list[Word]:
    """Go on once the cell holds at least value, seen in a circle of 2**64."""
    return semaphore(address, value, operation=Operation.ACQ_CIRC_GEQ)


# Compute methods.


def bind(subchannel: int, number: int) -> list[Word]:
    """Bind a class to a subchannel."""
    return method(subchannel, host.SET_OBJECT, host.SET_OBJECT_WORD.pack(nvclass=number))


def windows(shared: int, local: int) -> list[Word]:
    """Where kernels see shared and private memory."""
    sub = COMPUTE_SUBCHANNEL
    return [
        *method(sub, compute.SET_SHADER_LOCAL_MEMORY_WINDOW_A, high(local), low(local)),
        *method(sub, compute.SET_SHADER_SHARED_MEMORY_WINDOW_A, high(shared), low(shared)),
    ]


def local_memory(address: int, bytes_per_tpc: int, max_sms: int = 0xFF) -> list[Word]:
    """The private memory of all threads: where it lies and how much each TPC has of it."""
    sub = COMPUTE_SUBCHANNEL
    return [
        *method(sub, compute.SET_SHADER_LOCAL_MEMORY_A, high(address), low(address)),
        *method(
            sub,
            compute.SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A,
            high(bytes_per_tpc),
            low(bytes_per_tpc),
            compute.NON_THROTTLED_C_WORD.pack(max_sm_count=max_sms),
        ),
    ]


def invalidate_caches() -> list[Word]:
    """Drop cached instructions, data and constants of the SMs."""
    word = compute.INVALIDATE_SHADER_CACHES_NO_WFI_WORD.pack(
        constant=1, global_data=1, instruction=1
    )
    return method(COMPUTE_SUBCHANNEL, compute.INVALIDATE_SHADER_CACHES_NO_WFI, word)


def wait_idle() -> list[Word]:
    """Let every launch before finish."""
    return method(COMPUTE_SUBCHANNEL, compute.WAIT_FOR_IDLE, 0)


def launch(record: Word) -> list[Word]:
    """Run the grid of a launch record; the word is its address >> 8."""
    # Copying, because records lie where others lay before.
    action = compute.SEND_SIGNALING_PCAS2_B_WORD.pack(
        pcas_action=compute.PCAS_INVALIDATE_COPY_SCHEDULE
    )
    sub = COMPUTE_SUBCHANNEL
    return [
        *method(sub, compute.SEND_PCAS_A, record),
        *method(sub, compute.SEND_SIGNALING_PCAS2_B, action),
    ]


def write_inline(address: Number, words: Sequence[Word]) -> list[Word]:
    """Words stored to memory by the compute engine, flushed before what follows."""
    sub = COMPUTE_SUBCHANNEL
    how = compute.LAUNCH_DMA_WORD.pack(
        dst_memory_layout=compute.DST_PITCH, completion_type=compute.COMPLETION_FLUSH_ONLY
    )
    return [
        *method(sub, compute.LINE_LENGTH_IN, len(words) * 4, 1, high(address), low(address)),
        *method(sub, compute.LAUNCH_DMA, how),
        *method_once(sub, compute.LOAD_INLINE_DATA, words),
    ]


# Copy methods.


def copy_linear(destination: Number, source: Number, size: int) -> list[Word]:
    """Copy bytes; waits for the copy before it."""
    sub = COPY_SUBCHANNEL
    how = copy.LAUNCH_DMA_WORD.pack(
        data_transfer_type=copy.TRANSFER_NON_PIPELINED,
        src_memory_layout=copy.PITCH,
        dst_memory_layout=copy.PITCH,
    )
    return [
        *method(
            sub,
            copy.OFFSET_IN_UPPER,
            high(source),
            low(source),
            high(destination),
            low(destination),
        ),
        *method(sub, copy.LINE_LENGTH_IN, size),
        *method(sub, copy.LAUNCH_DMA, how),
    ]


def fill(destination: Number, value: int, size: int) -> list[Word]:
    """Set bytes to a value: whole words where size and an int address allow, else single bytes."""
    sub = COPY_SUBCHANNEL
    is_wide = size % 4 == 0 and isinstance(destination, int) and destination % 4 == 0
    unit = 4 if is_wide else 1
    components = copy.REMAP_COMPONENTS_WORD.pack(
        dst_x=copy.REMAP_CONST_A, component_size=unit - 1, num_dst_components=0
    )
    how = copy.LAUNCH_DMA_WORD.pack(
        data_transfer_type=copy.TRANSFER_NON_PIPELINED,
        src_memory_layout=copy.PITCH,
        dst_memory_layout=copy.PITCH,
        remap_enable=1,
    )
    constant = int.from_bytes(bytes([value]) * unit, "little")
    return [
        *method(sub, copy.SET_REMAP_CONST_A, constant),
        *method(sub, copy.SET_REMAP_COMPONENTS, components),
        *method(sub, copy.OFFSET_OUT_UPPER, high(destination), low(destination)),
        *method(sub, copy.LINE_LENGTH_IN, size // unit),
        *method(sub, copy.LAUNCH_DMA, how),
    ]


def flush_copies() -> list[Word]:
    """What copies wrote is visible to the CPU and to other engines before what follows."""
    how = copy.LAUNCH_DMA_WORD.pack(flush_enable=1, flush_type=copy.FLUSH_SYS)
    return method(COPY_SUBCHANNEL, copy.LAUNCH_DMA, how)


def padded(words: Sequence[int], unit: int) -> list[int]:
    """Words with zeros (which do nothing) up to a multiple of unit."""
    return [*words, *[0] * (align(len(words), unit) - len(words))]
