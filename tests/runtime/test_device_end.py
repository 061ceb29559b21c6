"""How devices end: closing, the end of the process, forks and spawned children."""

import subprocess
import sys

import pytest

from hcq.errors import (
    WaitTimeout,
)
from runtime.device import Device


@pytest.mark.row("REG-15")
def test_devices_are_drained_and_closed_in_reverse_order(fake, fake_backend, monkeypatch):
    order = []
    monkeypatch.setattr(fake_backend, "close", lambda self: order.append(f"close {self.name}"))
    monkeypatch.setattr(
        fake_backend, "synchronize", lambda self, timeout=None: order.append(f"drain {self.name}")
    )
    fake(0), fake(1)
    Device.close_all()
    assert order == ["drain FAKE:1", "close FAKE:1", "drain FAKE:0", "close FAKE:0"]


@pytest.mark.row("REG-15")
def test_failed_device_is_not_waited_for(fake, fake_backend, monkeypatch):
    drained = []
    monkeypatch.setattr(fake_backend, "health", lambda self: "reset-device")
    monkeypatch.setattr(
        fake_backend, "synchronize", lambda self, timeout=None: drained.append(self)
    )
    backend = fake()
    Device.close_all()
    assert (drained, backend.is_closed) == ([], True)


@pytest.mark.row("REG-15")
def test_failed_device_is_skipped_at_exit(fake, fake_backend, monkeypatch):
    monkeypatch.setattr(fake_backend, "health", lambda self: "reset-device")
    backend = fake()
    Device.close_all(at_exit=True)
    assert not backend.is_closed


@pytest.mark.row("REG-15")
def test_errors_while_closing_are_logged(fake, fake_backend, monkeypatch, caplog):
    def hang(self, timeout=None):
        assert timeout is not None
        raise WaitTimeout("still running")

    monkeypatch.setattr(fake_backend, "synchronize", hang)
    backend = fake()
    Device.close_all()
    assert backend.is_closed
    assert "FAKE:0 did not finish before it was closed: still running" in caplog.text


@pytest.mark.row("REG-15")
def test_process_with_live_buffers_ends(int32, python):
    code = (
        "from runtime.buffer import Buffer\n"
        "class E: name='int32'; itemsize=4\n"
        "kept = [Buffer('CPU', 1000, E).ensure_allocated() for _ in range(10)]\n"
        "print('end')"
    )
    assert python(code) == (0, "end\n", "")


FORK = """
import os
from runtime.backend import MemoryOptions
from runtime.buffer import Buffer
from runtime.device import Device
from hcq.errors import DeviceBanned
class E: name='uint8'; itemsize=1
buffer = Buffer('CPU', 4, E).copy_in(b'abcd')
other = Buffer('CPU', 4, E, options=MemoryOptions(nolru=True)).allocate()
child = os.fork()
if child == 0:
    del other
    try:
        buffer.copy_out()
    except DeviceBanned as error:
        print(error.what, flush=True)
    try:
        Buffer('CPU', 4, E).ensure_allocated()
    except DeviceBanned as error:
        print(error.what, flush=True)
    print(bytes(Buffer('CPU:1', 2, E).copy_in(b'ok').copy_out()), flush=True)
    raise SystemExit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), bytes(buffer.copy_out()))
"""


@pytest.mark.row("REG-17")
@pytest.mark.refusal
def test_forked_child_may_not_use_what_the_parent_opened(python):
    status, out, error = python(FORK)
    assert (status, error) == (0, "")
    assert out.splitlines() == [
        "CPU:0 cannot be used here: it was opened before fork",
        "CPU:0 cannot be used here: it was opened before fork",
        "b'ok'",
        "0 b'abcd'",
    ]


SPAWN = """
import multiprocessing
def child(queue):
    from runtime.buffer import Buffer
    class E: name='uint8'; itemsize=1
    queue.put(bytes(Buffer('CPU', 4, E).copy_in(b'wxyz').copy_out()))
if __name__ == '__main__':
    from runtime.device import Device
    Device['CPU']
    context = multiprocessing.get_context('spawn')
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    print(queue.get())
    process.join()
    print(process.exitcode)
"""


@pytest.mark.row("REG-17")
def test_spawned_child_may_open_devices(tmp_path):
    script = tmp_path / "spawn.py"
    script.write_text(SPAWN)
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=30,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)},
        check=False,
    )
    assert (done.stdout, done.stderr) == ("b'wxyz'\n0\n", "")
