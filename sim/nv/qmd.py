"""Launch records (QMD 3, 4, 5): read from memory and checked as the hardware would.

Source: hcq/nv/defs/qmd.py names the documents. A bit that no known field covers is
refused, since its effect is not known either.
"""

from dataclasses import dataclass

from hcq.bits import Layout
from hcq.errors import SimFault
from hcq.nv.defs import qmd
from sim.memory import GpuMemory
from sim.nv.chips import Chip

BANKS = 8
RELEASES = 3
MAX_THREADS = 1024
MAX_BLOCK = (1024, 1024, 64)
MAX_GRID = ((1 << 31) - 1, 65535, 65535)
MAX_BARRIERS = 16
SHARED_UNIT = 128
LEAST_SHARED = 1024
OLD_CONSTANT_ALIGNMENT = 256  # version 3; later ones cannot say anything finer than 64
REGISTER_FILE = 65536  # registers of one SM
# Instructions are fetched ahead: so many bytes after the code have to be mapped.
PREFETCH_BEYOND = 4096
# Where the version is said: the same bits in 3 and 4, others in 5.
_VERSION_BITS = {3: 580, 4: 580, 5: 468}
# How a field's name says that its value has to be shifted.
_SHIFTS = {"": 0, "_shifted4": 4, "_shifted6": 6, "_shifted7": 7}
_CARVEOUT_UNIT = 4 << 10
_SCHEDULING = (qmd.DEPENDENT_SCHEDULE, qmd.DEPENDENT_INVALIDATE_COPY_SCHEDULE)


@dataclass(frozen=True)
class Release:
    """A semaphore that is written when the grid is complete."""

    address: int
    payload: int
    words: int  # 1, 2, or 4: with the time
    is_wide: bool


@dataclass(frozen=True)
class Grid:
    """A launch record. Sizes in bytes; `following` are records that start afterwards."""

    address: int
    version: int
    code: int
    registers: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    local: int  # per thread
    barriers: int
    constants: tuple[tuple[int, int] | None, ...]
    releases: tuple[Release, ...]
    following: tuple[int, ...]


def read(memory: GpuMemory, address: int, chip: Chip) -> Grid:
    """The launch record at an address; SimFault or PageFault for a bad one."""
    if address % qmd.ALIGNMENT:
        raise SimFault(f"launch record at {address:#x} is not aligned to {qmd.ALIGNMENT} bytes")
    version = _version(memory, address, chip)
    table = _TABLES[version]
    size = table.layout.size_bits // 8
    found = _Fields(table, int.from_bytes(memory.read(address, size), "little"))
    return Grid(
        address=address,
        version=version,
        code=_code(memory, found, chip),
        registers=_registers(found),
        grid=_sizes(found, found.table.grid, MAX_GRID, "grid"),
        block=_block(found),
        shared=_shared(found, chip),
        local=found.scaled("shader_local_memory_low_size")
        + found.scaled("shader_local_memory_high_size"),
        barriers=_barriers(found),
        constants=_constants(memory, found),
        releases=tuple(filter(None, (_release(found, slot) for slot in range(RELEASES)))),
        following=_following(found),
    )


class _Table:
    """A version's layout, made ready for reading: the bits it covers, each field's place."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.places = {
            name: (low, (1 << high - low + 1) - 1) for name, (high, low) in layout.fields.items()
        }
        self.strays = (1 << layout.size_bits) - 1
        for low, mask in self.places.values():
            self.strays &= ~(mask << low)
        # A field's own name, and how far its value is shifted, by the name without the suffix.
        self.scaled: dict[str, tuple[str, int]] = {}
        for name in layout.fields:
            for suffix, shift in _SHIFTS.items():
                if suffix and suffix in name:
                    self.scaled[name.replace(suffix, "")] = name, shift
            self.scaled.setdefault(name, (name, 0))
        is_old = "cta_raster_width" in layout.fields
        self.grid = "cta_raster" if is_old else "grid"
        self.registers = "register_count_v" if is_old else "register_count"


_TABLES = {version: _Table(layout) for version, layout in qmd.TABLES.items()}


class _Fields:
    """The fields of one record."""

    def __init__(self, table: _Table, word: int) -> None:
        self.table = table
        stray = word & table.strays
        if stray:
            layout = table.layout
            bits = [bit for bit in range(layout.size_bits) if stray >> bit & 1]
            raise SimFault(f"{layout.name}: bits {_spans(bits)} are set and not known")
        self._word = word

    def __getitem__(self, name: str) -> int:
        low, mask = self.table.places[name]
        return self._word >> low & mask

    def get(self, name: str) -> int:
        """A field that not every version has; 0 without it."""
        return self[name] if name in self.table.places else 0

    def scaled(self, name: str) -> int:
        """A field's value in its unit."""
        own, shift = self.table.scaled[name]
        return self[own] << shift

    def address(self, name: str, index: str = "") -> int:
        """An address from a lower and an upper field."""
        lower, upper = f"{name}_lower{index}", f"{name}_upper{index}"
        shift = self.table.scaled[lower][1]
        return (self.scaled(upper) >> shift << 32) << shift | self.scaled(lower)


def _spans(bits: list[int]) -> str:
    """Bit numbers as the manual writes them: 31:24, 7."""
    spans: list[list[int]] = []
    for bit in bits:
        if spans and spans[-1][0] == bit - 1:
            spans[-1][0] = bit
        else:
            spans.append([bit, bit])
    return ", ".join(f"{high}:{low}" if high > low else f"{low}" for high, low in spans)


def _version(memory: GpuMemory, address: int, chip: Chip) -> int:
    word = int.from_bytes(memory.read(address, 256), "little")
    said = {version: word >> bit & 0xF for version, bit in _VERSION_BITS.items()}
    for version in chip.qmd_versions:
        if said[version] == version:
            return version
    first = said[chip.qmd_versions[-1]]
    known = " or ".join(map(str, chip.qmd_versions))
    raise SimFault(f"launch record at {address:#x} has version {first}, {chip.name} takes {known}")


def _code(memory: GpuMemory, found: _Fields, chip: Chip) -> int:
    sass, kind = found["sass_version"], found.get("qmd_type")
    if sass != chip.sass_version:
        raise SimFault(f"SASS_VERSION {sass:#x}, this chip runs {chip.sass_version:#x}")
    if kind not in (0, qmd.TYPE_GRID_CTA):
        raise SimFault(f"QMD_TYPE {kind} is not simulated")
    for name in ("gpc_cga_width", "gpc_cga_height", "gpc_cga_depth"):
        if found.get(name) > 1:
            raise SimFault(f"{name} {found.get(name)}: clusters are not simulated")
    code = found.address("program_address")
    if code % 128:
        raise SimFault(f"PROGRAM_ADDRESS {code:#x} is not aligned to 128 bytes")
    memory.check(code, 16, "execute")
    if found["program_prefetch_size"]:
        upper = found["program_prefetch_addr_upper_shifted"]
        start = (upper << 32 | found["program_prefetch_addr_lower_shifted"]) << qmd.PREFETCH_SHIFT
        size = found["program_prefetch_size"] << qmd.PREFETCH_SHIFT
        memory.check(start, size + PREFETCH_BEYOND, "execute")
    return code


def _registers(found: _Fields) -> int:
    count = found[found.table.registers]
    if not 0 < count <= 255:
        raise SimFault(f"REGISTER_COUNT {count}, allowed are 1 to 255")
    return count


def _sizes(
    found: _Fields, stem: str, most: tuple[int, int, int], what: str
) -> tuple[int, int, int]:
    size = found[f"{stem}_width"], found[f"{stem}_height"], found[f"{stem}_depth"]
    if any(value > limit for value, limit in zip(size, most, strict=True)):
        raise SimFault(f"a {what} of {size}, allowed are {most}")
    return size


def _block(found: _Fields) -> tuple[int, int, int]:
    x, y, z = (found[f"cta_thread_dimension{axis}"] for axis in range(3))
    if not all(0 < value <= most for value, most in zip((x, y, z), MAX_BLOCK, strict=True)):
        raise SimFault(f"a block of {x} x {y} x {z} threads, allowed are {MAX_BLOCK}")
    if x * y * z > MAX_THREADS:
        raise SimFault(f"a block of {x * y * z} threads, allowed are {MAX_THREADS}")
    # Registers are given to warps in units of 256.
    warps = -(-x * y * z // 32)
    needed = warps * -(-_registers(found) * 32 // 256) * 256
    if needed > REGISTER_FILE:
        raise SimFault(f"a block needs {needed} registers, an SM has {REGISTER_FILE}")
    return x, y, z


def _shared(found: _Fields, chip: Chip) -> int:
    size = found.scaled("shared_memory_size")
    if size % SHARED_UNIT or not LEAST_SHARED <= size <= chip.shared_limit:
        limits = f"{LEAST_SHARED} to {chip.shared_limit} in steps of {SHARED_UNIT}"
        raise SimFault(f"SHARED_MEMORY_SIZE {size}, allowed are {limits}")
    low, target, high = (
        found[f"{name}_sm_config_shared_mem_size"] for name in ("min", "target", "max")
    )
    if not low <= target <= high or (target - 1) * _CARVEOUT_UNIT < size:
        raise SimFault(
            f"SM_CONFIG_SHARED_MEM_SIZE {low}, {target}, {high} (least, target, most) for "
            f"{size} bytes of shared memory"
        )
    return size


def _barriers(found: _Fields) -> int:
    if found["barrier_count"] > MAX_BARRIERS:
        raise SimFault(f"BARRIER_COUNT {found['barrier_count']}, there are {MAX_BARRIERS}")
    return found["barrier_count"]


def _constants(memory: GpuMemory, found: _Fields) -> tuple[tuple[int, int] | None, ...]:
    banks: list[tuple[int, int] | None] = []
    for bank in range(BANKS):
        if not found[f"constant_buffer_valid_{bank}"]:
            banks.append(None)
            continue
        address = found.address("constant_buffer_addr", f"_{bank}")
        if found.table.layout is qmd.QMD_V3 and address % OLD_CONSTANT_ALIGNMENT:
            raise SimFault(f"constant bank {bank} at {address:#x} is not aligned to 256 bytes")
        size = found[f"constant_buffer_size_shifted4_{bank}"] * qmd.CONSTANT_SIZE_UNIT
        memory.check(address, size, "read")
        banks.append((address, size))
    return tuple(banks)


def _release(found: _Fields, slot: int) -> Release | None:
    old = f"release{slot}_"
    if found.table.layout is qmd.QMD_V3:
        flags = {n: found.get(f"{old}{n}") for n in ("enable", *_RELEASE_FLAGS)}
    else:
        flags = {n: found.get(f"release_{n}_{slot}") for n in ("enable", *_RELEASE_FLAGS)}
    if not flags["enable"]:
        return None
    if flags["reduction_enable"] or flags["trap_type"]:
        raise SimFault(f"release {slot} with a reduction or a trap is not simulated")
    words = {0: 4, 1: 1, 2: 2}.get(flags["structure_size"])
    if words is None:
        raise SimFault(f"RELEASE{slot}_STRUCTURE_SIZE 3 is not known")
    address = found.get(f"{old}address_upper") << 32 | found[f"{old}address_lower"]
    if address % (4 * words):
        raise SimFault(f"release {slot} at {address:#x} is not aligned to {4 * words} bytes")
    wide = bool(flags["payload64b"])
    payload = found[f"{old}payload_lower"]
    if wide:
        payload |= found.get(f"{old}payload_upper") << 32
    return Release(address, payload, words, wide)


_RELEASE_FLAGS = ("structure_size", "reduction_enable", "trap_type", "payload64b")


def _following(found: _Fields) -> tuple[int, ...]:
    chained = []
    for number in range(2):
        stem = f"dependent_qmd{number}_"
        if not found.get(f"{stem}enable"):
            continue
        if found[f"{stem}action"] not in _SCHEDULING:
            raise SimFault(f"{stem}action {found[f'{stem}action']} is not simulated")
        chained.append(found[f"{stem}pointer"] << qmd.POINTER_SHIFT)
    return tuple(chained)
