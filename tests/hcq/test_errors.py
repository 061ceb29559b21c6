"""The tree of errors: bases, texts, codes, and that they cross processes."""

import errno
import pickle

import pytest

from hcq import errors
from hcq.errors import (
    BufferUseError,
    CompileError,
    ConfigError,
    DeviceError,
    DeviceLost,
    GpuFault,
    GpuTimeout,
    HcqError,
    IoctlError,
    OutOfMemory,
    Unsupported,
    WaitTimeout,
)

BASES = {
    "ConfigError": ValueError,
    "DeviceNotFound": LookupError,
    "WaitTimeout": TimeoutError,
    "GpuTimeout": TimeoutError,
    "IoctlError": OSError,
    "OutOfMemory": MemoryError,
    "BufferUseError": ValueError,
    "FieldError": ValueError,
    "LaunchError": ValueError,
    "CodeObjectError": ValueError,
    "FileFormatError": ValueError,
    "Unsupported": NotImplementedError,
}
CLASSES = [
    found
    for found in vars(errors).values()
    if isinstance(found, type) and issubclass(found, HcqError)
]


def make(kind):
    more = {"number": errno.EBUSY} if kind is IoctlError else {}
    facts = {"size": 4, "name": "weights"}
    return kind("AMD:0 has a problem", device="AMD:0", facts=facts, hint="try again", **more)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_errors_cross_processes_whole(kind):
    error = make(kind)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error) != ""
    assert (copy.device, copy.facts, copy.hint, copy.code) == (
        "AMD:0", {"size": 4, "name": "weights"}, "try again", error.code,
    )  # fmt: skip


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_text_is_what_failed_then_facts_then_the_hint(kind):
    assert str(make(kind)).splitlines() == [
        "AMD:0 has a problem",
        "size=4 name=weights",
        "hint: try again",
    ]


@pytest.mark.parametrize(("name", "base"), BASES.items())
def test_python_code_may_catch_the_builtin_kind(name, base):
    kind = getattr(errors, name)
    assert issubclass(kind, base)
    assert issubclass(kind, RuntimeError)
    with pytest.raises(base):
        raise make(kind)


def test_refused_calls_have_their_errno_also_after_a_journey():
    error = make(IoctlError)
    assert error.errno == pickle.loads(pickle.dumps(error)).errno == errno.EBUSY


def test_what_a_device_did_is_told_apart_from_what_a_caller_wanted():
    assert issubclass(GpuFault, DeviceLost)
    assert issubclass(GpuTimeout, DeviceLost)
    assert issubclass(DeviceLost, DeviceError)
    assert issubclass(WaitTimeout, DeviceError)
    assert not issubclass(WaitTimeout, DeviceLost)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (ConfigError, "config-error"),
        (GpuFault, "gpu-fault"),
        (OutOfMemory, "out-of-memory"),
        (BufferUseError, "buffer-use-error"),
        (CompileError, "compile-error"),
        (Unsupported, "unsupported"),
    ],
)
def test_codes_are_stable_slugs(kind, code):
    assert make(kind).code == code


def test_nearest_name_is_offered_only_when_there_is_one():
    assert errors.nearest("DEBUGG", ["DEBUG", "DEVICE"]) == ", did you mean 'DEBUG'?"
    assert errors.nearest("zzz", ["DEBUG", "DEVICE"]) == ""


def test_the_missing_node_names_module_checks_and_simulator():
    text = str(errors.missing_node("/dev/kfd", "amdgpu", "AMD GPU"))
    for part in ("/dev/kfd", "amdgpu", "lspci", "modprobe", "python -m sim"):
        assert part in text


@pytest.mark.parametrize(
    ("module", "gpu"), [("amdgpu", "gfx1100"), ("nvidia", "sm_90"), ("nvidia_uvm", "sm_90")]
)
def test_the_simulator_is_named_with_a_gpu_of_that_kind(module, gpu):
    hint = errors.missing_node("/dev/node", module, "GPU").hint
    assert hint.endswith(f"simulate one: python -m sim --gpu {gpu} SCRIPT")
