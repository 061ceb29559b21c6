"""Kernels that do not end, or not soon, are stopped; what a jump finds is checked as well."""

import time

import pytest
from bare_amd import words

from sim.amd.wave import WaveFault

GO_BACK = words(
    0xBE844700,  # s_getpc_b64 s[4:5]: the place of the next instruction
    0xBE804804,  # s_setpc_b64 s[4:5]
)
NOP, END = 0xBF800000, 0xBFB00000
SOON = 2.0  # seconds


@pytest.mark.row("SIM-10")
def test_a_loop_over_a_computed_jump_is_stopped(gpu):
    looks = []
    with pytest.raises(WaveFault, match="stopped"):
        gpu.run(GO_BACK, lambda: len(looks.append(0) or looks) > 20)


def test_decoding_is_stopped(native):
    size = 32 << 20
    at, data = native.allocate(size, executable=True)
    data.view("uint32")[:] = NOP
    end = time.monotonic() + 0.1
    with pytest.raises(WaveFault, match="was stopped") as caught:
        native.run(at, lambda: time.monotonic() > end)
    assert caught.value.kind == "aborted"
    assert time.monotonic() < end + SOON


def test_code_too_long_to_translate_is_interpreted(native, monkeypatch):
    monkeypatch.setattr("sim.isa.kernels.MOST_TRANSLATED", 4 * 40)
    loads = []
    monkeypatch.setattr(native.executor.kernels, "function", lambda *_, **__: loads.append(0) or 0)
    native.run(words(*[NOP] * 40, END))
    assert loads == []
    assert native.executor.counters["instructions"] == 41


@pytest.mark.refusal
def test_registers_of_code_that_a_computed_jump_finds_are_counted_too(native):
    far = native.load(words(0x7EB40301, END))  # v_mov_b32_e32 v90, v1
    jump = words(
        0xBE8400FF, far & 0xFFFFFFFF,  # s_mov_b32 s4, low
        0xBE8500FF, far >> 32,  # s_mov_b32 s5, high
        0xBE804804,  # s_setpc_b64 s[4:5]
    )  # fmt: skip
    with pytest.raises(WaveFault, match=r"uses v90, but RSRC1 allocates 16 VGPRs"):
        native.run(jump)
