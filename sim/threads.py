"""Helper threads that never hold up the end of the program.

concurrent.futures joins its threads before the functions of `atexit` run, and
takes no work from then on. A simulated device has to go on until those functions
have drained it, and a kernel that never ends must not keep the process: these
threads are daemons, and work until close().
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue

Work = tuple[Future[None], Callable[[], None]]


class Helpers:
    """Up to `count` daemon threads, started when there is work."""

    def __init__(self, name: str, count: int) -> None:
        self._name = name
        self._count = count
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def submit(self, work: Callable[[], None]) -> Future[None]:
        """Run work on one of the threads."""
        future: Future[None] = Future()
        self._queue.put((future, work))
        if len(self._threads) < self._count:
            name = f"{self._name}{len(self._threads)}"
            thread = threading.Thread(target=self._serve, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    def close(self) -> None:
        """Let the threads end once their work is done."""
        for _ in self._threads:
            self._queue.put(None)
        self._threads = []

    def _serve(self) -> None:
        while True:
            item = self._queue.get()
            if item is None:
                return
            future, work = item
            try:
                work()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(None)
