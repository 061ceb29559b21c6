"""A simulated channel: fetches ring entries, then pushbuffer words, and hands out methods.

What a method means is the business of host.py, compute.py and copy.py. A method that has
to wait is False and is tried again; what hardware would refuse is a SimFault or a
PageFault, and the channel stops there.
"""

from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cffi import FFI

from hcq.errors import SimFault
from hcq.nv.defs import host as defs
from sim.memory import GpuMemory, PageFault
from sim.nv import faults, host, pushbuffer
from sim.nv.engines import Engine
from sim.nv.memory import VIDEO, Memory, Placement
from sim.nv.pushbuffer import Method

if TYPE_CHECKING:
    from sim.nv.gpu import Gpu, VaSpace

_ffi = FFI()
GRAPHICS_RUNLIST = 0


@dataclass(eq=False)
class Group:
    """Channels that live and die together."""

    space: "VaSpace"
    channels: list["Channel"] = field(default_factory=list)
    mmu_faults: list[faults.MmuFault] = field(default_factory=list)
    sm_error: faults.SmError | None = None


@dataclass(frozen=True)
class Setup:
    """What a channel was made with. Addresses are GPU addresses; `userd` is ours."""

    group: Group
    space: "VaSpace"
    ring: int
    entries: int
    userd: int
    memories: tuple[Memory, ...]  # that it keeps alive
    notifier: Memory | None = None
    # Hopper with USERD in system memory: what lies at a GPU address.
    placed: Callable[[int], Placement | None] | None = None


class Channel:
    """One channel of one GPU."""

    def __init__(self, gpu: "Gpu", setup: Setup) -> None:
        self.gpu = gpu
        self.setup = setup
        self.handle = 0, 0  # client and object
        self.identity = gpu.free_channel_id()
        self.name = f"channel{self.identity}"
        self.token = defs.TOKEN.pack(
            channel_id=self.identity, runlist_id=GRAPHICS_RUNLIST,
            runlist_doorbell=int(5 in gpu.chip.qmd_versions),
        )  # fmt: skip
        self.engines: dict[int, Engine] = {}  # by subchannel
        self.classes: dict[int, int] = {}  # of engine objects, with how many there are
        self.grids: deque[int] = deque()  # launch records that wait for their turn
        self.latches: dict[int, int] = {}  # host methods that only keep a value
        self.is_enabled = False
        self.is_registered = False  # with unified memory
        self.is_hung = False
        self.stopping = False
        self.halted = False
        self.fault = ""
        self.get = 0
        self.put = 0
        self.extended_base = 0
        self._unit = "host"
        self._words: array[int] | None = None
        self._segment = 0  # address of the words
        self._position = 0
        self._header = 0  # where the method at hand begins
        self._method: Method | None = None
        self._put_cell = _ffi.cast("uint32_t *", setup.userd + defs.USERD_GP_PUT)
        self._get_cell = _ffi.cast("uint32_t *", setup.userd + defs.USERD_GP_GET)
        self._put_cell[0] = self._get_cell[0] = 0

    @property
    def memory(self) -> GpuMemory:
        """The page table."""
        return self.setup.space.memory

    @property
    def is_runnable(self) -> bool:
        """Whether run() may get somewhere."""
        if self.halted or self.stopping or self.is_hung or not self.is_enabled:
            return False
        return self._words is not None or bool(self.grids) or self.get != self.put

    @property
    def is_idle(self) -> bool:
        """Whether everything that was rung for is done."""
        return self._words is None and not self.grids and self.get == self.put

    def look(self) -> None:
        """The doorbell rang: see how far the ring is filled."""
        if self.halted:
            return
        put = int(self._put_cell[0])
        if put >= self.setup.entries:
            text = f"{self.name}: GPPut {put:#x} in a ring of {self.setup.entries:#x} entries"
            faults.method(self, "host", text)
            return
        self.put = put

    def run(self, limit: int) -> int:
        """Carry out up to `limit` methods, fewer when one has to wait; how many it were."""
        done = 0
        if not self.is_runnable:
            return 0
        try:
            while done < limit and self.is_runnable:
                self._unit = "host"
                if not self._step():
                    break
                done += 1
        except PageFault as fault:
            faults.page(self, fault, self._where())
        except SimFault as fault:
            faults.method(self, self._unit, f"{self._where()}: {fault}")
        except Exception as error:
            # A bug of the simulator's own must not leave the program waiting for ever.
            faults.broken(self, f"{self._where()}: the simulator failed: {error!r}")
        return done + self.halted  # a method that faults is one that was dealt with

    def bind(self, subchannel: int, number: int) -> None:
        """SET_OBJECT: from now on a subchannel's methods are this class's."""
        if number not in self.classes:
            raise SimFault(f"SET_OBJECT of class {number:#06x}, of which the channel has no object")
        engine = self.engines.get(subchannel)
        if engine is None or engine.number != number:
            self.engines[subchannel] = host.engine(self, number, subchannel)

    def write32(self, address: int, value: int) -> None:
        """Store a word and let the waiting program look."""
        self.memory.write32(address, value)
        self.gpu.notify()

    def release(self, address: int, payload: int, *, wide: bool, timestamp: bool) -> None:
        """Write a semaphore: the time first, then what the program waits for."""
        if timestamp:
            self.memory.write64(address + 8, self.gpu.nanoseconds())
        if wide or timestamp:
            self.memory.write64(address, payload)
        else:
            self.memory.write32(address, payload)
        self.gpu.notify()

    def _step(self) -> bool:
        if self.grids:
            self._unit = "compute"
            return self._run_grid()
        if self._words is None:
            self._fetch()
            return True
        return self._next_method()

    def _run_grid(self) -> bool:
        from sim.nv import grid

        if not grid.run(self, self.grids[0]):
            return False
        self.grids.popleft()
        return True

    def _fetch(self) -> None:
        """Take the next entry of the ring, and the words it points at."""
        word = self.memory.read64(self.setup.ring + self.get * defs.GP_ENTRY_BYTES)
        found = pushbuffer.entry(word, wide=self.gpu.chip.is_hopper_or_later)
        if found.opcode is not None:
            if found.opcode == defs.GP_OPCODE_SET_PB_SEGMENT_EXTENDED_BASE:
                self.extended_base = found.operand
            self._advance()
            return
        address = self.extended_base | found.address
        found_at = self.setup.placed(address) if self.setup.placed else None
        if found_at and found_at.memory.kind == VIDEO:
            raise SimFault("USERD in system memory with a pushbuffer in video memory (bug 3313719)")
        if self.gpu.traces:
            self.gpu.board.record("segment", self.gpu.name, self.name, found.length)
        self._words = array("I", self.memory.read(address, 4 * found.length))
        self._segment, self._position, self._header = address, 0, 0

    def _advance(self) -> None:
        self.get = (self.get + 1) % self.setup.entries
        self._get_cell[0] = self.get

    def _next_method(self) -> bool:
        words = self._words
        if words is None:
            return False
        if self._method is None:
            if self._position == len(words):
                self._words = None
                self._advance()
                return True
            self._header = self._position
            word = words[self._position]
            self._method = pushbuffer.header(word, len(words) - self._position - 1)
            self._position += 1
            if self._method.ends:
                self._position = len(words)
        method = self._method
        if method.left and not self._carry_out(method, words):
            return False
        if not method.left:
            self._method = None
        return True

    def _carry_out(self, method: Method, words: "array[int]") -> bool:
        """The next data word of a method; False: it waits."""
        offset = method.offset
        engine = self.engines.get(method.subchannel)
        if method.immediate is not None:
            taken, data = 0, array("I", [method.immediate])
        else:
            taken = method.left if engine and method.is_fixed and engine.is_bulk(offset) else 1
            data = words[self._position : self._position + taken]
        if not self._write(method, engine, data):
            return False
        self.gpu.board.count("methods", max(taken, 1))
        self._position += taken
        method.advance(max(taken, 1))
        return True

    def _write(self, method: Method, engine: Engine | None, data: "array[int]") -> bool:
        offset = method.offset
        if self.gpu.traces:
            self.gpu.board.record("method", self.gpu.name, self.name, offset)
        if offset < defs.HOST_METHODS_END:
            return host.write(self, method.subchannel, offset, data[0])
        if engine is None:
            raise SimFault(
                f"method {offset:#06x} on subchannel {method.subchannel}, which has no class"
            )
        if not self.is_registered:
            raise SimFault(f"{self.name} uses an engine, but is not registered with unified memory")
        self._unit = engine.unit
        return engine.write(offset, data)

    def _where(self) -> str:
        """Where the method at hand lies, and how it begins."""
        if self.grids:
            return f"{self.name}, launch record at {self.grids[0]:#x}"
        if self._words is None:
            return f"{self.name} at ring entry {self.get}"
        at = self._header
        shown = " ".join(f"{word:08x}" for word in self._words[at : at + 4])
        return f"{self.name} at pushbuffer {self._segment + 4 * at:#x} (words {shown})"
