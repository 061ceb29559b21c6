"""Running a launch record: local memory checked, the grid carried out, releases written."""

from typing import TYPE_CHECKING

from hcq.bits import align
from hcq.errors import SimFault
from hcq.nv.defs import compute as c
from sim.nv import qmd
from sim.nv.compute import Compute

if TYPE_CHECKING:
    from sim.nv.channel import Channel

LOCAL_UNIT = 0x200


def run(channel: "Channel", address: int) -> bool:
    """Carry out the launch record at an address; False: it faulted or hangs."""
    gpu = channel.gpu
    found = qmd.read(channel.memory, address, gpu.chip)
    engine = next((e for e in channel.engines.values() if isinstance(e, Compute)), None)
    if engine is None:
        raise SimFault("a launch on a channel without a compute class")
    gpu.board.count("dispatches")
    gpu.board.record("dispatch", gpu.name, channel.name, found.grid, found.block)
    if 0 not in found.grid:
        from sim.nv.warp import Launch

        launch = Launch(
            code=found.code, registers=found.registers, grid=found.grid, block=found.block,
            shared_bytes=found.shared, local_bytes=found.local,
            local_base=_local_memory(engine, found), barriers=found.barriers,
            constants=found.constants,
            shared_window=engine.window(
                c.SET_SHADER_SHARED_MEMORY_WINDOW_A, c.SET_SHADER_SHARED_MEMORY_WINDOW_B
            ),
            local_window=engine.window(
                c.SET_SHADER_LOCAL_MEMORY_WINDOW_A, c.SET_SHADER_LOCAL_MEMORY_WINDOW_B
            ),
            sm=gpu.chip.name,
        )  # fmt: skip
        if not gpu.execute(channel, launch):
            return False
    for release in found.releases:
        _release(channel, release)
    channel.grids.extend(found.following)
    return True


def _release(channel: "Channel", release: qmd.Release) -> None:
    timestamp = release.words == 4
    wide = release.words == 2 or (timestamp and release.is_wide)
    channel.release(release.address, release.payload, wide=wide, timestamp=timestamp)


def _local_memory(engine: Compute, found: qmd.Grid) -> int:
    """The address of local memory; SimFault when it is not set up or too small."""
    if not found.local:
        return 0
    chip = engine.channel.gpu.chip
    name = "SET_SHADER_LOCAL_MEMORY"
    base = engine.address(c.SET_SHADER_LOCAL_MEMORY_A, c.SET_SHADER_LOCAL_MEMORY_B, name)
    each = engine.address(
        c.SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A,
        c.SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_B,
        f"{name}_NON_THROTTLED",
    )
    if each % c.LOCAL_BYTES_GRANULE:
        raise SimFault(f"{name}_NON_THROTTLED {each:#x} is no multiple of 0x8000")
    warp = align(found.local * 32, LOCAL_UNIT)
    needed = align(warp * chip.warps_per_sm * chip.sms_per_tpc, c.LOCAL_BYTES_GRANULE)
    if each < needed:
        raise SimFault(f"local memory of {each:#x} bytes per TPC, the kernel needs {needed:#x}")
    engine.channel.memory.check(base, each * chip.tpcs_per_gpc * chip.gpcs, "write")
    return base
