"""Which chip raw words are of, where nobody said it."""

from collections.abc import Iterable
from dataclasses import dataclass

from hcq.errors import ConfigError

AMD_ARCHES = ("gfx1100",)
NV_ARCHES = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
AMD_KINDS = ("pm4", "sdma")
NV_KINDS = ("pushbuffer", "qmd", "gpfifo")
DEFAULT_NV = "sm_90"
# The chips each kind of words is for.
ARCHES = {
    **dict.fromkeys(AMD_KINDS, AMD_ARCHES),
    **dict.fromkeys(NV_KINDS, NV_ARCHES),
}


@dataclass(frozen=True)
class Choice:
    """A chip, and what has to be said about how it was chosen."""

    arch: str
    note: str = ""


def choose(kind: str, words: list[int], named: str | None, seen: Iterable[int] = ()) -> Choice:
    """The chip that was named, or the one that the words tell of, or the usual one.

    seen: classes that are known to be in use besides those that the words bind.
    ConfigError for a chip of the other vendor.
    """
    chips = ARCHES[kind]
    if named is not None and named not in chips:
        raise ConfigError(f"{kind} words are of no {named}", facts={"accepted": ", ".join(chips)})
    if chips == AMD_ARCHES or not words:
        return Choice(named or (AMD_ARCHES[0] if chips == AMD_ARCHES else DEFAULT_NV))
    if kind == "qmd":
        return _of_record(words, named)
    if kind == "pushbuffer":
        return _of_classes(words, named, seen)
    return Choice(named or DEFAULT_NV, "" if named else _assumed(kind, DEFAULT_NV))


def _assumed(kind: str, arch: str) -> str:
    return f"no --arch: {kind} words are read as those of {arch}"


def _of_record(words: list[int], named: str | None) -> Choice:
    from tools.hcq_dump import qmd

    if named is not None:
        return Choice(named)  # the line of a record of another version says so itself
    version = qmd.version_of(words)
    if version is None:
        return Choice(DEFAULT_NV, _assumed("qmd", DEFAULT_NV))
    arch = qmd.arches_of(version)[0]
    return Choice(arch, f"no --arch: the record is of version {version}, taken as one of {arch}")


def _of_classes(words: list[int], named: str | None, seen: Iterable[int]) -> Choice:
    from hcq.nv.arch import ARCHES as rows
    from tools.hcq_dump.classes import NAMES
    from tools.hcq_dump.pushbuffer import bound_classes

    chips, telling = [row.name for row in rows], list[str]()
    for number in [*bound_classes(words), *seen]:
        having = [row.name for row in rows if number in (row.compute_class, row.copy_class)]
        both = [name for name in chips if name in having]
        if both:
            chips = both
            telling.append(NAMES[number])
    bound = " and ".join(dict.fromkeys(telling))
    if named is not None:
        if telling and named not in chips:
            others = " or ".join(chips)
            return Choice(named, f"--arch {named}, but the words bind {bound}, of {others}")
        return Choice(named)
    if not telling:
        return Choice(DEFAULT_NV, _assumed("pushbuffer", DEFAULT_NV))
    return Choice(chips[0], f"no --arch: the words bind {bound}, taken as those of {chips[0]}")
