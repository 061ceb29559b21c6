"""Code objects: ELF bytes read, checked and relocated; no device is touched.

Every refusal is a CodeObjectError naming field and value, or both targets.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hcq.amd.arch import Arch
from hcq.amd.defs import descriptor as defs
from hcq.amd.defs import registers
from hcq.amd.metadata import decode
from hcq.arguments import Argument, ArgumentLayout
from hcq.bits import align
from hcq.elf import (
    EM_AMDGPU,
    ET_DYN,
    SHF_EXECINSTR,
    ObjectFile,
    Relocation,
    Section,
    bad,
    foreign,
)
from hcq.errors import CodeObjectError, nearest

SUPPORTED_PROPERTIES = {
    "enable_sgpr_kernarg_segment_ptr",
    "enable_sgpr_private_segment_size",
    "enable_wavefront_size32",
}


@dataclass(frozen=True)
class Descriptor:
    """What the kernel descriptor says, by field."""

    fields: Mapping[str, int]
    properties: Mapping[str, int]

    def __getitem__(self, field: str) -> int:
        return self.fields[field]


@dataclass(frozen=True)
class CodeObject:
    """A parsed object: its image laid out from address 0, and one kernel of it."""

    entry: str
    file: ObjectFile
    places: Mapping[int, int]  # section index -> offset in the image
    size: int
    descriptor: Descriptor
    descriptor_at: int
    layout: ArgumentLayout
    hidden: tuple[Argument, ...]
    max_threads: int
    kernarg_alignment: int

    def image(self, address: int) -> bytes:
        """The bytes for an image that will lie at a GPU address, relocations applied."""
        image = bytearray(self.size)
        for section in self.file.loaded():
            start = self.places[section.index]
            image[start : start + section.size] = self.file.contents(section)
        for relocation in self.file.relocations:
            if relocation.section in self.places or self.file.kind == ET_DYN:
                relocate(self, image, relocation, address)
        return bytes(image)


def parse(image: bytes, entry: str, arch: Arch) -> CodeObject:
    """Read and check an object; CodeObjectError naming field and value, or both targets."""
    file = ObjectFile(image, machine=EM_AMDGPU, target=arch.name)
    check_target(file, arch)
    places, size = _place(file)
    symbol = file.symbol(f"{entry}.kd")
    if symbol is None or symbol.section not in places:
        raise _no_kernel(file, entry)
    home = file.sections[symbol.section]
    raw = file.contents(home)[symbol.value : symbol.value + defs.KERNEL_DESCRIPTOR_SIZE]
    if len(raw) != defs.KERNEL_DESCRIPTOR_SIZE:
        raise bad(f"{entry}.kd", symbol.value, "is cut short")
    descriptor_at = places[symbol.section] + symbol.value
    if descriptor_at % defs.DESCRIPTOR_ALIGNMENT:
        raise bad(f"{entry}.kd address", descriptor_at, "is not 64-byte aligned")
    fields = defs.KERNEL_DESCRIPTOR.unpack(int.from_bytes(raw, "little"))
    properties = defs.KERNEL_CODE_PROPERTIES.unpack(fields["kernel_code_properties"])
    descriptor = Descriptor(fields, properties)
    _check_descriptor(descriptor, entry, arch)
    kernel = _kernel_metadata(file, entry)
    layout, hidden = _arguments(kernel, entry, descriptor)
    return CodeObject(
        entry,
        file,
        places,
        size,
        descriptor,
        descriptor_at,
        layout,
        hidden,
        _integer(kernel, ".max_flat_workgroup_size", arch.max_threads),
        max(16, _integer(kernel, ".kernarg_segment_align", 16)),
    )


def check_target(file: ObjectFile, arch: Arch) -> None:
    """Refuse an object that is not for this chip, naming what it is for."""
    if file.os_abi != defs.ELFOSABI_AMDGPU_HSA:
        raise bad("e_ident OSABI", file.os_abi, "is not AMDGPU_HSA")
    if file.abi_version not in defs.ABI_VERSIONS:
        raise bad("e_ident ABI version", file.abi_version, "is not code object v4, v5 or v6")
    flags = defs.ELF_FLAGS.unpack(file.flags)
    target = defs.MACHINES.get(flags["mach"], f"machine {flags['mach']:#x}")
    if target != arch.name:
        raise foreign(target, arch.name)
    for feature in ("xnack", "sramecc"):
        if flags[feature] == defs.FEATURE_ON:
            raise foreign(f"{target}:{feature}+", arch.name)


def _place(file: ObjectFile) -> tuple[dict[int, int], int]:
    sections = file.loaded()
    is_placed = file.kind == ET_DYN
    places = {s.index: s.address for s in sections} if is_placed else _lay_out(sections)
    end = max((places[s.index] + s.size for s in sections), default=0)
    if end > 1 << 26:
        raise bad("image size", end, "is over 64 MiB")
    return places, end + defs.BYTES_AFTER_CODE


def _lay_out(sections: list[Section]) -> dict[int, int]:
    places, at = {}, 0
    # Code first, so that its 256-byte alignment costs nothing.
    for section in sorted(sections, key=lambda s: not s.flags & SHF_EXECINSTR):
        is_code = bool(section.flags & SHF_EXECINSTR)
        least = defs.CODE_ALIGNMENT if is_code else defs.DESCRIPTOR_ALIGNMENT
        at = align(at, max(section.alignment, least))
        places[section.index] = at
        at += section.size + (defs.BYTES_AFTER_CODE if is_code else 0)
    return places


def _no_kernel(file: ObjectFile, entry: str) -> CodeObjectError:
    names = [s.name[:-3] for s in file.symbols if s.name.endswith(".kd") and s.is_defined]
    return CodeObjectError(
        f"the code object has no kernel {entry!r}{nearest(entry, names)}",
        facts={"kernels": ", ".join(names) or "none"},
    )


def _check_descriptor(descriptor: Descriptor, entry: str, arch: Arch) -> None:
    for name, value in descriptor.properties.items():
        if value and name not in SUPPORTED_PROPERTIES:
            raise CodeObjectError(
                f"kernel {entry} needs {name}, which command queues here do not provide",
                facts={"kernel": entry, "field": name, "value": value},
                hint="run the module pass pipeline, so that only what is used is asked for",
            )
    if descriptor["kernarg_preload_spec_length"]:
        length = descriptor["kernarg_preload_spec_length"]
        raise bad(f"{entry} kernarg_preload_spec_length", length, f"is unknown on {arch.name}")
    used = registers.RSRC2.unpack(descriptor["compute_pgm_rsrc2"])["user_sgpr"]
    if used > arch.user_registers:
        raise bad(f"{entry} user_sgpr", used, f"is over {arch.user_registers}")
    wave = 32 if descriptor.properties["enable_wavefront_size32"] else 64
    if wave not in arch.wave_sizes:
        raise bad(f"{entry} wave size", wave, f"is not one of {arch.wave_sizes}")


def _kernel_metadata(file: ObjectFile, entry: str) -> Mapping[str, Any]:
    note = file.note(defs.NOTE_OWNER, defs.NT_AMDGPU_METADATA)
    if note is None:
        raise bad("metadata note", None, "is missing")
    kernels = decode(note).get("amdhsa.kernels")
    if not isinstance(kernels, list):
        raise bad("amdhsa.kernels", kernels, "is not a list")
    for kernel in kernels:
        if isinstance(kernel, dict) and kernel.get(".symbol") == f"{entry}.kd":
            return kernel
    raise bad("amdhsa.kernels", entry, "does not list the kernel")


def _integer(record: Mapping[str, Any], key: str, default: int) -> int:
    value = record.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 32:
        raise bad(f"metadata {key}", value, "is not a size")
    return value


def _arguments(
    kernel: Mapping[str, Any], entry: str, descriptor: Descriptor
) -> tuple[ArgumentLayout, tuple[Argument, ...]]:
    size = descriptor["kernarg_size"]
    records = kernel.get(".args", [])
    if not isinstance(records, list):
        raise bad("metadata .args", records, "is not a list")
    explicit: list[Argument] = []
    hidden: list[Argument] = []
    for index, record in enumerate(records):
        if not isinstance(record, dict):
            raise bad("metadata .args entry", record, "is not a map")
        kind = str(record.get(".value_kind"))
        argument = Argument(
            kind if kind.startswith("hidden_") else str(record.get(".name", f"argument{index}")),
            _integer(record, ".offset", 0),
            _integer(record, ".size", 0),
            kind == "global_buffer",
        )
        if argument.offset + argument.size > size:
            raise bad(f"argument {argument.name} offset", argument.offset, "is past the block")
        (hidden if kind.startswith("hidden_") else explicit).append(argument)
    _check_order(explicit)
    for argument in hidden:
        if argument.name not in defs.HIDDEN_ARGUMENTS and argument.name != "hidden_none":
            raise CodeObjectError(
                f"kernel {entry} needs {argument.name}, which is not provided",
                facts={"kernel": entry, "field": ".value_kind", "value": argument.name},
            )
    return ArgumentLayout(tuple(explicit), size), tuple(hidden)


def _check_order(arguments: list[Argument]) -> None:
    at = 0
    for argument in arguments:
        if argument.offset < at:
            raise bad(f"argument {argument.name} offset", argument.offset, "overlaps another")
        at = argument.offset + argument.size


@dataclass(frozen=True)
class _Kind:
    width: int
    is_relative: bool
    is_high: bool = False
    is_checked: bool = False


_RELOCATIONS = {
    defs.R_AMDGPU_ABS32_LO: _Kind(4, False),
    defs.R_AMDGPU_ABS32_HI: _Kind(4, False, is_high=True),
    defs.R_AMDGPU_ABS64: _Kind(8, False),
    defs.R_AMDGPU_REL32: _Kind(4, True, is_checked=True),
    defs.R_AMDGPU_REL64: _Kind(8, True),
    defs.R_AMDGPU_ABS32: _Kind(4, False, is_checked=True),
    defs.R_AMDGPU_REL32_LO: _Kind(4, True),
    defs.R_AMDGPU_REL32_HI: _Kind(4, True, is_high=True),
    defs.R_AMDGPU_RELATIVE64: _Kind(8, False),
}


def relocate(code: CodeObject, image: bytearray, relocation: Relocation, address: int) -> None:
    """Apply one relocation; CodeObjectError with number, symbol and value when it cannot be."""
    kind = _RELOCATIONS.get(relocation.kind)
    name = relocation.symbol.name
    if kind is None:
        raise bad(f"relocation of {name!r}, kind", relocation.kind, "is not supported")
    is_dynamic = code.file.kind == ET_DYN
    base = 0 if is_dynamic else code.places[relocation.section]
    at = base + relocation.offset
    room = len(image) if is_dynamic else base + code.file.sections[relocation.section].size
    if at + kind.width > room:
        raise bad(f"relocation of {name!r}, offset", relocation.offset, "is outside its section")
    value = _target(code, relocation, address) + relocation.addend
    value -= address + at if kind.is_relative else 0
    if kind.is_checked and not -(1 << 31) <= value < 1 << (31 if kind.is_relative else 32):
        raise bad(f"relocation {relocation.kind} of {name!r}, value", value, "needs over 32 bits")
    value = value >> 32 if kind.is_high else value
    image[at : at + kind.width] = (value % (1 << 8 * kind.width)).to_bytes(kind.width, "little")


def _target(code: CodeObject, relocation: Relocation, address: int) -> int:
    symbol = relocation.symbol
    if relocation.kind == defs.R_AMDGPU_RELATIVE64:
        return address
    if not symbol.is_defined:
        raise bad(f"symbol {symbol.name!r}", symbol.value, "is undefined")
    if symbol.section is None:
        return symbol.value
    if symbol.section not in code.places:
        raise bad(f"symbol {symbol.name!r} section", symbol.section, "is not loaded")
    return address + code.places[symbol.section] + symbol.value
