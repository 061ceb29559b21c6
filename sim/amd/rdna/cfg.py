"""A kernel's control flow: reachable instructions, basic blocks, and lanes known to be active.

Addresses here are bytes from the kernel's entry, so that the same code gives the
same graph wherever it is loaded. Code that cannot be fetched or decoded is no
error here: the block ends in a `problem`, which counts only if a wave gets there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hcq.errors import SimFault
from sim.amd.rdna.decode import decode
from sim.amd.rdna.instruction import Instruction, Operand
from sim.amd.rdna.mode import KEEP_DENORMALS
from sim.amd.rdna.semantics import CONTROL
from sim.isa.flow import BasicBlock, Flow

PAGE = 4096
LONGEST = 20  # bytes an instruction may have

EXEC, VCC, TTMP, M0 = 126, 106, 108, 125

# Control transfers: where a wave may go next.
CONDITIONAL = frozenset(name for name in CONTROL if name.startswith("s_cbranch"))
INDIRECT = frozenset({"s_setpc_b64", "s_swappc_b64"})
ENDS = frozenset({"s_endpgm", "s_barrier", "s_branch", "s_call_b64"}) | CONDITIONAL | INDIRECT


@dataclass
class Block(BasicBlock[Instruction]):
    """A basic block, with what is known of a wave that comes to it."""

    full: frozenset[int] = frozenset()  # scalar registers that hold all ones at the start
    denormals: int | None = KEEP_DENORMALS  # MODE.denorm at the start; None: it depends

    @property
    def end(self) -> int:
        """Bytes from the entry to what follows the last instruction."""
        if not self.instructions:
            return self.start
        last = self.instructions[-1]
        return last.address + last.size

    @property
    def last(self) -> str:
        """The name of the last instruction, or ""."""
        return self.instructions[-1].name if self.instructions else ""


@dataclass
class Program:
    """All blocks reachable from the entry, by their start."""

    blocks: dict[int, Block]
    entries: set[int]  # where a wave can be resumed
    indirect: bool  # some branch goes to a computed address

    def ranges(self) -> list[tuple[int, int]]:
        """Where code lies, in one piece: (first byte, one past the last)."""
        starts = [b.start for b in self.blocks.values() if b.instructions]
        ends = [b.end for b in self.blocks.values() if b.instructions]
        return [(min(starts), max(ends))] if starts else []


class CodeReader:
    """Code as decode() wants it, read page by page. fetch raises PageFault."""

    def __init__(self, fetch: Callable[[int, int], bytes], entry: int) -> None:
        self._fetch = fetch
        self._entry = entry
        self._pages: dict[int, bytes] = {}

    def instruction(self, offset: int, wave_size: int) -> Instruction:
        """The instruction `offset` bytes after the entry; its address is that offset."""
        address = self._entry + offset
        page = address // PAGE
        code = self._page(page)
        start = address % PAGE
        if start + LONGEST > PAGE:
            try:
                code = code + self._page(page + 1)
            except SimFault:
                code = code[:]  # the last instruction may still be whole
        return decode(code, start, offset, wave_size=wave_size)

    def _page(self, number: int) -> bytes:
        found = self._pages.get(number)
        if found is None:
            found = self._pages[number] = self._fetch(number * PAGE, PAGE)
        return found


def discover(reader: CodeReader, wave_size: int, extra: Iterable[int] = ()) -> Program:
    """Follow control flow from the entry and from `extra` targets of indirect branches."""
    flow = Flow(lambda at: reader.instruction(at, wave_size), after, _leaves)
    entries = {0, *extra}
    blocks = flow.blocks(entries, Block)
    for block in blocks.values():
        entries.update(_resumes(block))
    indirect = any(b.last in INDIRECT for b in blocks.values())
    if indirect:
        entries |= set(blocks)
    return Program(blocks, entries, indirect)


def after(instruction: Instruction) -> int:
    """The place of what follows."""
    return instruction.address + instruction.size


def _leaves(instruction: Instruction) -> tuple[int, ...] | None:
    return successors(instruction) if instruction.name in ENDS else None


def successors(instruction: Instruction) -> tuple[int, ...]:
    """Known places where a wave goes from a control instruction."""
    name = instruction.name
    if name == "s_endpgm" or name == "s_setpc_b64":
        return ()
    if name in ("s_branch",):
        return (instruction.target,)
    if name == "s_swappc_b64":
        return (after(instruction),)
    if name in CONDITIONAL or name == "s_call_b64":
        return (instruction.target, after(instruction))
    return (after(instruction),)


def _resumes(block: Block) -> set[int]:
    """Targets at which a wave may have stopped: after barriers and over backward branches."""
    if block.last == "s_barrier":
        return set(block.successors)
    return {target for target in block.successors if target <= block.start}


# --- modes


def mark_denormals(program: Program, initial: int) -> None:
    """Fill Block.denormals for a wave that starts with `initial` in MODE.denorm."""
    starts = set(program.blocks) if program.indirect else {0}
    states: dict[int, int | None] = dict.fromkeys(starts, initial)
    todo = list(states)
    while todo:
        block = program.blocks[todo.pop()]
        now = states[block.start]
        for instruction in block.instructions:
            if instruction.name == "s_denorm_mode":
                now = instruction.offset & 0xF
        for target in block.successors:
            merged = now if states.get(target, now) == now else None
            if target not in states or states[target] != merged:
                states[target] = merged
                todo.append(target)
    for start, block in program.blocks.items():
        block.denormals = states.get(start, initial)


# --- lanes known to be active


def mark_full(program: Program, wave_size: int) -> None:
    """Fill Block.full for a wave that starts with every lane active.

    A register counts as full when it holds all ones on every path. That is how masks vanish
    from straight code: s_and_saveexec keeps the old exec, s_or_b32 exec brings it back.
    """
    whole = exec_codes(wave_size)
    states: dict[int, frozenset[int]] = {0: whole}
    todo = [0]
    if program.indirect:  # anything may come from anywhere
        for start in program.blocks:
            states[start] = whole if start == 0 and len(program.blocks) == 1 else frozenset()
        return
    while todo:
        start = todo.pop()
        block = program.blocks[start]
        state = set(states[start])
        for instruction in block.instructions:
            step_full(instruction, state)
        for target in block.successors:
            merged = frozenset(state) if target not in states else states[target] & state
            if states.get(target) != merged:
                states[target] = merged
                todo.append(target)
    for start, full in states.items():
        program.blocks[start].full = full


def exec_codes(wave_size: int) -> frozenset[int]:
    """The registers that EXEC consists of."""
    return frozenset({EXEC} if wave_size == 32 else {EXEC, EXEC + 1})


def step_full(instruction: Instruction, full: set[int]) -> None:
    """Update the set of all-ones scalar registers across one instruction."""
    name = instruction.name
    reads = [_is_full(operand, full) for operand in instruction.sources]
    written = [code for d in instruction.destinations for code in scalar_codes(d)]
    if "saveexec" in name:
        _step_saveexec(name, reads[0], written, full)
        return
    if name.startswith("s_movreld") or name == "s_movrelsd_2_b32":
        full.difference_update(range(VCC))  # any of them may be the one written
        return
    becomes = False
    if name in ("s_mov_b32", "s_mov_b64"):
        becomes = reads[0]
    elif name in ("s_or_b32", "s_or_b64"):
        becomes = any(reads)
    elif name in ("s_and_b32", "s_and_b64"):
        becomes = all(reads)
    if name.startswith("v_cmpx") or "wrexec" in name:
        written += [EXEC, EXEC + 1]
    for code in written:
        (full.add if becomes else full.discard)(code)


def _step_saveexec(name: str, source_full: bool, written: list[int], full: set[int]) -> None:
    execs = [EXEC, EXEC + 1][: len(written)]
    was_full = full.issuperset(execs)
    if name.startswith("s_and_save"):
        now = was_full and source_full
    else:
        now = name.startswith("s_or_save") and (was_full or source_full)
    for code in written:
        (full.add if was_full else full.discard)(code)
    for code in execs:
        (full.add if now else full.discard)(code)


def scalar_codes(operand: Operand) -> list[int]:
    """The scalar registers of an operand by operand code; none for vectors and constants."""
    base = {"sgpr": 0, "vcc": VCC, "ttmp": TTMP, "exec": EXEC}.get(operand.kind)
    if operand.kind == "m0":
        return [M0]
    if base is None:
        return []
    return [base + operand.index + part for part in range(operand.count)]


def _is_full(operand: Operand, full: set[int]) -> bool:
    if operand.kind == "int":
        return operand.value == -1
    codes = scalar_codes(operand)
    return bool(codes) and full.issuperset(codes)
