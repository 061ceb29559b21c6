"""Cubins: the code of kernels, what it needs, and its relocations.

Source: measured from files of nvJitLink 13.5; names of the information attributes as
`cuobjdump -elf` prints them. Nothing is trusted: what does not fit is CodeObjectError.
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from hcq.arguments import Argument
from hcq.bits import Layout, align
from hcq.elf import (
    EM_CUDA,
    ET_EXEC,
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHT_NOBITS,
    ObjectFile,
    Relocation,
    Section,
    bad,
    foreign,
    text_of,
)
from hcq.errors import CodeObjectError, nearest
from hcq.nv.arch import KIB, SYSTEM_SHARED, Arch

ABI_WITH_SM_IN_BYTE_1, ABI_WITH_SM_IN_BYTE_0 = 0x41, 0x33
CODE_ALIGNMENT = 128
MAX_BANK_BYTES = 64 * KIB
MAX_PARAMETERS = 4096
# Instructions are fetched ahead: what follows the code must be mapped.
PREFETCH_BYTES = 4096

# Attributes of .nv.info (per symbol) and .nv.info.KERNEL.
REGCOUNT = 0x2F
MIN_STACK_SIZE = 0x12
PARAM_CBANK, KPARAM_INFO = 0x0A, 0x17
MAX_THREADS, REQNTID = 0x05, 0x10
NUM_BARRIERS, VRC_CTA_INIT_COUNT = 0x4C, 0x4A
FORMAT_PAYLOAD = 4

R_CUDA_64, R_CUDA_ABS32_LO, R_CUDA_ABS32_HI = 2, 0x38, 0x39
# Targets of absolute calls, in units of 4 bytes: up to Ada in one field, from Hopper on in two.
# Observed: nvdisasm 13.3 shows the target again.
R_CUDA_ABS47_34, R_CUDA_ABS55_16_34 = 0x3A, 0x4B
_CALL_BYTES, _CALL_UNIT = 16, 4
_CALLS = {
    R_CUDA_ABS47_34: Layout("CALL", 128, {"target": (80, 34)}),
    R_CUDA_ABS55_16_34: Layout("CALL", 128, {"target_high": (80, 34), "target_low": (23, 16)}),
}
_IMMEDIATE_AT = 4  # of an instruction
_PTX_VERSION = re.compile(r"^\s*\.version\s+\d", re.MULTILINE)
# Bank 0 is laid down per launch; Blackwell's .nv.merc sections are for tools.
_UPLOADED = (".text.", ".nv.global", ".nv.constant")
_LEFT_OUT = ".nv.constant0"


@dataclass(frozen=True)
class Needs:
    """What a kernel asks of the chip; sizes are bytes, of a thread or a block."""

    registers: int
    stack: int
    barriers: int
    shared: int  # of the code, without what the system keeps
    max_threads: tuple[int, int, int] | None
    required_block: tuple[int, int, int] | None
    virtual_resources: int


class Cubin:
    """A checked cubin and one of its kernels; `image()` is what is uploaded."""

    def __init__(self, data: bytes, entry: str, arch: Arch) -> None:
        _refuse_ptx(data, entry, arch)
        self.file = ObjectFile(data, (ET_EXEC,), EM_CUDA, arch.name)
        self.entry = entry
        self.arch = arch
        self._check_target()
        self._check_program_headers()
        self.text = self._text()
        self._check_flat()
        self.places: dict[int, int] = {}
        at = 0
        for section in self._uploaded():
            at = align(at, max(section.alignment, 16))
            self.places[section.index] = at
            at += section.size
        self.code_size = align(at, CODE_ALIGNMENT)
        self.size = self.code_size + PREFETCH_BYTES
        self.code_at = self.places[self.text.index]
        self._information = dict(self._kernel_information())
        self.needs = self._needs()
        self.parameters = self._parameters()
        self._check_relocations()

    # Which file this is.

    def _check_target(self) -> None:
        abi, flags = self.file.os_abi, self.file.flags
        if abi not in (ABI_WITH_SM_IN_BYTE_1, ABI_WITH_SM_IN_BYTE_0):
            raise bad("EI_OSABI", abi, "is not a CUDA ABI known here")
        sm = flags >> 8 & 0xFF if abi == ABI_WITH_SM_IN_BYTE_1 else flags & 0xFF
        if sm != self.arch.sm:
            raise foreign(f"sm_{sm}", self.arch.name)

    def _check_program_headers(self) -> None:
        # They lie at the end of the file: without them it was cut.
        (at,) = struct.unpack_from("<Q", self.file.image, 32)
        size, count = struct.unpack_from("<2H", self.file.image, 54)
        if count and at + size * count > len(self.file.image):
            raise bad("e_phoff", at, "puts program headers past the end of the file")

    def _text(self) -> Section:
        for section in self.file.sections:
            if section.name == f".text.{self.entry}" and section.flags & SHF_EXECINSTR:
                if section.size == 0:
                    raise bad(f"section {section.name} sh_size", 0, "holds no code")
                if not section.is_loaded:
                    raise bad(
                        f"section {section.name} sh_flags",
                        section.flags,
                        f"says that the code takes up no memory (SHF_ALLOC, {SHF_ALLOC})",
                    )
                return section
        kernels = [s.name[6:] for s in self.file.sections if s.name.startswith(".text.")]
        raise CodeObjectError(
            f"the code object has no kernel {self.entry!r}{nearest(self.entry, kernels)}",
            facts={"kernel": self.entry, "found": ", ".join(kernels) or "none"},
        )

    def _check_flat(self) -> None:
        spans = []
        for section in self._uploaded():
            if section.address:
                raise bad(f"section {section.name} sh_addr", section.address, "is not 0")
            if section.kind != SHT_NOBITS:
                spans.append((section.offset, section.offset + section.size, section.name))
        for (_, end, below), (start, _, above) in pairwise(sorted(spans)):
            if start < end:
                raise bad(f"section {above} sh_offset", start, f"overlaps section {below}")

    def _uploaded(self) -> list[Section]:
        """Code, data and constant banks 1 to 7: what takes up memory of its own."""
        found = (s for s in self.file.sections if s.is_loaded)
        return [
            s for s in found if s.name.startswith(_UPLOADED) and not s.name.startswith(_LEFT_OUT)
        ]

    @cached_property
    def banks(self) -> dict[int, Section]:
        """Sections that are constant banks of this kernel, by number; not bank 0."""
        found: dict[int, Section] = {}
        for section in self._uploaded():
            if not section.name.startswith(".nv.constant"):
                continue
            number, _, owner = section.name.removeprefix(".nv.constant").partition(".")
            if owner not in ("", self.entry):
                continue
            if not number.isdigit() or not 0 < int(number) < 8:
                raise bad("section name", section.name, "is not a constant bank 0 to 7")
            if section.size > MAX_BANK_BYTES:
                raise bad(f"section {section.name} sh_size", section.size, "is over 64 KiB")
            found[int(number)] = section
        return found

    # What the kernel needs.

    def _needs(self) -> Needs:
        registers = self._of_symbol(REGCOUNT)
        if registers is None or not 0 < registers <= 255:
            raise bad(".nv.info REGCOUNT", registers, "is not a number of registers (1 to 255)")
        stack = self._of_symbol(MIN_STACK_SIZE) or 0
        barriers = self._number(NUM_BARRIERS)
        if stack > 512 * KIB:
            raise bad(".nv.info MIN_STACK_SIZE", stack, "is over 512 KiB")
        return Needs(
            registers=registers,
            stack=stack,
            barriers=max(1, barriers),
            shared=self._shared(),
            max_threads=self._triple(MAX_THREADS),
            required_block=self._triple(REQNTID),
            virtual_resources=self._number(VRC_CTA_INIT_COUNT) & 0xFF,
        )

    def _shared(self) -> int:
        name = f".nv.shared.{self.entry}"
        size = next((s.size for s in self.file.sections if s.name == name), 0)
        if self.arch.has_system_shared_in_code and size:
            size = max(0, size - SYSTEM_SHARED)
        return size

    def _triple(self, attribute: int) -> tuple[int, int, int] | None:
        payload = self._information.get(attribute)
        if not isinstance(payload, bytes):
            return None
        if len(payload) < 12:
            raise bad(f".nv.info attribute {attribute:#x} size", len(payload), "is less than 12")
        x, y, z = struct.unpack_from("<3I", payload)
        return x, y, z

    def _number(self, attribute: int) -> int:
        value = self._information.get(attribute, 0)
        return value if isinstance(value, int) else int.from_bytes(value[:4], "little")

    def _of_symbol(self, attribute: int) -> int | None:
        """The value of an attribute that .nv.info gives this kernel's symbol."""
        for found, value in self._entries(".nv.info"):
            if found != attribute or not isinstance(value, bytes) or len(value) < 8:
                continue
            index, number = struct.unpack_from("<2I", value)
            if index >= len(self.file.symbols):
                raise bad(".nv.info symbol", index, "is not in the symbol table")
            if self.file.symbols[index].name == self.entry:
                return int(number)
        return None

    def _kernel_information(self) -> Iterator[tuple[int, int | bytes]]:
        for attribute, value in self._entries(f".nv.info.{self.entry}"):
            if attribute != KPARAM_INFO:
                yield attribute, value

    def _entries(self, name: str) -> Iterator[tuple[int, int | bytes]]:
        for section in self.file.sections:
            if section.name == name:
                yield from _entries(self.file.contents(section), name)

    # Parameters.

    def _parameters(self) -> tuple[Argument, ...]:
        """The kernel's parameters in order; offsets count from the parameter base."""
        found = {}
        for attribute, value in self._entries(f".nv.info.{self.entry}"):
            if attribute == KPARAM_INFO and isinstance(value, bytes) and len(value) >= 12:
                _, ordinal, offset, packed = struct.unpack_from("<IHHI", value)
                found[ordinal] = Argument(f"argument{ordinal}", offset, packed >> 18)
        if sorted(found) != list(range(len(found))):
            raise bad(".nv.info KPARAM_INFO ordinals", len(found), "are not 0 and on")
        arguments = [found[index] for index in range(len(found))]
        end = 0
        for argument in arguments:
            if argument.offset < end or argument.size == 0:
                raise bad(f"{argument.name} offset", argument.offset, "overlaps the one before")
            end = argument.offset + argument.size
        if end > MAX_PARAMETERS:
            raise bad("parameters", end, f"are over {MAX_PARAMETERS} bytes")
        base = self._information.get(PARAM_CBANK)
        if isinstance(base, bytes) and len(base) >= 8:
            at = int.from_bytes(base[4:6], "little")
            if at != self.arch.bank0.parameters:
                raise bad(".nv.info PARAM_CBANK", at, f"is not {self.arch.bank0.parameters:#x}")
        return tuple(arguments)

    # Uploading.

    def _check_relocations(self) -> None:
        self.image(0)

    def image(self, address: int) -> bytes:
        """Everything that is uploaded, relocated for the GPU address it will lie at."""
        image = bytearray(self.size)
        for section in self._uploaded():
            at = self.places[section.index]
            image[at : at + section.size] = self.file.contents(section)
        for relocation in self.file.relocations:
            if relocation.section not in self.places:
                continue  # debug information
            symbol = relocation.symbol
            target = self._target(symbol.name, symbol.section, symbol.value, symbol.is_defined)
            self._apply(image, relocation, address + target if symbol.is_defined else target)
        return bytes(image)

    def _target(self, name: str, section: int | None, value: int, is_defined: bool) -> int:
        if not is_defined:
            raise bad(f"symbol {name!r}", value, "is not defined in the object")
        if section is None:
            return value
        if section not in self.places:
            raise bad(f"symbol {name!r} st_shndx", section, "is in a section without memory")
        return self.places[section] + value

    def _at(self, relocation: Relocation, inside: int, size: int) -> int:
        """Where in the image what a relocation changes lies."""
        home = self.file.sections[relocation.section]
        if inside + size > home.size:
            raise bad(f"relocation in {home.name} r_offset", relocation.offset, "is outside it")
        return self.places[home.index] + inside

    def _call(self, image: bytearray, relocation: Relocation, target: int) -> None:
        """Give an absolute call its target."""
        layout = _CALLS[relocation.kind]
        at = self._at(relocation, relocation.offset, _CALL_BYTES)
        word = int.from_bytes(image[at : at + _CALL_BYTES], "little")
        held = 0
        for field, bits in layout.unpack(word).items():
            high, low = layout.span(field)
            held = held << high - low + 1 | bits
        addend = relocation.addend if relocation.is_addend_stated else held * _CALL_UNIT
        units, rest = divmod(target + addend, _CALL_UNIT)
        if rest or units < 0:
            raise _unfit(relocation, target + addend)
        fields = {}
        for field in reversed(list(layout.fields)):
            high, low = layout.span(field)
            fields[field], units = units % (1 << high - low + 1), units >> high - low + 1
        if units:
            raise _unfit(relocation, target + addend)
        word = layout.unknown(word) | layout.pack(**fields)
        image[at : at + _CALL_BYTES] = word.to_bytes(_CALL_BYTES, "little")

    def _apply(self, image: bytearray, relocation: Relocation, target: int) -> None:
        if relocation.kind in _CALLS:
            self._call(image, relocation, target)
            return
        size = 8 if relocation.kind == R_CUDA_64 else 4
        home = self.file.sections[relocation.section]
        at = self._at(relocation, relocation.offset + (0 if size == 8 else _IMMEDIATE_AT), size)
        held = int.from_bytes(image[at : at + size], "little")
        value = target + (relocation.addend if relocation.is_addend_stated else held)
        if not 0 <= value < 1 << 64:
            raise _unfit(relocation, value)
        if relocation.kind == R_CUDA_64:
            image[at : at + 8] = value.to_bytes(8, "little")
        elif relocation.kind == R_CUDA_ABS32_LO:
            image[at : at + 4] = (value & 0xFFFF_FFFF).to_bytes(4, "little")
        elif relocation.kind == R_CUDA_ABS32_HI:
            image[at : at + 4] = (value >> 32).to_bytes(4, "little")
        else:
            raise CodeObjectError(
                f"relocation kind {relocation.kind:#x} is not known",
                facts={
                    "kind": relocation.kind,
                    "symbol": relocation.symbol.name,
                    "section": home.name,
                },
            )


def _refuse_ptx(data: Any, entry: str, arch: Arch) -> None:
    text = text_of(data)
    if text is not None and _PTX_VERSION.search(text):
        raise CodeObjectError(
            f"this is PTX, a cubin for {arch.name} is wanted",
            facts={"kernel": entry, "wanted": arch.name},
            hint=f"jit.codegen.nvjitlink.link(ptx, device.target, {entry!r}) makes one, or "
            f"ptxas -arch={arch.name}",
        )


def _entries(data: bytes, name: str) -> Iterator[tuple[int, int | bytes]]:
    """(attribute, number or payload) of an information section."""
    at = 0
    while at + 4 <= len(data):
        kind, attribute, value = struct.unpack_from("<BBH", data, at)
        at += 4
        if kind != FORMAT_PAYLOAD:
            yield attribute, value
            continue
        if at + value > len(data):
            raise bad(f"{name} attribute {attribute:#x} size", value, "is past the section's end")
        yield attribute, data[at : at + value]
        at += value


def _unfit(relocation: Relocation, value: int) -> CodeObjectError:
    return CodeObjectError(
        f"relocation against {relocation.symbol.name!r} does not fit",
        facts={
            "kind": relocation.kind,
            "symbol": relocation.symbol.name,
            "value": hex(value),
        },
    )
