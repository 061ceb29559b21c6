"""Translated code and the interpreter give the same bits, on random straight-line programs.

Opcodes are drawn uniformly from everything the simulator executes; operands, modifiers, active
lanes and data at random from a fixed seed. Many programs share one kernel, so that a
thousand of them take seconds.
"""

import mmap
import random

import numpy as np
import pytest

from hcq.errors import SimFault
from sim.amd.rdna import formats, mode
from sim.amd.rdna.categories import all_semantics
from sim.amd.rdna.decode import decode
from sim.amd.rdna.interpret import Wave
from sim.amd.rdna.memory_ops import OPERATIONS
from sim.amd.rdna.opcodes import OPCODES
from sim.amd.rdna.operands import execute
from sim.amd.rdna.relative import MOVES
from sim.amd.rdna.semantics import CONTROL, NO_EFFECT
from sim.amd.wave import Dispatch, Executor
from sim.memory import GpuMemory

NULL = 124
PROGRAMS = 1000
PER_KERNEL = 25
LENGTH = 4  # random instructions of one program

# v0 lane, v1 offset of the lane's row, v[2:3] its address; v4..v19 random; v20.. for results.
FIRST_VGPR, VGPRS = 4, 16
# s[4:7] a buffer over the data, s[8:9] data, s10 0, s[12:13] input, s[14:15] output;
# s16..s31 random.
FIRST_SGPR, SGPRS = 16, 16
FLOAT_MODES = (0xC0, 0xF0, 0xF0)  # denormals of 32 bits are 0, or kept
BUFFERS = [  # stride, records, flags
    (128, 16 * 128, 3 << 28), (128, 16, 1 << 28), (128, 16, 0), (128, 1, 2 << 28),
    (64, 16 * 64, 3 << 28 | 1 << 23), (1 << 14 | 128, 32 * 128, 3 << 28),
]  # fmt: skip
ROW = 128  # bytes of memory and LDS that belong to one lane
INPUT = 64 * 64 + 64  # bytes of one program: 16 vector registers of up to 64 lanes, 16 scalars
OUTPUT = 64 * 80

SPECIAL = (
    0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001,
    0x7F800001, 0x00000001, 0x807FFFFF, 0x00800000, 0x3F800000, 0xBF800000, 0x40490FDB, 0x7F7FFFFF,
    0x3C003C00, 0x7C007E00, 0xFC017C01, 0x00010400, 0x7FF00000, 0x7FF80000, 0xFFF00000, 0x3FF00000,
    0x4F000000, 0xCF000000, 0x5F000000, 0x33000000, 0x4B000000, 0x43800000, 0x7BFF0400,
)  # fmt: skip

PREFIX = {name: bits << (32 - count) for bits, count, name in reversed(formats.PREFIXES)}


def candidates(wave_size):
    """Every opcode that computes or accesses memory, one entry per format and name."""
    known = all_semantics().keys()
    skip = NO_EFFECT | CONTROL | mode.CHANGES
    return [
        opcode
        for opcode in OPCODES.values()
        if opcode.name not in skip
        and opcode.name.replace("v_dual_", "v_") in known | OPERATIONS.keys() | MOVES.keys()
        and not (wave_size == 64 and opcode.format.startswith("VOPD"))
        and "sendmsg" not in opcode.name  # the engines keep time differently
    ]


class Writer:
    """Draws instructions until one is encodable and simulated."""

    def __init__(self, seed, wave_size):
        self.random = random.Random(seed)
        self.wave_size = wave_size
        self.opcodes = candidates(wave_size)
        self.names = []

    def instruction(self):
        """The words of one random instruction."""
        while True:
            opcode = self.random.choice(self.opcodes)
            for _ in range(60):
                words = self._draw(opcode)
                if words is not None:
                    self.names.append(opcode.name)
                    return words

    def _draw(self, opcode):
        try:
            code = self._encode(opcode)
            found = decode(code, 0, 0, wave_size=self.wave_size)
            if found.size != len(code) or self._is_reserved_written(found):
                return None
            if found.name not in OPERATIONS:
                execute(found, Wave(self.wave_size, 0, bytearray()))
        except (SimFault, OverflowError):
            return None
        return code

    def _is_reserved_written(self, found):
        for operand in found.destinations:
            if operand.kind == "sgpr" and operand.index < FIRST_SGPR:
                return True
            if operand.kind == "vgpr" and operand.index < FIRST_VGPR:
                return True
            if operand.kind not in ("sgpr", "vgpr", "vcc", "null", "exec"):
                return True
        if "swap" in found.name and found.format.startswith("VOP"):
            return any(o.kind != "vgpr" or o.index < FIRST_VGPR for o in found.sources)
        return False

    def _encode(self, opcode):
        if opcode.format.startswith("VOPD"):
            return self._dual()
        name = opcode.format
        layout = formats.FLAT if name in formats.SEGMENTS else getattr(formats, name)
        if name == "VOP3" and opcode.scalar_destination:
            layout = formats.VOP3SD
        fields = {"op": opcode.op}
        tail = b""
        for slot in (*opcode.destinations, *opcode.sources):
            if slot.field in layout.fields:
                fields[slot.field] = self._operand(layout, slot)
        if name in ("DS", "SMEM", "MUBUF", *formats.SEGMENTS):
            self._memory(name, opcode, fields)
        else:
            tail = self._modifiers(layout, opcode, fields)
        if "simm16" in layout.fields:
            fields["simm16"] = self.random.getrandbits(16)
            if "getreg" in opcode.name and fields["simm16"] & 63 != mode.MODE_ID:
                raise SimFault("the engines keep time differently")
        literal = any(
            fields.get(f) == 255 and layout.fields[f][0] - layout.fields[f][1] >= 7
            for f in ("src0", "src1", "src2", "ssrc0", "ssrc1")
            if f in fields
        ) or any(slot.kind == "k" for slot in opcode.sources)
        if literal:
            if tail:
                raise SimFault("a literal and a DPP word")
            tail = self._word().to_bytes(4, "little")
        prefix = PREFIX["FLAT" if name in formats.SEGMENTS else name]
        return self._pack(layout, prefix, fields) + tail

    def _pack(self, layout, prefix, fields):
        record = layout.pack(**fields) | prefix
        return record.to_bytes(layout.size_bits // 8, "little")

    def _operand(self, layout, slot):
        high, low = layout.fields[slot.field]
        width = high - low + 1
        if slot.field in ("vdst", "vsrc1", "addr", "data", "data0", "data1") and width == 8:
            return self._vector(slot.count, half=slot.kind in "hc" and layout.size_bits == 32)
        if slot.kind in "vh" and width == 9:
            return 256 + self._vector(slot.count)
        if slot.field in ("sdst", "sdata"):
            return self._scalar(slot)
        if slot.kind == "m":
            return self._scalar(slot, self.wave_size // 32)
        return self._any(slot, width)

    def _vector(self, count, *, half=False):
        index = self.random.randint(FIRST_VGPR, FIRST_VGPR + VGPRS - max(count, 1))
        return index | (self.random.getrandbits(1) << 7 if half else 0)

    def _scalar(self, slot, count=0):
        count = count or max(slot.count, 1)
        if self.random.random() < 0.1 and count <= 2:
            return 106
        step = min(count, 4)
        last = FIRST_SGPR + SGPRS - count
        return self.random.randrange(FIRST_SGPR, last + 1, step)

    def _any(self, slot, width):
        draw = self.random.random()
        if width == 9 and draw < 0.6:
            index = self._vector(slot.count)
            return 256 + index
        if draw < 0.75:
            return self._scalar(slot)
        if draw < 0.85:
            return self.random.choice([*range(128, 209), *range(240, 249)])
        return self.random.choice([255, 106, 126, 253, 128, 193])

    def _modifiers(self, layout, opcode, fields):
        masks = dict(opcode.modifiers)
        for name in ("neg", "abs", "op_sel", "neg_hi", "clamp", "omod"):
            if name in layout.fields and masks.get(name) and self.random.random() < 0.3:
                high, low = layout.fields[name]
                bits = self.random.getrandbits(high - low + 1)
                fields[name] = bits if name == "omod" else bits & masks[name]
        if layout is formats.VOP3P:
            fields["op_sel_hi"] = self.random.getrandbits(2)
            fields["op_sel_hi_2"] = self.random.getrandbits(1)
        if masks.get("dpp") and self.random.random() < 0.2:
            return self._dpp(fields)
        return b""

    def _dpp(self, fields):
        source = self._vector(1)
        if self.random.random() < 0.3:
            fields["src0"] = self.random.choice([233, 234])
            lanes = {f"lane_{i}": self.random.getrandbits(3) for i in range(8)}
            return formats.DPP8.pack(src0=source, **lanes).to_bytes(4, "little")
        fields["src0"] = 250
        control = self.random.choice([
            self.random.getrandbits(8), 0x140, 0x141,
            self.random.choice([0x100, 0x110, 0x120, 0x150, 0x160]) + self.random.randint(1, 15),
        ])  # fmt: skip
        word = formats.DPP16.pack(
            src0=source, dpp_ctrl=control, bound_ctrl=self.random.getrandbits(1),
            fi=self.random.getrandbits(1), row_mask=self.random.getrandbits(4) | 1,
            bank_mask=self.random.getrandbits(4) | 2,
        )  # fmt: skip
        return word.to_bytes(4, "little")

    def _permutation(self, opcode, fields):
        if "addr" in fields:
            fields["addr"] = self.random.choice([1, self._vector(1)])
        fields["offset0"] = self.random.getrandbits(8)
        fields["offset1"] = self.random.getrandbits(8) if "swizzle" in opcode.name else 0

    def _memory(self, name, opcode, fields):
        """Addresses that hit: v1 or v[2:3] plus a small offset, or s[8:9]."""
        operation = OPERATIONS.get(opcode.name)
        pick = self.random
        if name == "SMEM":
            base = 2 if "buffer" in opcode.name else 4
            fields |= {"sbase": base, "offset": pick.randrange(0, 1024, 4)}
            fields["soffset"] = pick.choice([NULL, 10])
            return
        if operation is None:  # lane permutations of the DS format
            self._permutation(opcode, fields)
            return
        unit = max(4, operation.bits // 8) if operation.action == "atomic" else 4
        if name == "DS":
            if "addr" in fields:
                fields["addr"] = 1
            fields["offset0"] = pick.randrange(0, 64, 1 if operation.two_addresses else unit)
            fields["offset1"] = pick.getrandbits(6) if operation.two_addresses else 0
            return
        if name == "MUBUF":
            self._buffer(operation, fields, unit)
            return
        offset = pick.randrange(0, 96, unit)
        fields |= {"seg": formats.SEGMENTS.index(name), "offset": offset, "saddr": NULL, "addr": 2}
        if operation.returns == "glc":
            fields["glc"] = 1 if "csub" in opcode.name else pick.getrandbits(1)
            fields["vdst"] = self._vector(operation.count) if fields["glc"] else 0
        if operation.add_thread_id:
            fields |= {"saddr": 8, "addr": 0}
        elif name == "SCRATCH":
            sve = pick.getrandbits(1)
            fields |= {"saddr": pick.choice([10, NULL]), "sve": sve, "addr": sve}
        elif name == "GLOBAL" and pick.random() < 0.5:
            fields |= {"saddr": 8, "addr": 1}

    def _buffer(self, operation, fields, unit):
        """By record (v0), by offset (v1) or both; half of the records lie outside."""
        pick = self.random
        idxen, offen = pick.choice([(0, 0), (1, 0), (0, 1)])
        fields |= {"idxen": idxen, "offen": offen, "vaddr": 0 if idxen else 1, "srsrc": 1}
        fields |= {"offset": pick.randrange(0, 96, unit), "soffset": pick.choice([NULL, 10, 136])}
        vector = self._vector(2 * operation.count if operation.kind else operation.count)
        fields["vdata"] = vector
        if operation.returns == "glc":
            fields["glc"] = 1 if "csub" in operation.name else pick.getrandbits(1)

    def _dual(self):
        pick = self.random
        x = pick.choice([o for o in OPCODES.values() if o.format == "VOPD_X"])
        y = pick.choice([o for o in OPCODES.values() if o.format == "VOPD_Y"])
        fields = {"op_x": x.op, "op_y": y.op}
        literal = any(slot.kind == "k" for o in (x, y) for slot in o.sources)
        for letter, opcode in (("x", x), ("y", y)):
            fields[f"src0_{letter}"] = 256 + self._vector(1)
            fields[f"vsrc1_{letter}"] = 0 if opcode.unused else self._vector(1)
        fields["vdst_x"] = self._vector(1)
        fields["vdst_y"] = self._vector(1) >> 1
        if (fields["vdst_y"] << 1 | ~fields["vdst_x"] & 1) < FIRST_VGPR:
            raise SimFault("reserved")
        tail = self._word().to_bytes(4, "little") if literal else b""
        return self._pack(formats.VOPD, PREFIX["VOPD"], fields) + tail

    def _word(self):
        if self.random.random() < 0.5:
            return self.random.choice(SPECIAL)
        return self.random.getrandbits(32)


def instruction(name, layout_name, *, literal=None, **fields):
    """One instruction by name, packed from its table row."""
    op = next(o.op for o in OPCODES.values() if o.format == layout_name and o.name == name)
    layout = formats.FLAT if layout_name in formats.SEGMENTS else getattr(formats, layout_name)
    if "sdst" in fields and layout_name == "VOP3":
        layout = formats.VOP3SD
    prefix = PREFIX["FLAT" if layout_name in formats.SEGMENTS else layout_name]
    record = layout.pack(op=op, **fields) | prefix
    tail = b"" if literal is None else (literal & 0xFFFF_FFFF).to_bytes(4, "little")
    return record.to_bytes(layout.size_bits // 8, "little") + tail


def set_exec(mask, wave_size):
    code = instruction("s_mov_b32", "SOP1", sdst=126, ssrc0=255, literal=mask)
    if wave_size == 64:
        code += instruction("s_mov_b32", "SOP1", sdst=127, ssrc0=255, literal=mask >> 32)
    return code


def advance(pair, size):
    """s[pair:pair+1] += size."""
    return instruction(
        "s_add_u32", "SOP2", sdst=pair, ssrc0=pair, ssrc1=255, literal=size
    ) + instruction("s_addc_u32", "SOP2", sdst=pair + 1, ssrc0=pair + 1, ssrc1=128)


def shift_lane(to, by):
    return instruction("v_lshlrev_b32", "VOP2", vdst=to, src0=128 + by, vsrc1=0)


class Assembly:
    """One kernel of many programs, each with its own input and output."""

    def __init__(self, writer, count):
        self.wave_size = writer.wave_size
        self.count = count
        pick = writer.random
        self.full = (1 << self.wave_size) - 1
        self.code = self._start()
        for _ in range(count):
            self.code += self._load()
            if pick.random() < 0.5:
                self.code += set_exec(pick.getrandbits(self.wave_size), self.wave_size)
            for _ in range(LENGTH):
                self.code += writer.instruction()
                if pick.random() < 0.2:
                    mask = pick.choice([self.full, self.full, pick.getrandbits(self.wave_size)])
                    self.code += set_exec(mask, self.wave_size)
            self.code += self._store()
            self.code += instruction("s_branch", "SOPP", simm16=0)  # starts a new block
        self.code += instruction("s_endpgm", "SOPP", simm16=0)

    def _start(self):
        return b"".join([
            instruction("s_load_b64", "SMEM", sdata=8, sbase=0, soffset=NULL, offset=0),
            instruction("s_load_b128", "SMEM", sdata=12, sbase=0, soffset=NULL, offset=8),
            instruction("s_load_b128", "SMEM", sdata=4, sbase=0, soffset=NULL, offset=32),
            instruction("s_mov_b32", "SOP1", sdst=10, ssrc0=128),
            instruction("s_mov_b32", "SOP1", sdst=125, ssrc0=132),  # m0 = 4
            shift_lane(1, 7),
            instruction("v_add_co_u32", "VOP3", vdst=2, sdst=106, src0=8, src1=257),
            instruction("v_mov_b32", "VOP1", vdst=3, src0=9),
        ])  # fmt: skip

    def _load(self):
        code = shift_lane(21, 6)
        for quad in range(VGPRS // 4):
            code += instruction(
                "global_load_b128", "GLOBAL", seg=2, vdst=FIRST_VGPR + 4 * quad, addr=21,
                saddr=12, offset=16 * quad,
            )  # fmt: skip
        code += instruction(
            "s_load_b512", "SMEM", sdata=FIRST_SGPR, sbase=6, soffset=NULL, offset=4096
        )
        return code + advance(12, INPUT)

    def _store(self):
        code = instruction("s_cselect_b32", "SOP2", sdst=10, ssrc0=129, ssrc1=128)
        code += instruction("s_mov_b32", "SOP1", sdst=11, ssrc0=126)
        code += set_exec(self.full, self.wave_size) + shift_lane(21, 6)
        for quad in range(VGPRS // 4):
            code += instruction(
                "global_store_b128", "GLOBAL", seg=2, data=FIRST_VGPR + 4 * quad, addr=21,
                saddr=14, offset=16 * quad,
            )  # fmt: skip
        code += instruction("v_mov_b32", "VOP1", vdst=22, src0=128)
        for lane, source in enumerate([*range(FIRST_SGPR, FIRST_SGPR + SGPRS), 10, 11, 106]):
            code += instruction("v_writelane_b32", "VOP3", vdst=22, src0=source, src1=128 + lane)
        code += shift_lane(21, 2) + advance(14, 4096)
        code += instruction(
            "global_store_b32", "GLOBAL", seg=2, data=22, addr=21, saddr=14, offset=0
        )
        code += advance(14, OUTPUT - 4096)
        return code + instruction("s_mov_b32", "SOP1", sdst=10, ssrc0=128)


class Gpu:
    """Memory of one simulated GPU, and an executor."""

    def __init__(self, **options):
        self.memory = GpuMemory()
        self.executor = Executor(self.memory, **options)
        self.kept = []

    def allocate(self, size, **options):
        size = -(-size // 4096) * 4096
        region = mmap.mmap(-1, size)
        self.kept.append(region)
        data = np.frombuffer(region, dtype=np.uint8)
        self.memory.map(int(data.ctypes.data), size, **options)
        return int(data.ctypes.data), data


def data_words(seed, count):
    """Random words, a third of them special or small."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 1 << 32, count, dtype=np.uint32)
    kind = rng.integers(0, 9, count)
    special = np.array(SPECIAL, dtype=np.uint32)[rng.integers(0, len(SPECIAL), count)]
    floats = rng.normal(0, 100, count).astype(np.float32).view(np.uint32)
    small = rng.integers(0, 64, count, dtype=np.uint32)
    return np.select([kind < 2, kind < 5, kind < 6], [special, floats, small], words)


def run(assembly, seed, count, **options):
    """What every program left behind: registers, and memory."""
    gpu = Gpu(**options)
    entry, code = gpu.allocate(len(assembly.code) + 256, executable=True)
    code[: len(assembly.code)] = np.frombuffer(assembly.code, dtype=np.uint8)
    data, shared = gpu.allocate(ROW * 64 + 4096)
    shared.view(np.uint32)[:] = data_words(seed, len(shared) // 4)
    source, given = gpu.allocate(count * INPUT + 64)
    given.view(np.uint32)[:] = data_words(seed + 1, len(given) // 4)
    target, result = gpu.allocate(count * OUTPUT)
    scratch, stack = gpu.allocate(64 * 16384)
    kernarg, arguments = gpu.allocate(4096)
    arguments[:24].view(np.uint64)[:] = [data, source, target]
    stride, *rest = BUFFERS[seed % len(BUFFERS)]
    arguments[32:48].view(np.uint32)[:] = [data & 0xFFFFFFFF, data >> 32 | stride << 16, *rest]
    dispatch = Dispatch(
        code=entry, rsrc1=31 | FLOAT_MODES[seed % 3] << 12, rsrc2=2 << 1 | 16 << 15 | 1, rsrc3=0,
        user_data=(kernarg & 0xFFFFFFFF, kernarg >> 32, *[0] * 14), groups=(1, 1, 1),
        threads=(assembly.wave_size, 1, 1), wave_size=assembly.wave_size, scratch_base=scratch,
        tmpring_size=(16384 * 64 // 256) << 12 | 1,
    )  # fmt: skip
    gpu.executor.run(dispatch)
    pairs = [result.copy(), shared.copy(), stack.copy()]
    return pairs, gpu.executor.counters


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return str(tmp_path_factory.mktemp("translated"))


@pytest.mark.row("SIM-15")
@pytest.mark.parametrize("seed", range(PROGRAMS // PER_KERNEL))
def test_translator_and_interpreter_agree_on_random_programs(seed, cache):
    wave_size = 64 if seed % 4 == 3 else 32
    writer = Writer(seed, wave_size)
    assembly = Assembly(writer, PER_KERNEL)
    translated, counted = run(assembly, seed, PER_KERNEL, threads=1, cache_directory=cache)
    interpreted, expected = run(assembly, seed, PER_KERNEL, interpret=True)
    for name, a, b in zip(("registers", "memory", "scratch"), translated, interpreted, strict=True):
        different = np.flatnonzero(a != b)
        assert not len(different), explain(name, different, writer.names)
    assert counted == expected


def explain(name, different, names):
    """Which program differs first, and where."""
    first = int(different[0])
    if name != "registers":
        return f"{name} differs at byte {first}"
    program, at = divmod(first, OUTPUT)
    place = f"lane {at // 64} v{FIRST_VGPR + at % 64 // 4}" if at < 4096 else f"s{at // 4 - 1008}"
    return f"program {program}: {place}; it ran {names[program * LENGTH :][:LENGTH]}"


def test_every_executable_opcode_is_drawn():
    writer = Writer(1, 32)
    drawn = set()
    for opcode in writer.opcodes:
        words = next((w for w in (writer._draw(opcode) for _ in range(2000)) if w), None)
        if words is not None:
            drawn.add(opcode.name)
    missing = {opcode.name for opcode in writer.opcodes} - drawn
    assert missing == set()
