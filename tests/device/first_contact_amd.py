"""First contact with an AMD GPU: python tests/device/first_contact_amd.py

On a simulated one: python -m sim --gpu gfx1100 tests/device/first_contact_amd.py
"""

import sys
from pathlib import Path
from typing import Any

import kernels
from contact import Contact, expect
from meet import meet, parser

from hcq import amd
from hcq import host as hosts


class AmdContact(Contact):
    """An AMD GPU behind /dev/kfd."""

    name = "AMD"
    dialect = kernels.AMD
    needs_new_process = True  # the kernel stops what the process has on the GPU

    def version(self) -> str:
        found = self.call("KFD_GET_VERSION")["out"]
        return f"KFD {int(found['major_version'], 16)}.{int(found['minor_version'], 16)}"

    def cards(self) -> str:
        from hcq.amd.topology import gpus

        found = gpus(hosts.current())
        return ", ".join(f"{node.target} {node.memory_bytes >> 20} MiB" for node in found)

    def client(self) -> str:
        return f"address space of GPU {self.call('KFD_ACQUIRE_VM')['args']['gpu_id']}"

    def classes(self) -> str:
        return f"{self.opened().target}, queues {', '.join(self.opened().channels)}"

    def timer(self) -> str:
        first, second = (self.opened().clock.pair() for _ in range(2))
        expect(second.ticks > first.ticks > 0, f"clock {first.ticks}, then {second.ticks}")
        return f"clock {second.ticks}, {second.ticks - first.ticks} ticks after another reading"

    def space(self) -> str:
        found = self.call("KFD_MAP_MEMORY_TO_GPU")
        return f"mapped on {int(found['out']['n_success'], 16)} GPU"

    def channel(self) -> str:
        made = [record for record in self.records() if record["name"] == "KFD_CREATE_QUEUE"]
        self.call("KFD_CREATE_QUEUE")
        return ", ".join(f"queue {int(record['out']['queue_id'], 16)}" for record in made)

    def image(self, name: str) -> bytes:
        from jit.codegen.machine import emit_object

        return emit_object(
            self.dialect.triple, self.device.target, kernels.text(name, self.dialect)
        )

    def release(self, queue: Any, address: int) -> list[int]:
        # These engines compare 32 bits.
        queue.signal(address, 0xFFFF_FFF0)
        return [0xFFFF_FFF0]


def make(capture: Path) -> AmdContact:
    return AmdContact(amd, capture)


if __name__ == "__main__":
    sys.exit(meet(make, parser(__doc__).parse_args()))
