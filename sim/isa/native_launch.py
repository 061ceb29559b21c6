"""One launch while native code runs it: slices, helper threads, stops, code that is missing.

Work-groups are handed out one by one to the calling thread and, once a launch turns out to
be long, to helper threads. Native code returns now and then, so a kernel that never ends
can be stopped.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from hcq.errors import SimFault
from sim.isa import state
from sim.isa.executor import BaseExecutor, ExecutionFault, aborted
from sim.isa.launch import SharedRecord, ThreadMemory
from sim.memory import PageFault

FIRST_SLICE = 8  # work-groups before the clock is looked at
SLICE_SECONDS = 0.005  # how long native code may run before Python looks at `stop`
LONGEST_SLICE = 1 << 16  # work-groups
POLL_SECONDS = 0.0002  # between looks at `stop` while helpers finish
HELPER_SECONDS = 0.0003  # work left that is worth waking a helper thread

ACCESS = {state.READ: "read", state.WRITE: "write", state.EXECUTE: "execute"}

KernelT = TypeVar("KernelT")
ThreadT = TypeVar("ThreadT", bound=ThreadMemory)


class NativeLaunch(ABC, Generic[KernelT, ThreadT]):
    """Runs one launch, whose record is filled, with the library's `run` as `call`."""

    fault: ClassVar[type[ExecutionFault]]

    def __init__(
        self, executor: BaseExecutor[Any], code: int, launch: SharedRecord,
        call: Callable[[int], int], stop: Callable[[], bool],
    ) -> None:  # fmt: skip
        self._executor = executor
        self._code = code
        self._launch = launch
        self._call = call
        self._stop = stop
        self._faulted: list[ThreadT] = []
        self._errors: list[ExecutionFault] = []
        self._retranslate = threading.Lock()

    # --- what differs

    @abstractmethod
    def prepare(self, record: ThreadT) -> None:
        """Fill a thread's record."""

    @abstractmethod
    def translate_more(self, target: int) -> None:
        """Make the code that a wave asked for by its JUMP word; PageFault, ExecutionFault."""

    @abstractmethod
    def fault_of(self, record: ThreadT) -> ExecutionFault:
        """What a thread's record says about the fault its wave met."""

    # --- common

    def find_kernel(self, find: Callable[[], KernelT]) -> KernelT:
        """What find() decodes; its errors as faults of the launch."""
        try:
            return find()
        except PageFault as fault:
            raise self.fault(
                "memory", fault.address, "execute", fault.address, str(fault)
            ) from None
        except SimFault as fault:
            raise self.fault("illegal", self._code, "execute", self._code, str(fault)) from None

    def run_with(self, records: list[ThreadT]) -> None:
        """Run to the end on as many threads as there are records; ExecutionFault."""
        helpers: list[Future[None]] = []
        used = [records[0]]
        self.prepare(records[0])
        try:
            self._caller(records, used, helpers)
        finally:
            if not self._is_done:
                self._launch.set(state.STOP, 1)
            for helper in helpers:
                helper.result()
            for record in used:
                self._executor.count(record.get(state.WAVE_COUNT), record.get(state.INSTRUCTIONS))
        if self._errors:
            raise self._errors[0]
        if self._faulted:
            raise self.fault_of(self._faulted[0])

    @property
    def _is_done(self) -> bool:
        done = self._launch.get(state.NEXT_GROUP) >= self._launch.total
        return done and not self._faulted and not self._errors

    def _caller(
        self, records: list[ThreadT], used: list[ThreadT], helpers: list[Future[None]]
    ) -> None:
        """The calling thread's part: it also asks `stop` and wakes helpers."""
        started = now = time.perf_counter()
        groups = FIRST_SLICE
        while self._step(records[0], groups):
            if self._stop():
                self._abort()
                return
            before, now = now, time.perf_counter()
            if now - before < SLICE_SECONDS:
                groups = min(2 * groups, LONGEST_SLICE)
            taken = max(1, min(self._launch.get(state.NEXT_GROUP), self._launch.total))
            left = (self._launch.total - taken) * (now - started) / taken
            while left > HELPER_SECONDS and len(used) < len(records):
                record = records[len(used)]
                self.prepare(record)
                used.append(record)
                helpers.append(self._executor.helper(partial(self._helper, record)))
        while not all(helper.done() for helper in helpers):
            if self._stop():
                self._abort()
                return
            time.sleep(POLL_SECONDS)

    def _helper(self, record: ThreadT) -> None:
        while self._step(record, 1 << 30):
            pass

    def _step(self, record: ThreadT, groups: int) -> bool:
        """Run native code for a slice; whether there is more to do."""
        record.set(state.SLICE, groups)
        result = self._call(record.address)
        if result == state.SLICED:
            return True
        if result == state.WANTS_CODE:
            return self._add_code(record)
        if result == state.FAULTED:
            self._faulted.append(record)
            self._launch.set(state.STOP, 1)
        return False

    def _abort(self) -> None:
        self._end(aborted(self.fault, self._code))

    def _end(self, error: ExecutionFault) -> None:
        self._errors.append(error)
        self._launch.set(state.STOP, 1)

    def _add_code(self, record: ThreadT) -> bool:
        """A wave came to code that is not translated yet."""
        target = record.wave_word(state.JUMP)
        with self._retranslate:
            try:
                self.translate_more(target)
            except PageFault as fault:
                self._end(self.fault("memory", fault.address, "execute", target, str(fault)))
                return False
            except ExecutionFault as fault:
                self._end(fault)
                return False
        return True
