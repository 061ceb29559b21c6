"""Which simulated chip is meant: products by the name of their chip, for messages.

Source: NVIDIA, CUDA GPU Compute Capability (developer.nvidia.com/cuda-gpus) and the table of
products in open-gpu-kernel-modules' README; AMD, ROCm GPU hardware specifications.
"""

import re
from collections.abc import Collection

from hcq.errors import nearest

# Chip to names of dies and products, written small and without maker, blanks or dashes.
_PRODUCTS = {
    "sm_80": "a100x?|a800|a30x?|ga100",
    "sm_86": r"rtx30[5-9]0(ti|super)?|rtxa\d{3,4}|a2|a10g?|a16|a40|ga10[2-7]",
    "sm_89": r"rtx40[5-9]0(ti|super|tisuper|d)?|rtx\d{4}ada|l2|l4|l20|l40s?|ad10[2-7]",
    "sm_90": "h[128]00|h20|gh[12]00",
    "sm_100": "g?b[12]00",
    "sm_120": r"rtx50[5-9]0(ti|super|d)?|rtxpro\d{4}|gb20[2-7]",
    "gfx1100": "(rx)?7900(xtx?|gre)|w7[89]00|navi31",
}  # fmt: skip
_MAKER = re.compile(r"nvidia|geforce|tesla|amd|radeon|pro(?= ?w7)|[ _-]")
_TYPED = re.compile(r"(gfx|sm)_?\w*")
_OTHERS = re.compile(r"sm_([5-7]\d|8[78]|10[13]|110|121)|gfx(9|10|11|12)\w\w")  # real ones


def meant(name: str, chips: Collection[str]) -> str:
    """`: an h100 is simulated as sm_90`, `, did you mean 'sm_90'?`, or nothing."""
    short = _MAKER.sub("", name.lower())
    for chip, products in _PRODUCTS.items():
        if chip in chips and re.fullmatch(products, short):
            return f": {name} is simulated as {chip}"
    # Names of products and of other chips are near to chips that they have nothing to do with.
    is_misspelt = _TYPED.fullmatch(name) and not _OTHERS.fullmatch(name)
    return nearest(name, chips) if is_misspelt else ""
