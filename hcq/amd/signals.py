"""Signal cells of all devices of this process: pages that every member's GPU sees."""

from hcq.amd.channel import RING_FLAGS
from hcq.amd.kfd import Allocation, Kfd
from hcq.buffers import view_of
from hcq.host import PAGE, Region
from hcq.timeline import SignalPool


def pool(process: Kfd, gpu_id: int) -> SignalPool:
    """The pool, made at first use; its pages are mapped on all members, also later ones."""

    def grow() -> tuple[int, Region]:
        page = process.allocate(gpu_id, PAGE, RING_FLAGS, shared=True)
        view = view_of(page)
        view.write(0, bytes(PAGE))
        return page.address, view

    if process.pool is None:
        process.pool = SignalPool(grow)
    return process.pool


def release(process: Kfd) -> None:
    """The last device closed: the pages go back."""
    if process.pool is not None:
        process.pool.close()
    process.pool = None
    pages: list[Allocation] = [a for a in process.shared if a is not process.event_page]
    for page in reversed(pages):
        process.free(page)
