"""Open device files of the simulated NVIDIA driver, as the rest of it sees them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sim.nv import memory
from sim.nv.memory import Memory
from sim.nv.usermode import Usermode

if TYPE_CHECKING:
    from sim.nv.gpu import Gpu


@dataclass(frozen=True)
class Window:
    """What mmap on a file shows: a part of memory, or the doorbell page."""

    target: Memory | Usermode
    offset: int
    size: int

    @property
    def is_system(self) -> bool:
        """Whether a control file shows it, not a GPU's."""
        return isinstance(self.target, Memory) and self.target.kind == memory.SYSTEM


@dataclass(eq=False)
class NodeFile:
    """One open. `kind` is control, gpu or uvm."""

    path: str
    kind: str
    gpu: "Gpu | None" = None
    linked: "NodeFile | None" = None  # the control file it was registered with
    window: Window | None = None  # set by RM_MAP_MEMORY, once
    linear: int = 0  # what RM_MAP_MEMORY called it
    uvm: Any = None  # unified memory's state, once initialised
