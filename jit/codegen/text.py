"""LLVM IR as text: values, constants, and functions written region by region.

A region is a straight line of instructions. Several are open at once, one per
loop level, so that what does not depend on a loop is written before it.
"""

import struct
from dataclasses import dataclass

from jit.dtype import DType

MEMORY_TYPES = {
    "bool": "i8",
    "float16": "i16",
    "bfloat16": "i16",
    "float32": "float",
    "float64": "double",
}


def memory_type(dtype: DType) -> str:
    """The LLVM type of one element in memory. 16-bit floats travel as their bits."""
    return MEMORY_TYPES.get(dtype.name, f"i{dtype.bits}")


def value_type(dtype: DType) -> str:
    """The LLVM type of one element in a register: i1 for bool."""
    return "i1" if dtype.kind == "b" else memory_type(dtype)


@dataclass(frozen=True)
class Value:
    """One LLVM value: element type, name or literal, and lanes (1: a scalar)."""

    element: str
    name: str
    lanes: int = 1

    @property
    def type(self) -> str:
        return typed(self.element, self.lanes)

    @property
    def is_literal(self) -> bool:
        return not self.name.startswith("%")

    def __str__(self) -> str:
        return f"{self.type} {self.name}"


def typed(element: str, lanes: int) -> str:
    """The type of `lanes` elements."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


def literal(element: str, value: int | float | bool) -> Value:
    """A scalar constant. float and double are written as the bits of a double."""
    if element == "float":
        try:
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError:
            value = float("inf") if value > 0 else float("-inf")
    if element in ("float", "double"):
        return Value(element, f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}")
    if element == "i1":
        return Value(element, "true" if value else "false")
    bits = int(element[1:])
    number = int(value) % (1 << bits)
    return Value(element, str(number - (number >> bits - 1 << bits)))


class Function:
    """The body of one function in the making."""

    def __init__(
        self, *, has_half: bool = True, has_fences: bool = False, has_mixed_products: bool = False
    ) -> None:
        self.has_half = has_half  # the target converts float16
        self.has_fences = has_fences  # roundings that LLVM must not merge are kept apart
        self.has_mixed_products = has_mixed_products  # it has products of float32 as float16
        self.regions: list[list[str]] = []
        self.declared: dict[str, str] = {}
        self.globals: list[str] = []
        self._count = 0

    def name(self, stem: str = "v") -> str:
        """A name not used before, without its sigil."""
        self._count += 1
        return f"{stem}{self._count}"

    def open(self) -> list[str]:
        """A new region after all others; lines may be added to it until the end."""
        self.regions.append([])
        return self.regions[-1]

    def add(self, region: list[str], element: str, lanes: int, code: str) -> Value:
        """`%name = code` in a region."""
        name = f"%{self.name()}"
        region.append(f"  {name} = {code}")
        return Value(element, name, lanes)

    def call(self, region: list[str], intrinsic: str, result: Value, *arguments: Value) -> Value:
        """Call an intrinsic whose result is like `result` (name unused)."""
        types = ", ".join(a.type for a in arguments)
        self.declared[intrinsic] = f"declare {result.type} @{intrinsic}({types})"
        given = ", ".join(map(str, arguments))
        code = f"call {result.type} @{intrinsic}({given})"
        return self.add(region, result.element, result.lanes, code)

    def alloca(self, element: str, lanes: int, space: str) -> str:
        """A stack slot, made in the first region; its name."""
        name = f"%{self.name('slot')}"
        self.regions[0].append(f"  {name} = alloca {typed(element, lanes)}{space}")
        return name

    def text(self) -> str:
        """The lines of all regions in order."""
        return "\n".join(line for region in self.regions for line in region)


def suffix(value: Value) -> str:
    """How an intrinsic's name spells a value's type: v16f32."""
    scalar = {"float": "f32", "double": "f64"}.get(value.element, value.element)
    return scalar if value.lanes == 1 else f"v{value.lanes}{scalar}"
