"""Instructions for exp2, log2, sine, cosine, reciprocals and roots.

The hardware approximates; here results are within 1 ulp (sim/isa/functions.py). Denormals are
kept.

Source: AMD "RDNA3" Instruction Set Architecture, section 16.7 (V_EXP_F32 ... V_COS_F16).
"""

from collections.abc import Callable

from sim.amd.rdna.semantics import vector
from sim.isa.functions import cosine, exp2, log2, reciprocal, reciprocal_root, sine
from sim.isa.value import F16, F32, F64, Value


def _single(function: Callable[[Value], Value]) -> Callable[[Value], Value]:
    return lambda a: function(a.to(F64)).to(F32)


def _half(function: Callable[[Value], Value]) -> Callable[[Value], Value]:
    return lambda a: function(a.to(F64)).to(F32).to(F16)


def _root(x: Value) -> Value:
    return x.sqrt()


FUNCTIONS: dict[str, Callable[[Value], Value]] = {
    "exp": exp2, "log": log2, "sin": sine, "cos": cosine, "rsq": reciprocal_root,
}  # fmt: skip
for _name, _function in FUNCTIONS.items():
    vector(f"v_{_name}_f32", F32, to=F32)(_single(_function))
    vector(f"v_{_name}_f16", F16, to=F16)(_half(_function))

vector("v_rsq_f64", F64, to=F64)(reciprocal_root)
vector("v_rcp_iflag_f32", F32, to=F32)(reciprocal)
for _type, _suffix in ((F16, "f16"), (F32, "f32"), (F64, "f64")):
    vector(f"v_rcp_{_suffix}", _type, to=_type)(reciprocal)
    vector(f"v_sqrt_{_suffix}", _type, to=_type)(_root)
