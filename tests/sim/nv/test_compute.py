"""The simulated compute class: methods, launch records, kernels. Bit numbers from cl*qmd.h."""

import re
import struct

import pytest

from sim.nv.warp import WarpFault

# st.global.u32 [p + 4 * i] = i + v for i = 32 * ctaid + tid, parameters p (u64) and v (u32),
# as nvJitLink 13.5 compiled it, up to EXIT and the branch to itself behind it.
STORE = {
    "sm_86": (
        0x000FE40000000F0000000A0000017A02, 0x000E2200000021000000000000027919,
        0x000FE20000000F000000000400077802, 0x000FE40000000A000000460000047AB9,
        0x000E2400000025000000000000037919, 0x001FC800078E28FF0000000203027211,
        0x040FE20007FFE0FF00005A0002057A10, 0x000FCA00078E00070000580002027625,
        0x000FE2000C1019040000000502007986, 0x000FEA0003800000000000000000794D,
        0x000FC0000383FFFFFFFFFFF000007947,
    ),
    "sm_90": (
        0x000FE2000000080000000A00FF017B82, 0x000E2E00000021000000000000057919,
        0x000E620000000A0000008400FF027B82, 0x000FE200000008000000860000047AB9,
        0x000E2400000025000000000000007919, 0x001FCA00078E28FF0000000500057211,
        0x042FE200078E00020000000405027825, 0x000FE2000FFFE0FF0000000405057C10,
        0x000FC80000000A000000820000047AB9, 0x000FE2000C1019040000000502007986,
        0x000FEA0003800000000000000000794D, 0x000FC0000383FFFFFFFFFFFC00FC7947,
    ),
    "sm_100": (
        0x000FE200000008000000DF00FF017B82, 0x000E2E00000021000000000000057919,
        0x000E620000000A000000E000FF027B82, 0x000EA2000800080000007100FF0677AC,
        0x000E2200000025000000000000007919, 0x000EE20008000A0000006B00FF0477AC,
        0x001FCA00078E28FF0000000500057211, 0x042FE200078E00020000000405027825,
        0x004FCA000FFFE0FF0000000605057C10, 0x008FE2000C1019040000000502007986,
        0x000FEA0003800000000000000000794D, 0x000FC0000383FFFFFFFFFFFC00FC7947,
    ),
    "sm_120": (
        0x000FE200000008000000DF00FF017B82, 0x000E2E00000021000000000000057919,
        0x000E620000000A000000E000FF027B82, 0x000EA2000800080000007100FF0677AC,
        0x000E2200000025000000000000007919, 0x000EE20008000A0000006B00FF0477AC,
        0x001FCA00078E28FF0000000500057211, 0x042FE200078E00020000000405027825,
        0x004FCA000F8E00000000000605057C35, 0x008FE2000C1019040000000502007986,
        0x000FEA0003800000000000000000794D, 0x000FC0000383FFFFFFFFFFFC00FC7947,
    ),
}  # fmt: skip
# Where a launch record of each version has its fields: (high bit, low bit).
V3 = {
    "major": (583, 580), "sass": (1663, 1656), "code": (1567, 1536), "code_upper": (1584, 1568),
    "registers": (656, 648), "x": (607, 592), "y": (623, 608), "z": (639, 624),
    "width": (415, 384), "height": (431, 416), "depth": (463, 448), "shared": (561, 544),
    "min": (567, 562), "target": (662, 657), "max": (574, 569), "bank": (1055, 1024),
    "bank_upper": (1072, 1056), "bank_size": (1087, 1075), "bank_valid": (640, 640),
    "release": (823, 823), "release_at": (799, 768), "release_at_upper": (807, 800),
    "release_size": (831, 830), "payload": (863, 832), "chained": (512, 512),
    "chained_action": (515, 513), "chained_at": (511, 480), "local": (1623, 1600),
    "barriers": (767, 763),
}  # fmt: skip
V4 = {
    "major": (583, 580), "sass": (543, 536), "code": (1247, 1216), "code_upper": (1272, 1248),
    "registers": (1208, 1200), "x": (1167, 1152), "y": (1183, 1168), "z": (1199, 1184),
    "width": (1055, 1024), "height": (1071, 1056), "depth": (1103, 1088), "shared": (601, 584),
    "min": (613, 608), "target": (625, 620), "max": (619, 614), "bank": (1567, 1536),
    "bank_upper": (1586, 1568), "bank_size": (1599, 1587), "bank_valid": (416, 416),
    "release": (320, 320), "release_at": (671, 640), "release_at_upper": (696, 672),
    "release_size": (322, 321), "payload": (735, 704), "chained": (368, 368),
    "chained_action": (371, 369), "chained_at": (479, 448), "local": (567, 544),
    "barriers": (1215, 1211),
}  # fmt: skip
V5 = {
    "major": (471, 468), "sass": (455, 448), "code": (1055, 1024), "code_upper": (1076, 1056),
    "registers": (1136, 1128), "x": (1103, 1088), "y": (1119, 1104), "z": (1127, 1120),
    "width": (1279, 1248), "height": (1295, 1280), "depth": (1327, 1312), "shared": (1162, 1152),
    "min": (1168, 1163), "target": (1180, 1175), "max": (1174, 1169), "bank": (1375, 1344),
    "bank_upper": (1394, 1376), "bank_size": (1407, 1395), "bank_valid": (1856, 1856),
    "release": (288, 288), "release_at": (511, 480), "release_at_upper": (536, 512),
    "release_size": (290, 289), "payload": (575, 544), "chained": (336, 336),
    "chained_action": (339, 337), "chained_at": (415, 384), "local": (1215, 1200),
    "barriers": (1141, 1137),
}  # fmt: skip
# version, fields, SASS version, parameters, shifts of (code, bank, shared, local)
CHIPS = {
    "sm_80": (3, V3, 0x80, 0x160, (0, 0, 0, 0)),
    "sm_86": (3, V3, 0x86, 0x160, (0, 0, 0, 0)),
    "sm_89": (3, V3, 0x89, 0x160, (0, 0, 0, 0)),
    "sm_90": (4, V4, 0x90, 0x210, (0, 6, 0, 0)),
    "sm_100": (5, V5, 0xA0, 0x380, (4, 6, 7, 4)),
    "sm_120": (5, V5, 0xA4, 0x380, (4, 6, 7, 4)),
}
OF = {"sm_80": "sm_86", "sm_89": "sm_86"}


class Fake:
    """Execution units that only remember."""

    def __init__(self, memory):
        self.counters = {"warps": 0}
        self.launches = []
        self.fault = None

    def run(self, launch, stop):
        self.launches.append(launch)
        if self.fault:
            raise self.fault

    def close(self):
        pass


class Bench:
    """A channel with code, constants and room for records."""

    def __init__(self, client, *, fake=True, gpu="sm_90", **options):
        self.units = []
        if fake:
            options["executor"] = self.make
        self.client = client(gpu=gpu, seed=options.pop("seed", 8), **options)
        self.channel = self.client.channel()
        self.data = self.client.buffer(64 << 10)
        self.version, self.fields, self.sass, self.base, self.shifts = CHIPS[gpu]
        code = STORE[OF.get(gpu, gpu)]
        packed = b"".join(word.to_bytes(16, "little") for word in code)
        self.data.region.write(0x4000, packed)
        self.output = self.data.address + 0x8000
        self.data.region.write(0x2000 + self.base, struct.pack("<QI", self.output, 1000))
        self.channel.segment(0x2001_2000, self.channel.chip.compute_class)

    def make(self, memory):
        self.units.append(Fake(memory))
        return self.units[-1]

    @property
    def launches(self):
        return self.units[0].launches

    def record(self, slot=0, **changes):
        """A launch record in memory; its address."""
        code, bank, shared, _ = self.shifts
        start = self.data.address
        values = {
            "major": self.version, "sass": self.sass, "code": start + 0x4000 >> code & 0xFFFFFFFF,
            "code_upper": start + 0x4000 >> code + 32, "registers": 16, "x": 32, "y": 1, "z": 1,
            "width": 2, "height": 1, "depth": 1, "shared": 0x400 >> shared, "min": 3, "target": 3,
            "max": 0x1A, "bank": start + 0x2000 >> bank & 0xFFFFFFFF,
            "bank_upper": start + 0x2000 >> bank + 32, "bank_size": 0x400 >> 4, "bank_valid": 1,
        } | changes  # fmt: skip
        word = values.pop("bits", 0)
        for name, value in values.items():
            high, low = self.fields[name]
            assert value < 1 << high - low + 1
            word |= value << low
        offset = 0x200 * slot
        self.data.region.write(offset, word.to_bytes(0x180, "little"))
        return start + offset

    def launch(self, address, action=9):
        self.channel.submit(0x2001_20AD, address >> 8, 0x2001_20B0, action)
        return self

    def faulted(self):
        number = self.channel.failed()
        return number, self.client.host.faults[-1].text


@pytest.fixture
def bench(client):
    return lambda **options: Bench(client, **options)


# Kernels.


@pytest.mark.row("SIM-05")
@pytest.mark.parametrize("gpu", CHIPS)
def test_a_kernel_stores(bench, gpu):
    made = bench(gpu=gpu, fake=False)
    made.launch(made.record())
    assert made.channel.finished()
    assert made.client.host.faults == []
    expected = struct.pack("<64I", *range(1000, 1064))
    assert made.data.region.read(0x8000, 260) == expected + bytes(4)
    stats = made.client.host.stats
    assert (stats["dispatches"], stats["warps"]) == (1, 2)
    assert stats["instructions"] == 2 * (len(STORE[OF.get(gpu, gpu)]) - 1)


def test_hopper_takes_records_of_ampere(bench):
    made = bench(fake=False)
    made.version, made.fields, _, _, made.shifts = CHIPS["sm_86"]
    made.launch(made.record())
    assert made.channel.finished()
    assert made.data.region.read32(0x8000) == 1000


@pytest.mark.row("SIM-06")
def test_a_bad_store_is_an_mmu_fault_of_the_channel(bench):
    made = bench(fake=False)
    made.data.region.write64(0x2210, 0x1234_5000)
    made.launch(made.record())
    number, text = made.faulted()
    assert number == 31
    assert "write of 0x12345000" in text
    assert f"kernel at {made.data.address + 0x4000:#x}, pc" in text


# What a record says.


@pytest.mark.row("SIM-05")
@pytest.mark.parametrize("gpu", CHIPS)
def test_a_record_becomes_a_launch(bench, gpu):
    made = bench(gpu=gpu)
    shared = made.shifts[2]
    address = made.record(
        width=3, height=4, depth=5, x=8, y=2, z=1, shared=0x800 >> shared, barriers=2, registers=40
    )
    made.channel.submit(0x2002_20A8, 0x7294, 0x0000_0000, 0x2002_21EC, 0x7293, 0)
    made.launch(address)
    assert made.channel.finished()
    found = made.launches[0]
    start = made.data.address
    assert (found.code, found.registers, found.barriers) == (start + 0x4000, 40, 2)
    assert (found.grid, found.block, found.shared_bytes) == ((3, 4, 5), (8, 2, 1), 0x800)
    assert found.constants == ((start + 0x2000, 0x400), *[None] * 7)
    assert (found.shared_window, found.local_window) == (0x7294_0000_0000, 0x7293_0000_0000)
    assert (found.local_bytes, found.sm) == (0, gpu)


@pytest.mark.row("SIM-05")
@pytest.mark.parametrize("gpu", ["sm_86", "sm_90", "sm_120"])
@pytest.mark.parametrize(("size", "expected"), [(0, 16), (1, 4), (2, 8)])
def test_a_release_follows_the_grid(bench, gpu, size, expected):
    made = bench(gpu=gpu)
    cell = made.data.address + 0x9000
    made.data.region.write(0x9000, b"\xff" * 32)
    made.launch(made.record(
        release=1, release_at=cell & 0xFFFFFFFF, release_at_upper=cell >> 32, release_size=size,
        payload=77,
    ))  # fmt: skip
    assert made.channel.finished()
    written = made.data.region.read(0x9000, 32)
    assert written[:4] == b"\x4d\0\0\0"
    assert written[expected:] == b"\xff" * (32 - expected)
    assert size or 0 < made.data.region.read64(0x9008) < 1 << 62


@pytest.mark.row("SIM-05")
@pytest.mark.parametrize("gpu", ["sm_86", "sm_90", "sm_120"])
def test_records_can_be_chained(bench, gpu):
    made = bench(gpu=gpu)
    second = made.record(1, width=7)
    made.launch(made.record(chained=1, chained_action=1, chained_at=second >> 8))
    assert made.channel.finished()
    assert [found.grid[0] for found in made.launches] == [2, 7]


def test_an_empty_grid_is_over_at_once(bench):
    made = bench()
    made.launch(made.record(width=0))
    assert made.channel.finished()
    assert made.launches == []


@pytest.mark.parametrize("action", [0, 1, 8])
@pytest.mark.row("SIM-03")
def test_actions_that_start_nothing(bench, action):
    made = bench()
    made.launch(made.record(), action)
    assert made.channel.finished()
    assert made.launches == []


@pytest.mark.refusal
@pytest.mark.row("SIM-03")
@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"major": 7}, "has version 7, sm_90 takes 3 or 4"),
        ({"sass": 0x89}, "SASS_VERSION 0x89, this chip runs 0x90"),
        ({"registers": 0}, "REGISTER_COUNT 0"),
        ({"registers": 300}, "REGISTER_COUNT 300"),
        ({"x": 0}, "a block of 0 x 1 x 1 threads"),
        ({"x": 1025}, "a block of 1025 x 1 x 1"),
        ({"x": 1024, "y": 2}, "a block of 2048 threads"),
        ({"x": 1024, "registers": 128}, "a block needs 131072 registers"),
        ({"z": 65}, "a block of 32 x 1 x 65"),
        ({"shared": 0x401}, "SHARED_MEMORY_SIZE 1025"),
        ({"shared": 0}, "SHARED_MEMORY_SIZE 0"),
        ({"shared": 0x3000}, "SM_CONFIG_SHARED_MEM_SIZE 3, 3, 26 .* 12288 bytes"),
        ({"min": 4}, "SM_CONFIG_SHARED_MEM_SIZE 4, 3, 26"),
        ({"barriers": 17}, "BARRIER_COUNT 17"),
        ({"bits": 3 << 30}, "bits 31:30 are set and not known"),
        ({"bits": 1 << 200}, "bits 200 are set"),
        ({"chained": 1, "chained_action": 4}, "action 4 is not simulated"),
        ({"release": 1, "release_size": 3}, "STRUCTURE_SIZE 3"),
        ({"release": 1, "release_at": 8}, "not aligned to 16 bytes"),
        ({"width": 2**31}, "a grid of"),
        ({"bits": 2 << 2144}, "gpc_cga_width 2: clusters are not simulated"),
        ({"bits": 4 << 2152 | 1 << 2144}, "gpc_cga_height 4: clusters are not simulated"),
        ({"bits": 63 << 2160}, "gpc_cga_depth 63: clusters are not simulated"),
    ],
)
def test_what_a_record_may_not_say(bench, changes, text):
    made = bench()
    made.launch(made.record(**changes))
    number, found = made.faulted()
    assert number == 69
    assert re.search(text, found)
    assert "launch record at" in found


@pytest.mark.refusal
def test_constants_of_version_3_are_aligned_to_256_bytes(bench):
    made = bench(gpu="sm_86")
    made.launch(made.record(bank=made.data.address + 0x2040 & 0xFFFFFFFF))
    assert "constant bank 0 at" in made.faulted()[1]


@pytest.mark.refusal
def test_windows_are_aligned_to_4_gib(bench):
    made = bench()
    made.channel.submit(0x2002_20A8, 0x7294, 0x1000)
    made.launch(made.record())
    assert "a window at ...00001000 is not aligned to 4 GiB" in made.faulted()[1]


def test_a_record_that_is_not_aligned_cannot_be_named(bench):
    made = bench()
    made.launch(made.record() + 0x80)
    assert made.channel.finished()
    assert len(made.launches) == 1


@pytest.mark.row("SIM-06")
@pytest.mark.parametrize("changes", [{"code": 0x10000000}, {"bank": 0x400000}])
def test_code_and_constants_have_to_be_mapped(bench, changes):
    made = bench()
    made.launch(made.record(**changes))
    assert made.faulted()[0] == 31


@pytest.mark.row("SIM-06")
def test_a_page_after_the_code_has_to_be_mapped(bench):
    made = bench()
    start = made.data.address
    prefetch = {1344: start + 0xFD00 >> 8 & 0xFFFFFFFF, 1376: start + 0xFD00 >> 40, 1393: 3}
    made.launch(made.record(bits=sum(value << low for low, value in prefetch.items())))
    number, text = made.faulted()
    assert number == 31
    assert f"execute of {start + 0x10000:#x}" in text


@pytest.mark.row("SIM-06")
@pytest.mark.parametrize("is_enough", [True, False])
def test_local_memory_covers_every_multiprocessor(bench, is_enough):
    made = bench()
    # 0x240 bytes a thread: 0x4800 a warp, 64 warps, 2 SMs of a TPC, 8 x 9 TPCs.
    each = 0x24_0000
    size = 72 * each if is_enough else 71 * each
    at = made.client.host.reserve(size, 1 << 21, 1 << 40)
    made.client.gpu_map(made.client.memory(size), size, at)
    made.channel.submit(0x2002_21E4, at >> 32, at & 0xFFFFFFFF, 0x2003_20B9, 0, each, 0xFF)
    made.launch(made.record(local=0x240))
    if is_enough:
        assert made.channel.finished()
        assert (made.launches[0].local_base, made.launches[0].local_bytes) == (at, 0x240)
    else:
        assert f"write of {at + size:#x}" in made.faulted()[1]


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("setup", "text"),
    [
        ((), "SET_SHADER_LOCAL_MEMORY is used, but was never set"),
        ((0x2002_21E4, 0, 0, 0x2003_20B9, 0, 0x8000, 0xFF), "0x8000 bytes per TPC, the kernel"),
        ((0x2002_21E4, 0, 0, 0x2003_20B9, 0, 0x8001, 0xFF), "no multiple of 0x8000"),
    ],
)
def test_local_memory_has_to_be_enough(bench, setup, text):
    made = bench()
    made.channel.submit(*setup) if setup else None
    made.launch(made.record(local=0x240))
    assert text in made.faulted()[1]


# Faults of kernels.


@pytest.mark.parametrize(
    ("kind", "number", "esr"),
    [("illegal", 13, 0x08), ("misaligned", 13, 0x0F), ("shared", 13, 0x0E), ("local", 13, 0x0E),
     ("memory", 31, 0x14)],
)  # fmt: skip
def test_faults_of_warps_become_errors(bench, kind, number, esr):
    made = bench()
    made.units[0].fault = WarpFault(kind, 0x5000, "read", 0x4010, "what it did")
    made.launch(made.record())
    assert made.faulted()[0] == number
    error = made.client.host.nvidia.gpus[0].queues[0].setup.group.sm_error
    assert (error.warp_esr, error.pc, error.address) == (esr, 0x4010, 0x5000)


# Other methods.


def inline(address, data, kind=0x41):
    words = struct.unpack(f"<{-(-len(data) // 4)}I", data.ljust(-(-len(data) // 4) * 4, b"\0"))
    return (
        0x2002_2060, len(data), 1, 0x2002_2062, address >> 32, address & 0xFFFFFFFF,
        0x2001_206C, kind, 0x6000_206D | len(words) << 16, *words,
    )  # fmt: skip


@pytest.mark.row("SIM-05")
@pytest.mark.parametrize("data", [b"abcd", b"hello world", b"x" * 400])
def test_inline_data_is_written(bench, data):
    made = bench()
    made.channel.submit(*inline(made.output, data))
    assert made.channel.finished()
    assert made.data.region.read(0x8000, len(data) + 1) == data + b"\0"


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("kind", "text"), [(0x40, "block-linear"), (0x61, "a semaphore or an interrupt")]
)
def test_inline_data_in_other_ways(bench, kind, text):
    made = bench()
    made.channel.submit(*inline(made.output, b"abcd", kind))
    assert text in made.faulted()[1]


@pytest.mark.refusal
def test_more_inline_data_than_announced(bench):
    made = bench()
    words = list(inline(made.output, b"abcdefgh"))
    words[1] = 4
    made.channel.submit(*words)
    assert "2 words, but 4 bytes are awaited" in made.faulted()[1]


def test_report_semaphores(bench):
    made = bench()
    at = made.output
    made.channel.submit(0x2004_26C0, at >> 32, at & 0xFFFFFFFF, 5, 0)
    made.channel.submit(
        0x2005_2056, 6, 1, at + 16 & 0xFFFFFFFF, at >> 32, 0x1000,
    )  # fmt: skip
    assert made.channel.finished()
    assert (made.data.region.read64(0x8000), made.data.region.read64(0x8010)) == (5, 6 | 1 << 32)
    assert 0 < made.data.region.read64(0x8018) < 1 << 62


@pytest.mark.parametrize(
    ("size", "payload", "expected"),
    [(1, 0, "06000000 ffffffff"), (2, 0, "06000000 00000000"), (2, 1, "06000000 01000000")],
)
def test_report_semaphores_of_other_sizes(bench, size, payload, expected):
    made = bench()
    made.data.region.write64(0x8000, 2**64 - 1)
    at = made.output
    made.channel.submit(0x2005_2056, 6, 1, at & 0xFFFFFFFF, at >> 32, size << 3 | payload << 12)
    assert made.channel.finished()
    assert made.data.region.read(0x8000, 8) == bytes.fromhex(expected)


@pytest.mark.refusal
def test_the_newer_report_semaphore_is_not_on_ga100(bench):
    made = bench(gpu="sm_80")
    made.channel.submit(0x2001_205A, 0)
    assert "class 0xc6c0 has no method 0x0168" in made.faulted()[1]


def test_caches_are_invalidated(bench):
    made = bench()
    made.channel.submit(
        0x2001_25A6, 0x1011, 0x2001_2087, 0x1017, 0x2001_2091, 0, 0x2001_2044, 0, 0x2001_20A6, 0
    )
    assert made.channel.finished()


@pytest.mark.refusal
@pytest.mark.row("SIM-03")
@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((0x2001_25A6, 2), "INVALIDATE_SHADER_CACHES_NO_WFI: unknown bits 0x2"),
        ((0x2001_2091, 1), "one line of a texture cache"),
        ((0x2001_20B0, 5), "action 0x5 is not simulated"),
        ((0x2001_20A4, 1), "method 0x0290 is not simulated"),
        ((0x2001_20B0, 9), "SEND_PCAS_A is used, but was never set"),
    ],
)
def test_methods_that_are_refused(bench, words, text):
    made = bench()
    made.channel.submit(*words)
    number, found = made.faulted()
    assert number == 69
    assert text in found
