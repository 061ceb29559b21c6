"""Tensor programs compiled for NVIDIA chips: what our decoder makes of their code."""

from pathlib import Path

import fidelity_nv
import nvdisasm
import pytest
from wide_programs import PROGRAMS, arithmetic, kernels_of, spelled, training_kernels

from jit.compile import compile_many
from sim.nv.sass.categories import all_semantics

CHIPS = ("sm_86", "sm_90", "sm_120")
ROOT = Path(__file__).parents[2]


def cubins(kernels, chip):
    return [code.image for code in compile_many(kernels, f"PTX:{chip}")]


@pytest.fixture(scope="module", autouse=True)
def tools():
    """Skips where nvJitLink or nvdisasm is not installed."""
    nvdisasm.linker()
    nvdisasm.disassembler()


@pytest.fixture
def vector_add():
    """A cubin of one small kernel for sm_90."""
    return (ROOT / "examples" / "data" / "vector_add.sm_90.o").read_bytes()


@pytest.mark.row("SIM-13")
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("make", "name"), PROGRAMS, ids=spelled)
def test_kernels_read_as_the_disassembler_prints_them_and_have_a_meaning(
    nv_fidelity, make, name, chip
):
    found = kernels_of(make(name))
    assert found
    assert nv_fidelity.problems(chip, cubins(found, chip)) == []


@pytest.mark.row("SIM-13")
@pytest.mark.parametrize("model", ["Mlp", "Conv"])
def test_kernels_of_the_training_example_do_so_too(nv_fidelity, model, monkeypatch):
    kernels = training_kernels(model, monkeypatch)
    assert len(kernels) > 10
    for chip in CHIPS:
        assert nv_fidelity.problems(chip, cubins(kernels, chip)) == []


# The comparison itself.


@pytest.fixture
def fresh(tmp_path):
    """A comparison that has seen nothing."""
    return fidelity_nv.Fidelity(tmp_path)


def test_a_wrong_text_is_a_problem(fresh, vector_add, monkeypatch):
    monkeypatch.setattr(fidelity_nv, "text", lambda *_: "NOP")
    problems = fresh.problems("sm_90", [vector_add])
    assert [p for p in problems if p.endswith("is 'EXIT', not 'NOP'")]


def test_an_instruction_without_a_meaning_is_a_problem(fresh, vector_add, monkeypatch):
    monkeypatch.delitem(all_semantics(), "FADD")
    (problem,) = fresh.problems("sm_90", [vector_add])
    assert "cannot be executed: instruction FADD is not simulated" in problem


def test_code_that_the_decoder_refuses_is_a_problem(fresh, vector_add):
    (code,) = fidelity_nv.code_of(vector_add)
    unknown = bytes.fromhex("ff" * 16)
    (problem,) = fresh.problems("sm_90", [vector_add.replace(code[:16], unknown)])
    assert "is not simulated" in problem


def test_a_cubin_is_compared_once(fresh, vector_add, monkeypatch):
    assert fresh.problems("sm_90", [vector_add]) == []
    assert "FADD" in fresh.names
    monkeypatch.setattr(fidelity_nv, "text", lambda *_: "NOP")
    assert fresh.problems("sm_90", [vector_add]) == []


def test_what_jit_compiles_is_remembered(images):
    (cubin,) = cubins(kernels_of(arithmetic("bool"))[:1], "sm_90")
    assert cubin in images.of("PTX:sm_90")


def test_what_nvjitlink_makes_is_remembered(images):
    from jit.codegen.nvjitlink import link

    ptx = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry here() { ret; }\n"
    assert link(ptx, "sm_90", "here") in images.of("PTX:sm_90")


@pytest.mark.refusal
def test_continuous_integration_must_have_both_tools(monkeypatch):
    monkeypatch.setattr(nvdisasm, "find_spec", lambda _: None)
    monkeypatch.setenv("CI", "1")
    for find, wheel in (
        (nvdisasm.disassembler, "nvidia-cuda-nvdisasm"), (nvdisasm.linker, "nvidia-nvjitlink")
    ):  # fmt: skip
        with pytest.raises(AssertionError, match=f"{wheel} is not installed"):
            find()
