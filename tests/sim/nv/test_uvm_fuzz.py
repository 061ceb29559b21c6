"""Random calls of unified memory: every answer is a status that the driver knows."""

import os
from contextlib import suppress
from random import Random

import pytest
from nv_client import Channel, Status
from user_pages import read_only

from hcq.errors import IoctlError
from hcq.ioctl_defs import nv_uvm

CALLS = 1500
PAGE = 4096
# NV_OK's opposites that these calls have: INVALID_ADDRESS, INVALID_ARGUMENT, INVALID_CLIENT,
# INVALID_DEVICE, GPU_UUID_NOT_FOUND, ILLEGAL_ACTION, NOT_SUPPORTED, OBJECT_NOT_FOUND,
# OBJECT_TYPE_MISMATCH, UVM_ADDRESS_IN_USE.
KNOWN = {0x1E, 0x1F, 0x23, 0x26, 0x12, 0x16, 0x56, 0x57, 0x58, 0x68}
LAST = (1 << 64) - 1
WITH_STRUCTS = [call for call in nv_uvm.CALLS if call is not nv_uvm.DEINITIALIZE]


class Fuzz:
    """Calls whose arguments are right now and then, and wrong in some field otherwise."""

    def __init__(self, client, random):
        self.client, self.random = client, random
        client.unified(nv_uvm.REGISTER_GPU, gpu_uuid=client.host.gpus[1].uuid, rmCtrlFd=-1)
        self.channel = Channel(client, span=0)
        self.area = client.host.reserve(256 * PAGE, 2 << 20, 1 << 40)
        self.spans = [client.host.reserve(32 << 20, 2 << 20, 1 << 40) for _ in range(2)]
        self.ranges = []  # that there are or were
        self.memories = [
            client.memory(size, system=system, huge=huge)
            for size, system, huge in (
                (PAGE, False, False), (4 * PAGE, True, False), (7 * PAGE, False, False),
                (2 << 20, False, True),
            )
        ]  # fmt: skip
        self.made = 0

    def recover(self):
        """Register again what may not be registered any more."""
        mine = self.client
        for call, fields in (
            (nv_uvm.REGISTER_GPU, {"gpu_uuid": mine.uuid, "rmCtrlFd": -1}),
            (nv_uvm.REGISTER_GPU_VASPACE, {
                "gpuUuid": mine.uuid, "rmCtrlFd": mine.ctl, "hClient": mine.root,
                "hVaSpace": mine.space,
            }),
        ):  # fmt: skip
            with suppress(Status):
                mine.unified(call, **fields)

    def span(self):
        """base and length, often of a range that was made."""
        if self.ranges and self.random.random() < 0.6:
            return dict(self.random.choice(self.ranges))
        return {"base": self.place(), "length": self.length()}

    def some(self, right, *wrong):
        """Nearly always something that may be right."""
        return self.random.choice(wrong) if self.random.random() < 0.03 else right

    def uuid(self):
        gpus = self.client.host.gpus
        return self.some(gpus[self.random.random() < 0.05].uuid, bytes(16), b"\xff" * 16)

    def place(self):
        at = self.area + PAGE * self.random.randrange(16)
        taken = self.channel.push.address
        return self.some(at, 0, 1, at + 1, LAST, LAST - PAGE + 1, 1 << 47, taken)

    def length(self):
        size = PAGE * self.random.choice((1, 1, 2, 3, 4, 8))
        return self.some(size, 0, 1, size + 1, LAST, 1 << 63, (1 << 47) - PAGE, 2 << 20)

    def handle(self, right):
        mine = self.client
        return self.some(right, 0, mine.root, mine.device, mine.space, 0xDEAD, 0xFFFFFFFF)

    def owner(self):
        mine = self.client
        return {
            "rmCtrlFd": self.some(mine.ctl, -1, mine.node, mine.uvm, 1 << 20),
            "hClient": self.some(mine.root, 0, mine.device, 0xFFFFFFFF),
        }

    def arguments(self):
        """(call, fields) at random."""
        random, uuid = self.random, self.uuid
        span, new = self.span(), {"base": self.place(), "length": self.length()}
        context = {"base": self.some(random.choice(self.spans), self.area),
                   "length": self.some(32 << 20, 16 << 20, PAGE)}  # fmt: skip
        attributes = [
            {"gpuUuid": uuid(), "gpuMappingType": self.some(random.randrange(4), 9),
             "gpuCompressionType": self.some(0, 1)}
            for _ in range(2)
        ]  # fmt: skip
        channel = {"hClient": self.owner()["hClient"], "hChannel": self.handle(self.channel.handle)}
        calls = [
            (nv_uvm.CREATE_EXTERNAL_RANGE, new), (nv_uvm.FREE, span),
            (nv_uvm.UNMAP_EXTERNAL, {**span, "gpuUuid": uuid()}),
            *[(nv_uvm.MAP_EXTERNAL_ALLOCATION, {
                **span, **self.owner(), "offset": self.some(PAGE * random.randrange(2), 5, LAST),
                "hMemory": self.handle(random.choice(self.memories)),
                "perGpuAttributes": attributes,
                "gpuAttributesCount": self.some(random.choice((1, 1, 2)), 0, 256, 257, LAST),
            })] * 3,
            (nv_uvm.REGISTER_CHANNEL, {**context, **self.owner(), "gpuUuid": uuid(),
                                       "hChannel": channel["hChannel"]}),
            (nv_uvm.UNREGISTER_CHANNEL, {**channel, "gpuUuid": uuid()}),
        ]  # fmt: skip
        rare = [
            (nv_uvm.INITIALIZE, {"flags": self.some(0, 1, 4, LAST)}),
            (nv_uvm.REGISTER_GPU, {"gpu_uuid": uuid(), "rmCtrlFd": -1}),
            (nv_uvm.UNREGISTER_GPU, {"gpu_uuid": uuid()}),
            (nv_uvm.REGISTER_GPU_VASPACE, {**self.owner(), "gpuUuid": uuid(),
                                           "hVaSpace": self.handle(self.client.space)}),
            (nv_uvm.UNREGISTER_GPU_VASPACE, {"gpuUuid": uuid()}),
            (nv_uvm.ENABLE_PEER_ACCESS, {"gpuUuidA": uuid(), "gpuUuidB": uuid()}),
            (nv_uvm.DISABLE_PEER_ACCESS, {"gpuUuidA": uuid(), "gpuUuidB": uuid()}),
            (nv_uvm.MM_INITIALIZE, {"uvmFd": self.some(self.client.uvm, -1, self.client.ctl)}),
        ]  # fmt: skip
        return random.choice(calls if random.random() < 0.97 else rare)

    def step(self):
        call, fields = self.arguments()
        try:
            self.client.unified(call, **fields)
        except Status as answer:
            return answer.status
        self.made += 1
        if call is nv_uvm.CREATE_EXTERNAL_RANGE:
            self.ranges.append(fields)
        return 0

    def free_one(self):
        """The memory behind mappings goes, and other memory comes."""
        at = self.random.randrange(len(self.memories))
        self.client.free(self.memories[at])
        self.memories[at] = self.client.memory(PAGE * self.random.choice((1, 4, 8)))


@pytest.mark.row("SIM-03")
@pytest.mark.refusal
@pytest.mark.parametrize("seed", range(4))
def test_every_answer_is_a_known_status(bare, seed):
    client = bare(gpu=["sm_90", "sm_90"], seed=seed).attach()
    host, random = client.host, Random(seed)
    fuzz = Fuzz(client, random)
    answers = set()
    for _ in range(CALLS):
        answers.add(fuzz.step())
        if random.random() < 0.02:
            fuzz.free_one()
            fuzz.recover()
    assert answers <= KNOWN | {0}
    assert fuzz.made > CALLS // 8
    for buffer in (fuzz.channel.memory, fuzz.channel.notifier, fuzz.channel.push):
        host.munmap(buffer.region)
    for fd in (client.uvm, client.ctl, client.node):
        host.close(fd)
    assert (host.rm_objects, host.nvidia.gpus[0].used, list(host.faults)) == (0, 0, [])
    descriptors = len(os.listdir("/proc/self/fd"))
    host.shut_down()
    assert len(os.listdir("/proc/self/fd")) == descriptors


@pytest.mark.row("SIM-03")
@pytest.mark.refusal
@pytest.mark.parametrize("call", WITH_STRUCTS, ids=lambda call: call.name)
def test_a_struct_that_can_only_be_read_is_efault(client, call):
    mine = client()
    args = nv_uvm.ffi.cast(f"{call.struct} *", read_only(3).address)
    with pytest.raises(IoctlError, match="EFAULT"):
        mine.host.ioctl(mine.uvm, call, args)


def test_memory_that_is_mapped_for_two_gpus_is_mapped_for_both_or_none(bare):
    client = bare(gpu=["sm_90", "sm_90"]).attach()
    base = client.host.reserve(PAGE, PAGE, 1 << 40)
    client.unified(nv_uvm.CREATE_EXTERNAL_RANGE, base=base, length=PAGE)
    both = [{"gpuUuid": gpu.uuid, "gpuMappingType": 1} for gpu in client.host.gpus]
    with pytest.raises(Status):  # the other GPU is not registered
        client.unified(
            nv_uvm.MAP_EXTERNAL_ALLOCATION, base=base, length=PAGE, perGpuAttributes=both,
            gpuAttributesCount=2, rmCtrlFd=client.ctl, hClient=client.root,
            hMemory=client.memory(PAGE),
        )  # fmt: skip
    space = client.host.nvidia.rm.clients[client.root].find(client.space).payload
    assert not space.memory.is_mapped(base, PAGE)
