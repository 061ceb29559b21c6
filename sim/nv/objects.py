"""The resource manager's tree of objects: clients, what they own, and handles."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hcq.ioctl_defs import nv_escape
from hcq.nv.defs import classes
from sim.nv.status import INSERT_DUPLICATE_NAME, OBJECT_TYPE_MISMATCH, RmStatus

FIRST_CLIENT = 0xC1D0_0001
FIRST_HANDLE = 0xCAF0_0001

Payload = TypeVar("Payload")


@dataclass(eq=False)
class Object:
    """One object. `payload` is what it stands for: a channel, memory, an address space."""

    client: "Client"
    handle: int
    number: int  # class
    parent: "Object | None"
    gpu: Any = None
    payload: Any = None
    children: list["Object"] = field(default_factory=list)

    def describe(self) -> str:
        """For messages."""
        return f"{classes.name_of(self.number)} {self.handle:#x}"


class Client:
    """The objects of one opener of the control node, by handle."""

    def __init__(self, handle: int, file: Any) -> None:
        self.handle = handle
        self.file = file
        self.objects: dict[int, Object] = {}
        self.root = Object(self, handle, classes.NV01_ROOT_CLIENT, None)
        self.objects[handle] = self.root
        self._next = FIRST_HANDLE

    def find(self, handle: int) -> Object:
        """An object; RmStatus when there is none."""
        try:
            return self.objects[handle]
        except KeyError:
            raise RmStatus(
                nv_escape.OBJECT_NOT_FOUND, f"client {self.handle:#x} has no object {handle:#x}"
            ) from None

    def payload(self, handle: int, kind: type[Payload], what: str) -> Payload:
        """What an object stands for, of a kind; RmStatus otherwise."""
        found = self.find(handle)
        if not isinstance(found.payload, kind):
            raise RmStatus(OBJECT_TYPE_MISMATCH, f"{what}: {found.describe()} is none")
        return found.payload

    def parent(self, handle: int, *numbers: int) -> Object:
        """The parent of a new object, of one of these classes; RmStatus otherwise."""
        found = self.objects.get(handle)
        if found is None:
            raise RmStatus(nv_escape.INVALID_OBJECT_PARENT, f"there is no parent {handle:#x}")
        if found.number not in numbers:
            wanted = " or ".join(map(classes.name_of, numbers))
            raise RmStatus(
                nv_escape.INVALID_OBJECT_PARENT, f"parent is {found.describe()}, not {wanted}"
            )
        return found

    def new_handle(self, wanted: int) -> int:
        """The caller's handle, or a free one for 0."""
        if wanted in self.objects:
            raise RmStatus(INSERT_DUPLICATE_NAME, f"handle {wanted:#x} is in use")
        if wanted:
            return wanted
        while self._next in self.objects:
            self._next += 1
        return self._next

    def add(self, new: Object) -> None:
        """Put an object under its parent."""
        self.objects[new.handle] = new
        if new.parent:
            new.parent.children.append(new)

    def remove(self, old: Object) -> None:
        """Take away an object that has no children."""
        del self.objects[old.handle]
        if old.parent:
            old.parent.children.remove(old)


def leaves_first(root: Object) -> Iterator[Object]:
    """An object and all below it, in the order in which they can be freed."""
    for child in reversed(root.children):
        yield from leaves_first(child)
    yield root
