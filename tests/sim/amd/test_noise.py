"""Random words: whatever they say, the machine names what it refuses and goes on living."""

from random import Random

import pytest

from hcq.ioctl_defs import kfd
from sim.amd import pm4, sdma


def run(client, kind, words):
    c = client(seed=1)
    queue = c.queue(kind)
    queue.submit(*words)
    for _ in range(40):
        c.host.relax()
    return c.host


@pytest.mark.row("SIM-03")
@pytest.mark.parametrize("opcode", sorted(pm4.HANDLERS))
def test_random_pm4_bodies(client, opcode):
    random = Random(opcode)
    for _ in range(4):
        lengths = pm4.HANDLERS[opcode][1]
        count = random.choice([n for n in lengths if n < 20])
        words = [0xC0000000 | count - 1 << 16 | opcode << 8]
        words += [random.getrandbits(32) >> random.choice([0, 8, 24]) for _ in range(count)]
        host = run(client, kfd.QUEUE_TYPE_COMPUTE, words)
        assert not [fault for fault in host.faults if fault.kind == "simulator"]


@pytest.mark.row("SIM-03")
@pytest.mark.parametrize("op", sorted(sdma.HANDLERS))
def test_random_sdma_bodies(client, op):
    random = Random(op[0])
    for _ in range(4):
        words = [op[0] | op[1] << 8 | (random.getrandbits(16) & random.getrandbits(16)) << 16]
        words += [random.getrandbits(32) >> random.choice([0, 8, 24]) for _ in range(8)]
        host = run(client, kfd.QUEUE_TYPE_SDMA, words)
        assert not [fault for fault in host.faults if fault.kind == "simulator"]


@pytest.mark.row("SIM-03")
@pytest.mark.parametrize("kind", [kfd.QUEUE_TYPE_COMPUTE, kfd.QUEUE_TYPE_SDMA])
def test_random_words_are_refused(client, kind):
    random = Random(kind)
    for _ in range(20):
        words = [random.getrandbits(32) | 0x90 for _ in range(64)]
        host = run(client, kind, words)
        assert [fault.kind for fault in host.faults] == ["queue"]
