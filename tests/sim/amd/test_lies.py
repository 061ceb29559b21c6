"""False answers that simulated devices have been known to give, one test each.

Source of the list: public bug reports of simulated and mocked AMD devices.
"""

import errno
import threading
import time

import pytest

from hcq.errors import IoctlError
from hcq.ioctl_defs import Ioctl, kfd

pytestmark = pytest.mark.row("SIM-03")

KFD_TYPE, DRM_TYPE = 0x4B, 0x64
# Numbers of Linux kfd_ioctl.h 1.17 that are answered here; all others are ENOTTY.
ANSWERED = {
    0x01, 0x02, 0x03, 0x04, 0x05, 0x07, 0x08, 0x09, 0x0A, 0x0B, 0x0C, 0x11, 0x13, 0x14, 0x15,
    0x16, 0x17, 0x18, 0x19, 0x1A, 0x21, 0x23, 0x25,
}  # fmt: skip
ENDLESS = [0xBFA0FFFF, 0xBFB00000]  # s_branch to itself, s_endpgm


def request(number, kind=KFD_TYPE, size=8):
    return Ioctl(
        "UNKNOWN", 3 << 30 | size << 16 | kind << 8 | number,
        "struct kfd_ioctl_free_memory_of_gpu_args", kfd.ffi,
    )  # fmt: skip


def write32(address, *values):
    count = 2 + len(values)
    return [
        0xC0003700 | count << 16, 0x00100500, address & 0xFFFFFFFF, address >> 32, *values
    ]  # fmt: skip


def wait32(address, value):
    return [0xC0053C00, 0x13, address & 0xFFFFFFFF, address >> 32, value, 0xFFFFFFFF, 4]


def answer(client, fd, call):
    try:
        client.host.ioctl(fd, call, call.args())
    except IoctlError as error:
        return error
    return None


@pytest.mark.refusal
def test_every_undefined_number_is_enotty(bare_client):
    client = bare_client()
    undefined = [n for n in range(256) if n not in ANSWERED]
    answers = {n: answer(client, client.fd, request(n)) for n in undefined}
    assert {n: a.errno for n, a in answers.items() if a} == dict.fromkeys(undefined, errno.ENOTTY)


@pytest.mark.refusal
@pytest.mark.parametrize("kind", [0x00, DRM_TYPE, 0x46, 0xFF])
def test_requests_of_other_drivers_are_enotty_on_the_compute_node(bare_client, kind):
    client = bare_client()
    answers = [answer(client, client.fd, request(n, kind)) for n in (1, 2, 0x16)]
    assert [a and a.errno for a in answers] == [errno.ENOTTY] * 3


@pytest.mark.refusal
def test_undefined_requests_of_the_render_node_are_refused(bare_client):
    client = bare_client()
    fd = client.host.open("/dev/dri/renderD128")
    for number in (0x01, 0x44, 0x60, 0x7F, 0xFF):
        refusal = answer(client, fd, request(number, DRM_TYPE))
        assert refusal.errno in (errno.EINVAL, errno.ENOTTY), hex(number)


@pytest.mark.refusal
def test_an_errno_is_a_positive_number_of_an_oserror(client):
    c = client()
    wrong = (
        lambda: c.allocate(0),
        lambda: c.call(kfd.FREE_MEMORY_OF_GPU, handle=5),
        lambda: c.call(kfd.DESTROY_QUEUE, queue_id=9),
        lambda: c.call(kfd.DESTROY_EVENT, event_id=9),
        lambda: c.call(kfd.ACQUIRE_VM, drm_fd=99, gpu_id=c.gpu_id),
        lambda: c.call(kfd.MAP_MEMORY_TO_GPU, handle=c.memory(4096).handle),
        lambda: c.call(kfd.WAIT_EVENTS, num_events=1),
    )
    for call in wrong:
        with pytest.raises(OSError, match="errno=E") as caught:
            call()
        assert caught.value.errno in errno.errorcode


@pytest.mark.refusal
def test_an_unknown_copy_packet_stops_its_queue_with_the_read_pointer_on_it(client):
    c = client(seed=1)
    out = c.memory(4096)
    out.region.write32(0, 0)
    event = c.event(c.event_page(), kfd.EVENT_HW_EXCEPTION)
    queue = c.queue(kind=kfd.QUEUE_TYPE_SDMA)
    fence = [5, out.address & 0xFFFFFFFF, out.address >> 32, 1]
    queue.submit(0, 0x99, *fence)
    assert c.wait_events(event)[0] == kfd.WAIT_RESULT_COMPLETE
    assert queue.read == 4
    assert out.region.read32(0) == 0
    queue.ring_doorbell()
    assert not c.until(lambda: queue.read != 4, 0.05)


def test_contents_are_read_when_the_doorbell_moves_not_when_the_pointer_does(client):
    c = client(seed=1)
    out = c.memory(4096)
    out.region.write32(0, 0)
    queue = c.queue()
    queue.put(write32(out.address, 1))
    queue.pointers.write64(8, queue.written)  # published, not rung for
    assert not c.until(lambda: queue.read, 0.05)
    queue.ring.region.write32(16, 2)  # the value arrives late
    queue.ring_doorbell()
    assert queue.finished()
    assert out.region.read32(0) == 2


@pytest.mark.parametrize("auto_reset", [0, 1])
def test_one_set_wakes_every_waiter_whatever_pollers_do(client, auto_reset):
    c = client()
    event = c.event(c.event_page(), auto_reset=auto_reset)
    results = []

    def wait():
        results.append(c.wait_events(event, timeout=10_000)[0])

    threads = [threading.Thread(target=wait) for _ in range(4)]
    for thread in threads:
        thread.start()
    table = c.host.kfd.events._events[event]
    assert c.until(lambda: len(table.waiters) == 4)
    assert [c.wait_events(event, timeout=0)[0] for _ in range(20)] == [1] * 20
    c.call(kfd.SET_EVENT, event_id=event)
    for thread in threads:
        thread.join(10)
    assert results == [kfd.WAIT_RESULT_COMPLETE] * 4
    after = c.wait_events(event, timeout=0)[0]
    assert after == (kfd.WAIT_RESULT_TIMEOUT if auto_reset else kfd.WAIT_RESULT_COMPLETE)


def test_what_an_event_left_in_its_slot_does_not_count_for_the_next(client):
    """A number used again begins with a clean slot; an interrupt that names nothing scans them."""
    c = client()
    page = c.event_page()
    old = c.event(page)
    page.region.write64(8 * old, 1)  # written, its interrupt was lost
    c.call(kfd.DESTROY_EVENT, event_id=old)
    new = c.event(page)
    assert new == old
    c.host.kfd.events.interrupt(0)
    assert c.wait_events(new, timeout=0)[0] == kfd.WAIT_RESULT_TIMEOUT


def test_a_change_of_units_lets_nothing_overtake_a_wait(client):
    c = client(seed=1)
    out = c.memory(4096)
    out.region.write(0, bytes(16))
    queue = c.queue()
    queue.submit(*wait32(out.address, 1), *write32(out.address + 8, 7))
    mask = kfd.ffi.new("uint32_t[]", [1])
    pointer = int(kfd.ffi.cast("uintptr_t", mask))
    c.call(kfd.SET_CU_MASK, queue_id=queue.id, num_cu_mask=32, cu_mask_ptr=pointer)
    assert not c.until(lambda: out.region.read32(8), 0.05)
    out.region.write32(0, 1)
    assert queue.finished()
    assert out.region.read32(8) == 7


def endless(c):
    """Start a kernel that never ends on a new compute queue."""
    code = c.memory(4096, 0xF0000001)
    for at, word in enumerate(ENDLESS + [0xBF9F0000] * 64):  # s_code_end
        code.region.write32(4 * at, word)
    queue = c.queue()
    queue.submit(
        0xC0027600, 0x20C, code.address >> 8 & 0xFFFFFFFF, code.address >> 40,
        0xC0027600, 0x212, 0x600F0003, 0,
        0xC0037600, 0x207, 32, 1, 1,
        0xC0031500, 1, 1, 1, 0x8005,
    )  # fmt: skip
    assert c.until(lambda: c.host.gpus[0].running), c.host.faults
    return queue


def test_another_queue_can_be_made_and_destroyed_while_a_kernel_never_ends(client):
    c = client()
    first = c.queue(kind=kfd.QUEUE_TYPE_SDMA)
    running = endless(c)
    started = time.monotonic()
    first.destroy()
    c.queue(kind=kfd.QUEUE_TYPE_SDMA).destroy()
    running.destroy()
    assert time.monotonic() - started < 3  # 5 s is what giving up takes


@pytest.mark.row("SIM-06")
def test_a_fault_stops_the_queues_of_its_gpu_only(client):
    c = client(count=2)
    other = type(c)(c.host, 1).acquire()
    event = c.event(c.event_page(), kfd.EVENT_MEMORY)
    c.queue().submit(*write32(0x1000, 1))
    assert c.wait_events(event)[0] == kfd.WAIT_RESULT_COMPLETE
    out = other.memory(4096)
    queue = other.queue()
    queue.submit(*write32(out.address, 5))
    assert queue.finished()
    assert out.region.read32(0) == 5
