"""Memory of the program's own on the simulated AMD GPU, and structs that can only be read."""

import errno
import mmap

import pytest
from user_pages import PAGE, Pages, read_only

from hcq.errors import IoctlError
from hcq.ioctl_defs import amdgpu, kfd

USER = 0xD4000004  # user memory: coherent, writable, executable, no substitute
SDMA = kfd.QUEUE_TYPE_SDMA


def adopt(client, pages):
    made = client.call(
        kfd.ALLOC_MEMORY_OF_GPU, va_addr=pages.address, size=pages.size, gpu_id=client.gpu_id,
        flags=USER, mmap_offset=pages.address,
    )  # fmt: skip
    client.map(made.handle)
    return made.handle


def refused(number):
    return pytest.raises(IoctlError, match=rf"errno={errno.errorcode[number]}")


def copy(destination, source, size):
    return [1, size - 1, 0, source & 0xFFFFFFFF, source >> 32,
            destination & 0xFFFFFFFF, destination >> 32]  # fmt: skip


@pytest.mark.refusal
@pytest.mark.parametrize("page", [0, 1, 3])
def test_a_hole_is_not_adopted(client, page):
    mine, pages = client(), Pages(4)
    pages.unmap(page, 1)
    with refused(errno.EFAULT):
        adopt(mine, pages)


@pytest.mark.refusal
@pytest.mark.parametrize(("rights", "number"), [(mmap.PROT_READ, errno.EPERM), (0, errno.EFAULT)])
def test_pages_that_cannot_be_written_are_not_adopted(client, rights, number):
    mine = client()
    with refused(number):
        adopt(mine, Pages(2, rights))


def test_adopted_pages_are_copied(client):
    mine, pages = client(seed=1), Pages(2)
    adopt(mine, pages)
    queue = mine.queue(SDMA, ring_size=4096)
    pages.write(0, b"hello")
    queue.submit(*copy(pages.address + PAGE, pages.address, 5))
    assert queue.finished()
    assert pages.read(PAGE, 5) == b"hello"


@pytest.mark.refusal
@pytest.mark.row("SIM-06")
def test_adopted_pages_that_are_unmapped_are_a_page_fault(client):
    """As the kernel has it: the GPU's mapping goes with the program's."""
    mine, pages = client(seed=1), Pages(2)
    handle = adopt(mine, pages)
    queue = mine.queue(SDMA, ring_size=4096)
    pages.unmap(1)
    queue.submit(*copy(pages.address + PAGE, pages.address, 5))
    assert mine.until(lambda: mine.host.faults)
    fault = mine.host.faults[-1]
    assert fault.kind == "memory"
    assert f"write of {pages.address + PAGE:#x}: page is not-present" in fault.text
    mine.unmap(handle)


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("call", "node"),
    [(kfd.GET_VERSION, "fd"), (kfd.ALLOC_MEMORY_OF_GPU, "fd"), (amdgpu.VERSION, "render")],
    ids=lambda value: getattr(value, "name", value),
)  # fmt: skip
def test_a_struct_that_can_only_be_read_is_efault(client, call, node):
    mine = client()
    args = call.ffi.cast(f"{call.struct} *", read_only().address)
    with refused(errno.EFAULT):
        mine.host.ioctl(getattr(mine, node), call, args)


def test_a_call_that_answers_nothing_takes_a_struct_that_can_only_be_read(client):
    mine, page = client(), Pages()
    args = kfd.SET_EVENT.args(event_id=mine.event(mine.event_page()))
    page.write(0, bytes(kfd.ffi.buffer(args)))
    page.protect(mmap.PROT_READ)
    struct = kfd.ffi.cast(f"{kfd.SET_EVENT.struct} *", page.address)
    assert not kfd.SET_EVENT.number >> 31
    mine.host.ioctl(mine.fd, kfd.SET_EVENT, struct)
