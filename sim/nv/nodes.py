"""The device files of the simulated NVIDIA driver: control, GPUs, unified memory.

/dev/nvidiactl and /dev/nvidiaN lead to the resource manager, /dev/nvidia-uvm to unified
memory. A mapping is prepared by RM_MAP_MEMORY on a fresh file, then made by mmap on it.
"""

from collections.abc import Sequence
from errno import EBADF, EINVAL, ENODEV

from hcq.host import Region
from hcq.ioctl_defs import nv_escape, nv_uvm
from sim.board import Board
from sim.files import Files
from sim.nv.files import NodeFile
from sim.nv.gpu import Gpu
from sim.nv.memory import Memory
from sim.nv.rm import Rm
from sim.nv.usermode import UsermodeRegion
from sim.nv.uvm import Uvm
from sim.refusal import Refusal
from sim.schedule import Scheduler

_NO_OFFSET = 0


def gpu_node(gpu: Gpu) -> str:
    """The path of a GPU's device file."""
    return nv_escape.GPU_NODE.format(minor=gpu.minor)


class Nvidia:
    """The NVIDIA driver of a simulated machine."""

    def __init__(
        self, board: Board, gpus: Sequence[Gpu], scheduler: Scheduler, driver: str
    ) -> None:
        self.gpus = gpus
        self.rm = Rm(board, gpus, scheduler, driver)
        self.uvm = Uvm(self.rm)
        self._board = board
        self._opened: dict[int, NodeFile] = {}
        self.rm.file = self._opened.get

    def build(self, files: Files) -> None:
        """Lay out device nodes, /proc and /sys."""
        if not self.gpus:
            return
        limits = self.gpus[0].limits
        version = self.rm.version
        files.add(nv_escape.CONTROL_NODE, b"")
        for gpu in self.gpus:
            files.add(gpu_node(gpu), b"")
        text = (
            f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build\n"
            "GCC version:  simulated\n"
        )
        files.add(nv_escape.VERSION_FILE, text.encode())
        files.add(nv_escape.MODULE_VERSION_FILE, f"{version}\n".encode())
        if limits.uvm:
            files.add(nv_uvm.NODE, b"")
            module = limits.uvm_version or version
            files.add(nv_escape.UVM_MODULE_VERSION_FILE, f"{module}\n".encode())

    def owns(self, path: str) -> bool:
        """Whether a path is one of the driver's device nodes."""
        return path in (nv_escape.CONTROL_NODE, nv_uvm.NODE) or self._gpu(path) is not None

    def open(self, path: str, fd: int) -> None:
        """A node was opened; the first open of a GPU's initialises it, which takes time."""
        gpu = self._gpu(path)
        if gpu is None:
            kind = "uvm" if path == nv_uvm.NODE else "control"
        else:
            kind = "gpu"
            if gpu.is_lost:
                raise OSError(ENODEV, "the GPU is off the bus", path)
            if not gpu.is_initialised:
                self._board.clock.advance(int(gpu.limits.open_seconds * 1e9))
                gpu.is_initialised = True
        self._opened[fd] = NodeFile(path, kind, gpu)

    def close(self, fd: int) -> None:
        """A node was closed."""
        file = self._opened.pop(fd)
        if file.kind == "uvm":
            self.uvm.close_file(file)
        elif file.kind == "control":
            self.rm.close_file(file)

    def has(self, fd: int) -> bool:
        """Whether a descriptor is an open node of this driver."""
        return fd in self._opened

    def path(self, fd: int) -> str:
        """The node a descriptor belongs to."""
        return self._opened[fd].path

    def ioctl(self, fd: int, number: int, address: int) -> None:
        """Answer a call; Refusal with the errno for a malformed one."""
        file = self._opened.get(fd)
        if file is None:
            raise Refusal(EBADF, f"descriptor {fd} is not open")
        if file.kind == "uvm":
            self.uvm.ioctl(file, number, address)
        else:
            self.rm.ioctl(file, number, address)

    def mmap(self, fd: int, size: int, offset: int, address: int | None) -> Region:
        """Make the mapping that was prepared on this file."""
        file = self._opened[fd]
        window = file.window
        if window is None or offset != _NO_OFFSET:
            raise Refusal(EINVAL, f"no mapping was prepared on {file.path} at {offset:#x}")
        if size != window.size:
            raise Refusal(EINVAL, f"{size:#x} bytes of a mapping of {window.size:#x}")
        with self.rm.lock:
            if not self.rm.has_linear(file.linear):
                raise Refusal(EINVAL, f"the mapping that was prepared on {file.path} has ended")
            target = window.target
            if isinstance(target, Memory):
                return self.rm.memories.view(target, window.offset, size, address)
            shown = self._board.space.alias(target.address, size, address)
            return UsermodeRegion(shown, size, target.tick)

    def released(self, address: int, size: int) -> None:
        """The program unmapped a span."""
        with self.rm.lock:
            self.rm.memories.released(address, size)

    def shut_down(self) -> None:
        """The machine is switched off."""
        self._opened.clear()
        self.rm.close()

    def _gpu(self, path: str) -> Gpu | None:
        return next((gpu for gpu in self.gpus if gpu_node(gpu) == path), None)


