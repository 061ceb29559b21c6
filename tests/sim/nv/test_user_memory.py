"""Memory of the program's own: what is pinned, what becomes of it, pointers to results."""

import mmap

import pytest
from nv_client import Client, Status, status
from user_pages import PAGE, Pages, read_only

from hcq.errors import IoctlError
from hcq.ioctl_defs import nv_ctrl, nv_escape

COPY = (0x2001_80C0, 0x182)
OS_DESCRIPTOR, FLAGS = 0x71, 1 << 4 | 1 << 12 | 1 << 30


def pin(client, address, size, handle=0x77):
    args = nv_escape.RM_ALLOC_MEMORY.args(
        hRoot=client.root, hObjectParent=client.device, hObjectNew=handle, hClass=OS_DESCRIPTOR,
        flags=FLAGS, pMemory=address, limit=size - 1, fd=-1,
    )  # fmt: skip
    client.host.ioctl(client.node, nv_escape.RM_ALLOC_MEMORY, args)
    if args.status:
        raise Status("pin", args.status)
    return handle


def pinned(client, pages):
    client.gpu_map(pin(client, pages.address, pages.size), pages.size, pages.address)


def copy(channel, destination, source, size):
    channel.submit(
        0x2001_8000, channel.chip.copy_class,
        0x2004_8100, source >> 32, source & 0xFFFFFFFF,
        destination >> 32, destination & 0xFFFFFFFF,
        0x2004_8104, 0, 0, size, 1, *COPY,
    )  # fmt: skip


@pytest.mark.refusal
@pytest.mark.parametrize("page", [0, 1, 3])
def test_a_hole_cannot_be_pinned(client, page):
    made, pages = client(), Pages(4)
    pages.unmap(page, 1)  # late, so that nothing else is mapped there
    assert status(pin, made, pages.address, pages.size) == 0x1E


@pytest.mark.refusal
@pytest.mark.parametrize("rights", [mmap.PROT_READ, 0, mmap.PROT_READ | mmap.PROT_EXEC])
def test_pages_that_cannot_be_written_cannot_be_pinned(client, rights):
    pages = Pages(2, rights)
    assert status(pin, client(), pages.address, pages.size) == 0x1E


@pytest.mark.refusal
@pytest.mark.parametrize("size", [1 << 40, 1 << 47, 1 << 63, (1 << 64) - PAGE])
def test_more_than_there_is_cannot_be_pinned(client, size):
    assert status(pin, client(), Pages().address, size) == 0x1E


def test_pinned_pages_are_copied_to_and_from(client):
    mine, pages = client(seed=4), Pages(3)
    pinned(mine, pages)
    channel = mine.channel()
    pages.write(PAGE - 2, b"over the edge")
    copy(channel, pages.address + 2 * PAGE, pages.address + PAGE - 2, 13)
    assert channel.finished()
    assert pages.read(2 * PAGE, 13) == b"over the edge"


@pytest.mark.refusal
@pytest.mark.row("SIM-06")
@pytest.mark.parametrize("reads", [True, False])
def test_pinned_pages_that_are_unmapped_are_a_page_fault(client, reads):
    mine, pages = client(seed=4), Pages(4)
    pinned(mine, pages)
    channel, buffer = mine.channel(), mine.buffer(4 * PAGE)
    pages.unmap(2, 1)
    places = (buffer.address, pages.address) if reads else (pages.address, buffer.address)
    copy(channel, *places, 2 * PAGE)
    assert channel.finished()
    copy(channel, *places, 3 * PAGE)
    assert channel.failed() == 31
    text = mine.host.faults[-1].text
    assert f"{pages.address + 2 * PAGE:#x}: page is not-present; the program has unmapped" in text


@pytest.mark.refusal
@pytest.mark.parametrize("rights", [0, mmap.PROT_READ])
def test_pinned_pages_that_are_protected_are_a_page_fault(client, rights):
    mine, pages = client(seed=4), Pages()
    pinned(mine, pages)
    channel, buffer = mine.channel(), mine.buffer()
    pages.protect(rights)
    copy(channel, pages.address, buffer.address, 64)
    assert channel.failed() == 31


def test_pinned_pages_that_were_unmapped_can_be_let_go(client):
    mine, pages = client(), Pages(4)
    pinned(mine, pages)
    pages.unmap(1, 2)
    memory = mine.host.nvidia.rm.clients[mine.root].find(mine.space).payload.memory
    with memory.in_use():
        assert [memory.is_mapped(pages.address + i * PAGE, 1) for i in range(4)] == [
            True, False, False, True
        ]  # fmt: skip
    size = {"length": pages.size} if mine.series.number < 590 else {}
    mine.unified(mine.series.free, base=pages.address, **size)
    mine.free(0x77)
    assert memory.ranges() == []


# Pointers to results


@pytest.mark.refusal
def test_a_list_that_can_only_be_read_is_an_invalid_address(client):
    mine = client()
    fields = {"numClasses": 100, "classList": read_only().address}
    assert status(mine.control, mine.device, nv_ctrl.GET_CLASSLIST, **fields) == 0x1E


@pytest.mark.refusal
def test_parameters_that_can_only_be_read_are_an_invalid_address(client):
    mine = client()
    fields = {"hClient": mine.root, "hObject": mine.root, "cmd": 0x205, "paramsSize": 0x20}
    found = status(mine.escape, nv_escape.RM_CONTROL, params=read_only().address, **fields)
    assert found == 0x1F  # there is no GPU 0: nothing is copied back
    device = {**fields, "hObject": mine.device, "cmd": 0x0080_0201, "paramsSize": 0x10}
    found = status(mine.escape, nv_escape.RM_CONTROL, params=read_only().address, **device)
    assert found == 0x1E


@pytest.mark.refusal
def test_an_object_is_made_although_its_parameters_can_only_be_read(client):
    """As in the driver, which copies back last. Source: rs_server.c, serverAllocResource."""
    mine = client()
    before = mine.host.rm_objects
    fields = {"hRoot": mine.root, "hObjectParent": mine.root, "hClass": 0x80, "paramsSize": 0x38}
    call, parameters = nv_escape.RM_ALLOC, read_only().address
    found = status(mine.escape, call, hObjectNew=0x99, pAllocParms=parameters, **fields)
    assert (found, mine.host.rm_objects) == (0x1E, before + 1)
    mine.free(0x99)


@pytest.mark.refusal
@pytest.mark.parametrize(
    "call", [nv_escape.RM_FREE, nv_escape.RM_CONTROL, nv_escape.RM_ALLOC, nv_escape.CARD_INFO],
    ids=lambda call: call.name,
)  # fmt: skip
def test_a_struct_that_can_only_be_read_is_efault(bare, call):
    mine: Client = bare()
    args = nv_escape.ffi.cast(f"{call.struct} *", read_only().address)
    with pytest.raises(IoctlError, match="EFAULT"):
        mine.host.ioctl(mine.ctl, call, args)


def test_answers_come_back_in_the_callers_pages(client):
    mine, pages = client(), Pages()
    mine.escape(
        nv_escape.RM_CONTROL, hClient=mine.root, hObject=mine.device, cmd=0x0080_0201,
        params=pages.address, paramsSize=0x10,
    )  # fmt: skip
    assert int.from_bytes(pages.read(0, 4), "little") == len(mine.host.gpus[0].classes)
