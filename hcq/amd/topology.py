"""The GPUs of this machine, as the kernel lists them under sysfs.

Source: Linux drivers/gpu/drm/amd/amdkfd/kfd_topology.c. Nodes with gpu_id 0 are
CPUs; a node whose files may not be read is hidden from this process by the
device cgroup and left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from hcq.amd.arch import target_name
from hcq.errors import DeviceOpenError, missing_node
from hcq.host import Host
from hcq.ioctl_defs import kfd

REREADS = 5
MOST = (1 << 64) - 1
# What a GPU can have, generously; a value outside is garbage.
_RANGES = {
    "simd_count": (1, 1 << 16),
    "simd_per_cu": (1, 64),
    "num_xcc": (1, 64),
    "array_count": (1, 1 << 12),
    "simd_arrays_per_engine": (1, 1 << 12),
    "max_slots_scratch_cu": (1, 1 << 12),
    "drm_render_minor": (0, 1 << 20),
}
HEAP_VRAM_VISIBLE, HEAP_VRAM_PRIVATE = 1, 2


@dataclass(frozen=True)
class Node:
    """One GPU of the topology."""

    number: int
    gpu_id: int
    properties: Mapping[str, int]
    banks: tuple[Mapping[str, int], ...]

    def get(self, key: str) -> int:
        """A property that must be there."""
        if key not in self.properties:
            raise DeviceOpenError(
                f"topology node {self.number} lacks {key!r}",
                facts={"file": f"{kfd.TOPOLOGY}/nodes/{self.number}/properties", "key": key},
            )
        value = self.properties[key]
        least, most = _RANGES.get(key, (0, MOST))
        if not least <= value <= most:
            raise _garbled(f"{kfd.TOPOLOGY}/nodes/{self.number}/properties", key, str(value))
        return value

    @cached_property
    def target(self) -> str:
        """gfx1100 and so on."""
        return target_name(self.get("gfx_target_version"))

    @cached_property
    def xccs(self) -> int:
        """Accelerated compute dies that share one queue."""
        return self.get("num_xcc") if "num_xcc" in self.properties else 1

    @cached_property
    def compute_units(self) -> int:
        """Of one XCC."""
        return self.get("simd_count") // self.get("simd_per_cu") // self.xccs

    @cached_property
    def engines(self) -> int:
        """Shader engines of the whole GPU."""
        return max(1, self.get("array_count") // self.get("simd_arrays_per_engine"))

    @cached_property
    def render_node(self) -> str:
        """The DRM device file that goes with it."""
        return f"/dev/dri/renderD{self.get('drm_render_minor')}"

    @cached_property
    def bus(self) -> str:
        """PCI address, as in lspci -D; location_id is bus, slot and function in 8, 5 and 3 bits."""
        bus, rest = divmod(self.properties.get("location_id", 0), 256)
        slot, function = divmod(rest, 8)
        return f"{self.properties.get('domain', 0):04x}:{bus:02x}:{slot:02x}.{function}"

    @cached_property
    def memory_bytes(self) -> int:
        """VRAM."""
        heaps = (HEAP_VRAM_VISIBLE, HEAP_VRAM_PRIVATE)
        return sum(b.get("size_in_bytes", 0) for b in self.banks if b.get("heap_type") in heaps)

    @cached_property
    def is_memory_visible(self) -> bool:
        """The CPU can address all of VRAM (resizable BAR)."""
        return any(b.get("heap_type") == HEAP_VRAM_VISIBLE for b in self.banks)


def gpus(host: Host) -> list[Node]:
    """All GPUs; DeviceOpenError without a compute device or on a garbled file."""
    if not host.exists(kfd.NODE):
        raise missing_node(kfd.NODE, "amdgpu", "AMD GPU")
    for _ in range(REREADS):
        before = _generation(host)
        found = _read_all(host)
        if _generation(host) == before:
            return found
    raise DeviceOpenError(
        "the topology kept changing while it was read",
        facts={"file": f"{kfd.TOPOLOGY}/generation_id", "tries": REREADS},
    )


def count(host: Host) -> int:
    """How many GPUs there are, without opening any; DeviceOpenError on a garbled file."""
    return len(gpus(host)) if host.exists(kfd.NODE) else 0


def _generation(host: Host) -> int:
    return _number(host, f"{kfd.TOPOLOGY}/generation_id")


def _read_all(host: Host) -> list[Node]:
    root = f"{kfd.TOPOLOGY}/nodes"
    try:
        numbers = sorted(int(name) for name in host.list(root))
    except (OSError, ValueError) as error:
        raise DeviceOpenError(
            f"the topology cannot be read: {error}", facts={"path": root}
        ) from None
    nodes = (_read_node(host, number) for number in numbers)
    return [node for node in nodes if node is not None]


def _read_node(host: Host, number: int) -> Node | None:
    path = f"{kfd.TOPOLOGY}/nodes/{number}"
    try:
        gpu_id = _number(host, f"{path}/gpu_id")
        if not 0 <= gpu_id < 1 << 32:
            raise _garbled(f"{path}/gpu_id", "(whole file)", str(gpu_id))
        if gpu_id == 0:
            return None
        properties = _table(host, f"{path}/properties")
        banks = tuple(
            _table(host, f"{path}/mem_banks/{bank}/properties")
            for bank in _listed(host, f"{path}/mem_banks")
        )
    except (PermissionError, FileNotFoundError):
        return None  # hidden from this process, or gone: a change is seen by the generation
    return Node(number, gpu_id, properties, banks)


def _listed(host: Host, path: str) -> list[str]:
    return host.list(path) if host.exists(path) else []


def _number(host: Host, path: str) -> int:
    text = host.read(path).decode("ascii", "replace").strip()
    try:
        return int(text)
    except ValueError:
        raise _garbled(path, "(whole file)", text) from None


def _table(host: Host, path: str) -> dict[str, int]:
    table = {}
    for line in host.read(path).decode("ascii", "replace").splitlines():
        key, _, value = line.strip().partition(" ")
        if not key:
            continue
        try:
            table[key] = int(value)
        except ValueError:
            raise _garbled(path, key, value) from None
    return table


def _garbled(path: str, key: str, value: str) -> DeviceOpenError:
    return DeviceOpenError(
        f"topology file {path} is garbled at {key!r}",
        facts={"file": path, "key": key, "value": repr(value[:80])},
        hint="the amdgpu kernel module gives this file; update it, or report this",
    )
