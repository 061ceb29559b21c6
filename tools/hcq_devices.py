"""The hcq-devices command: which devices there are, whether they work, and if not, why.

Each device is opened once and multiplies three numbers, with every renderer it has.
Exit codes: 0 the default device works; 1 it does not; 2 usage.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from hcq.errors import HcqError

LEFT, RIGHT, PRODUCT = [2, 3, 5], [7, 11, 13], [14, 33, 65]


@dataclass
class Interface:
    """One way to a kind of device; count is None where nobody can tell."""

    name: str
    count: int | None
    reason: str = ""


@dataclass
class Renderer:
    """A renderer, and whether what it makes multiplies right."""

    name: str
    works: bool
    reason: str = ""
    fix: str = ""


@dataclass
class Row:
    """What is known of one device."""

    device: str
    works: bool = False
    is_default: bool = False
    chip: str = ""
    bus: str = ""
    driver: str = ""
    memory_bytes: int = 0
    interfaces: list[Interface] = field(default_factory=list)
    renderers: list[Renderer] = field(default_factory=list)
    reason: str = ""
    fix: str = ""


def rows(kinds: Mapping[str, Sequence[Any]]) -> Iterator[Row]:
    """A row per device of every kind, in the default order; opens each."""
    for kind, ways in kinds.items():
        interfaces, refusal = [], None
        for way in ways:
            try:
                interfaces.append(Interface(way.interface, way.load()[1]()))
            except (HcqError, OSError) as error:
                refusal = error
                interfaces.append(Interface(way.interface, None, _first_line(error)))
        counts = [found.count for found in interfaces if found.count is not None]
        if not counts and refusal is not None:
            yield _refused(Row(kind, interfaces=interfaces), refusal)
            continue
        # Devices without an interface are made at will: one stands for all.
        count = max(counts) if any(way.interface for way in ways) else 1
        for index in range(max(count, 1)):
            yield _row(f"{kind}:{index}" if index else kind, interfaces)


def _row(name: str, interfaces: list[Interface]) -> Row:
    """Open a device and multiply on it."""
    from runtime.device import Device

    row = Row(name, interfaces=interfaces)
    try:
        opened = Device[name]
    except (HcqError, OSError) as error:
        return _refused(row, error)
    row.chip = opened.arch
    row.bus = getattr(opened.backend, "bus", "")
    row.driver = getattr(opened.backend, "driver", "")
    row.memory_bytes = getattr(opened.backend, "memory_size", 0)
    row.renderers = [_proved(opened, renderer) for renderer in opened.renderers]
    mine = next(found for found in row.renderers if found.name == opened.target)
    row.works, row.reason, row.fix = mine.works, mine.reason, mine.fix
    return row


def _proved(opened: Any, renderer: str) -> Renderer:
    try:
        found = multiply(opened, renderer)
    except (HcqError, OSError) as error:
        return Renderer(renderer, False, _first_line(error), getattr(error, "hint", None) or "")
    if found != PRODUCT:
        return Renderer(renderer, False, f"{LEFT} * {RIGHT} gave {found}")
    return Renderer(renderer, True)


def multiply(opened: Any, renderer: str) -> list[int]:
    """LEFT * RIGHT, computed on the device by code of a renderer."""
    from jit.schedule import schedule
    from runtime.call import ProgramCall
    from tensor import Tensor

    left, right = (
        Tensor(values, dtype="int32", device=opened.canonical).realize() for values in (LEFT, RIGHT)
    )
    product = left * right
    for call in schedule([product.node]):
        if isinstance(call, ProgramCall):
            opened.load(call.kernel.compile(renderer))(*call.buffers)
    return list(product.tolist())


def _refused(row: Row, error: BaseException) -> Row:
    row.reason = _first_line(error)
    row.fix = getattr(error, "hint", None) or ""
    return row


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def mark_default(found: list[Row]) -> Row | None:
    """Mark and return the default: what DEVICE names, else the first that opened."""
    from hcq.settings import get
    from runtime.device import Device

    if get("DEVICE"):
        name = Device.DEFAULT
        row = next((row for row in found if row.device == name), None)
        if row is None:
            row = _row(name, [])
            found.append(row)
    else:
        row = next((row for row in found if row.chip), None)
    if row is not None:
        row.is_default = True
    return row


def lines(found: Sequence[Row]) -> Iterator[str]:
    """The rows as text, one line each; `*` marks the default."""
    for row in found:
        mark = "*" if row.is_default else " "
        head = f"{mark} {row.device:6} {'ok' if row.works else 'no':3}"
        if not row.chip:
            yield f"{head} {_why(row)}"
            continue
        parts = [
            f"{row.chip:10}",
            *([f"at {row.bus}"] if row.bus else []),
            f"driver {row.driver or '-'}",
            f"memory {row.memory_bytes / 2**30:.1f} GiB",
            "interfaces " + (_listed(row.interfaces) or "-"),
            "renderers " + ", ".join(_renderer(r) for r in row.renderers),
        ]
        yield f"{head} " + "  ".join(parts)


def _listed(interfaces: Sequence[Interface]) -> str:
    named = (i for i in interfaces if i.name)
    return ", ".join(f"{i.name} {'-' if i.count is None else i.count}" for i in named)


def _renderer(found: Renderer) -> str:
    return f"{found.name} {'ok' if found.works else 'failed: ' + _why(found)}"


def _why(found: Row | Renderer) -> str:
    return found.reason + (f"; fix: {found.fix}" if found.fix else "")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit code."""
    parser = argparse.ArgumentParser(prog="hcq-devices", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON list instead of text")
    options = parser.parse_args(arguments)
    from runtime.device import KINDS

    try:
        found = list(rows(KINDS))
        default = mark_default(found)
    except HcqError as error:
        print(f"hcq-devices: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps([asdict(row) for row in found], indent=2))
    else:
        for line in lines(found):
            print(line)
    return 0 if default is not None and default.works else 1


if __name__ == "__main__":
    sys.exit(main())
