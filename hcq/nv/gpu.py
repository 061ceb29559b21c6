"""One GPU's objects in the resource manager: device, subdevice, address space, doorbell page.

Made in this order, freed in reverse; what the kernel says of the chip is asked here once.
"""

import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from hcq import settings
from hcq.errors import DeviceOpenError, IoctlError, Unsupported, UnsupportedDevice
from hcq.host import Region
from hcq.ioctl_defs import nv_ctrl, nv_escape, nv_rm
from hcq.ioctl_defs.nv_ctrl import Control
from hcq.nv.arch import Arch, Classes, arch_of, choose
from hcq.nv.defs import classes, host
from hcq.nv.driver import Card, Driver, open_node

ADDRESS_SPACE_BYTES = 0x1FFFFFB000000
ADDRESS_SPACE_BASE = 0x1000
SLOW_OPEN_SECONDS = 1.0
COMPUTE_PROHIBITED = 2


@dataclass(frozen=True)
class Shape:
    """How many of what the chip has."""

    sm_version: int
    max_warps_per_sm: int
    gpcs: int
    tpcs_per_gpc: int
    sms_per_tpc: int

    @property
    def sms(self) -> int:
        """At most."""
        return self.gpcs * self.tpcs_per_gpc * self.sms_per_tpc


class Gpu:
    """The objects of one GPU, shared by every device of this process that uses it."""

    def __init__(self, driver: Driver, card: Card, name: str) -> None:
        self.driver = driver
        self.rm = driver.rm
        self.card = card
        self.name = name
        self.node = nv_escape.GPU_NODE.format(minor=card.minor)
        self.bar1_used = 0
        self._users = 0
        self._closing = ExitStack()

    def leave(self) -> None:
        """A device closed; the last one of the GPU takes its objects with it."""
        self._users -= 1
        if self._users == 0:
            del self.driver.gpus[self.card.gpu_id]
            with ExitStack() as steps:
                steps.callback(self._closing.close)
                if self.driver.signals is not None:
                    steps.callback(self.driver.signals.leave, self)

    def join(self) -> None:
        """One more device uses the GPU; its objects are made for the first."""
        if self._users == 0:
            with ExitStack() as undo:
                self._open(undo)
                self._closing = undo.pop_all()
            self.driver.gpus[self.card.gpu_id] = self
        self._users += 1

    def _open(self, undo: ExitStack) -> None:
        """Device, subdevice, facts of the chip, doorbell page, address space."""
        self.fd = self._open_node(undo)
        info = self.rm.control(self.rm.client, nv_ctrl.GET_ID_INFO, gpuId=self.card.gpu_id)
        self.device = self._alloc(
            undo,
            self.rm.client,
            classes.NV01_DEVICE_0,
            nv_rm.DEVICE,
            deviceId=info.deviceInstance,
            hClientShare=self.rm.client,
        )
        self.subdevice = self._alloc(
            undo,
            self.device,
            classes.NV20_SUBDEVICE_0,
            nv_rm.SUBDEVICE,
            subDeviceId=info.subDeviceInstance,
        )
        self.offered = self._class_list()
        self._check_modes()
        self.shape = self._ask_shape()
        self.arch: Arch = arch_of(self.shape.sm_version, self.offered)
        self.classes: Classes = choose(self.arch, self.offered)
        self.memory_bytes, self.bar1_bytes = self._ask_memory()
        self.uuid = self._ask_uuid()
        self._open_doorbell(undo)
        self.rm.optional(
            self.subdevice,
            nv_ctrl.PERF_BOOST,
            flags=nv_ctrl.PERF_BOOST_MAX | nv_ctrl.PERF_BOOST_CUDA | nv_ctrl.PERF_BOOST_HIGH,
            duration=nv_ctrl.PERF_BOOST_FOREVER,
        )
        self._open_space(undo)

    def _open_node(self, undo: ExitStack) -> int:
        clock = self.driver.host.now
        before = clock()
        fd = open_node(self.driver.host, self.node)
        undo.callback(self.driver.host.close, fd)
        self.rm.call(nv_escape.REGISTER_FD, fd, ctl_fd=self.driver.ctl)
        seconds = clock() - before
        if seconds > SLOW_OPEN_SECONDS and settings.get("DEBUG") >= 1:
            sys.stderr.write(f"{self.name}: {self.node} took {seconds:.1f} s to start\n")
        return fd

    def _alloc(
        self,
        undo: ExitStack,
        parent: int,
        number: int,
        params: nv_rm.AllocParams | None = None,
        **fields: object,
    ) -> int:
        handle = self.rm.alloc(parent, number, params, **fields)
        undo.callback(self.rm.free, handle)
        return handle

    # What the chip is.

    def _class_list(self) -> list[int]:
        count = self.rm.control(self.device, nv_ctrl.GET_CLASSLIST).numClasses
        numbers = nv_ctrl.ffi.new("uint32_t[]", count)
        self.rm.control(
            self.device,
            nv_ctrl.GET_CLASSLIST,
            numClasses=count,
            classList=int(nv_ctrl.ffi.cast("uintptr_t", numbers)),
        )
        return list(numbers)

    def _list(self, control: Control, prefix: str, indices: Sequence[int]) -> dict[int, int]:
        """Values of an info list by index; the list is given as a pointer."""
        entries = nv_ctrl.ffi.new("struct NVXXXX_CTRL_XXX_INFO[]", len(indices))
        for entry, index in zip(entries, indices, strict=True):
            entry.index = index
        fields = {
            f"{prefix}InfoListSize": len(indices),
            f"{prefix}InfoList": int(nv_ctrl.ffi.cast("uintptr_t", entries)),
        }
        self.rm.control(self.subdevice, control, **fields)
        return {entry.index: entry.data for entry in entries}

    def _optional_list(
        self, control: Control, prefix: str, indices: Sequence[int]
    ) -> dict[int, int]:
        try:
            return self._list(control, prefix, indices)
        except IoctlError as error:
            self.rm.note(error)
            return {}

    def _ask_shape(self) -> Shape:
        indices = (
            nv_ctrl.GR_INFO_SM_VERSION,
            nv_ctrl.GR_INFO_MAX_WARPS_PER_SM,
            nv_ctrl.GR_INFO_NUM_GPCS,
            nv_ctrl.GR_INFO_NUM_TPC_PER_GPC,
            nv_ctrl.GR_INFO_NUM_SM_PER_TPC,
        )
        values = self._list(nv_ctrl.GR_GET_INFO, "gr", indices)
        return Shape(*(values[index] for index in indices))

    def _ask_memory(self) -> tuple[int, int]:
        """(bytes of video memory, bytes of it that fit through BAR1 at once); 0: not told."""
        indices = (nv_ctrl.FB_INFO_HEAP_SIZE, nv_ctrl.FB_INFO_BAR1_SIZE)
        values = self._optional_list(nv_ctrl.FB_GET_INFO, "fb", indices)
        heap, bar1 = (values.get(index, 0) << 10 for index in indices)
        return heap, bar1

    def free_bytes(self) -> int:
        """Bytes of video memory the kernel says are free; 0 when it does not say."""
        index = nv_ctrl.FB_INFO_HEAP_FREE
        return self._optional_list(nv_ctrl.FB_GET_INFO, "fb", [index]).get(index, 0) << 10

    def _ask_uuid(self) -> bytes:
        info = self.rm.control(
            self.subdevice,
            nv_ctrl.GET_GID_INFO,
            flags=nv_ctrl.GID_BINARY_SHA1,
            length=nv_ctrl.UUID_BYTES,
        )
        return bytes(info.data[0 : nv_ctrl.UUID_BYTES])

    def _check_modes(self) -> None:
        mode = self.rm.optional(self.subdevice, nv_ctrl.QUERY_COMPUTE_MODE)
        if mode is not None and mode.rules == COMPUTE_PROHIBITED:
            raise DeviceOpenError(
                f"{self.name}: compute is prohibited on this GPU",
                device=self.name,
                facts={"compute_mode": nv_ctrl.COMPUTE_MODES[mode.rules]},
                hint="allow it: sudo nvidia-smi --compute-mode=DEFAULT",
            )
        index = nv_ctrl.GPU_INFO_SMC_MODE
        values = self._optional_list(nv_ctrl.GPU_GET_INFO, "gpu", [index])
        if values.get(index) == nv_ctrl.SMC_MODE_ENABLED:
            raise Unsupported(
                f"{self.name} is cut into MIG slices, which cannot be opened",
                device=self.name,
                facts={"mode": "MIG", "bus": self.card.bus},
                hint="turn MIG off: sudo nvidia-smi --mig=0",
            )
        self._check_confidential()

    def _check_confidential(self) -> None:
        number = classes.NV_CONFIDENTIAL_COMPUTE
        try:
            client = self.rm.client
            handle = self.rm.alloc(client, number, nv_rm.CONFIDENTIAL, hClient=client)
        except IoctlError as error:
            self.rm.note(error)
            return
        try:
            found = self.rm.optional(handle, nv_ctrl.CONFIDENTIAL_CAPABILITIES)
        finally:
            with suppress(IoctlError):
                self.rm.free(handle)
        if found is not None and found.ccFeature:
            feature = nv_ctrl.CONFIDENTIAL_FEATURES.get(found.ccFeature, str(found.ccFeature))
            raise UnsupportedDevice(
                f"{self.name} runs with confidential computing on ({feature})",
                device=self.name,
                facts={"feature": feature},
                hint="turn confidential computing off; its memory cannot be addressed by the CPU",
            )

    # Doorbell and address space.

    def _open_doorbell(self, undo: ExitStack) -> None:
        params = nv_rm.USERMODE if self.arch.usermode_in_bar1 else None
        fields = {"bBar1Mapping": 1} if self.arch.usermode_in_bar1 else {}
        self.usermode = self._alloc(undo, self.subdevice, self.classes.usermode, params, **fields)
        self.doorbell: Region = self.driver.map_object(
            self.subdevice, self.usermode, host.USERMODE_BYTES, self.node
        )
        undo.callback(self.driver.host.munmap, self.doorbell)

    def _open_space(self, undo: ExitStack) -> None:
        self.space = self._alloc(
            undo,
            self.device,
            classes.FERMI_VASPACE_A,
            self.rm.abi.address_space,
            flags=nv_rm.ADDRESS_SPACE_PAGE_FAULTING | nv_rm.ADDRESS_SPACE_EXTERNALLY_OWNED,
            vaSize=ADDRESS_SPACE_BYTES,
            vaBase=ADDRESS_SPACE_BASE,
        )
        uvm = self.driver.uvm
        uvm.register_gpu(self.uuid)
        undo.callback(uvm.unregister_gpu, self.uuid)
        uvm.register_space(self.uuid, self.driver.ctl, self.rm.client, self.space)
        undo.callback(uvm.unregister_space, self.uuid)

    def clock(self) -> int:
        """Nanoseconds of the GPU's clock now, the one its timestamps are read from."""
        while True:
            high = self.doorbell.read32(host.TIME_1)
            low = self.doorbell.read32(host.TIME_0)
            if self.doorbell.read32(host.TIME_1) == high:
                return high << 32 | low


def gpu_of(driver: Driver, card: Card, name: str) -> Gpu:
    """The GPU of a card, open; call leave() when done with it."""
    found = driver.gpus.get(card.gpu_id)
    gpu = found if isinstance(found, Gpu) else Gpu(driver, card, name)
    gpu.join()
    return gpu
