"""What an engine offers of a wave's state to those who compute with it."""

from typing import Protocol

from sim.isa.value import Type, Value


class Registers(Protocol):
    """The register files of one wave, as an engine keeps them.

    Kinds: "vgpr" (U32 lanes) and, uniform U32, "sgpr" "ttmp" "vcc" "exec" "m0".
    """

    @property
    def width(self) -> int:
        """Lanes: 32 or 64."""

    @property
    def scc(self) -> Value:
        """Uniform BOOL."""

    def set_scc(self, value: Value) -> None:
        """Replace SCC."""

    def exec_mask(self) -> Value:
        """EXEC as BOOL lanes."""

    def read(self, kind: str, index: int) -> Value:
        """One dword register."""

    def write(self, kind: str, index: int, value: Value, mask: Value | None) -> None:
        """Write one dword; mask (BOOL lanes, "vgpr" only): None writes every lane."""

    def constant(self, target: Type, number: float) -> Value:
        """A uniform value."""

    def read_at(self, kind: str, number: Value) -> Value:
        """The "vgpr" or "sgpr" with a uniform U32 number; register 0 beyond the last."""

    def write_at(self, kind: str, number: Value, value: Value, mask: Value | None) -> None:
        """Write it; nothing beyond the last."""

    @property
    def denormals(self) -> int:
        """MODE.denorm."""

    def clock(self) -> Value:
        """Ticks of the 100 MHz counter, uniform U64."""
