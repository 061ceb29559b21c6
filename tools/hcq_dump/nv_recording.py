"""What is particular to recordings of NVIDIA devices: rings of pointers, calls with a status."""

from collections.abc import Iterator, Mapping
from typing import Any

from hcq.bits import align
from hcq.ioctl_defs import Ioctl, nv_ctrl, nv_escape, nv_rm
from hcq.nv.defs import classes, host
from tools.hcq_dump import lists
from tools.hcq_dump.classes import NAMES
from tools.hcq_dump.qmd import ALIGNMENT_WORDS
from tools.hcq_dump.record import Place
from tools.hcq_dump.source import Stream
from tools.hcq_dump.words import recorded

WORD = 4
_NOTHING = ("0x0", "[]", "{}")
STATUS = ("status", "rmStatus", "Status")
_CONTROLS = {control.number: control.name for control in nv_ctrl.CONTROLS}
# What a call's further arguments can be: by control or class, then by size.
_INNER: dict[int, dict[int, Ioctl]] = {}
for _found in vars(nv_ctrl).values():
    if isinstance(_found, nv_ctrl.Control):
        _INNER.setdefault(_found.number, {})[_found.size] = _found
_CHANNELS = (nv_rm.CHANNEL, nv_rm.CHANNEL_570, nv_rm.CHANNEL_610)
_CLASSES: dict[int, tuple[Ioctl, ...]] = {
    classes.NV01_ROOT_CLIENT: (nv_rm.ROOT, nv_rm.ROOT_570),
    classes.NV01_DEVICE_0: (nv_rm.DEVICE,),
    classes.NV20_SUBDEVICE_0: (nv_rm.SUBDEVICE,),
    classes.HOPPER_USERMODE_A: (nv_rm.USERMODE,),
    classes.BLACKWELL_USERMODE_A: (nv_rm.USERMODE,),
    classes.FERMI_VASPACE_A: (nv_rm.ADDRESS_SPACE, nv_rm.ADDRESS_SPACE_580),
    classes.NV01_MEMORY_LOCAL_USER: (nv_rm.MEMORY,),
    classes.NV01_MEMORY_SYSTEM: (nv_rm.MEMORY,),
    classes.KEPLER_CHANNEL_GROUP_A: (nv_rm.CHANNEL_GROUP,),
    classes.FERMI_CONTEXT_SHARE_A: (nv_rm.CONTEXT_SHARE,),
    classes.GT200_DEBUGGER: (nv_rm.DEBUGGER,),
    classes.NV_CONFIDENTIAL_COMPUTE: (nv_rm.CONFIDENTIAL,),
    **dict.fromkeys(
        (
            *(classes.AMPERE_CHANNEL_GPFIFO_A, classes.HOPPER_CHANNEL_GPFIFO_A),
            *(classes.BLACKWELL_CHANNEL_GPFIFO_A, classes.BLACKWELL_CHANNEL_GPFIFO_B),
        ),
        _CHANNELS,
    ),
}
for _number, _structs in _CLASSES.items():
    _INNER[_number] = {found.size: found for found in _structs}


class _Memory:
    """Words at addresses, as a submission recorded them."""

    def __init__(self, address: int, listed: list[str]) -> None:
        self.address = address
        self.words = recorded(listed)
        self.methods_end = 0  # in words

    def holds(self, address: int) -> bool:
        """Whether an address lies inside."""
        return 0 <= address - self.address < len(self.words) * WORD

    def piece(self, address: int, count: int) -> list[int]:
        """Words at an address; those behind them may be launch records."""
        at = (address - self.address) // WORD
        self.methods_end = max(self.methods_end, at + count)
        return self.words[at : at + count]

    def records(self) -> list[int]:
        """What lies behind the methods, from the next place for a launch record."""
        return self.words[self._records_start() :]

    def records_at(self) -> int:
        """The address of that place."""
        return self.address + self._records_start() * WORD

    def _records_start(self) -> int:
        return align(self.methods_end, ALIGNMENT_WORDS)


def streams(record: dict[str, Any]) -> Iterator[Stream]:
    """A submission: its ring entries, the pieces they point to, the launch records behind."""
    arch = str(record["arch"])
    device, queue = str(record.get("device", "device")), str(record.get("queue", "-"))
    number = int(record.get("seq", 0))
    entries = [int(entry, 16) for entry in record["entries"]]
    ring = [word for entry in entries for word in (entry & 0xFFFFFFFF, entry >> 32)]
    yield Stream("gpfifo", Place(device, queue, number, 0), ring, arch)
    pieces = [(_address(entry), _count(entry)) for entry in entries if _count(entry)]
    memories = _memories(record, pieces)
    words = [_piece(memories, address, count) for address, count in pieces]
    behind = [memory for memory in memories if memory.records()]
    first = 1 + len(pieces)
    shown = _places(behind, first)
    for buffer, ((address, count), found) in enumerate(zip(pieces, words, strict=True), 1):
        place = Place(device, queue, number, buffer, address)
        yield Stream("pushbuffer", place, found, arch, count, shown)
    for buffer, memory in enumerate(behind, first):
        place = Place(device, queue, number, buffer, memory.records_at())
        yield Stream("qmd", place, memory.records(), arch)


def _piece(memories: list["_Memory"], address: int, count: int) -> list[int]:
    memory = next((found for found in memories if found.holds(address)), None)
    return memory.piece(address, count) if memory else []


def _places(memories: list["_Memory"], first: int) -> dict[int, str]:
    """Where each place for a launch record is shown: buffer and offset, by address."""
    step = ALIGNMENT_WORDS * WORD
    return {
        memory.records_at() + offset: f"b{buffer}+{offset:#06x}"
        for buffer, memory in enumerate(memories, first)
        for offset in range(0, len(memory.records()) * WORD, step)
    }


def _memories(record: dict[str, Any], pieces: list[tuple[int, int]]) -> list[_Memory]:
    """Bound words at their addresses; the other words where the first other entry points."""
    bound = [
        _Memory(int(part["address"], 16), part["words"]) for part in record.get("indirect", ())
    ]
    others = (at for at, _ in pieces if not any(memory.holds(at) for memory in bound))
    start = next(others, None)
    return bound if start is None else [_Memory(start, record["words"]), *bound]


def _address(entry: int) -> int:
    found = host.GP_ENTRY.unpack(entry)
    return found["get_hi"] << 32 | found["get"] << 2


def _count(entry: int) -> int:
    return host.GP_ENTRY.unpack(entry)["length"]


def describe(record: dict[str, Any]) -> dict[str, str]:
    """Names for numbers in a call's arguments: classes, controls, statuses ("KEY out")."""
    if not str(record.get("name")).startswith(("NV_ESC_", "UVM_")):
        return {}
    before, after = dict(record.get("args", {})), dict(record.get("out", {}))
    found = {}
    if "hClass" in before:
        found["hClass"] = _named(before["hClass"], NAMES)
    if "cmd" in before and record["name"] == "NV_ESC_RM_CONTROL":
        found["cmd"] = _named(before["cmd"], _CONTROLS)
    for key in STATUS:
        if key in after:
            found[f"{key} out"] = _named(after[key], nv_escape.STATUS_NAMES)
    return found


def inner(record: dict[str, Any]) -> list[str]:
    """The further arguments of a call as one word, and what of them came back otherwise."""
    data = bytes.fromhex(str(record.get("inner", "")))
    if not data:
        return []
    struct = _inner_struct(record, data)
    if struct is None:
        return [f"inner=?0x{data.hex()}"]
    before = _fields(struct, data) | _listed(struct, lists.texts(record, "in"))
    back = bytes.fromhex(record["inner_out"])
    after = _fields(struct, back) | _listed(struct, lists.texts(record, "out"))
    sent = [f"{key}={value}" for key, value in before.items() if value not in _NOTHING]
    changed = [f"{key}={value}" for key, value in after.items() if before[key] != value]
    words = [f"inner={{{','.join(sent)}}}"]
    return words + ([f"inner_out={{{','.join(changed)}}}"] if changed else [])


def inner_json(record: dict[str, Any]) -> dict[str, object]:
    """The further arguments before and after a call, every field; as hex where unknown."""
    data = bytes.fromhex(str(record.get("inner", "")))
    if not data:
        return {}
    struct = _inner_struct(record, data)
    if struct is None:
        return {"inner": f"?0x{data.hex()}", "inner_out": f"?0x{record['inner_out']}"}
    before = _fields(struct, data) | _listed(struct, lists.as_json(record, "in"))
    back = bytes.fromhex(record["inner_out"])
    after = _fields(struct, back) | _listed(struct, lists.as_json(record, "out"))
    return {"inner": before, "inner_out": after}


def _inner_struct(record: dict[str, Any], data: bytes) -> Ioctl | None:
    number = int(record["args"].get("cmd", record["args"].get("hClass", "0x0")), 16)
    return _INNER.get(number, {}).get(len(data))


def _fields(struct: Ioctl, data: bytes) -> dict[str, Any]:
    args = struct.args()
    struct.ffi.memmove(args, data, struct.size)
    return struct.values(args)


def _listed(struct: Ioctl, found: Mapping[str, Any]) -> dict[str, Any]:
    """What the further arguments point to, instead of the pointers."""
    return {item.field: found[item.field] for item in struct.lists if item.field in found}


def _named(text: str, names: dict[int, str]) -> str:
    return names.get(int(text, 16), f"?{text}")
