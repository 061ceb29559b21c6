"""Cube map coordinates, and the lighting product.

The face is that of the largest component, z before y before x when they tie.

Source: AMD "RDNA3" Instruction Set Architecture, section 16.10 (V_CUBEID_F32 ... V_CUBEMA_F32,
V_MULLIT_F32).
"""

from collections.abc import Callable

from sim.amd.rdna.semantics import vector
from sim.isa.value import F32, Value, constant, where

LARGEST = float.fromhex("0x1.fffffep+127")

Choice = Callable[[Value, Value, Value], Value]


def _by_face(on_x: Choice, on_y: Choice, on_z: Choice) -> Choice:
    def choose(x: Value, y: Value, z: Value) -> Value:
        wide, high, deep = x.absolute(), y.absolute(), z.absolute()
        is_z = (deep >= wide) & (deep >= high)
        rest = where(high >= wide, on_y(x, y, z), on_x(x, y, z))
        return where(is_z, on_z(x, y, z), rest)

    return choose


def _face(axis: int, positive: float) -> Choice:
    def face(*components: Value) -> Value:
        component = components[axis]
        return where(component < 0.0, constant(component, F32, positive + 1.0), positive)

    return face


def _double(axis: int) -> Choice:
    return lambda *components: components[axis] * 2.0


FUNCTIONS = {
    "v_cubeid_f32": _by_face(_face(0, 0.0), _face(1, 2.0), _face(2, 4.0)),
    "v_cubema_f32": _by_face(_double(0), _double(1), _double(2)),
    "v_cubesc_f32": _by_face(
        lambda x, y, z: where(x < 0.0, z, z.negate()),
        lambda x, y, z: x,
        lambda x, y, z: where(z < 0.0, x.negate(), x),
    ),
    "v_cubetc_f32": _by_face(
        lambda x, y, z: y.negate(),
        lambda x, y, z: where(y < 0.0, z.negate(), z),
        lambda x, y, z: y.negate(),
    ),
}
for _name, _function in FUNCTIONS.items():
    vector(_name, F32, F32, F32, to=F32)(_function)


@vector("v_mullit_f32", F32, F32, F32, to=F32)
def v_mullit_f32(a: Value, b: Value, c: Value) -> Value:
    # The largest negative number stands for "no light".
    dark = (b <= -LARGEST) | b.is_nan() | (c <= 0.0) | c.is_nan()
    return where(dark, -LARGEST, a * b)
