"""HCQ_CAPTURE=file: host traffic and submissions as JSON lines, flushed one by one.

It only listens: calls go through unchanged. Doorbells and ring words are plain
stores that no wrapper sees, so channels hand their words over before they ring.
Records and keys: `capture` (first), `device`, `ioctl`, `object`, `submission`;
64-bit numbers are hex strings. What the arguments of a call point to is in `inner` and
`inner_out` (further arguments) and `lists` (lists, by the field that points to them),
each as it was before and after the call.
"""

import fcntl
import json
import os
import stat
import threading
import warnings
import weakref
from collections.abc import Iterable
from typing import Any

from hcq import settings
from hcq.errors import ConfigError, FallbackWarning
from hcq.host import Host, HostFront, Region
from hcq.ioctl_defs import FoundList, Ioctl

SCHEMA = "0.2"
# Read as a file, memory that is not there is an error and not a crash.
OWN_MEMORY = "/proc/self/mem"
MAX_LIST_BYTES = 1 << 20  # of a longer list the beginning is recorded


class Recorder:
    """One file; a record is one line and is on disk once written.

    A file that another process is recording into stays its own: then `path` gets this
    process's number at its end, and a FallbackWarning says so.
    """

    def __init__(self, path: str) -> None:
        self.asked = self.path = path
        fd = _mine(path)
        if fd is None:
            self.path = f"{path}.{os.getpid()}"
            warnings.warn(
                f"HCQ_CAPTURE={path}: another process records into it, so this one records "
                f"into {self.path}",
                FallbackWarning,
                stacklevel=2,
            )
            fd = _mine(self.path)
        if fd is None:
            raise _unwritable(self.path, "is being recorded into")
        self._fd = fd
        weakref.finalize(self, os.close, fd)
        self._lock = threading.Lock()
        self._sequence = 0
        self._is_over = False
        self.write("capture", schema=SCHEMA, tool="hcq", redaction="none", torn=False)

    def write(self, record: str, **keys: Any) -> None:
        """Append a record. A file that takes no more ends the recording, not the run."""
        with self._lock:
            if self._is_over:
                return
            line = {"record": record, "seq": self._sequence, **keys}
            self._sequence += 1
            data = (json.dumps(line, separators=(",", ":")) + "\n").encode("ascii")
            reason = "the disk is full"
            try:
                self._is_over = os.write(self._fd, data) != len(data)
            except OSError as error:
                self._is_over, reason = True, error.strerror or str(error)
            if self._is_over:
                warnings.warn(
                    f"HCQ_CAPTURE={self.path}: recording ends at record {line['seq']}: {reason}",
                    FallbackWarning,
                    stacklevel=3,
                )


def _mine(path: str) -> int | None:
    """The file, open, locked and empty; None where another holds its lock; ConfigError."""
    try:
        # Unbuffered: what was written is there after a crash.
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise _unwritable(path, f"cannot be written: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    except OSError:
        pass  # a file system without locks
    os.ftruncate(fd, 0)
    return fd


def _unwritable(path: str, why: str) -> ConfigError:
    return ConfigError(
        f"HCQ_CAPTURE={path}: {why}", facts={"setting": "HCQ_CAPTURE", "value": path}
    )


class CaptureHost(HostFront):
    """A host that writes down what is asked of another and what it answers."""

    def __init__(self, host: Host, recorder: Recorder) -> None:
        super().__init__(host)
        self.recorder = recorder
        self._start = host.now()

    def seconds(self) -> float:
        """Since the recording began."""
        return round(self.inner.now() - self._start, 9)

    def open(self, path: str) -> int:
        """As the host; recorded as an object."""
        fd = self.inner.open(path)
        self.recorder.write("object", id=f"fd{fd}", kind="file", path=path, t=self.seconds())
        return fd

    def close(self, fd: int) -> None:
        self.inner.close(fd)
        self.recorder.write("object", id=f"fd{fd}", kind="file", died=self.seconds())

    def ioctl(self, fd: int, call: Ioctl, args: Any) -> None:
        """As the host; recorded with decoded and raw arguments and the result."""
        before, inner = call.values(args), call.inner_bytes(args)
        lists = call.found_lists(args)
        given = [_bytes_of(found) for found in lists]
        begun = self.seconds()
        result, number = 0, 0
        try:
            self.inner.ioctl(fd, call, args)
        except OSError as error:
            result, number = -1, error.errno or 0
            raise
        finally:
            after = call.inner_bytes(args).hex()
            self.recorder.write(
                "ioctl",
                t=begun,
                dur=round(self.seconds() - begun, 9),
                fd=fd,
                name=call.name,
                request=hex(call.number),
                args=before,
                out=call.values(args),
                raw=bytes(call.ffi.buffer(args)).hex(),
                ret=result,
                errno=number,
                **({"inner": inner.hex(), "inner_out": after} if inner else {}),
                **({"lists": _records(lists, given)} if lists else {}),
            )

    def mmap(self, fd: int, size: int, offset: int, address: int | None = None) -> Region:
        region = self.inner.mmap(fd, size, offset, address)
        self.recorder.write(
            "object",
            id=hex(region.address),
            kind="map",
            parent=f"fd{fd}",
            va=hex(region.address),
            size=hex(size),
            offset=hex(offset),
            born=self.seconds(),
        )
        return region

    def munmap(self, region: Region) -> None:
        self.inner.munmap(region)
        self.recorder.write("object", id=hex(region.address), kind="map", died=self.seconds())


def _bytes_of(found: FoundList) -> str:
    """A list as hex; nothing where its memory cannot be read."""
    size = min(found.size, MAX_LIST_BYTES)
    try:
        fd = os.open(OWN_MEMORY, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.pread(fd, size, found.host_address).hex()
    except (OSError, OverflowError):
        return ""
    finally:
        os.close(fd)


def _records(lists: list[FoundList], given: list[str]) -> dict[str, dict[str, object]]:
    return {
        found.field: {
            "item": found.item,
            "size": found.size,
            "in": before,
            "out": _bytes_of(found),
        }
        for found, before in zip(lists, given, strict=True)
    }


_hosts: list[CaptureHost] = []


def wrap(host: Host) -> Host:
    """The host itself, or where HCQ_CAPTURE names a file, one that records; one per host."""
    path = settings.get("HCQ_CAPTURE")
    if not path:
        return host
    if not _hosts or _hosts[0].inner is not host or _hosts[0].recorder.asked != path:
        _hosts[:] = [CaptureHost(host, Recorder(path))]
    return _hosts[0]


def innermost(host: Host) -> Host:
    """The machine itself, without a recorder around it."""
    return host.inner if isinstance(host, CaptureHost) else host


def is_recording(host: Host) -> bool:
    """Whether a host writes down what passes."""
    return isinstance(host, CaptureHost)


def device(host: Host, name: str, arch: str) -> None:
    """Record an opened device."""
    if isinstance(host, CaptureHost):
        vendor = name.partition(":")[0].lower()
        host.recorder.write("device", name=name, vendor=vendor, arch=arch, t=host.seconds())


def submission(host: Host, words: Iterable[int], **keys: Any) -> None:
    """Record what a channel is about to publish, before its doorbell."""
    if isinstance(host, CaptureHost):
        text = [f"{word:08x}" for word in words]
        host.recorder.write("submission", t=host.seconds(), words=text, **keys)
