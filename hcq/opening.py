"""What is checked before a device opens: whether it may, and which one is meant."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from hcq import settings
from hcq.errors import ConfigError, DeviceBanned, DeviceNotFound, OutOfMemory, Unsupported

T = TypeVar("T")


def choose(
    found: Sequence[T], index: int, family: str, maker: str, known: Sequence[str], where: str
) -> T:
    """The index-th GPU, "NV:0" of maker "NVIDIA"; DeviceNotFound names those there are."""
    if not isinstance(index, int):
        raise DeviceNotFound(
            f"{family}: an index is an int, not {index!r}",
            facts={"index": repr(index), "count": len(found)},
            hint=f"open(0) opens the first {maker} GPU",
        )
    if not 0 <= index < len(found):
        raise DeviceNotFound(
            f"no {family}:{index}: {len(found)} {maker} GPU(s) here",
            device=f"{family}:{index}",
            facts={"count": len(found), "known": ", ".join(known) or "none"},
            hint=f"indices start at 0; {where} may hide GPUs",
        )
    return found[index]


def check_start(value: int) -> None:
    """ConfigError for what a timeline cannot begin with."""
    if not isinstance(value, int) or value < 0:
        raise ConfigError(
            f"timeline_start={value!r} is no value of a timeline",
            facts={"timeline_start": repr(value)},
            hint="leave it out, or give a whole number, at least 0",
        )


@contextmanager
def opening(name: str) -> Iterator[None]:
    """Around the opening of a device: memory that is short then is not the caller's to save."""
    try:
        yield
    except OutOfMemory as error:
        error.facts["while"] = f"opening {name}"
        error.hint = "close other devices of this GPU, and programs that use it"
        if "bar1_size" in error.facts:
            error.hint += "; where BAR1 is too small, turn on resizable BAR in the firmware"
        raise


def check_settings() -> None:
    """DeviceBanned or Unsupported where the settings ask for what is not to be had."""
    if not settings.get("ALLOW_DEVICE_USAGE"):
        raise DeviceBanned(
            "devices may not be opened here: ALLOW_DEVICE_USAGE=0",
            facts={"setting": "ALLOW_DEVICE_USAGE"},
            hint="workers open no device; elsewhere unset it",
        )
    count = settings.get("HCQ_NUM_SDMA")
    if count != 1:
        raise Unsupported(
            f"HCQ_NUM_SDMA={count}: a device has one copy queue, more are not supported yet",
            facts={"setting": "HCQ_NUM_SDMA", "value": count},
            hint="unset HCQ_NUM_SDMA",
        )
