"""Compile processes: messages, deaths, and what they leave alone."""

import io
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from kernel_maker import elementwise, matmul

from hcq.errors import CompileError
from hcq.settings import Context
from jit.compile import compile_here
from jit.dtype import dtypes
from jit.worker import Worker, WorkerPool, answer, pack, receive, send, unpack

AMD = "LLVM:gfx1100"


@pytest.fixture
def pool():
    made = WorkerPool()
    yield made
    made.close()


def kernel(op="add"):
    return elementwise(op, dtypes.float32, dtypes.float32, 40, 2)


def test_a_kernel_survives_packing():
    made = matmul(3, 4, 5, NOOPT=1)
    assert unpack(pack(made)).key == made.key


def test_a_message_survives_the_pipe():
    stream = io.BytesIO()
    send(stream, {"a": 1})
    stream.seek(0)
    assert receive(stream) == {"a": 1}


@pytest.mark.parametrize("cut", [0, 3, 10])
def test_a_message_cut_short_is_the_end(cut):
    stream = io.BytesIO()
    send(stream, "text")
    with pytest.raises(EOFError, match="closed its pipe"):
        receive(io.BytesIO(stream.getvalue()[:cut]))


def test_a_worker_gives_the_same_code_as_this_process(pool):
    assert pool.compile(kernel(), AMD) == compile_here(kernel(), AMD)


def test_a_worker_is_kept_for_the_next_kernel(pool):
    pool.compile(kernel(), AMD)
    (worker,) = pool._idle
    pool.compile(kernel("mul"), AMD)
    assert pool._idle == [worker]


@pytest.mark.row("CMP-11")
@pytest.mark.refusal
def test_an_exception_in_a_worker_arrives_with_the_kernel(pool):
    with pytest.raises(CompileError, match="no code for frobnicate"):
        pool.compile(kernel("frobnicate"), AMD)
    assert len(pool._idle) == 1


def test_any_exception_becomes_a_compile_error():
    message = (AMD, pack(kernel()) | {"axes": "nonsense"}, {})
    found = answer(message)
    assert isinstance(found, CompileError)
    assert "while compiling made for LLVM:gfx1100" in found.what


@pytest.mark.row("CMP-11")
def test_a_killed_workers_kernel_is_tried_once_more(pool):
    pool.compile(kernel(), AMD)
    (worker,) = pool._idle
    os.kill(worker.process.pid, signal.SIGKILL)
    worker.process.wait()
    assert pool.compile(kernel("mul"), AMD).format == "hsaco"
    assert pool._idle != [worker]


@pytest.mark.row("CMP-11")
@pytest.mark.refusal
def test_a_kernel_that_kills_twice_is_a_compile_error(pool, monkeypatch):
    started = []

    class Doomed(Worker):
        def __init__(self):
            super().__init__()
            started.append(self)
            os.kill(self.process.pid, signal.SIGKILL)

    monkeypatch.setattr("jit.worker.Worker", Doomed)
    with pytest.raises(
        CompileError,
        match=r"the compiler died on kernel made for LLVM:gfx1100, twice: SIGKILL\n(.|\n)*"
        r"hint: .*from outside, as by Linux when memory runs out; .* cannot select",
    ):
        pool.compile(kernel(), AMD)
    assert len(started) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGRTMIN + 1])
def test_the_signal_that_ended_a_worker_is_told(number):
    worker = Worker()
    os.kill(worker.process.pid, number)
    known = {signal.SIGTERM: "SIGTERM", signal.SIGRTMIN + 1: f"signal {signal.SIGRTMIN + 1}"}
    assert worker.last_words() == known[number]
    worker.stop()


def test_settings_of_a_context_reach_the_worker(pool):
    with Context(DEBUG=0, NOOPT=1):
        assert pool.compile(kernel(), AMD).key == kernel().key


@pytest.mark.row("CMP-10")
def test_the_script_is_not_run_again(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        f"open({str(tmp_path / 'runs')!r}, 'a').write('run\\n')\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from kernel_maker import elementwise\n"
        "from jit.dtype import dtypes\n"
        "from jit.worker import WorkerPool\n"
        "pool = WorkerPool()\n"
        "kernel = elementwise('add', dtypes.float32, dtypes.float32, 40, 2)\n"
        f"print(pool.compile(kernel, {AMD!r}).format)\n"
        "pool.close()\n"
    )
    # A module of the user's folder must not stand in for ours either.
    (tmp_path / "jit").mkdir()
    (tmp_path / "jit" / "__init__.py").write_text("raise SystemExit('the wrong jit')\n")
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(root), "PYTHONSAFEPATH": "1"},
    )  # fmt: skip
    assert done.stdout == "hsaco\n", done.stderr
    assert (tmp_path / "runs").read_text() == "run\n"


def test_ctrl_c_does_not_end_a_worker(pool):
    pool.compile(kernel(), AMD)
    (worker,) = pool._idle
    os.kill(worker.process.pid, signal.SIGINT)
    time.sleep(0.05)
    pool.compile(kernel("mul"), AMD)
    assert pool._idle == [worker]


def test_workers_may_not_open_devices(pool):
    pool.compile(kernel(), AMD)
    (worker,) = pool._idle
    environment = Path(f"/proc/{worker.process.pid}/environ").read_bytes().split(b"\0")
    assert b"ALLOW_DEVICE_USAGE=0" in environment


def test_threads_get_a_worker_each(pool):
    found = []
    threads = [
        threading.Thread(target=lambda op=op: found.append(pool.compile(kernel(op), AMD)))
        for op in ("add", "mul")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2


def test_closing_leaves_no_process(pool):
    pool.compile(kernel(), AMD)
    (worker,) = pool._idle
    pool.close()
    assert worker.process.returncode is not None
