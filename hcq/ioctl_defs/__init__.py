"""ioctl numbers and argument structs, declared in C and laid out by cffi."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from cffi import FFI

from hcq.errors import FieldError, nearest


@dataclass(frozen=True)
class ListField:
    """A field that points to a list in this process.

    item: the C type of one item; count: the field that says how many there are. Where that
    field counts something smaller, such as the bits of masks, `per` of it make one item.
    """

    field: str
    item: str
    count: str
    per: int = 1


@dataclass(frozen=True)
class FoundList:
    """Where a list that a call points to lies in this process: address and size in bytes."""

    field: str
    item: str
    host_address: int
    size: int


@dataclass(frozen=True)
class Ioctl:
    """One ioctl: what to call it in messages, its number, its argument struct.

    inner: the fields that point to more arguments in this process, and their size.
    inner_call: what those further arguments are, told from the arguments.
    lists: the fields that point to lists in this process.
    """

    name: str
    number: int
    struct: str
    ffi: FFI
    inner: tuple[str, str] | None = None
    inner_call: "Callable[[Any], Ioctl | None] | None" = None
    lists: tuple[ListField, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of the argument struct as declared here."""
        return int(self.ffi.sizeof(self.struct))

    def args(self, **fields: Any) -> Any:
        """A zeroed argument struct with the given fields set.

        FieldError for an unknown field or a value that does not fit.
        """
        known = [name for name, _ in self.ffi.typeof(self.struct).fields]
        for name in fields:
            if name not in known:
                raise FieldError(f"{self.name} has no field {name!r}{nearest(name, known)}")
        args = self.ffi.new(f"{self.struct} *")
        for name, value in fields.items():
            try:
                setattr(args, name, value)
            except (OverflowError, TypeError) as error:
                raise FieldError(f"{self.name}.{name}: {error}") from None
        return args

    def inner_bytes(self, args: Any) -> bytes:
        """The further arguments that a struct points to; empty where there are none."""
        if self.inner is None:
            return b""
        pointer, size = (getattr(args, name) for name in self.inner)
        if not pointer:
            return b""
        return bytes(self.ffi.buffer(self.ffi.cast("uint8_t *", pointer), size))

    def found_lists(self, args: Any) -> list[FoundList]:
        """Every list that the arguments, or their further arguments, point to."""
        found = []
        for listed in self.lists:
            address, count = getattr(args, listed.field), getattr(args, listed.count)
            size = -(-count // listed.per) * self.ffi.sizeof(listed.item)
            if address and size:
                found.append(FoundList(listed.field, listed.item, address, size))
        further = self.inner_call(args) if self.inner_call else None
        data = self.inner_bytes(args)
        if further is not None and len(data) >= further.size:
            inner = further.ffi.new(f"{further.struct} *")
            further.ffi.memmove(inner, data, further.size)
            found += further.found_lists(inner)
        return found

    def describe(self, args: Any) -> str:
        """One line naming every field, for error messages and logs."""
        return " ".join(f"{name}={value}" for name, value in self.values(args).items())

    def values(self, args: Any) -> dict[str, str]:
        """Every field as text: numbers and bytes in hex, text as it is, no blanks.

        Zeros at the end of an array are left out.
        """
        named = self.ffi.typeof(self.struct).fields
        return {name: _shown(self.ffi, getattr(args, name)) for name, _ in named}


def listed(ffi: FFI, item: str, data: bytes) -> str:
    """The items of a list as text, in the form that values() gives arrays."""
    count = len(data) // ffi.sizeof(item)
    array = ffi.new(f"{item}[]", count)
    ffi.memmove(array, data, count * ffi.sizeof(item))
    return _shown(ffi, array)


def _shown(ffi: FFI, value: Any) -> str:
    if isinstance(value, int):
        return hex(value)
    kind = ffi.typeof(value)
    if kind.kind == "struct":
        if not any(bytes(ffi.buffer(ffi.addressof(value)))):
            return "{}"
        pairs = [(name, _shown(ffi, field)) for name, field in _fields(ffi, value, kind)]
        return "{" + ",".join(f"{name}={text}" for name, text in pairs) + "}"
    if kind.kind != "array":
        return str(value)
    data = bytes(ffi.buffer(value)).rstrip(b"\0")
    size = ffi.sizeof(kind.item)
    if kind.item.kind == "primitive" and size == 1:
        return _bytes(data)
    used = -(-len(data) // size)
    return "[" + ",".join(_shown(ffi, value[index]) for index in range(used)) + "]"


def _fields(ffi: FFI, value: Any, kind: Any) -> Iterator[tuple[str, Any]]:
    """The fields of a struct; of a union without a name every reading that is not all zero."""
    for name, field in kind.fields:
        if name:
            yield name, getattr(value, name)
            continue
        for reading, _ in field.type.fields:
            found = getattr(value, reading)
            if any(bytes(ffi.buffer(ffi.addressof(found)))):
                yield reading, found


def _bytes(data: bytes) -> str:
    is_text = len(data) > 1 and all(0x21 <= byte < 0x7F for byte in data)
    return data.decode() if is_text else "0x" + (data.hex() or "0")


def _ioctl(direction: int, ffi: FFI, name: str, magic: str, nr: int, struct: str) -> Ioctl:
    size = ffi.sizeof(struct)
    return Ioctl(name, direction << 30 | size << 16 | ord(magic) << 8 | nr, struct, ffi)


def iow(ffi: FFI, name: str, magic: str, nr: int, struct: str) -> Ioctl:
    """_IOW() from include/uapi/asm-generic/ioctl.h."""
    return _ioctl(1, ffi, name, magic, nr, struct)


def ior(ffi: FFI, name: str, magic: str, nr: int, struct: str) -> Ioctl:
    """_IOR() from include/uapi/asm-generic/ioctl.h."""
    return _ioctl(2, ffi, name, magic, nr, struct)


def iowr(ffi: FFI, name: str, magic: str, nr: int, struct: str) -> Ioctl:
    """_IOWR() from include/uapi/asm-generic/ioctl.h."""
    return _ioctl(3, ffi, name, magic, nr, struct)
