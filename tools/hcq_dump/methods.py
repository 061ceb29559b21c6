"""Methods of NVIDIA classes by number: names, fields, and words that belong together."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType

from hcq.bits import Layout
from hcq.nv.defs import classes, compute, copy, host
from tools.hcq_dump.fields import number
from tools.hcq_dump.record import Fields

_HOST_NAMES = (
    *("SET_OBJECT", "NOP", "NON_STALL_INTERRUPT", "MEM_OP_A", "MEM_OP_B", "MEM_OP_C", "MEM_OP_D"),
    *("SEM_ADDR_LO", "SEM_ADDR_HI", "SEM_PAYLOAD_LO", "SEM_PAYLOAD_HI", "SEM_EXECUTE"),
    *("WFI", "YIELD"),
)
# Methods of the engines lie between these offsets.
_ENGINE_METHODS = range(host.HOST_METHODS_END, 0x2000)
_INLINE_RECORD_WORDS = 96  # LOAD_INLINE_QMD_DATA(i), one word each
_REPORT_SEMAPHORE_64 = range(
    compute.SET_REPORT_SEMAPHORE_PAYLOAD_LOWER, compute.REPORT_SEMAPHORE_EXECUTE + 4
)
_COMPUTE_CLASSES = (0xC6C0, 0xC7C0, 0xC9C0, 0xCBC0, 0xCDC0, 0xCEC0)
_COPY_CLASSES = (0xC6B5, 0xC7B5, 0xC8B5, 0xC9B5, 0xCAB5)

# Two methods that make one value: the first one's name, whether it is the upper word, the joint
# name. The second one is the next method.
_JOINED: dict[str, tuple[bool, str]] = {
    "SEM_ADDR_LO": (False, "SEM_ADDR"),
    "SEM_PAYLOAD_LO": (False, "SEM_PAYLOAD"),
    "OFFSET_IN_UPPER": (True, "OFFSET_IN"),
    "OFFSET_OUT_UPPER": (True, "OFFSET_OUT"),
    "SET_SEMAPHORE_A": (True, "SET_SEMAPHORE"),
    "SET_REPORT_SEMAPHORE_A": (True, "SET_REPORT_SEMAPHORE"),
    "SET_SHADER_LOCAL_MEMORY_A": (True, "SET_SHADER_LOCAL_MEMORY"),
    "SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A": (True, "SET_SHADER_LOCAL_MEMORY_NON_THROTTLED"),
    "SET_SHADER_LOCAL_MEMORY_WINDOW_A": (True, "SET_SHADER_LOCAL_MEMORY_WINDOW"),
    "SET_SHADER_SHARED_MEMORY_WINDOW_A": (True, "SET_SHADER_SHARED_MEMORY_WINDOW"),
}


def _named(module: ModuleType, prefix: str) -> dict[int, str]:
    found = vars(module).items()
    return {v: k.removeprefix(prefix) for k, v in found if k.startswith(prefix)}


# (method, field): its values by name.
_VALUES: dict[tuple[str, str], Mapping[int, str]] = {
    ("SEM_EXECUTE", "operation"): {item.value: item.name for item in host.Operation},
    ("SEM_EXECUTE", "reduction"): {item.value: item.name for item in host.Reduction},
    ("MEM_OP_D", "operation"): {
        value: name.removeprefix("MEM_OP_")
        for name, value in vars(host).items()
        if name.startswith("MEM_OP_") and isinstance(value, int) and value not in range(0x28, 0x38)
    },
    ("SEND_SIGNALING_PCAS2_B", "pcas_action"): _named(compute, "PCAS_"),
}


@dataclass(frozen=True)
class Table:
    """The methods of one kind of class: names by offset, bit fields by name."""

    names: Mapping[int, str]
    layouts: Mapping[str, Layout]


def _layouts(module: ModuleType) -> dict[str, Layout]:
    return {found.name: found for found in vars(module).values() if isinstance(found, Layout)}


def _engine(module: ModuleType) -> Table:
    names = {
        value: name
        for name, value in vars(module).items()
        if isinstance(value, int) and value in _ENGINE_METHODS
    }
    return Table(names, _layouts(module))


def _compute() -> Table:
    table = _engine(compute)
    inline = {
        compute.LOAD_INLINE_QMD_DATA + 4 * index: f"LOAD_INLINE_QMD_DATA_{index}"
        for index in range(1, _INLINE_RECORD_WORDS)
    }
    return Table({**table.names, **inline}, table.layouts)


def _oldest_compute(table: Table) -> Table:
    names = {k: v for k, v in table.names.items() if k not in _REPORT_SEMAPHORE_64}
    return Table(names, table.layouts)


HOST = Table({vars(host)[name]: name for name in _HOST_NAMES}, _layouts(host))
_COMPUTE = _compute()
TABLES: dict[int, Table] = {
    **dict.fromkeys(_COMPUTE_CLASSES, _COMPUTE),
    classes.AMPERE_COMPUTE_A: _oldest_compute(_COMPUTE),
    **dict.fromkeys(_COPY_CLASSES, _engine(copy)),
}


def joined(table: Table, method: int) -> tuple[bool, str] | None:
    """(whether the first word is the upper one, name) of a value that this and the next make."""
    return _JOINED.get(table.names.get(method, ""))


def word_fields(table: Table, method: int, word: int) -> tuple[Fields, bool]:
    """What a word means to a method, and whether all of it is known."""
    name = table.names.get(method)
    if name is None:
        return [(f"?{method:#06x}", f"{word:#x}")], False
    layout = table.layouts.get(name)
    if layout is None:
        return [(name, number(word))], True
    found = [
        (field.upper(), _value(name, field, value))
        for field, value in reversed(layout.unpack(word).items())
        if value or ((name, field) in _VALUES and field == "operation")
    ]
    stray = layout.unknown(word)
    if stray:
        found.append(("reserved", f"?{stray:#x}"))
    return found or [(name, number(word))], not stray


def _value(name: str, field: str, value: int) -> str:
    known = _VALUES.get((name, field))
    if known is None:
        return number(value)
    return known.get(value, f"?{value:#x}")
