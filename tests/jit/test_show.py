"""What DEBUG 3 to 7 shows of compiling."""

import logging
import re

import pytest
from kernel_maker import elementwise, matmul

import jit.compile
from hcq.settings import Context
from jit.compile import compile_many
from jit.dtype import dtypes
from jit.steps import Fresh, Launch, Plan, share_temporaries
from runtime.call import Estimate

CPU, AMD = "LLVM:x86-64-v2", "LLVM:gfx1100"


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CACHEDB", str(tmp_path / "cache.db"))
    jit.compile.forget()


@pytest.fixture
def shown(caplog):
    """What work logs at a DEBUG level under hcq.jit, one text per record."""

    def logged(level, work):
        caplog.clear()
        with Context(DEBUG=level), caplog.at_level(logging.INFO, "hcq"):
            work()
        return [r.getMessage() for r in caplog.records if r.name == "hcq.jit"]

    return logged


def kernel(count=40):
    return elementwise("add", dtypes.float32, dtypes.float32, count, 2)


@pytest.mark.row("PRO-05")
@pytest.mark.parametrize(("level", "count"), [(2, 0), (3, 1), (4, 2), (5, 3), (6, 4), (7, 5)])
def test_each_level_adds_a_text(shown, level, count):
    assert len(shown(level, lambda: kernel().compile(AMD))) == count


@pytest.mark.row("PRO-05")
def test_what_the_levels_show(shown):
    plan, source, ir, optimised, code = shown(7, lambda: kernel().compile(AMD))
    assert plan == "plan of made: axis 0 loop 40 threads 32"
    assert source.splitlines()[:2] == ["kernel made", "arg float32 40 out"]
    assert "define amdgpu_kernel void @made(" in ir
    assert "define amdgpu_kernel void @made(" in optimised
    assert "attributes #0" in optimised
    assert "\tv_add_f32_e32 " in code
    assert "\ts_endpgm\n" in code


@pytest.mark.row("PRO-05")
def test_plan_says_how_each_axis_is_cut(shown):
    (plan,) = shown(3, lambda: matmul(64, 64, 64).compile(CPU))
    cuts = r"axis 0 loop 64 unroll \d+, axis 1 loop 64 unroll \d+ lanes 4, axis 2 reduce 64 whole"
    assert re.match(f"plan of made: {cuts}", plan)


@pytest.mark.row("PRO-05")
def test_kernels_from_the_disk_cache_are_shown_too(shown):
    first = shown(4, lambda: kernel().compile(CPU))
    jit.compile.forget()
    assert shown(4, lambda: kernel().compile(CPU)) == first
    assert shown(4, lambda: kernel().compile(CPU)) == []


@pytest.mark.row("PRO-05")
def test_kernels_compiled_by_workers_are_shown_too(shown):
    kernels = [kernel(count) for count in range(50, 58)]
    with Context(PARALLEL=1):
        texts = shown(4, lambda: compile_many(kernels, CPU))
    assert len(texts) == 16


@pytest.mark.row("PRO-05")
def test_memory_plan_is_told_at_level_1(shown):
    fresh = [Fresh("CPU", 10, dtypes.float32) for _ in range(4)]
    steps = [Launch(kernel(), (n + 1, n), "CPU", 1, Estimate()) for n in range(4)]
    plan = Plan(tuple(fresh), tuple(steps), ((0, 4),))
    text = "memory plan: 4 buffers in 3, 160 bytes in 120"
    assert shown(1, lambda: share_temporaries(plan, 1)) == [text]
    assert shown(0, lambda: share_temporaries(plan, 1)) == []
