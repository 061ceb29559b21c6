"""Kernel events of one device: its wake-up, memory faults, hardware exceptions.

Waiting sleeps in the kernel; where events cannot be had it is polling. A sleep is
short, so that a lost interrupt costs no more than it and Ctrl-C is seen.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from hcq.amd.kfd import Kfd
from hcq.errors import HcqError, IoctlError
from hcq.ioctl_defs import kfd

SLEEP_MS = 20
BLIND_SLEEP_MS = 1  # without a wake-up: only incidents end it early
EVENT_PAGE_FLAGS = (
    kfd.ALLOC_GTT
    | kfd.ALLOC_COHERENT
    | kfd.ALLOC_UNCACHED
    | kfd.ALLOC_NO_SUBSTITUTE
    | kfd.ALLOC_EXECUTABLE
    | kfd.ALLOC_WRITABLE
)


@dataclass(frozen=True)
class MemoryFault:
    """What the kernel told about a bad access."""

    address: int
    not_present: bool
    read_only: bool
    no_execute: bool
    imprecise: bool
    error_type: int


@dataclass(frozen=True)
class HardwareException:
    """What the kernel told about a reset."""

    reset_type: int
    reset_cause: int
    memory_lost: bool


Incident = MemoryFault | HardwareException


class Events:
    """Made by `open_events`; `slot` and `signal_id` are 0 when waits only poll."""

    def __init__(self, process: Kfd, gpu_id: int) -> None:
        self._process = process
        self._gpu_id = gpu_id
        self.slot = 0
        self.signal_id = 0
        self.memory_id = 0
        self.exception_id = 0
        self.can_sleep = False  # whether the kernel can be waited in
        self._ids: list[int] = []

    def make(self, kind: int, auto_reset: int = 1) -> Any | None:
        """One event; None and a note when the kernel has none left."""
        page = self._process.event_page
        args = self._process.optional(
            kfd.CREATE_EVENT,
            event_type=kind,
            auto_reset=auto_reset,
            event_page_offset=page.handle if page and not self._process.has_event_page else 0,
        )
        if args is not None:
            self._process.has_event_page = True
            self._ids.append(args.event_id)
        return args

    def close(self) -> None:
        """Give the events back, last first."""
        while self._ids:
            self._process.call(kfd.DESTROY_EVENT, event_id=self._ids.pop())

    def sleep(self, seconds: float) -> list[Incident]:
        """Wait for the device's wake-up or an incident, at most `seconds`; the incidents."""
        longest = SLEEP_MS if self.slot else BLIND_SLEEP_MS
        milliseconds = max(0, min(longest, int(seconds * 1000)))
        data = kfd.ffi.new("struct kfd_event_data[]", len(self._ids))
        for record, event in zip(data, self._ids, strict=True):
            record.event_id = event
        answered = self._process.optional(
            kfd.WAIT_EVENTS,
            events_ptr=int(kfd.ffi.cast("uintptr_t", data)),
            num_events=len(self._ids),
            timeout=milliseconds,
        )
        if answered is None:
            self.can_sleep = False
            return []
        return self._incidents(data)

    def _incidents(self, data: Any) -> list[Incident]:
        found: list[Incident] = []
        for record in data:
            if record.event_id == self.memory_id:
                fault = record.memory_exception_data
                if fault.gpu_id == self._gpu_id:
                    failure = fault.failure
                    found.append(
                        MemoryFault(
                            fault.va,
                            bool(failure.NotPresent),
                            bool(failure.ReadOnly),
                            bool(failure.NoExecute),
                            bool(failure.imprecise),
                            fault.ErrorType,
                        )
                    )
            elif record.event_id == self.exception_id:
                reset = record.hw_exception_data
                if reset.gpu_id == self._gpu_id:
                    found.append(
                        HardwareException(
                            reset.reset_type, reset.reset_cause, bool(reset.memory_lost)
                        )
                    )
        return found


def open_events(process: Kfd, gpu_id: int) -> Events:
    """The three events of a device; what cannot be had is left out and noted."""
    events = Events(process, gpu_id)
    with ExitStack() as undo:
        undo.callback(_quietly, events.close)
        if process.event_page is None:
            _make_page(process, gpu_id)
        if process.event_page is not None:
            signal = events.make(kfd.EVENT_SIGNAL)
            if signal is not None and process.event_page is not None:
                events.signal_id = signal.event_id
                at = signal.event_slot_index * kfd.EVENT_SLOT_SIZE
                events.slot = process.event_page.address + at
        memory = events.make(kfd.EVENT_MEMORY)
        events.memory_id = memory.event_id if memory else 0
        exception = events.make(kfd.EVENT_HW_EXCEPTION)
        events.exception_id = exception.event_id if exception else 0
        ids = (events.signal_id, events.memory_id, events.exception_id)
        events.can_sleep = any(ids)
        undo.pop_all()
    return events


def _make_page(process: Kfd, gpu_id: int) -> None:
    try:
        process.event_page = process.allocate(
            gpu_id, kfd.EVENT_PAGE_SIZE, EVENT_PAGE_FLAGS, view=False, shared=True
        )
    except IoctlError as error:
        process.note(error)


def _quietly(action: Callable[[], None]) -> None:
    try:
        action()
    except (HcqError, OSError):
        return
