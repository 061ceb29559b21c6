"""kfd events: the table of one process, the event page, and who waits.

Source: Linux drivers/gpu/drm/amd/amdkfd/kfd_events.c. A slot of the event page is
all ones until the GPU writes it; an interrupt makes the kernel look.
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from errno import EINVAL, ENOSPC
from typing import Any

from hcq.ioctl_defs import kfd
from sim.refusal import Refusal


@dataclass
class Event:
    """One event. `data` is what a waiter of an exception event is told."""

    identity: int
    kind: int
    auto_reset: bool
    signaled: bool = False
    age: int = 1
    data: dict[str, Any] = field(default_factory=dict)
    waiters: "list[Waiter]" = field(default_factory=list)


@dataclass
class Waiter:
    """One event in one WAIT_EVENTS call."""

    event: Event
    activated: bool = False
    failed: bool = False


class SlotPage:
    """The event page, wherever the driver put it: words of 64 bits."""

    def __init__(self, words: "memoryview[int]") -> None:
        self.words = words
        for slot in range(len(words)):
            words[slot] = kfd.UNSIGNALED_EVENT_SLOT


class Events:
    """The events of one process. Every method may be called from any thread."""

    def __init__(self, record: Callable[..., None]) -> None:
        self.changed = threading.Condition()
        self.page: SlotPage | None = None
        self.interrupts = True  # False: every interrupt is lost on its way
        self._record = record
        self._events: dict[int, Event] = {}

    def create(self, kind: int, auto_reset: bool) -> Event:
        """A new event with the lowest free number of its sort."""
        if not kfd.EVENT_SIGNAL <= kind <= kfd.EVENT_MEMORY:
            raise Refusal(EINVAL, f"event type {kind} is not known")
        with self.changed:
            event = Event(self._number(kind), kind, auto_reset)
            self._events[event.identity] = event
            if self.page is not None and event.identity < len(self.page.words):
                # As allocate_event_notification_slot does: the last owner may have left a value.
                self.page.words[event.identity] = kfd.UNSIGNALED_EVENT_SLOT
            return event

    def destroy(self, identity: int) -> None:
        """Waiters of the event end with a failure."""
        with self.changed:
            event = self._find(identity)
            for waiter in event.waiters:
                waiter.failed = True
            del self._events[identity]
            self.changed.notify_all()

    def set(self, identity: int) -> None:
        """SET_EVENT: signal events only."""
        with self.changed:
            self._set(self._signal_event(identity))

    def reset(self, identity: int) -> None:
        """RESET_EVENT: signal events only."""
        with self.changed:
            self._signal_event(identity).signaled = False

    def interrupt(self, context: int) -> None:
        """An interrupt with an event number, or one that says nothing: the slots tell."""
        if not self.interrupts:
            self._record("interrupt-lost", context)
            return
        self._record("interrupt", context)
        with self.changed:
            if self.page is None:
                return
            slots = self.page.words
            if 0 < context < kfd.SIGNAL_EVENT_LIMIT and self._is_written(context):
                found = [context]
            else:
                found = [i for i in self._events if i < len(slots) and self._is_written(i)]
            for identity in found:
                slots[identity] = kfd.UNSIGNALED_EVENT_SLOT
                if identity in self._events:
                    self._set(self._events[identity])

    def exception(self, kind: int, data: dict[str, Any]) -> None:
        """Set every event of an exception's type, with what is to be told."""
        self._record("exception", kind)
        with self.changed:
            for event in [e for e in self._events.values() if e.kind == kind]:
                event.data = data
                self._set(event)

    def begin_wait(self, wanted: Iterable[tuple[int, int]]) -> list[Waiter]:
        """Waiters for (event, last age seen or 0); an event that is set already is consumed."""
        with self.changed:
            pairs = [(self._find(identity), age) for identity, age in wanted]
            return [self._enlist(event, age) for event, age in pairs]

    def end_wait(self, waiters: list[Waiter]) -> None:
        """Nobody waits any longer."""
        with self.changed:
            for waiter in waiters:
                waiter.event.waiters = [w for w in waiter.event.waiters if w is not waiter]

    def is_over(self, waiters: list[Waiter], wait_for_all: bool) -> bool:
        """Whether a wait may return."""
        if any(waiter.failed for waiter in waiters):
            return True
        return (all if wait_for_all else any)(waiter.activated for waiter in waiters)

    def _enlist(self, event: Event, age: int) -> Waiter:
        waiter = Waiter(event, activated=event.signaled)
        if event.auto_reset:
            event.signaled = False
        if age and event.kind == kfd.EVENT_SIGNAL and event.age != age:
            waiter.activated = True
        event.waiters.append(waiter)
        return waiter

    def _set(self, event: Event) -> None:
        # Set while somebody waits, an event that resets itself wakes all and stays unset.
        event.signaled = not event.auto_reset or not event.waiters
        event.age += 1
        for waiter in event.waiters:
            waiter.activated = True
        self.changed.notify_all()

    def _is_written(self, identity: int) -> bool:
        return self.page is not None and self.page.words[identity] != kfd.UNSIGNALED_EVENT_SLOT

    def _find(self, identity: int) -> Event:
        try:
            return self._events[identity]
        except KeyError:
            raise Refusal(EINVAL, f"there is no event {identity:#x}") from None

    def _signal_event(self, identity: int) -> Event:
        event = self._find(identity)
        if event.kind != kfd.EVENT_SIGNAL:
            raise Refusal(EINVAL, f"event {identity:#x} is no signal event")
        return event

    def _number(self, kind: int) -> int:
        if kind in (kfd.EVENT_SIGNAL, kfd.EVENT_DEBUG_EVENT):
            numbers = range(1, kfd.SIGNAL_EVENT_LIMIT)
        else:
            first = kfd.FIRST_NONSIGNAL_EVENT_ID
            numbers = range(first, first + kfd.SIGNAL_EVENT_LIMIT)
        free = next((n for n in numbers if n not in self._events), None)
        if free is None:
            raise Refusal(ENOSPC, "every event number is taken")
        return free
