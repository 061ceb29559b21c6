"""How a simulated NVIDIA GPU is built and how patient it is."""

from collections.abc import Callable
from dataclasses import dataclass

from sim.board import Executor
from sim.memory import GpuMemory


@dataclass
class NvLimits:
    """What a test may choose. Sizes in bytes, times in seconds; None: as the chip has it."""

    vram: int | None = None
    bar1: int | None = None
    watchdog: float | None = None  # a kernel that runs longer loses its channel
    kernel_seconds: float = 5.0  # seeded mode: real time after which a kernel counts as endless
    executor: Callable[[GpuMemory], Executor] | None = None
    open_seconds: float = 0.0  # what the first open of a GPU's node takes
    uvm: bool = True  # whether the module nvidia-uvm is loaded
    uvm_version: str | None = None  # of that module, when it is another
    mig: bool = False
    compute_mode: int = 0  # 0 default, 2 prohibited, 3 exclusive process
    occupied: bool = False  # another process holds the GPU in exclusive mode
    confidential: bool = False
    peers: bool = True  # whether the GPUs may reach each other's memory
    clients: int = 64  # of the resource manager
    classes: tuple[int, ...] | None = None  # the class list, for chips that are not simulated
    sm_version: int | None = None
