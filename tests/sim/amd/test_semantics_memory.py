"""Known answers for every memory instruction, through the interpreter."""

import ctypes
import mmap
from pathlib import Path

import numpy as np
import pytest

from hcq.errors import SimFault
from sim.amd.rdna.instruction import Instruction, Operand
from sim.amd.rdna.interpret import Wave
from sim.amd.rdna.interpret_memory import access_memory, element_offsets
from sim.amd.rdna.memory_ops import OPERATIONS
from sim.memory import GpuMemory, PageFault

TABLE = Path(__file__).parent / "vectors" / "memory.txt"
LANES = (0, 2, 31)  # active lanes; the others must do nothing
ACTIVE = sum(1 << lane for lane in LANES)
STEP = 16  # bytes between the lanes' addresses
AT = 64  # where lane 0's data lies
OLD = 0xDEAD_BEEF
NULL = Operand("null", 124)


def load():
    cases = {}
    for line in TABLE.read_text().splitlines():
        if line and not line.startswith("#"):
            cases.setdefault(line.split()[0], []).append(line)
    return cases


CASES = load()


class Bench:
    """A wave with a page of memory, addressed as one instruction's space wants it."""

    def __init__(self, name):
        self.operation = OPERATIONS[name]
        self.pages = mmap.mmap(-1, 65536)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.pages))
        self.memory = GpuMemory()
        self.memory.map(self.base, 65536)
        self.wave = Wave(32, 0, bytearray(32768), self.base)
        self.wave.set_exec(ACTIVE)
        self.wave.vgprs[8:] = OLD
        self.fields = {"offen": 1, "idxen": 0}
        self.offsets = (16, 48) if self.operation.two_addresses else (24, 0)
        self.set_addresses()

    def set_addresses(self):
        start = AT + STEP * np.arange(32)
        if self.operation.space in ("global", "flat"):
            start = start + self.base
        self.wave.vgprs[0] = start & 0xFFFF_FFFF
        self.wave.vgprs[1] = start >> 32
        self.wave.scalars["m0"][0] = AT
        self.wave.scalars["sgpr"][0:2] = [(self.base + AT) & 0xFFFF_FFFF, self.base >> 32]
        self.wave.scalars["sgpr"][2:4] = self.wave.scalars["sgpr"][0:2]
        self.describe()

    def describe(self, stride=0, records=65536, **flags):
        """A buffer over our pages in s[4:7]; scalar loads begin where lane 0's data lies."""
        start = self.base + (AT if self.operation.space == "scalar_buffer" else 0)
        check, lane = flags.get("check", 3), flags.get("adds_lane", 0)
        high = stride << 16 | flags.get("swizzle", 0) << 30 | start >> 32
        word = check << 28 | lane << 23 | flags.get("index_stride", 0) << 21
        self.wave.scalars["sgpr"][4:8] = [start & 0xFFFF_FFFF, high, records, word]

    def place(self, lane, element=0):
        """Where a lane's element starts, in its space."""
        if self.operation.add_thread_id:
            return AT + self.offsets[0] + 4 * lane
        if self.operation.two_addresses:
            bits = self.operation.bits // 8 * (64 if self.operation.stride64 else 1)
            return AT + STEP * lane + self.offsets[element] * bits
        is_scalar = self.operation.space.startswith("scalar")
        return AT + (0 if is_scalar else STEP * lane) + self.offsets[0]

    def byte(self, lane, address):
        """The index in our pages of a byte; scratch interleaves lanes by dwords."""
        if self.operation.space == "scratch":
            return (address // 4 * 32 + lane) * 4 + address % 4
        return address

    def peek(self, lane, size, element=0):
        store = self.wave.lds if self.operation.space == "lds" else self.pages
        start = self.place(lane, element)
        return bytes(store[self.byte(lane, start + at)] for at in range(size))

    def poke(self, lane, data, element=0):
        store = self.wave.lds if self.operation.space == "lds" else self.pages
        start = self.place(lane, element)
        for at, value in enumerate(data):
            store[self.byte(lane, start + at)] = value

    def run(self, data=(), second=(), returns=0):
        """Execute; data and second are words, returns the count of result registers."""
        self.wave.vgprs[16 : 16 + len(data)] = np.array(data, np.uint32)[:, None]
        first = len(data)
        if self.operation.space == "lds" or not second:
            self.wave.vgprs[24 : 24 + len(second)] = np.array(second, np.uint32)[:, None]
        else:
            self.wave.vgprs[16 + first : 16 + 2 * first] = np.array(second, np.uint32)[:, None]
        instruction = Instruction(
            0, 8, "", self.operation.name, 0, self.fields, self.destination(returns),
            self.sources(data, second), offset=self.offsets[0], offset1=self.offsets[1],
        )  # fmt: skip
        access_memory(instruction, self.operation, self.wave, self.memory)

    def destination(self, count):
        kind = "sgpr" if self.operation.space.startswith("scalar") else "vgpr"
        return (Operand(kind, 8, count),) if count else ()

    def sources(self, data, second):
        if self.operation.space == "scalar":
            return (Operand("sgpr", 0, 2), NULL)
        if self.operation.space == "scalar_buffer":
            return (Operand("sgpr", 4, 4), NULL)
        if self.operation.space == "buffer":
            count = len(data) + len(second)
            given = (Operand("vgpr", 16, count),) if count else ()
            return (*given, Operand("vgpr", 0, 2), Operand("sgpr", 4, 4), NULL)
        has_address = not (self.operation.add_thread_id or self.operation.action == "append")
        operands = [Operand("vgpr", 0, 2)] if has_address else []
        if data:
            operands.append(Operand("vgpr", 16, len(data)))
        if second and self.operation.space == "lds":
            operands.append(Operand("vgpr", 24, len(second)))
        if self.operation.space in ("global", "scratch"):
            operands.append(Operand("sgpr", 2, 2) if self.operation.add_thread_id else NULL)
        return tuple(operands)

    def result(self, lane, count):
        if self.operation.space.startswith("scalar"):
            return self.wave.scalars["sgpr"][8 : 8 + count].tolist()
        return self.wave.vgprs[8 : 8 + count, lane].tolist()


def fields(line):
    left, right = line.split("->")
    keys = dict(word.split("=") for word in left.split()[1:])
    return keys, right.split()


def words(text):
    return [int(word, 16) for word in text.split(",")] if text else []


def as_words(number, count):
    return [number >> 32 * part & 0xFFFF_FFFF for part in range(count)]


def check_load(line, name):
    keys, right = fields(line)
    bench = Bench(name)
    for lane in LANES:
        for element, data in enumerate(keys["mem"].split(",")):
            bench.poke(lane, bytes.fromhex(data), element)
    bench.run(returns=len(right))
    for lane in LANES:
        assert bench.result(lane, len(right)) == [int(word, 16) for word in right], line
    if not bench.operation.space.startswith("scalar"):
        assert bench.result(1, len(right)) == [OLD] * len(right), line


def check_store(line, name):
    keys, right = fields(line)
    bench = Bench(name)
    bench.run(words(keys["data"]), words(keys.get("second")))
    for lane in LANES:
        for element, data in enumerate(right):
            size = len(data) // 2
            assert bench.peek(lane, size, element).hex() == data, line
    assert bench.peek(1, 4) == bytes(4), line


def check_atomic(line, name):
    keys, (left,) = fields(line)
    bench = Bench(name)
    size = bench.operation.bits // 8
    old = int(keys["mem"], 16)
    for lane in LANES:
        bench.poke(lane, old.to_bytes(size, "little"))
    count = size // 4
    second = as_words(int(keys["second"], 16), count) if "second" in keys else []
    returns = 0 if bench.operation.returns == "never" else count
    bench.run(as_words(int(keys["data"], 16), count), second, returns)
    for lane in LANES:
        assert int.from_bytes(bench.peek(lane, size), "little") == int(left, 16), line
        if returns:
            assert bench.result(lane, count) == as_words(old, count), line
    assert bench.peek(1, size) == bytes(size), line


def check_append(line, name):
    keys, (left,) = fields(line)
    bench = Bench(name)
    old, at = int(keys["mem"], 16), AT + bench.offsets[0]
    bench.wave.lds[at : at + 4] = old.to_bytes(4, "little")
    bench.run(returns=1)
    assert int.from_bytes(bench.wave.lds[at : at + 4], "little") == int(left, 16), line
    assert [bench.result(lane, 1)[0] for lane in (0, 1, 2, 31)] == [old, OLD, old, old], line


CHECKS = {
    "load": check_load, "store": check_store, "atomic": check_atomic, "append": check_append
}  # fmt: skip


@pytest.mark.row("SIM-04")
@pytest.mark.parametrize("name", sorted(CASES))
def test_known_answers_of(name):
    for line in CASES[name]:
        CHECKS[OPERATIONS[name].action](line, name)


def test_every_memory_instruction_has_a_known_answer():
    assert set(OPERATIONS) - set(CASES) == set()


def test_two_addresses_count_elements():
    instruction = Instruction(0, 8, "DS", "ds_load_2addr_b64", 0, {}, (), (), offset=2, offset1=5)
    assert element_offsets(instruction, OPERATIONS["ds_load_2addr_b64"]) == (16, 40)
    assert element_offsets(instruction, OPERATIONS["ds_load_2addr_stride64_b64"]) == (1024, 2560)


def test_a_scalar_base_is_added_to_a_32_bit_offset():
    bench = Bench("global_load_b32")
    bench.pages[AT + 8 : AT + 12] = b"\x01\x02\x03\x04"
    bench.wave.vgprs[0] = 4
    operands = (Operand("vgpr", 0), Operand("sgpr", 0, 2))
    instruction = Instruction(
        0, 8, "GLOBAL", "global_load_b32", 0, {}, (Operand("vgpr", 8),), operands, offset=4
    )
    access_memory(instruction, bench.operation, bench.wave, bench.memory)
    assert bench.result(0, 1) == [0x04030201]


@pytest.mark.parametrize("high", [1, 2])
def test_flat_addresses_reach_lds_and_scratch_through_their_apertures(high):
    bench = Bench("flat_load_b32")
    bench.wave.vgprs[0] = 8
    bench.wave.vgprs[1] = high << 16
    bench.wave.lds[32:36] = b"\x78\x56\x34\x12"  # offset 24 is added
    at = (32 // 4 * 32 + 2) * 4
    bench.pages[at : at + 4] = b"\x78\x56\x34\x12"
    bench.run(returns=1)
    assert bench.result(2, 1) == [0x12345678]


def test_lds_beyond_its_end_reads_zero_and_ignores_writes():
    bench = Bench("ds_load_b64")
    bench.wave.vgprs[0] = 32768 - 24 - 4
    bench.run(returns=2)
    assert bench.result(0, 2) == [0, 0]
    store = Bench("ds_store_b64")
    store.wave.vgprs[0] = 32768 - 24 - 4
    store.run([1, 2])
    assert store.wave.lds == bytearray(32768)


@pytest.mark.refusal
def test_an_unmapped_address_is_a_page_fault_of_the_first_active_lane():
    bench = Bench("global_store_b32")
    bench.wave.vgprs[1] = 0x7F
    bench.wave.vgprs[0, 0] = 0x1000
    with pytest.raises(PageFault, match="write of 0x7f00001018: page is not-present"):
        bench.run([5])


# --- buffers


def words_at(bench, *values):
    """Words at the start of the buffer."""
    data = np.array(values, np.uint32).tobytes()
    bench.pages[: len(data)] = data


def loaded(name, *, values, addresses, fields=(0, 1), **described):
    """What lane 0 and 2 load, offset 0; addresses: (v0, v1) of each."""
    bench = Bench(name)
    words_at(bench, *values)
    bench.offsets = (0, 0)
    bench.fields = {"idxen": fields[0], "offen": fields[1]}
    bench.describe(**described)
    for lane, (low, high) in zip((0, 2), addresses, strict=True):
        bench.wave.vgprs[0:2, lane] = [low, high]
    count = OPERATIONS[name].count
    bench.run(returns=count)
    return [bench.result(lane, count) for lane in (0, 2)]


def test_a_buffer_reads_zero_beyond_its_bytes_dword_by_dword():
    found = loaded("buffer_load_b64", values=(1, 2, 3, 4), addresses=[(4, 0), (8, 0)], records=12)
    assert found == [[2, 3], [3, 0]]


def test_a_buffer_offset_does_not_wrap():
    found = loaded("buffer_load_b32", values=(7, 8), addresses=[(4, 0), (0xFFFF_FFFC, 0)])
    assert found == [[8], [0]]


def test_an_index_counts_records_of_the_stride():
    found = loaded(
        "buffer_load_b32", values=range(9), addresses=[(2, 4), (1, 0)], fields=(1, 1), stride=12
    )
    assert found == [[7], [3]]


@pytest.mark.parametrize(
    ("check", "expected"), [(0, [[5], [0]]), (1, [[5], [6]]), (2, [[5], [6]]), (3, [[0], [0]])]
)
def test_what_is_checked_is_chosen_by_the_descriptor(check, expected):
    found = loaded(
        "buffer_load_b32", values=range(9), addresses=[(1, 8), (1, 12)], fields=(1, 1),
        stride=12, records=2, check=check,
    )  # fmt: skip
    assert found == expected


def test_a_buffer_without_records_is_empty_even_unchecked():
    found = loaded("buffer_load_b32", values=(7, 8), addresses=[(0, 0), (4, 0)], records=0, check=2)
    assert found == [[0], [0]]


def test_a_swizzled_buffer_interleaves_elements_of_eight_records():
    # Record 3, second word: row 0, element 1 of 8 records of 4 bytes each.
    found = loaded(
        "buffer_load_b32", values=range(40), addresses=[(3, 4), (9, 0)], fields=(1, 1),
        stride=8, swizzle=1,
    )  # fmt: skip
    assert found == [[11], [17]]


def test_a_descriptor_can_add_the_lane_to_the_index():
    found = loaded(
        "buffer_load_b32", values=range(9), addresses=[(0, 0), (4, 0)], stride=8, adds_lane=1
    )
    assert found == [[0], [5]]


def test_the_scalar_offset_is_not_checked():
    bench = Bench("buffer_load_b32")
    words_at(bench, 1, 2, 3, 4)
    bench.describe(records=4)
    operands = (NULL, Operand("sgpr", 4, 4), Operand("int", 136, 1, 8))
    fields, result = {"idxen": 0, "offen": 0}, (Operand("vgpr", 8),)
    instruction = Instruction(0, 8, "MUBUF", "buffer_load_b32", 0, fields, result, operands)
    access_memory(instruction, bench.operation, bench.wave, bench.memory)
    assert bench.result(0, 1) == [3]


def test_what_is_written_outside_a_buffer_vanishes():
    bench = Bench("buffer_store_b64")
    bench.offsets = (0, 0)
    bench.describe(records=AT + 4)
    bench.run([5, 6])
    assert bench.pages[AT : AT + 8] == b"\5\0\0\0\0\0\0\0"


def test_an_atomic_outside_a_buffer_returns_zero_and_changes_nothing():
    bench = Bench("buffer_atomic_add_u64")
    bench.offsets = (0, 0)
    bench.describe(records=AT + 4)
    bench.pages[AT : AT + 8] = b"\1" * 8
    bench.run([5, 6], returns=2)
    assert bench.result(0, 2) == [0, 0]
    assert bench.pages[AT : AT + 8] == b"\1" * 8


def test_a_scalar_buffer_load_reads_zero_beyond_its_records():
    bench = Bench("s_buffer_load_b128")
    bench.pages[AT : AT + 16] = np.array([1, 2, 3, 4], np.uint32).tobytes()
    bench.offsets = (0, 0)
    bench.describe(stride=4, records=3)
    bench.run(returns=4)
    assert bench.result(0, 4) == [1, 2, 3, 0]


@pytest.mark.refusal
def test_a_fault_report_of_a_buffer_load_is_refused_by_name():
    bench = Bench("buffer_load_b32")
    bench.fields["tfe"] = 1
    with pytest.raises(SimFault, match="buffer_load_b32 with tfe is not simulated"):
        bench.run(returns=1)
