"""Compiled objects: kept, found again, and never trusted blindly."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hcq.errors import CacheWarning, SimFault
from sim.isa.jit import Jit, check_processor, compile_text, default_directory, trim

SEVEN = "define i32 @{name}() {{\n  ret i32 7\n}}\n"

# Loads `name` from the cache directory in a process of its own; prints (compiled, reused, result).
CHILD = """
import ctypes, sys
from sim.isa.jit import Jit
jit = Jit(sys.argv[1])
name = sys.argv[2]
address = jit.load(name, lambda: "define i32 @%s() {\\n  ret i32 7\\n}\\n" % name, [name])[0]
print(jit.compiled, jit.reused, ctypes.CFUNCTYPE(ctypes.c_int32)(address)())
"""


def load(jit, name):
    address = jit.load(name, lambda: SEVEN.format(name=name), [name])[0]
    return ctypes.CFUNCTYPE(ctypes.c_int32)(address)()


def in_child(directory, name):
    result = subprocess.run(
        [sys.executable, "-c", CHILD, str(directory), name],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    return result.stdout.split()


def objects(directory):
    return list(Path(directory).rglob("*.o"))


def test_a_function_is_compiled_and_runs(tmp_path):
    assert load(Jit(str(tmp_path)), "jit_runs") == 7


def test_an_object_is_kept_on_disk(tmp_path):
    load(Jit(str(tmp_path)), "jit_keeps")
    assert len(objects(tmp_path)) == 1


def test_another_process_finds_the_object(tmp_path):
    load(Jit(str(tmp_path)), "jit_found")
    assert in_child(tmp_path, "jit_found") == ["0", "1", "7"]


def test_a_damaged_object_is_compiled_again(tmp_path):
    load(Jit(str(tmp_path)), "jit_damaged")
    path = objects(tmp_path)[0]
    image = bytearray(path.read_bytes())
    image[len(image) // 2] ^= 0xFF
    path.write_bytes(image)
    assert in_child(tmp_path, "jit_damaged") == ["1", "0", "7"]


def test_an_empty_object_is_compiled_again(tmp_path):
    load(Jit(str(tmp_path)), "jit_empty")
    objects(tmp_path)[0].write_bytes(b"")
    assert in_child(tmp_path, "jit_empty") == ["1", "0", "7"]


@pytest.mark.refusal
def test_an_unusable_directory_is_a_warning(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    with pytest.warns(CacheWarning, match="translated kernels cannot be kept in .*/file/sim"):
        assert load(Jit(str(blocked / "sim")), "jit_blocked") == 7


def test_the_warning_comes_once(tmp_path, recwarn):
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    jit = Jit(str(blocked / "sim"))
    with pytest.warns(CacheWarning):
        load(jit, "jit_once")
    recwarn.clear()
    load(jit, "jit_once_more")
    assert not recwarn.list


def test_the_oldest_objects_of_a_full_folder_go(tmp_path):
    for age in range(10):
        path = tmp_path / f"{age}.o"
        path.touch()
        os.utime(path, (1000 - age, 1000 - age))
    trim(tmp_path, most=9)
    assert sorted(path.name for path in objects(tmp_path)) == ["0.o", "1.o", "2.o", "3.o", "4.o"]


def test_a_folder_that_is_not_full_stays_as_it_is(tmp_path):
    (tmp_path / "1.o").touch()
    trim(tmp_path, most=1)
    assert len(objects(tmp_path)) == 1


def test_a_function_is_loaded_once_per_process(tmp_path):
    jit = Jit(str(tmp_path))
    first = jit.load("jit_twice", lambda: SEVEN.format(name="jit_twice"), ["jit_twice"])
    assert jit.load("jit_twice", lambda: "", ["jit_twice"]) == first
    assert jit.compiled == 1


def test_the_cache_follows_xdg(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_directory() == Path("/somewhere/hcq/sim")


def test_without_xdg_the_cache_is_in_home(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/someone")
    assert default_directory() == Path("/home/someone/.cache/hcq/sim")


@pytest.mark.refusal
def test_text_that_is_no_module_is_refused():
    with pytest.raises(SimFault, match="not valid LLVM IR"):
        compile_text("define nonsense")


@pytest.mark.refusal
def test_a_processor_without_fused_multiply_add_is_refused():
    with pytest.raises(SimFault, match="this processor lacks fma") as caught:
        check_processor({"avx2": True, "fma": False, "f16c": True})
    assert "AVX2" in str(caught.value)
