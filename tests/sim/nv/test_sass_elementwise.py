"""One result per thread: every type and operation against numpy, on three generations."""

import numpy as np
import pytest
from bare_nv import Gpu, cubin, library, ptx_of
from nv_elementwise import COUNT, cases, module

CASES = {case.name: case for case in cases()}
CHIPS = ("sm_86", "sm_90", "sm_120")

pytestmark = pytest.mark.skipif(library() is None, reason="needs the wheel nvidia-nvjitlink")


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """program(chip, interpret): all cases, loaded once."""
    made = {}
    folder = str(tmp_path_factory.mktemp("cache"))

    def program(chip, interpret):
        if (chip, interpret) not in made:
            gpu = Gpu(chip, interpret=interpret, cache_directory=folder)
            code = cubin(chip, ptx_of(chip, module(list(CASES.values()))))
            made[chip, interpret] = gpu.load(code)
        return made[chip, interpret]

    return program


def check(program, case):
    gpu = program.gpu
    expected = case.expected()
    pointers = [gpu.put(values) for values in case.inputs]
    out = gpu.room(16 * COUNT)
    program.run(case.name, (1,), (COUNT,), out, *pointers)
    dtype = expected.dtype
    got = gpu.get(out, dtype, COUNT)
    if dtype.kind == "f":
        np.testing.assert_array_equal(got, expected)
        sign = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(got)[sign], np.signbit(expected)[sign])
    else:
        np.testing.assert_array_equal(got, expected.view(dtype))


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", sorted(CASES))
def test_interpreter_agrees_with_numpy(programs, name, chip):
    check(programs(chip, True), CASES[name])


@pytest.mark.parametrize("name", sorted(CASES))
def test_translation_agrees_with_numpy(programs, name):
    check(programs("sm_90", False), CASES[name])
