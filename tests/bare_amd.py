"""Machine code on the simulated RDNA wave, without a driver."""

import mmap

import numpy as np

from sim.amd.wave import Dispatch, Executor
from sim.memory import GpuMemory

KEEP_DENORMALS = 0xF0  # as COMPUTE_PGM_RSRC1.FLOAT_MODE


def words(*values):
    """The bytes of 32-bit numbers, such as machine code."""
    return b"".join(value.to_bytes(4, "little") for value in values)


class Gpu:
    """Memory of one simulated GPU, an executor, and a page of data at `data`.

    A kernel finds the address of the data at s[0:1], and what `user` holds from s2 on.
    """

    def __init__(self, **options):
        self.memory = GpuMemory()
        self.executor = Executor(self.memory, **options)
        self.kept = []
        self.data, self.bytes = self.allocate(4096)
        self.words = self.bytes.view(np.uint32)
        self.kernarg, arguments = self.allocate(4096)
        arguments[:8].view(np.uint64)[:] = self.data

    def allocate(self, size, **options):
        """Pages with a hole of one page after them."""
        region = mmap.mmap(-1, size + 4096)
        self.kept.append(region)
        data = np.frombuffer(region, dtype=np.uint8)[:size]
        self.memory.map(int(data.ctypes.data), size, **options)
        return int(data.ctypes.data), data

    def load(self, code):
        """The address of a copy of some code."""
        address, data = self.allocate(4096, executable=True)
        data[: len(code)] = np.frombuffer(code, dtype=np.uint8)
        return address

    def dispatch(self, code, *, user=(), lds=0, float_mode=KEEP_DENORMALS, **fields):
        """A launch of code (bytes, or where it lies); float_mode as in RSRC1."""
        given = (self.kernarg & 0xFFFFFFFF, self.kernarg >> 32, *user)
        shape = {"groups": (1, 1, 1), "threads": (32, 1, 1), "wave_size": 32}
        registers = {
            "rsrc1": float_mode << 12 | 1,
            "rsrc2": len(given) << 1 | 0b111 << 7 | lds // 512 << 15,
            "rsrc3": 0,
            "user_data": (*given, *[0] * (16 - len(given))),
        }
        entry = code if isinstance(code, int) else self.load(code)
        return Dispatch(code=entry, **{**shape, **registers, **fields})

    def run(self, code, stop=lambda: False, **fields):
        """The words of the page of data after a launch."""
        self.executor.run(self.dispatch(code, **fields), stop)
        return self.words

    def run_with(self, number, code, **fields):
        """The same with the number in s2, and zeros in the page before."""
        self.words[:] = 0
        return self.run(code, user=(number,), **fields)
