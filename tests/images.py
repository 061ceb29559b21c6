"""Remembers the machine code that this process gets from jit and from nvJitLink, by target.

Tests that compile in a process of their own are not seen; what they compile is compiled
here too by tests/jit/test_fidelity.py and tests/jit/test_fidelity_nv.py.
"""

from collections import defaultdict

import jit.compile
from jit.codegen import nvjitlink


class Images:
    """Target ("LLVM:gfx1100", "PTX:sm_90") -> code objects, in the order they came."""

    def __init__(self):
        self._found = defaultdict(dict)

    def add(self, target, image):
        self._found[target][image] = True

    def of(self, target):
        """The code objects of one target, each once."""
        return list(self._found[target])

    def targets(self, kind):
        """The targets of one kind of compiler, such as "PTX", that have any."""
        return sorted(target for target in self._found if target.startswith(f"{kind}:"))


class _Memory(dict):
    """jit's memory of compiled kernels, which tells their images."""

    def __init__(self, images):
        super().__init__()
        self._images = images

    def __setitem__(self, key, code):
        super().__setitem__(key, code)
        if key[1].startswith(("LLVM:gfx", "PTX:")):
            self._images.add(key[1], code.image)


def watch():
    """The images of this process from now on; before anything imports nvJitLink's `link`."""
    images = Images()
    memory = _Memory(images)
    for key, code in jit.compile._memory.items():
        memory[key] = code
    jit.compile._memory = memory
    link = nvjitlink.link

    def remembering(ptx, arch, name):
        cubin = link(ptx, arch, name)
        images.add(f"PTX:{arch}", cubin)
        return cubin

    nvjitlink.link = remembering
    return images
