"""First contact with an NVIDIA GPU: python tests/device/first_contact.py

On a simulated one: python -m sim --gpu sm_90 tests/device/first_contact.py
With `--qmd 3` launch records are of version 3, which Hopper takes too: for a chip on
which the empty kernel never completes.
"""

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import kernels
from contact import Contact, expect
from meet import meet, parser

from hcq import nv
from hcq.ioctl_defs import nv_ctrl, nv_escape
from hcq.nv import arch
from hcq.nv.defs import classes, host
from hcq.nv.defs.host import Operation

VALUE = 0x0123_4567_89AB_CDE0


class NvContact(Contact):
    """An NVIDIA GPU behind /dev/nvidiactl."""

    name = "NV"
    dialect = kernels.NV

    def version(self) -> str:
        raw = bytes.fromhex(self.call("NV_ESC_CHECK_VERSION_STR")["raw"])
        args = nv_escape.ffi.from_buffer("struct nv_ioctl_rm_api_version *", raw)
        return bytes(args.versionString).split(b"\0")[0].decode()

    def cards(self) -> str:
        raw = bytes.fromhex(self.call("NV_ESC_CARD_INFO")["raw"])
        args = nv_escape.ffi.from_buffer("struct nv_ioctl_card_info_list *", raw)
        found = [card for card in args.cards if card.valid]
        expect(bool(found), "no card")
        return ", ".join(
            f"{c.pci_info.vendor_id:04x}:{c.pci_info.device_id:04x} minor {c.minor_number} "
            f"id {c.gpu_id:#x} BAR1 {c.fb_size >> 20} MiB"
            for c in found
        )

    def client(self) -> str:
        numbers = (classes.NV01_ROOT_CLIENT, classes.NV01_DEVICE_0, classes.NV20_SUBDEVICE_0)
        handles = [self.call("NV_ESC_RM_ALLOC", hClass=n)["out"]["hObjectNew"] for n in numbers]
        return f"client, device, subdevice {', '.join(handles)}"

    def classes(self) -> str:
        self.call("NV_ESC_RM_CONTROL", cmd=nv_ctrl.GET_CLASSLIST.number)
        if self.device is None:
            return "asked"
        gpu = self.device.gpu
        return f"{self.device.target}: " + " ".join(f"{n:04x}" for n in sorted(gpu.offered))

    def timer(self) -> str:
        self.call("NV_ESC_RM_MAP_MEMORY")
        if self.device is None:
            return "mapped"
        page = self.device.gpu.doorbell
        times = []
        for _ in range(2):
            times.append(page.read32(host.TIME_1) << 32 | page.read32(host.TIME_0))
            time.sleep(0.001)
        expect(times[1] > times[0] > 0, f"times {times[0]}, then {times[1]}")
        return f"{times[1]} ns, {times[1] - times[0]} ns after another reading"

    def space(self) -> str:
        self.call("NV_ESC_RM_ALLOC", hClass=classes.FERMI_VASPACE_A)
        self.call("UVM_REGISTER_GPU")
        self.call("UVM_REGISTER_GPU_VASPACE")
        return "made and registered"

    def channel(self) -> str:
        device = self.opened()
        self.call("NV_ESC_RM_CONTROL", cmd=nv_ctrl.GET_WORK_SUBMIT_TOKEN.number)
        number = classes.name_of(device.gpu.classes.channel).replace(" ", "")
        tokens = [f"{c.name} token {c.token:#x}" for c in device.channels.values()]
        return f"{number}, {', '.join(tokens)}"

    def image(self, name: str) -> bytes:
        from jit.codegen.machine import emit_assembly
        from jit.codegen.nvjitlink import link

        target = self.device.target
        text = emit_assembly(self.dialect.triple, target, kernels.text(name, self.dialect))
        return link(text, target, name)

    def release(self, queue: Any, address: int) -> list[int]:
        from hcq.nv.methods import semaphore

        values = [VALUE, VALUE + 1, VALUE + 2]
        for value, more in zip(
            values, ({}, {"release_wfi": 1}, {"release_timestamp": 1}), strict=True
        ):
            queue.words += semaphore(address, value, operation=Operation.RELEASE, **more)
        return values

    def others(self) -> dict[str, float]:
        from cuda import measured

        return measured(self.image("empty"), self.size)


def make(capture: Path) -> NvContact:
    return NvContact(nv, capture)


def use_records_of(version: int) -> None:
    """Launch records of another version, for every chip."""
    arch.ARCHES = tuple(replace(row, qmd_version=version) for row in arch.ARCHES)


def main() -> int:
    """Run the steps; the exit code."""
    options = parser(__doc__)
    options.add_argument(
        "--qmd",
        type=int,
        choices=sorted({row.qmd_version for row in arch.ARCHES}),
        help="version of launch records, for every chip; default: the chip's own",
    )
    given = options.parse_args()
    if given.qmd is not None:
        use_records_of(given.qmd)
    return meet(make, given)


if __name__ == "__main__":
    sys.exit(main())
