"""Transcendental instructions stay within 1 ulp of the true value over their range."""

import numpy as np
import pytest

from sim.amd.rdna.instruction import Instruction, Operand
from sim.amd.rdna.interpret import Wave
from sim.amd.rdna.operands import execute

COUNT = 64 * 32  # samples

FUNCTIONS = {
    "v_exp_f32": (np.exp2, (-149, 128)),
    "v_log_f32": (np.log2, (1e-38, 1e38)),
    "v_sin_f32": (lambda x: np.sin(2 * np.pi * x), (-0.24, 0.24)),
    "v_cos_f32": (lambda x: np.cos(2 * np.pi * x), (-0.24, 0.24)),
    "v_rsq_f32": (lambda x: 1 / np.sqrt(x), (1e-30, 1e30)),
    "v_rcp_f32": (lambda x: 1 / x, (1e-30, 1e30)),
}


def samples(name, low, high):
    generator = np.random.default_rng(7)
    if low > 0:
        return np.exp(generator.uniform(np.log(low), np.log(high), COUNT)).astype(np.float32)
    return generator.uniform(low, high, COUNT).astype(np.float32)


def evaluate(name, values):
    wave = Wave(64, 0, bytearray())
    wave.set_exec((1 << 64) - 1)
    instruction = Instruction(
        0, 4, "VOP1", name, 0, {}, (Operand("vgpr", 2),), (Operand("vgpr", 1),)
    )
    results = []
    for part in values.view(np.uint32).reshape(-1, 64):
        wave.vgprs[1] = part
        execute(instruction, wave)
        results.append(wave.vgprs[2].copy())
    return np.concatenate(results).view(np.float32)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_within_one_unit_in_the_last_place(name):
    function, (low, high) = FUNCTIONS[name]
    values = samples(name, low, high)
    with np.errstate(over="ignore", under="ignore"):
        exact = function(values.astype(np.float64))
        unit = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    assert np.max(np.abs(evaluate(name, values) - exact) / unit) <= 1.0


def test_sine_near_half_a_turn_keeps_its_relative_precision():
    values = np.resize(np.array([0.5 + 2.0**-24 * n for n in range(1, 33)], np.float32), 64)
    exact = np.sin(2 * np.pi * (values.astype(np.float64) - 0.5)) * -1
    got = evaluate("v_sin_f32", values)
    nonzero = exact != 0
    assert np.allclose(got[nonzero], exact[nonzero], rtol=2e-7, atol=0)
