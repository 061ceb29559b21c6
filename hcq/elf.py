"""ELF64 code objects: sections, symbols, notes and relocations, checked before use.

pyelftools reads the structures; this module first checks every offset and size
against the file, so that a cut or bit-flipped object is a CodeObjectError naming
the field and never a large allocation.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from typing import Any

from hcq.bits import align
from hcq.errors import CodeObjectError

HEADER_SIZE = 64
SECTION_HEADER_SIZE = 64
SYMBOL_SIZE, RELOCATION_SIZE, SHORT_RELOCATION_SIZE = 24, 24, 16
MAX_SECTIONS = 4096
MAX_IMAGE_BYTES = 32 << 20
ET_REL, ET_EXEC, ET_DYN = 1, 2, 3
SHT_SYMTAB, SHT_RELA, SHT_NOTE, SHT_NOBITS, SHT_REL, SHT_DYNSYM = 2, 4, 7, 8, 9, 11
SHF_ALLOC, SHF_EXECINSTR = 2, 4
EM_CUDA, EM_AMDGPU = 190, 224
# Source: System V ABI, e_machine values; what else is given instead of a kernel's object.
MACHINES = {
    62: "x86-64",
    183: "AArch64",
    EM_CUDA: "an NVIDIA GPU",
    EM_AMDGPU: "an AMD GPU",
    247: "BPF",
    248: "RISC-V",
}
TEXT_BYTES = 4096  # looked at to tell text from an object
_NO_TEXT = bytes({*range(32), 127} - set(b"\t\n\f\r"))
# Source: System V ABI, ELF-64 object file format, figure 2.
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")


@dataclass(frozen=True)
class Section:
    """One section; `address` is where it lies in the loaded image (alloc sections)."""

    index: int
    name: str
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int

    @property
    def is_loaded(self) -> bool:
        """Whether it takes up memory."""
        return bool(self.flags & SHF_ALLOC) and self.size > 0


@dataclass(frozen=True)
class Symbol:
    """One symbol: the section it lies in (None: absolute or undefined) and its value there."""

    name: str
    section: int | None
    value: int
    size: int
    is_defined: bool


@dataclass(frozen=True)
class Relocation:
    """`kind` at `offset` of section `section` against a symbol, plus addend.

    Without a stated addend (SHT_REL) what lies at the place is the addend.
    """

    section: int
    offset: int
    kind: int
    symbol: Symbol
    addend: int
    is_addend_stated: bool = True


def bad(field: str, value: Any, reason: str) -> CodeObjectError:
    """The one shape of text for a malformed object."""
    shown = hex(value) if isinstance(value, int) else repr(value)
    return CodeObjectError(
        f"malformed code object: {field} {reason}",
        facts={"field": field, "value": shown},
        hint="compile it again; an object that was cut or changed cannot be loaded",
    )


def foreign(found: str, wanted: str) -> CodeObjectError:
    """The error for an object that was made for something else."""
    return CodeObjectError(
        f"the code object is for {found}, the device is {wanted}",
        facts={"found": found, "wanted": wanted},
        hint=f"compile it for {wanted}",
    )


def text_of(image: Any) -> str | None:
    """The beginning of what was given as an object, where it is text."""
    if isinstance(image, str):
        return image[:TEXT_BYTES]
    start = bytes(image[:TEXT_BYTES]).rstrip(b"\0") if _has_bytes(image) else b""
    is_text = bool(start) and len(start.translate(None, _NO_TEXT)) == len(start)
    return start.decode("utf-8", "replace") if is_text else None


class ObjectFile:
    """A checked ELF64 little-endian object, relocatable or shared unless `kinds` says else.

    With `machine`, an e_machine, it must be for that; `target` names the chip in texts.
    """

    def __init__(
        self,
        image: bytes,
        kinds: tuple[int, ...] = (ET_REL, ET_DYN),
        machine: int | None = None,
        target: str = "this GPU",
    ) -> None:
        _check_given(image, target)
        self.image = bytes(image)
        self._kinds = kinds
        self._wanted = machine, target
        self._check_header()
        self.sections: list[Section] = []
        try:
            self._read()
        except CodeObjectError:
            raise
        except Exception as error:  # whatever pyelftools trips over is the object's fault
            raise bad("structure", type(error).__name__, f"cannot be read: {error}") from None

    def _check_header(self) -> None:
        if len(self.image) < HEADER_SIZE:
            raise bad("size", len(self.image), "is less than an ELF header")
        if self.image[:4] != b"\x7fELF":
            raise bad("e_ident magic", self.image[:4], "is not ELF")
        if self.image[4:6] != b"\x02\x01":
            raise bad("e_ident class", self.image[4:6], "is not 64-bit little-endian")
        fields = _HEADER.unpack_from(self.image)
        self.kind, self.machine = fields[1], fields[2]
        machine, target = self._wanted
        if machine not in (None, self.machine):
            raise foreign(MACHINES.get(self.machine, f"machine {self.machine}"), target)
        self._check_fields(fields)

    def _check_fields(self, fields: tuple[Any, ...]) -> None:
        self.flags, self.os_abi, self.abi_version = fields[7], self.image[7], self.image[8]
        section_offset, entry_size, count, names = fields[6], fields[11], fields[12], fields[13]
        if self.kind not in self._kinds:
            names = {ET_REL: "relocatable", ET_EXEC: "executable", ET_DYN: "shared"}
            wanted = " nor ".join(names[kind] for kind in self._kinds)
            neither = "neither" if len(self._kinds) > 1 else "not"
            raise bad("e_type", self.kind, f"is {neither} {wanted}")
        if entry_size != SECTION_HEADER_SIZE:
            raise bad("e_shentsize", entry_size, "is not 64")
        if not 0 < count <= MAX_SECTIONS:
            raise bad("e_shnum", count, f"is not 1 to {MAX_SECTIONS}")
        if section_offset + count * SECTION_HEADER_SIZE > len(self.image):
            raise bad("e_shoff", section_offset, "puts section headers past the end of the file")
        if names >= count:
            raise bad("e_shstrndx", names, "is not a section")
        for index in range(count):
            self._check_section(index, section_offset + index * SECTION_HEADER_SIZE)

    def _check_section(self, index: int, at: int) -> None:
        _, kind, _, _, offset, size, _, _, alignment, entry = _SECTION.unpack_from(self.image, at)
        if kind != SHT_NOBITS and (offset > len(self.image) or size > len(self.image) - offset):
            raise bad(f"section {index} sh_offset+sh_size", offset + size, "is past the file's end")
        if size > MAX_IMAGE_BYTES:
            raise bad(f"section {index} sh_size", size, f"is over {MAX_IMAGE_BYTES} bytes")
        if alignment & (alignment - 1) or alignment > 1 << 16:
            raise bad(f"section {index} sh_addralign", alignment, "is not a power of two to 65536")
        expected = {
            SHT_SYMTAB: SYMBOL_SIZE,
            SHT_DYNSYM: SYMBOL_SIZE,
            SHT_RELA: RELOCATION_SIZE,
            SHT_REL: SHORT_RELOCATION_SIZE,
        }
        if entry != expected.get(kind, entry):
            raise bad(f"section {index} sh_entsize", entry, f"is not {expected[kind]}")

    def _read(self) -> None:
        from elftools.elf.elffile import ELFFile

        self._elf: Any = ELFFile(BytesIO(self.image))
        for index, section in enumerate(self._elf.iter_sections()):
            header = section.header
            self.sections.append(
                Section(
                    index,
                    section.name,
                    _kind(self.image, header, self._elf, index),
                    header.sh_flags,
                    header.sh_addr,
                    header.sh_offset,
                    header.sh_size,
                    header.sh_link,
                    header.sh_info,
                    max(1, header.sh_addralign),
                )
            )
        self.symbols = list(self._symbols())
        self.relocations = list(self._relocations())

    def contents(self, section: Section) -> bytes:
        """A section's bytes; zeros for one that takes none in the file."""
        if section.kind == SHT_NOBITS:
            return bytes(section.size)
        return self.image[section.offset : section.offset + section.size]

    def loaded(self) -> list[Section]:
        """Sections that take up memory; CodeObjectError when two overlap in the file."""
        found = [s for s in self.sections if s.is_loaded]
        spans = sorted((s.offset, s.offset + s.size, s.name) for s in found if s.kind != SHT_NOBITS)
        for (_, end, below), (start, _, above) in pairwise(spans):
            if start < end:
                raise bad(f"section {above} sh_offset", start, f"overlaps section {below}")
        return found

    def symbol(self, name: str) -> Symbol | None:
        """A defined symbol by name."""
        return next((s for s in self.symbols if s.name == name and s.is_defined), None)

    def _symbols(self) -> Iterator[Symbol]:
        for section in self.sections:
            if section.kind in (SHT_SYMTAB, SHT_DYNSYM):
                table = self._elf.get_section(section.index)
                for entry in table.iter_symbols():
                    yield self._symbol(entry)

    def _symbol(self, entry: Any) -> Symbol:
        index = entry.entry.st_shndx
        value, size = entry.entry.st_value, entry.entry.st_size
        if index == "SHN_ABS":
            return Symbol(entry.name, None, value, size, True)
        if not isinstance(index, int):
            return Symbol(entry.name, None, value, size, False)
        if index >= len(self.sections):
            raise bad(f"symbol {entry.name!r} st_shndx", index, "is not a section")
        home = self.sections[index]
        inside = value - (home.address if self.kind == ET_DYN else 0)
        if home.is_loaded and not 0 <= inside <= inside + size <= home.size:
            raise bad(f"symbol {entry.name!r} st_value", value, f"is outside {home.name!r}")
        return Symbol(entry.name, index, inside, size, True)

    def _relocations(self) -> Iterator[Relocation]:
        for section in self.sections:
            if section.kind not in (SHT_RELA, SHT_REL):
                continue
            table = self._elf.get_section(section.index)
            symbols = self._elf.get_section(section.link)
            for entry in table.iter_relocations():
                index = entry["r_info_sym"]
                if index >= symbols.num_symbols():
                    raise bad("r_info symbol", index, "is not in the symbol table")
                is_stated = section.kind == SHT_RELA
                yield Relocation(
                    section.info,
                    entry["r_offset"],
                    entry["r_info_type"],
                    self._symbol(symbols.get_symbol(index)),
                    entry["r_addend"] if is_stated else 0,
                    is_stated,
                )

    def note(self, owner: str, kind: int) -> bytes | None:
        """The contents of the first note of an owner and type."""
        for section in self.sections:
            if section.kind == SHT_NOTE:
                for found_owner, found_kind, data in _notes(self.contents(section)):
                    if (found_owner, found_kind) == (owner.encode(), kind):
                        return data
        return None


def _has_bytes(image: Any) -> bool:
    return isinstance(image, bytes | bytearray | memoryview)


def _check_given(image: Any, target: str) -> None:
    text = text_of(image)
    if text is not None:
        raise CodeObjectError(
            "this is text, not a code object",
            facts={"begins": repr(text[:40]), "wanted": target},
            hint=f"compile it for {target} first, and give the bytes that come out",
        )
    if not _has_bytes(image):
        raise CodeObjectError(
            f"a code object is bytes, not {type(image).__name__}",
            facts={"given": repr(image)[:80]},
            hint="of a file: pathlib.Path(...).read_bytes()",
        )


def _kind(image: bytes, header: Any, elf: Any, index: int) -> int:
    # pyelftools turns the type into a name where it knows one; the number is wanted.
    at = elf.header.e_shoff + index * SECTION_HEADER_SIZE
    return int(_SECTION.unpack_from(image, at)[1])


def _notes(data: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    at = 0
    while at + 12 <= len(data):
        name_size, size, kind = struct.unpack_from("<III", data, at)
        name_at = at + 12
        data_at = name_at + align(name_size, 4)
        if data_at + size > len(data):
            raise bad("note size", size, "is past the section's end")
        owner = data[name_at : name_at + name_size].rstrip(b"\0")
        yield owner, kind, data[data_at : data_at + size]
        at = data_at + align(size, 4)
