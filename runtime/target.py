"""The DEVICE grammar: which device, by which way, with which renderer.

    [IFACE+]NAME[:index][:RENDERER[:ARCH]]      targets joined by ";", the first is the default

Names are case-free, a number after the name is an index, no index means 0. An
index may also stand before the plus (`KFD:1+AMD`). What the names mean is the
registry's business (runtime/device.py); only form is checked here.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from hcq.errors import ConfigError

GRAMMAR = "[IFACE+]NAME[:index][:RENDERER[:ARCH]], targets joined by ';'"
EXAMPLES = "DEVICE=NV, DEVICE=AMD:1, DEVICE='NV;CPU' or DEVICE=NVK+NV:0:PTX"
PATH_NAMES = ("DISK",)  # what follows their colon is a path and stays as given
_WAY = re.compile(r"(?P<interface>[A-Za-z]\w*)?(?::?(?P<index>\d+))?")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_RENDERER = re.compile(r"[A-Za-z]\w*")
_ARCH = re.compile(r"[A-Za-z0-9][\w.,+-]*")


@dataclass(frozen=True)
class Target:
    """One device as DEVICE names it; empty text where nothing was said."""

    name: str
    index: int = 0
    interface: str = ""
    renderer: str = ""
    arch: str = ""
    path: str = ""

    @property
    def device(self) -> str:
        """The name buffers carry: "AMD", "AMD:1", "DISK:Path"."""
        if self.path:
            return f"{self.name}:{self.path}"
        return f"{self.name}:{self.index}" if self.index else self.name


@lru_cache(maxsize=64)
def parse_targets(text: str) -> tuple[Target, ...]:
    """Every target of a DEVICE setting; ConfigError with the grammar and the bad part."""
    parts = [part.strip() for part in text.split(";")]
    return tuple(parse_target(part, text) for part in parts)


def parse_target(part: str, whole: str | None = None) -> Target:
    """One target; `whole` is the setting it stands in, for the error text; None: a lookup."""
    whole = f"device {part!r}" if whole is None else f"DEVICE={whole!r}"
    before, _, path = part.partition(":")
    if before.upper() in PATH_NAMES:
        return Target(before.upper(), path=path)
    way, plus, rest = part.partition("+")
    if not plus or _WAY.fullmatch(way) is None:
        way, plus, rest = "", "", part  # no plus, or one that is not behind an interface
    interface, index = _way(way, whole) if plus else ("", None)
    name, *fields = rest.split(":")
    if not _NAME.fullmatch(name):
        raise _malformed(whole, name or part or "nothing")
    index = _index(fields, index, whole)
    renderer = fields.pop(0) if fields else ""
    arch = fields.pop(0) if fields else ""
    for field, pattern in ((renderer, _RENDERER), (arch, _ARCH)):
        if field and not pattern.fullmatch(field):
            raise _malformed(whole, field)
    if fields or (arch and not renderer) or rest.endswith(":"):
        raise _malformed(whole, ":".join(fields) or rest)
    return Target(name.upper(), index, interface.upper(), renderer.upper(), arch)


def _way(way: str, whole: str) -> tuple[str, int | None]:
    found = _WAY.fullmatch(way)
    if not way or found is None:
        raise _malformed(whole, f"{way}+")
    index = found["index"]
    return found["interface"] or "", None if index is None else int(index)


def _index(fields: list[str], before: int | None, whole: str) -> int:
    """The index, taken off the fields; an empty field stands for none."""
    if not fields or not (fields[0].isdecimal() or fields[0] == ""):
        return before or 0
    text = fields.pop(0)
    after = int(text) if text else None
    if before is not None and after is not None and before != after:
        raise _malformed(whole, f"{before}+ and :{after}")
    return (after if after is not None else before) or 0


def _malformed(whole: str, bad: str) -> ConfigError:
    return ConfigError(
        f"{whole} is malformed at {bad!r}",
        facts={"bad": bad},
        hint=f"write {GRAMMAR}, for example {EXAMPLES}",
    )
