"""Raw GPU command queues through the kernel's own device files.

`from hcq import amd; device = amd.open(0)`. This package itself opens and
imports nothing: vendors load when they are named.
"""

from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`hcq.amd` without an import statement; nothing loads before it is named."""
    raise AttributeError(f"hcq has no {name!r}; write `from hcq import amd`")
