"""A simulated machine: a Host whose device files lead to simulated GPUs.

Put in place with `hcq.host.use(machine)`. Files that are not a GPU's come from the
real machine. Tests reach in through `fail`, `refuse`, `deny`, `files`, `faults`
and `log`; the driver sees none of these.
"""

import atexit
import hashlib
import os
import sys
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from errno import EACCES, EAGAIN, EBADF, EFAULT, EINTR, EINVAL
from itertools import count
from typing import Any

from hcq.errors import ConfigError
from hcq.host import EAGAIN_SECONDS, PAGE, LinuxHost, Region, refused
from hcq.ioctl_defs import Ioctl, kfd
from sim import build
from sim.amd import drm, topology
from sim.amd.gpu import Gpu
from sim.amd.kfd import Kfd
from sim.board import Board, Fault
from sim.clock import RealClock, VirtualClock
from sim.files import Files
from sim.inject import Injection
from sim.nv.gpu import Gpu as NvGpu
from sim.nv.nodes import Nvidia
from sim.nv.status import RmStatus
from sim.refusal import Refusal
from sim.space import AddressSpace
from sim.user import UserFault

LOG_LENGTH = 20_000
# What a free-running machine logs: packets and calls have no order worth keeping there.
NOTABLE = ("refused", "fault", "hang", "exception", "interrupt-lost")
# The interpreter hands its lock over after this long: the device's thread and the program's
# share it, and the default of 5 ms would be felt at every wait.
SWITCH_SECONDS = 0.0005
NEWEST_KFD = (1, 18)
DEFAULT_DRIVER = "580.159.03"  # of NVIDIA chips
DEVICE_GROUP = "render"  # owns the device nodes, as distributions set it up
_KFD = kfd.NODE
_REQUEST_SIZE_SHIFT, _REQUEST_SIZE_MASK = 16, 0x3FFF


@dataclass
class _File:
    """An open device file."""

    path: str
    gpu: Gpu | None  # of a render node
    serial: int  # of this open; never used again


class Machine:
    """A computer with simulated GPUs.

    `options` are masked=, save_sizes= and the fields of `Limits` and `NvLimits`. `gpus` holds
    all of them, in order; indices in names and faults count each vendor's own.
    """

    def __init__(
        self,
        gpus: Sequence[str] = ("gfx1100",),
        *,
        seed: int | None = None,
        kfd: tuple[int, int] = (1, 17),
        driver: str = DEFAULT_DRIVER,
        **options: Any,
    ) -> None:
        if kfd[0] != 1 or not 0 <= kfd[1] <= NEWEST_KFD[1]:
            known = f"(1, 0) to {NEWEST_KFD}"
            raise ConfigError(f"kfd interface {kfd} is not simulated; known are {known}")
        build.check(gpus, driver)
        self.seed = seed
        self.files = Files()
        self.log: deque[tuple[Any, ...]] = deque(maxlen=LOG_LENGTH)
        self.calls: deque[str] = deque(maxlen=LOG_LENGTH)  # through the boundary, by name
        self.refusals: deque[tuple[str, int, str]] = deque(maxlen=LOG_LENGTH)  # with reasons
        self.is_closed = False
        self._digest = hashlib.sha256()
        self._real = LinuxHost()
        self._serials = count(1)
        self._opened: dict[int, _File] = {}
        self.injection = Injection()
        self._lock = threading.Lock()
        self._clock = RealClock() if seed is None else VirtualClock()
        self._space = AddressSpace(seed or 0)
        self._board = Board(
            self._clock, self._space, self._record, self._notify, seed is not None
        )
        save_sizes = bool(options.pop("save_sizes", False))
        masked: Sequence[int] = options.pop("masked", ())
        self.gpus = build.gpus(self._board, gpus, options)
        self._amd = [gpu for gpu in self.gpus if isinstance(gpu, Gpu)]
        for index in masked:
            self._amd[index].masked = True
        self.scheduler = build.scheduler(self.gpus, seed or 0, self._clock)
        self.kfd = Kfd(self._board, self._amd, self.scheduler, kfd)
        self.kfd.render_file = self._render_file
        self.kfd.on_error = self._dump
        own = [gpu for gpu in self.gpus if isinstance(gpu, NvGpu)]
        self.nvidia = Nvidia(self._board, own, self.scheduler, driver)
        self.nvidia.rm.refused = self._refused
        self._lay_out(save_sizes)
        self._switch = sys.getswitchinterval()
        sys.setswitchinterval(min(self._switch, SWITCH_SECONDS))
        # At exit only the threads end: memory may still be looked at by whatever comes later.
        atexit.register(self.stop)

    # The Host.

    def open(self, path: str) -> int:
        self._enter("open", path)
        if not self.files.owns(path):
            return self._real.open(path)
        self.files.read(path)
        gpu = next((g for g in self._amd if _render_node(g) == path), None)
        is_nvidia = self.nvidia.owns(path)
        if path != _KFD and gpu is None and not is_nvidia:
            raise OSError(EINVAL, "this file is only for reading", path)
        # A real descriptor, so that numbers, limits and leaks are those of the process.
        fd = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            if is_nvidia:
                self.nvidia.open(path, fd)
        except OSError:
            os.close(fd)
            raise
        self._opened[fd] = _File(path, gpu, next(self._serials))
        return fd

    def close(self, fd: int) -> None:
        self._enter("close", "")
        self._opened.pop(fd, None)
        if self.nvidia.has(fd):
            self.nvidia.close(fd)
        os.close(fd)

    def ioctl(self, fd: int, call: Ioctl, args: Any) -> None:
        address = int(call.ffi.cast("uintptr_t", args))
        limit = self.now() + EAGAIN_SECONDS
        while True:
            try:
                self._ioctl(fd, call, address)
            except Refusal as refusal:
                self._record("refused", call.name, refusal.number)
                self.refusals.append((call.name, refusal.number, refusal.why))
                if refusal.number == EINTR or (refusal.number == EAGAIN and self.now() < limit):
                    self.relax()
                    continue
                # No name for it here: a frame that knows its own error is a cycle, which
                # would keep whatever the callers hold until the collector runs.
                raise refused(call, args, refusal.number) from None
            return

    def reserve(self, size: int, alignment: int = PAGE, below: int = 1 << 47) -> int:
        self._enter("reserve", "")
        return self._space.reserve(size, alignment, below)

    def mmap(self, fd: int, size: int, offset: int, address: int | None = None) -> Region:
        file = self._opened.get(fd)
        self._enter("mmap", file.path if file else "")
        if file is None:
            return self._real.mmap(fd, size, offset, address)
        try:
            if self.nvidia.has(fd):
                return self.nvidia.mmap(fd, size, offset, address)
            if file.gpu:
                return self.kfd.buffers.view(file.gpu, size, offset, address)
            return self.kfd.mmap(size, offset, address)
        except Refusal as refusal:
            self._record("refused", "mmap", refusal.number)
            self.refusals.append(("mmap", refusal.number, refusal.why))
            text = f"mmap: {os.strerror(refusal.number)}; {refusal.why}"
            raise OSError(refusal.number, text) from None
        except RmStatus as refusal:
            # What the resource manager would have seen before: the address is taken.
            self._refused("mmap", refusal.status, refusal.why)
            raise OSError(EINVAL, f"mmap: {refusal.why}") from None

    def munmap(self, region: Region) -> None:
        address, size = region.address, region.size
        region.invalidate()
        self.release(address, size)

    def release(self, address: int, size: int) -> None:
        self._enter("munmap", "")
        self._space.release(address, size)
        self.kfd.buffers.released(address, size)
        self.nvidia.released(address, size)

    def read(self, path: str) -> bytes:
        self._enter("read", path)
        return self.files.read(path) if self.files.owns(path) else self._real.read(path)

    def list(self, path: str) -> list[str]:
        self._enter("list", path)
        return self.files.list(path) if self.files.owns(path) else self._real.list(path)

    def exists(self, path: str) -> bool:
        return self.files.exists(path) if self.files.owns(path) else self._real.exists(path)

    def group(self, path: str) -> str:
        return DEVICE_GROUP if self.files.owns(path) else self._real.group(path)

    def poll(self, fd: int, seconds: float) -> bool:
        if fd in self._opened:
            raise OSError(EINVAL, "a simulated device file cannot be polled")
        return self._real.poll(fd, seconds)

    def now(self) -> float:
        return self._clock.nanoseconds() / 1e9

    def relax(self) -> None:
        self.scheduler.relax()

    # What tests and the launcher use.

    @property
    def faults(self) -> Sequence[Fault]:
        """Everything that GPUs refused, oldest first."""
        return self._board.faults

    @property
    def stats(self) -> dict[str, int]:
        """Counters: dispatches, instructions, and what each vendor calls the rest.

        AMD GPUs count packets, waves and sdma_bytes; NVIDIA's methods, warps and copied_bytes,
        which copy engines wrote.
        """
        names = ["dispatches", "instructions"]
        names += ("packets", "waves", "sdma_bytes") if self._amd else ()
        names += ("methods", "warps", "copied_bytes") if self.nvidia.gpus else ()
        counted = dict.fromkeys(names, 0) | self._board.counters
        for gpu in self.gpus:
            for name, value in gpu.executed().items():
                if name in ("instructions", "waves", "warps"):
                    counted[name] += int(value)
        return counted

    @property
    def log_hash(self) -> str:
        """A digest of the whole event log: equal for equal seeds and programs."""
        return self._digest.hexdigest()

    def fail(self, nth: int, errno: int, *, kind: str | None = None) -> None:
        """Let the nth call from now (1 is the next; of a kind such as "ioctl") give an errno."""
        self.injection.fail(nth, errno, kind)

    def refuse(self, name: str, errno: int, times: int | None = None) -> None:
        """Let an ioctl of that name give an errno, always or the next few times."""
        self.injection.refuse(name, errno, times)

    def deny(self, path: str, errno: int = EACCES) -> None:
        """Let opening and reading a path give an errno."""
        self.injection.refuse(path, errno, None)

    def reset_gpu(self, index: int = 0, cause: str = "hang") -> None:
        """Reset an AMD GPU as the kernel does after a hang or, `cause` "ecc", a memory error."""
        self.kfd.reset(self._amd[index], cause)

    def lose_gpu(self, index: int = 0) -> None:
        """Let an NVIDIA GPU fall off the bus."""
        self.nvidia.gpus[index].lose()

    def answer(self, call: int | str, status: int, times: int | None = None) -> None:
        """Let the NVIDIA driver answer a call with a status, always or the next few times.

        `call` is the number of a class or control, or the name of an escape or UVM call.
        """
        name = hex(call) if isinstance(call, int) else call
        self.nvidia.rm.answers.refuse(name, status, times)

    def answer_nth(self, nth: int, status: int) -> None:
        """Let the nth call of NVIDIA's driver from now be answered with a status."""
        self.nvidia.rm.answers.fail(nth, status, "call")

    @property
    def rm_objects(self) -> int:
        """How many objects NVIDIA's resource manager holds, clients included."""
        return self.nvidia.rm.handles()

    def drop_interrupts(self, lost: bool = True) -> None:
        """Lose every interrupt from now on, or no longer."""
        self.kfd.events.interrupts = not lost

    def evict(self, seconds: float) -> None:
        """Keep queues off the hardware for a time, as the kernel does when memory is short."""
        for gpu in self._amd:
            gpu.evicted_until = self._clock.nanoseconds() + int(seconds * 1e9)

    def hold(self) -> None:
        """Queues stand still until release_held(): nothing that is rung for runs."""
        for gpu in self.gpus:
            gpu.is_held = True

    def release_held(self) -> None:
        """Queues go on."""
        for gpu in self.gpus:
            gpu.is_held = False
            self.scheduler.changed(gpu)

    @property
    def open_files(self) -> int:
        """How many simulated device files are open."""
        return len(self._opened)

    def stop(self) -> None:
        """End the threads, and the kernels they run. May be repeated."""
        for gpu in self.gpus:
            gpu.is_stopped = True
            for queue in gpu.queues:
                queue.stopping = True
        self.scheduler.stop()
        sys.setswitchinterval(self._switch)

    def shut_down(self) -> None:
        """Stop, and give memory and descriptors back. May be repeated."""
        if self.is_closed:
            return
        self.is_closed = True
        atexit.unregister(self.stop)
        self.stop()
        for gpu in self.gpus:
            gpu.close()
        self.kfd.close()
        self.nvidia.shut_down()
        self._space.close()
        for fd in self._opened:
            with suppress(OSError):
                os.close(fd)
        self._opened.clear()

    def _ioctl(self, fd: int, call: Ioctl, address: int) -> None:
        self._enter("ioctl", call.name, ioctl=True)
        self.scheduler.before_call()
        file = self._opened.get(fd)
        if file is None:
            raise Refusal(EBADF, f"descriptor {fd} is not open")
        try:
            self._dispatch(file, fd, call.number, address)
        except UserFault as fault:
            # Objects that the call made stay: a kernel does not take them back either.
            raise Refusal(EFAULT, str(fault)) from None

    def _dispatch(self, file: _File, fd: int, number: int, address: int) -> None:
        size = number >> _REQUEST_SIZE_SHIFT & _REQUEST_SIZE_MASK
        if self.nvidia.has(fd):
            self.nvidia.ioctl(fd, number, address)
        elif file.gpu:
            drm.ioctl(number, address, size)
        else:
            self.kfd.ioctl(number, address, size)

    def _enter(self, kind: str, detail: str, *, ioctl: bool = False) -> None:
        """Note a call through the boundary, and fail it where a test wants that."""
        self.calls.append(sys.intern(f"{kind} {detail}") if detail else kind)
        self._record("call", kind, detail)
        number = self.injection.find(kind, detail)
        if number is None:
            return
        if ioctl:
            raise Refusal(number, "a test wants it so")
        raise OSError(number, os.strerror(number), detail)

    def _record(self, *entry: Any) -> None:
        if self.seed is None and entry[0] not in NOTABLE:
            return
        with self._lock:
            stamped = (self._clock.nanoseconds() if self.seed is not None else 0, *entry)
            self.log.append(stamped)
            self._digest.update(repr(stamped).encode())

    def _lay_out(self, save_sizes: bool) -> None:
        """The files of the drivers that have a GPU."""
        if self._amd:
            topology.build(self.files, self._amd, save_sizes=save_sizes)
            self.files.add(_KFD, b"")
        for gpu in self._amd:
            self.files.add(_render_node(gpu), b"")
        self.nvidia.build(self.files)

    def _refused(self, name: str, status: int, why: str) -> None:
        self._record("refused", name, status)
        self.refusals.append((name, status, why))

    def _notify(self) -> None:
        self.scheduler.notify()

    def _render_file(self, fd: int) -> tuple[int, Gpu] | None:
        file = self._opened.get(fd)
        return (file.serial, file.gpu) if file and file.gpu else None

    def _dump(self, gpu: Gpu, text: str) -> None:
        """What the kernel leaves behind after an error, for whoever may read it."""
        dump = f"**** AMDGPU Device Coredump ****\nkernel: simulated\n{text}\n".encode()
        self.files.add(f"/sys/class/drm/renderD{gpu.minor}/device/devcoredump/data", dump)


def _render_node(gpu: Gpu) -> str:
    return f"/dev/dri/renderD{gpu.minor}"
