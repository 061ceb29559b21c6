"""Translated code and the interpreter give the same bits, on random straight-line programs.

Opcodes are drawn uniformly from everything the simulator executes; operands, modifiers, active
lanes and data at random from a fixed seed. Many programs share one kernel, so that a
thousand of them take seconds.
"""

import ctypes
import mmap
import random

import numpy as np
import pytest

from hcq.errors import SimFault
from sim.amd.rdna import formats, mode
from sim.amd.rdna.decode import decode
from sim.amd.rdna.interpret import Wave
from sim.amd.rdna.memory_ops import OPERATIONS
from sim.amd.rdna.opcodes import OPCODES
from sim.amd.rdna.operands import execute
from sim.amd.rdna.semantics import CONTROL, NO_EFFECT, all_semantics
from sim.amd.wave import Dispatch, Executor
from sim.memory import GpuMemory

PROGRAMS = 1000
PER_KERNEL = 25
LENGTH = 8  # random instructions of one program

# v0 lane, v1 offset of the lane's row, v[2:3] its address; v4..v19 random; v20.. for results.
FIRST_VGPR, VGPRS = 4, 16
# s[8:9] data, s10 0, s[12:13] input, s[14:15] output; s16..s31 random.
FIRST_SGPR, SGPRS = 16, 16
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
    known = all_semantics()
    skip = NO_EFFECT | CONTROL | mode.CHANGES
    return [
        opcode
        for opcode in OPCODES.values()
        if opcode.name not in skip
        and (opcode.name.replace("v_dual_", "v_") in known or opcode.name in OPERATIONS)
        and not (wave_size == 64 and opcode.format.startswith("VOPD"))
        and not opcode.format == "MUBUF"
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
        if name in ("DS", "SMEM", *formats.SEGMENTS):
            self._memory(name, opcode, fields)
        else:
            tail = self._modifiers(layout, opcode, fields)
        if "simm16" in layout.fields:
            fields["simm16"] = self.random.getrandbits(16)
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

    def _memory(self, name, opcode, fields):
        """Addresses that hit: v1 or v[2:3] plus a small offset, or s[8:9]."""
        operation = OPERATIONS.get(opcode.name)
        pick = self.random
        if name == "SMEM":
            fields |= {"sbase": 4, "offset": pick.randrange(0, 1024, 4)}
            fields["soffset"] = pick.choice([formats_null(), 10])
            return
        if operation is None:  # lane permutations of the DS format
            if "addr" in fields:
                fields["addr"] = pick.choice([1, self._vector(1)])
            fields["offset0"], fields["offset1"] = pick.getrandbits(8), pick.getrandbits(8)
            if "swizzle" not in opcode.name:
                fields["offset1"] = 0
            return
        unit = max(4, operation.bits // 8) if operation.action == "atomic" else 4
        if name == "DS":
            if "addr" in fields:
                fields["addr"] = 1
            fields["offset0"] = pick.randrange(0, 64, 1 if operation.two_addresses else unit)
            fields["offset1"] = pick.getrandbits(6) if operation.two_addresses else 0
            return
        offset = pick.randrange(0, 96, unit)
        fields |= {"seg": formats.SEGMENTS.index(name), "offset": offset, "saddr": formats_null()}
        if operation.returns == "glc":
            fields["glc"] = 1 if "csub" in opcode.name else pick.getrandbits(1)
            if fields["glc"]:
                fields["vdst"] = self._vector(operation.count)
        if name == "SCRATCH":
            fields["saddr"] = pick.choice([10, formats_null()])
            fields["sve"] = pick.getrandbits(1)
            fields["addr"] = 1 if fields["sve"] else 0
        elif name == "GLOBAL" and pick.random() < 0.5:
            fields |= {"saddr": 8, "addr": 1}
        else:
            fields["addr"] = 2

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


def formats_null():
    return 124


def word(*values):
    return b"".join(value.to_bytes(4, "little") for value in values)


def s_mov(register, value):
    return word(0xBE80_00FF | register << 16, value & 0xFFFF_FFFF)  # s_mov_b32 sN, literal


def set_exec(mask, wave_size):
    code = s_mov(126, mask)
    return code + s_mov(127, mask >> 32) if wave_size == 64 else code


class Assembly:
    """One kernel of many programs, each with its own input and output."""

    def __init__(self, writer, count):
        self.wave_size = writer.wave_size
        pick = writer.random
        full = (1 << self.wave_size) - 1
        self.code = self._start()
        for number in range(count):
            self.code += self._load()
            if pick.random() < 0.5:
                self.code += set_exec(pick.getrandbits(self.wave_size), self.wave_size)
            for _ in range(LENGTH):
                self.code += writer.instruction()
                if pick.random() < 0.25:
                    mask = pick.choice([full, full, pick.getrandbits(self.wave_size)])
                    self.code += set_exec(mask, self.wave_size)
            self.code += self._store()
            self.code += word(0xBFA0_0000)  # s_branch to the next instruction: a new block
        self.code += word(0xBFB0_0000)  # s_endpgm

    def _start(self):
        carry = 106  # vcc
        return b"".join([
            word(0xF404_0200, 0xF800_0000),  # s_load_b64 s[8:9], s[0:1], 0
            word(0xF408_0300, 0xF800_0008),  # s_load_b128 s[12:15], s[0:1], 8
            word(0xBE8A_0080),  # s_mov_b32 s10, 0
            word(0x3002_0087),  # v_lshlrev_b32 v1, 7, v0
            word(0xD700_6A02 | carry << 0, 0x0002_0208 - 0x8 + 0x8),  # v_add_co_u32 v2, vcc, s8, v1
            word(0x7E06_0209),  # v_mov_b32 v3, s9
        ])  # fmt: skip

    def _load(self):
        code = b""
        for quad in range(VGPRS // 4):  # global_load_b128 v[..], v0*64.., s[12:13] offset
            code += self._global(0x17, FIRST_VGPR + 4 * quad, 0, 12, 16 * quad)
        code += word(0xF410_0406, 0xF800_1000)  # s_load_b512 s[16:31], s[12:13], 4096
        code += word(0x800C_FF0C, INPUT) + word(0x820D_800D)  # s_add_u32 s12; s_addc_u32 s13
        return word(0x302A_0086) + code  # v_lshlrev_b32 v21, 6, v0

    def _global(self, opcode, data, _, base, offset):
        word0 = 0xDC02_0000 | opcode << 18 | offset
        if opcode == 0x17:
            return word(word0, 21 | base << 16 | data << 24)
        return word(word0, 21 | data << 8 | base << 16)

    def _store(self):
        code = word(0xBF06_8080)[:0]
        code += word(0x980C_8081)[:0]
        code += word(0x9816_8081 & 0)[:0]
        code += word(0x980A_8081)  # s_cselect_b32 s10, 1, 0
        code += word(0xBE8B_007E)  # s_mov_b32 s11, exec_lo
        full = (1 << self.wave_size) - 1
        code += set_exec(full, self.wave_size)
        code += word(0x302A_0086)  # v_lshlrev_b32 v21, 6, v0
        for quad in range(VGPRS // 4):
            code += self._global(0x1D, FIRST_VGPR + 4 * quad, 0, 14, 16 * quad)
        code += word(0x7E2C_0280)  # v_mov_b32 v22, 0
        sources = [*range(FIRST_SGPR, FIRST_SGPR + SGPRS), 10, 11, 106]
        if self.wave_size == 64:
            sources.append(107)
        for lane, source in enumerate(sources):  # v_writelane_b32 v22, source, lane
            code += word(0xD761_0016, source | (128 + lane) << 9)
        code += word(0x302A_0082)  # v_lshlrev_b32 v21, 2, v0
        code += word(0xDC02_0000 | 0x1A << 18, 21 | 22 << 8 | 16 << 16)[:0]
        code += word(0x800E_FF0E, 4096) + word(0x820F_800F)
        code += word(0xDC02_0000 | 0x1A << 18, 21 | 22 << 8 | 14 << 16)
        code += word(0x800E_FF0E, OUTPUT - 4096) + word(0x820F_800F)
        code += word(0xBE8A_0080)  # s_mov_b32 s10, 0
        return code


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
    dispatch = Dispatch(
        code=entry, rsrc1=31, rsrc2=2 << 1 | 16 << 15 | 1, rsrc3=0,
        user_data=(kernarg & 0xFFFFFFFF, kernarg >> 32, *[0] * 14), groups=(1, 1, 1),
        threads=(assembly.wave_size, 1, 1), wave_size=assembly.wave_size, scratch_base=scratch,
        tmpring_size=(16384 * 64 // 256) << 12 | 1,
    )  # fmt: skip
    gpu.executor.run(dispatch)
    pairs = [result.copy(), shared.copy(), stack.copy()]
    return pairs, gpu.executor.counters
