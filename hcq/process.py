"""Which process this is: devices opened before a fork are not usable in the child."""

from os import getpid

from hcq.errors import DeviceBanned


def check(opened_by: int) -> None:
    """DeviceBanned in a forked child of the process that opened a device."""
    found = getpid()
    if found != opened_by:
        raise DeviceBanned(
            "the device was opened before fork; a forked child may not use it",
            facts={"opened_by": opened_by, "used_by": found},
            hint="start workers with the spawn method, or open devices after the fork",
        )
