"""Work that does not end, or not soon: the channel can be freed, the machine shut down."""

import time

import pytest
from bare_nv import Gpu

from sim.nv.warp import Launch, WarpFault

NOP = 0x000FC000000000000000000000007918
FADD = 0x000FE200000000000000000F0E0E7221  # R14 = R14 + R15
EXIT = 0x000FEA0003800000000000000000794D
MANY_LINES = 0xFFFF_FFFF
SOON = 2.0  # seconds; a GPU that cannot be preempted is given up after five


def copies(channel, buffer, length, lines, word):
    at = buffer.address
    channel.submit(
        0x2001_8000, channel.chip.copy_class,
        0x2004_8100, at >> 32, at & 0xFFFFFFFF, at >> 32, at & 0xFFFFFFFF,
        0x2004_8104, 0, 0, length, lines, 0x2003_81C0, 1, 1, 4, 0x2001_80C0, word,
    )  # fmt: skip


def soon(action):
    before = time.monotonic()
    action()
    return time.monotonic() - before < SOON


@pytest.mark.row("SIM-05")
@pytest.mark.parametrize("seed", [None, 2])
def test_lines_of_no_bytes_are_done_at_once(client, seed):
    mine = client(seed=seed)
    channel, buffer = mine.channel(), mine.buffer()
    channel.submit(
        0x2001_8000, channel.chip.copy_class, 0x2004_8100, 0, 0, 0, 0,
        0x2004_8104, 0, 0, 0, MANY_LINES, 0x2001_80C0, 0x382,
    )  # fmt: skip
    assert channel.finished()
    assert buffer.region.read32(0) == 0
    assert mine.host.stats["copied_bytes"] == 0


# A copy, and a fill, of 1 byte for each line.
@pytest.mark.row("SIM-10")
@pytest.mark.parametrize("word", [0x382, 0x782])
def test_a_channel_whose_copy_goes_on_is_freed(client, word):
    mine = client()
    channel, other, buffer = mine.channel(), mine.channel(), mine.buffer()
    copies(channel, buffer, 1, MANY_LINES, word)
    gpu = mine.host.nvidia.gpus[0]
    assert mine.until(lambda: gpu.running is not None)
    assert soon(lambda: mine.free(other.group))  # it stands still: nothing to wait for
    assert soon(lambda: mine.free(channel.group))
    assert soon(mine.host.shut_down)
    assert mine.host.faults == []


@pytest.mark.row("SIM-10")
def test_a_machine_is_shut_down_while_a_copy_goes_on(client):
    mine = client()
    copies(mine.channel(), mine.buffer(), 1, MANY_LINES, 0x382)
    assert mine.until(lambda: mine.host.nvidia.gpus[0].running is not None)
    assert soon(mine.host.shut_down)


@pytest.mark.row("SIM-10")
@pytest.mark.parametrize("seed", [None, 3])
def test_the_watchdog_ends_a_copy(client, seed):
    mine = client(seed=seed, kernel_seconds=0.02, watchdog=2.0 if seed else 0.05)
    channel = mine.channel()
    copies(channel, mine.buffer(), 1, MANY_LINES, 0x382)
    assert channel.failed() == 109
    assert "a copy of 4294967295 lines does not end" in mine.host.faults[0].text


# Kernels


def launch(gpu, code, registers=24):
    """A launch of one warp at an address."""
    banks = ((gpu.room(4096), 0x210),) + (None,) * 7
    return Launch(
        code, registers, (1, 1, 1), (32, 1, 1), 0x400, 0, gpu.local, 0, banks,
        0x7294 << 32, 0x7293 << 32, "sm_90",
    )  # fmt: skip


def code(gpu, *words):
    at = gpu.room(16 * len(words), executable=True)
    gpu.memory.write(at, b"".join(word.to_bytes(16, "little") for word in words))
    return at


@pytest.mark.parametrize("interpret", [False, True])
def test_decoding_is_stopped(interpret):
    gpu = Gpu(interpret=interpret)
    at = gpu.room(64 << 20, executable=True)
    gpu.memory.write(at, NOP.to_bytes(16, "little") * (4 << 20))
    end = time.monotonic() + 0.1
    with pytest.raises(WarpFault, match="was stopped") as caught:
        gpu.executor.run(launch(gpu, at), lambda: time.monotonic() > end)
    assert caught.value.kind == "aborted"
    assert time.monotonic() < end + SOON


@pytest.mark.row("SIM-05")
def test_code_too_long_to_translate_is_interpreted(tmp_path, monkeypatch):
    monkeypatch.setattr("sim.isa.kernels.MOST_TRANSLATED", 16 * 40)
    gpu = Gpu(cache_directory=str(tmp_path))
    short = code(gpu, *[FADD] * 39, EXIT)
    gpu.executor.run(launch(gpu, short))
    translated = len(list(tmp_path.iterdir()))
    gpu.executor.run(launch(gpu, code(gpu, *[FADD] * 40, EXIT)))
    assert len(list(tmp_path.iterdir())) == translated
    assert gpu.executor.counters["instructions"] == 40 + 41


# MOV R20, 0; MOV R21, 0; RET.ABS.NODEC R20: with the address of the first, it goes there for ever.
GO_BACK = (
    0x000FE20000000F000000000000147802, 0x000FE20000000F000000000000157802,
    0x000FE20003E000000000000014007950, EXIT,
)  # fmt: skip


def going_back(gpu):
    at = code(gpu, *GO_BACK)
    first, second, *rest = GO_BACK
    words = first | (at & 0xFFFFFFFF) << 32, second | at >> 32 << 32, *rest
    gpu.memory.write(at, b"".join(word.to_bytes(16, "little") for word in words))
    return at


@pytest.mark.row("SIM-10")
@pytest.mark.parametrize("interpret", [False, True])
def test_a_loop_over_a_return_is_stopped(interpret, tmp_path):
    gpu = Gpu(interpret=interpret, cache_directory=str(tmp_path))
    looks = []
    with pytest.raises(WarpFault, match="was stopped"):
        gpu.executor.run(launch(gpu, going_back(gpu)), lambda: len(looks.append(0) or looks) > 20)


@pytest.mark.refusal
@pytest.mark.parametrize("interpret", [False, True])
def test_registers_beyond_those_of_the_launch_are_refused_by_both_engines(interpret, tmp_path):
    gpu = Gpu(interpret=interpret, cache_directory=str(tmp_path))
    gpu.executor.run(launch(gpu, code(gpu, FADD, EXIT), registers=16))
    with pytest.raises(WarpFault, match=r"uses R15, but the launch allocates 15") as caught:
        gpu.executor.run(launch(gpu, code(gpu, FADD, EXIT), registers=15))
    assert caught.value.kind == "illegal"


@pytest.mark.refusal
def test_registers_of_code_that_a_computed_jump_finds_are_counted_too(tmp_path):
    gpu = Gpu(cache_directory=str(tmp_path))
    at = going_back(gpu)
    far = code(gpu, FADD | 0x40 << 16, EXIT)  # R64 = R14 + R15
    words = GO_BACK[0] | (far & 0xFFFFFFFF) << 32, GO_BACK[1] | far >> 32 << 32
    gpu.memory.write(at, b"".join(word.to_bytes(16, "little") for word in words))
    with pytest.raises(WarpFault, match=r"uses R78, but the launch allocates 24"):
        gpu.executor.run(launch(gpu, at))
