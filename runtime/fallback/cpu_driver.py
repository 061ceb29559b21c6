"""The native part of the CPU device: one call runs a list of launches on all cores.

A record is one launch: entry, argument arrays, number of groups. Every thread
that takes part walks the records in order, takes chunks of groups from a shared
counter, and goes on to the next record when all groups of this one are done. So
launches take effect in order, and it does not matter how many threads help.

Helpers are ordinary threads that live in `hcq_cpu_help`: they spin a little, then
sleep on a futex until the generation changes. `active` counts helpers that may be
looking at records; `hcq_cpu_run` returns only when there are none.
"""

import ctypes
import os
import threading
from typing import Any

from hcq.errors import DeviceOpenError

RECORD_WORDS = 8  # entry, buffers, scalars, end, chunk, next, done, unused; 64-bit each
FUTEX_WAIT_PRIVATE = 128  # Source: Linux include/uapi/linux/futex.h
FUTEX_WAKE_PRIVATE = 129
SYS_FUTEX = 202  # Source: Linux arch/x86/entry/syscalls/syscall_64.tbl
JOIN_SECONDS = 1.0

IR = f"""
%record = type {{ ptr, ptr, ptr, i64, i64, i64, i64, i64 }}
; records, count, generation, active, stop, sleeping
%state = type {{ ptr, i64, i32, i32, i32, i32 }}

declare i64 @syscall(i64, ...)
declare i32 @sched_yield()
declare void @llvm.x86.sse2.pause()

; One round of waiting: pause, and now and then give the core away.
define internal void @relax(i64 %round) {{
  call void @llvm.x86.sse2.pause()
  %low = and i64 %round, 255
  %often = icmp eq i64 %low, 255
  br i1 %often, label %give, label %end
give:
  %ignored = call i32 @sched_yield()
  br label %end
end:
  ret void
}}

; Take part in all records. A thread that comes late finds nothing left and leaves.
define internal void @take_part(ptr %records, i64 %count) {{
start:
  br label %each
each:
  %i = phi i64 [ 0, %start ], [ %i.next, %over ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %open, label %end
open:
  %entry.p = getelementptr %record, ptr %records, i64 %i, i32 0
  %buffers.p = getelementptr %record, ptr %records, i64 %i, i32 1
  %scalars.p = getelementptr %record, ptr %records, i64 %i, i32 2
  %end.p = getelementptr %record, ptr %records, i64 %i, i32 3
  %chunk.p = getelementptr %record, ptr %records, i64 %i, i32 4
  %next.p = getelementptr %record, ptr %records, i64 %i, i32 5
  %done.p = getelementptr %record, ptr %records, i64 %i, i32 6
  %entry = load ptr, ptr %entry.p
  %buffers = load ptr, ptr %buffers.p
  %scalars = load ptr, ptr %scalars.p
  %last = load i64, ptr %end.p
  %chunk = load i64, ptr %chunk.p
  br label %grab
grab:
  %first = atomicrmw add ptr %next.p, i64 %chunk seq_cst
  %some = icmp ult i64 %first, %last
  br i1 %some, label %work, label %wait
work:
  %reach = add i64 %first, %chunk
  %short = icmp ult i64 %reach, %last
  %stop = select i1 %short, i64 %reach, i64 %last
  call void %entry(ptr %buffers, ptr %scalars, i64 %first, i64 %stop)
  %amount = sub i64 %stop, %first
  %before = atomicrmw add ptr %done.p, i64 %amount seq_cst
  br label %grab
wait:
  %round = phi i64 [ 0, %grab ], [ %round.next, %again ]
  %done = load atomic i64, ptr %done.p seq_cst, align 8
  %finished = icmp uge i64 %done, %last
  br i1 %finished, label %over, label %again
again:
  call void @relax(i64 %round)
  %round.next = add i64 %round, 1
  br label %wait
over:
  %i.next = add i64 %i, 1
  br label %each
end:
  ret void
}}

; A helper's life: returns when stop is set.
define void @hcq_cpu_help(ptr %state) {{
start:
  %records.p = getelementptr %state, ptr %state, i64 0, i32 0
  %count.p = getelementptr %state, ptr %state, i64 0, i32 1
  %generation.p = getelementptr %state, ptr %state, i64 0, i32 2
  %active.p = getelementptr %state, ptr %state, i64 0, i32 3
  %stop.p = getelementptr %state, ptr %state, i64 0, i32 4
  %sleeping.p = getelementptr %state, ptr %state, i64 0, i32 5
  br label %fresh
fresh:
  %seen = phi i32 [ 0, %start ], [ %now, %leave ]
  br label %spin
spin:
  %round = phi i64 [ 0, %fresh ], [ %round.next, %pause ], [ 0, %sleep ]
  %now = load atomic i32, ptr %generation.p seq_cst, align 4
  %news = icmp ne i32 %now, %seen
  br i1 %news, label %enter, label %idle
idle:
  %patient = icmp ult i64 %round, 1000
  br i1 %patient, label %pause, label %sleep
pause:
  call void @relax(i64 %round)
  %round.next = add i64 %round, 1
  br label %spin
sleep:
  ; The kernel compares the generation again, so a wake between load and sleep is not lost.
  %a = atomicrmw add ptr %sleeping.p, i32 1 seq_cst
  %expected = zext i32 %seen to i64
  %b = call i64 (i64, ...) @syscall(i64 {SYS_FUTEX}, ptr %generation.p,
      i64 {FUTEX_WAIT_PRIVATE}, i64 %expected, i64 0, i64 0, i64 0)
  %c = atomicrmw sub ptr %sleeping.p, i32 1 seq_cst
  br label %spin
enter:
  %stopped = load atomic i32, ptr %stop.p seq_cst, align 4
  %is.stopped = icmp ne i32 %stopped, 0
  br i1 %is.stopped, label %end, label %join
join:
  %d = atomicrmw add ptr %active.p, i32 1 seq_cst
  %records = load atomic ptr, ptr %records.p seq_cst, align 8
  %none = icmp eq ptr %records, null
  br i1 %none, label %leave, label %help
help:
  %count = load i64, ptr %count.p
  call void @take_part(ptr %records, i64 %count)
  br label %leave
leave:
  %e = atomicrmw sub ptr %active.p, i32 1 seq_cst
  br label %fresh
end:
  ret void
}}

; Run records. helpers = 0: on this thread alone.
define void @hcq_cpu_run(ptr %state, ptr %records, i64 %count, i64 %helpers) {{
start:
  %records.p = getelementptr %state, ptr %state, i64 0, i32 0
  %count.p = getelementptr %state, ptr %state, i64 0, i32 1
  %generation.p = getelementptr %state, ptr %state, i64 0, i32 2
  %active.p = getelementptr %state, ptr %state, i64 0, i32 3
  %sleeping.p = getelementptr %state, ptr %state, i64 0, i32 5
  br label %reset
reset:
  %i = phi i64 [ 0, %start ], [ %i.next, %clear ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %clear, label %ready
clear:
  %next.p = getelementptr %record, ptr %records, i64 %i, i32 5
  %done.p = getelementptr %record, ptr %records, i64 %i, i32 6
  store i64 0, ptr %next.p
  store i64 0, ptr %done.p
  %i.next = add i64 %i, 1
  br label %reset
ready:
  %alone = icmp eq i64 %helpers, 0
  br i1 %alone, label %solo, label %publish
solo:
  call void @take_part(ptr %records, i64 %count)
  ret void
publish:
  store i64 %count, ptr %count.p
  store atomic ptr %records, ptr %records.p seq_cst, align 8
  %a = atomicrmw add ptr %generation.p, i32 1 seq_cst
  %asleep = load atomic i32, ptr %sleeping.p seq_cst, align 4
  %quiet = icmp eq i32 %asleep, 0
  br i1 %quiet, label %together, label %wake
wake:
  %b = call i64 (i64, ...) @syscall(i64 {SYS_FUTEX}, ptr %generation.p,
      i64 {FUTEX_WAKE_PRIVATE}, i64 %helpers, i64 0, i64 0, i64 0)
  br label %together
together:
  call void @take_part(ptr %records, i64 %count)
  store atomic ptr null, ptr %records.p seq_cst, align 8
  br label %drain
drain:
  %round = phi i64 [ 0, %together ], [ %round.next, %busy ]
  %active = load atomic i32, ptr %active.p seq_cst, align 4
  %idle = icmp eq i32 %active, 0
  br i1 %idle, label %end, label %busy
busy:
  call void @relax(i64 %round)
  %round.next = add i64 %round, 1
  br label %drain
end:
  ret void
}}

; Let helpers return.
define void @hcq_cpu_stop(ptr %state) {{
  %generation.p = getelementptr %state, ptr %state, i64 0, i32 2
  %stop.p = getelementptr %state, ptr %state, i64 0, i32 4
  store atomic i32 1, ptr %stop.p seq_cst, align 4
  %a = atomicrmw add ptr %generation.p, i32 1 seq_cst
  %b = call i64 (i64, ...) @syscall(i64 {SYS_FUTEX}, ptr %generation.p,
      i64 {FUTEX_WAKE_PRIVATE}, i64 1024, i64 0, i64 0, i64 0)
  ret void
}}
"""


def engine() -> Any:
    """A new, empty engine for native code; llvmlite is loaded here."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


class Cores:
    """Threads that run launches together. One job at a time; run() returns when it is done."""

    def __init__(self, threads: int) -> None:
        import llvmlite.binding as llvm

        self._engine = engine()
        self._engine.add_module(llvm.parse_assembly(IR))
        self._engine.finalize_object()
        self._state = (ctypes.c_uint64 * 8)()
        self._address = ctypes.addressof(self._state)
        self._run = self._function("hcq_cpu_run", 4)
        self._stop = self._function("hcq_cpu_stop", 1)
        self._help = self._function("hcq_cpu_help", 1)
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._process = os.getpid()
        self.helpers = max(threads - 1, 0)

    def run(self, records: int, count: int, parallel: bool) -> None:
        """Run `count` records at a host address; parallel: worth waking the helpers for."""
        helpers = self.helpers if parallel else 0
        with self._lock:
            if helpers and not self._threads:
                self._start()
            self._run(self._address, records, count, helpers)

    def close(self) -> None:
        """End the helpers. One that is stuck in a kernel keeps its code for ever."""
        if not self._threads or self._process != os.getpid():
            return
        self._stop(self._address)
        for thread in self._threads:
            thread.join(JOIN_SECONDS)
        if any(thread.is_alive() for thread in self._threads):
            self._engine.detach()
        self._threads.clear()

    def _start(self) -> None:
        for number in range(self.helpers):
            thread = threading.Thread(
                target=self._help, args=(self._address,), name=f"cpu-{number}", daemon=True
            )
            thread.start()
            self._threads.append(thread)

    def _function(self, name: str, arguments: int) -> Any:
        address = self._engine.get_function_address(name)
        if not address:
            raise DeviceOpenError(f"CPU: the native driver has no {name}", device="CPU")
        kinds = (ctypes.c_uint64,) * arguments
        return ctypes.CFUNCTYPE(None, *kinds)(address)
