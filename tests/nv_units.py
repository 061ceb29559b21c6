"""What the instruction table tells apart: its rows, and the names in their fields.

A unit is one opcode in one form with the chips it is for (a row of the table), or one name of a
modifier of one mnemonic. Every unit has to stand in a known answer, a program or a refusal.
"""

from collections.abc import Mapping

from nv_vectors import row_of

from sim.nv.sass.opcodes import ROWS


def unit(row):
    """A row as something that can be compared."""
    return row.name, f"{row.opcode:#05x}", row.bits, f"{row.destinations}{row.sources}"


def _values(modifier):
    """(value, name) of a modifier that is a field."""
    names = modifier.names
    pairs = names.items() if isinstance(names, Mapping) else enumerate(names)
    return [(value, name) for value, name in pairs if name is not None]


def _put(word, modifier, value):
    for low, width in reversed(modifier.pieces):
        mask = (1 << width) - 1
        word = word & ~(mask << low) | (value & mask) << low
        value >>= width
    return word


def _get(word, modifier):
    value = 0
    for low, width in modifier.pieces:
        value = value << width | word >> low & (1 << width) - 1
    return value


def _names(row, word):
    for modifier in row.modifiers:
        name = dict(_values(modifier)).get(_get(word, modifier))
        if modifier.pieces and name:
            yield row.name, name


def units_of(word, chip):
    """What a word shows."""
    row = row_of(word, chip)
    return {unit(row), *_names(row, word)}


def _words(row):
    """A word of the row for each value of each field, the others at their first value."""
    fields = [modifier for modifier in row.modifiers if modifier.pieces]
    base = row.opcode
    for field in fields:
        base = _put(base, field, _values(field)[0][0])
    for field, value in [(f, v) for f in fields for v, _ in _values(f)] or [(None, 0)]:
        word = _put(base, field, value) if field else base
        for low, width, number in row.bits:
            word = word & ~((1 << width) - 1 << low) | number << low
        if field is None or _get(word, field) == value:
            yield word, field


def every_unit():
    """All units, each with the chips that have it."""
    found = {}
    for chip, rows in ROWS.items():
        target = f"sm_{chip}"
        for row in (row for several in rows.values() for row in several):
            for word, field in _words(row):
                if row_of(word, target) is not row:
                    continue
                shown = {unit(row)}
                if field is not None:
                    shown |= {(row.name, name) for v, name in _values(field)
                              if name and v == _get(word, field)}  # fmt: skip
                for one in shown:
                    found.setdefault(one, set()).add(target)
    return found
