"""A GPU without a driver: memory, a cubin loader and constant bank 0, for tests of kernels.

Kernels are PTX text or LLVM text; nvJitLink (wheel nvidia-nvjitlink) makes machine code.
"""

import mmap
import os
import struct
from ctypes import addressof, c_char
from functools import cache

import numpy as np

from hcq.errors import CompileError
from jit.codegen import nvjitlink
from sim.memory import GpuMemory
from sim.nv.warp import Executor, Launch

SHARED_WINDOW = 0x7294 << 32
LOCAL_WINDOW = 0x7293 << 32
LOCAL_BYTES = 0x2000
STACK = (1 << 24) - 0x240
# Bank 0 of each generation: first parameter, block size, grid size, stack pointer.
SLOTS = {8: (0x160, 0, 0x0C, 0x28), 9: (0x210, 0, 0x0C, 0x28), 10: (0x380, 0x360, 0x370, 0x37C)}


def library():
    """The path of nvJitLink, or None. Continuous integration must have it."""
    try:
        return nvjitlink.find()
    except CompileError:
        if os.environ.get("CI"):
            raise
        return None


@cache
def cubin(chip, ptx):
    """An ELF file from PTX text."""
    return nvjitlink.link(ptx, chip, "test")


def ptx_of(chip, llvm_text):
    """PTX from LLVM text."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("nvptx64-nvidia-cuda")
    machine = target.create_target_machine(cpu=chip, opt=3)
    return machine.emit_assembly(llvm.parse_assembly(llvm_text))


class Elf:
    """Sections, symbols and relocations of a cubin."""

    def __init__(self, data):
        self.data = data
        (offset,) = struct.unpack_from("<Q", data, 40)
        size, count, names = struct.unpack_from("<HHH", data, 58)
        headers = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]
        at = headers[names][4]
        self.sections = [(self.string(at + h[0]), *h) for h in headers]
        self.symbols = []
        for s in self.sections:
            if s[2] == 2:
                strings = self.sections[s[7]][5]
                for i in range(s[6] // 24):
                    fields = struct.unpack_from("<IBBHQQ", data, s[5] + 24 * i)
                    name, _, _, section, value, _ = fields
                    self.symbols.append((self.string(strings + name), section, value))

    def string(self, at):
        return self.data[at : self.data.index(b"\0", at)].decode()

    def content(self, section):
        kind, at, size = section[2], section[5], section[6]
        return bytes(size) if kind == 8 else self.data[at : at + size]


class Gpu:
    """One GPU: memory, programs, launches."""

    def __init__(self, chip="sm_90", **options):
        self.chip = chip
        self.memory = GpuMemory()
        self.executor = Executor(self.memory, **options)
        self.pools = []
        self.local = self.room(LOCAL_BYTES * 32 * 32 * 2)

    def room(self, size, **flags):
        """The address of fresh mapped memory."""
        size = -(-size // 4096) * 4096
        pool = mmap.mmap(-1, size)
        self.pools.append(pool)
        address = addressof(c_char.from_buffer(pool))
        self.memory.map(address, size, **flags)
        return address

    def put(self, array):
        """The address of a copy of an array."""
        array = np.ascontiguousarray(array)
        address = self.room(max(array.nbytes, 1))
        if array.nbytes:
            self.memory.write(address, array.tobytes())
        return address

    def get(self, address, dtype, count):
        """An array out of memory."""
        return np.frombuffer(self.memory.read(address, np.dtype(dtype).itemsize * count), dtype)

    def load(self, elf_data):
        """Place a cubin's sections and relocate them."""
        return Program(self, Elf(elf_data))

    def compile(self, ptx):
        """A program from PTX text."""
        return self.load(cubin(self.chip, ptx))


class Program:
    """A loaded cubin."""

    def __init__(self, gpu, elf):
        self.gpu, self.elf = gpu, elf
        self.at = {}
        for number, section in enumerate(elf.sections):
            name, size = section[0], section[6]
            if not size or not name.startswith((".text", ".nv.constant", ".nv.global")):
                continue
            self.at[number] = gpu.room(size, executable=name.startswith(".text"))
            gpu.memory.write(self.at[number], elf.content(section))
        self.relocate()

    def relocate(self):
        for section in self.elf.sections:
            kind, at, size, target = section[2], section[5], section[6], section[8]
            if kind not in (4, 9) or target not in self.at or ".merc" in section[0]:
                continue
            step = 24 if kind == 4 else 16
            for place in range(at, at + size, step):
                offset, info = struct.unpack_from("<QQ", self.elf.data, place)
                addend = struct.unpack_from("<q", self.elf.data, place + 16)[0] if kind == 4 else 0
                self.apply(self.at[target] + offset, info & 0xFFFFFFFF, info >> 32, addend)

    def apply(self, place, kind, symbol, addend):
        """Source: relocations seen in cubins (facts/nv.md, section 11)."""
        _, section, value = self.elf.symbols[symbol]
        address = self.at.get(section, 0) + value + addend
        memory = self.gpu.memory
        if kind == 2:
            memory.write(place, struct.pack("<Q", address))
        elif kind in (0x38, 0x39):
            word = address & 0xFFFFFFFF if kind == 0x38 else address >> 32
            memory.write(place + 4, struct.pack("<I", word))
        else:
            self.other(place, kind, address)

    def other(self, place, kind, address):
        """Targets of CALL.ABS: 48 bits of words from bit 34; since sm_90 8 bits lie at bit 16."""
        memory = self.gpu.memory
        word = int.from_bytes(memory.read(place, 16), "little")
        field = address // 4
        if kind == 0x3A:
            word |= field << 34
        elif kind == 0x4B:
            word |= (field & 0xFF) << 16 | field >> 8 << 34
        else:
            raise ValueError(f"relocation {kind:#x} at {place:#x} to {address:#x}")
        memory.write(place, word.to_bytes(16, "little"))

    def section(self, name):
        """(number, section) or None."""
        for number, section in enumerate(self.elf.sections):
            if section[0] == name:
                return number, section
        return None

    def registers(self, kernel):
        """What .nv.info says the kernel needs."""
        _, section = self.section(".nv.info")
        data = self.elf.content(section)
        at = 0
        while at < len(data):
            form, attribute, size = struct.unpack_from("<BBH", data, at)
            at += 4
            if form != 4:
                continue
            if attribute == 0x2F:
                symbol, count = struct.unpack_from("<II", data, at)
                if self.elf.symbols[symbol][0] == kernel:
                    return count
            at += size
        return 255

    def bank0(self, kernel, grid, block, arguments):
        """The address and size of constant bank 0."""
        generation = int(self.gpu.chip[3:]) // 10
        first, ntid, nctaid, stack = SLOTS[min(generation, 10)]
        _, section = self.section(f".nv.constant0.{kernel}")
        data = bytearray(max(section[6], first))
        struct.pack_into("<III", data, ntid, *block)
        struct.pack_into("<III", data, nctaid, *grid)
        struct.pack_into("<I", data, stack, STACK)
        if generation < 9:
            struct.pack_into("<QQ", data, 0x18, SHARED_WINDOW, LOCAL_WINDOW)
        elif generation == 9:
            struct.pack_into("<Q", data, 0x20, LOCAL_WINDOW)
        else:
            struct.pack_into("<Q", data, 0x2F8, LOCAL_WINDOW)
        at = first
        for value in arguments:
            raw = value.tobytes() if isinstance(value, np.generic) else struct.pack("<Q", value)
            at = -(-at // len(raw)) * len(raw)
            data[at : at + len(raw)] = raw
            at += len(raw)
        return self.gpu.put(np.frombuffer(bytes(data), np.uint8)), len(data)

    def launch(self, kernel, grid, block, *arguments, dynamic=0):
        """The launch of a kernel: addresses are ints, other arguments numpy scalars."""
        grid, block = ((*v, 1, 1)[:3] for v in (grid, block))
        number, _ = self.section(f".text.{kernel}")
        shared = self.section(f".nv.shared.{kernel}")
        static = shared[1][6] if shared else 0
        if int(self.gpu.chip[3:]) < 90:
            size = 0x400 + static + dynamic
        else:
            size = max(0x400, static) + dynamic
        banks = [None] * 8
        banks[0] = self.bank0(kernel, grid, block, arguments)
        for bank in (2, 3, 4):
            for name in (f".nv.constant{bank}", f".nv.constant{bank}.{kernel}"):
                found = self.section(name)
                if found and found[0] in self.at:
                    banks[bank] = self.at[found[0]], found[1][6]
        return Launch(
            self.at[number],
            self.registers(kernel),
            grid,
            block,
            size,
            LOCAL_BYTES,
            self.gpu.local,
            1,
            tuple(banks),
            SHARED_WINDOW,
            LOCAL_WINDOW,
            self.gpu.chip,
        )

    def run(self, kernel, grid, block, *arguments, **options):
        """Launch and wait."""
        self.gpu.executor.run(self.launch(kernel, grid, block, *arguments, **options))
