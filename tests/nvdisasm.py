"""NVIDIA's disassembler and the compiled corpus, for tests that compare with ours.

Both come from wheels of the `test` extra: nvidia-cuda-nvdisasm and nvidia-nvjitlink.
"""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

CORPUS = Path(__file__).parent / "sim" / "nv" / "corpus.py"
NOP = 0xFC0000000000000007918
_BAD = re.compile(r"at address 0x([0-9a-f]+)")
_LINE = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*)")


def _absent(what):
    """Skip; continuous integration must have it."""
    if os.environ.get("CI"):
        raise AssertionError(f"{what} is not installed")
    pytest.skip(f"{what} is not installed")


def _wheel_file(pattern, what):
    spec = find_spec("nvidia")
    for root in spec.submodule_search_locations if spec else ():
        for path in sorted(Path(root).glob(pattern)):
            return path
    return _absent(what)


def disassembler():
    """The path of nvdisasm; skips."""
    return _wheel_file("*/bin/nvdisasm", "nvidia-cuda-nvdisasm")


def linker():
    """The path of nvJitLink; skips."""
    return _wheel_file("*/lib/libnvJitLink.so.*", "nvidia-nvjitlink")


def compiled(chip):
    """Section -> machine code of the corpus for one chip; skips."""
    linker()
    command = [sys.executable, str(CORPUS), chip]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, f"{chip}: {run.stderr.splitlines()[-3:]}"
    return {name: bytes.fromhex(code) for name, code in json.loads(run.stdout)[chip].items()}


def words_of(code):
    """The 128-bit words of machine code."""
    return [int.from_bytes(code[i : i + 16], "little") for i in range(0, len(code), 16)]


def disassemble(words, chip, folder):
    """The line for each word, word i at address 16 * i; None where nvdisasm refuses."""
    path, refused = folder / f"{chip}.bin", set()
    while True:
        kept = [NOP if i in refused else word for i, word in enumerate(words)]
        path.write_bytes(b"".join(word.to_bytes(16, "little") for word in kept))
        command = [disassembler(), "-b", chip.replace("sm_", "SM"), path]
        run = subprocess.run(command, capture_output=True, text=True)
        bad = {int(address, 16) // 16 for address in _BAD.findall(run.stderr)}
        if not bad - refused:
            break
        refused |= bad
    assert run.returncode == 0, run.stderr[-300:]
    lines = [match for line in run.stdout.splitlines() if (match := _LINE.match(line))]
    # It prints a space between the brackets of a constant whose byte is converted.
    texts = {int(match[1], 16) // 16: match[2].rstrip(" ;").replace("] [", "][") for match in lines}
    return [None if i in refused else texts.get(i) for i in range(len(words))]
