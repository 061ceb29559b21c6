"""ioctl numbers and argument structs, declared in C and laid out by cffi."""

from dataclasses import dataclass
from typing import Any

from cffi import FFI

from hcq.errors import FieldError, nearest


@dataclass(frozen=True)
class Ioctl:
    """One ioctl: what to call it in messages, its number, its argument struct."""

    name: str
    number: int
    struct: str
    ffi: FFI

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

    def describe(self, args: Any) -> str:
        """One line naming every field, for error messages and logs."""
        return " ".join(f"{name}={value}" for name, value in self.values(args).items())

    def values(self, args: Any) -> dict[str, str]:
        """Every field as text: numbers in hex, nested data in cffi's words."""
        named = self.ffi.typeof(self.struct).fields
        pairs = ((name, getattr(args, name)) for name, _ in named)
        return {name: hex(v) if isinstance(v, int) else str(v) for name, v in pairs}


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
