import logging
import re
import subprocess
import sys

import pytest

from hcq.settings import Context
from runtime.buffer import Buffer
from runtime.call import BatchCall, Estimate, ProgramCall
from runtime.counters import GlobalCounters
from runtime.device import Device
from runtime.execute import run_linear
from runtime.log import color
from runtime.report import copy_line, kernel_line


@pytest.fixture
def lines(caplog):
    """What was logged by a function, as lines of text."""

    def logged(work, **settings):
        caplog.clear()
        with Context(**settings), caplog.at_level(logging.INFO, "hcq"):
            work()
        return [record.getMessage() for record in caplog.records]

    return logged


@pytest.mark.row("PRO-05")
def test_line_of_a_kernel(lines, fake, int32, add_kernel):
    out, a, b = (Buffer("FAKE", 250_000, int32) for _ in range(3))
    call = ProgramCall(add_kernel(64), (out, a, b), "FAKE", 1, {}, Estimate(10**6, 3 * 10**6))
    run_linear([call])
    program = Device["FAKE"].program(call.kernel)
    GlobalCounters.reset()
    assert lines(lambda: kernel_line(program, call, 0.0005, True), DEBUG=2) == [
        "FAKE:0   kernel     1 add                          args  3  grid 64x1x1 block 1x1x1  "
        "mem   3.00 MB  tm 500.00 us      2.00 GFLOPS      6.00 GB/s  first"
    ]


@pytest.mark.row("PRO-05")
def test_line_of_a_copy(lines, fake, uint8):
    from runtime.buffer import HostBytes
    from runtime.call import CopyCall

    fake()
    call = CopyCall(Buffer("FAKE", 10**6, uint8), HostBytes(bytes(10**6)))
    assert lines(lambda: copy_line(call, "source view", 0.001), DEBUG=2) == [
        "FAKE:0   copy       1 HOST -> FAKE:0               source view    1.00 MB  "
        "mem   0.00 B   tm   1.00 ms      1.00 GB/s"
    ]


@pytest.mark.row("PRO-05")
def test_line_of_a_batch(lines, int32, add_kernel):
    buffers = tuple(Buffer("CPU", 4, int32) for _ in range(3))
    device = Device["CPU"]
    program = device.program(add_kernel())
    call = BatchCall(device.batch().add(program, buffers).add(program, buffers), "CPU")
    (line,) = lines(lambda: run_linear([call]), DEBUG=2)
    assert re.fullmatch(
        r"CPU:0    batch        batch of 2 kernels           mem  48.00 B   tm +\S+ [num]?s ?", line
    )


@pytest.mark.row("PRO-05")
def test_first_run_is_marked_and_later_ones_are_not(lines, int32, add_kernel):
    buffers = tuple(Buffer("CPU", 4, int32) for _ in range(3))
    call = ProgramCall(add_kernel(), buffers, "CPU")
    found = [line for line in lines(lambda: run_linear([call, call]), DEBUG=2) if "add" in line]
    assert [line.endswith("  first") for line in found] == [True, False]


@pytest.mark.row("PRO-05")
@pytest.mark.row("EXE-05")
def test_route_of_a_copy_is_shown(lines, fake, uint8):
    buffer = Buffer("FAKE", 3, uint8)
    shown = lines(lambda: buffer.copy_in(b"abc").copy_out(), DEBUG=2)
    routes = [re.search("(source|target) view|staged|direct", s).group() for s in shown[1:]]
    assert routes == ["source view", "target view"]


@pytest.mark.row("PRO-05")
def test_opened_device_is_logged_at_level_1(lines, fake):
    assert lines(fake, DEBUG=1) == ["opened device FAKE:0 fake1 FAKE:fake1"]


@pytest.mark.row("PRO-05")
def test_nothing_is_logged_without_debug(lines, fake, uint8):
    assert lines(lambda: Buffer("FAKE", 3, uint8).copy_in(b"abc")) == []


@pytest.mark.row("PRO-05")
def test_debug_waits_for_the_device(fake, int32, add_kernel):
    buffers = tuple(Buffer("FAKE", 4, int32) for _ in range(3))
    with Context(DEBUG=2):
        run_linear([ProgramCall(add_kernel(), buffers, "FAKE")])
    assert fake().log[-1] == ("synchronize",)


@pytest.mark.row("PRO-05")
def test_no_color_turns_colour_off(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert color("add", "green") == "\x1b[32madd\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert color("add", "green") == "add"


@pytest.mark.row("PRO-05")
def test_lines_go_to_stderr_when_logging_is_not_set_up(tmp_path):
    code = "from runtime.device import Device; Device['CPU']"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={"DEBUG": "1", "PYTHONPATH": ":".join(sys.path)},
        check=True,
    )
    assert re.fullmatch(r"opened device CPU:0 x86-64-v\d LLVM:x86-64-v\d\n", done.stderr)
