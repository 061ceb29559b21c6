"""NVIDIA launch records (QMD) to packets: one record, one line. Never reads past the end."""

from collections.abc import Iterator, Mapping
from functools import partial

from hcq.bits import Layout
from hcq.nv.arch import ARCHES
from hcq.nv.defs import qmd
from tools.hcq_dump.fields import count, counts, hexadecimal, number, words
from tools.hcq_dump.record import WORD_BYTES, BitField, Fields, Packet

WORD_BITS = 32
ALIGNMENT_WORDS = qmd.ALIGNMENT // 4
BANKS = 8
_VERSION = "qmd_major_version"
# A version may give a field in larger units; then the unit is part of the field's name.
_SHIFTS = {"_shifted4": 4, "_shifted6": 6, "_shifted7": 7}


def decode(
    listed: list[int],
    arch: str = "sm_90",
    address: int | None = None,
    launches: Mapping[int, str] | None = None,
) -> Iterator[Packet]:
    """Every record of the words; each starts at a multiple of 256 bytes, the last may be torn.

    address: of the words on the GPU; launches: what started the record at an address.
    """
    at = 0
    while at < len(listed):
        packet = _record(listed, at, arch)
        started = (launches or {}).get((address or 0) + at * WORD_BYTES)
        if address is not None and started is not None:
            packet.notes.append(f"started by {started}")
        yield packet
        at += len(packet.raw)
        gap = listed[at : at + -at % ALIGNMENT_WORDS]
        if gap:
            yield _padding(at, gap)
            at += len(gap)


def _padding(at: int, gap: list[int]) -> Packet:
    found: Fields = [("words", count(len(gap)))]
    if any(gap):
        used = [(f"?w{index}", hexadecimal(word)) for index, word in enumerate(gap) if word]
        return Packet("QMD", "PADDING", at, gap, found + used, unknown=True)
    return Packet("QMD", "PADDING", at, gap, found)


def version_of(listed: list[int], at: int = 0) -> int | None:
    """The version that a record itself names, in the place where that version has it."""
    value = _value(listed[at:])
    matching = (v for v, layout in qmd.TABLES.items() if layout.unpack(value)[_VERSION] == v)
    return next(matching, None)


def arches_of(version: int) -> list[str]:
    """The chips that take records of a version."""
    return [row.name for row in ARCHES if version in _taken(row.qmd_version)]


def _taken(usual: int) -> tuple[int, ...]:
    # Hopper takes version 3 as well; the version stands in the same bits there.
    return (usual, 3) if usual == 4 else (usual,)


def _value(listed: list[int]) -> int:
    most = max(layout.size_bits for layout in qmd.TABLES.values()) // WORD_BITS
    data = b"".join(word.to_bytes(4, "little") for word in listed[:most])
    return int.from_bytes(data, "little")


def _record(listed: list[int], at: int, arch: str) -> Packet:
    usual = next(row.qmd_version for row in ARCHES if row.name == arch)
    value = _value(listed[at:])
    major = qmd.TABLES[usual].unpack(value)[_VERSION]
    version = major if major in _taken(usual) else usual
    layout = qmd.TABLES[version]
    needs = layout.size_bits // WORD_BITS
    raw = listed[at : at + needs]
    if len(raw) < needs:
        return Packet("QMD", f"QMDV{version:02}", at, raw, [("words", words(raw))], torn=True,
                      notes=[f"!torn needs {needs}, has {len(raw)}"])  # fmt: skip
    if major != version:
        return Packet("QMD", f"?QMDV{major:02}", at, raw, [("words", words(raw))], unknown=True,
                      notes=[_other_version(listed, at, major, arch)])  # fmt: skip
    value &= (1 << layout.size_bits) - 1
    return _known(layout, at, raw, value)


def _other_version(listed: list[int], at: int, major: int, arch: str) -> str:
    likely = version_of(listed, at)
    if likely is None:
        return f"version {major} is none of {arch}"
    chips = " or ".join(arches_of(likely))
    return f"no record of {arch}: this looks like version {likely}, of --arch {chips}"


def _known(layout: Layout, at: int, raw: list[int], value: int) -> Packet:
    found = layout.unpack(value)
    stray = layout.unknown(value)
    fields = _launch(found)
    strays = [
        (f"?w{index}", hexadecimal(stray >> WORD_BITS * index & 0xFFFFFFFF))
        for index in range(layout.size_bits // WORD_BITS)
        if stray >> WORD_BITS * index & 0xFFFFFFFF
    ]
    bits = partial(_bits, layout, found)
    return Packet("QMD", layout.name, at, raw, fields + strays, bits, unknown=bool(stray))


def _bits(layout: Layout, found: dict[str, int]) -> list[BitField]:
    """Every field, lowest first, by the word that holds it."""
    made = []
    for name, (high, low) in sorted(layout.fields.items(), key=lambda item: item[1][1]):
        word, base = low // WORD_BITS, low // WORD_BITS * WORD_BITS
        span = high - base, low - base
        made.append(BitField(word, span, name.upper(), number(found[name]), found[name]))
    return made


def _launch(found: dict[str, int]) -> Fields:
    """What is launched: code, sizes, memory, constant banks, what follows."""
    grid = _axes(found, "cta_raster_width", "cta_raster_height", "cta_raster_depth")
    grid = grid or _axes(found, "grid_width", "grid_height", "grid_depth")
    block = _axes(found, *(f"cta_thread_dimension{axis}" for axis in range(3)))
    fields: Fields = [("program", f"{_address(found, 'program_address'):#x}"), ("grid", grid)]
    fields += [("block", block)]
    registers = found.get("register_count", found.get("register_count_v", 0))
    sizes = [
        ("registers", registers),
        ("barriers", found["barrier_count"]),
        ("shared", _sized(found, "shared_memory_size")),
        ("local", _sized(found, "shader_local_memory_high_size")),
    ]
    fields += [(name, count(value)) for name, value in sizes if value]
    return fields + _banks(found) + _releases(found) + _dependents(found)


def _axes(found: dict[str, int], *names: str) -> str:
    return counts(found[name] for name in names) if names[0] in found else ""


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
