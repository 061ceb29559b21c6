"""Signal cells of all devices of this process: pages that every GPU of it sees.

A page belongs to one GPU's objects, which stay for as long as the page does, and is
mapped on the others at the same address.
"""

from contextlib import ExitStack

from hcq.buffers import view_of
from hcq.host import PAGE, Region
from hcq.nv.driver import Driver
from hcq.nv.gpu import Gpu
from hcq.nv.memory import Allocation, Kind, allocate, free
from hcq.timeline import SignalPool


class Signals:
    """The pool and its pages."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._pages: list[tuple[Gpu, Allocation]] = []
        self._seen_by: set[tuple[int, bytes]] = set()  # (address of a page, a GPU's uuid)
        self.pool = SignalPool(self._grow)

    def join(self, gpu: Gpu) -> None:
        """Map the pages there are on a GPU that has come."""
        for _, page in self._pages:
            self._map(page, gpu)

    def leave(self, gpu: Gpu) -> None:
        """A GPU goes: its view of the pages goes first."""
        for owner, page in self._pages:
            if owner is not gpu and (page.address, gpu.uuid) in self._seen_by:
                self._seen_by.remove((page.address, gpu.uuid))
                self._driver.uvm.unmap(page.address, page.size, gpu.uuid)

    def _grow(self) -> tuple[int, Region]:
        gpus = [gpu for gpu in self._driver.gpus.values() if isinstance(gpu, Gpu)]
        owner = gpus[0]
        page = allocate(owner, PAGE, Kind.UNCACHED_HOST)
        owner.join()
        self._pages.append((owner, page))
        self._seen_by.add((page.address, owner.uuid))
        for gpu in gpus[1:]:
            self._map(page, gpu)
        view = view_of(page)
        view.write(0, bytes(PAGE))
        return page.address, view

    def _map(self, page: Allocation, gpu: Gpu) -> None:
        if (page.address, gpu.uuid) in self._seen_by:
            return
        handles = (gpu.rm.client, page.handle)
        driver = self._driver
        driver.uvm.map(page.address, page.size, gpu.uuid, driver.ctl, handles)
        self._seen_by.add((page.address, gpu.uuid))

    def release(self) -> None:
        """The last device closed: the pages go back."""
        self.pool.close()
        with ExitStack() as steps:
            while self._pages:
                owner, page = self._pages.pop(0)
                steps.callback(owner.leave)  # also where the kernel does not let the page go
                steps.callback(free, owner, page)


def signals_of(driver: Driver) -> Signals:
    """The process's signals, made at first use."""
    found = driver.signals
    if not isinstance(found, Signals):
        found = driver.signals = Signals(driver)
    return found
