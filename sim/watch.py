"""Waiting for a doorbell in native code, with the interpreter lock released.

One function, made once per process: it looks at a list of 64-bit cells until one
differs from what was seen last. It spins a little, yielding the core, then sleeps
SLEEP_NANOSECONDS at a time, so that an idle machine costs next to nothing. A waiting
program may end a sleep early.
"""

from functools import cache
from typing import Any

from cffi import FFI

SLEEP_NANOSECONDS = 50_000
YIELDS = 20  # before the first sleep: a doorbell often follows the one before at once
WOKEN, RANG, PATIENCE_OVER = -1, 0, -2

_ffi = FFI()
_ffi.cdef("""
    int sched_yield(void);
    long syscall(long number, void *word, long operation, long value, void *limit);
""")
# Source: Linux arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/linux/futex.h.
_FUTEX, _WAIT_PRIVATE, _WAKE_PRIVATE = 202, 128, 129

# cells: pairs of {address, value seen}. Returns RANG, WOKEN when *wake is not 0, or
# PATIENCE_OVER after `sleeps` sleeps.
_IR = """
define i64 @watch(ptr %cells, i64 %count, ptr %wake, i64 %sleeps) {
entry:
  %time = alloca [2 x i64]
  %seconds = getelementptr [2 x i64], ptr %time, i64 0, i64 0
  store i64 0, ptr %seconds
  %fraction = getelementptr [2 x i64], ptr %time, i64 0, i64 1
  store i64 SLEEP, ptr %fraction
  br label %round
round:
  %n = phi i64 [0, %entry], [%n1, %again]
  %woken = load atomic i64, ptr %wake seq_cst, align 8
  %stop = icmp ne i64 %woken, 0
  br i1 %stop, label %leave, label %scan
scan:
  %i = phi i64 [0, %round], [%i1, %same]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %look, label %pause
look:
  %cell = getelementptr {i64, i64}, ptr %cells, i64 %i, i32 0
  %address = load i64, ptr %cell
  %pointer = inttoptr i64 %address to ptr
  %now = load atomic i64, ptr %pointer seq_cst, align 8
  %old = getelementptr {i64, i64}, ptr %cells, i64 %i, i32 1
  %seen = load i64, ptr %old
  %differs = icmp ne i64 %now, %seen
  br i1 %differs, label %rang, label %same
same:
  %i1 = add i64 %i, 1
  br label %scan
pause:
  %n1 = add i64 %n, 1
  %early = icmp ult i64 %n, YIELDS
  br i1 %early, label %yield, label %patient
yield:
  %y = call i32 inttoptr (i64 SCHED_YIELD to ptr)()
  br label %again
patient:
  %slept = sub i64 %n, YIELDS
  %over = icmp uge i64 %slept, %sleeps
  br i1 %over, label %tired, label %sleep
sleep:
  %s = call i64 inttoptr (i64 SYSCALL to ptr)(i64 FUTEX, ptr %wake, i64 WAIT, i64 0, ptr %time)
  br label %again
again:
  br label %round
rang:
  ret i64 RANG
leave:
  ret i64 WOKEN
tired:
  ret i64 PATIENCE_OVER
}
"""


class Watch:
    """A place to wait at. `wake()` ends a wait from another thread."""

    def __init__(self) -> None:
        self._function = _compiled()
        self._wake = _ffi.new("uint64_t *")
        self._libc: Any = _ffi.dlopen(None)
        self.is_waiting = False

    def wait(self, cells: list[tuple[int, int]], sleeps: int) -> bool:
        """Until a (cell address, value seen) changes: True; woken or out of patience: False.

        The cells must stay mapped until the wait is over.
        """
        flat = _ffi.new("uint64_t[]", [word for cell in cells for word in cell] or [0, 0])
        self.is_waiting = True
        result = int(self._function(flat, len(cells), self._wake, sleeps))
        self.is_waiting = False
        self._wake[0] = 0
        return result == RANG

    def wake(self) -> None:
        """End the wait that is on, or the next one."""
        self._wake[0] = 1
        self._libc.syscall(_FUTEX, self._wake, _WAKE_PRIVATE, 1, _ffi.NULL)


@cache
def _compiled() -> Any:
    from llvmlite import binding as llvm

    libc: Any = _ffi.dlopen(None)
    values = {
        "SCHED_YIELD": int(_ffi.cast("uintptr_t", _ffi.addressof(libc, "sched_yield"))),
        "SYSCALL": int(_ffi.cast("uintptr_t", _ffi.addressof(libc, "syscall"))),
        "FUTEX": _FUTEX,
        "WAIT": _WAIT_PRIVATE,
        "YIELDS": YIELDS,
        "SLEEP": SLEEP_NANOSECONDS,
        "WOKEN": WOKEN,
        "RANG": RANG,
        "PATIENCE_OVER": PATIENCE_OVER,
    }
    text = _IR
    for name, value in values.items():
        text = text.replace(name, str(value))
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(codemodel="small", reloc="pic")
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
    engine.finalize_object()
    address = engine.get_function_address("watch")
    _KEPT.append(engine)
    return _ffi.cast("int64_t (*)(void *, int64_t, void *, int64_t)", address)


_KEPT: list[Any] = []  # the code lives as long as its engine
