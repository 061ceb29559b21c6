"""The disk cache: what it keeps, and that nothing wrong with the file ends a run."""

import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from kernel_maker import elementwise

import jit.cache
from hcq.errors import CacheWarning
from hcq.settings import Context
from jit.cache import DiskCache, code_bytes, code_from_bytes, database_path, disk_cache
from jit.dtype import dtypes
from runtime.backend import Code, CodeArgument

CODE = Code(
    target="LLVM:gfx1100",
    format="hsaco",
    image=b"\x7fELF\0\1\2",
    entry="k",
    arguments=(CodeArgument("buffer", "float32", 8, True), CodeArgument("scalar", "int32", 4)),
    grid=(3, 1, 1),
    block=(32, 1, 1),
    local_bytes=128,
    key="abc",
    facts={"name": "k"},
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "cache.db"


def test_a_code_survives_its_bytes():
    assert code_from_bytes(code_bytes(CODE)) == CODE
    assert code_from_bytes(code_bytes(CODE)).facts == {"name": "k"}


def test_an_entry_is_found_by_another_opening(path):
    DiskCache(path).put("key", CODE)
    assert DiskCache(path).get("key") == CODE
    assert DiskCache(path).get("other") is None


def test_an_entry_whose_checksum_is_wrong_is_a_miss(path):
    cache = DiskCache(path)
    cache.put("key", CODE)
    with sqlite3.connect(path) as connection:
        connection.execute(f"update {jit.cache.TABLE} set data = x'00' where key = 'key'")
    connection.close()
    assert cache.get("key") is None


def test_an_entry_with_a_good_checksum_that_is_no_code_is_a_miss(path):
    import hashlib

    cache = DiskCache(path)
    cache.put("key", CODE)
    data = b"\x02\0\0\0{}"
    with sqlite3.connect(path) as connection:
        connection.execute(
            f"update {jit.cache.TABLE} set data = ?, checksum = ?",
            (data, hashlib.sha256(data).hexdigest()),
        )
    connection.close()
    assert cache.get("key") is None


@pytest.mark.row("CMP-04")
@pytest.mark.parametrize("data", ["text", 7, None, b"\x02\0\0\0[]", b"\x04\0\0\0null", b""])
def test_an_entry_of_another_type_is_a_miss(path, data):
    import hashlib

    cache = DiskCache(path)
    cache.put("key", CODE)
    raw = data if isinstance(data, bytes) else str(data).encode()
    with sqlite3.connect(path) as connection:
        connection.execute(f"alter table {jit.cache.TABLE} rename to old")
        connection.execute(f"create table {jit.cache.TABLE} (key, checksum, data)")
        row = ("key", hashlib.sha256(raw).hexdigest(), data)
        connection.execute(f"insert into {jit.cache.TABLE} values (?, ?, ?)", row)
    connection.close()
    assert cache.get("key") is None


@pytest.mark.row("CMP-04")
@pytest.mark.parametrize("content", [b"not a database at all" * 100, os.urandom(5000)])
def test_a_file_that_is_no_database_is_set_aside(path, content):
    path.parent.mkdir()
    path.write_bytes(content)
    cache = DiskCache(path)
    with pytest.warns(CacheWarning, match="set aside"):
        assert cache.get("key") is None
    cache.put("key", CODE)
    assert cache.get("key") == CODE
    (aside,) = path.parent.glob("cache.db.corrupt-*")
    assert aside.read_bytes() == content


@pytest.mark.row("CMP-04")
def test_a_database_cut_short_is_set_aside(path):
    cache = DiskCache(path)
    for n in range(200):
        cache.put(f"key{n}", CODE)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    damaged = DiskCache(path)
    with pytest.warns(CacheWarning, match="hint: CACHEDB names another file"):
        found = [damaged.get(f"key{n}") for n in range(200)]
    assert set(found) <= {CODE, None}


@pytest.mark.row("CMP-04")
def test_a_place_that_cannot_be_written_costs_one_warning(tmp_path):
    (tmp_path / "file").write_text("in the way")
    cache = DiskCache(tmp_path / "file" / "cache.db")
    with pytest.warns(CacheWarning, match="cannot be used"):
        cache.put("key", CODE)
    assert cache.get("key") is None  # a second warning would be an error


@pytest.mark.row("CMP-04")
def test_a_locked_file_costs_one_warning(path, monkeypatch):
    DiskCache(path).put("key", CODE)
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("begin exclusive")
    monkeypatch.setattr(jit.cache, "LOCK_SECONDS", 0.05)
    cache = DiskCache(path)
    with pytest.warns(CacheWarning, match="locked"):
        assert cache.get("key") is None
    blocker.execute("rollback")
    blocker.close()


WRITER = """
import sys, warnings
from pathlib import Path
warnings.simplefilter("error")
sys.path.insert(0, sys.argv[2])
from test_cache import CODE
from jit.cache import DiskCache
cache = DiskCache(Path(sys.argv[1]))
for n in range(20):
    cache.put(f"{sys.argv[3]}-{n}", CODE)
"""


@pytest.mark.row("CMP-04")
def test_eight_writers_lose_nothing(path):
    here = str(Path(__file__).parent)
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), here, str(w)]) for w in range(8)
    ]
    assert [w.wait() for w in writers] == [0] * 8
    cache = DiskCache(path)
    assert all(cache.get(f"{w}-{n}") == CODE for w in range(8) for n in range(20))


def test_threads_may_share_a_cache(path):
    cache = DiskCache(path)
    threads = [
        threading.Thread(target=lambda n=n: [cache.put(f"{n}{i}", CODE) for i in range(20)])
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(cache.get(f"{n}{i}") == CODE for n in range(4) for i in range(20))


def test_the_file_is_where_cachedb_says(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert database_path() == tmp_path / "hcq" / "cache.db"
    with Context(CACHEDB="/elsewhere/x.db"):
        assert database_path() == Path("/elsewhere/x.db")


def test_ccache_0_turns_it_off():
    with Context(CCACHE=0):
        assert disk_cache() is None


COMPILE = """
import sys
sys.path.insert(0, sys.argv[1])
from kernel_maker import elementwise, matmul
from jit.compile import counts
from jit.dtype import dtypes
for target in ("LLVM:x86-64-v3", "LLVM:gfx1100"):
    elementwise("sin", dtypes.float32, dtypes.float32, 40).compile(target)
    matmul(8, 9, 10).compile(target)
print(counts.compiled, counts.from_disk)
"""


@pytest.mark.row("CMP-01")
def test_a_second_process_compiles_nothing(tmp_path):
    environment = {**os.environ, "CACHEDB": str(tmp_path / "cache.db")}
    runs = [
        subprocess.run(
            [sys.executable, "-c", COMPILE, str(Path(__file__).parent)],
            env=environment | extra, capture_output=True, text=True, check=True,
        ).stdout.split()
        for extra in ({}, {}, {"CCACHE": "0"})
    ]  # fmt: skip
    assert runs == [["4", "0"], ["0", "4"], ["4", "0"]]


@pytest.mark.row("CMP-01")
def test_the_key_has_the_compiler_and_nothing_of_the_host(monkeypatch):
    from jit.compile import cache_key, compiler_version

    kernel = elementwise("sin", dtypes.float32, dtypes.float32, 40)
    key = cache_key(kernel, "LLVM:gfx1100")
    assert "llvm 22" in compiler_version()
    assert key != cache_key(kernel, "LLVM:x86-64-v3")
    monkeypatch.setattr("platform.node", lambda: "another")
    monkeypatch.setenv("HOME", "/another")
    assert key == cache_key(kernel, "LLVM:gfx1100")
