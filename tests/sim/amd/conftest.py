"""Bare clients of the simulated kfd, written from the kernel's documents, and bare GPUs."""

from types import SimpleNamespace

import pytest
from bare_amd import Gpu

from hcq.ioctl_defs import kfd

GTT = 0xD6000002  # coherent, uncached, writable, executable, no substitute
VRAM = 0xD0000001
VISIBLE_VRAM = 0xF0000001


def pointer(data):
    return int(kfd.ffi.cast("uintptr_t", data))


class Client:
    """A process that talks to /dev/kfd with nothing in between."""

    def __init__(self, host, gpu=0):
        self.host = host
        self.fd = host.open("/dev/kfd")
        self.render = host.open(f"/dev/dri/renderD{128 + gpu}")
        node = f"/sys/devices/virtual/kfd/kfd/topology/nodes/{gpu + 1}"
        self.gpu_id = int(host.read(f"{node}/gpu_id"))
        self.chip = host.gpus[gpu].chip

    def call(self, ioctl, **fields):
        args = ioctl.args(**fields)
        self.host.ioctl(self.fd, ioctl, args)
        return args

    def acquire(self):
        self.call(kfd.ACQUIRE_VM, drm_fd=self.render, gpu_id=self.gpu_id)
        return self

    def allocate(self, size, flags=GTT, address=None):
        if address is None:
            address = self.host.reserve(-(-max(size, 1) // 4096) * 4096, 4096)
        return self.call(
            kfd.ALLOC_MEMORY_OF_GPU, va_addr=address, size=size, gpu_id=self.gpu_id, flags=flags
        )

    def map(self, handle, ioctl=kfd.MAP_MEMORY_TO_GPU, gpu_ids=None):
        ids = kfd.ffi.new("uint32_t[]", gpu_ids or [self.gpu_id])
        return self.call(
            ioctl, handle=handle, device_ids_array_ptr=pointer(ids), n_devices=len(ids)
        )

    def unmap(self, handle):
        return self.map(handle, kfd.UNMAP_MEMORY_FROM_GPU)

    def memory(self, size, flags=GTT):
        """Allocated, mapped, and visible to the host when the flags allow."""
        made = self.allocate(size, flags)
        self.map(made.handle)
        region = None
        if flags & (kfd.ALLOC_GTT | kfd.ALLOC_PUBLIC):
            region = self.host.mmap(self.render, size, made.mmap_offset, made.va_addr)
        return SimpleNamespace(address=made.va_addr, handle=made.handle, size=size, region=region)

    def event_page(self):
        return self.memory(0x8000)

    def event(self, page, kind=0, auto_reset=1):
        first = self.host.kfd.events.page is None
        return self.call(
            kfd.CREATE_EVENT,
            event_page_offset=page.handle if first else 0,
            event_type=kind,
            auto_reset=auto_reset,
        ).event_id

    def wait_events(self, *events, timeout=1000, wait_for_all=0):
        data = kfd.ffi.new("struct kfd_event_data[]", len(events))
        for entry, event in zip(data, events, strict=True):
            entry.event_id = event
        args = self.call(
            kfd.WAIT_EVENTS,
            events_ptr=pointer(data),
            num_events=len(events),
            timeout=timeout,
            wait_for_all=wait_for_all,
        )
        return args.wait_result, data

    def queue_fields(self, kind=0, ring_size=8192):
        """Everything CREATE_QUEUE needs, freshly allocated."""
        pointers, ring = self.memory(4096), self.memory(ring_size)
        pointers.region.write64(0, 0)
        pointers.region.write64(8, 0)
        fields = {
            "ring_base_address": ring.address,
            "read_pointer_address": pointers.address,
            "write_pointer_address": pointers.address + 8,
            "ring_size": ring_size,
            "gpu_id": self.gpu_id,
            "queue_type": kind,
            "queue_percentage": 100,
            "queue_priority": 7,
        }
        if kind == kfd.QUEUE_TYPE_COMPUTE:
            fields |= {
                "eop_buffer_address": self.memory(4096, VRAM).address,
                "eop_buffer_size": 4096,
                "ctx_save_restore_address": self.memory(self.chip.save_buffer_size, VRAM).address,
                "ctx_save_restore_size": self.chip.save_area_size,
                "ctl_stack_size": self.chip.control_stack_size,
            }
        return fields, pointers, ring

    def queue(self, kind=0, ring_size=8192, first=0):
        fields, pointers, ring = self.queue_fields(kind, ring_size)
        pointers.region.write64(0, first)
        pointers.region.write64(8, first)
        return Submitter(self, self.call(kfd.CREATE_QUEUE, **fields), pointers, ring, first)

    def until(self, condition, seconds=5.0):
        """Relax until the condition holds; whether it did within the time."""
        limit = self.host.now() + seconds
        while not condition():
            if self.host.now() > limit:
                return False
            self.host.relax()
        return True


class Submitter:
    """Ring, pointers and doorbell of one queue."""

    def __init__(self, client, args, pointers, ring, first):
        self.client = client
        self.id = args.queue_id
        self.pointers = pointers.region
        self.ring = ring
        self.unit = 1 if args.queue_type == kfd.QUEUE_TYPE_SDMA else 4
        self.written = first
        slice_at = args.doorbell_offset & ~0x1FFF
        page = client.host.mmap(client.fd, 8192, slice_at)
        self.doorbell = page.window(args.doorbell_offset & 0x1FFF, 8)

    def put(self, words):
        for word in words:
            self.ring.region.write32(self.written * self.unit % self.ring.size, word)
            self.written += 4 // self.unit
        return self

    def ring_doorbell(self):
        self.pointers.write64(8, self.written)
        self.doorbell.write64(0, self.written)
        return self

    def submit(self, *words):
        return self.put(words).ring_doorbell()

    @property
    def read(self):
        return self.pointers.read64(0)

    def finished(self):
        """Whether the device read everything; waits."""
        return self.client.until(lambda: self.read == self.written)

    def destroy(self):
        self.client.call(kfd.DESTROY_QUEUE, queue_id=self.id)


@pytest.fixture
def client(machine):
    """client(**options of machine): a machine with one GPU and a process that has its VM."""

    def make(gpu=0, **options):
        return Client(machine(**options), gpu).acquire()

    return make


@pytest.fixture
def bare_client(machine):
    """As client, but nothing was acquired yet."""

    def make(gpu=0, **options):
        return Client(machine(**options), gpu)

    return make


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Where translated kernels of a test file are kept."""
    return str(tmp_path_factory.mktemp("translated"))


@pytest.fixture(params=["native", "interpreter"])
def gpu(request, cache):
    """A bare GPU, with each engine."""
    made = Gpu(interpret=request.param == "interpreter", cache_directory=cache)
    yield made
    made.executor.close()


@pytest.fixture
def native(cache):
    """A bare GPU that runs native code."""
    made = Gpu(cache_directory=cache)
    yield made
    made.executor.close()
