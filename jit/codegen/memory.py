"""Loads and stores of a kernel: contiguous vectors where strides allow, else element by element.

Where a load is not valid its index is replaced by 0 and its value by zero, so
that no branch is needed; only stores branch.
"""

from typing import TYPE_CHECKING

from jit.codegen import number
from jit.codegen.operation import Operations
from jit.codegen.text import Value, literal, memory_type, suffix, typed, value_type
from jit.dtype import DType
from jit.kernel import Expr

if TYPE_CHECKING:
    from jit.codegen.llvm import Builder, Point


def load(b: "Builder", e: Expr, point: "Point", lanes: int, level: int) -> Value:
    """The value of a load at a point; one lane or as many as the vector axis has."""
    argument = b.kernel.arguments[e.arg]
    out = b.out(level)
    zero = literal(value_type(argument.dtype), 0)
    if argument.count == 0:
        return zero
    if len(e.src) == 1 and (lanes == 1 or is_contiguous(b, e.arg, e.src[0], lanes)):
        value = _read(b, out, e.arg, element_pointer(b, e.arg, e.src[0], point), lanes)
        return number.from_memory(out, value, argument.dtype)
    valid = b.evaluate(e.src[1], point, lanes) if len(e.src) > 1 else None
    if lanes == 1:
        index = b.evaluate(e.src[0], point, 1)
        return _scalar(b, out, e.arg, index, valid)
    if is_contiguous(b, e.arg, e.src[0], lanes):
        return _contiguous(b, out, e, b.evaluate(e.src[0], point, 1), valid)
    return _gathered(b, out, e, b.evaluate(e.src[0], point, lanes), valid)


def is_contiguous(b: "Builder", argument: int, index: Expr, lanes: int) -> bool:
    """Whether the lanes of an access lie side by side."""
    stride = b.strides.stride(index, b.vector_bit)
    return stride == 1 and b.kernel.arguments[argument].count >= lanes


def element_pointer(b: "Builder", argument: int, index: Expr, point: "Point") -> str:
    """A pointer to the element at an index (of the first lane).

    Unrolled positions become constant distances from the first position's pointer.
    """
    distance, first = 0, list(b.project(index, point))
    for a, position in enumerate(first):
        stride = b.strides.stride(index, a) if position else None
        if stride is not None:
            distance += stride * position * b.step(a)
            first[a] = 0
    level = b.level(index)
    out = b.out(level)
    key = ("pointer", argument, id(index), b.lanes, *first)
    found = b.levels[level][1].get(key)
    if found is None:
        start = b.evaluate(index, tuple(first), 1)
        text = b.target.address(b, out, argument, start)
        kind, name = text.rsplit(" ", 1)
        found = b.levels[level][1][key] = Value(kind, name)
    if not distance:
        return str(found)
    size = distance * b.kernel.arguments[argument].dtype.itemsize
    code = f"getelementptr inbounds i8, {found}, i64 {size}"
    return str(b.function.add(out.region, found.element, 1, code))


def _scalar(
    b: "Builder", out: Operations, argument: int, index: Value, valid: Value | None
) -> Value:
    dtype = b.kernel.arguments[argument].dtype
    if valid is not None:
        index = out.select(valid, index, out.constant(index, 0))
    pointer = b.target.address(b, out, argument, index)
    value = _read(b, out, argument, pointer, 1)
    value = number.from_memory(out, value, dtype)
    return value if valid is None else out.select(valid, value, out.constant(value, 0))


def _read(b: "Builder", out: Operations, argument: int, pointer: str, lanes: int) -> Value:
    dtype = b.kernel.arguments[argument].dtype
    element = memory_type(dtype)
    invariant = "" if b.kernel.arguments[argument].written else ", !invariant.load !0"
    code = f"load {typed(element, lanes)}, {pointer}, align {dtype.itemsize}{invariant}"
    return b.function.add(out.region, element, lanes, code)


def _contiguous(b: "Builder", out: Operations, e: Expr, index: Value, valid: Value | None) -> Value:
    """One vector; index is that of the first lane."""
    argument = b.kernel.arguments[e.arg]
    lanes = b.lanes
    if valid is not None and valid.lanes == lanes:
        pointer = b.target.address(b, out, e.arg, index)
        value = _masked_read(b, out, argument.dtype, pointer, valid)
        return number.from_memory(out, value, argument.dtype)
    if valid is not None:
        index = out.select(valid, index, out.constant(index, 0))
    pointer = b.target.address(b, out, e.arg, index)
    value = _read(b, out, e.arg, pointer, lanes)
    value = number.from_memory(out, value, argument.dtype)
    if valid is None:
        return value
    return out.select(out.splat(valid, lanes), value, out.constant(value, 0))


def _masked_read(b: "Builder", out: Operations, dtype: DType, pointer: str, valid: Value) -> Value:
    like = Value(memory_type(dtype), "", valid.lanes)
    name = f"llvm.masked.load.{suffix(like)}.p0"
    b.function.declared[name] = f"declare {like.type} @{name}(ptr, {valid.type}, {like.type})"
    address = pointer.replace("ptr ", f"ptr align {dtype.itemsize} ", 1)
    code = f"call {like.type} @{name}({address}, {valid}, {like.type} zeroinitializer)"
    return b.function.add(out.region, like.element, like.lanes, code)


def _gathered(b: "Builder", out: Operations, e: Expr, indexes: Value, valid: Value | None) -> Value:
    """Lane by lane. Lanes that are not valid read element 0."""
    lanes = b.lanes
    argument = b.kernel.arguments[e.arg]
    indexes = out.splat(indexes, lanes)
    if valid is not None:
        valid = out.splat(valid, lanes)
        indexes = out.select(valid, indexes, out.constant(indexes, 0))
    element = memory_type(argument.dtype)
    value = Value(element, "poison", lanes)
    for i in range(lanes):
        pointer = b.target.address(b, out, e.arg, lane(out, indexes, i))
        one = _read(b, out, e.arg, pointer, 1)
        value = out.add(value, f"insertelement {value}, {one}, i32 {i}")
    value = number.from_memory(out, value, argument.dtype)
    return value if valid is None else out.select(valid, value, out.constant(value, 0))


def lane(out: Operations, value: Value, i: int) -> Value:
    """One lane of a vector."""
    if value.lanes == 1:
        return value
    return out.function.add(out.region, value.element, 1, f"extractelement {value}, i32 {i}")


def addresses(b: "Builder", argument: int, index: Expr, point: "Point", lanes: int) -> list[str]:
    """Where a store goes: one pointer if the lanes are contiguous, else one per lane."""
    if lanes == 1 or is_contiguous(b, argument, index, lanes):
        return [element_pointer(b, argument, index, point)]
    indexes = b.evaluate(index, point, lanes)
    out = b.out()
    return [b.target.address(b, out, argument, lane(out, indexes, i)) for i in range(lanes)]


def store(
    b: "Builder", pointers: list[str], value: Value, valid: Value | None, dtype: DType
) -> None:
    """Store a value, already as in memory, where valid (None: everywhere)."""
    out = b.out()
    if value.lanes == 1 or (len(pointers) == 1 and valid is None):
        _write(b, pointers[0], value, valid, dtype)
    elif len(pointers) == 1 and valid is not None:
        name = f"llvm.masked.store.{suffix(value)}.p0"
        b.function.declared[name] = f"declare void @{name}({value.type}, ptr, {valid.type})"
        address = pointers[0].replace("ptr ", f"ptr align {dtype.itemsize} ", 1)
        b.region.append(f"  call void @{name}({value}, {address}, {valid})")
    else:
        for i, pointer in enumerate(pointers):
            out = b.out()
            here = None if valid is None else lane(out, valid, i)
            _write(b, pointer, lane(out, value, i), here, dtype)


def _write(b: "Builder", pointer: str, value: Value, valid: Value | None, dtype: DType) -> None:
    line = f"  store {value}, {pointer}, align {dtype.itemsize}"
    if valid is None:
        b.region.append(line)
        return
    yes, no = b.function.name("yes"), b.function.name("no")
    b.region.append(f"  br {valid}, label %{yes}, label %{no}")
    b.function.open().extend([f"{yes}:", line, f"  br label %{no}"])
    region = b.function.open()
    region.append(f"{no}:")
    b.levels[-1] = (region, b.levels[-1][1])
