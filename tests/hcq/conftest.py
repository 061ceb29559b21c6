"""An open device, kernels for it and ways to look into it; `chip` says which."""

import importlib
import threading

import pytest
from gpu_kernels import SHARED
from gpu_kernels import compiled as compiled_text


@pytest.fixture
def chip():
    """The chip's name, where a folder or file has no other."""
    return "gfx1100"


@pytest.fixture
def vendor(chip):
    """hcq.amd or hcq.nv."""
    return importlib.import_module("hcq.nv" if chip.startswith("sm_") else "hcq.amd")


@pytest.fixture
def place(chip, machine):
    """place(**options): a machine with one such chip, in place."""
    return lambda **options: machine(chip, **options)


@pytest.fixture
def sources():
    """name -> text of the kernels a folder has beside the shared ones."""
    return {}


@pytest.fixture
def compiled(chip, sources):
    """compiled(name, chip=chip, features=""): a kernel's code object."""
    texts = {**SHARED, **sources}

    def make(name, chip=chip, features=""):
        return compiled_text(chip, name, texts[name], features=features)

    return make


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


@pytest.fixture
def run_all():
    """run_all(workers): each in a thread of its own, to the end; the first error is raised."""

    def run(workers):
        errors = []

        def guarded(work):
            try:
                work()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=guarded, args=(work,)) for work in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not errors, errors[0]

    return run


class Noted:
    """A region whose stores are noted: (its name, verb, offset)."""

    def __init__(self, log, name, region):
        self._log, self._name, self._region = log, name, region

    def __getattr__(self, verb):
        inner = getattr(self._region, verb)
        if not verb.startswith("write"):
            return inner

        def call(*args):
            self._log.append((self._name, verb, args[0]))
            return inner(*args)

        return call


@pytest.fixture
def noted():
    """noted(log, name, region): the region, its stores noted in the log."""
    return Noted


@pytest.fixture
def round_trip():
    """round_trip(device, buffer, data, offset=0): what comes back of what goes in."""

    def go(device, buffer, data, offset=0):
        device.copy_in(buffer, offset, data)
        back = bytearray(len(data))
        device.copy_out(buffer, offset, back)
        return bytes(back)

    return go
