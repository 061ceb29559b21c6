"""The same figures through CUDA's driver library, where there is one, to compare with."""

import ctypes
import statistics
import time
from typing import Any

from kernels import THREADS

LIBRARY = "libcuda.so.1"


def measured(cubin: bytes, size: Any) -> dict[str, float]:
    """Launch latency in us and copy bandwidth in GB/s of CUDA; nothing where it is not."""
    try:
        cuda = ctypes.CDLL(LIBRARY)
    except OSError:
        return {}
    if cuda.cuInit(0):
        return {}
    device, context = ctypes.c_int(), ctypes.c_void_p()
    check(cuda.cuDeviceGet(ctypes.byref(device), 0))
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    try:
        check(cuda.cuCtxSetCurrent(context))
        return {
            "CUDA launch and wait, us": _launches(cuda, cubin, size.rounds),
            "CUDA copy, GB/s": _copies(cuda, size.copy_bytes),
        }
    finally:
        cuda.cuDevicePrimaryCtxRelease_v2(device)


def check(status: int) -> None:
    """Raise for a status other than success."""
    if status:
        raise RuntimeError(f"CUDA says {status}")


def _launches(cuda: Any, cubin: bytes, rounds: int) -> float:
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    check(cuda.cuModuleLoadData(ctypes.byref(module), cubin))
    check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"empty"))
    argument = ctypes.c_uint64(0)
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(argument))
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        sizes = (1, 1, 1, THREADS, 1, 1)
        check(cuda.cuLaunchKernel(function, *sizes, 0, None, arguments, None))
        check(cuda.cuCtxSynchronize())
        times.append(time.perf_counter() - start)
    check(cuda.cuModuleUnload(module))
    return statistics.median(times) * 1e6


def _copies(cuda: Any, size: int) -> float:
    ends = [ctypes.c_uint64(), ctypes.c_uint64()]
    for end in ends:
        check(cuda.cuMemAlloc_v2(ctypes.byref(end), ctypes.c_size_t(size)))
    rates = []
    for _ in range(5):
        start = time.perf_counter()
        check(cuda.cuMemcpyDtoD_v2(ends[0], ends[1], ctypes.c_size_t(size)))
        check(cuda.cuCtxSynchronize())
        rates.append(size / (time.perf_counter() - start) / 1e9)
    for end in ends:
        check(cuda.cuMemFree_v2(end))
    return max(rates)
