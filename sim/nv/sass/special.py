"""Special registers.

Source: PTX ISA, "Special Registers"; mesa: src/nouveau/compiler/nak/sm70_encode.rs
(OpS2R, OpCS2R).
"""

from sim.isa.value import U32, Value
from sim.nv.sass.access import Access
from sim.nv.sass.formats import special_registers
from sim.nv.sass.semantics import means


def _value(x: Access, index: int) -> Value:
    name = special_registers(x.registers.chip).get(index, f"SR{index}")
    if name == "SRZ":
        return x.number(U32, 0)
    return x.registers.special(name.removeprefix("SR_"))


@means("S2R", "S2UR", "CS2R")
def s2r(x: Access) -> None:
    """A special register, or a pair of them."""
    index = x.data[0].index
    if x.results[0].count == 2:
        x.write_word(x.results[0], 0, _value(x, index))
        x.write_word(x.results[0], 1, _value(x, min(index + 1, 255)))
        return
    x.write(_value(x, index))
