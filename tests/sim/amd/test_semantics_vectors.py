"""Known answers for every executable opcode that computes within a lane or on scalars.

The literals lie in vectors/*.txt; here they are run through operands.execute with the last
lanes of the wave switched off, which must keep what they held.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest

from sim.amd.rdna.categories import all_semantics
from sim.amd.rdna.instruction import Instruction, Operand
from sim.amd.rdna.interpret import Wave
from sim.amd.rdna.operands import execute
from sim.isa.value import Type

VECTORS = Path(__file__).parent / "vectors"
TABLES = ("sop", "integer", "convert", "float", "divide", "packed")
ACTIVE = 0x0000_A5F5  # lanes that execute; the others must keep their registers
OLD = 0xDEAD_BEEF
# Keys that are state or raw fields, not fields of Instruction.
STATE = ("scc", "vcc", "exec", "old", "clock", "message")


@dataclass(frozen=True)
class Case:
    text: str
    name: str
    sources: tuple[int, ...]
    keys: dict[str, int]
    results: tuple[int, ...]


def parse(line):
    left, right = line.split("->")
    name, *words = left.split()
    keys = dict(word.split("=") for word in words if "=" in word)
    return Case(
        line,
        name,
        tuple(int(word, 16) for word in words if "=" not in word),
        {key: int(value, 16) for key, value in keys.items()},
        tuple(int(word, 16) for word in right.split()),
    )


def load():
    cases = {}
    for table in TABLES:
        for line in (VECTORS / f"{table}.txt").read_text().splitlines():
            if line and not line.startswith("#"):
                case = parse(line)
                cases.setdefault(case.name, []).append(case)
    return cases


CASES = load()


def bits_of(token):
    if isinstance(token, Type):
        return token.bits
    if isinstance(token, int):
        return 32 * token
    return {"mask": 0, "mix": 32, "high": 16}.get(token, 32)


def put_scalar(wave, index, value, bits):
    for part in range(max(1, bits // 32)):
        wave.scalars["sgpr"][index + part] = value >> 32 * part & 0xFFFF_FFFF


def put_vector(wave, index, value, bits):
    for part in range(max(1, bits // 32)):
        wave.vgprs[index + part] = value >> 32 * part & 0xFFFF_FFFF


def place_source(wave, at, value, token, scalar):
    """Put one source into registers of its own; the operand that reads it."""
    bits = bits_of(token)
    if token == "mask":
        ones = (1 << wave.width) - 1 if value else 0
        put_scalar(wave, 20, ones, wave.width)
        return Operand("sgpr", 20, wave.width // 32)
    index = 2 + 4 * at
    (put_scalar if scalar else put_vector)(wave, index, value, bits)
    return Operand("sgpr" if scalar else "vgpr", index, max(1, bits // 32))


def place_result(wave, at, token, old, scalar):
    """Fill a result's registers with the old value; the operand that writes it."""
    bits = bits_of(token)
    if token == "mask":
        put_scalar(wave, 60, (1 << wave.width) - 1, wave.width)
        return Operand("sgpr", 60, wave.width // 32)
    index = 40 + 4 * at
    (put_scalar if scalar else put_vector)(wave, index, old, bits)
    return Operand("sgpr" if scalar else "vgpr", index, max(1, bits // 32))


def run(case, width):
    """Execute a case on a fresh wave; the wave and the destination operands."""
    semantic = all_semantics()[case.name]
    wave = Wave(width, 0, bytearray())
    wave.set_exec(case.keys.get("exec", ACTIVE))
    wave.started = case.keys.get("clock", 0)
    wave._scc = bool(case.keys.get("scc", 0))
    wave.scalars["vcc"][:] = 0xFFFF_FFFF if case.keys.get("vcc") else 0
    sources = tuple(
        place_source(wave, at, value, token, semantic.scalar)
        for at, (value, token) in enumerate(zip(case.sources, semantic.sources, strict=True))
    )
    old = case.keys.get("old", OLD)
    explicit = [token for token in semantic.results if token not in ("scc", "exec")]
    destinations = tuple(
        place_result(wave, at, token, old, semantic.scalar) for at, token in enumerate(explicit)
    )
    packed = {"packed", "packed_int"} & set(semantic.sources)
    fields = {"op_sel_hi": 7 if packed else 0}
    fields |= {key: value for key, value in case.keys.items() if key not in (*STATE, "imm")}
    instruction = Instruction(
        0, 4, "VOP3", case.name, 0, {"ssrc0": case.keys.get("message", 0)}, destinations, sources,
        offset=case.keys.get("imm", 0), **fields,
    )  # fmt: skip
    execute(instruction, wave)
    return wave, destinations


def lanes_of(wave, operand, token):
    parts = wave.vgprs[operand.index : operand.index + max(1, bits_of(token) // 32)].tolist()
    lanes = zip(*parts, strict=True)
    numbers = [sum(word << 32 * at for at, word in enumerate(lane)) for lane in lanes]
    if token == "high":
        return [number >> 16 for number in numbers]
    return [number & 0xFFFF for number in numbers] if bits_of(token) == 16 else numbers


def scalar_of(wave, operand, bits):
    low, high = wave.scalars[operand.kind][operand.index : operand.index + 2].tolist()
    return low | high << 32 if bits == 64 else low


def observed(wave, operand, token, scalar):
    """What a result left in its registers."""
    if token == "scc":
        return int(wave._scc)
    if token == "exec":
        return scalar_of(wave, Operand("exec", 0), 64)
    if token == "mask":
        return scalar_of(wave, operand, wave.width)
    return scalar_of(wave, operand, bits_of(token)) if scalar else lanes_of(wave, operand, token)


def expected(result, token, scalar, case, width):
    """What it should be, lane by lane for vector results."""
    if token == "mask":
        return ACTIVE if result else 0
    if token in ("scc", "exec") or scalar:
        return result
    bits = bits_of(token)
    old = case.keys.get("old", OLD) & ((1 << bits) - 1)
    if token == "high":
        old = OLD >> 16
    return [result if ACTIVE >> lane & 1 else old for lane in range(width)]


def check(case, width):
    semantic = all_semantics()[case.name]
    wave, destinations = run(case, width)
    at = 0
    for result, token in zip(case.results, semantic.results, strict=True):
        operand = None
        if token not in ("scc", "exec"):
            operand, at = destinations[at], at + 1
        got = observed(wave, operand, token, semantic.scalar)
        assert got == expected(result, token, semantic.scalar, case, width), case.text


@pytest.mark.row("SIM-04")
@pytest.mark.parametrize("width", [32, 64])
@pytest.mark.parametrize("name", sorted(CASES))
def test_known_answers_of(name, width):
    for case in CASES[name]:
        check(case, width)
