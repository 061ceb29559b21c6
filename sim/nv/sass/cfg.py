"""A kernel's control flow: reachable instructions in basic blocks.

Addresses are bytes from the kernel's entry. Code that cannot be fetched or decoded is no
error here: the block ends in a `problem`, which counts only if a warp gets there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from hcq.errors import SimFault
from sim.isa.flow import BasicBlock, Flow
from sim.nv.sass.decode import decode
from sim.nv.sass.instruction import TRUE_PREDICATE, Instruction, Operand
from sim.nv.sass.operands import INSTRUCTION_SIZE
from sim.nv.sass.semantics import CONTROL

PAGE = 4096
REACH = 1 << 31  # bytes from the entry to where lanes can stand
# What ends a block: lanes may part, wait, or leave.
ENDS = CONTROL - {"BSSY", "BREAK", "BMOV", "B2R", "YIELD"}


@dataclass
class Block(BasicBlock[Instruction]):
    """A basic block."""

    @property
    def end(self) -> int:
        """Bytes from the entry to what follows the last instruction."""
        return self.start + INSTRUCTION_SIZE * len(self.instructions)


@dataclass
class Program:
    """All blocks reachable from the entry, by their start."""

    blocks: dict[int, Block]

    def ranges(self) -> list[tuple[int, int]]:
        """Where code lies: (first byte, one past the last), sorted, neighbours merged.

        Functions that a kernel calls may lie far from it.
        """
        merged: list[tuple[int, int]] = []
        for start, end in sorted((b.start, b.end) for b in self.blocks.values()):
            if merged and start <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(end, merged[-1][1])
            elif end > start:
                merged.append((start, end))
        return merged


class CodeReader:
    """Instructions by their offset from the entry, read page by page."""

    def __init__(self, fetch: Callable[[int, int], bytes], entry: int, target: str) -> None:
        self._fetch = fetch
        self._entry = entry
        self._target = target
        self._pages: dict[int, bytes] = {}

    def instruction(self, offset: int) -> Instruction:
        """The instruction `offset` bytes after the entry; SimFault if there is none."""
        address = self._entry + offset
        number, start = divmod(address, PAGE)
        page = self._pages.get(number)
        if page is None:
            page = self._pages[number] = self._fetch(number * PAGE, PAGE)
        if start % INSTRUCTION_SIZE:
            raise SimFault(f"code at {address:#x} is not a multiple of {INSTRUCTION_SIZE}")
        word = int.from_bytes(page[start : start + INSTRUCTION_SIZE], "little")
        found = self._relative(decode(word, offset, target=self._target))
        if found.target is not None and not -REACH <= found.target < REACH:
            raise SimFault(
                f"{found.spelling} at {address:#x} to code more than 2 GiB from the entry "
                "is not simulated"
            )
        return found

    def _relative(self, instruction: Instruction) -> Instruction:
        """Absolute targets as bytes from the entry, as all others are."""
        if instruction.name not in ("CALL", "RET") or "ABS" not in instruction.modifiers:
            return instruction
        moved = tuple(
            replace(o, value=o.value - self._entry) if o.kind in ("label", "jump") else o
            for o in instruction.sources
        )
        return replace(instruction, sources=moved)


def discover(reader: CodeReader, extra: Iterable[int] = ()) -> Program:
    """Follow control flow from the entry and from `extra` targets of computed branches."""
    flow = Flow(reader.instruction, after, _leaves)
    return Program(flow.blocks({0, *extra}, Block))


def after(instruction: Instruction) -> int:
    """The place of what follows."""
    return instruction.address + INSTRUCTION_SIZE


def _leaves(instruction: Instruction) -> tuple[int, ...] | None:
    return successors(instruction) if instruction.name in ENDS else None


def is_conditional(instruction: Instruction) -> bool:
    """Whether some lanes may not do what the instruction says."""
    flags = [instruction.guard, *(o for o in instruction.sources if _is_flag(o))]
    return any(flag.index != TRUE_PREDICATE or flag.inv for flag in flags)


def _is_flag(operand: Operand) -> bool:
    return operand.kind in ("pred", "upred")


def successors(instruction: Instruction) -> tuple[int, ...]:
    """Known places where lanes go from a control instruction."""
    name = instruction.name
    known: list[int] = []
    if is_repeated(instruction):
        known.append(instruction.address)
    if name in ("BRA", "CALL", "WARPSYNC") and instruction.target is not None:
        known.append(instruction.target)
    stops = name in ("BRA", "BRX", "RET", "EXIT", "CALL", "BPT", "ENDCOLLECTIVE")
    unconditional = stops and not is_conditional(instruction) and not is_divergence(instruction)
    if name == "CALL" or not unconditional:
        known.append(after(instruction))
    return tuple(known)


def is_repeated(instruction: Instruction) -> bool:
    """Whether lanes may come to an instruction and stay there, to do it later or again."""
    name = instruction.name
    if name == "WARPSYNC" and {"EXCLUSIVE", "COLLECTIVE"} & set(instruction.modifiers):
        return True
    return name == "BAR" or (name in ("WARPSYNC", "BSYNC") and is_conditional(instruction))


def is_divergence(instruction: Instruction) -> bool:
    """BRA.DIV and BRA.CONV ask how the lanes stand."""
    return bool({"DIV", "CONV"} & set(instruction.modifiers))
