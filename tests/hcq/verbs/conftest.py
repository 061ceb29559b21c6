"""One device of each vendor and generation: the same test bodies run on all of them."""

import functools
import importlib
import importlib.util
from pathlib import Path

import pytest

CHIPS = ("gfx1100", "sm_86", "sm_89", "sm_90", "sm_120")
SUBSET = ("sm_80", "sm_100")  # opened, copied on and launched on, no more
HERE = Path(__file__).parent


@functools.cache
def _kernels(vendor):
    """The file that holds a vendor's kernels."""
    path = HERE.parent / vendor / "conftest.py"
    spec = importlib.util.spec_from_file_location(f"kernels_{vendor}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def vendor_of(chip):
    """The package that opens a chip."""
    return importlib.import_module("hcq.nv" if chip.startswith("sm_") else "hcq.amd")


@pytest.fixture(params=CHIPS)
def chip(request):
    """The chip's name."""
    return request.param


@pytest.fixture
def place(chip, machine):
    """place(**options): a machine with one such chip, in place; and its vendor's package."""

    def make(**options):
        return machine(chip, **options)

    return make


@pytest.fixture
def vendor(chip):
    """hcq.amd or hcq.nv."""
    return vendor_of(chip)


@pytest.fixture
def compiled(chip):
    """compiled(name): a kernel for the chip."""
    kernels = _kernels("nv" if chip.startswith("sm_") else "amd")
    return lambda name: kernels.compiled(name, chip)


@pytest.fixture
def device(place, vendor):
    """The only GPU of a simulated machine."""
    place()
    found = vendor.open(0)
    yield found
    found.close()


@pytest.fixture
def held(device):
    """A device whose compute queue waits for word 0 of a buffer to become 1; and the buffer."""
    flag = device.allocate(16, host=True, uncached=True, zero=True, name="flag")
    device.submit(device.queue("compute").poll(flag.address, 1))
    yield device, flag
    if flag.region is not None:
        flag.region.write32(0, 1)


@pytest.fixture
def add(device, compiled):
    """The add kernel, three buffers of 64 words (a counts up, b is 5 each)."""
    program = device.load(compiled("add"), "add")
    out, a, b = (device.allocate(256, name=name) for name in ("out", "a", "b"))
    device.copy_in(a, 0, b"".join(i.to_bytes(4, "little") for i in range(64)))
    device.copy_in(b, 0, (5).to_bytes(4, "little") * 64)
    return program, out, a, b


@pytest.fixture
def words():
    """words(device, buffer, count): the first 32-bit words of a buffer."""

    def read(device, buffer, count):
        data = bytearray(count * 4)
        device.copy_out(buffer, 0, data)
        return list(memoryview(data).cast("I"))

    return read
