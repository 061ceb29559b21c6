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


# Machine code as literal words; the comments are what llvm-mc prints for them.
SPIN = words(  # the first wave spins until the second stores 1 at word 128
    0xF4040200, 0xF8000000,  # s_load_b64 s[8:9], s[0:1], null
    0x30020082,  # v_lshlrev_b32_e32 v1, 2, v0
    0x7E060280,  # v_mov_b32_e32 v3, 0
    0x7E080281,  # v_mov_b32_e32 v4, 1
    0x7C9800A0,  # v_cmp_gt_u32_e32 vcc_lo, 32, v0
    0xBFA30005,  # s_cbranch_vccz second
    0xDC520200, 0x02080003,  # global_load_b32 v2, v3, s[8:9] offset:512
    0x7C940481,  # v_cmp_eq_u32_e32 vcc_lo, 1, v2
    0xBFA3FFFC,  # s_cbranch_vccz again
    0xBFA00002,  # s_branch both
    0xDC6A0200, 0x00080403,  # global_store_b32 v3, v4, s[8:9] offset:512
    0xDC6A0000, 0x00080401,  # global_store_b32 v1, v4, s[8:9]
    0xBFB00000,  # s_endpgm
)  # fmt: skip
