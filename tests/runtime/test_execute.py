import random

import pytest

from hcq.errors import BufferUseError, CompileError, LaunchError, QueueError, Unsupported
from hcq.settings import Context
from runtime.backend import LaunchSize
from runtime.buffer import Buffer
from runtime.call import BatchCall, CopyCall, Estimate, ProgramCall
from runtime.counters import GlobalCounters
from runtime.device import Device
from runtime.execute import kind_name, run_linear


def words(*values):
    return b"".join(value.to_bytes(4, "little") for value in values)


@pytest.fixture
def adding(int32, add_kernel):
    """(call, a, b, out) for out = a + b over 4 int32."""

    def make(device="CPU", kernel=None):
        a, b, out = (Buffer(device, 4, int32) for _ in range(3))
        a.copy_in(words(1, 2, 3, 4))
        b.copy_in(words(10, 20, 30, 40))
        estimate = Estimate(operations=4, bytes=48)
        return ProgramCall(kernel or add_kernel(), (out, a, b), device, 1, {}, estimate), a, b, out

    return make


@pytest.mark.row("EXE-03")
def test_kernel_call_allocates_its_output_and_runs(adding):
    call, _, _, out = adding()
    assert not out.is_allocated
    run_linear([call])
    assert out.copy_out() == words(11, 22, 33, 44)


@pytest.mark.row("EXE-01")
def test_everything_is_compiled_and_loaded_before_anything_runs(
    fake, int32, add_kernel, fill_kernel
):
    out, a, b = (Buffer("FAKE", 4, int32) for _ in range(3))
    backend = fake()
    stages = []
    first, second = add_kernel(), fill_kernel(variables=())
    for kernel in (first, second):
        compile_ = kernel.compile
        kernel.compile = lambda target, c=compile_, k=kernel: (
            stages.append(f"compile {k.name}"),
            c(target),
        )[1]
    backend.log = stages
    run_linear([ProgramCall(first, (out, a, b), "FAKE"), ProgramCall(second, (out,), "FAKE")])
    stages = [s if isinstance(s, str) else " ".join(map(str, s[:2])) for s in stages]
    assert [s for s in stages if not s.startswith("allocate")] == [
        "compile add",
        "load add",
        "compile fill",
        "load fill",
        "launch add",
        "launch fill",
    ]


@pytest.mark.row("EXE-01")
def test_second_run_only_dispatches(fake, int32, add_kernel):
    buffers = tuple(Buffer("FAKE", 4, int32) for _ in range(3))
    call = ProgramCall(add_kernel(), buffers, "FAKE")
    run_linear([call])
    del fake().log[:]
    run_linear([call])
    assert [entry[0] for entry in fake().log] == ["launch"]


@pytest.mark.row("EXE-01")
def test_kernels_that_can_be_compiled_together_are(fake, int32, add_kernel, fill_kernel):
    groups = []
    kernels = [add_kernel(), fill_kernel(variables=())]
    for kernel in kernels:
        kernel.prepare = lambda kernels, target: groups.append(([k.name for k in kernels], target))
    a, b, c = (Buffer("FAKE", 4, int32) for _ in range(3))
    run_linear([ProgramCall(kernels[0], (a, b, c), "FAKE"), ProgramCall(kernels[1], (a,), "FAKE")])
    assert groups == [(["add", "fill"], "FAKE:fake1")]


@pytest.mark.row("CMP-05")
def test_kernel_is_compiled_and_loaded_once_per_device(fake, int32, add_kernel):
    kernel = add_kernel()
    for name in ("FAKE", "FAKE", "FAKE:1"):
        buffers = tuple(Buffer(name, 4, int32) for _ in range(3))
        run_linear([ProgramCall(kernel, buffers, name)])
    assert kernel.compiled == ["FAKE:fake1", "FAKE:fake1"]
    assert [e for e in fake().log if e[0] == "load"] == [("load", "add")]
    assert [e for e in fake(1).log if e[0] == "load"] == [("load", "add")]


@pytest.mark.row("CMP-05")
def test_other_key_is_another_program(int32, add_kernel):
    first, second = add_kernel(1), add_kernel(2)
    device = Device["CPU"]
    assert device.program(first) is device.program(add_kernel(1))
    assert device.program(first) is not device.program(second)


@pytest.mark.row("CMP-07")
@pytest.mark.refusal
def test_failed_compile_is_not_remembered(adding, add_kernel):
    kernel = add_kernel()
    works, tries = kernel.compile, []

    def fail(target):
        tries.append(target)
        raise CompileError("no code for add")

    kernel.compile = fail
    call, _, _, out = adding(kernel=kernel)
    for _ in range(2):
        with pytest.raises(CompileError, match="no code for add"):
            run_linear([call])
    assert len(tries) == 2
    kernel.compile = works
    run_linear([call])
    assert out.copy_out() == words(11, 22, 33, 44)


@pytest.mark.refusal
def test_nothing_runs_when_a_later_kernel_does_not_compile(adding, add_kernel):
    bad = add_kernel(7)

    def fail(target):
        raise CompileError("broken")

    bad.compile = fail
    call, a, b, out = adding()
    with pytest.raises(CompileError, match="broken"):
        run_linear([call, ProgramCall(bad, (out, a, b), "CPU")])
    assert GlobalCounters.kernel_count == 0
    assert not out.is_allocated


@pytest.mark.row("EXE-02")
@pytest.mark.refusal
def test_unknown_kind_of_call_is_refused_before_anything_runs(adding):
    class Decode:
        pass

    call, *_ = adding()
    GlobalCounters.reset()
    with pytest.raises(Unsupported, match="no way to run a 'Decode' call") as caught:
        run_linear([call, Decode()])
    assert caught.value.facts == {"kind": "Decode", "known": "program, copy, batch"}
    assert GlobalCounters.kernel_count == 0


@pytest.mark.row("EXE-02")
def test_every_kind_has_a_printable_name(adding, int32):
    call, a, b, _ = adding()
    assert kind_name(call) == "program"
    assert kind_name(CopyCall(a, b)) == "copy"
    assert kind_name(BatchCall(Device["CPU"].batch(), "CPU")) == "batch"


@pytest.mark.row("EXE-02")
def test_batch_call_runs_its_launches(adding):
    call, _, _, out = adding()
    device = Device["CPU"]
    batch = device.batch().add(device.program(call.kernel), call.buffers)
    run_linear([BatchCall(batch, "CPU")])
    assert out.copy_out() == words(11, 22, 33, 44)


@pytest.mark.row("EXE-03")
def test_variables_are_bound_by_name(int32, fill_kernel):
    out = Buffer("CPU", 4, int32)
    run_linear([ProgramCall(fill_kernel(4), (out,), "CPU", 1, {"value": 6, "other": 7})])
    assert out.copy_out() == words(6, 6, 6, 6)


@pytest.mark.row("EXE-03")
@pytest.mark.refusal
def test_unbound_variable_is_named(int32, fill_kernel):
    out = Buffer("CPU", 4, int32)
    with pytest.raises(LaunchError, match="fill: variable 'value' is not bound"):
        run_linear([ProgramCall(fill_kernel(4), (out,), "CPU", 1, {"size": 6})])


@pytest.mark.row("EXE-03")
def test_launch_size_follows_a_variable(int32, fill_kernel):
    # One group per element; n elements of 4.
    kernel = fill_kernel(4, variables=("value", "n"), sizes=(LaunchSize("n", 1, 1), 1, 1))
    out = Buffer("CPU", 4, int32).copy_in(words(1, 1, 1, 1))
    run_linear([ProgramCall(kernel, (out,), "CPU", 1, {"value": 9, "n": 3})])
    assert out.copy_out() == words(9, 9, 9, 1)


@pytest.mark.row("EXE-03")
def test_launch_size_follows_a_variable_the_code_does_not_take(fake, int32, fill_kernel):
    kernel = fill_kernel(4, variables=(), sizes=(LaunchSize("n", 1, 2), 1, 1))
    run_linear([ProgramCall(kernel, (Buffer("FAKE", 4, int32),), "FAKE", 1, {"n": 5})])
    assert fake().log[-1] == ("launch", "fill", (), (3, 1, 1))


@pytest.mark.row("EXE-03")
@pytest.mark.refusal
def test_unbound_variable_of_a_launch_size_is_named(int32, fill_kernel):
    kernel = fill_kernel(4, variables=(), sizes=(LaunchSize("n"), 1, 1))
    with pytest.raises(LaunchError, match="fill: variable 'n' is not bound"):
        run_linear([ProgramCall(kernel, (Buffer("CPU", 4, int32),), "CPU", 1, {"m": 5})])


@pytest.mark.row("EXE-03")
@pytest.mark.refusal
@pytest.mark.parametrize(("value", "found"), [(9, 9), (-1, -1)])
def test_launch_size_outside_its_limits_is_refused(int32, fill_kernel, value, found):
    kernel = fill_kernel(8, variables=(), sizes=(LaunchSize("n"), 1, 1))
    out = Buffer("CPU", 8, int32)
    with pytest.raises(LaunchError, match=f"fill: n={value} asks for {found} groups, 0 to 8"):
        run_linear([ProgramCall(kernel, (out,), "CPU", 1, {"n": value})])
    assert GlobalCounters.kernel_count == 0


def test_launch_size_rounds_up():
    assert LaunchSize("n", 3, 64).at(100) == 5


@pytest.mark.row("EXE-08")
@pytest.mark.row("PRO-06")
def test_kernels_operations_and_bytes_are_counted(adding):
    call, *_ = adding()
    run_linear([call, call])
    counters = GlobalCounters.device("CPU:0")
    assert (GlobalCounters.kernel_count, counters.kernel_count) == (2, 2)
    assert (GlobalCounters.global_ops, counters.global_ops) == (8, 8)
    assert (GlobalCounters.global_mem, counters.global_mem) == (96, 96)
    assert GlobalCounters.mem_used == counters.mem_used == 48


@pytest.mark.row("EXE-08")
def test_batch_counts_all_its_kernels(adding):
    call, *_ = adding()
    device = Device["CPU"]
    batch = device.batch()
    for _ in range(3):
        batch.add(device.program(call.kernel), call.buffers, (), call.estimate)
    run_linear([BatchCall(batch, "CPU")])
    recorded = GlobalCounters.kernel_count, GlobalCounters.global_ops, GlobalCounters.global_mem
    GlobalCounters.reset()
    run_linear([call] * 3)
    eager = GlobalCounters.kernel_count, GlobalCounters.global_ops, GlobalCounters.global_mem
    assert recorded == eager == (3, 12, 144)


@pytest.mark.row("PRO-06")
def test_reset_keeps_live_memory(adding):
    call, *_, out = adding()
    run_linear([call])
    GlobalCounters.reset()
    assert out.is_allocated
    assert (GlobalCounters.kernel_count, GlobalCounters.global_ops) == (0, 0)
    assert GlobalCounters.device("CPU:0").kernel_count == 0
    assert GlobalCounters.mem_used == 48


@pytest.mark.row("PRO-06")
def test_seconds_are_summed_where_they_are_measured(adding):
    call, *_ = adding()
    run_linear([call])
    assert GlobalCounters.time_sum_s == 0
    with Context(DEBUG=2):
        run_linear([call])
    assert GlobalCounters.time_sum_s > 0


@pytest.mark.row("EXE-11")
def test_effects_follow_program_order(int32, add_kernel):
    # Random programs of adds and copies over four buffers, against plain Python.
    choose = random.Random(11)
    buffers = [Buffer("CPU", 4, int32).copy_in(words(i, 1, 2, 3)) for i in range(4)]
    model = [[i, 1, 2, 3] for i in range(4)]
    calls = []
    for _ in range(200):
        to, x, y = (choose.randrange(4) for _ in range(3))
        if choose.random() < 0.5:
            calls.append(ProgramCall(add_kernel(), (buffers[to], buffers[x], buffers[y]), "CPU"))
            model[to] = [(p + q) % 2**32 for p, q in zip(model[x], model[y], strict=True)]
        else:
            calls.append(CopyCall(buffers[to], buffers[x]))
            model[to] = list(model[x])
    run_linear(calls)
    assert [b.copy_out() for b in buffers] == [words(*values) for values in model]


@pytest.mark.row("EXE-12")
def test_empty_calls_launch_nothing(fake, int32, fill_kernel):
    empty = Buffer("FAKE", 0, int32)
    other = Buffer("FAKE", 0, int32)
    run_linear(
        [
            ProgramCall(fill_kernel(0, variables=()), (empty,), "FAKE"),
            CopyCall(empty, other),
        ]
    )
    assert [entry[0] for entry in fake().log] == ["load"]
    assert GlobalCounters.kernel_count == GlobalCounters.copy_count == 0


def test_no_calls_are_no_error():
    run_linear([])


@pytest.mark.refusal
def test_wrong_number_of_buffers_is_refused(adding):
    call, a, b, out = adding()
    with pytest.raises(LaunchError, match="add on CPU:0 takes 3 buffers, not 2"):
        run_linear([ProgramCall(call.kernel, (out, a), "CPU")])
    assert b.is_allocated


@pytest.mark.refusal
def test_freed_argument_is_refused(adding):
    call, a, *_ = adding()
    run_linear([call])
    a.free()
    with pytest.raises(BufferUseError, match="was freed"):
        run_linear([call])


@pytest.mark.row("CMP-06")
def test_program_object_can_be_called_and_timed(adding):
    call, a, b, out = adding()
    program = Device["CPU"].program(call.kernel)
    assert (program.name, program.target) == ("add", Device["CPU"].target)
    assert [(g.kind, g.dtype, g.written) for g in program.arguments] == [
        ("buffer", "int32", True),
        ("buffer", "int32", False),
        ("buffer", "int32", False),
    ]
    assert (program.grid, program.block) == ((1, 1, 1), (1, 1, 1))
    assert program(out, a, b) is None
    seconds = program(out, a, b, wait=True)
    assert 0 < seconds < 1
    assert out.copy_out() == words(11, 22, 33, 44)
    assert GlobalCounters.kernel_count == 2


@pytest.mark.refusal
def test_batch_of_another_device_is_refused(adding):
    call, *_ = adding()
    program = Device["CPU"].program(call.kernel)
    with pytest.raises(QueueError, match="loaded on CPU:0, the batch is for CPU:1"):
        Device["CPU:1"].batch().add(program, call.buffers)


def test_batch_runs_in_order_and_again(int32, add_kernel):
    a = Buffer("CPU", 4, int32).copy_in(words(1, 2, 3, 4))
    device = Device["CPU"]
    program = device.program(add_kernel())
    batch = device.batch().add(program, (a, a, a)).add(program, (a, a, a))
    batch.run()
    batch.run()
    assert a.copy_out() == words(16, 32, 48, 64)


def test_batch_on_a_device_without_one_launches_one_by_one(fake, int32, add_kernel):
    fake()
    device = Device["FAKE"]
    program = device.program(add_kernel())
    buffers = tuple(Buffer("FAKE", 4, int32) for _ in range(3))
    device.batch().add(program, buffers).add(program, buffers).run()
    assert [e[0] for e in fake().log].count("launch") == 2
