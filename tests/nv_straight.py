"""Straight-line SASS on both engines, from registers that are given to registers that are read."""

import ctypes
import mmap
from ctypes import addressof, c_char
from itertools import count
from types import SimpleNamespace

import numpy as np

from sim.isa import state
from sim.isa.jit import Jit
from sim.isa.launch import starting_lanes
from sim.isa.native import load_library
from sim.isa.record import Record
from sim.memory import GpuMemory
from sim.nv.sass import frame
from sim.nv.sass.cfg import Block, Program
from sim.nv.sass.decode import chip_number
from sim.nv.sass.instruction import Instruction, Operand
from sim.nv.sass.interpret import Block as Shared
from sim.nv.sass.interpret import Warp, execute
from sim.nv.sass.launch import LaunchRecord, ThreadRecord, shared_size
from sim.nv.sass.translate import Translator
from sim.nv.warp import ACCESS, KINDS

LANES = 32
ALWAYS = Operand("pred", 7)
BANK_BYTES = 0x1000
LOCAL_WORDS = 16
ROOM = 0x1000  # bytes of global memory
NUMBERS = count()


class NativeFault(Exception):
    """What native code was stopped for."""

    def __init__(self, thread):
        self.kind = KINDS[thread.get(state.FAULT)]
        self.address = thread.get(state.FAULT_ADDRESS)
        if self.kind == "misaligned":
            self.address = thread.in_shared(self.address)
        self.access = ACCESS[thread.get(state.FAULT_ACCESS)]
        super().__init__(f"{self.access} of {self.kind} {self.address:#x}")


class State:
    """Registers of a warp: rows of 32 lanes, uniform ones, constant banks, and memory."""

    def __init__(self):
        self.registers = np.zeros((255, LANES), np.uint32)
        self.predicates = np.zeros((7, LANES), np.bool_)
        self.uniform = np.zeros(256, np.uint32)
        self.uniform_predicates = np.zeros(7, np.bool_)
        self.banks = np.zeros((4, BANK_BYTES // 4), np.uint32)
        self.room = np.zeros(ROOM // 4, np.uint32)
        self.shared = np.zeros(0x100, np.uint32)
        self.local = np.zeros((LOCAL_WORDS, LANES), np.uint32)
        self.mask = 0xFFFF_FFFF

    def copy(self):
        made = State()
        for name, value in vars(self).items():
            setattr(made, name, value.copy() if isinstance(value, np.ndarray) else value)
        return made


class Machine:
    """Memory for constant banks, and both engines."""

    def __init__(self, chip, cache_directory=None):
        self.chip = chip
        self.memory = GpuMemory()
        self.pool = mmap.mmap(-1, 4 * BANK_BYTES + 2 * ROOM)
        self.banks = addressof(c_char.from_buffer(self.pool))
        self.room = self.banks + 4 * BANK_BYTES
        self.local = self.room + ROOM
        self.memory.map(self.banks, 4 * BANK_BYTES + 2 * ROOM)
        self.jit = Jit(cache_directory)

    def shape(self, before):
        self.memory.write(self.banks, before.banks.tobytes())
        self.memory.write(self.room, before.room.tobytes())
        self.memory.write(self.local, before.local.tobytes())
        constants = tuple((self.banks + BANK_BYTES * n, BANK_BYTES) for n in range(4))
        shared = 4 * len(before.shared) + (0x400 if chip_number(self.chip) < 90 else 0)
        return SimpleNamespace(
            code=0x1000, registers=255, grid=(1, 1, 1), block=(32, 1, 1), shared_bytes=shared,
            local_bytes=4 * LOCAL_WORDS, local_base=self.local, constants=constants,
            shared_window=0x7294 << 32, local_window=0x7293 << 32, sm=self.chip,
        )  # fmt: skip

    def interpret(self, instructions, before):
        """The state after the instructions."""
        shape = self.shape(before)
        shared = Shared(shape, self.memory, bytearray(before.shared.tobytes()), (0, 0, 0))
        assert len(shared.shared) == shared_size(shape)
        warp = Warp(shared, 0, np.arange(LANES, dtype=np.uint32), before.mask)
        warp.registers[:255] = before.registers
        warp.predicates[:] = before.predicates
        warp.uniform[:] = before.uniform
        warp.uniform_predicates[:] = before.uniform_predicates
        for instruction in instructions:
            execute(warp, instruction)
        after = before.copy()
        after.registers[:] = warp.registers[:255]
        after.predicates[:] = warp.predicates
        after.uniform[:] = warp.uniform
        after.uniform_predicates[:] = warp.uniform_predicates
        after.shared[:] = np.frombuffer(bytes(shared.shared), np.uint32)
        self.read_memory(after)
        return after

    def read_memory(self, after):
        after.room[:] = np.frombuffer(self.memory.read(self.room, ROOM), np.uint32)
        local = self.memory.read(self.local, after.local.nbytes)
        after.local[:] = np.frombuffer(local, np.uint32).reshape(after.local.shape)

    def translate(self, instructions, before):
        """The same in native code."""
        return self.native([instructions], before.mask == 0xFFFF_FFFF)(0, before)

    def native(self, programs, full):
        """run(number, before): the state after one of these lists of instructions."""
        blocks = {}
        for number, instructions in enumerate(programs):
            start = 0x1000 * number
            jump = Operand("jump", value=0, base=Operand("reg", 252, 2))
            at = start + 16 * len(instructions)
            end = Instruction(at, 0, "RET", ("REL",), ALWAYS, (), (jump,))
            blocks[start] = Block(start, [*instructions, end])
        name = f"straight_{next(NUMBERS)}"  # one engine serves the process: names are unique
        translator = Translator(Program(blocks), chip_number(self.chip), full=full)
        text = translator.text(name)
        assert not translator.problems, translator.problems
        (address,) = self.jit.load(f"{name} {text}", lambda: text, [name])
        function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(address)

        def run(number, before):
            return self.call(function, 0x1000 * number, before)

        return run

    def call(self, function, start, before):
        shape = self.shape(before)
        library = load_library(self.jit, 32, strict=True)
        launch, thread = LaunchRecord(), ThreadRecord(0)
        launch.prepare(shape, starting_lanes((32, 1, 1)), 255)
        launch.copy_banks(shape, self.memory)
        thread.prepare(shape, launch, self.memory.table_pointer, library)
        warp = Record(launch.stride)
        self.fill(warp, before)
        self.words(warp, state.RESUME, 1)[:] = start
        thread.set(state.WAVE, warp.address)
        thread.set(state.SCRATCH_AT, thread.get(state.SCRATCH))
        thread.set(state.BUDGET, 1000)
        shared = np.frombuffer(thread.lds.view, np.uint32)[: len(before.shared)]
        shared[:] = before.shared
        function(thread.address, warp.address)
        if thread.get(state.FAULT):
            raise NativeFault(thread)
        after = self.drain(warp, before)
        after.shared[:] = shared
        self.read_memory(after)
        return after

    def words(self, warp, offset, count):
        return np.frombuffer(warp.view, np.uint32)[offset // 4 : offset // 4 + count]

    def fill(self, warp, before):
        rows = self.words(warp, frame.row_offset(frame.FIRST_REGISTER), 255 * LANES)
        rows[:] = before.registers.ravel()
        # RET goes to the register pair R252: nowhere.
        rows[252 * LANES : 254 * LANES] = 0x7777_0000
        packed = np.packbits(before.predicates, axis=1, bitorder="little").view(np.uint32).ravel()
        self.words(warp, 4 * frame.PREDICATE, 7)[:] = packed
        self.words(warp, 4 * frame.UNIFORM_PREDICATE, 7)[:] = before.uniform_predicates
        self.words(warp, frame.row_offset(frame.UNIFORM), 256)[:] = before.uniform
        ids = self.words(warp, frame.row_offset(frame.THREAD_ID), LANES)
        ids[:] = np.arange(LANES)
        self.words(warp, 4 * frame.LIVE, 1)[:] = before.mask

    def drain(self, warp, before):
        after = before.copy()
        rows = self.words(warp, frame.row_offset(frame.FIRST_REGISTER), 255 * LANES)
        after.registers[:] = rows.reshape(255, LANES)
        after.registers[252:254] = before.registers[252:254]
        packed = self.words(warp, 4 * frame.PREDICATE, 7).copy().view(np.uint8).reshape(7, 4)
        after.predicates[:] = np.unpackbits(packed, axis=1, bitorder="little").astype(np.bool_)
        after.uniform_predicates[:] = self.words(warp, 4 * frame.UNIFORM_PREDICATE, 7) != 0
        after.uniform[:] = self.words(warp, frame.row_offset(frame.UNIFORM), 256)
        return after
