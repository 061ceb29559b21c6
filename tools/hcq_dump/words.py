"""Raw words: hex text, a C array, a Python or numpy list, or little-endian binary."""

import re
from collections.abc import Sequence

from hcq.errors import FileFormatError

_TEXT = re.compile(r"[\s0-9a-fA-FxX,;\[\](){}uUlL_]*")
_COMMENT = re.compile(r"/\*.*?\*/|(#|//)[^\n]*", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
MIN_TEXT_BYTES = 16  # shorter bytes that all can be printed may well be words
MAX_STATEMENT = 200  # characters of a statement without its list
_LISTED = re.compile(r"^\s*[\[{(]")
_NUMBER = r"(?:0[xX][0-9a-fA-F_]+|[0-9][0-9_]*)[uUlL]*"
_LIST = rf"\s*({_NUMBER}(?:[\s,]+{_NUMBER})*[\s,]*)"
# A list in a statement of some language. The number in an array's declaration is not one.
_LISTS = (
    re.compile(rf"\{{{_LIST}\}}"),
    re.compile(rf"(?<![\w\]])\[{_LIST}\]"),
    re.compile(rf"(?<!\w)\({_LIST}\)"),
)
_SCALAR = re.compile(r"(?:np\.|numpy\.|ctypes\.)?(?:c_)?uint32\((\d+|0[xX][0-9a-fA-F]+)\)")
_HINT = "write words in hex with spaces or commas between; # and // begin comments"
_DECIMAL_HINT = "tokens outside brackets are read as hex; decimal words stand in brackets: [1, 2]"


def words_of(data: bytes, name: str) -> list[int]:
    """32-bit words of a file's bytes.

    Bare tokens are hex. Inside brackets a token without 0x is decimal. In text, # and
    // begin comments, and /* */ encloses them. A list may stand in a statement:
    `const uint32_t words[2] = { ... };`, `words = [...]`, `array([...], dtype=uint32)`.
    FileFormatError when the bytes are no whole number of words.
    """
    text = _printed(data)
    if text is not None:
        words = _COMMENT.sub("", text)
        if _TEXT.fullmatch(words):
            return _numbers(words, name, 10 if _LISTED.match(words) else 16)
        lists = _lists(words)
        if len(lists) == 1:
            return _numbers(lists[0], name, 10)
        if len(data) >= MIN_TEXT_BYTES:
            raise _no_words(words, lists, name)
    if len(data) % 4:
        raise FileFormatError(
            f"{name}: {len(data)} bytes are no whole number of 32-bit words",
            facts={"file": name, "found": len(data), "wanted": "a multiple of 4"},
        )
    return [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]


def _printed(data: bytes) -> str | None:
    """Bytes as text, None where they are none."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if _CONTROL.search(text) else text


def _lists(text: str) -> list[str]:
    """The lists of numbers in a statement: those in braces, or else in other brackets."""
    plain = _SCALAR.sub(r"\1", text)
    for form in _LISTS:
        found = form.findall(plain)
        if found:
            # In the middle of prose a list may be anything.
            return found if len(form.sub("", plain).strip()) <= MAX_STATEMENT else []
    return []


def _no_words(text: str, lists: list[str], name: str) -> FileFormatError:
    if lists:
        return FileFormatError(
            f"{name}: {len(lists)} lists of numbers: which one is it?",
            facts={"file": name},
            hint="leave one list in the file",
        )
    return FileFormatError(
        f"{name}: this is text, but not of 32-bit words",
        facts={"file": name, "begins": repr(text.strip()[:40])},
        hint=_HINT,
    )


def _numbers(text: str, name: str, base: int) -> list[int]:
    found = []
    for token in re.findall(r"[0-9a-zA-Z_]+", text):
        digits = token.lower().replace("_", "").rstrip("ul")
        is_bare = base == 16 and not digits.startswith("0x")
        try:
            word = int(digits, 16 if digits.startswith("0x") else base)
        except ValueError:
            raise FileFormatError(f"{name}: {token!r} is no number", facts={"file": name}) from None
        if word >> 32:
            looks_decimal = is_bare and digits.isdecimal() and int(digits) < 1 << 32
            raise FileFormatError(
                f"{name}: {token} is wider than 32 bits" + (", read as hex" if is_bare else ""),
                facts={"file": name},
                hint=_DECIMAL_HINT if looks_decimal else None,
            )
        found.append(word)
    return found


def recorded(listed: Sequence[str]) -> list[int]:
    """The words of a record, hexadecimal text; ValueError for one wider than 32 bits."""
    words = [int(word, 16) for word in listed]
    wide = next((word for word in words if not 0 <= word < 1 << 32), None)
    if wide is not None:
        raise ValueError(f"{wide:#x} is wider than 32 bits")
    return words
