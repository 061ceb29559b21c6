"""Unified memory: one address space of the process, GPUs in it, external ranges mapped.

All of it is made by hand: a range is created, a memory object of the resource manager
mapped into it; nothing moves by itself.
"""

from contextlib import suppress
from typing import Any

from hcq.errors import IoctlError, OutOfMemory
from hcq.host import Host
from hcq.ioctl_defs import Ioctl, nv_escape, nv_uvm
from hcq.ioctl_defs.nv_abi import Abi
from hcq.nv.rm import RmError, carry_out


class UnifiedMemory:
    """An open unified memory node, and a second one as the kernel wants it."""

    def __init__(self, host: Host, fd: int, second: int, abi: Abi) -> None:
        self.host = host
        self.fd = fd
        self.abi = abi
        self._call(nv_uvm.INITIALIZE)
        # Refused in many setups, also to CUDA; nothing here needs it.
        with suppress(IoctlError):
            self._call(nv_uvm.MM_INITIALIZE, second, uvmFd=fd)

    def _call(self, ioctl: Ioctl, on: int | None = None, **fields: Any) -> Any:
        args = ioctl.args(**fields)
        carry_out(self.host, self.fd if on is None else on, ioctl, args)
        if args.rmStatus:
            name = nv_escape.status_name(args.rmStatus)
            text = f"{ioctl.name}: {name}; {ioctl.describe(args)}"
            facts = {"request": hex(ioctl.number), "status": name}
            if args.rmStatus == nv_escape.NO_MEMORY:
                raise OutOfMemory(text, facts=facts, hint="free buffers")
            raise RmError(text, status=args.rmStatus, facts=facts)
        return args

    def register_gpu(self, uuid: bytes) -> None:
        """Make a GPU known."""
        self._call(nv_uvm.REGISTER_GPU, gpu_uuid=list(uuid), rmCtrlFd=-1)

    def unregister_gpu(self, uuid: bytes) -> None:
        """Forget a GPU."""
        self._call(nv_uvm.UNREGISTER_GPU, gpu_uuid=list(uuid))

    def register_space(self, uuid: bytes, ctl: int, client: int, space: int) -> None:
        """Have a GPU's address space managed here."""
        self._call(
            nv_uvm.REGISTER_GPU_VASPACE,
            gpuUuid=list(uuid),
            rmCtrlFd=ctl,
            hClient=client,
            hVaSpace=space,
        )

    def unregister_space(self, uuid: bytes) -> None:
        """Give a GPU's address space up."""
        self._call(nv_uvm.UNREGISTER_GPU_VASPACE, gpuUuid=list(uuid))

    def register_channel(
        self, uuid: bytes, ctl: int, handles: tuple[int, int], base: int, size: int
    ) -> None:
        """Map a channel's context buffers inside a span; handles are client and channel."""
        client, channel = handles
        self._call(
            nv_uvm.REGISTER_CHANNEL,
            gpuUuid=list(uuid),
            rmCtrlFd=ctl,
            hClient=client,
            hChannel=channel,
            base=base,
            length=size,
        )

    def unregister_channel(self, uuid: bytes, client: int, channel: int) -> None:
        """Unmap a channel's context buffers."""
        call = self.abi.unregister_channel
        if call is nv_uvm.UNREGISTER_CHANNEL:
            self._call(call, gpuUuid=list(uuid), hClient=client, hChannel=channel)
        else:
            self._call(call, hClient=client, hChannel=channel)

    def create_range(self, address: int, size: int) -> None:
        """A span that memory objects are mapped into."""
        self._call(nv_uvm.CREATE_EXTERNAL_RANGE, base=address, length=size)

    def map(self, address: int, size: int, uuid: bytes, ctl: int, handles: tuple[int, int]) -> None:
        """Map a memory object over a range on a GPU; handles are client and memory."""
        client, memory = handles
        args = nv_uvm.MAP_EXTERNAL_ALLOCATION.args(
            base=address,
            length=size,
            gpuAttributesCount=1,
            rmCtrlFd=ctl,
            hClient=client,
            hMemory=memory,
        )
        attributes = args.perGpuAttributes[0]
        attributes.gpuUuid = list(uuid)
        attributes.gpuMappingType = nv_uvm.MAPPING_READ_WRITE_ATOMIC
        carry_out(self.host, self.fd, nv_uvm.MAP_EXTERNAL_ALLOCATION, args)
        if args.rmStatus:
            name = nv_escape.status_name(args.rmStatus)
            text = (
                f"UVM_MAP_EXTERNAL_ALLOCATION: {name}; base={address:#x} length={size:#x} "
                f"hMemory={memory:#x}"
            )
            if args.rmStatus == nv_escape.NO_MEMORY:
                raise OutOfMemory(text, facts={"status": name}, hint="free buffers")
            raise RmError(text, status=args.rmStatus, facts={"status": name})

    def unmap(self, address: int, size: int, uuid: bytes) -> None:
        """Take a range off one GPU."""
        self._call(nv_uvm.UNMAP_EXTERNAL, base=address, length=size, gpuUuid=list(uuid))

    def free_range(self, address: int, size: int) -> None:
        """Unmap a range everywhere and forget it."""
        call = self.abi.free
        if call is nv_uvm.FREE:
            self._call(call, base=address, length=size)
        else:
            self._call(call, base=address)
