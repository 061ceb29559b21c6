"""This process's side of the NVIDIA kernel modules: nodes, version, one client, one space.

Opened with the first device and closed with the last. Every GPU of the process is in the
same address space.
"""

import os
import warnings
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from hcq import nodes
from hcq.capture import innermost
from hcq.errors import DeviceOpenError, FallbackWarning
from hcq.host import Host, Region
from hcq.interrupt import Lock
from hcq.ioctl_defs import nv_escape, nv_uvm
from hcq.ioctl_defs.nv_abi import Abi, abi_of, is_newer
from hcq.nv.rm import ResourceManager, carry_out
from hcq.nv.uvm import UnifiedMemory
from hcq.process import check as check_process

LOW = 1 << 40  # rings, pushbuffers, launch records and signals lie below
WINDOW_BYTES = 1 << 32
_NVIDIA = nodes.Module(
    "NVIDIA GPU",
    "nvidia",
    rights="; the module option NVreg_DeviceFileMode sets the rights",
    trouble="the GPU may have failed to start: check the kernel log (dmesg) for NVRM",
)
_UVM = replace(_NVIDIA, name="nvidia_uvm")


@dataclass(frozen=True)
class Card:
    """One GPU as the control node lists it."""

    gpu_id: int
    minor: int
    bus: str


@dataclass(frozen=True)
class Windows:
    """Where kernels see shared and private memory; nothing else lies there."""

    shared: int
    local: int


class Driver:
    """The open nodes and what belongs to the process behind them."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.process = os.getpid()
        self.lock = Lock()
        self.members: list[object] = []  # open devices
        self.gpus: dict[int, Any] = {}  # what the devices of one GPU share, by its id
        self.signals: Any = None  # cells that every GPU sees
        self._closing = ExitStack()
        with ExitStack() as undo:
            self.ctl = open_node(host, nv_escape.CONTROL_NODE)
            undo.callback(host.close, self.ctl)
            self.version = version_of(host, self.ctl)
            self.abi: Abi = abi_of(self.version)
            _check_parts(host, self.version)
            _warn_if_newer(self.version, self.abi)
            uvm = open_node(host, nv_uvm.NODE)
            undo.callback(host.close, uvm)
            second = open_node(host, nv_uvm.NODE)
            undo.callback(host.close, second)
            self.rm = ResourceManager(host, self.ctl, self.abi, self.version)
            undo.callback(self.rm.close)
            self.uvm = UnifiedMemory(host, uvm, second, self.abi)
            self.windows = Windows(self._window(undo), self._window(undo))
            self._closing = undo.pop_all()

    def _window(self, undo: ExitStack) -> int:
        address = self.host.reserve(WINDOW_BYTES, WINDOW_BYTES, LOW)
        undo.callback(self.host.release, address, WINDOW_BYTES)
        return address

    def check_process(self) -> None:
        """DeviceBanned in a forked child."""
        check_process(self.process)

    def cards(self) -> list[Card]:
        """The GPUs this process may use, as the kernel counts them."""
        return cards(self.host, self.ctl)

    def map_object(
        self, device: int, memory: int, size: int, node: str, place: int | None = None
    ) -> Region:
        """The CPU's view of a memory object of a device; each view takes a node of its own."""
        fd = open_node(self.host, node)
        try:
            if node != nv_escape.CONTROL_NODE:
                self.rm.call(nv_escape.REGISTER_FD, fd, ctl_fd=self.ctl)
            self.rm.call(
                nv_escape.RM_MAP_MEMORY,
                hClient=self.rm.client,
                hDevice=device,
                hMemory=memory,
                length=size,
                flags=nv_escape.OS33_DEFAULT,
                fd=fd,
            )
            return self.host.mmap(fd, size, 0, place)
        finally:
            self.host.close(fd)  # the mapping keeps the file

    def leave(self, member: object) -> None:
        """A device closed; the last one takes the nodes with it."""
        self.members.remove(member)
        if not self.members:
            with ExitStack() as steps:
                steps.callback(self.close)
                if self.signals is not None:
                    steps.callback(self.signals.release)

    def close(self) -> None:
        """Free the client and close the nodes."""
        if self in _open:
            _open.remove(self)
        self._closing.close()


def version_of(host: Host, fd: int) -> str:
    """The driver's version as it gives it."""
    args = nv_escape.CHECK_VERSION_STR.args(cmd=nv_escape.VERSION_QUERY)
    carry_out(host, fd, nv_escape.CHECK_VERSION_STR, args)
    text = bytes(args.versionString).split(b"\0")[0]
    return text.decode("ascii", "replace").strip()


def cards(host: Host, fd: int) -> list[Card]:
    """The GPUs behind an open control node."""
    args = nv_escape.CARD_INFO.args()
    carry_out(host, fd, nv_escape.CARD_INFO, args)
    found = []
    for card in args.cards:
        if card.valid:
            pci = card.pci_info
            bus = f"{pci.domain:04x}:{pci.bus:02x}:{pci.slot:02x}.{pci.function}"
            found.append(Card(card.gpu_id, card.minor_number, bus))
    return found


def count(host: Host) -> int:
    """How many GPUs there are, without opening any; DeviceOpenError where nobody may look."""
    if not host.exists(nv_escape.CONTROL_NODE):
        return 0
    fd = open_node(host, nv_escape.CONTROL_NODE)
    try:
        return len(cards(host, fd))
    finally:
        host.close(fd)


def _check_parts(host: Host, version: str) -> None:
    path = nv_escape.UVM_MODULE_VERSION_FILE
    if not host.exists(path):
        return
    try:
        other = host.read(path).decode("ascii", "replace").strip()
    except OSError:  # hidden in some sandboxes; then the calls themselves tell
        return
    if other != version:
        raise DeviceOpenError(
            f"the kernel modules are of unequal version: nvidia {version}, nvidia_uvm {other}",
            facts={"nvidia": version, "nvidia_uvm": other},
            hint="reload the modules (rmmod nvidia_uvm nvidia; modprobe nvidia_uvm) or reboot",
        )


_warned: set[str] = set()


def _warn_if_newer(version: str, abi: Abi) -> None:
    if not is_newer(version, abi) or version in _warned:
        return
    _warned.add(version)
    warnings.warn(
        f"NVIDIA driver {version} is newer than {abi.newest}, with which the {abi.series} series' "
        f"layouts were checked; they are used as they are",
        FallbackWarning,
        stacklevel=2,
    )


def open_node(host: Host, path: str) -> int:
    """Open a device file; DeviceOpenError naming node, cause and remedy."""
    return nodes.open_node(host, path, _UVM if path == nv_uvm.NODE else _NVIDIA)


_open: list[Driver] = []
_lock = Lock()


def driver(host: Host) -> Driver:
    """The process's driver on a host: opened at first use, shared from then on."""
    with _lock:
        if _open:
            _open[0].check_process()
            if innermost(_open[0].host) is innermost(host):
                return _open[0]
        found = Driver(host)
        _open[:] = [found]
        return found
