"""A dispatch as the shader registers describe it, checked as the hardware would.

Source: hcq/amd/defs/registers.py names the documents. Start values are those of the
queue descriptor the kernel makes: Linux amdkfd/kfd_mqd_manager_v11.c, init_mqd.
"""

from dataclasses import dataclass

from hcq.amd.defs import registers as regs
from hcq.errors import SimFault
from sim.fields import fields

MAX_THREADS = 1024
MAX_LDS_BYTES = 64 << 10
LDS_UNIT = 512
_STATIC_MASKS = (0x2E16, 0x2E17, 0x2E19, 0x2E1A, 0x2E2B, 0x2E2C, 0x2E2D, 0x2E2E)
_PLAIN = range(regs.COMPUTE_DISPATCH_INITIATOR, regs.COMPUTE_THREADGROUP_ID + 1)

# Registers whose effect is not simulated: they have to hold what they held at the start.
UNTOUCHED = {
    regs.COMPUTE_RESTART_X: "COMPUTE_RESTART_X",
    regs.COMPUTE_RESTART_Y: "COMPUTE_RESTART_Y",
    regs.COMPUTE_RESTART_Z: "COMPUTE_RESTART_Z",
    regs.COMPUTE_START_X: "COMPUTE_START_X",
    regs.COMPUTE_START_Y: "COMPUTE_START_Y",
    regs.COMPUTE_START_Z: "COMPUTE_START_Z",
    regs.COMPUTE_PERFCOUNT_ENABLE: "COMPUTE_PERFCOUNT_ENABLE",
    regs.COMPUTE_THREAD_TRACE_ENABLE: "COMPUTE_THREAD_TRACE_ENABLE",
    regs.COMPUTE_VMID: "COMPUTE_VMID",
}
# Bits of DISPATCH_INITIATOR that change nothing here: caches, order, where to start.
_HARMLESS = {"compute_shader_en", "cs_w32_en", "force_start_at_000", "order_mode",
             "scalar_l1_inv_vol", "vector_l1_inv_vol", "use_thread_dimensions",
             "tunnel_enable"}  # fmt: skip


@dataclass(frozen=True)
class Launch:
    """What the executor is given; sizes in work-groups and threads."""

    code: int
    rsrc1: int
    rsrc2: int
    rsrc3: int
    user_data: tuple[int, ...]
    groups: tuple[int, int, int]
    threads: tuple[int, int, int]
    wave_size: int
    scratch_base: int
    tmpring_size: int


def initial_registers() -> dict[int, int]:
    """Every simulated shader register at the start of a queue."""
    state = dict.fromkeys(_PLAIN, 0)
    state[regs.COMPUTE_PGM_RSRC3] = 0
    state[regs.COMPUTE_DISPATCH_INTERLEAVE] = 0
    state |= dict.fromkeys(_STATIC_MASKS, 0xFFFF_FFFF)
    first = regs.COMPUTE_USER_DATA_0
    state |= dict.fromkeys(range(first, first + regs.COMPUTE_USER_DATA_COUNT), 0)
    state[regs.COMPUTE_PIPELINESTAT_ENABLE] = 1
    return state


def read(state: dict[int, int], size: tuple[int, int, int], initiator: int) -> Launch:
    """The launch that a DISPATCH_DIRECT of `size` starts; SimFault for what is refused."""
    bits = fields(regs.DISPATCH_INITIATOR, initiator)
    if not bits["compute_shader_en"]:
        raise SimFault("DISPATCH_INITIATOR without COMPUTE_SHADER_EN")
    for name, value in bits.items():
        if value and name not in _HARMLESS:
            raise SimFault(f"DISPATCH_INITIATOR.{name} is not simulated")
    for register, name in UNTOUCHED.items():
        if state[register] and not ("START_" in name[:15] and bits["force_start_at_000"]):
            raise SimFault(f"{name} {state[register]:#x} is not simulated")
    threads = _threads(state)
    _check_program(state)
    groups = _groups(size, threads) if bits["use_thread_dimensions"] else size
    first = regs.COMPUTE_USER_DATA_0
    count = regs.COMPUTE_USER_DATA_COUNT
    scratch = regs.COMPUTE_DISPATCH_SCRATCH_BASE_LO
    return Launch(
        code=_address(state, regs.COMPUTE_PGM_LO),
        rsrc1=state[regs.COMPUTE_PGM_RSRC1],
        rsrc2=state[regs.COMPUTE_PGM_RSRC2],
        rsrc3=state[regs.COMPUTE_PGM_RSRC3],
        user_data=tuple(state[r] for r in range(first, first + count)),
        groups=groups,
        threads=threads,
        wave_size=32 if bits["cs_w32_en"] else 64,
        scratch_base=_address(state, scratch),
        tmpring_size=state[regs.COMPUTE_TMPRING_SIZE],
    )


def _threads(state: dict[int, int]) -> tuple[int, int, int]:
    found = []
    for register in range(regs.COMPUTE_NUM_THREAD_X, regs.COMPUTE_NUM_THREAD_Z + 1):
        sizes = fields(regs.NUM_THREAD, state[register])
        if sizes["num_thread_partial"]:
            raise SimFault("COMPUTE_NUM_THREAD: partial work-groups are not simulated")
        found.append(sizes["num_thread_full"])
    x, y, z = found
    if not 0 < x * y * z <= MAX_THREADS:
        raise SimFault(f"a work-group of {x} x {y} x {z} threads, allowed are 1 to {MAX_THREADS}")
    return x, y, z


def _groups(size: tuple[int, int, int], threads: tuple[int, int, int]) -> tuple[int, int, int]:
    for total, each in zip(size, threads, strict=True):
        if total % each:
            raise SimFault(f"{size} threads are no whole work-groups of {threads}")
    x, y, z = (total // each for total, each in zip(size, threads, strict=True))
    return x, y, z


def _check_program(state: dict[int, int]) -> None:
    fields(regs.RSRC1, state[regs.COMPUTE_PGM_RSRC1])
    second = fields(regs.RSRC2, state[regs.COMPUTE_PGM_RSRC2])
    fields(regs.RSRC3, state[regs.COMPUTE_PGM_RSRC3])
    fields(regs.TMPRING_SIZE, state[regs.COMPUTE_TMPRING_SIZE])
    lds = second["lds_size"] * LDS_UNIT
    if lds > MAX_LDS_BYTES:
        raise SimFault(f"COMPUTE_PGM_RSRC2 asks for {lds} bytes of LDS, there are {MAX_LDS_BYTES}")


def _address(state: dict[int, int], low: int) -> int:
    return (state[low + 1] << 32 | state[low]) << 8
