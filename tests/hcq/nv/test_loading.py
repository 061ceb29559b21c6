"""Loading: caches of instructions, code memory, private memory, relocations."""

import struct

import pytest

from hcq import nv
from hcq.errors import CodeObjectError, OutOfMemory
from hcq.nv.arch import SM_90
from hcq.nv.cubin import Cubin

ONE = (1, 1, 1)
INVALIDATE = [0x200125A6, 0x1011]  # INVALIDATE_SHADER_CACHES_NO_WFI
SEND_PCAS_A = 0x200120AD  # what a launch begins with


def laid_down(device, run):
    """The words that a run adds to the compute pushbuffer."""
    channel = device.channels["compute"]
    start = channel._head
    run()
    data = channel._push_view.read(start, channel._head - start)
    return list(struct.unpack(f"<{len(data) // 4}I", data))


@pytest.mark.row("NV-09")
def test_the_first_launch_after_a_load_drops_cached_instructions_before_it(device, compiled):
    program = device.load(compiled("bump"), "bump")
    cell = device.allocate(4, zero=True)

    def launch():
        device.launch(program, [cell.address], ONE, ONE)

    first, second = laid_down(device, launch), laid_down(device, launch)
    at = first.index(SEND_PCAS_A)
    assert INVALIDATE in [first[i : i + 2] for i in range(at)]
    assert INVALIDATE[0] not in second[: second.index(SEND_PCAS_A)]


@pytest.mark.row("NV-17")
@pytest.mark.row("ALC-11")
def test_private_memory_that_was_outgrown_goes_back(machine, compiled):
    sim = machine("sm_90")
    device = nv.open(0)
    device.load(compiled("spill"), "spill")
    gpu = sim.nvidia.gpus[0]
    before, small = gpu.used, device.local._buffer
    device.load(compiled("spill_huge"), "spill_huge")
    device.synchronize()
    big = device.local._buffer
    assert big.size > small.size
    assert gpu.used - before == big.owner.size - small.owner.size
    assert "private memory" in device.buffers_at(small.address)
    assert ", freed at submission " in device.buffers_at(small.address)
    device.close()


@pytest.mark.row("NV-17")
def test_private_memory_goes_back_only_after_launches_that_use_it(machine, compiled):
    sim = machine("sm_90")
    device = nv.open(0)
    device.load(compiled("spill"), "spill")
    flag = device.allocate(16, host=True, uncached=True, zero=True)
    device.submit(device.queue("compute").poll(flag.address, 1))
    gpu = sim.nvidia.gpus[0]
    before = gpu.used
    device.local.need("bigger", 0x4000)
    assert gpu.used - before == device.local._buffer.owner.size  # the old one is there still
    flag.region.write32(0, 1)
    device.close()


@pytest.mark.refusal
def test_a_load_that_fails_takes_no_code_memory(machine, compiled, monkeypatch):
    machine("sm_90")
    device = nv.open(0)
    program = device.load(compiled("bump"), "bump")
    address = program.address
    program.free()
    device.synchronize()
    with monkeypatch.context() as patch:

        def refuse(*_):
            raise OutOfMemory("no private memory")

        patch.setattr(device.local, "need", refuse)
        with pytest.raises(OutOfMemory, match="no private memory"):
            device.load(compiled("bump"), "bump")
    assert device.load(compiled("bump"), "bump").address == address
    device.close()


def test_code_memory_is_not_used_again_before_launches_of_it_are_over(held, compiled):
    device, flag = held
    cell = device.allocate(4, host=True)
    program = device.load(compiled("bump"), "bump")
    address = program.address
    device.launch(program, [cell.address], ONE, ONE)
    program.free()
    assert device.load(compiled("bump"), "bump").address != address
    flag.region.write32(0, 1)
    device.synchronize()
    assert device.load(compiled("bump"), "bump").address == address


@pytest.mark.row("NV-09")
@pytest.mark.row("CMP-16")
def test_a_relocation_of_the_upper_half_holds_all_of_it(compiled):
    cubin = Cubin(compiled("data"), "data", SM_90)
    image = cubin.image(0x1234_5678_9ABC_D000)
    code = image[cubin.code_at : cubin.code_at + cubin.text.size]
    assert struct.pack("<I", 0x1234_5678) in code


@pytest.mark.row("NV-09")
@pytest.mark.refusal
def test_parameters_that_begin_elsewhere_than_the_chips_are_refused(compiled):
    data = compiled("bump")
    # PARAM_CBANK: format 4, attribute 0x0a, 8 bytes: symbol, offset 0x210, size 8.
    at = data.index(bytes.fromhex("040a0800"))
    assert data[at + 8 : at + 12] == bytes.fromhex("1002 0800")
    moved = data[: at + 8] + bytes.fromhex("6001") + data[at + 10 :]
    with pytest.raises(CodeObjectError, match="PARAM_CBANK is not 0x210") as caught:
        Cubin(moved, "bump", SM_90)
    assert caught.value.facts["value"] == "0x160"
