"""Atomics: one function per operation, lane after lane, with the host's own atomics.

The host and the other thread must see each step whole, so a lane's update is a
host atomic: an instruction where there is one, else compare-and-exchange around
the operation's meaning, written over Value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from sim.isa import state
from sim.isa.emitter import Emitter
from sim.isa.llvm_value import LlvmValue
from sim.isa.native import FUNCTION_AT
from sim.isa.value import QUIET_NAN, Type, Value

# Kinds that LLVM has as one instruction on integers.
DIRECT = frozenset({"xchg", "add", "sub", "and", "or", "xor", "min", "max", "umin", "umax"})


class Atomic(Protocol):
    """What an atomic does: `kind` is one of DIRECT, or `operation` makes the new value.

    `operation` takes (memory, data, second data or None), of type `type` and `bits` wide.
    """

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def bits(self) -> int: ...
    @property
    def type(self) -> Type: ...
    @property
    def operation(self) -> Callable[[Value, Value, Value | None], Value] | None: ...


def atomic_function(
    operation: Atomic, width: int, second: bool, declarations: set[str],
    nans: Mapping[int, int] = QUIET_NAN,
) -> tuple[str, str]:
    """(name, text) of `void f(thread, lanes, data, second data, result or null, pc)`.

    Lane addresses lie in the thread record. Data and result are registers' homes.
    """
    name = f"atomic_{operation.name}"
    mask, bits, size = f"i{width}", operation.bits, operation.bits // 8
    emitter = Emitter(width, "a", nans)
    update = _direct if operation.kind in DIRECT else _exchange
    body = update(emitter, operation, second)
    declarations |= emitter.declarations
    declarations.add(f"declare {mask} @llvm.cttz.{mask}({mask}, i1)")
    parameters = f"ptr %t, {mask} %mask, ptr %data, ptr %second, ptr %result, i32 %pc"
    text = f"""
define internal void @{name}({parameters}) #0 {{
entry:
  %none = icmp eq {mask} %mask, 0
  %keep = icmp ne ptr %result, null
  %ap = getelementptr i8, ptr %t, i64 {state.ADDRESSES}
  %cp = getelementptr i8, ptr %t, i64 {FUNCTION_AT["CHECK"]}
  %check = load ptr, ptr %cp
  br i1 %none, label %done, label %lane
done:
  ret void
lane:
  %todo = phi {mask} [ %mask, %entry ], [ %rest, %next ]
  %which = call {mask} @llvm.cttz.{mask}({mask} %todo, i1 true)
  %at = {"zext i32 %which to i64" if width == 32 else "or i64 %which, 0"}
  %lower = sub {mask} %todo, 1
  %rest = and {mask} %todo, %lower
  %lap = getelementptr i64, ptr %ap, i64 %at
  %la = load i64, ptr %lap
  %lend = add i64 %la, {size}
  %p = inttoptr i64 %la to ptr
  %ok = call i1 %check(ptr %t, i64 %la, i64 %lend, i64 {state.READ | state.WRITE}, i32 %pc)
  br i1 %ok, label %access, label %next
access:
{_lane_value("d", "%data", bits, width)}
{_lane_value("e", "%second", bits, width) if second else ""}
  br label %work
work:
{body}
made:
  br i1 %keep, label %put, label %next
put:
{_put_lane("%before", bits, width)}
  br label %next
next:
  %over = icmp eq {mask} %rest, 0
  br i1 %over, label %done, label %lane
}}
"""
    return name, text


def _direct(_: Emitter, operation: Atomic, __: bool) -> str:
    return f"""  %before = atomicrmw {operation.kind} ptr %p, i{operation.bits} %d seq_cst
  br label %made"""


def _exchange(emitter: Emitter, operation: Atomic, second: bool) -> str:
    """Compare-and-exchange around the operation's own meaning."""
    kind = f"i{operation.bits}"
    raw = operation.type.unsigned

    def typed(name: str) -> Value:
        return LlvmValue(emitter, raw, name, False).bits(operation.type)

    assert operation.operation is not None
    made = operation.operation(typed("%before"), typed("%d"), typed("%e") if second else None)
    new = made.bits(raw)
    assert isinstance(new, LlvmValue)
    lines = "\n".join(emitter.lines)
    return f"""  %seen = load atomic {kind}, ptr %p monotonic, align {operation.bits // 8}
  br label %try
try:
  %before = phi {kind} [ %seen, %work ], [ %found, %try ]
{lines}
  %swap = cmpxchg ptr %p, {kind} %before, {kind} {new.text} seq_cst monotonic
  %found = extractvalue {{ {kind}, i1 }} %swap, 0
  %won = extractvalue {{ {kind}, i1 }} %swap, 1
  br i1 %won, label %made, label %try"""


def _lane_value(name: str, register: str, bits: int, width: int) -> str:
    """%name: this lane's data, from one register or several, the low word first."""
    low = f"""  %{name}p = getelementptr i32, ptr {register}, i64 %at
  %{name}{"" if bits == 32 else 0} = load i32, ptr %{name}p"""
    if bits == 32:
        return low
    lines = [low, f"  %{name}sum0 = zext i32 %{name}0 to i{bits}"]
    for word in range(1, bits // 32):
        total = name if word == bits // 32 - 1 else f"{name}sum{word}"
        lines.append(f"""  %{name}p{word} = getelementptr i8, ptr %{name}p, i64 {4 * width * word}
  %{name}{word} = load i32, ptr %{name}p{word}
  %{name}wide{word} = zext i32 %{name}{word} to i{bits}
  %{name}up{word} = shl i{bits} %{name}wide{word}, {32 * word}
  %{total} = or i{bits} %{name}sum{word - 1}, %{name}up{word}""")
    return "\n".join(lines)


def _put_lane(value: str, bits: int, width: int) -> str:
    place = "  %rp = getelementptr i32, ptr %result, i64 %at"
    if bits == 32:
        return f"{place}\n  store i32 {value}, ptr %rp"
    lines = [place]
    for word in range(bits // 32):
        lines.append(f"""  %vs{word} = lshr i{bits} {value}, {32 * word}
  %vw{word} = trunc i{bits} %vs{word} to i32
  %rp{word} = getelementptr i8, ptr %rp, i64 {4 * width * word}
  store i32 %vw{word}, ptr %rp{word}""")
    return "\n".join(lines)
