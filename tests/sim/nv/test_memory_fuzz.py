"""Random orders of making, mapping, viewing and freeing memory, against a model."""

from random import Random
from types import SimpleNamespace

import pytest

from hcq.ioctl_defs import nv_uvm

STEPS = 250


class Model:
    """What should be there: memory objects, mappings, views, each with its content."""

    def __init__(self, client, random):
        self.client, self.random = client, random
        self.buffers = []
        self.table = client.host.nvidia.rm.clients[client.root].find(client.space).payload.memory

    def make(self):
        size = 4096 * self.random.randint(1, 6)
        system = self.random.random() < 0.4
        handle = self.client.memory(size, system=system)
        address = self.client.host.reserve(size, below=1 << 40)
        self.buffers.append(SimpleNamespace(
            handle=handle, size=size, system=system, address=address, is_mapped=False,
            view=None, is_freed=False, value=None,
        ))  # fmt: skip

    def map(self, buffer):
        if not buffer.is_mapped and not buffer.is_freed:
            self.client.gpu_map(buffer.handle, buffer.size, buffer.address)
            buffer.is_mapped = True

    def unmap(self, buffer):
        if buffer.is_mapped:
            self.client.unified(nv_uvm.FREE, base=buffer.address, length=buffer.size)
            buffer.is_mapped = False

    def view(self, buffer):
        if buffer.view is None and not buffer.is_freed:
            at = self.random.choice((None, buffer.address))
            size = buffer.size if at is None else self.random.choice((4096, buffer.size))
            buffer.view = self.client.cpu_map(buffer.handle, size, at, system=buffer.system)

    def unview(self, buffer):
        # A view at the GPU's address goes with the reservation: unmapped alone, it leaves a hole.
        if buffer.view is not None and buffer.view.address != buffer.address:
            self.client.host.munmap(buffer.view)
            buffer.view = None

    def store(self, buffer):
        value = self.random.getrandbits(32)
        if buffer.view is not None:
            buffer.view.write32(4, value)
        elif buffer.is_mapped:
            self.table.write32(buffer.address + 4, value)
        else:
            return
        buffer.value = value

    def free(self, buffer):
        if not buffer.is_freed:
            self.client.free(buffer.handle)
            buffer.is_freed = True

    def check(self):
        for buffer in self.buffers:
            assert self.table.is_mapped(buffer.address, buffer.size) == buffer.is_mapped
            if buffer.value is None:
                continue
            if buffer.is_mapped:
                assert self.table.read32(buffer.address + 4) == buffer.value
            if buffer.view is not None:
                assert buffer.view.read32(4) == buffer.value


@pytest.mark.row("SIM-06")
@pytest.mark.parametrize("seed", range(6))
def test_random_orders(client, seed):
    random = Random(seed)
    model = Model(client(seed=seed), random)
    actions = [model.map, model.unmap, model.view, model.unview, model.store, model.free]
    for _ in range(STEPS):
        if len(model.buffers) < 4 or random.random() < 0.1:
            model.make()
        else:
            random.choice(actions)(random.choice(model.buffers))
        model.check()
    for buffer in model.buffers:
        model.unmap(buffer)
        model.unview(buffer)
        model.free(buffer)
        model.client.host.release(buffer.address, buffer.size)
    assert model.client.host.nvidia.rm.memories.live() == 0
    assert model.client.host.nvidia.gpus[0].used == 0
