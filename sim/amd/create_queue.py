"""CREATE_QUEUE: the kernel's checks, in the kernel's order.

Source: Linux amdkfd/kfd_chardev.c (set_queue_properties_from_user, kfd_ioctl_create_queue)
and amdkfd/kfd_queue.c (kfd_queue_acquire_buffers).
"""

from errno import EFAULT, EINVAL, ENOMEM, ESRCH
from typing import Any

from hcq.ioctl_defs import kfd
from sim import user
from sim.amd.chips import EOP_SIZE
from sim.amd.gpu import Gpu
from sim.amd.pm4 import Pm4Queue
from sim.amd.queue import Queue, Setup
from sim.amd.sdma import SdmaQueue
from sim.amd.vm import Buffer, Buffers
from sim.memory import PAGE
from sim.refusal import Refusal

MIN_RING_SIZE = 1024
# Source: Linux errno.h; not one that user space has a name for.
ENOTSUPP = 524

KINDS: dict[int, tuple[str, type[Queue]]] = {
    kfd.QUEUE_TYPE_COMPUTE: ("compute", Pm4Queue),
    kfd.QUEUE_TYPE_SDMA: ("sdma", SdmaQueue),
}


def check_properties(args: Any) -> int:
    """What CREATE_QUEUE and UPDATE_QUEUE check alike; the ring size that holds."""
    if args.queue_percentage & 0xFF > kfd.MAX_QUEUE_PERCENTAGE:
        raise Refusal(EINVAL, f"queue_percentage {args.queue_percentage & 0xFF} is above 100")
    if args.queue_priority > kfd.MAX_QUEUE_PRIORITY:
        raise Refusal(EINVAL, f"queue_priority {args.queue_priority} is above 15")
    size = int(args.ring_size)
    if size & (size - 1):
        raise Refusal(EINVAL, f"ring_size {size:#x} is no power of two")
    return max(size, MIN_RING_SIZE)


def create(buffers: Buffers, args: Any, identity: int) -> Queue:
    """The queue that args ask for; its buffers cannot be unmapped while it lives."""
    ring_size = check_properties(args)
    for pointer in (args.read_pointer_address, args.write_pointer_address):
        _check_pointer(pointer)
    if args.queue_type not in KINDS:
        raise Refusal(ENOTSUPP, f"queue type {args.queue_type} is not simulated")
    kind, queue = KINDS[args.queue_type]
    gpu = buffers.bound(args.gpu_id, ESRCH)
    needed = _needed(buffers, gpu, args, ring_size)
    _check_room(gpu, kind)
    cell = gpu.doorbells.take(copy=kind == "sdma")
    if cell is None:
        raise Refusal(ENOMEM, "no doorbell is free")
    setup = Setup(
        identity=identity,
        kind=kind,
        ring=args.ring_base_address,
        ring_size=ring_size,
        read_pointer=args.read_pointer_address,
        write_pointer=args.write_pointer_address,
        cell=cell,
        buffers=tuple(needed),
    )
    made = queue(gpu, setup)
    made.percentage = args.queue_percentage & 0xFF
    for buffer in needed:
        buffer.queues += 1
    return made


def _check_pointer(address: int) -> None:
    try:
        user.read(address, 8)
    except user.UserFault as fault:
        raise Refusal(EFAULT, str(fault)) from fault


def _needed(buffers: Buffers, gpu: Gpu, args: Any, ring_size: int) -> list[Buffer]:
    """Every buffer of the queue, each mapped with exactly its size."""
    needed = [
        buffers.exact(gpu, args.write_pointer_address, PAGE, "the write pointer"),
        buffers.exact(gpu, args.read_pointer_address, PAGE, "the read pointer"),
        buffers.exact(gpu, args.ring_base_address, ring_size, "the ring"),
    ]
    if args.queue_type == kfd.QUEUE_TYPE_SDMA:
        return needed
    chip = gpu.chip
    if args.eop_buffer_address:
        if args.eop_buffer_size != EOP_SIZE:
            raise Refusal(EINVAL, f"eop_buffer_size {args.eop_buffer_size:#x}, not {EOP_SIZE:#x}")
        needed.append(buffers.exact(gpu, args.eop_buffer_address, EOP_SIZE, "the EOP buffer"))
    if args.ctl_stack_size != chip.control_stack_size:
        wanted = chip.control_stack_size
        raise Refusal(EINVAL, f"ctl_stack_size {args.ctl_stack_size:#x}, not {wanted:#x}")
    if args.ctx_save_restore_size < chip.save_area_size:
        asked, least = args.ctx_save_restore_size, chip.save_area_size
        raise Refusal(EINVAL, f"ctx_save_restore_size {asked:#x}, below {least:#x}")
    area, size = args.ctx_save_restore_address, chip.save_buffer_size
    needed.append(buffers.exact(gpu, area, size, "the save area"))
    return needed


def _check_room(gpu: Gpu, kind: str) -> None:
    same = sum(queue.setup.kind == kind for queue in gpu.queues)
    room = gpu.chip.sdma_queues if kind == "sdma" else gpu.limits.queues
    if same >= room:
        raise Refusal(ENOMEM, f"there are {same} {kind} queues, no more can be had")
