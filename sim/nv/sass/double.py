"""Double-precision arithmetic.

Source: PTX ISA, "Floating Point Instructions"; mesa: src/nouveau/compiler/nak/ir.rs (OpDAdd ...).
"""

from sim.isa.value import fma
from sim.nv.sass.access import Access
from sim.nv.sass.floats import rounding_of
from sim.nv.sass.rounding import fma64, product64, sum64
from sim.nv.sass.semantics import means


@means("DADD")
def dadd(x: Access) -> None:
    """a + b."""
    mode, a, b = rounding_of(x), x.f64(0), x.f64(1)
    x.write(sum64(a, b, mode) if mode else a + b)


@means("DMUL")
def dmul(x: Access) -> None:
    """a * b."""
    mode, a, b = rounding_of(x), x.f64(0), x.f64(1)
    x.write(product64(a, b, mode) if mode else a * b)


@means("DFMA")
def dfma(x: Access) -> None:
    """a * b + c, rounded once."""
    mode, a, b, c = rounding_of(x), x.f64(0), x.f64(1), x.f64(2)
    x.write(fma64(a, b, c, mode) if mode else fma(a, b, c))
