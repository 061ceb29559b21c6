"""What DEBUG shows of a kernel, through logging under the name "hcq.jit".

Level 3: how its axes are cut up. 4: the kernel itself. 5: its LLVM IR. 6: the IR after
optimisation. 7: machine code as assembly. A kernel that comes from a cache is shown like
one that is compiled, once per process.
"""

from jit.codegen.machine import Rendered, emit_assembly, optimised
from jit.kernel import Kernel
from jit.tile import Plan
from runtime.log import debug_level, say

NAME = "jit"


def show_source(kernel: Kernel, rendered: Rendered) -> None:
    """Levels 3 to 5: what is known before the compiler proper runs."""
    level = debug_level()
    if level >= 3:
        say(3, f"plan of {kernel.name}: {plan_text(kernel, rendered.plan)}", NAME)
    if level >= 4:
        say(4, kernel.text(), NAME)
    if level >= 5:
        say(5, rendered.text, NAME)


def show_code(rendered: Rendered) -> None:
    """Levels 6 and 7; only for code that is known to compile."""
    level = debug_level()
    if level >= 6:
        say(6, str(optimised(rendered.triple, rendered.arch, rendered.text)), NAME)
    if level >= 7:
        say(7, emit_assembly(rendered.triple, rendered.arch, rendered.text), NAME)


def plan_text(kernel: Kernel, plan: Plan) -> str:
    """One clause per axis: its size, and how many points of it a tile unrolls, spreads, packs."""
    parts = []
    for number, (axis, split) in enumerate(zip(kernel.axes, plan.splits, strict=True)):
        cut = [
            f"{name} {count}"
            for name, count in (
                ("unroll", split.unroll),
                ("threads", split.threads),
                ("lanes", split.lanes),
            )
            if count > 1
        ]
        kind = "reduce" if axis.reduce else "loop"
        parts.append(" ".join([f"axis {number} {kind} {axis.size}", *(cut or ["whole"])]))
    if plan.accumulators > 1:
        parts.append(f"accumulators {plan.accumulators}")
    if plan.chunk > 1:
        parts.append(f"chunk {plan.chunk}")
    return ", ".join(parts) or "a single point"
