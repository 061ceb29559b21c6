"""A device made for the tests, hand-written kernels for it and for the CPU."""

import subprocess
import sys
from types import ModuleType

import pytest

from hcq.errors import OutOfMemory
from runtime.backend import Code, CodeArgument
from runtime.counters import GlobalCounters
from runtime.device import KINDS, Device, Way

ADD = """
define void @add(ptr %buffers, ptr %scalars, i64 %begin, i64 %end) {
  %out = load ptr, ptr %buffers
  %a.at = getelementptr ptr, ptr %buffers, i64 1
  %a = load ptr, ptr %a.at
  %b.at = getelementptr ptr, ptr %buffers, i64 2
  %b = load ptr, ptr %b.at
  %first = mul i64 %begin, 4
  %last = mul i64 %end, 4
  br label %loop
loop:
  %i = phi i64 [ %first, %0 ], [ %next, %loop ]
  %a.i = getelementptr i32, ptr %a, i64 %i
  %b.i = getelementptr i32, ptr %b, i64 %i
  %out.i = getelementptr i32, ptr %out, i64 %i
  %x = load i32, ptr %a.i
  %y = load i32, ptr %b.i
  %sum = add i32 %x, %y
  store i32 %sum, ptr %out.i
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %last
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""

FILL = """
define void @fill(ptr %buffers, ptr %scalars, i64 %begin, i64 %end) {
  %out = load ptr, ptr %buffers
  %value = load i64, ptr %scalars
  %short = trunc i64 %value to i32
  br label %loop
loop:
  %i = phi i64 [ %begin, %0 ], [ %next, %loop ]
  %out.i = getelementptr i32, ptr %out, i64 %i
  store i32 %short, ptr %out.i
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


class Int32:
    """int32, as far as buffers look at element types."""

    name = "int32"
    itemsize = 4


class Uint8:
    name = "uint8"
    itemsize = 1


BUFFER = CodeArgument("buffer", "int32", 8)
OUTPUT = CodeArgument("buffer", "int32", 8, written=True)
SCALAR = CodeArgument("scalar", "int64", 8)


def assemble(text):
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(cpu="x86-64-v2", opt=2, reloc="pic")
    return machine.emit_object(llvm.parse_assembly(text))


class HandKernel:
    """A kernel whose code is written by hand; counts how often it is compiled."""

    def __init__(self, name, arguments, image, grid=(1, 1, 1), **rest):
        self.name = name
        self.key = f"{name}-{grid}-{sorted(rest)}"
        self.variables = rest.pop("variables", ())
        self.parts = (arguments, image, grid, rest)
        self.compiled = []

    def compile(self, target):
        self.compiled.append(target)
        arguments, image, grid, rest = self.parts
        is_cpu = target.startswith("LLVM:x86-64")
        return Code(
            target,
            "elf-x86_64" if is_cpu else "source",
            assemble(image) if is_cpu else image.encode(),
            self.name,
            arguments,
            grid,
            key=self.key,
            **rest,
        )


class FakeMemory:
    def __init__(self, address, size, fill):
        self.address = address
        self.size = size
        self.bytes = bytearray([fill]) * size


class FakeProgram:
    def __init__(self, code):
        self.name = code.entry
        self.code = code


class FakeBackend:
    """Memory full of noise, no host view, and a log of everything asked of it."""

    arch = "fake1"
    renderers = ("FAKE:fake1",)
    limit = 1 << 40
    opened = []  # every one opened in this test

    def __init__(self, index):
        self.name = f"FAKE:{index}"
        self.log = []
        self.used = 0
        self.addresses = 0x1000
        self.freed_later = []
        self.is_closed = False
        FakeBackend.opened.append(self)

    def allocate(self, size, options):
        self.log.append(("allocate", size))
        if self.used + size > self.limit:
            raise OutOfMemory("the fake device is full", device=self.name, facts={"step": "fake"})
        self.used += size
        self.addresses += 0x10000
        return FakeMemory(self.addresses, size, 0 if options.zero else 0xAA)

    def free(self, memory):
        self.log.append(("free", memory.size))
        self.freed_later.append(memory)

    def copy_in(self, memory, offset, data):
        self.log.append(("copy_in", data.nbytes))
        memory.bytes[offset : offset + data.nbytes] = data

    def copy_out(self, memory, offset, into):
        self.log.append(("copy_out", into.nbytes))
        into[:] = memory.bytes[offset : offset + into.nbytes]

    def load(self, code):
        self.log.append(("load", code.entry))
        return FakeProgram(code)

    def launch(self, program, buffers, scalars, grid=None):
        self.log.append(("launch", program.name, tuple(scalars), grid or program.code.grid))

    def synchronize(self, timeout=None):
        self.log.append(("synchronize",))
        self.used -= sum(memory.size for memory in self.freed_later)
        self.freed_later.clear()

    def health(self):
        return "ok"

    def close(self):
        self.is_closed = True


@pytest.fixture(autouse=True)
def fresh_devices():
    """No device open before or after, counters at zero."""
    Device.close_all()
    GlobalCounters.reset()
    yield
    Device.close_all()


@pytest.fixture
def fake(monkeypatch):
    """The FAKE device: `fake()` opens FAKE:index and returns its backend."""
    module = ModuleType("fake_backend")
    module.open_backend = FakeBackend
    module.count = lambda: 3
    monkeypatch.setitem(sys.modules, "fake_backend", module)
    monkeypatch.setattr(Device, "_kinds", {**KINDS, "FAKE": (Way("SOCKET", "fake_backend"),)})
    monkeypatch.setattr(FakeBackend, "opened", [])
    yield lambda index=0: Device[f"FAKE:{index}"].backend
    Device.close_all()


@pytest.fixture
def fake_backend():
    """The class of the FAKE device, to set limits or take operations away."""
    return FakeBackend


@pytest.fixture
def int32():
    return Int32


@pytest.fixture
def uint8():
    return Uint8


@pytest.fixture
def add_kernel():
    """out[i] = a[i] + b[i] over 4 int32 per group."""
    return lambda groups=1: HandKernel("add", (OUTPUT, BUFFER, BUFFER), ADD, (groups, 1, 1))


@pytest.fixture
def fill_kernel():
    """out[i] = value, one group per element; value and anything else are variables."""

    def make(groups=4, variables=("value",), **rest):
        arguments = (OUTPUT, *(SCALAR for _ in variables))
        return HandKernel("fill", arguments, FILL, (groups, 1, 1), variables=variables, **rest)

    return make


@pytest.fixture
def object_file():
    """LLVM assembly to a relocatable object for this machine."""
    return assemble


@pytest.fixture
def python():
    """python(code, **environment): in a new interpreter; (exit status, stdout, stderr)."""

    def run(code, **environment):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=30,
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path), **environment},
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    return run
