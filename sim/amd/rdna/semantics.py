"""The registry: what every instruction that computes means, one function per mnemonic.

A function takes Values and returns a Value or a tuple of Values. Modifiers, DPP, op_sel, clamp
and register files are not its business; operands.py applies them for both engines.

Tokens beside Types, in `sources` and `results`:

- "mask": an SGPR (pair), VCC or EXEC as BOOL lanes; a written mask is and-ed with exec.
- "scc": uniform BOOL.
- "exec" (results): vector instructions give BOOL lanes, and-ed with exec; scalar ones give the
  uniform U32 or U64 to store.
- "packed" (sources): U32 of two halves, arranged by op_sel, op_sel_hi, neg_lo and neg_hi.
- "mix" (sources): F32, or half a register widened to it, as v_fma_mix selects.
- an int n: n dwords as a tuple of n U32 Values (matrix operands).

Tokens in `reads`, appended to the arguments in order:

- "old": the destination's previous value, of the first result's type.
- "scc": uniform BOOL. "vcc": BOOL lanes. "m0": uniform U32. "lane": lane numbers, U32.
- "exec": vector instructions get BOOL lanes; scalar ones uniform U32 or U64, as wide as their
  first source.
- "clock": uniform U64, ticks of the 100 MHz counter.
- "denormals" (int): MODE.denorm.
- "clamp" (bool), "imm", "message", "neg_lo", "op_sel" (ints): of the instruction. Where a
  function reads "clamp", it saturates by itself.

Source: AMD "RDNA3" Instruction Set Architecture, chapter 16 (instructions), chapters 5-7
(operands and modifiers).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from sim.isa.value import Type

Token = Type | str | int
Function = Callable[..., Any]
F = TypeVar("F", bound=Callable[..., Any])

# Instructions that change nothing the simulator keeps: waits, hints, caches, messages.
NO_EFFECT = frozenset({
    "s_nop", "s_setkill", "s_sleep", "s_set_inst_prefetch_distance", "s_clause", "s_delay_alu",
    "s_waitcnt_depctr", "s_waitcnt", "s_wait_idle", "s_wait_event", "s_code_end", "s_wakeup",
    "s_setprio", "s_sendmsg", "s_incperflevel", "s_decperflevel", "s_ttracedata",
    "s_ttracedata_imm", "s_icache_inv", "s_version", "s_waitcnt_vscnt", "s_waitcnt_vmcnt",
    "s_waitcnt_expcnt", "s_waitcnt_lgkmcnt", "s_gl1_inv", "s_dcache_inv", "buffer_gl0_inv",
    "buffer_gl1_inv", "v_nop", "v_pipeflush",
})  # fmt: skip

# Instructions that move the program counter or end or stop the wave: the engines do them.
CONTROL = frozenset({
    "s_branch", "s_cbranch_scc0", "s_cbranch_scc1", "s_cbranch_vccz", "s_cbranch_vccnz",
    "s_cbranch_execz", "s_cbranch_execnz", "s_endpgm", "s_barrier", "s_getpc_b64", "s_setpc_b64",
    "s_swappc_b64", "s_call_b64",
})  # fmt: skip


@dataclass(frozen=True)
class Semantic:
    """What one mnemonic means, and how its operands are read and written."""

    name: str
    function: Function
    sources: tuple[Token, ...]
    results: tuple[Token, ...]
    scalar: bool
    reads: tuple[str, ...] = ()
    ignores_exec: bool = False  # writes lanes whether active or not (v_writelane_b32)


REGISTRY: dict[str, Semantic] = {}


def define(semantic: Semantic) -> None:
    """Add one meaning; a second owner of a mnemonic is refused."""
    if semantic.name in REGISTRY:
        raise ValueError(f"{semantic.name} has a meaning already")
    REGISTRY[semantic.name] = semantic


def scalar(
    name: str, *sources: Token, to: Token | tuple[Token, ...], reads: tuple[str, ...] = ()
) -> Callable[[F], F]:
    """Register the decorated function as a scalar instruction."""

    def register(function: F) -> F:
        define(Semantic(name, function, sources, _tuple(to), True, reads))
        return function

    return register


def vector(
    name: str,
    *sources: Token,
    to: Token | tuple[Token, ...],
    reads: tuple[str, ...] = (),
    **flags: bool,
) -> Callable[[F], F]:
    """Register the decorated function as a vector instruction."""

    def register(function: F) -> F:
        define(Semantic(name, function, sources, _tuple(to), False, reads, **flags))
        return function

    return register


def _tuple(token: Token | tuple[Token, ...]) -> tuple[Token, ...]:
    return token if isinstance(token, tuple) else (token,)
