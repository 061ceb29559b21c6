"""What unified memory keeps of one file: GPUs, address spaces, ranges, mappings."""

from bisect import bisect_right
from dataclasses import dataclass, field

from hcq.ioctl_defs.nv_escape import INVALID_ADDRESS, UVM_ADDRESS_IN_USE
from sim.nv.channel import Channel
from sim.nv.gpu import Gpu, VaSpace
from sim.nv.memory import Placement
from sim.nv.status import INVALID_DEVICE, RmStatus


@dataclass(eq=False)
class Mapping:
    """Memory mapped for one GPU in an external range."""

    base: int
    size: int
    gpu: Gpu
    space: VaSpace
    placement: Placement

    @property
    def end(self) -> int:
        """Address after the last byte."""
        return self.base + self.size


@dataclass(eq=False)
class Range:
    """An external range, or the span of a channel's context buffers (`channel`)."""

    base: int
    size: int
    channel: Channel | None = None
    mappings: list[Mapping] = field(default_factory=list)

    def covers(self, base: int, size: int) -> bool:
        """Whether a span lies inside."""
        return self.base <= base and base + size <= self.base + self.size


@dataclass(eq=False)
class Space:
    """Unified memory's state of one file."""

    flags: int
    gpus: dict[bytes, Gpu] = field(default_factory=dict)
    spaces: dict[bytes, VaSpace] = field(default_factory=dict)
    ranges: list[Range] = field(default_factory=list)  # sorted
    peers: set[frozenset[bytes]] = field(default_factory=set)

    def gpu(self, uuid: bytes) -> Gpu:
        """A registered GPU; RmStatus otherwise."""
        if uuid not in self.gpus:
            raise RmStatus(INVALID_DEVICE, f"GPU {uuid.hex()} is not registered")
        return self.gpus[uuid]

    def space(self, uuid: bytes) -> VaSpace:
        """A registered address space; RmStatus otherwise."""
        self.gpu(uuid)
        if uuid not in self.spaces:
            raise RmStatus(INVALID_DEVICE, f"GPU {uuid.hex()} has no registered address space")
        return self.spaces[uuid]

    def find(self, base: int, size: int) -> Range:
        """The external range around a span; RmStatus when there is none."""
        index = bisect_right(self.ranges, base, key=_base) - 1
        found = self.ranges[index] if index >= 0 else None
        if found and found.covers(base, size) and not found.channel:
            return found
        raise RmStatus(INVALID_ADDRESS, f"no external range holds {base:#x}+{size:#x}")

    def add(self, new: Range) -> None:
        """A new range, which must not overlap another."""
        index = bisect_right(self.ranges, new.base, key=_base)
        for old in self.ranges[max(index - 1, 0) : index + 1]:
            if old.base < new.base + new.size and new.base < old.base + old.size:
                at = f"{old.base:#x}+{old.size:#x}"
                raise RmStatus(UVM_ADDRESS_IN_USE, f"{new.base:#x}+{new.size:#x} overlaps {at}")
        self.ranges.insert(index, new)


def _base(found: Range) -> int:
    return found.base
