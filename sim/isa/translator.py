"""What translators of all instruction sets do alike: one native function, block by block.

The function is `i32 f(thread, wave)`: it goes to the block where the wave stopped, runs until
the wave ends, waits or yields, and returns a wave status.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hcq.errors import SimFault
from sim.isa import state
from sim.isa.emitter import Emitter
from sim.isa.fault_call import write_fault
from sim.isa.liveness import Written, write_stores
from sim.isa.native import ATTRIBUTES


class BaseTranslator:
    """`problems` collects, by place in the code, why a wave that gets there faults."""

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter
        self.extras: dict[str, str] = {}  # functions that the blocks call, by name
        self.problems: dict[int, SimFault] = {}

    def module(
        self, name: str, entry: str, written: Sequence[Written], everything: set[int],
        shared: str = "",
    ) -> str:  # fmt: skip
        """The module, with the function called `name`; everything: the keys of all registers."""
        emitter = self.emitter
        write_stores(emitter.lines, written, everything)
        body = "\n".join(line for line in emitter.lines if line)
        slots = "\n".join(emitter.slots)
        extras = "\n".join(self.extras.values())
        declarations = "\n".join(sorted(d for d in emitter.declarations if d not in shared))
        return f"""
define i32 @{name}(ptr noalias %t, ptr noalias %w) #2 {{
entry:
{slots}
  %resumep = getelementptr i8, ptr %w, i64 {state.RESUME}
  %resume = load i32, ptr %resumep
  %countp = getelementptr i8, ptr %t, i64 {state.INSTRUCTIONS}
  %budgetp = getelementptr i8, ptr %t, i64 {state.BUDGET}
  %jumpp = getelementptr i8, ptr %w, i64 {state.JUMP}
  %codep = getelementptr i8, ptr %t, i64 {state.CODE}
{entry}
{body}
}}
{extras}
{shared}
{declarations}
!0 = !{{}}
{ATTRIBUTES}
"""

    def begin_count(self) -> int:
        """Where the block that begins here will count its instructions, once they are known."""
        self.emitter.line("")
        return len(self.emitter.lines) - 1

    def count(self, at: int, done: int) -> None:
        """The block has that many instructions."""
        total = self.emitter.fresh()[1:]
        self.emitter.lines[at] = (
            f"  %n{total} = load i64, ptr %countp\n  %m{total} = add i64 %n{total}, {done}\n"
            f"  store i64 %m{total}, ptr %countp"
        )

    def spend(self) -> str:
        """Take one from the budget; what is left, i64."""
        left = self.emitter.effect("load i64, ptr %budgetp")
        less = self.emitter.effect(f"sub i64 {left}, 1")
        self.emitter.line(f"store i64 {less}, ptr %budgetp")
        return less

    def is_spent(self) -> str:
        """Take one from the budget. What follows is for when it is used up, and leaves.

        Gives the label of what is for when it is not.
        """
        out = self.emitter.effect(f"icmp sle i64 {self.spend()}, 0")
        name = out[1:]
        self.emitter.line(f"br i1 {out}, label %yield_{name}, label %stay_{name}")
        self.emitter.label(f"yield_{name}", follows=True)
        return f"stay_{name}"

    def leave(self, resume: int | str, status: int) -> None:
        """Return to the scheduler, to go on at `resume`, a place or an i32."""
        self.emitter.line(f"store i32 {resume}, ptr %resumep")
        self.emitter.line(f"ret i32 {status}")

    def fault_at(self, offset: int, problem: SimFault, place: int) -> None:
        """What a wave does that gets where there is no instruction; place: as it is reported."""
        self.problems[offset] = problem
        write_fault(self.emitter, problem, self.absolute(offset), place)

    def absolute(self, offset: int) -> str:
        """The address of a place in the code, i64."""
        entry = self.emitter.effect("load i64, ptr %codep")
        return self.emitter.effect(f"add i64 {entry}, {offset}")


def label_of(offset: int) -> str:
    """The label of the block at a place in the code."""
    return f"b{offset & 0xFFFFFFFF:x}"


def cases(starts: Iterable[int], width: int = 32) -> str:
    """Cases of a switch over places in the code."""
    return " ".join(
        f"i{width} {start & (1 << width) - 1}, label %{label_of(start)}"
        for start in sorted(starts)
    )


def ask_for(place: str) -> str:
    """Lines that return for code at an i32 place which is not translated yet."""
    return f"""  %code = load i64, ptr %codep
  %place64 = sext i32 {place} to i64
  %wanted = add i64 %code, %place64
  store i64 %wanted, ptr %jumpp
  ret i32 {state.JUMPED}"""
