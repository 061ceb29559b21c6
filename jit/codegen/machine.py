"""LLVM IR text to an object file, by llvmlite.

LLVM ends the process on some IR it cannot select: callers keep to what is known
to work, or are a process that may die.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from hcq.errors import CompileError
from jit.codegen.text import Function
from jit.tile import Plan
from runtime.backend import Code


@dataclass(frozen=True)
class Rendered:
    """LLVM IR, the intrinsics it calls, and how to go on from there.

    `finish` may end the process where LLVM cannot select an intrinsic. triple and arch:
    what the text is for. plan: what it was built by.
    """

    text: str
    intrinsics: frozenset[str]
    finish: Callable[[], Code]
    triple: str
    arch: str
    plan: Plan


def intrinsics(function: Function) -> frozenset[str]:
    """Names of the intrinsics that a function calls."""
    lines = function.declared.values()
    return frozenset(line.split("@")[1].split("(")[0] for line in lines)


def module_text(triple: str, function: Function, signature: str, attributes: str) -> str:
    """A module of one function."""
    lines = [
        f'target datalayout = "{data_layout(triple)}"',
        f'target triple = "{triple}"',
        *function.globals,
        f"define {signature} #0 {{",
        function.text(),
        "}",
        *function.declared.values(),
        f"attributes #0 = {{ {attributes} }}",
        "!0 = !{}",
    ]
    return "\n".join(lines)


@cache
def _llvm() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm


@cache
def version() -> str:
    """The compiler's name and version, as caches need it."""
    import llvmlite

    llvm = _llvm()
    return f"llvmlite {llvmlite.__version__} llvm {'.'.join(map(str, llvm.llvm_version_info))}"


@cache
def _machine(triple: str, cpu: str) -> Any:
    target = _llvm().Target.from_triple(triple)
    return target.create_target_machine(cpu=cpu, opt=2, reloc="pic", codemodel="small")


@cache
def data_layout(triple: str) -> str:
    """The target's data layout string."""
    return str(_machine(triple, "").target_data)


def optimised(triple: str, cpu: str, text: str) -> Any:
    """The module after the passes that matter for code that is already tiled and vectorised."""
    llvm = _llvm()
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CompileError(f"LLVM refuses the IR: {error}", facts={"triple": triple}) from None
    builder = llvm.create_pass_builder(
        _machine(triple, cpu), llvm.create_pipeline_tuning_options(speed_level=1)
    )
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()
    # No global value numbering: the builder makes equal values once, and NewGVN (LLVM 22)
    # gave wrong sums for masked gathers in unrolled loops (tests/tensor/test_gradients.py).
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)
    return module


def emit_object(triple: str, cpu: str, text: str) -> bytes:
    """The object file."""
    return bytes(_machine(triple, cpu).emit_object(optimised(triple, cpu, text)))


def emit_assembly(triple: str, cpu: str, text: str) -> str:
    """Assembly text, for people."""
    return str(_machine(triple, cpu).emit_assembly(optimised(triple, cpu, text)))
