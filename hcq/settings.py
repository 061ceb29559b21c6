"""Every setting: its name, type, default and meaning.

A setting is read when it is used: from the innermost `Context` of this thread,
else from the environment. A value of the wrong type is a ConfigError.
"""

import os
import threading
from collections.abc import Mapping
from contextlib import ContextDecorator
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from hcq.errors import ConfigError, nearest

Value = int | float | str


@dataclass(frozen=True)
class Setting:
    """One setting. `kind` is int, float or str; `aliases` are read when the name is unset."""

    name: str
    kind: type
    default: Value
    meaning: str
    aliases: tuple[str, ...] = ()
    least: int | None = None


SETTINGS = {
    s.name: s
    for s in (
        Setting("DEVICE", str, "", "devices: [IFACE+]NAME[:index][:RENDERER[:ARCH]]", ("DEV",)),
        Setting("DEBUG", int, 0, "1 devices, 2 kernels, 3 plans, 4 source, 5-6 IR, 7 code", (), 0),
        Setting(
            "HCQ_TIMEOUT_MS",
            int,
            30000,
            "limit of a wait without progress, ms",
            ("HCQDEV_WAIT_TIMEOUT_MS",),
            1,
        ),
        Setting("HCQ_CAPTURE", str, "", "file that records host traffic and submissions"),
        Setting(
            "AMD_DISABLE_SDMA",
            int,
            0,
            "1: no copy engine; what the host cannot copy is Unsupported",
            (),
            0,
        ),
        Setting("HCQ_NUM_SDMA", int, 1, "copy queues per device; only 1 so far", (), 1),
        Setting("ALLOW_DEVICE_USAGE", int, 1, "0 forbids opening devices (workers)", (), 0),
        Setting("CACHEDB", str, "", "sqlite file of compiled kernels"),
        Setting("CCACHE", int, 1, "0 turns the disk cache of compiled kernels off", (), 0),
        Setting("SCACHE", int, 1, "0 turns the schedule cache off", (), 0),
        Setting("LRU", int, 1, "0 turns reuse of freed device memory off", (), 0),
        Setting("PARALLEL", int, -1, "compile workers; -1: one per core, 0: none", (), -1),
        Setting("NUM_CPU_THREADS", int, 0, "threads of the CPU device; 0: one per core", (), 0),
        Setting(
            "CHECK_OOB",
            int,
            0,
            "1: check every access; no compiler can yet, so kernels are refused",
            (),
            0,
        ),
        Setting("TRAINING", int, 0, "1: dropout and batch statistics as in training", (), 0),
        Setting(
            "FASTMATH",
            int,
            0,
            "1: approximate float32 functions; none are there yet, so kernels are refused",
            (),
            0,
        ),
        Setting("NOOPT", int, 0, "1: kernels are not tiled", (), 0),
        Setting("DEFAULT_FLOAT", str, "float32", "dtype of new float tensors"),
        Setting("DEFAULT_INT", str, "int32", "dtype of new integer tensors"),
        Setting("NO_COLOR", str, "", "set: no colour in text"),
    )
}

_local = threading.local()


def _stack() -> list[dict[str, Value]]:
    if not hasattr(_local, "stack"):
        _local.stack = []
    stack: list[dict[str, Value]] = _local.stack
    return stack


def _convert(setting: Setting, name: str, value: Any) -> Value:
    try:
        found: Value = setting.kind(value)
        # Values from code say what they mean: nothing is cut off, and None is not a text.
        if not isinstance(value, str) and found != value:
            raise ValueError(value)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(
            f"{name}={value!r} is not {setting.kind.__name__}",
            facts={"setting": name, "value": value},
            hint=f"{setting.name}: {setting.meaning}; default {setting.default!r}",
        ) from None
    if setting.least is not None and isinstance(found, int) and found < setting.least:
        raise ConfigError(
            f"{name}={value!r} is below {setting.least}",
            facts={"setting": name, "value": value},
            hint=f"{setting.name}: {setting.meaning}; default {setting.default!r}",
        )
    return found


def _lookup(name: str) -> Setting:
    try:
        return SETTINGS[name]
    except KeyError:
        raise ConfigError(
            f"no setting {name!r}{nearest(name, SETTINGS)}", facts={"setting": name}
        ) from None


def _named(values: Mapping[str, Value]) -> dict[str, Value]:
    """Converted values by the settings' own names; aliases are taken for what they stand for."""
    found: dict[str, Value] = {}
    for given, value in values.items():
        name = next((s.name for s in SETTINGS.values() if given in s.aliases), given)
        new = _convert(_lookup(name), given, value)
        if found.setdefault(name, new) != new:
            raise ConfigError(
                f"{name} is given twice and differs", facts=dict(values), hint=f"set only {name}"
            )
    return found


def get(name: str) -> Any:
    """The value in force here; ConfigError for an unknown name or an unreadable value."""
    setting = _lookup(name)
    for frame in reversed(_stack()):
        if name in frame:
            return frame[name]
    if not any(os.environ.get(n) for n in (name, *setting.aliases)):
        return setting.default
    found = {n: os.environ[n] for n in (name, *setting.aliases) if os.environ.get(n)}
    values = {n: _convert(setting, n, text) for n, text in found.items()}
    if len(set(values.values())) > 1:
        raise ConfigError(
            f"{' and '.join(values)} are both set and differ",
            facts=found,
            hint=f"set only {name}",
        )
    return next(iter(values.values()))


def getenv(key: str, default: Value = 0) -> Any:
    """An environment variable, converted to the type of `default`."""
    if key in SETTINGS:
        frames = [frame for frame in _stack() if key in frame]
        if frames or os.environ.get(key):
            return get(key)
        return default
    text = os.environ.get(key)
    if text is None:
        return default
    return _convert(Setting(key, type(default), default, ""), key, text)


class Context(ContextDecorator):
    """Settings for a with block or a decorated function, in this thread only.

    `with Context(DEBUG=2): ...`; restored on exit and on exceptions; blocks nest.
    """

    def __init__(self, **values: Value) -> None:
        self.values = _named(values)

    def __enter__(self) -> "Context":
        _stack().append(self.values)
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Not simply the last: blocks inside generators may end in another order.
        stack = _stack()
        for at in reversed(range(len(stack))):
            if stack[at] is self.values:
                del stack[at]
                return


def current_values() -> dict[str, Value]:
    """What Context blocks set in this thread, innermost last; for handing to a worker."""
    merged: dict[str, Value] = {}
    for frame in _stack():
        merged |= frame
    return merged
