"""The compute class: windows, inline data, caches, report semaphores, and launches.

Source: NVIDIA open-gpu-doc, classes/compute/clc6c0.h to clcec0.h.
"""

from array import array
from typing import ClassVar

from hcq.bits import Layout
from hcq.errors import SimFault
from hcq.nv.defs import compute as c
from sim.fields import fields
from sim.nv.engines import Action, Engine, action

ACTIONS: dict[int, Action] = {}
REPORT_EXECUTE = Layout("REPORT_SEMAPHORE_EXECUTE", 32, {
    "trap_type":        (14, 13),
    "payload_size64":   (12, 12),
    "format":           (11, 10),
    "reduction_op":     ( 9,  7),
    "reduction_enable": ( 6,  6),
    "flush_disable":    ( 5,  5),
    "structure_size":   ( 4,  3),
    "awaken_enable":    ( 2,  2),
    "operation":        ( 1,  0),
})
_PCAS_B = Layout("SEND_SIGNALING_PCAS_B", 32, {"invalidate": (0, 0), "schedule": (1, 1)})
_ONE_LINE = Layout("INVALIDATE_CACHE_NO_WFI", 32, {"lines": (0, 0)})
_RELEASE = 0
_FOUR_WORDS, _ONE_WORD, _TWO_WORDS = 0, 1, 2
_NEW_REPORTS = frozenset({
    c.SET_REPORT_SEMAPHORE_PAYLOAD_LOWER, c.SET_REPORT_SEMAPHORE_PAYLOAD_UPPER,
    c.SET_REPORT_SEMAPHORE_ADDRESS_LOWER, c.SET_REPORT_SEMAPHORE_ADDRESS_UPPER,
    c.REPORT_SEMAPHORE_EXECUTE,
})  # fmt: skip
SCHEDULES = frozenset({
    c.PCAS_SCHEDULE, c.PCAS_INVALIDATE_COPY_SCHEDULE, c.PCAS_PREFETCH_SCHEDULE,
    c.PCAS_INVALIDATE_PREFETCH_COPY_SCHEDULE,
})  # fmt: skip
_OTHER_ACTIONS = frozenset({c.PCAS_NOP, c.PCAS_INVALIDATE, c.PCAS_PREFETCH})


class Compute(Engine):
    """A compute class."""

    unit: ClassVar[str] = "compute"
    actions = ACTIONS
    bulk = frozenset({c.LOAD_INLINE_DATA})
    latches = frozenset({
        c.SET_REPORT_SEMAPHORE_PAYLOAD_LOWER, c.SET_REPORT_SEMAPHORE_PAYLOAD_UPPER,
        c.SET_REPORT_SEMAPHORE_ADDRESS_LOWER, c.SET_REPORT_SEMAPHORE_ADDRESS_UPPER,
        c.LINE_LENGTH_IN, c.LINE_COUNT, c.OFFSET_OUT_UPPER, c.OFFSET_OUT, c.SET_CWD_REF_COUNTER,
        c.SET_SHADER_SHARED_MEMORY_WINDOW_A, c.SET_SHADER_SHARED_MEMORY_WINDOW_B, c.SEND_PCAS_A,
        c.SET_SKED_CACHE_CONTROL, c.SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A,
        c.SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_B, c.SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_C,
        c.SET_SHADER_LOCAL_MEMORY_A, c.SET_SHADER_LOCAL_MEMORY_B,
        c.SET_SHADER_LOCAL_MEMORY_WINDOW_A, c.SET_SHADER_LOCAL_MEMORY_WINDOW_B,
        c.SET_REPORT_SEMAPHORE_A, c.SET_REPORT_SEMAPHORE_B, c.SET_REPORT_SEMAPHORE_C,
    })  # fmt: skip

    def write(self, offset: int, data: "array[int]") -> bool:
        """Carry out a method; False: it waits."""
        if offset in _NEW_REPORTS and not self.channel.gpu.chip.reports:
            raise SimFault(f"class {self.number:#06x} has no method {offset:#06x}")
        return super().write(offset, data)

    def window(self, upper: int, lower: int) -> int:
        """A generic window's address, 0 when none was set."""
        if self.state.get(lower, 0):
            raise SimFault(f"a window at ...{self.state[lower]:08x} is not aligned to 4 GiB")
        return self.state.get(upper, 0) << 32

    def take(self, offset: int, data: "array[int]") -> None:
        """LOAD_INLINE_DATA: words of the transfer that LAUNCH_DMA began."""
        left = self.state.get(_INLINE_LEFT, 0)
        at = self.state.get(_INLINE_AT, 0)
        if len(data) > -(-left // 4):
            raise SimFault(f"LOAD_INLINE_DATA: {len(data)} words, but {left} bytes are awaited")
        piece = data.tobytes()[:left]
        self.channel.memory.write(at, piece)
        self.state[_INLINE_LEFT] = left - len(piece)
        self.state[_INLINE_AT] = at + len(piece)
        self.channel.gpu.notify()


# Where an inline transfer stands; no method has these offsets.
_INLINE_LEFT, _INLINE_AT = -1, -2


@action(ACTIONS, c.NO_OPERATION, c.WAIT_FOR_IDLE, c.INVALIDATE_SKED_CACHES)
def nothing(engine: Compute, word: int) -> bool:
    # Grids end before the next method begins, and launch records are read when they start.
    return True


@action(ACTIONS, c.INVALIDATE_SHADER_CACHES)
def invalidate_shader_caches(engine: Compute, word: int) -> bool:
    fields(c.INVALIDATE_SHADER_CACHES_WORD, word)
    return True


@action(ACTIONS, c.INVALIDATE_SHADER_CACHES_NO_WFI)
def invalidate_shader_caches_no_wfi(engine: Compute, word: int) -> bool:
    fields(c.INVALIDATE_SHADER_CACHES_NO_WFI_WORD, word)
    return True


@action(ACTIONS, c.INVALIDATE_TEXTURE_HEADER_CACHE_NO_WFI, c.INVALIDATE_SAMPLER_CACHE_NO_WFI,
        c.INVALIDATE_TEXTURE_DATA_CACHE_NO_WFI)  # fmt: skip
def invalidate_texture(engine: Compute, word: int) -> bool:
    if fields(_ONE_LINE, word)["lines"]:
        raise SimFault("invalidating one line of a texture cache is not simulated")
    return True


@action(ACTIONS, c.SET_COMPUTE_CLASS_VERSION)
def set_compute_class_version(engine: Compute, word: int) -> bool:
    return True


@action(ACTIONS, c.SET_QMD_VERSION)
def set_qmd_version(engine: Compute, word: int) -> bool:
    current = fields(c.QMD_VERSION_WORD, word)["current_version"]
    known = engine.channel.gpu.chip.qmd_versions
    if current >> 4 not in known and current not in known:
        raise SimFault(f"SET_QMD_VERSION {current:#x}: this chip has versions {known}")
    return True


@action(ACTIONS, c.LAUNCH_DMA)
def launch_dma(engine: Compute, word: int) -> bool:
    found = fields(c.LAUNCH_DMA_WORD, word)
    if found["dst_memory_layout"] != c.DST_PITCH:
        raise SimFault("LAUNCH_DMA to a block-linear layout is not simulated")
    if found["completion_type"] == c.COMPLETION_RELEASE_SEMAPHORE or found["interrupt_type"]:
        raise SimFault("LAUNCH_DMA with a semaphore or an interrupt is not simulated")
    if engine.latched(c.LINE_COUNT, "LINE_COUNT") != 1:
        raise SimFault("LAUNCH_DMA of several lines is not simulated")
    if engine.state.get(_INLINE_LEFT, 0):
        raise SimFault("LAUNCH_DMA before the data of the one before was loaded")
    engine.state[_INLINE_LEFT] = engine.latched(c.LINE_LENGTH_IN, "LINE_LENGTH_IN")
    engine.state[_INLINE_AT] = engine.address(c.OFFSET_OUT_UPPER, c.OFFSET_OUT, "OFFSET_OUT")
    return True


@action(ACTIONS, c.SEND_SIGNALING_PCAS_B)
def send_signaling_pcas_b(engine: Compute, word: int) -> bool:
    if fields(_PCAS_B, word)["schedule"]:
        _schedule(engine)
    return True


@action(ACTIONS, c.SEND_SIGNALING_PCAS2_B)
def send_signaling_pcas2_b(engine: Compute, word: int) -> bool:
    what = fields(c.SEND_SIGNALING_PCAS2_B_WORD, word)["pcas_action"]
    if what in SCHEDULES:
        _schedule(engine)
    elif what not in _OTHER_ACTIONS:
        raise SimFault(f"SEND_SIGNALING_PCAS2_B action {what:#x} is not simulated")
    return True


def _schedule(engine: Compute) -> None:
    address = engine.latched(c.SEND_PCAS_A, "SEND_PCAS_A") << c.QMD_ADDRESS_SHIFT
    engine.channel.grids.append(address)


@action(ACTIONS, c.SET_REPORT_SEMAPHORE_D)
def report_semaphore_d(engine: Compute, word: int) -> bool:
    found = fields(c.REPORT_SEMAPHORE_D_WORD, word)
    if found["operation"] != _RELEASE:
        raise SimFault(f"SET_REPORT_SEMAPHORE_D operation {found['operation']} is not simulated")
    address = engine.address(
        c.SET_REPORT_SEMAPHORE_A, c.SET_REPORT_SEMAPHORE_B, "SET_REPORT_SEMAPHORE"
    )
    payload = engine.latched(c.SET_REPORT_SEMAPHORE_C, "SET_REPORT_SEMAPHORE_C")
    _release(engine, address, payload, wide=False, timestamp=not found["structure_size"])
    return True


@action(ACTIONS, c.REPORT_SEMAPHORE_EXECUTE)
def report_semaphore_execute(engine: Compute, word: int) -> bool:
    found = fields(REPORT_EXECUTE, word)
    if found["operation"] != _RELEASE or found["reduction_enable"] or found["trap_type"]:
        raise SimFault(f"REPORT_SEMAPHORE_EXECUTE {word:#x} is not simulated")
    address = engine.address(
        c.SET_REPORT_SEMAPHORE_ADDRESS_UPPER, c.SET_REPORT_SEMAPHORE_ADDRESS_LOWER,
        "SET_REPORT_SEMAPHORE_ADDRESS",
    )  # fmt: skip
    payload = engine.latched(c.SET_REPORT_SEMAPHORE_PAYLOAD_LOWER, "SET_REPORT_SEMAPHORE_PAYLOAD")
    size = found["structure_size"]
    if size not in (_FOUR_WORDS, _ONE_WORD, _TWO_WORDS):
        raise SimFault(f"REPORT_SEMAPHORE_EXECUTE structure size {size} is not known")
    if found["payload_size64"] and size != _ONE_WORD:
        payload |= engine.state.get(c.SET_REPORT_SEMAPHORE_PAYLOAD_UPPER, 0) << 32
    _release(engine, address, payload, wide=size == _TWO_WORDS, timestamp=size == _FOUR_WORDS)
    return True


def _release(engine: Compute, address: int, payload: int, *, wide: bool, timestamp: bool) -> None:
    size = 16 if timestamp else 8 if wide else 4
    if address % size:
        raise SimFault(f"semaphore at {address:#x} is not aligned to {size} bytes")
    engine.channel.release(address, payload, wide=wide, timestamp=timestamp)
