"""Runs warps one instruction at a time over numpy arrays: the oracle for translated code.

Which lanes run is in standing.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from hcq.errors import SimFault
from sim.isa.numpy_value import NumpyValue
from sim.isa.value import BOOL, U32, Type, Value
from sim.memory import GpuMemory, PageFault
from sim.nv.sass.access import NANS, Access
from sim.nv.sass.categories import lookup
from sim.nv.sass.cfg import CodeReader
from sim.nv.sass.convergence import STUCK_WARPS
from sim.nv.sass.decode import chip_number
from sim.nv.sass.emit_registers import BLOCK_FIELDS, FIXED, THREAD_FIELDS
from sim.nv.sass.instruction import Instruction
from sim.nv.sass.launch import LOCAL_TOP, shared_size
from sim.nv.sass.memory_ops import is_memory
from sim.nv.sass.operands import INSTRUCTION_SIZE
from sim.nv.sass.semantics import NO_EFFECT
from sim.nv.sass.standing import LANES, Array, Standing

if TYPE_CHECKING:
    from sim.isa.launch import Lanes
    from sim.nv.sass.launch import Shape

STOP_EVERY = 256  # instructions between looks at stop()

class BadAccess(SimFault):
    """What a warp did wrong: the fields of sim.nv.warp.WarpFault."""

    def __init__(self, kind: str, address: int, access: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.address = address
        self.access = access
        self.pc = 0


class Stopped(SimFault):
    """stop() said so."""


class SassValue(NumpyValue):
    """Numpy values whose NaNs are NVIDIA's."""

    NANS = NANS


@dataclass
class Block:
    """What the warps of one block share."""

    shape: Shape
    memory: GpuMemory
    shared: bytearray
    number: tuple[int, int, int]
    read: Callable[[int], Instruction | None] = lambda _: None  # code at a place, for looking ahead
    warps: list[Warp] = field(default_factory=list)
    arrived: dict[int, int] = field(default_factory=dict)  # warps at each barrier
    sums: dict[int, int] = field(default_factory=dict)  # what they brought

    def open(self, number: int, threads: int) -> None:
        """Let the warps at a barrier go on if there are as many as it takes (0: all)."""
        alive = sum(bool(warp.live.any()) for warp in self.warps)
        need = -(-threads // LANES) if threads else alive
        if self.arrived.get(number, 0) < need:
            return
        total = self.sums.pop(number, 0)
        self.arrived[number] = 0
        for warp in self.warps:
            if warp.barrier is not None and warp.barrier[0] == number:
                warp.barrier, warp.reduction = None, total


class Warp(Standing):
    """Registers and places of 32 lanes. Satisfies access.Registers."""

    def __init__(self, block: Block, index: int, ids: Array, mask: int) -> None:
        super().__init__(mask)
        shape = block.shape
        self.block = block
        self.chip = chip_number(shape.sm)
        self.ids = ids
        self.local = shape.local_base + index * shape.local_bytes * LANES
        self.registers = np.zeros((256, LANES), np.uint32)
        self.predicates = np.zeros((7, LANES), np.bool_)
        self.uniform = np.zeros(256, np.uint32)
        self.uniform_predicates = np.zeros(7, np.bool_)
        self.barriers = np.zeros((16, LANES), np.uint32)
        self.barrier: tuple[int, int] | None = None  # the block's that it waits at; threads
        self.reduction = 0  # what its last BAR.RED came to
        self.asks_all = False
        self.executed = 0

    # --- access.Registers

    def read(self, index: int) -> SassValue:
        """R."""
        return SassValue(U32, self.registers[index].copy(), LANES)

    def write(self, index: int, value: Value, mask: Value | None) -> None:
        """R, in lanes that run."""
        self._put(self.registers[index], value, mask)

    def read_uniform(self, index: int) -> SassValue:
        """UR."""
        return SassValue(U32, self.uniform[index : index + 1].copy(), LANES)

    def write_uniform(self, index: int, value: Value, mask: Value | None) -> None:
        """UR."""
        if self.somewhere(mask):
            self.uniform[index] = self.one(value)

    def predicate(self, index: int) -> SassValue:
        """P."""
        return SassValue(BOOL, self.predicates[index].copy(), LANES)

    def set_predicate(self, index: int, value: Value, mask: Value | None) -> None:
        """P, in lanes that run."""
        self._put(self.predicates[index], value, mask)

    def uniform_predicate(self, index: int) -> SassValue:
        """UP."""
        return SassValue(BOOL, self.uniform_predicates[index : index + 1].copy(), LANES)

    def set_uniform_predicate(self, index: int, value: Value, mask: Value | None) -> None:
        """UP."""
        if self.somewhere(mask):
            self.uniform_predicates[index] = self.somewhere(value)

    def constant_word(self, bank: int, offset: int) -> SassValue:
        """c[bank][offset]."""
        place = self.block.shape.constants[bank]
        if place is None:
            raise BadAccess("memory", 0, "read", f"constant bank {bank} is not bound")
        raw = self.block.memory.read(place[0] + offset, 4)
        return SassValue(U32, np.frombuffer(raw, np.uint32).copy(), LANES)

    def constant(self, target: Type, number: float) -> SassValue:
        """A uniform value."""
        return SassValue.uniform(target, number, LANES)  # type: ignore[return-value]

    def running(self) -> SassValue:
        """Lanes that run."""
        return SassValue(BOOL, self.active.copy(), LANES)

    def special(self, name: str) -> Value:
        """SR_name."""
        lane = np.arange(LANES, dtype=np.uint64)
        one = np.uint64(1) << lane
        masks = {
            "LANEID": lane, "EQMASK": one, "LTMASK": one - 1, "LEMASK": 2 * one - 1,
            "GTMASK": ~(2 * one - 1), "GEMASK": ~(one - 1),
        }  # fmt: skip
        if name in masks:
            return self.lanes(masks[name].astype(np.uint32))
        if name in THREAD_FIELDS:
            return self.lanes(self.ids >> THREAD_FIELDS[name] & 0x3FF)
        shape = self.block.shape
        known = {
            **{n: self.block.number[at] for n, at in BLOCK_FIELDS.items()}, **FIXED,
            "SWINHI": shape.shared_window >> 32, "LWINHI": shape.local_window >> 32,
            "SMEMSZ": shared_size(shape), "CLOCKLO": self.executed, "CLOCKHI": 0,
            "GLOBALTIMERLO": self.executed, "GLOBALTIMERHI": 0,
        }  # fmt: skip
        if name not in known:
            raise SimFault(f"special register SR_{name} is not simulated")
        return self.constant(U32, known[name])

    # --- beside it

    def lanes(self, data: Array) -> SassValue:
        """U32 lanes."""
        return SassValue(U32, np.asarray(data, np.uint32), LANES)

    def bits(self, value: Value | None) -> Array:
        """BOOL as an array of lanes; None is true."""
        if value is None:
            return np.ones(LANES, np.bool_)
        assert isinstance(value, NumpyValue)
        return value.spread()

    def allowed(self, mask: Value | None) -> Array:
        """Lanes that run and that mask lets through."""
        chosen: Array = self.active & self.bits(mask)
        return chosen

    def somewhere(self, value: Value | None) -> bool:
        """Whether BOOL holds in a lane that runs."""
        return bool((self.bits(value) & self.active).any())

    def one(self, value: Value) -> int:
        """The value of the first lane that runs."""
        assert isinstance(value, NumpyValue)
        return int(value.spread()[int(np.argmax(self.active))])

    def _put(self, row: Array, value: Value, mask: Value | None) -> None:
        assert isinstance(value, NumpyValue)
        np.copyto(row, value.spread(), where=self.allowed(mask))


def run_grid(
    memory: GpuMemory, shape: Shape, lanes: Lanes, stop: Callable[[], bool]
) -> tuple[int, int]:
    """Run every block in turn; (warps, instructions). BadAccess names what a warp did wrong."""
    x, y, z = shape.grid

    def fetch(address: int, size: int) -> bytes:
        memory.check(address, size, "execute")
        return memory.read(address, size)

    code: dict[int, Instruction] = {}
    reader = CodeReader(fetch, shape.code, shape.sm)

    def ahead(place: int) -> Instruction | None:
        try:
            return reader.instruction(place)
        except (SimFault, PageFault):
            return None

    executed = 0
    for index in range(x * y * z):
        number = (index % x, index // x % y, index // (x * y))
        block = Block(shape, memory, bytearray(shared_size(shape)), number, ahead)
        for at, mask in enumerate(lanes.masks):
            block.warps.append(Warp(block, at, lanes.ids[at], int(mask)))
        executed += _run_block(block, reader, code, stop)
    return x * y * z * lanes.count, executed


def _run_block(
    block: Block, reader: CodeReader, code: dict[int, Instruction], stop: Callable[[], bool]
) -> int:
    while any(warp.live.any() for warp in block.warps):
        before = sum(warp.executed for warp in block.warps)
        for warp in block.warps:
            while warp.live.any() and warp.barrier is None:
                if warp.executed % STOP_EVERY == 0 and stop():
                    raise Stopped(f"the kernel at {block.shape.code:#x} was stopped")
                _step(warp, reader, code)
        waiting = {warp.barrier for warp in block.warps if warp.barrier and warp.live.any()}
        for number, threads in waiting:
            block.open(number, threads)  # others may have ended
        if sum(warp.executed for warp in block.warps) == before and all(
            warp.barrier is not None for warp in block.warps if warp.live.any()
        ):
            pc = block.shape.code
            raise _located(BadAccess("illegal", pc, "execute", STUCK_WARPS), pc)
    return sum(warp.executed for warp in block.warps)


def _step(warp: Warp, reader: CodeReader, code: dict[int, Instruction]) -> None:
    place = int(warp.places[warp.live].min())
    try:
        place = warp.choose()
        instruction = code.get(place)
        if instruction is None:
            instruction = code[place] = reader.instruction(place)
        execute(warp, instruction)
    except BadAccess as bad:
        bad.pc = warp.block.shape.code + place
        raise
    except PageFault as fault:
        pc = warp.block.shape.code + place
        raise _located(BadAccess("memory", fault.address, fault.access, str(fault)), pc) from None
    except SimFault as fault:
        pc = warp.block.shape.code + place
        raise _located(BadAccess("illegal", pc, "execute", str(fault)), pc) from None


def _located(bad: BadAccess, pc: int) -> BadAccess:
    bad.pc = pc
    return bad


def execute(warp: Warp, instruction: Instruction) -> None:
    """Execute an instruction for the active lanes and move them on."""
    from sim.nv.sass.interpret_control import CONTROL
    from sim.nv.sass.interpret_memory import access_memory

    warp.executed += 1
    name = instruction.name
    if name in CONTROL:
        CONTROL[name](warp, instruction)
        return
    if name not in NO_EFFECT:
        access = Access(instruction, warp)
        if is_memory(name):
            access_memory(access, warp)
        else:
            lookup(instruction)(access)
    warp.places[warp.active] = instruction.address + INSTRUCTION_SIZE


def local_place(warp: Warp, lane: int, offset: int) -> int:
    """The address of a byte of a lane's local memory: words of neighbouring lanes lie together."""
    inside = offset - (LOCAL_TOP - warp.block.shape.local_bytes)
    return warp.local + (inside & ~3) * LANES + 4 * lane + (inside & 3)
