"""Compile processes: `python -m jit.worker`, asked and answering over pipes.

LLVM may end its process; then it ends a worker and not the user's program. A
worker opens no device, ignores Ctrl-C, and never runs the user's script.
Each message is its length, 8 bytes little-endian, and a pickle.
"""

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from hcq.errors import CompileError, HcqError
from hcq.settings import Context, current_values
from jit.dtype import ALL
from jit.kernel import Argument, Axis, Expr, Kernel, Pool, Store, expressions
from runtime.backend import Code


def pack(kernel: Kernel) -> dict[str, Any]:
    """A kernel as plain data, its expressions in a flat list: their depth costs no stack."""
    numbers: dict[int, int] = {}
    listed = []
    for e in expressions(kernel):
        numbers[id(e)] = len(numbers)
        listed.append((e.op, e.dtype.name, tuple(numbers[id(s)] for s in e.src), e.arg))
    stores = [
        (s.argument, numbers[id(s.index)], numbers[id(s.value)], _number(numbers, s.valid))
        for s in kernel.stores
    ]
    return {
        "name": kernel.name,
        "arguments": [(a.dtype.name, a.count, a.written) for a in kernel.arguments],
        "axes": [(a.size, a.reduce) for a in kernel.axes],
        "expressions": listed,
        "stores": stores,
        "index": kernel.index_dtype.name,
        "variables": kernel.variables,
        "options": kernel.options,
    }


def _number(numbers: dict[int, int], e: Expr | None) -> int | None:
    return None if e is None else numbers[id(e)]


def unpack(data: dict[str, Any]) -> Kernel:
    """The kernel again, with the same key."""
    pool = Pool()
    made: list[Expr] = []
    for op, dtype, sources, arg in data["expressions"]:
        made.append(pool.make(op, ALL[dtype], tuple(made[s] for s in sources), arg))
    return Kernel(
        name=data["name"],
        arguments=tuple(Argument(ALL[name], n, w) for name, n, w in data["arguments"]),
        axes=tuple(Axis(*axis) for axis in data["axes"]),
        stores=tuple(
            Store(a, made[i], made[v], None if valid is None else made[valid])
            for a, i, v, valid in data["stores"]
        ),
        index_dtype=ALL[data["index"]],
        variables=tuple(data["variables"]),
        options=tuple(data["options"]),
    )


def send(stream: IO[bytes], message: Any) -> None:
    """Write one message."""
    data = pickle.dumps(message)
    stream.write(len(data).to_bytes(8, "little") + data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Read one message; EOFError if the other side is gone."""
    size = stream.read(8)
    data = stream.read(int.from_bytes(size, "little")) if len(size) == 8 else b""
    if len(size) < 8 or len(data) < int.from_bytes(size, "little"):
        raise EOFError("the other side closed its pipe")
    return pickle.loads(data)


class Worker:
    """One compile process, seen from the parent."""

    def __init__(self) -> None:
        root = str(Path(__file__).resolve().parent.parent)
        paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "ALLOW_DEVICE_USAGE": "0",
            "PARALLEL": "0",
        }
        self.errors = _scratch_file()
        # -P: the user's folder must not lend its modules to the worker.
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "jit.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=environment,
        )

    def compile(self, kernel: Kernel, target: str) -> Code:
        """The code; CompileError as the worker raised it; EOFError or OSError if it died."""
        stdin, stdout = self.process.stdin, self.process.stdout
        if stdin is None or stdout is None:
            raise EOFError("no pipe")
        send(stdin, (target, pack(kernel), current_values()))
        answer = receive(stdout)
        if isinstance(answer, Code):
            return answer
        raise answer

    def last_words(self) -> str:
        """How the process ended and the end of what it wrote to stderr."""
        code = self.process.wait()
        name = f"signal {-code}" if code < 0 else f"exit status {code}"
        with suppress(ValueError):  # signals of the real-time range have no name
            name = signal.Signals(-code).name
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        return ": ".join([name, *lines[:1]])

    def stop(self) -> None:
        """End the process and wait for it."""
        self.process.kill()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            with suppress(BrokenPipeError):
                if stream is not None:
                    stream.close()
        self.process.wait()


def _scratch_file() -> IO[bytes]:
    """An open file without a name. Its owner closes it."""
    return tempfile.TemporaryFile()


class WorkerPool:
    """Workers started when first needed and kept. A worker that dies is replaced."""

    def __init__(self) -> None:
        self._idle: list[Worker] = []
        self._lock = threading.Lock()
        self._process = os.getpid()

    def compile(self, kernel: Kernel, target: str) -> Code:
        """Compile in a worker. If it dies the kernel is tried once more in a fresh one."""
        for _ in range(2):
            worker = self._take()
            try:
                code = worker.compile(kernel, target)
            except (EOFError, OSError) as error:
                if isinstance(error, HcqError):
                    self._idle.append(worker)
                    raise
                words = worker.last_words()
                worker.stop()
            except HcqError:
                self._give(worker)
                raise
            except BaseException:
                worker.stop()
                raise
            else:
                self._give(worker)
                return code
        raise CompileError(
            f"the compiler died on kernel {kernel.name} for {target}, twice: {words}",
            facts={"kernel": kernel.name, "target": target, "key": kernel.key},
            hint="ended by SIGKILL or SIGTERM: from outside, as by Linux when memory runs out; "
            "otherwise the kernel uses what LLVM cannot select for this target",
        )

    def close(self) -> None:
        """End all idle workers."""
        with self._lock:
            workers, self._idle = self._idle, []
        for worker in workers:
            worker.stop()

    def _take(self) -> Worker:
        with self._lock:
            if self._process != os.getpid():  # after a fork the workers are the parent's
                self._idle, self._process = [], os.getpid()
            if self._idle:
                return self._idle.pop()
        return Worker()

    def _give(self, worker: Worker) -> None:
        with self._lock:
            self._idle.append(worker)


def answer(message: tuple[str, dict[str, Any], dict[str, Any]]) -> Code | HcqError:
    """What a worker answers to a message: the code or the error."""
    from jit.compile import compile_here

    target, data, settings = message
    try:
        with Context(**settings):
            return compile_here(unpack(data), target)
    except HcqError as error:
        return error
    except Exception as error:
        return CompileError(
            f"{type(error).__name__} while compiling {data['name']} for {target}: {error}",
            facts={"kernel": data["name"], "target": target},
        )


def main() -> None:
    """Serve the parent until it closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not end up between messages
    while True:
        try:
            message = receive(sys.stdin.buffer)
        except EOFError:
            return
        send(replies, answer(message))


if __name__ == "__main__":
    main()
