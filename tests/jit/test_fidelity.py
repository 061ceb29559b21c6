"""Tensor programs compiled for gfx1100: what our decoder makes of their code."""

from pathlib import Path

import fidelity
import pytest
from wide_programs import PROGRAMS, arithmetic, kernels_of, spelled, training_kernels

from jit.compile import compile_many
from sim.amd.rdna.memory_ops import OPERATIONS

ROOT = Path(__file__).parents[2]
TARGET = "LLVM:gfx1100"


@pytest.fixture
def vector_add():
    """A code object of one small kernel."""
    return (ROOT / "examples" / "data" / "vector_add.gfx1100.o").read_bytes()


@pytest.mark.row("SIM-13")
@pytest.mark.parametrize(("make", "name"), PROGRAMS, ids=spelled)
def test_kernels_read_as_the_disassembler_prints_them_and_can_be_executed(amd_fidelity, make, name):
    found = kernels_of(make(name))
    assert found
    assert amd_fidelity.problems([code.image for code in compile_many(found, TARGET)]) == []


@pytest.mark.row("SIM-13")
@pytest.mark.parametrize("model", ["Mlp", "Conv"])
def test_kernels_of_the_training_example_do_so_too(amd_fidelity, model, monkeypatch):
    kernels = training_kernels(model, monkeypatch)
    assert len(kernels) > 10
    assert amd_fidelity.problems([code.image for code in compile_many(kernels, TARGET)]) == []


@pytest.mark.row("SIM-13")
def test_the_kernel_of_the_vector_add_example_does_so_too(amd_fidelity, vector_add):
    assert amd_fidelity.problems([vector_add]) == []


@pytest.mark.row("SIM-13")
def test_at_least_150_mnemonics_are_compared(amd_fidelity):
    for make, name in PROGRAMS:
        found = compile_many(kernels_of(make(name)), TARGET)
        assert amd_fidelity.problems([code.image for code in found]) == []
    assert len(amd_fidelity.names) >= 150


# The comparison itself.


@pytest.fixture
def fresh():
    """A comparison that has seen nothing; skips where there is no disassembler."""
    fidelity.disassembler()
    return fidelity.Fidelity()


def test_a_wrong_text_is_a_problem(fresh, vector_add, monkeypatch):
    monkeypatch.setattr(fidelity, "text", lambda _: "s_nop 1")
    assert "0000b0bf is 's_endpgm', not 's_nop 1'" in fresh.problems([vector_add])


def test_an_instruction_without_a_meaning_is_a_problem(fresh, vector_add, monkeypatch):
    monkeypatch.delitem(OPERATIONS, "global_store_b32")
    (problem,) = fresh.problems([vector_add])
    assert "global_store_b32 is not simulated" in problem


def test_an_image_is_compared_once(fresh, vector_add, monkeypatch):
    assert fresh.problems([vector_add]) == []
    assert "v_add_f32" in fresh.names
    monkeypatch.setattr(fidelity, "text", lambda _: "s_nop 1")
    assert fresh.problems([vector_add]) == []


def test_kernels_that_jit_compiles_are_remembered(images):
    (code,) = compile_many(kernels_of(arithmetic("bool"))[:1], TARGET)
    assert code.image in images.of(TARGET)


@pytest.mark.refusal
def test_continuous_integration_must_have_the_disassembler(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CI", "1")
    with pytest.raises(AssertionError, match="llvm-mc-22 is not installed"):
        fidelity.disassembler()
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="llvm-mc-22 is not installed"):
        fidelity.disassembler()
