"""A bare client of the simulated NVIDIA driver, written from the documents for these tests."""

import struct
from types import SimpleNamespace

import pytest

from hcq.errors import IoctlError
from hcq.ioctl_defs import nv_ctrl, nv_escape, nv_rm, nv_uvm

PAGE_FAULTING, EXTERNAL = 0x40, 0x8


def pointer(data):
    return int(nv_escape.ffi.cast("uintptr_t", data))


class Status(Exception):
    """A call came back with a status."""

    def __init__(self, call, status):
        super().__init__(f"{call}: {status:#x}")
        self.status = status


class Client:
    """A process that talks to the NVIDIA driver with nothing in between."""

    def __init__(self, host, minor=0):
        self.host = host
        self.minor = minor
        self.ctl = host.open("/dev/nvidiactl")
        self.uvm = host.open("/dev/nvidia-uvm")
        self.root = self.rm_alloc(0, 0, 0x41)

    @property
    def series(self):
        return self.host.nvidia.rm.series

    def escape(self, call, **fields):
        args = call.args(**fields)
        self.host.ioctl(self.ctl, call, args)
        if getattr(args, "status", 0):
            raise Status(call.name, args.status)
        return args

    def rm_alloc(self, parent, handle, number, params=None, size=None):
        data = nv_escape.ffi.new("char[0x200]")
        if params is not None:
            nv_escape.ffi.memmove(data, params, len(params))
        args = self.escape(
            nv_escape.RM_ALLOC, hRoot=getattr(self, "root", 0), hObjectParent=parent,
            hObjectNew=handle, hClass=number,
            pAllocParms=0 if params is None else pointer(data), paramsSize=size or 0,
        )  # fmt: skip
        self.returned = bytes(nv_escape.ffi.buffer(data))
        return args.hObjectNew

    def alloc(self, parent, number, kind, **fields):
        args = kind.args(**fields)
        return self.rm_alloc(parent, 0, number, bytes(kind.ffi.buffer(args)))

    def free(self, handle):
        self.escape(nv_escape.RM_FREE, hRoot=self.root, hObjectOld=handle)

    def control(self, target, call, size=None, **fields):
        args = call.args(**fields)
        self.escape(
            nv_escape.RM_CONTROL, hClient=self.root, hObject=target, cmd=call.number,
            params=pointer(args), paramsSize=call.size if size is None else size,
        )  # fmt: skip
        return args

    def unified(self, call, fd=None, **fields):
        args = call.args(**fields)
        self.host.ioctl(fd or self.uvm, call, args)
        if args.rmStatus:
            raise Status(call.name, args.rmStatus)
        return args

    def attach(self):
        """Device, subdevice, address space, unified memory."""
        args = self.escape(nv_escape.CARD_INFO)
        self.gpu_id = args.cards[self.minor].gpu_id
        self.node = self.host.open(f"/dev/nvidia{self.minor}")
        register = nv_escape.REGISTER_FD.args(ctl_fd=self.ctl)
        self.host.ioctl(self.node, nv_escape.REGISTER_FD, register)
        found = self.control(self.root, nv_ctrl.GET_ID_INFO, gpuId=self.gpu_id)
        self.device = self.alloc(
            self.root, 0x80, nv_rm.DEVICE, deviceId=found.deviceInstance, hClientShare=self.root
        )
        self.subdevice = self.alloc(self.device, 0x2080, nv_rm.SUBDEVICE)
        self.space = self.alloc(
            self.device, 0x90F1, self.series.address_space, flags=PAGE_FAULTING | EXTERNAL,
            vaSize=0x1FFFFFB000000, vaBase=0x1000,
        )  # fmt: skip
        gid = self.control(self.subdevice, nv_ctrl.GET_GID_INFO, flags=2, length=16)
        self.uuid = bytes(gid.data)[:16]
        self.unified(nv_uvm.INITIALIZE)
        self.unified(nv_uvm.REGISTER_GPU, gpu_uuid=self.uuid, rmCtrlFd=-1)
        self.unified(
            nv_uvm.REGISTER_GPU_VASPACE, gpuUuid=self.uuid, rmCtrlFd=self.ctl,
            hClient=self.root, hVaSpace=self.space,
        )  # fmt: skip
        return self

    def memory(self, size, *, system=False, huge=False):
        """A memory object, not mapped anywhere."""
        attr = 1 << 25 if system else 3 << 23 if huge else 0
        return self.alloc(
            self.device, 0x3E if system else 0x40, nv_rm.MEMORY,
            owner=self.root, size=size, limit=size - 1, attr=attr,
        )  # fmt: skip

    def gpu_map(self, handle, size, address, offset=0, kind=1):
        self.unified(nv_uvm.CREATE_EXTERNAL_RANGE, base=address, length=size)
        self.map_external(handle, size, address, offset, kind)

    def map_external(self, handle, size, address, offset=0, kind=1):
        entry = {"gpuUuid": self.uuid, "gpuMappingType": kind}
        self.unified(
            nv_uvm.MAP_EXTERNAL_ALLOCATION, base=address, length=size, offset=offset,
            perGpuAttributes=[entry], gpuAttributesCount=1, rmCtrlFd=self.ctl,
            hClient=self.root, hMemory=handle,
        )  # fmt: skip

    def cpu_map(self, handle, size, address=None, *, system=False, offset=0):
        path = "/dev/nvidiactl" if system else f"/dev/nvidia{self.minor}"
        fd = self.host.open(path)
        args = self.escape(
            nv_escape.RM_MAP_MEMORY, hClient=self.root, hDevice=self.device, hMemory=handle,
            offset=offset, length=size, fd=fd,
        )  # fmt: skip
        self.linear = args.pLinearAddress
        region = self.host.mmap(fd, size, 0, address)
        self.host.close(fd)
        return region

    def buffer(self, size=4096, *, system=False, kind=1):
        """Memory that GPU and program see at one address."""
        address = self.host.reserve(size, 1 << 21, 1 << 40)
        handle = self.memory(size, system=system)
        self.gpu_map(handle, size, address, kind=kind)
        region = self.cpu_map(handle, size, address, system=system)
        region.write(0, bytes(size))
        return SimpleNamespace(handle=handle, region=region, address=address, size=size)

    def channel(self, **options):
        return Channel(self, **options)

    def until(self, condition, turns=4000):
        for _ in range(turns):
            if condition():
                return True
            self.host.relax()
        return False


class Channel:
    """A channel group with one channel, its ring, and a page of pushbuffer."""

    ENTRIES = 64

    def __init__(
        self, client, *, compute=True, copy=True, schedule=True, group=None, span=64 << 20
    ):
        self.client = client
        chip = client.host.nvidia.gpus[client.minor].chip
        self.chip = chip
        self.memory = client.buffer(64 << 10)
        self.notifier = client.buffer(4096, system=True)
        self.push = client.buffer(1 << 20)
        self.group = group or client.alloc(
            client.device, 0xA06C, nv_rm.CHANNEL_GROUP, hVASpace=client.space, engineType=1
        )
        self.share = client.alloc(
            self.group, 0x9067, nv_rm.CONTEXT_SHARE, hVASpace=client.space, flags=1
        )
        self.handle = client.alloc(
            self.group, chip.channel_classes[-1], client.series.channel,
            hObjectError=self.notifier.handle, gpFifoOffset=self.memory.address,
            gpFifoEntries=self.ENTRIES, hContextShare=self.share,
            hUserdMemory=[self.memory.handle], userdOffset=[0x8000],
        )  # fmt: skip
        if compute:
            self.compute = client.rm_alloc(self.handle, 0, chip.compute_class)
        if copy:
            self.copy = client.rm_alloc(self.handle, 0, chip.copy_class)
        if schedule:
            self.schedule()
        found = client.control(self.handle, nv_ctrl.GET_WORK_SUBMIT_TOKEN)
        self.token = found.workSubmitToken
        if span:
            self.base = client.host.reserve(span, 1 << 21, 1 << 40)
            client.unified(
                nv_uvm.REGISTER_CHANNEL, gpuUuid=client.uuid, rmCtrlFd=client.ctl,
                hClient=client.root, hChannel=self.handle, base=self.base, length=span,
            )  # fmt: skip
        usermode = client.rm_alloc(client.subdevice, 0, chip.usermode_classes[-1])
        self.page = client.cpu_map(usermode, 0x10000)
        self.put = self.written = 0

    def schedule(self):
        size = self.client.series.control[0xA06C0101]
        call = nv_ctrl.SCHEDULE_GROUP_580 if size == 3 else nv_ctrl.SCHEDULE_GROUP
        self.client.control(self.group, call, bEnable=1)

    def segment(self, *words):
        """Words in the pushbuffer and an entry for them; not rung yet."""
        self.push.region.write(self.written, struct.pack(f"<{len(words)}I", *words))
        address = self.push.address + self.written
        self.written += 4 * len(words)
        return self.entry(address | 1 << 41 | len(words) << 42)

    def entry(self, value):
        self.memory.region.write64(8 * self.put, value)
        self.put = (self.put + 1) % self.ENTRIES
        self.memory.region.write32(0x8000 + 0x8C, self.put)
        return self

    def ring(self, token=None):
        self.page.write32(0x90, self.token if token is None else token)
        return self

    def submit(self, *words):
        return self.segment(*words).ring()

    @property
    def get(self):
        return self.memory.region.read32(0x8000 + 0x88)

    @property
    def error(self):
        """The error notifier's number, None while there is none."""
        region = self.notifier.region
        return region.read32(8) if region.read16(14) == 0xFFFF else None

    def finished(self):
        return self.client.until(lambda: self.get == self.put)

    def failed(self):
        self.client.until(lambda: self.error is not None)
        return self.error


def status(action, *args, **fields):
    """The status that a call is refused with."""
    with pytest.raises(Status) as caught:
        action(*args, **fields)
    return caught.value.status


def errno(action, *args):
    """The errno that a call is refused with."""
    with pytest.raises(IoctlError) as caught:
        action(*args)
    return caught.value.number


def why(client):
    """What the simulator noted of its last refusal."""
    return client.host.refusals[-1][2]
