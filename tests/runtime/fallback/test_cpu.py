import ast
import threading
from pathlib import Path

import pytest

from hcq.errors import CodeObjectError, LaunchError, Unsupported
from hcq.settings import Context
from runtime.backend import Code, CodeArgument, MemoryOptions
from runtime.buffer import Buffer
from runtime.call import ProgramCall
from runtime.device import Device
from runtime.execute import run_linear
from runtime.fallback import cpu

BUFFER = CodeArgument("buffer", "int32", 8)

# out[group] += 1, so a group that runs twice or never shows.
COUNT = """
define void @count(ptr %buffers, ptr %scalars, i64 %begin, i64 %end) {
  %out = load ptr, ptr %buffers
  br label %loop
loop:
  %i = phi i64 [ %begin, %0 ], [ %next, %loop ]
  %at = getelementptr i32, ptr %out, i64 %i
  %old = load i32, ptr %at
  %new = add i32 %old, 1
  store i32 %new, ptr %at
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""

CALLS = """
declare void @nowhere_to_be_found()
define void @calls(ptr %buffers, ptr %scalars, i64 %begin, i64 %end) {
  call void @nowhere_to_be_found()
  ret void
}
"""

COPIES = """
declare ptr @memset(ptr, i32, i64)
define void @clear(ptr %buffers, ptr %scalars, i64 %begin, i64 %end) {
  %out = load ptr, ptr %buffers
  %ignored = call ptr @memset(ptr %out, i32 1, i64 16)
  ret void
}
"""


@pytest.fixture
def code(object_file):
    """Code for the CPU from LLVM assembly."""

    def make(text, entry, groups=1, arguments=(BUFFER,)):
        return Code(
            Device["CPU"].target, "elf-x86_64", object_file(text), entry, arguments, (groups, 1, 1)
        )

    return make


@pytest.mark.row("BKE-11")
@pytest.mark.parametrize("groups", [1, 2, 3, 7, 64, 1000, 4099])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_group_runs_once(code, int32, groups, threads):
    with Context(NUM_CPU_THREADS=threads):
        device = Device["CPU"]
        out = Buffer("CPU", groups, int32, options=MemoryOptions(zero=True))
        program = device.load(code(COUNT, "count", groups))
        for _ in range(20):
            program(out)
    assert out.copy_out() == (20).to_bytes(4, "little") * groups


@pytest.mark.row("BKE-11")
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_setting_decides_how_many_threads_help(code, int32, threads):
    before = set(threading.enumerate())
    with Context(NUM_CPU_THREADS=threads):
        out = Buffer("CPU", 64, int32, options=MemoryOptions(zero=True))
        Device["CPU"].load(code(COUNT, "count", 64))(out)
    assert len(set(threading.enumerate()) - before) == threads - 1


@pytest.mark.row("BKE-11")
def test_launches_of_a_batch_take_effect_in_order(int32, add_kernel):
    groups = 500
    a = Buffer("CPU", 4 * groups, int32).copy_in((1).to_bytes(4, "little") * 4 * groups)
    device = Device["CPU"]
    program = device.program(add_kernel(groups))
    batch = device.batch()
    for _ in range(10):
        batch.add(program, (a, a, a))
    batch.run()
    assert a.copy_out() == (1024).to_bytes(4, "little") * 4 * groups


@pytest.mark.row("BKE-11")
def test_batch_is_one_native_call(code, int32, monkeypatch):
    device = Device["CPU"]
    out = Buffer("CPU", 4, int32)
    program = device.load(code(COUNT, "count", 4))
    native = []
    run = device.backend._cores.run
    monkeypatch.setattr(
        device.backend._cores, "run", lambda *args: (native.append(args[1]), run(*args))
    )
    batch = device.batch()
    for _ in range(30):
        batch.add(program, (out,))
    batch.run()
    assert native == [30]


def test_threads_may_launch_at_once(code, int32):
    device = Device["CPU"]
    program = device.load(code(COUNT, "count", 100))
    outs = [Buffer("CPU", 100, int32, options=MemoryOptions(zero=True)) for _ in range(4)]
    threads = [
        threading.Thread(target=lambda out=out: [program(out) for _ in range(50)]) for out in outs
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {bytes(out.copy_out()) for out in outs} == {(50).to_bytes(4, "little") * 100}


@pytest.mark.row("BKE-11")
def test_devices_have_memory_of_their_own(int32):
    first, second = (Buffer(name, 1, int32).allocate() for name in ("CPU:0", "CPU:1"))
    assert Device["CPU:0"].allocator.live == Device["CPU:1"].allocator.live == 4
    assert first.memory.address != second.memory.address


@pytest.mark.row("BKE-11")
def test_kernel_may_have_many_arguments(int32, object_file):
    count = 300
    text = f"""
    define void @last(ptr %buffers, ptr %scalars, i64 %begin, i64 %end) {{
      %at = getelementptr ptr, ptr %buffers, i64 {count - 1}
      %out = load ptr, ptr %at
      store i32 42, ptr %out
      ret void
    }}"""
    arguments = (BUFFER,) * count
    image = object_file(text)
    device = Device["CPU"]
    program = device.load(Code(device.target, "elf-x86_64", image, "last", arguments))
    outs = [Buffer("CPU", 1, int32) for _ in range(count)]
    program(*outs)
    assert outs[-1].copy_out() == (42).to_bytes(4, "little")


@pytest.mark.row("BKE-11")
def test_only_the_base_of_the_stack_is_imported():
    ours = ("hcq", "jit", "tensor", "runtime", "sim")
    for path in Path(cpu.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in ours:
                assert node.module in ("hcq.errors", "hcq.settings", "hcq.bits") or (
                    node.module.startswith("runtime.fallback")
                )


@pytest.mark.row("BKE-11")
def test_no_external_program_is_needed(monkeypatch, code, int32):
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("subprocess.Popen", None)
    out = Buffer("CPU", 4, int32, options=MemoryOptions(zero=True))
    Device["CPU"].load(code(COUNT, "count", 4))(out)
    assert out.copy_out() == (1).to_bytes(4, "little") * 4


def test_object_may_call_what_the_process_has(code, int32):
    out = Buffer("CPU", 4, int32)
    Device["CPU"].load(code(COPIES, "clear"))(out)
    assert out.copy_out() == b"\1" * 16


@pytest.mark.refusal
def test_unresolved_symbol_is_refused_before_the_loader_sees_it(code):
    with pytest.raises(CodeObjectError, match="'calls' needs 'nowhere_to_be_found'"):
        Device["CPU"].load(code(CALLS, "calls"))


@pytest.mark.refusal
def test_missing_entry_is_refused(code):
    with pytest.raises(CodeObjectError, match="does not define 'other'") as caught:
        Device["CPU"].load(code(COUNT, "other"))
    assert caught.value.facts == {"wanted": "other", "found": "count"}


@pytest.mark.refusal
@pytest.mark.parametrize("length", [0, 3, 63, 200])
def test_cut_object_is_refused(code, length):
    good = code(COUNT, "count")
    bad = Code(good.target, good.format, good.image[:length], "count", (BUFFER,))
    with pytest.raises(CodeObjectError, match="the object of 'count' is malformed"):
        Device["CPU"].load(bad)


@pytest.mark.refusal
def test_foreign_machine_is_refused(code):
    good = code(COUNT, "count")
    image = bytearray(good.image)
    image[18] = 183  # AArch64
    with pytest.raises(CodeObjectError, match="machine 183, wanted 1 62"):
        Device["CPU"].load(Code(good.target, good.format, bytes(image), "count", (BUFFER,)))


@pytest.mark.refusal
def test_code_for_another_device_is_refused():
    with pytest.raises(CodeObjectError, match="CPU:0 cannot run 'k'") as caught:
        Device["CPU"].load(Code("LLVM:gfx1100", "hsaco", b"", "k", ()))
    assert caught.value.facts["found"] == "hsaco for LLVM:gfx1100"
    assert caught.value.facts["wanted"].startswith("elf-x86_64 for LLVM:x86-64-v")


@pytest.mark.refusal
def test_limit_on_a_run_is_unsupported(code, int32):
    program = Device["CPU"].load(code(COUNT, "count"))
    with pytest.raises(Unsupported, match="CPU:0 cannot stop a running kernel"):
        program(Buffer("CPU", 1, int32), limit_ms=100)


@pytest.mark.refusal
def test_backend_checks_argument_counts(code):
    device = Device["CPU"]
    program = device.load(code(COUNT, "count"))
    with pytest.raises(LaunchError, match="count takes 1 buffers and 0 scalars, not 0 and 0"):
        program.launch([], [])


def test_close_ends_the_threads(code, int32):
    before = threading.active_count()
    with Context(NUM_CPU_THREADS=4):
        out = Buffer("CPU", 64, int32)
        Device["CPU"].load(code(COUNT, "count", 64))(out)
    assert threading.active_count() == before + 3
    Device.close_all()
    assert threading.active_count() == before


def test_levels_are_ordered_best_first():
    assert cpu._levels()[-1] == "x86-64-v2"


def test_eager_calls_run(int32, add_kernel):
    out, a, b = (Buffer("CPU", 4, int32, options=MemoryOptions(zero=True)) for _ in range(3))
    run_linear([ProgramCall(add_kernel(), (out, a, b), "CPU")])
    assert out.copy_out() == bytes(16)
