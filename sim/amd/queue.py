"""A hardware queue: fetches words from its ring when the doorbell moves, packet by packet.

What a packet means is the business of pm4.py and sdma.py. A packet that has to
wait is False and is tried again; what hardware would refuse is a SimFault or a
PageFault, and the queue stops there with its read pointer on the packet.
"""

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from cffi import FFI

from hcq.errors import SimFault
from sim.amd.doorbell import NEVER
from sim.memory import PageFault

if TYPE_CHECKING:
    from sim.amd.gpu import Gpu

_ffi = FFI()
MAX_INDIRECT_DEPTH = 2


@dataclass
class Frame:
    """Words being carried out: a piece of the ring, or an indirect buffer."""

    words: "array[int]"
    address: int  # of the first word, GPU
    is_ring: bool = False
    position: int = 0


@dataclass(frozen=True)
class Setup:
    """What CREATE_QUEUE was given."""

    identity: int
    kind: str
    ring: int
    ring_size: int
    read_pointer: int
    write_pointer: int
    cell: int
    buffers: tuple[Any, ...] = ()


class Queue:
    """One queue of one GPU. Positions count `unit` bytes and are never wrapped."""

    unit: ClassVar[int] = 4

    def __init__(self, gpu: "Gpu", setup: Setup) -> None:
        self.gpu = gpu
        self.setup = setup
        self.name = f"{setup.kind}{setup.identity}"  # as in messages: compute0
        self.frames: list[Frame] = []
        self.stopping = False
        self.halted = False
        self.percentage = 100
        self.fault = ""
        # Guess: a queue that is empty when created goes on where its pointers stand, as a
        # restored queue does. A fresh one has zeros there.
        first = gpu.memory.read64(setup.read_pointer)
        self.read_index = first if first == gpu.memory.read64(setup.write_pointer) else 0
        self._partial: int | None = None
        self._ring_start = self.read_index
        self._at: tuple[Frame, int] | None = None
        # Plain stores: the kernel does not let the pages go while the queue lives.
        self._read_cell = _ffi.cast("uint64_t *", setup.read_pointer)
        self._write_cell = _ffi.cast("uint64_t *", setup.write_pointer)
        self._read_cell[0] = self.read_index

    @property
    def doorbell(self) -> int:
        """What was rung last, or NEVER."""
        return self.gpu.doorbells.value(self.setup.cell)

    @property
    def is_runnable(self) -> bool:
        """Whether step() may get somewhere."""
        if self.halted or self.stopping or not self.percentage:
            return False
        return bool(self.frames) or self.doorbell not in (NEVER, self.read_index, self._partial)

    @property
    def is_idle(self) -> bool:
        """Whether everything that was rung for is done."""
        return not self.frames and self.doorbell in (NEVER, self.read_index)

    def run(self, limit: int) -> int:
        """Carry out up to `limit` packets, fewer when one has to wait; how many it were."""
        done = 0
        if not self.is_runnable:
            return 0
        try:
            while done < limit and self.is_runnable:
                if not self.frames:
                    self._fetch()
                frame = self.frames[-1]
                self._at = frame, frame.position
                if not self._carry_out(frame):
                    break
                done += 1
        except PageFault as fault:
            self.halted = True
            text = f"{self._where()}: {fault}"
            self.gpu.memory_fault(self, fault.address, fault.access, text)
        except SimFault as fault:
            self.halted = True
            self.gpu.queue_error(self, f"{self._where()}: {fault}")
        except Exception as error:
            # A bug of the simulator's own must not leave the program waiting for ever.
            self.halted = True
            text = f"{self._where()}: the simulator failed: {error!r}"
            self.gpu.queue_error(self, text, "simulator")
        return done + self.halted  # a packet that faults is one that was dealt with

    def length(self, frame: Frame) -> int:
        """Words of the packet at the frame's position."""
        raise NotImplementedError

    def packet(self, words: "array[int]") -> bool:
        """Carry out a whole packet; False: it waits."""
        raise NotImplementedError

    def check_ring_packet(self, frame: Frame, length: int) -> None:
        """Refuse a packet at a place of the ring where it may not be."""

    def call(self, address: int, count: int, *, chain: bool = False) -> None:
        """Go on with `count` words at `address`, and come back unless chained."""
        depth = sum(not frame.is_ring for frame in self.frames)
        if depth >= MAX_INDIRECT_DEPTH and not chain:
            raise SimFault(f"indirect buffers are nested more than {MAX_INDIRECT_DEPTH} deep")
        self.gpu.memory.check(address, 4 * count, "read")
        frame = Frame(array("I", self.gpu.memory.read(address, 4 * count)), address)
        if chain:
            self.frames[-1] = frame
        else:
            self.frames.append(frame)

    def _carry_out(self, frame: Frame) -> bool:
        length = self.length(frame)
        end = frame.position + length
        if end > len(frame.words):
            return self._cut_off(frame, length)
        if frame.is_ring:
            self.check_ring_packet(frame, length)
        words = frame.words[frame.position : end]
        # The position moves first: an indirect buffer puts its own frame on top.
        frame.position = end
        if not self.packet(words):
            frame.position = end - length
            return False
        self.gpu.count("packets")
        self._leave_finished()
        return True

    def _cut_off(self, frame: Frame, length: int) -> bool:
        left = len(frame.words) - frame.position
        if not frame.is_ring:
            raise SimFault(f"a packet of {length} words, but the indirect buffer ends after {left}")
        # The rest was not rung for yet. Fetch again when the doorbell moves.
        self._partial = self.doorbell
        self.frames.clear()
        return False

    def _leave_finished(self) -> None:
        while len(self.frames) > 1 and self.frames[-1].position == len(self.frames[-1].words):
            self.frames.pop()
        if len(self.frames) > 1:
            return
        ring = self.frames[0]
        self.read_index = self._ring_start + ring.position * 4 // self.unit
        self._read_cell[0] = self.read_index
        if ring.position == len(ring.words):
            self.frames.clear()

    def _fetch(self) -> None:
        """Take the words between the read index and what was rung."""
        rung = self.doorbell
        size = self.setup.ring_size
        self._at = None
        published = int(self._write_cell[0])
        self.gpu.record("doorbell", self.gpu.index, self.name, rung)
        if published < rung:
            raise SimFault(
                f"the doorbell says {rung:#x}, but the write pointer in memory only {published:#x}"
            )
        count = (rung - self.read_index) * self.unit
        if count < 0:
            raise SimFault(f"the doorbell went back to {rung:#x} from {self.read_index:#x}")
        if count > size:
            raise SimFault(f"{count:#x} bytes were rung for in a ring of {size:#x}")
        if count % 4:
            raise SimFault(f"the doorbell says {rung:#x}, which is no whole word")
        start = self.read_index * self.unit % size
        first = min(count, size - start)
        data = self.gpu.memory.read(self.setup.ring + start, first)
        data += self.gpu.memory.read(self.setup.ring, count - first)
        self._partial = None
        self._ring_start = self.read_index
        self.frames.append(Frame(array("I", data), self.setup.ring + start, is_ring=True))

    def _where(self) -> str:
        """Where the packet at hand lies, and how it begins."""
        if self._at is None:
            return f"{self.name} at its doorbell"
        frame, position = self._at
        offset = 4 * position
        if frame.is_ring:
            offset = (self._ring_start * self.unit + offset) % self.setup.ring_size
            place = f"ring+{offset:#x}"
        else:
            place = f"indirect buffer {frame.address:#x}+{offset:#x}"
        shown = " ".join(f"{word:08x}" for word in frame.words[position:][:4])
        return f"{self.name} at {place} (words {shown})"


COMPARISONS: tuple[Any, ...] = (
    lambda a, b: True,
    lambda a, b: a < b,
    lambda a, b: a <= b,
    lambda a, b: a == b,
    lambda a, b: a != b,
    lambda a, b: a >= b,
    lambda a, b: a > b,
)


def compare(function: int, value: int, reference: int) -> bool:
    """The comparison of waits and polls, 32 bits unsigned; SimFault for an unknown function."""
    if function >= len(COMPARISONS):
        raise SimFault(f"comparison function {function} is not known")
    return bool(COMPARISONS[function](value, reference))
