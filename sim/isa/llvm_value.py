"""Values that write LLVM IR: the translator's half of the Value protocol.

Every rule of sim.isa.value holds here too: what numpy computes per lane, the
emitted code computes per lane, bit for bit. Half precision is computed in single
(or double) and rounded back, which the host has no other way to do.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sim.isa.emitter import Emitter
from sim.isa.value import (
    BOOL,
    F16,
    F32,
    F64,
    QUIET_NAN,
    U32,
    U64,
    Type,
    Value,
    refuse_operation,
)  # fmt: skip

FLOATS = {16: "half", 32: "float", 64: "double"}
FLOAT_BINARY = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
INTEGER_BINARY = {
    "add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor", "shl": "shl",
}  # fmt: skip
FOLDED: dict[str, Callable[[int, int], int]] = {
    "add": operator.add, "sub": operator.sub, "and": operator.and_, "or": operator.or_,
    "xor": operator.xor, "shl": operator.lshift, "lshr": operator.rshift,
}  # fmt: skip
ZERO = "zeroinitializer"
FLOAT_COMPARE = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
ROUNDING = {
    "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "truncate": "trunc", "round_even": "rint",
}  # fmt: skip


@dataclass(eq=False, slots=True)
class LlvmValue(Value):
    """A Value named `text` in the function that `emitter` writes."""

    emitter: Emitter
    type: Type
    text: str
    lanes: bool
    # A 64-bit value that was put together from two 32-bit vectors: their names, low first. Moves,
    # shifts by constants and splitting it again then stay in 32 bits, half the work.
    halves: tuple[str, str] | None = None

    @property
    def width(self) -> int:  # type: ignore[override]
        """Lanes of a wave."""
        return self.emitter.width

    @property
    def is_uniform(self) -> bool:
        return not self.lanes

    @property
    def kind(self) -> str:
        """The LLVM type."""
        return llvm_type(self.type, self.emitter.width if self.lanes else 0)

    def spread(self) -> LlvmValue:
        """One element per lane."""
        if self.lanes:
            return self
        element, vector = self.kind, llvm_type(self.type, self.width)
        if not self.text.startswith("%"):
            return self._new(self.type, f"splat ({element} {self.text})", True)
        emitter = self.emitter
        first = emitter.pure(f"insertelement {vector} poison, {element} {self.text}, i64 0")
        mask = f"<{self.width} x i32> zeroinitializer"
        text = emitter.pure(f"shufflevector {vector} {first}, {vector} poison, {mask}")
        return self._new(self.type, text, True)

    def binary(self, operation: str, other: Value) -> LlvmValue:
        a, b = self._together(other)
        if self.type.kind == "f":
            if operation not in FLOAT_BINARY:
                raise refuse_operation(self, operation)
            return a._float_binary(FLOAT_BINARY[operation], b)
        if operation == "shr":
            name = "ashr" if self.type.kind == "i" else "lshr"
        elif operation in INTEGER_BINARY:
            name = INTEGER_BINARY[operation]
        else:
            raise refuse_operation(self, operation)
        folded = fold(name, a, b)
        if folded is not None:
            return folded
        result = a._emit(a.type, f"{name} {a.kind} {a.text}, {b.text}")
        result.halves = by_halves(name, self, own(other))
        return result

    def compare(self, operation: str, other: Value) -> LlvmValue:
        a, b = self._together(other)
        if self.type.kind == "f":
            return a._emit(BOOL, f"fcmp {FLOAT_COMPARE[operation]} {a.kind} {a.text}, {b.text}")
        sign = "s" if self.type.kind == "i" else "u"
        predicate = operation if operation in ("eq", "ne") else sign + operation
        return a._emit(BOOL, f"icmp {predicate} {a.kind} {a.text}, {b.text}")

    def unary(self, operation: str) -> LlvmValue:
        if self.type.kind == "f":
            if operation == "is_nan":
                return self._emit(BOOL, f"fcmp uno {self.kind} {self.text}, {self.text}")
            if operation not in ROUNDING:
                raise refuse_operation(self, operation)
            # LLVM takes the choice of a NaN after sqrt for a no-op unless it is fenced off.
            result = self._widened()._call(ROUNDING[operation])._call("arithmetic.fence")
            return result._finished(self.type)
        if operation == "not":
            ones = self.constant(self.type, -1 if self.type != BOOL else 1)
            return self.binary("xor", ones)
        if operation == "neg":
            return self.constant(self.type, 0).binary("sub", self)
        return self._integer_unary(operation)

    def bits(self, target: Type) -> LlvmValue:
        if target.bits != self.type.bits:
            raise TypeError(f"{self.type} and {target} differ in width")
        if (target.kind == "f") == (self.type.kind == "f"):
            return LlvmValue(self.emitter, target, self.text, self.lanes, self.halves)
        return self._cast("bitcast", target)

    def to(self, target: Type) -> LlvmValue:
        if target == self.type:
            return self
        if target == BOOL:
            return self.compare("ne", self.constant(self.type, 0))
        if self.type.kind == "f":
            return self._to_float(target) if target.kind == "f" else self._to_integer(target)
        if target.kind == "f":
            return self._from_integer(target)
        return self._resized(target)

    def select(self, yes: Value, no: Value) -> LlvmValue:
        if self.type != BOOL:
            raise TypeError(f"a mask of type {self.type}")
        a, b = own(yes), own(no)
        if self.lanes or a.lanes or b.lanes:
            a, b = a.spread(), b.spread()
        return a._emit(
            a.type, f"select {self.kind} {self.text}, {a.kind} {a.text}, {b.kind} {b.text}"
        )

    def multiply_add(self, factor: Value, addend: Value) -> LlvmValue:
        a, b, c = self, own(factor), own(addend)
        if a.lanes or b.lanes or c.lanes:
            a, b, c = a.spread(), b.spread(), c.spread()
        if self.type == F16:
            # In double the sum is exact or far from a tie of half, so only the last step rounds.
            a, b, c = (x._cast("fpext", F64) for x in (a, b, c))
        return a._call("fma", b, c)._finished(self.type)

    def constant(self, target: Type, number: float) -> LlvmValue:
        return self._new(target, constant_text(target, number), False)

    def lane_id(self) -> LlvmValue:
        numbers = ", ".join(f"i32 {lane}" for lane in range(self.width))
        return self._new(U32, f"<{numbers}>", True)

    def take(self, index: Value | Sequence[int]) -> LlvmValue:
        source = self.spread()
        if not isinstance(index, Value):
            mask = ", ".join(f"i32 {i % self.width}" for i in index)
            kind = source.kind
            return source._emit(
                self.type,
                f"shufflevector {kind} {source.text}, {kind} poison, <{self.width} x i32> <{mask}>",
            )
        if self.type.kind == "f":
            return source.bits(self.type.unsigned).take(index).bits(self.type)
        if self.type.bits < 32:
            return source.to(U32).take(index).to(self.type)
        return source._gather(own(index))

    def lane(self, index: Value | int) -> LlvmValue:
        source = self.spread()
        if isinstance(index, Value):
            place = own(index).binary("and", index.constant(index.type, self.width - 1))
            at = f"{place.kind} {place.text}"
        else:
            at = f"i32 {index % self.width}"
        text = self.emitter.pure(f"extractelement {source.kind} {source.text}, {at}")
        return self._new(self.type, text, False)

    def ballot(self) -> LlvmValue:
        source = self.spread()
        target = U32 if self.width == 32 else U64
        text = self.emitter.pure(f"bitcast {source.kind} {source.text} to i{self.width}")
        return self._new(target, text, False)

    def unballot(self) -> LlvmValue:
        if self.type.bits != self.width:
            raise TypeError(f"a mask of {self.type.bits} bits for {self.width} lanes")
        text = self.emitter.pure(f"bitcast {self.kind} {self.text} to <{self.width} x i1>")
        return self._new(BOOL, text, True)

    # --- how the above are written

    def _new(self, target: Type, text: str, lanes: bool) -> LlvmValue:
        return LlvmValue(self.emitter, target, text, lanes)

    def _emit(self, target: Type, text: str) -> LlvmValue:
        return LlvmValue(self.emitter, target, self.emitter.pure(text), self.lanes)

    def _cast(self, name: str, target: Type) -> LlvmValue:
        kind = llvm_type(target, self.width if self.lanes else 0)
        return self._emit(target, f"{name} {self.kind} {self.text} to {kind}")

    def _resized(self, target: Type) -> LlvmValue:
        """An integer of another width, extended by its own signedness."""
        if target.bits == self.type.bits:
            return self._new(target, self.text, self.lanes)
        if self.type.kind == "u" and not self.lanes and self.text.isdigit():
            return self.constant(target, int(self.text))
        if target.bits < self.type.bits:
            if self.halves is not None and target.bits == 32:
                return self._new(target, self.halves[0], True)
            return self._cast("trunc", target)
        result = self._cast("sext" if self.type.kind == "i" else "zext", target)
        if self.lanes and self.type == U32 and target.bits == 64:
            result.halves = (self.text, ZERO)
        return result

    def _call(self, name: str, *others: LlvmValue) -> LlvmValue:
        """An intrinsic whose operands and result are all of this type."""
        arguments = [(x.kind, x.text) for x in (self, *others)]
        full = f"llvm.{name}.{mangled(self.kind)}"
        return self._new(
            self.type, self.emitter.intrinsic(self.kind, full, *arguments), self.lanes
        )

    def _together(self, other: Value) -> tuple[LlvmValue, LlvmValue]:
        b = own(other)
        if self.lanes == b.lanes:
            return self, b
        return self.spread(), b.spread()

    def _canonical(self) -> LlvmValue:
        """Every NaN as the positive quiet NaN."""
        nan = self._emit(BOOL, f"fcmp uno {self.kind} {self.text}, {self.text}")
        bits = self.type.bits
        quiet = self._new(self.type, float_text(bits, self.emitter.nans[bits]), False)
        return nan.select(quiet, self)

    def _finished(self, target: Type) -> LlvmValue:
        """Rounded to target, every NaN the one of target."""
        if self.emitter.nans is QUIET_NAN:  # whose bits survive rounding
            return self._canonical()._narrowed(target)
        return self._narrowed(target)._canonical()

    def _widened(self) -> LlvmValue:
        return self._cast("fpext", F32) if self.type == F16 else self

    def _narrowed(self, target: Type) -> LlvmValue:
        """Rounded to target; half gets the bits of its own NaN from a canonical wider one."""
        if self.type == target:
            return self
        source = self._rounded_to_odd() if self.type == F64 and target == F16 else self
        return source._cast("fptrunc", target)

    def _rounded_to_odd(self) -> LlvmValue:
        """A double as a single whose last bit says whether anything was cut off.

        Rounding that to half rounds once; the host has no double to half conversion.
        """
        near = self._cast("fptrunc", F32)
        back = near._cast("fpext", F64)
        raw = near.bits(U32)
        outward = back.absolute() > self.absolute()
        inward = outward.select(raw - 1, raw)
        inexact = self._emit(BOOL, f"fcmp one {self.kind} {self.text}, {back.text}")
        return own(inexact.select(inward | 1, raw)).bits(F32)

    def _float_binary(self, name: str, other: LlvmValue) -> LlvmValue:
        a, b = self._widened(), other._widened()
        result = a._emit(a.type, f"{name} {a.kind} {a.text}, {b.text}")
        return result._finished(self.type)

    def _integer_unary(self, operation: str) -> LlvmValue:
        names = {"popcount": "ctpop", "reverse_bits": "bitreverse"}
        if operation in names:
            return self._call(names[operation])
        counts = {"leading_zeros": "ctlz", "trailing_zeros": "cttz"}
        if operation not in counts:
            raise refuse_operation(self, operation)
        full = f"llvm.{counts[operation]}.{mangled(self.kind)}"
        text = self.emitter.intrinsic(self.kind, full, (self.kind, self.text), ("i1", "false"))
        return self._new(self.type, text, self.lanes)

    def _to_float(self, target: Type) -> LlvmValue:
        if target.bits > self.type.bits:
            return self._cast("fpext", target)._canonical()
        return self._finished(target)

    def _to_integer(self, target: Type) -> LlvmValue:
        source = self._widened()
        kind = llvm_type(target, self.width if self.lanes else 0)
        name = "fptosi" if target.kind == "i" else "fptoui"
        full = f"llvm.{name}.sat.{mangled(kind)}.{mangled(source.kind)}"
        text = self.emitter.intrinsic(kind, full, (source.kind, source.text))
        return self._new(target, text, self.lanes)

    def _from_integer(self, target: Type) -> LlvmValue:
        name = "sitofp" if self.type.kind == "i" else "uitofp"
        # Whatever single cannot hold exactly is infinite in half, so two steps round once.
        wide = F32 if target == F16 else target
        return self._cast(name, wide)._narrowed(target)

    def _gather(self, index: LlvmValue) -> LlvmValue:
        emitter, kind = self.emitter, self.kind
        element = llvm_type(self.type, 0)
        slot = emitter.slot(kind)
        emitter.line(f"store {kind} {self.text}, ptr {slot}, align 64")
        place = own(index.spread() & (self.width - 1))
        vector = f"<{self.width} x ptr>"
        where = emitter.effect(f"getelementptr {element}, ptr {slot}, {place.kind} {place.text}")
        name = f"llvm.masked.gather.v{self.width}{element}.v{self.width}p0"
        mask = f"<{self.width} x i1>"
        emitter.declarations.add(f"declare {kind} @{name}({vector}, {mask}, {kind})")
        text = emitter.effect(
            f"call {kind} @{name}({vector} align 4 {where}, {mask} splat (i1 true), {kind} poison)"
        )
        return self._new(self.type, text, True)


def fold(name: str, a: LlvmValue, b: LlvmValue) -> LlvmValue | None:
    """The result of an operation on two integer constants, if that is what they are."""
    if a.lanes or a.type == BOOL or not (a.text.isdigit() and b.text.isdigit()):
        return None
    if name not in FOLDED:
        return None
    return a.constant(a.type, FOLDED[name](int(a.text), int(b.text)))


def by_halves(name: str, a: LlvmValue, b: LlvmValue) -> tuple[str, str] | None:
    """The halves of a 64-bit result, where they follow from those of the operands."""
    if a.halves is None:
        return None
    low, high = a.halves
    if name == "or" and b.halves is not None:
        return _either(a, low, b.halves[0]), _either(a, high, b.halves[1])
    if b.lanes or not b.text.isdigit():
        return None
    count = int(b.text)
    if name == "lshr" and count == 32:
        return high, ZERO
    if name != "shl" or count > 32:
        return None
    return (ZERO, low) if count == 32 else _shifted(a, low, high, count)


def _either(like: LlvmValue, a: str, b: str) -> str:
    if ZERO in (a, b):
        return a if b == ZERO else b
    return like.emitter.pure(f"or {llvm_type(U32, like.width)} {a}, {b}")


def _shifted(like: LlvmValue, low: str, high: str, count: int) -> tuple[str, str]:
    kind = llvm_type(U32, like.width)
    by = f"splat (i32 {count})"
    left = like.emitter.pure(f"shl {kind} {low}, {by}")
    full = f"llvm.fshl.{mangled(kind)}"
    return left, like.emitter.intrinsic(kind, full, (kind, high), (kind, low), (kind, by))


def llvm_type(target: Type, lanes: int) -> str:
    """The LLVM type of a Type; lanes 0 is a scalar."""
    element = FLOATS[target.bits] if target.kind == "f" else f"i{target.bits}"
    return f"<{lanes} x {element}>" if lanes else element


def mangled(kind: str) -> str:
    """A type as intrinsic names spell it: <32 x float> is v32f32."""
    if kind.startswith("<"):
        count, element = kind[1:-1].split(" x ")
        return f"v{count}{mangled(element)}"
    return {"half": "f16", "float": "f32", "double": "f64"}.get(kind, kind)


def float_text(bits: int, raw: int) -> str:
    """A float constant by its bits."""
    if bits == 16:
        return f"0xH{raw:04X}"
    if bits == 64:
        return f"0x{raw:016X}"
    return f"bitcast (i32 {raw} to float)"


def constant_text(target: Type, number: float) -> str:
    """A constant of a type; integers wrap."""
    if target == BOOL:
        return "true" if number else "false"
    if target.kind != "f":
        return str(int(number) & ((1 << target.bits) - 1))
    code = {16: "<e", 32: "<f", 64: "<d"}[target.bits]
    try:
        raw = struct.pack(code, number)
    except OverflowError:
        raw = struct.pack(code, math.copysign(math.inf, number))
    return float_text(target.bits, int.from_bytes(raw, "little"))


def own(value: Any) -> LlvmValue:
    """The value as one of this engine; TypeError for another engine's."""
    if not isinstance(value, LlvmValue):
        raise TypeError("values of two engines are mixed")
    return value
