"""Object class numbers.

Source: NVIDIA open-gpu-kernel-modules, src/common/sdk/nvidia/inc/class/*.h; the
spelling is the headers'.
"""

NV01_ROOT_CLIENT               = 0x0041
NV01_DEVICE_0                  = 0x0080
NV20_SUBDEVICE_0               = 0x2080
NV01_MEMORY_SYSTEM             = 0x003E
NV01_MEMORY_LOCAL_USER         = 0x0040
NV01_MEMORY_SYSTEM_OS_DESCRIPTOR = 0x0071
NV01_EVENT_OS_EVENT            = 0x0079
FERMI_VASPACE_A                = 0x90F1
FERMI_CONTEXT_SHARE_A          = 0x9067
KEPLER_CHANNEL_GROUP_A         = 0xA06C
GT200_DEBUGGER                 = 0x83DE
NV_CONFIDENTIAL_COMPUTE        = 0xCB33

VOLTA_USERMODE_A               = 0xC361
TURING_USERMODE_A              = 0xC461
AMPERE_USERMODE_A              = 0xC561
HOPPER_USERMODE_A              = 0xC661
BLACKWELL_USERMODE_A           = 0xC761

VOLTA_CHANNEL_GPFIFO_A         = 0xC36F
TURING_CHANNEL_GPFIFO_A        = 0xC46F
AMPERE_CHANNEL_GPFIFO_A        = 0xC56F
HOPPER_CHANNEL_GPFIFO_A        = 0xC86F
BLACKWELL_CHANNEL_GPFIFO_A     = 0xC96F
BLACKWELL_CHANNEL_GPFIFO_B     = 0xCA6F

VOLTA_COMPUTE_A                = 0xC3C0
TURING_COMPUTE_A               = 0xC5C0
AMPERE_COMPUTE_A               = 0xC6C0
AMPERE_COMPUTE_B               = 0xC7C0
ADA_COMPUTE_A                  = 0xC9C0
HOPPER_COMPUTE_A               = 0xCBC0
BLACKWELL_COMPUTE_A            = 0xCDC0
BLACKWELL_COMPUTE_B            = 0xCEC0

AMPERE_DMA_COPY_A              = 0xC6B5
AMPERE_DMA_COPY_B              = 0xC7B5
HOPPER_DMA_COPY_A              = 0xC8B5
BLACKWELL_DMA_COPY_A           = 0xC9B5
BLACKWELL_DMA_COPY_B           = 0xCAB5

NAMES = {
    value: name for name, value in list(globals().items()) if isinstance(value, int)
}


def name_of(number: int) -> str:
    """`HOPPER_COMPUTE_A (0xcbc0)`, or the number alone."""
    return f"{NAMES[number]} ({number:#06x})" if number in NAMES else f"{number:#06x}"
