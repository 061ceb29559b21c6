"""Machine code kept on disk, in one sqlite file that processes and machines may share.

The file is an optimisation and nothing more: whatever is wrong with it, the run
goes on, without it, after one CacheWarning. Entries carry a checksum and are data
only; a corrupt file is set aside and a new one begun.
"""

import hashlib
import json
import os
import threading
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hcq.errors import CacheWarning
from hcq.settings import get
from runtime.backend import Code, CodeArgument

if TYPE_CHECKING:
    from sqlite3 import Connection

TABLE = "code_1"  # a new layout of entries gets a new number
LOCK_SECONDS = 10.0  # how long another process may hold the file
Result = TypeVar("Result")


def directory() -> Path:
    """Where hcq keeps what it can make again: $XDG_CACHE_HOME/hcq."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(home) / "hcq"


def database_path() -> Path:
    """CACHEDB, or cache.db in the directory."""
    return Path(get("CACHEDB") or directory() / "cache.db")


def code_bytes(code: Code) -> bytes:
    """A Code as bytes: the length of its JSON header, the header, the image."""
    fields = asdict(code)
    image = fields.pop("image")
    header = json.dumps(fields, sort_keys=True).encode()
    return len(header).to_bytes(4, "little") + header + bytes(image)


def code_from_bytes(data: bytes) -> Code:
    """The Code again; ValueError, LookupError, TypeError or AttributeError for other bytes."""
    size = int.from_bytes(data[:4], "little")
    fields: dict[str, Any] = json.loads(data[4 : 4 + size])
    arguments = tuple(CodeArgument(**a) for a in fields.pop("arguments"))
    grid, block = fields.pop("grid"), fields.pop("block")
    return Code(
        image=data[4 + size :],
        arguments=arguments,
        grid=(grid[0], grid[1], grid[2]),
        block=(block[0], block[1], block[2]),
        **fields,
    )


class DiskCache:
    """One sqlite file of entries by key. No method raises for what the file does."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._process = 0
        self._is_broken = False

    def get(self, key: str) -> Code | None:
        """The entry, or None: not there, damaged, or the file cannot be read."""
        row = self._try(
            lambda c: c.execute(
                f"select checksum, data from {TABLE} where key = ?", (key,)
            ).fetchone()
        )
        try:
            if row is None or hashlib.sha256(row[1]).hexdigest() != row[0]:
                return None
            return code_from_bytes(row[1])
        except (ValueError, LookupError, TypeError, AttributeError):  # text, or not our fields
            return None

    def put(self, key: str, code: Code) -> None:
        """Keep an entry, in place of one with the same key."""
        data = code_bytes(code)
        row = (key, hashlib.sha256(data).hexdigest(), data)
        self._try(lambda c: c.execute(f"insert or replace into {TABLE} values (?, ?, ?)", row))

    def _try(self, work: Callable[["Connection"], Result]) -> Result | None:
        """Run a statement; a file that is not a database is set aside, once."""
        import sqlite3

        with self._lock:
            for attempt in range(2):
                if self._is_broken:
                    return None
                try:
                    return work(self._open())
                except sqlite3.OperationalError as error:
                    self._give_up(str(error))
                except (sqlite3.DatabaseError, OSError) as error:
                    self._close()
                    if attempt or not self._set_aside():
                        self._give_up(str(error))
            return None

    def _open(self) -> "Connection":
        import sqlite3

        if self._connection is None or self._process != os.getpid():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(
                self.path, timeout=LOCK_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._connection, self._process = connection, os.getpid()
            # What is lost in a power failure is compiled again.
            connection.execute("pragma synchronous = off")
            connection.execute(
                f"create table if not exists {TABLE} "
                "(key text primary key, checksum text not null, data blob not null)"
            )
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _set_aside(self) -> bool:
        aside = self.path.with_name(f"{self.path.name}.corrupt-{os.getpid()}")
        try:
            os.replace(self.path, aside)
        except OSError:
            return False
        self._warn(f"is not a database; set aside as {aside.name}")
        return True

    def _give_up(self, reason: str) -> None:
        self._close()
        self._is_broken = True
        self._warn(f"cannot be used ({reason}); compiled kernels are kept in memory only")

    def _warn(self, text: str) -> None:
        message = (
            f"kernel cache {self.path} {text}\nhint: CACHEDB names another file, CCACHE=0 none"
        )
        warnings.warn(CacheWarning(message), stacklevel=2)


_caches: dict[Path, DiskCache] = {}


def disk_cache() -> DiskCache | None:
    """The cache in force: None with CCACHE=0."""
    if not get("CCACHE"):
        return None
    path = database_path()
    return _caches.setdefault(path, DiskCache(path))
