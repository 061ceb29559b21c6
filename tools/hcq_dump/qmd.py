"""NVIDIA launch records (QMD) to packets: one record, one line. Never reads past the end."""

from collections.abc import Iterator

from hcq.bits import Layout
from hcq.nv.arch import ARCHES
from hcq.nv.defs import qmd
from tools.hcq_dump.fields import number
from tools.hcq_dump.record import Fields, Packet

ALIGNMENT_WORDS = qmd.ALIGNMENT // 4
BANKS = 8
# A version may give a field in larger units; then the unit is part of the field's name.
_SHIFTS = {"_shifted4": 4, "_shifted6": 6, "_shifted7": 7}


def decode(words: list[int], arch: str = "sm_90") -> Iterator[Packet]:
    """Every record of the words; each starts at a multiple of 256 bytes, the last may be torn."""
    at = 0
    while at < len(words):
        packet = _record(words, at, arch)
        yield packet
        at += len(packet.raw)
        gap = words[at : at + -at % ALIGNMENT_WORDS]
        if gap:
            yield _padding(at, gap)
            at += len(gap)


def _padding(at: int, gap: list[int]) -> Packet:
    found = [("words", str(len(gap)))]
    if any(gap):
        used = [(f"?w{index}", f"{word:#x}") for index, word in enumerate(gap) if word]
        return Packet("QMD", "PADDING", at, gap, found + used, unknown=True)
    return Packet("QMD", "PADDING", at, gap, found)


def _record(words: list[int], at: int, arch: str) -> Packet:
    usual = next(row.qmd_version for row in ARCHES if row.name == arch)
    data = b"".join(word.to_bytes(4, "little") for word in words[at:])
    value = int.from_bytes(data, "little")
    major = qmd.TABLES[usual].unpack(value)["qmd_major_version"]
    # Hopper takes version 3 as well; the version stands in the same bits there.
    version = 3 if usual == 4 and major == 3 else usual
    layout = qmd.TABLES[version]
    needs = layout.size_bits // 32
    raw = words[at : at + needs]
    if len(raw) < needs:
        listed = [("words", ",".join(f"{word:#x}" for word in raw))]
        return Packet("QMD", f"QMDV{version:02}", at, raw, listed, torn=True,
                      notes=[f"!torn needs {needs}, has {len(raw)}"])  # fmt: skip
    if major != version:
        listed = [("words", ",".join(f"{word:#x}" for word in raw))]
        return Packet("QMD", f"?QMDV{major:02}", at, raw, listed, unknown=True,
                      notes=[f"version {major} is none of {arch}"])  # fmt: skip
    value &= (1 << layout.size_bits) - 1
    return _known(layout, at, raw, value)


def _known(layout: Layout, at: int, raw: list[int], value: int) -> Packet:
    found = layout.unpack(value)
    stray = layout.unknown(value)
    fields = _launch(found)
    strays = [
        (f"?w{index}", f"{stray >> 32 * index & 0xFFFFFFFF:#x}")
        for index in range(layout.size_bits // 32)
        if stray >> 32 * index & 0xFFFFFFFF
    ]
    children = [(name.upper(), number(bits)) for name, bits in found.items() if bits]
    return Packet("QMD", layout.name, at, raw, fields + strays, children, unknown=bool(stray))


def _launch(found: dict[str, int]) -> Fields:
    """What is launched: code, sizes, memory, constant banks, what follows."""
    grid = _axes(found, "cta_raster_width", "cta_raster_height", "cta_raster_depth")
    grid = grid or _axes(found, "grid_width", "grid_height", "grid_depth")
    block = _axes(found, *(f"cta_thread_dimension{axis}" for axis in range(3)))
    fields = [("program", f"{_address(found, 'program_address'):#x}"), ("grid", grid)]
    fields += [("block", block)]
    registers = found.get("register_count", found.get("register_count_v", 0))
    sizes = [
        ("registers", registers),
        ("barriers", found["barrier_count"]),
        ("shared", _sized(found, "shared_memory_size")),
        ("local", _sized(found, "shader_local_memory_high_size")),
    ]
    fields += [(name, str(value)) for name, value in sizes if value]
    return fields + _banks(found) + _releases(found) + _dependents(found)


def _axes(found: dict[str, int], *names: str) -> str:
    return ",".join(str(found[name]) for name in names) if names[0] in found else ""


def _sized(found: dict[str, int], name: str) -> int:
    """A field in bytes, whatever unit the version gives it in."""
    if name in found:
        return found[name]
    return next(found[name + end] << by for end, by in _SHIFTS.items() if name + end in found)


def _address(found: dict[str, int], name: str, index: str = "") -> int:
    for end, by in {"": 0, **_SHIFTS}.items():
        low = found.get(f"{name}_lower{end}{index}")
        if low is not None:
            return (found[f"{name}_upper{end}{index}"] << 32 | low) << by
    raise KeyError(name)


def _banks(found: dict[str, int]) -> Fields:
    fields = []
    for bank in range(BANKS):
        if found[f"constant_buffer_valid_{bank}"]:
            at = _address(found, "constant_buffer_addr", f"_{bank}")
            size = found[f"constant_buffer_size_shifted4_{bank}"] * qmd.CONSTANT_SIZE_UNIT
            fields.append((f"c{bank}", f"{at:#x}+{size:#x}"))
    return fields


def _releases(found: dict[str, int]) -> Fields:
    if not found.get("release0_enable", found.get("release_enable_0")):
        return []
    payload = found["release0_payload_upper"] << 32 | found["release0_payload_lower"]
    return [("release", f"{_address(found, 'release0_address'):#x}"), ("payload", number(payload))]


def _dependents(found: dict[str, int]) -> Fields:
    fields = []
    for index in range(2):
        if found.get(f"dependent_qmd{index}_enable"):
            at = found[f"dependent_qmd{index}_pointer"] << qmd.POINTER_SHIFT
            fields.append((f"then{index}", f"{at:#x}"))
    return fields
