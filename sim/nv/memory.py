"""Memory of the simulated NVIDIA driver, and where in this process it can be seen.

A memory object has pages of its own (`home`). The GPU sees them at the address where
unified memory maps them, which is an address of this process too, and the program where
it maps them, at that same address or another. The pages live until the last of resource
manager object, GPU mapping and view is gone.
"""

from bisect import bisect_right, insort
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hcq.bits import align
from hcq.host import MappedRegion, Region
from hcq.ioctl_defs import nv_escape
from sim.memory import PAGE
from sim.nv.status import RmStatus
from sim.space import AddressSpace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sim.nv.gpu import Gpu

MOST_BYTES = 1 << 47  # what this process could see
VIDEO, SYSTEM, USER, REGISTERS = "video", "system", "user", "registers"


@dataclass(eq=False)
class Memory:
    """Pages. `gpu` owns video memory; `holders` counts what keeps it alive."""

    kind: str
    gpu: "Gpu | None"
    size: int
    home: int
    page: int = PAGE  # what GPU addresses must be aligned to
    holders: int = 0


@dataclass(eq=False)
class Placement:
    """Memory shown at an address: to GPUs (`users` mappings), to the program (`views`)."""

    address: int
    size: int
    memory: Memory
    offset: int
    users: int = 0
    views: int = 0

    @property
    def end(self) -> int:
        """Address after the last byte."""
        return self.address + self.size

    def shows(self, memory: Memory, offset: int, address: int) -> bool:
        """Whether this shows the byte at `offset` of a memory at `address`."""
        return self.memory is memory and self.offset + address - self.address == offset


@dataclass(eq=False)
class _View:
    size: int
    memory: Memory
    placement: Placement | None


class Memories:
    """Every memory object of the process."""

    def __init__(self, gpus: "Sequence[Gpu]", space: AddressSpace) -> None:
        self._gpus = gpus
        self._space = space
        self._starts: list[int] = []  # of placements, sorted
        self._placed: dict[int, Placement] = {}
        self._views: dict[int, _View] = {}
        self._doomed: list[Placement] = []
        self._homes: set[Memory] = set()

    def create(self, kind: str, gpu: "Gpu", size: int, page: int) -> Memory:
        """Fresh pages, with noise in them; RmStatus when the GPU has no room."""
        size = align(size, PAGE)
        if size > MOST_BYTES:
            raise RmStatus(nv_escape.NO_MEMORY, f"{size:#x} bytes in one piece")
        if kind == VIDEO and gpu.used + size > gpu.vram:
            left = gpu.vram - gpu.used
            raise RmStatus(nv_escape.NO_MEMORY, f"{size:#x} bytes, {left:#x} are free")
        try:
            home = self._space.anonymous(size, noise=True)
        except OSError as error:
            raise RmStatus(nv_escape.NO_MEMORY, str(error)) from error
        memory = Memory(kind, gpu, size, home, page)
        if kind == VIDEO:
            gpu.used += size
        self._homes.add(memory)
        return memory

    def pin(self, gpu: "Gpu", address: int, size: int) -> Memory:
        """Pages of the program's own."""
        return Memory(USER, gpu, size, address)

    def hold(self, memory: Memory) -> None:
        """One more reason to keep the pages."""
        memory.holders += 1

    def drop(self, memory: Memory) -> None:
        """One reason less; the last one lets them go."""
        memory.holders -= 1
        if memory.holders or memory not in self._homes:
            return
        self._homes.remove(memory)
        self._space.drop(memory.home, memory.size)
        if memory.kind == VIDEO and memory.gpu:
            memory.gpu.used -= memory.size

    def place(self, address: int, size: int, memory: Memory, offset: int) -> Placement:
        """Show memory at an address; RmStatus when something else is there."""
        self._clear_doomed(address, size)
        near = self._overlapping(address, size)
        for found in near:
            if not found.shows(memory, offset + found.address - address, found.address):
                raise _in_use(address, size)
        if len(near) == 1 and near[0].address <= address and address + size <= near[0].end:
            return near[0]
        for found in near:
            if found.users or found.address < address or found.end > address + size:
                raise _in_use(address, size)
        return self._place_over(near, Placement(address, size, memory, offset))

    def use(self, placement: Placement) -> None:
        """A GPU mapping needs this placement."""
        placement.users += 1

    def unuse(self, placement: Placement) -> None:
        """A GPU mapping is gone."""
        placement.users -= 1
        self._settle(placement)

    def view(self, memory: Memory, offset: int, size: int, address: int | None) -> Region:
        """What mmap gives the program; RmStatus."""
        if address is None:
            address = self._space.alias(memory.home + offset, size, None)
            placement = None
        else:
            placement = self.place(address, size, memory, offset)
            placement.views += 1
        self.hold(memory)
        self._views[address] = _View(size, memory, placement)
        return MappedRegion(address, size)

    def released(self, address: int, size: int) -> None:
        """The program unmapped a span: the views in it are gone."""
        for start in [a for a in self._views if address <= a < address + size]:
            view = self._views.pop(start)
            if view.placement:
                view.placement.views -= 1
                self._settle(view.placement)
            self.drop(view.memory)

    def at(self, address: int) -> Placement | None:
        """What is shown at an address."""
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        found = self._placed[self._starts[index]]
        return found if address < found.end else None

    def sweep(self) -> None:
        """Give back address space that a working GPU might still have touched."""
        if self._doomed and not self._is_working:
            doomed, self._doomed = self._doomed, []
            for placement in doomed:
                self._vacate(placement)

    def close(self) -> None:
        """Give everything back."""
        for placement in list(self._placed.values()):
            self._forget(placement)
            self._vacate(placement)
        for placement in self._doomed:
            self._vacate(placement)
        for memory in self._homes:
            self._space.drop(memory.home, memory.size)
        self._homes.clear()
        self._doomed.clear()

    def live(self) -> int:
        """How many memory objects there are."""
        return len(self._homes)

    @property
    def _is_working(self) -> bool:
        return any(gpu.is_working for gpu in self._gpus)

    def _overlapping(self, address: int, size: int) -> list[Placement]:
        index = max(bisect_right(self._starts, address) - 1, 0)
        found = []
        while index < len(self._starts) and self._starts[index] < address + size:
            placement = self._placed[self._starts[index]]
            if placement.end > address:
                found.append(placement)
            index += 1
        return found

    def _place_over(self, small: list[Placement], placement: Placement) -> Placement:
        """Put a placement where smaller views of the same memory are, which join it."""
        for view in self._views.values():
            if view.placement in small:
                view.placement = placement
                placement.views += 1
        for found in small:
            self._forget(found)
            self._vacate(found)
        memory, address = placement.memory, placement.address
        if memory.kind == USER:
            if address != memory.home + placement.offset:
                # One address for both is what makes simulated memory accesses plain loads.
                at = f"{memory.home + placement.offset:#x}"
                raise RmStatus(
                    nv_escape.NOT_SUPPORTED,
                    f"memory pinned at {at} is only simulated with this GPU address, "
                    f"not {address:#x}",
                )
        else:
            try:
                self._space.place_alias(address, placement.size, memory.home + placement.offset)
            except OSError as error:
                raise RmStatus(nv_escape.UVM_ADDRESS_IN_USE, str(error)) from error
        self.hold(memory)
        insort(self._starts, address)
        self._placed[address] = placement
        return placement

    def _settle(self, placement: Placement) -> None:
        if placement.users or placement.views or placement.address not in self._placed:
            return
        self._forget(placement)
        if self._is_working:
            self._doomed.append(placement)
        else:
            self._vacate(placement)

    def _forget(self, placement: Placement) -> None:
        self._starts.remove(placement.address)
        del self._placed[placement.address]

    def _vacate(self, placement: Placement) -> None:
        if placement.memory.kind != USER:
            self._space.vacate(placement.address, placement.size)
        self.drop(placement.memory)

    def _clear_doomed(self, address: int, size: int) -> None:
        """A new mapping does not wait for what lies doomed in its place."""
        for placement in list(self._doomed):
            if placement.address < address + size and address < placement.end:
                self._doomed.remove(placement)
                self._vacate(placement)


def _in_use(address: int, size: int) -> RmStatus:
    return RmStatus(
        nv_escape.UVM_ADDRESS_IN_USE, f"something else is mapped in {address:#x}+{size:#x}"
    )
