"""Every SMEM, DS, FLAT, GLOBAL, SCRATCH and MUBUF instruction as data.

The engines move the bytes; this table says which bytes, how they extend and what
an atomic computes. Buffer instructions that convert formats are not here.

Source: AMD "RDNA3" Instruction Set Architecture, sections 16.15 (LDS), 16.4 (SMEM),
16.16 (MUBUF), 16.17 to 16.19 (flat, scratch, global).
"""

from collections.abc import Callable
from dataclasses import dataclass

from sim.isa.value import F32, F64, I32, I64, U32, U64, Type, Value, where

AtomicFunction = Callable[[Value, Value, Value | None], Value]


@dataclass(frozen=True)
class MemoryOp:
    """One memory instruction.

    `bits` is what one lane moves per element, `count` the registers of one element (for a
    scalar load: of the whole). With `two_addresses` there are two elements, at offset * n and
    offset1 * n bytes, n being bits / 8 (times 64 with `stride64`). A 16-bit half (`half`) keeps
    the other half of its register. An atomic's `operation` makes the new value from
    (memory, data, compare-or-second-data); `returns`: "always", "never" or "glc" (the bit says).
    """

    name: str
    space: str  # "scalar" "scalar_buffer" "lds" "global" "flat" "scratch" "buffer"
    action: str  # "load" "store" "atomic" "append"
    bits: int
    count: int
    extend: str | None = None  # "zero" "sign"
    half: str | None = None  # "lo" "hi"
    two_addresses: bool = False
    stride64: bool = False
    operation: AtomicFunction | None = None
    type: Type = U32  # what the atomic's operands are read as
    kind: str = ""  # which atomic, for engines with host instructions: "add" "umin" "xchg" ...
    returns: str = "never"
    add_thread_id: bool = False  # the address is offset + lane * 4 + M0, or a scalar base


OPERATIONS: dict[str, MemoryOp] = {}


def is_memory(name: str) -> bool:
    """Whether a mnemonic is in the table."""
    return name in OPERATIONS


def _add(operation: MemoryOp) -> None:
    if operation.name in OPERATIONS:
        raise ValueError(f"{operation.name} is listed twice")
    OPERATIONS[operation.name] = operation


# --- atomics: new value from (memory, data, second)


def swap(_memory: Value, data: Value, _second: Value | None) -> Value:
    """Exchange."""
    return data


def add(memory: Value, data: Value, _second: Value | None) -> Value:
    """Integer or float sum."""
    return memory + data


def subtract(memory: Value, data: Value, _second: Value | None) -> Value:
    """Memory minus data."""
    return memory - data


def reverse_subtract(memory: Value, data: Value, _second: Value | None) -> Value:
    """Data minus memory."""
    return data - memory


def clamped_subtract(memory: Value, data: Value, _second: Value | None) -> Value:
    """Memory minus data, not below 0."""
    return where(memory < data, 0, memory - data)


def increment(memory: Value, data: Value, _second: Value | None) -> Value:
    """One more, back to 0 after data."""
    return where(memory >= data, 0, memory + 1)


def decrement(memory: Value, data: Value, _second: Value | None) -> Value:
    """One less, to data from 0 or from above data."""
    return where((memory == 0) | (memory > data), data, memory - 1)


def smallest(memory: Value, data: Value, _second: Value | None) -> Value:
    """The smaller; a float NaN in memory gives way, a NaN as data is not stored."""
    return where(data < memory, data, memory)


def largest(memory: Value, data: Value, _second: Value | None) -> Value:
    """The larger; a float NaN as data is not stored."""
    return where(data > memory, data, memory)


def bit_and(memory: Value, data: Value, _second: Value | None) -> Value:
    """Bitwise and."""
    return memory & data


def bit_or(memory: Value, data: Value, _second: Value | None) -> Value:
    """Bitwise or."""
    return memory | data


def bit_xor(memory: Value, data: Value, _second: Value | None) -> Value:
    """Bitwise exclusive or."""
    return memory ^ data


def masked_or(memory: Value, data: Value, second: Value | None) -> Value:
    """Clear the bits of data, then set those of second."""
    return (memory & ~data) | _present(second)


def compare_swap(memory: Value, data: Value, second: Value | None) -> Value:
    """data where memory equals second."""
    return where(memory == _present(second), data, memory)


def wrap(memory: Value, data: Value, second: Value | None) -> Value:
    """Memory minus data if that is not negative, else memory plus second."""
    return where(memory >= data, memory - data, memory + _present(second))


def _present(value: Value | None) -> Value:
    if value is None:
        raise TypeError("this atomic takes two data operands")
    return value


# --- loads and stores

_LOADS = (  # suffix, bits, registers, extension, half
    ("load_u8", 8, 1, "zero", None), ("load_i8", 8, 1, "sign", None),
    ("load_u16", 16, 1, "zero", None), ("load_i16", 16, 1, "sign", None),
    ("load_b32", 32, 1, None, None), ("load_b64", 64, 2, None, None),
    ("load_b96", 96, 3, None, None), ("load_b128", 128, 4, None, None),
)  # fmt: skip
_STORES = (
    ("store_b8", 8, 1, None), ("store_b16", 16, 1, None), ("store_b32", 32, 1, None),
    ("store_b64", 64, 2, None), ("store_b96", 96, 3, None), ("store_b128", 128, 4, None),
)  # fmt: skip
_HALF_LOADS = (("u8", 8, "zero"), ("i8", 8, "sign"), ("b16", 16, "zero"))

for _space in ("global", "flat", "scratch", "lds", "buffer"):
    _prefix = "ds" if _space == "lds" else _space
    for _name, _bits, _count, _extend, _half in _LOADS:
        _add(MemoryOp(f"{_prefix}_{_name}", _space, "load", _bits, _count, _extend, _half))
    for _name, _bits, _count, _half in _STORES:
        _add(MemoryOp(f"{_prefix}_{_name}", _space, "store", _bits, _count, None, _half))

for _space in ("global", "flat", "scratch", "buffer"):
    for _name, _bits, _extend in _HALF_LOADS:
        _low = f"{_space}_load_d16_{_name}"
        _high = f"{_space}_load_d16_hi_{_name}"
        _add(MemoryOp(_low, _space, "load", _bits, 1, _extend, "lo"))
        _add(MemoryOp(_high, _space, "load", _bits, 1, _extend, "hi"))
    for _bits in (8, 16):
        _name = f"{_space}_store_d16_hi_b{_bits}"
        _add(MemoryOp(_name, _space, "store", _bits, 1, None, "hi"))

for _name, _bits, _extend in (("u8", 8, "zero"), ("i8", 8, "sign"), ("u16", 16, "zero")):
    _add(MemoryOp(f"ds_load_{_name}_d16", "lds", "load", _bits, 1, _extend, "lo"))
    _add(MemoryOp(f"ds_load_{_name}_d16_hi", "lds", "load", _bits, 1, _extend, "hi"))
for _bits in (8, 16):
    _add(MemoryOp(f"ds_store_b{_bits}_d16_hi", "lds", "store", _bits, 1, None, "hi"))

for _action in ("load", "store"):
    for _bits in (32, 64):
        for _stride in (False, True):
            _name = f"ds_{_action}_2addr_{'stride64_' if _stride else ''}b{_bits}"
            _add(MemoryOp(
                _name, "lds", _action, _bits, _bits // 32, two_addresses=True, stride64=_stride
            ))  # fmt: skip
    _add(MemoryOp(f"ds_{_action}_addtid_b32", "lds", _action, 32, 1, add_thread_id=True))
    _add(MemoryOp(f"global_{_action}_addtid_b32", "global", _action, 32, 1, add_thread_id=True))

for _count in (1, 2, 4, 8, 16):
    _add(MemoryOp(f"s_load_b{32 * _count}", "scalar", "load", 32 * _count, _count))
    _add(MemoryOp(
        f"s_buffer_load_b{32 * _count}", "scalar_buffer", "load", 32 * _count, _count
    ))  # fmt: skip

# --- atomics. What differs between LDS and the others is the spelling.

_ATOMICS: tuple[tuple[str, str, AtomicFunction, Type, str], ...] = (
    # name in global/flat, name in LDS, function, type, kind
    ("swap_b32", "storexchg_b32", swap, U32, "xchg"),
    ("swap_b64", "storexchg_b64", swap, U64, "xchg"),
    ("cmpswap_b32", "cmpstore_b32", compare_swap, U32, "cmpxchg"),
    ("cmpswap_b64", "cmpstore_b64", compare_swap, U64, "cmpxchg"),
    ("cmpswap_f32", "cmpstore_f32", compare_swap, F32, "fcmpxchg"),
    ("", "cmpstore_f64", compare_swap, F64, "fcmpxchg"),
    ("add_u32", "add_u32", add, U32, "add"), ("add_u64", "add_u64", add, U64, "add"),
    ("sub_u32", "sub_u32", subtract, U32, "sub"), ("sub_u64", "sub_u64", subtract, U64, "sub"),
    ("", "rsub_u32", reverse_subtract, U32, "rsub"),
    ("", "rsub_u64", reverse_subtract, U64, "rsub"),
    ("csub_u32", "", clamped_subtract, U32, "csub"),
    ("min_i32", "min_i32", smallest, I32, "min"), ("min_i64", "min_i64", smallest, I64, "min"),
    ("min_u32", "min_u32", smallest, U32, "umin"), ("min_u64", "min_u64", smallest, U64, "umin"),
    ("max_i32", "max_i32", largest, I32, "max"), ("max_i64", "max_i64", largest, I64, "max"),
    ("max_u32", "max_u32", largest, U32, "umax"), ("max_u64", "max_u64", largest, U64, "umax"),
    ("and_b32", "and_b32", bit_and, U32, "and"), ("and_b64", "and_b64", bit_and, U64, "and"),
    ("or_b32", "or_b32", bit_or, U32, "or"), ("or_b64", "or_b64", bit_or, U64, "or"),
    ("xor_b32", "xor_b32", bit_xor, U32, "xor"), ("xor_b64", "xor_b64", bit_xor, U64, "xor"),
    ("inc_u32", "inc_u32", increment, U32, "inc"), ("inc_u64", "inc_u64", increment, U64, "inc"),
    ("dec_u32", "dec_u32", decrement, U32, "dec"), ("dec_u64", "dec_u64", decrement, U64, "dec"),
    ("", "mskor_b32", masked_or, U32, "mskor"), ("", "mskor_b64", masked_or, U64, "mskor"),
    ("", "wrap_b32", wrap, U32, "wrap"),
    ("add_f32", "add_f32", add, F32, "fadd"),
    ("min_f32", "min_f32", smallest, F32, "fmin"), ("", "min_f64", smallest, F64, "fmin"),
    ("max_f32", "max_f32", largest, F32, "fmax"), ("", "max_f64", largest, F64, "fmax"),
)  # fmt: skip


def _atomic(name: str, space: str, function: AtomicFunction, type_: Type, kind: str) -> None:
    returns = "glc" if space != "lds" else "always" if "_rtn_" in name else "never"
    _add(MemoryOp(
        name, space, "atomic", type_.bits, type_.bits // 32,
        operation=function, type=type_, kind=kind, returns=returns,
    ))  # fmt: skip


def _register_atomics() -> None:
    for outside, inside, function, type_, kind in _ATOMICS:
        if outside:
            _atomic(f"global_atomic_{outside}", "global", function, type_, kind)
            _atomic(f"buffer_atomic_{outside}", "buffer", function, type_, kind)
        if outside and outside != "csub_u32":
            _atomic(f"flat_atomic_{outside}", "flat", function, type_, kind)
        if inside:
            verb, element = inside.rsplit("_", 1)
            _atomic(f"ds_{verb}_rtn_{element}", "lds", function, type_, kind)
        if inside and not inside.startswith(("storexchg", "wrap")):
            _atomic(f"ds_{inside}", "lds", function, type_, kind)
    for name, function, kind in (("append", add, "add"), ("consume", subtract, "sub")):
        # A counter that goes up or down by the number of active lanes.
        _add(MemoryOp(f"ds_{name}", "lds", "append", 32, 1, operation=function, kind=kind))


_register_atomics()
