"""The execution units of a simulated GPU: the executor of warps, with threads of its own kind."""

from collections.abc import Callable
from concurrent.futures import Future

from sim.memory import GpuMemory
from sim.nv.warp import Executor
from sim.threads import Helpers

THREADS = 2


class Units(Executor):
    """An executor whose helper threads work until close(), also while the process ends."""

    def __init__(self, memory: GpuMemory) -> None:
        super().__init__(memory, threads=THREADS)
        self._helpers = Helpers("sim-warp", THREADS)

    def helper(self, work: Callable[[], None]) -> Future[None]:
        """Run work on a helper thread."""
        return self._helpers.submit(work)

    def close(self) -> None:
        """Let the helper threads go."""
        self._helpers.close()
        super().close()
