"""Reading operands, applying modifiers, writing results: shared by interpreter and translator.

`execute` runs one computing instruction against an engine's registers. The order is the
contract: every source is read (all halves of a dual-issue pair first), then results are written.

Source: AMD "RDNA3" Instruction Set Architecture, chapters 6 (scalar operands), 7 (vector
operands, modifiers, DPP, dual issue); section 7.2.2 for output modifiers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hcq.errors import SimFault
from sim.amd.rdna.categories import lookup
from sim.amd.rdna.dpp import shuffle
from sim.amd.rdna.instruction import Instruction, Operand, inline_bits
from sim.amd.rdna.mode import KEEP_RESULTS, KEEP_SOURCES, clamp_to_one, flush
from sim.amd.rdna.registers import Registers
from sim.amd.rdna.relative import MOVES, move
from sim.amd.rdna.semantics import Semantic, Token
from sim.isa.value import F16, F32, U16, U32, U64, Type, Value, lane_id, unballot

# Upper halves of the addresses of LDS and scratch in the flat address space.
# Source: Linux amdkfd kfd_flat_memory.c, apertures of GFX9 and later.
SHARED_APERTURE = 0x0001_0000
PRIVATE_APERTURE = 0x0002_0000
APERTURES = {  # operand code: (low word, high word)
    235: (0, SHARED_APERTURE),
    236: (0xFFFF_FFFF, SHARED_APERTURE),
    237: (0, PRIVATE_APERTURE),
    238: (0xFFFF_FFFF, PRIVATE_APERTURE),
}


SEES_DENORMALS = frozenset({"v_cmp_class_f32", "v_cmpx_class_f32"})  # whatever MODE says


@dataclass(frozen=True)
class Write:
    """One result waiting to be written; mask limits the lanes of a VGPR."""

    destination: Operand | None
    token: Token
    value: Any
    mask: Value | None


def execute(instruction: Instruction, registers: Registers) -> None:
    """Run one computing instruction; SimFault names one without a meaning."""
    if instruction.name in MOVES:
        source = instruction.sources[0]
        move(instruction, registers, lambda part: read_word(registers, source, part))
        return
    parts = instruction.halves or (instruction,)
    pending = [write for part in parts for write in evaluate(part, registers)]
    for write in pending:
        _commit(write, registers)


def evaluate(instruction: Instruction, registers: Registers) -> list[Write]:
    """The results of one instruction, nothing written yet."""
    semantic = meaning(instruction)
    if semantic.scalar:
        arguments, mask = _scalar_arguments(instruction, semantic, registers), None
    else:
        arguments, mask = _vector_arguments(instruction, semantic, registers)
    arguments += [
        READS[name](instruction, semantic, registers) for name in semantic.reads
    ]
    results = semantic.function(*arguments)
    if not isinstance(results, tuple) or isinstance(semantic.results[0], int):
        results = (results,)
    if not semantic.scalar:
        results = tuple(
            _flushed(
                _modify_result(instruction, semantic, token, result), semantic, registers,
                KEEP_RESULTS,
            )
            for token, result in zip(semantic.results, results, strict=True)
        )
    destinations = list(instruction.destinations)
    implicit = ("scc", "exec")
    return [
        Write(None if token in implicit else destinations.pop(0), token, result, mask)
        for token, result in zip(semantic.results, results, strict=True)
    ]


def meaning(instruction: Instruction) -> Semantic:
    """The registered meaning; halves of a dual-issue pair share that of the single form."""
    name = instruction.name.replace("v_dual_", "v_")
    if name.startswith("v_wmma") and instruction.destinations[0].count == 4:
        name += "_w64"
    return lookup(name)


# --- sources


def read_value(registers: Registers, operand: Operand, target: Type) -> Value:
    """An operand as a Value of target, source modifiers applied.

    16-bit types take the low or (operand.hi) high half, 64-bit types a register pair; literals
    of 64 bits are the high word of a double, else extended by the type's signedness.
    """
    raw = _raw(registers, operand, target)
    sign = 1 << (target.bits - 1)
    if operand.abs:
        raw = raw & (sign - 1)
    if operand.neg:
        raw = raw ^ sign
    return raw.bits(target)


def read_mask(registers: Registers, operand: Operand) -> Value:
    """A lane mask held in scalar registers, as BOOL lanes."""
    wide = U32 if registers.width == 32 else U64
    return unballot(_raw(registers, operand, wide))


def read_word(registers: Registers, operand: Operand, part: int = 0) -> Value:
    """Dword `part` of an operand, U32: lanes for a VGPR, else uniform."""
    kind = operand.kind
    if kind in ("vgpr", "sgpr", "ttmp", "vcc", "exec", "m0"):
        return registers.read(kind, operand.index + part)
    if kind == "int":
        return registers.constant(U32, operand.value >> 31 if part else operand.value)
    if kind == "float":
        return registers.constant(U32, operand.value if not part else 0)
    if kind == "literal":
        return registers.constant(U32, 0 if part else operand.value)
    return _special_word(registers, operand, part)


def _special_word(registers: Registers, operand: Operand, part: int) -> Value:
    kind = operand.kind
    if kind == "null" or (part and kind in ("scc", "vccz", "execz")):
        return registers.constant(U32, 0)
    if kind == "scc":
        return registers.scc.to(U32)
    if kind in ("vccz", "execz"):
        return is_zero_mask(registers, kind[:-1]).to(U32)
    if kind == "aperture":
        return registers.constant(U32, APERTURES[operand.index][part])
    raise SimFault(f"operand {kind} is not simulated")


def is_zero_mask(registers: Registers, kind: str) -> Value:
    """Uniform BOOL: whether VCC or EXEC ("vcc", "exec") is 0."""
    word = registers.read(kind, 0)
    if registers.width == 64:
        word = word | registers.read(kind, 1)
    zero: Value = word == 0
    return zero


def _raw(registers: Registers, operand: Operand, target: Type) -> Value:
    bits = target.bits
    if operand.kind == "float":
        return registers.constant(target.unsigned, inline_bits(operand, bits))
    if bits == 64:
        return _raw_pair(registers, operand, target)
    word = read_word(registers, operand)
    if bits == 32:
        return word
    return half(word, operand.hi)


def _raw_pair(registers: Registers, operand: Operand, target: Type) -> Value:
    if operand.kind == "int":
        return registers.constant(U64, operand.value)
    if operand.kind == "literal":
        word = operand.value
        if target.kind == "f":
            word <<= 32
        elif target.kind == "i":
            word -= (word & 0x8000_0000) << 1
        return registers.constant(U64, word)
    return join(read_word(registers, operand, 0), read_word(registers, operand, 1))


def join(low: Value, high: Value) -> Value:
    """Two U32 as one U64."""
    return low.to(U64) | (high.to(U64) << 32)


def half(word: Value, high: bool) -> Value:
    """16 bits of a U32, as U16."""
    return (word >> 16 if high else word).to(U16)


def _read_packed(instruction: Instruction, at: int, registers: Registers, as_float: bool) -> Value:
    """Two halves side by side, chosen by op_sel and op_sel_hi, signs flipped by neg_lo, neg_hi."""
    operand = instruction.sources[at]
    if operand.kind == "float" and as_float:
        word = registers.constant(U32, inline_bits(operand, 16))
    else:
        word = read_word(registers, operand)
    low = word >> 16 if _bit(instruction.op_sel, at) else word & 0xFFFF
    high = word & 0xFFFF_0000 if _bit(instruction.op_sel_hi, at) else word << 16
    arranged = low | high
    if as_float:
        flip = (_bit(instruction.neg_lo, at) << 15) | (_bit(instruction.neg_hi, at) << 31)
        arranged = arranged ^ flip if flip else arranged
    return arranged


def _read_mix(instruction: Instruction, at: int, registers: Registers) -> Value:
    """F32, or a half widened to it."""
    operand = instruction.sources[at]
    if _bit(instruction.op_sel_hi, at):
        if operand.kind == "float":
            raw = registers.constant(U16, inline_bits(operand, 16))
        else:
            raw = half(read_word(registers, operand), bool(_bit(instruction.op_sel, at)))
        value = raw.bits(F16).to(F32)
    else:
        value = read_word(registers, operand).bits(F32)
    value = value.absolute() if operand.abs else value
    return value.negate() if operand.neg else value


def _bit(field: int, at: int) -> int:
    return field >> at & 1


def _scalar_arguments(
    instruction: Instruction, semantic: Semantic, registers: Registers
) -> list[Any]:
    arguments: list[Any] = []
    for operand, token in zip(instruction.sources, semantic.sources, strict=False):
        if not isinstance(token, Type):
            raise TypeError(f"{semantic.name}: a scalar source of kind {token}")
        arguments.append(read_value(registers, operand, token))
    return _counted(arguments, semantic)


def _vector_arguments(
    instruction: Instruction, semantic: Semantic, registers: Registers
) -> tuple[list[Any], Value | None]:
    mask = None if semantic.ignores_exec else registers.exec_mask()
    arguments: list[Any] = []
    for at, token in enumerate(semantic.sources):
        if at >= len(instruction.sources):
            break
        value = _vector_argument(instruction, at, token, registers)
        if at == 0 and instruction.dpp is not None:
            value, allowed = shuffle(value, instruction.dpp, registers.exec_mask())
            mask = allowed if mask is None else mask & allowed
        arguments.append(_flushed(value, semantic, registers, KEEP_SOURCES))
    return _counted(arguments, semantic), mask


def _vector_argument(
    instruction: Instruction, at: int, token: Token, registers: Registers
) -> Any:
    operand = instruction.sources[at]
    if isinstance(token, Type):
        return read_value(registers, operand, token)
    if isinstance(token, int):
        # A constant stands for every element.
        step = 1 if operand.kind == "vgpr" else 0
        return tuple(read_word(registers, operand, step * part) for part in range(token))
    if token == "mask":
        return read_mask(registers, operand)
    if token == "mix":
        return _read_mix(instruction, at, registers)
    return _read_packed(instruction, at, registers, as_float=token == "packed")


def _counted(arguments: list[Any], semantic: Semantic) -> list[Any]:
    if len(arguments) != len(semantic.sources):
        raise SimFault(
            f"{semantic.name} has {len(arguments)} sources, not {len(semantic.sources)}"
        )
    return arguments


# --- further inputs


def _read_old(instruction: Instruction, semantic: Semantic, registers: Registers) -> Any:
    token = semantic.results[0]
    operand = instruction.destinations[0]
    if isinstance(token, Type):
        old = read_value(registers, operand, token)
        return _flushed(old, semantic, registers, KEEP_SOURCES)
    raise TypeError(f"{semantic.name}: old value of {token}")


def _flushed(value: Any, semantic: Semantic, registers: Registers, keep: int) -> Any:
    """The value, its 32-bit denormals replaced by 0 where MODE says so."""
    if registers.denormals & keep or semantic.scalar or semantic.name in SEES_DENORMALS:
        return value
    return flush(value) if isinstance(value, Value) and value.type == F32 else value


def _read_exec(_: Instruction, semantic: Semantic, registers: Registers) -> Value:
    if not semantic.scalar:
        return registers.exec_mask()
    wide = isinstance(semantic.sources[0], Type) and semantic.sources[0].bits == 64
    low = registers.read("exec", 0)
    return join(low, registers.read("exec", 1)) if wide else low


def _read_vcc(_: Instruction, __: Semantic, registers: Registers) -> Value:
    return read_mask(registers, Operand("vcc", 0, registers.width // 32))


Reader = Callable[[Instruction, Semantic, Registers], Any]

READS: dict[str, Reader] = {
    "old": _read_old,
    "exec": _read_exec,
    "vcc": _read_vcc,
    "scc": lambda _, __, registers: registers.scc,
    "m0": lambda _, __, registers: registers.read("m0", 0),
    "lane": lambda _, __, registers: lane_id(registers.exec_mask()),
    "clamp": lambda instruction, _, __: instruction.clamp,
    "imm": lambda instruction, _, __: instruction.offset,
    "neg_lo": lambda instruction, _, __: instruction.neg_lo,
    "op_sel": lambda instruction, _, __: instruction.op_sel,
    "message": lambda instruction, _, __: instruction.fields["ssrc0"],
    "denormals": lambda _, __, registers: registers.denormals,
    "clock": lambda _, __, registers: registers.clock(),
    "zero": lambda _, __, registers: registers.constant(U32, 0),
}


# --- results


def _modify_result(instruction: Instruction, semantic: Semantic, token: Token, value: Any) -> Any:
    own_clamp = "clamp" in semantic.reads
    if not isinstance(token, Type) or token.kind != "f":
        if token == "high":
            return _modify_float(instruction, value)
        if instruction.clamp and not own_clamp:
            raise SimFault(f"clamp of {instruction.name} is not simulated")
        return value
    return value if own_clamp else _modify_float(instruction, value)


def _modify_float(instruction: Instruction, value: Value) -> Value:
    scale = {0: None, 1: 2.0, 2: 4.0, 3: 0.5}[instruction.omod]
    if scale is not None:
        value = value * scale
    return clamp_to_one(value) if instruction.clamp else value


def _commit(write: Write, registers: Registers) -> None:
    token, value = write.token, write.value
    if token == "scc":
        registers.set_scc(value)
    elif token == "exec":
        _write_exec(value, registers)
    elif write.destination is None or write.destination.kind == "null":
        return
    elif token == "mask":
        mask = value if write.mask is None else value & write.mask
        _write_bits(registers, write.destination, mask.ballot(), None)
    else:
        _write_register(write, write.destination, registers)


def _write_register(write: Write, destination: Operand, registers: Registers) -> None:
    token, value, mask = write.token, write.value, write.mask
    if isinstance(token, int):
        for part, word in enumerate(value):
            registers.write(destination.kind, destination.index + part, word, mask)
    elif token == "high" or value.type.bits == 16:
        old = registers.read(destination.kind, destination.index)
        word = value.bits(U16).to(U32)
        if token == "high" or destination.hi:
            merged = (old & 0xFFFF) | (word << 16)
        else:
            merged = (old & 0xFFFF_0000) | word
        registers.write(destination.kind, destination.index, merged, mask)
    else:
        _write_bits(registers, destination, value.bits(value.type.unsigned), mask)


def _write_exec(value: Value, registers: Registers) -> None:
    if value.type.kind == "b":
        value = (value & registers.exec_mask()).ballot()
    _write_bits(registers, Operand("exec", 0), value, None)


def _write_bits(
    registers: Registers, destination: Operand, value: Value, mask: Value | None
) -> None:
    registers.write(destination.kind, destination.index, value.to(U32), mask)
    if value.type.bits == 64:
        registers.write(destination.kind, destination.index + 1, (value >> 32).to(U32), mask)
