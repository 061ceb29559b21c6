"""Control flow found by following it: reachable instructions, in basic blocks.

Code that cannot be fetched or decoded is no error here: the block ends in a `problem`, which
counts only if a wave gets there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from hcq.errors import SimFault

InstructionT = TypeVar("InstructionT")


@dataclass
class BasicBlock(Generic[InstructionT]):
    """Instructions that run one after the other; `start` in bytes from the entry."""

    start: int
    instructions: list[InstructionT] = field(default_factory=list)
    successors: tuple[int, ...] = ()
    problem: SimFault | None = None  # why there is no instruction at the end


BlockT = TypeVar("BlockT", bound=BasicBlock[Any])


@dataclass(frozen=True)
class Flow(Generic[InstructionT]):
    """How an instruction set's code is read.

    read: the instruction at a place, SimFault if there is none. after: the place behind one.
    leaves: None for an instruction within a block; where it goes, as far as is known, for one
    that ends a block.
    """

    read: Callable[[int], InstructionT]
    after: Callable[[InstructionT], int]
    leaves: Callable[[InstructionT], tuple[int, ...] | None]

    def blocks(self, starts: Iterable[int], make: Callable[[int], BlockT]) -> dict[int, BlockT]:
        """Every block that is reached from `starts`, by its start; make() gives an empty one."""
        found: dict[int, InstructionT] = {}
        problems: dict[int, SimFault] = {}
        leaders = set(starts)
        todo = list(leaders)
        while todo:
            targets = self._follow(todo.pop(), found, problems)
            leaders.update(targets)
            todo.extend(targets)
        blocks = {}
        for start in sorted(leaders):
            block = blocks[start] = make(start)
            self._fill(block, found, problems, leaders)
        return blocks

    def _follow(
        self, at: int, found: dict[int, InstructionT], problems: dict[int, SimFault]
    ) -> tuple[int, ...]:
        """Read what is not known yet, to where the block ends; where that goes."""
        while at not in found and at not in problems:
            try:
                instruction = found[at] = self.read(at)
            except SimFault as problem:
                problems[at] = problem
                break
            targets = self.leaves(instruction)
            if targets is not None:
                return targets
            at = self.after(instruction)
        return ()

    def _fill(
        self, block: BlockT, found: dict[int, InstructionT], problems: dict[int, SimFault],
        leaders: set[int],
    ) -> None:  # fmt: skip
        at = block.start
        while at not in problems:
            instruction = found[at]
            block.instructions.append(instruction)
            targets = self.leaves(instruction)
            if targets is not None:
                block.successors = targets
                return
            at = self.after(instruction)
            if at in leaders:
                block.successors = (at,)
                return
        block.problem = problems[at]
