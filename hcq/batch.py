"""Batches: queues laid down in device memory once, replayed with new slot values.

The patch table says which bits of which word follow which formula of which slot;
between two replays only words it lists differ. Submission goes through the
device's timeline, one submit per queue, in the order the queues were made.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from hcq.arguments import check_values
from hcq.bits import align
from hcq.builder import Builder
from hcq.errors import LaunchError, QueueError, Unsupported, nearest
from hcq.memory import Buffer
from hcq.program import check_program
from hcq.queue import Formula, Half, Number, Patch, Slot, formula

if TYPE_CHECKING:
    from hcq.host import Region

ARGUMENT_BYTES = 64 << 10
WORD_BYTES = 4


class BatchDevice(Protocol):
    """What a batch needs of a device."""

    name: str

    def allocate(self, size: int, *, host: bool = ..., uncached: bool = ...) -> Buffer: ...
    def free(self, buffer: Buffer) -> None: ...
    def queue(self, kind: str, name: str) -> Any: ...
    def bind(self, queue: Any) -> Any: ...
    def unbind(self, queue: Any) -> None: ...
    def submit(self, queue: Any) -> int: ...
    def wait(self, value: int, timeout: float | None = None) -> None: ...


class Batch:
    """Build with queue() and arguments(), then submit() any number of times.

    The first submit seals it: nothing can be added after.
    """

    def __init__(self, device: BatchDevice) -> None:
        if not hasattr(device, "bind"):
            raise QueueError(
                f"a batch is made for a device, not for {type(device).__name__}",
                facts={"given": repr(device)},
                hint="give an open device: Batch(device)",
            )
        self.device = device
        self.slots: dict[str, Slot] = {}
        self.patches: tuple[Patch, ...] = ()
        self.is_sealed = False
        self.is_freed = False
        self.words_written = 0  # by all replays together
        self._queues: list[Builder] = []
        self._blocks: list[Buffer] = []
        self._used = ARGUMENT_BYTES  # of the last argument buffer
        self._argument_patches: list[Patch] = []
        self._regions: dict[str, Region] = {}
        self._by_formula: dict[Formula, list[Patch]] = {}
        self._values: dict[Formula, int] = {}
        self._last = 0

    def queue(self, kind: str) -> Any:
        """A new queue of this batch; its name is its kind and number."""
        self._check_open()
        queue = self.device.queue(kind, f"{kind}{len(self._queues)}")
        self._queues.append(queue)
        return queue

    def arguments(self, program: Any, values: Sequence[Number | float]) -> int:
        """The address of an argument block kept with the batch; values may be slots."""
        self._check_open()
        check_program(program, "arguments")
        check_values(values, program.name)
        if program.reads_launch_size:
            raise Unsupported(
                f"kernel {program.name} reads its launch size from memory: not in a batch",
                device=self.device.name,
                facts={"kernel": program.name, "operation": "batch"},
                hint='compile it with "uniform-work-group-size", so that it does not',
            )
        layout = program.arguments
        size = align(max(layout.size, 16), getattr(program, "alignment", 64))
        if self._used + size > ARGUMENT_BYTES:
            length = max(size, ARGUMENT_BYTES)
            self._blocks.append(self.device.allocate(length, host=True, uncached=True))
            self._used = 0
        offset, self._used = self._used, self._used + size
        plain = [0 if isinstance(v, Slot | Formula) else v for v in values]
        block = self._blocks[-1]
        block.view()[offset : offset + layout.size] = layout.pack(plain, program.name)
        for argument, value in zip(layout.arguments, values, strict=True):
            if isinstance(value, Slot | Formula):
                self._patch_argument(offset + argument.offset, argument.size, formula(value))
        return block.address + offset

    def _patch_argument(self, offset: int, size: int, value: Formula) -> None:
        name = f"arguments{len(self._blocks) - 1}"
        word, rest = divmod(offset, WORD_BYTES)
        if size == 8:
            self._argument_patches += [
                Patch(name, word, value, Half.LOW),
                Patch(name, word + 1, value, Half.HIGH),
            ]
            return
        mask = ((1 << 8 * size) - 1) << 8 * rest
        self._argument_patches.append(
            Patch(name, word, value, Half.LOW, bits=8 * size, shift=8 * rest, mask=mask)
        )

    def _check_open(self) -> None:
        self._check_kept()
        if self.is_sealed:
            raise QueueError(f"{self.device.name}: the batch is sealed; nothing can be added")

    def _check_kept(self) -> None:
        if self.is_freed:
            raise QueueError(
                f"{self.device.name}: the batch was freed", hint="build it anew: Batch(device)"
            )

    def seal(self) -> None:
        """Move the words to device memory and make the patch table; submit() does it."""
        self._check_kept()
        if self.is_sealed:
            return
        for index, block in enumerate(self._blocks):
            self._regions[f"arguments{index}"] = _region(block)
        needed = self._needed_words()
        for queue in self._queues:
            self.device.bind(queue)
            self._regions[queue.name] = _region(queue.bound)
            queue.is_patched = True
        self._fill(needed)
        found = [patch for queue in self._queues for patch in queue.patches]
        self.patches = (*found, *self._argument_patches)
        for patch in self.patches:
            self.slots[patch.formula.slot.name] = patch.formula.slot
            self._by_formula.setdefault(patch.formula, []).append(patch)
        self.is_sealed = True  # not before: what failed may be tried again

    def _needed_words(self) -> dict[int, list[tuple[int, Number]]]:
        """What launches need in argument blocks of the batch, by block.

        LaunchError where two need different words, or a slot's value in a block of another's.
        """
        needed: dict[int, list[tuple[int, Number]]] = {}
        for queue in self._queues:
            for block, words in queue.argument_words.items():
                if self._number(block) is not None:
                    if needed.setdefault(block, words) != words:
                        raise self._unfit(
                            queue, block, "the argument block was laid down for another launch size"
                        )
                elif not all(isinstance(value, int) for _, value in words):
                    raise self._unfit(
                        queue, block, "a grid of slots wants an argument block of the batch"
                    )
        return needed

    def _unfit(self, queue: Builder, block: int, what: str) -> LaunchError:
        return LaunchError(
            f"queue {queue.name}: {what}",
            device=self.device.name,
            facts={"queue": queue.name, "address": hex(block)},
            hint="lay down arguments for each launch: batch.arguments()",
        )

    def _number(self, address: int) -> int | None:
        """Which of the batch's argument buffers lies over an address."""
        for index, block in enumerate(self._blocks):
            if 0 <= address - block.address < block.size:
                return index
        return None

    def _fill(self, needed: Mapping[int, list[tuple[int, Number]]]) -> None:
        """Lay down words of argument blocks; values may be slots."""
        for block, words in needed.items():
            index = self._number(block) or 0
            buffer = self._blocks[index]
            for address, value in words:
                offset = address - buffer.address
                if isinstance(value, int):
                    _region(buffer).write32(offset, value)
                    continue
                name, word = f"arguments{index}", offset // WORD_BYTES
                patch = Patch(name, word, formula(value), Half.LOW, bits=32)
                self._argument_patches.append(patch)
        for queue in self._queues:  # what is not the batch's own, the device lays down
            for block in needed:
                queue.argument_words.pop(block, None)

    def submit(self, slots: Mapping[str | Slot, int] | None = None) -> int:
        """Run once more with these slot values, by slot or name; the timeline value that ends it.

        QueueError for a missing or unknown slot, FieldError for a value out of range,
        both before any word is written.
        """
        self.seal()
        self._patch(_by_name(slots))
        for queue in self._queues:
            self._last = self.device.submit(queue)
        return self._last

    def _patch(self, slots: Mapping[str, int]) -> None:
        self._check_slots(slots)
        for queue in self._queues:
            queue.check_slots(slots)
        changed: dict[Formula, int] = {}
        for value in self._by_formula:
            now = value.of(slots[value.slot.name])
            if self._values.get(value) != now:
                changed[value] = now
        todo = [(patch, now) for value, now in changed.items() for patch in self._by_formula[value]]
        written = [(patch, patch.apply(self._read(patch), now)) for patch, now in todo]
        if not written:
            return
        # A run in flight may still read the words.
        self.device.wait(self._last)
        for patch, now in todo:
            word = patch.apply(self._read(patch), now)
            self._regions[patch.queue].write32(patch.word * WORD_BYTES, word)
        self.words_written += len(todo)
        self._values |= changed

    def _read(self, patch: Patch) -> int:
        return self._regions[patch.queue].read32(patch.word * WORD_BYTES)

    def _check_slots(self, slots: Mapping[str, int]) -> None:
        for name in slots:
            if name not in self.slots:
                raise QueueError(
                    f"the batch has no slot {name!r}{nearest(name, self.slots)}",
                    facts={"slot": name, "known": ", ".join(self.slots) or "none"},
                )
        for name, slot in self.slots.items():
            if name not in slots:
                raise QueueError(
                    f"slot {name!r} was given no value",
                    facts={"slot": name, "kind": slot.kind.value},
                )
            slot.check(slots[name])

    def free(self) -> None:
        """Give its memory back once its last run is over; idempotent."""
        self.is_freed = True
        for queue in self._queues:
            self.device.unbind(queue)
        for block in self._blocks:
            self.device.free(block)
        self._blocks, self._queues = [], []


def _by_name(slots: Mapping[str | Slot, int] | None) -> dict[str, int]:
    if not isinstance(slots, Mapping | None):
        raise QueueError(
            f"submit takes the values of slots by slot or name, not {type(slots).__name__}",
            facts={"given": repr(slots)},
            hint='such as batch.submit({"out": buffer.address})',
        )
    return {s.name if isinstance(s, Slot) else str(s): v for s, v in (slots or {}).items()}


def _region(buffer: Buffer) -> "Region":
    if buffer.region is None:
        raise QueueError("a batch's words need a host view")
    return buffer.region
