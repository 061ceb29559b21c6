"""The simulated compute driver, /dev/kfd: one process, every call the driver may make.

Calls are found by their number alone; the caller's struct may be older or newer
than ours, as in the kernel (Linux amdkfd/kfd_chardev.c, kfd_ioctl). What is not
in the table is ENOTTY. State belongs to the process: closing the file ends nothing.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from errno import EBUSY, EEXIST, EFAULT, EINVAL, EIO, ENOTTY, EPERM, ETIME
from functools import partial
from typing import Any

from cffi import FFI

from hcq.errors import SimFault
from hcq.host import MappedRegion, Region
from hcq.ioctl_defs import Ioctl, kfd
from sim import user
from sim.amd import create_queue
from sim.amd.caches import Caches
from sim.amd.events import Events, SlotPage, Waiter
from sim.amd.gpu import Gpu
from sim.amd.queue import Queue
from sim.amd.vm import GPUVM_BASE, GPUVM_LIMIT, Buffers
from sim.board import Board
from sim.held import Held
from sim.memory import PageFault
from sim.refusal import Refusal
from sim.schedule import Scheduler

_ffi = FFI()
LDS_BASE, SCRATCH_BASE, APERTURE_SIZE = 1 << 48, 2 << 48, 1 << 32
CLOCK_HZ = 1_000_000_000
POLL_NANOSECONDS = 500_000  # virtual, at most
WAIT_SLICE_SECONDS = 0.02
APERTURE_ENTRY = 56
AGE_VERSION = (1, 14)
_ANSWERS = 1 << 31  # of a request: the struct is copied back

Handler = Callable[["Kfd", Any], None]


@dataclass(frozen=True)
class Call:
    """One entry of the table. `since` is the interface version that brought it."""

    ioctl: Ioctl
    handler: Handler
    since: tuple[int, int]
    locks: bool


CALLS: dict[int, Call] = {}


def call(
    ioctl: Ioctl, since: tuple[int, int] = (1, 0), *, locks: bool = True
) -> Callable[[Handler], Handler]:
    """Register who answers a call."""

    def register(handler: Handler) -> Handler:
        number = ioctl.number & kfd.NUMBER_MASK
        if number in CALLS:
            raise SimFault(f"{ioctl.name} has two owners")
        CALLS[number] = Call(ioctl, handler, since, locks)
        return handler

    return register


class Kfd:
    """The driver's state for this process."""

    def __init__(
        self, board: Board, gpus: Sequence[Gpu], scheduler: Scheduler, version: tuple[int, int]
    ) -> None:
        self.board = board
        self.gpus = gpus
        self.scheduler = scheduler
        self.version = version
        self.events = Events(board.record)
        self.buffers = Buffers(gpus, board.space)
        self.queues: dict[int, Queue] = {}
        self.render_file: Callable[[int], tuple[int, Gpu] | None] = lambda fd: None
        self.on_error: Callable[[Gpu, str], None] = lambda gpu, text: None
        self.is_runtime_enabled = False
        self.settings: dict[tuple[str, int], tuple[int, ...]] = {}
        self._lock = threading.RLock()
        for gpu in gpus:
            gpu.driver = self
            if gpu.limits.late:
                gpu.caches = Caches(partial(self.buffers.cached, gpu))

    def ioctl(self, number: int, address: int, size: int) -> None:
        """Answer one call, its struct at `address`; Refusal with the errno otherwise, UserFault."""
        entry = CALLS.get(number & kfd.NUMBER_MASK)
        if number >> 8 & 0xFF != ord("K") or entry is None or self.version < entry.since:
            raise Refusal(ENOTTY, f"request {number:#x} is not known to interface {self.version}")
        own = entry.ioctl.ffi.new(f"{entry.ioctl.struct} *")
        shared = min(size, entry.ioctl.size)
        _ffi.memmove(entry.ioctl.ffi.buffer(own), user.read(address, size)[:shared], shared)
        try:
            if entry.locks:
                with self._lock:
                    self.buffers.sweep()
                    entry.handler(self, own)
            else:
                entry.handler(self, own)
        except OSError as error:
            raise Refusal(error.errno or EFAULT, str(error)) from error
        finally:
            if entry.ioctl.number & _ANSWERS:
                user.write(address, bytes(entry.ioctl.ffi.buffer(own))[:shared])

    def mmap(self, size: int, offset: int, address: int | None) -> Region:
        """mmap on /dev/kfd: doorbells and the MMIO page; Refusal EINVAL for the rest."""
        fields = kfd.MMAP_OFFSET.unpack(offset)
        gpu = next((g for g in self.gpus if g.gpu_id & 0xFFFF == fields["gpu_id"]), None)
        if gpu is None or fields["offset"]:
            raise Refusal(EINVAL, f"mmap offset {offset:#x} names nothing")
        if fields["type"] == kfd.MMAP_TYPE_MMIO:
            return self.buffers.mmio_view(gpu.gpu_id, size, address)
        if fields["type"] != kfd.MMAP_TYPE_DOORBELL:
            raise Refusal(EINVAL, f"mmap type {fields['type']} is not simulated")
        if size != kfd.DOORBELL_SLICE:
            raise Refusal(EINVAL, f"a doorbell slice has {kfd.DOORBELL_SLICE} bytes, not {size:#x}")
        return MappedRegion(self.board.space.alias(gpu.doorbells.address, size, address), size)

    def interrupt(self, gpu: Gpu, context: int) -> None:
        """A queue raised an interrupt."""
        self.events.interrupt(context)

    def memory_fault(self, gpu: Gpu, queue: Queue, address: int, access: str) -> None:
        """A page fault: every memory event of the process is set, that GPU runs nothing more.

        Source: Linux amdkfd/kfd_device_queue_manager.c, kfd_dqm_evict_pasid: the queues of
        one device.
        """
        kind = gpu.page_kind(address, access)
        data = {
            "NotPresent": int(kind == "not-present"),
            "ReadOnly": int(kind == "read-only"),
            "NoExecute": int(kind == "no-execute"),
            "va": address & ~0xFFF,
            "gpu_id": gpu.gpu_id,
        }
        gpu.is_stopped = True
        self.on_error(gpu, queue.fault)
        self.events.exception(kfd.EVENT_MEMORY, data)
        self.board.notify()

    def queue_error(self, gpu: Gpu, queue: Queue) -> None:
        """A packet or wave that hardware refuses: the engine is reset, memory stays."""
        self.on_error(gpu, queue.fault)
        self._exception(gpu, kfd.HW_EXCEPTION_PER_ENGINE_RESET, kfd.HW_EXCEPTION_GPU_HANG, 0)

    def reset(self, gpu: Gpu, cause: str) -> None:
        """The GPU was reset as a whole; `cause` is hang or ecc. Memory content is lost."""
        number = kfd.HW_EXCEPTION_ECC if cause == "ecc" else kfd.HW_EXCEPTION_GPU_HANG
        if cause == "ecc":
            data = {"gpu_id": gpu.gpu_id, "ErrorType": kfd.MEM_ERR_SRAM_ECC}
            self.events.exception(kfd.EVENT_MEMORY, data)
        self._exception(gpu, kfd.HW_EXCEPTION_WHOLE_GPU_RESET, number, 1)

    def close(self) -> None:
        """The process ends."""
        self.queues.clear()
        self.buffers.close()

    def _exception(self, gpu: Gpu, kind: int, cause: int, lost: int) -> None:
        gpu.is_stopped = True
        data = {"reset_type": kind, "reset_cause": cause, "memory_lost": lost}
        self.events.exception(kfd.EVENT_HW_EXCEPTION, {**data, "gpu_id": gpu.gpu_id})
        self.board.notify()


@call(kfd.GET_VERSION, locks=False)
def get_version(state: Kfd, args: Any) -> None:
    args.major_version, args.minor_version = state.version


@call(kfd.GET_PROCESS_APERTURES_NEW)
def get_process_apertures_new(state: Kfd, args: Any) -> None:
    visible = [gpu for gpu in state.gpus if not gpu.masked]
    room = args.num_of_nodes
    args.num_of_nodes = len(visible)
    if not room:
        return
    for index, gpu in enumerate(visible[:room]):
        entry: Any = kfd.ffi.new("struct kfd_process_device_apertures *")
        entry.lds_base, entry.lds_limit = LDS_BASE, LDS_BASE + APERTURE_SIZE - 1
        entry.scratch_base, entry.scratch_limit = SCRATCH_BASE, SCRATCH_BASE + APERTURE_SIZE - 1
        entry.gpuvm_base, entry.gpuvm_limit = GPUVM_BASE, GPUVM_LIMIT
        entry.gpu_id = gpu.gpu_id
        where = args.kfd_process_device_apertures_ptr + index * APERTURE_ENTRY
        user.write(where, bytes(kfd.ffi.buffer(entry)))
    args.num_of_nodes = min(room, len(visible))


@call(kfd.ACQUIRE_VM)
def acquire_vm(state: Kfd, args: Any) -> None:
    found = state.render_file(args.drm_fd)
    gpu = state.buffers.gpu(args.gpu_id)
    if found is None or found[1] is not gpu:
        raise Refusal(EINVAL, f"file {args.drm_fd} is no render node of GPU {args.gpu_id:#x}")
    owner = state.buffers.acquired.setdefault(gpu.gpu_id, found[0])
    if owner != found[0]:
        raise Refusal(EBUSY, "the process has a VM on this GPU through another open of the node")


@call(kfd.SET_MEMORY_POLICY)
def set_memory_policy(state: Kfd, args: Any) -> None:
    gpu = state.buffers.bound(args.gpu_id)
    if max(args.default_policy, args.alternate_policy) > 1:
        raise Refusal(EINVAL, "a memory policy is 0 or 1")
    policy = args.default_policy, args.alternate_policy
    area = args.alternate_aperture_base, args.alternate_aperture_size
    state.settings["memory policy", gpu.gpu_id] = (*policy, *area)


@call(kfd.SET_TRAP_HANDLER)
def set_trap_handler(state: Kfd, args: Any) -> None:
    gpu = state.buffers.bound(args.gpu_id)
    if args.tba_addr:
        raise Refusal(EINVAL, "trap handlers are not simulated")
    state.settings["trap handler", gpu.gpu_id] = (0, args.tma_addr)


@call(kfd.SET_SCRATCH_BACKING_VA)
def set_scratch_backing_va(state: Kfd, args: Any) -> None:
    gpu = state.buffers.bound(args.gpu_id)
    state.settings["scratch", gpu.gpu_id] = (args.va_addr,)


@call(kfd.SET_XNACK_MODE, since=(1, 8))
def set_xnack_mode(state: Kfd, args: Any) -> None:
    if args.xnack_enabled < 0:
        args.xnack_enabled = 0
    elif args.xnack_enabled:
        raise Refusal(EPERM, "these GPUs cannot retry page faults")


@call(kfd.GET_CLOCK_COUNTERS)
def get_clock_counters(state: Kfd, args: Any) -> None:
    gpu = state.buffers.gpu(args.gpu_id)
    now = state.board.clock.nanoseconds()
    args.gpu_clock_counter = gpu.ticks()
    args.cpu_clock_counter = args.system_clock_counter = now
    args.system_clock_freq = CLOCK_HZ


@call(kfd.AVAILABLE_MEMORY, since=(1, 9))
def available_memory(state: Kfd, args: Any) -> None:
    args.available = state.buffers.available(state.buffers.bound(args.gpu_id, EINVAL))


@call(kfd.RUNTIME_ENABLE, since=(1, 13))
def runtime_enable(state: Kfd, args: Any) -> None:
    if not args.mode_mask & 1:
        state.is_runtime_enabled = False
        return
    if state.is_runtime_enabled or state.queues:
        raise Refusal(EEXIST, "the runtime is enabled already, or there are queues")
    state.is_runtime_enabled = True


@call(kfd.ALLOC_MEMORY_OF_GPU)
def alloc_memory_of_gpu(state: Kfd, args: Any) -> None:
    buffer = state.buffers.allocate(
        args.gpu_id, args.va_addr, args.size, args.flags, args.mmap_offset
    )
    args.handle = buffer.handle
    args.mmap_offset = buffer.offset


@call(kfd.FREE_MEMORY_OF_GPU)
def free_memory_of_gpu(state: Kfd, args: Any) -> None:
    state.buffers.free(args.handle)


@call(kfd.MAP_MEMORY_TO_GPU)
def map_memory_to_gpu(state: Kfd, args: Any) -> None:
    _each_device(state, args, state.buffers.map)


@call(kfd.UNMAP_MEMORY_FROM_GPU)
def unmap_memory_from_gpu(state: Kfd, args: Any) -> None:
    _each_device(state, args, state.buffers.unmap)


def _each_device(state: Kfd, args: Any, action: Callable[[Any, int], None]) -> None:
    if not args.n_devices:
        raise Refusal(EINVAL, "no device is named")
    if args.n_success > args.n_devices:
        raise Refusal(EINVAL, f"n_success {args.n_success} exceeds n_devices {args.n_devices}")
    devices = user.read(args.device_ids_array_ptr, 4 * args.n_devices)
    buffer = state.buffers.find(args.handle)
    for index in range(args.n_success, args.n_devices):
        action(buffer, int.from_bytes(devices[4 * index : 4 * index + 4], "little"))
        args.n_success = index + 1


@call(kfd.CREATE_QUEUE)
def create_queue_(state: Kfd, args: Any) -> None:
    identity = next(i for i in range(1 << 16) if i not in state.queues)
    try:
        queue = create_queue.create(state.buffers, args, identity)
    except PageFault as fault:
        raise Refusal(EFAULT, str(fault)) from fault
    gpu = queue.gpu
    state.queues[identity] = queue
    gpu.queues.append(queue)
    if args.queue_type == kfd.QUEUE_TYPE_COMPUTE:
        gpu.execution_units()
    args.queue_id = identity
    offset = gpu.doorbells.cell_address(queue.setup.cell) - gpu.doorbells.address
    args.doorbell_offset = kfd.MMAP_OFFSET.pack(
        type=kfd.MMAP_TYPE_DOORBELL, gpu_id=gpu.gpu_id & 0xFFFF, offset=offset
    )
    state.scheduler.start(gpu)
    state.scheduler.changed(gpu)


@call(kfd.DESTROY_QUEUE)
def destroy_queue(state: Kfd, args: Any) -> None:
    queue = state.queues.get(args.queue_id)
    if queue is None:
        raise Refusal(EINVAL, f"there is no queue {args.queue_id}")
    wedged = queue.gpu.running is queue and not queue.gpu.limits.preemptible
    # A kernel that runs is preempted: the executor looks at this flag.
    queue.stopping = True
    with Held(queue):
        queue.gpu.queues.remove(queue)
        queue.gpu.doorbells.give_back(queue.setup.cell)
    del state.queues[args.queue_id]
    for buffer in queue.setup.buffers:
        buffer.queues -= 1
    state.scheduler.changed(queue.gpu)
    if wedged:
        # The scheduler's firmware did not answer in time; the kernel resets the GPU.
        state.reset(queue.gpu, "hang")
        raise Refusal(ETIME, f"{queue.name} could not be preempted")


@call(kfd.UPDATE_QUEUE)
def update_queue(state: Kfd, args: Any) -> None:
    size = create_queue.check_properties(args)
    if args.queue_id not in state.queues:
        raise Refusal(EFAULT, f"there is no queue {args.queue_id}")
    queue = state.queues[args.queue_id]
    ring = args.ring_base_address
    if ring and (ring, size) != (queue.setup.ring, queue.setup.ring_size):
        raise Refusal(EINVAL, "giving a queue another ring is not simulated")
    with Held(queue):
        # A queue without a ring is off, as one without a share of the time is.
        queue.percentage = args.queue_percentage & 0xFF if ring else 0
    state.scheduler.changed(queue.gpu)


@call(kfd.SET_CU_MASK)
def set_cu_mask(state: Kfd, args: Any) -> None:
    if not args.num_cu_mask or args.num_cu_mask % 32:
        raise Refusal(EINVAL, f"num_cu_mask {args.num_cu_mask} is no positive multiple of 32")
    mask = user.read(args.cu_mask_ptr, args.num_cu_mask // 8)
    if args.queue_id not in state.queues:
        raise Refusal(EFAULT, f"there is no queue {args.queue_id}")
    # Which unit runs a work-group cannot be seen from outside, so the mask is only kept.
    state.settings["CU mask", args.queue_id] = tuple(mask)


@call(kfd.CREATE_EVENT)
def create_event(state: Kfd, args: Any) -> None:
    if args.event_page_offset:
        _set_event_page(state, args.event_page_offset)
    if args.event_type == kfd.EVENT_SIGNAL and state.events.page is None:
        raise Refusal(EINVAL, "a signal event before there is an event page")
    event = state.events.create(args.event_type, bool(args.auto_reset))
    args.event_id = event.identity
    args.event_trigger_data = event.identity
    if event.kind == kfd.EVENT_SIGNAL:
        args.event_slot_index = event.identity
        args.event_page_offset = kfd.MMAP_OFFSET.pack(type=kfd.MMAP_TYPE_EVENTS)


def _set_event_page(state: Kfd, handle: int) -> None:
    if state.events.page is not None:
        raise Refusal(EINVAL, "the process has an event page already")
    buffer = state.buffers.find(handle)
    if buffer.size < kfd.EVENT_PAGE_SIZE or buffer.kind != kfd.ALLOC_GTT:
        raise Refusal(EINVAL, f"an event page is GTT memory of {kfd.EVENT_PAGE_SIZE:#x} bytes")
    state.buffers.event_page = buffer
    words = MappedRegion(buffer.address, kfd.EVENT_PAGE_SIZE).view().cast("Q")
    state.events.page = SlotPage(words)


@call(kfd.DESTROY_EVENT)
def destroy_event(state: Kfd, args: Any) -> None:
    state.events.destroy(args.event_id)


@call(kfd.SET_EVENT)
def set_event(state: Kfd, args: Any) -> None:
    state.events.set(args.event_id)


@call(kfd.RESET_EVENT)
def reset_event(state: Kfd, args: Any) -> None:
    state.events.reset(args.event_id)


@call(kfd.WAIT_EVENTS, locks=False)
def wait_events(state: Kfd, args: Any) -> None:
    size = kfd.ffi.sizeof("struct kfd_event_data")
    raw = user.read(args.events_ptr, size * args.num_events)
    entries = kfd.ffi.new("struct kfd_event_data[]", max(args.num_events, 1))
    _ffi.memmove(kfd.ffi.buffer(entries), raw, len(raw))
    aged = state.version >= AGE_VERSION
    wanted = [
        (entries[i].event_id, entries[i].signal_event_data.last_event_age if aged else 0)
        for i in range(args.num_events)
    ]
    waiters = state.events.begin_wait(wanted)
    try:
        over = _wait(state, waiters, bool(args.wait_for_all), args.timeout)
    finally:
        state.events.end_wait(waiters)
    if any(waiter.failed for waiter in waiters):
        args.wait_result = kfd.WAIT_RESULT_FAIL
        raise Refusal(EIO, "an event was destroyed while it was waited for")
    args.wait_result = kfd.WAIT_RESULT_COMPLETE if over else kfd.WAIT_RESULT_TIMEOUT
    for index, waiter in enumerate(waiters):
        if waiter.activated:
            _tell(entries[index], waiter, aged)
    user.write(args.events_ptr, bytes(kfd.ffi.buffer(entries))[: len(raw)])


def _wait(state: Kfd, waiters: list[Waiter], wait_for_all: bool, milliseconds: int) -> bool:
    """Wait for events; False when the time is over."""
    clock, events = state.board.clock, state.events
    limit = None
    if milliseconds != kfd.WAIT_FOREVER:
        limit = clock.nanoseconds() + milliseconds * 1_000_000
    if state.board.seeded and not milliseconds:
        # A poll takes time as well, or a program that only polls would never see a limit pass.
        state.scheduler.relax(POLL_NANOSECONDS)
    while not events.is_over(waiters, wait_for_all):
        left = None if limit is None else limit - clock.nanoseconds()
        if left is not None and left <= 0:
            return False
        if state.board.seeded:
            # May overshoot, as a kernel's timers do: many short waits must not cost real time.
            state.scheduler.relax()
            continue
        state.scheduler.nudge()
        with events.changed:
            if not events.is_over(waiters, wait_for_all):
                # In slices, so that a signal handler of the program gets its turn.
                seconds = WAIT_SLICE_SECONDS if left is None else left / 1e9
                events.changed.wait(min(seconds, WAIT_SLICE_SECONDS))
    return True


def _tell(entry: Any, waiter: Waiter, aged: bool) -> None:
    """What a waiter learns of an event."""
    event = waiter.event
    if event.kind == kfd.EVENT_MEMORY:
        data = dict(event.data)
        for name in ("NotPresent", "ReadOnly", "NoExecute", "imprecise"):
            setattr(entry.memory_exception_data.failure, name, data.pop(name, 0))
        for name, value in data.items():
            setattr(entry.memory_exception_data, name, value)
    elif event.kind == kfd.EVENT_HW_EXCEPTION:
        for name, value in event.data.items():
            setattr(entry.hw_exception_data, name, value)
    elif event.kind == kfd.EVENT_SIGNAL and aged:
        entry.signal_event_data.last_event_age = event.age
