"""Error numbers and MMU fault codes.

Source: NVIDIA open-gpu-kernel-modules, src/common/sdk/nvidia/inc/nverror.h (RC, also
called Xid, numbers), src/common/inc/swref/published/*/dev_fault.h (fault and access
types), src/common/sdk/nvidia/inc/ctrl/ctrl83de/ctrl83dedebug.h; Volta and later warp
error codes from the hww_warp_esr definitions of NVIDIA's nvgpu for Linux.
"""

RC_NAMES = {
    13: "graphics engine exception (illegal instruction or address, shared memory out of range)",
    31: "MMU fault",
    32: "pushbuffer engine error (bad pushbuffer word or ring entry)",
    39: "copy engine 0 error",
    40: "copy engine 1 error",
    41: "copy engine 2 error",
    43: "channel reset (verification error)",
    44: "fault during a context switch",
    45: "preemptive removal of the channel",
    48: "double-bit ECC error",
    69: "graphics class error (bad method or data)",
    79: "the GPU has fallen off the bus",
    94: "contained memory error",
    95: "uncontained memory error",
    109: "context switch timeout: a kernel did not leave the engine in time",
}
RC_GR_EXCEPTION = 13
RC_MMU_FAULT = 31
RC_PBDMA_ERROR = 32
RC_CE0_ERROR = 39
RC_GR_CLASS_ERROR = 69
RC_OFF_THE_BUS = 79
RC_CONTEXT_SWITCH_TIMEOUT = 109

FAULT_TYPES = {
    0x0: "PDE", 0x1: "PDE_SIZE", 0x2: "PTE", 0x3: "VA_LIMIT_VIOLATION", 0x4: "UNBOUND_INST_BLOCK",
    0x5: "PRIV_VIOLATION", 0x6: "RO_VIOLATION", 0x7: "WO_VIOLATION", 0x8: "PITCH_MASK_VIOLATION",
    0x9: "WORK_CREATION", 0xA: "UNSUPPORTED_APERTURE", 0xB: "COMPRESSION_FAILURE",
    0xC: "UNSUPPORTED_KIND", 0xD: "REGION_VIOLATION", 0xE: "POISONED", 0xF: "ATOMIC_VIOLATION",
}
FAULT_PDE = 0x0
FAULT_PTE = 0x2
FAULT_RO_VIOLATION = 0x6
FAULT_SENTENCES = {
    0x0: "used an address that is not mapped (no page directory)",
    0x1: "used an address that is not mapped (no page directory of that size)",
    0x2: "used a page that is not mapped",
    0x3: "used an address beyond the address space",
    0x4: "ran without an address space",
    0x5: "used a page without the privilege for it",
    0x6: "wrote to a read-only page",
    0x7: "read from a write-only page",
    0xE: "used poisoned memory (ECC)",
    0xF: "used an atomic where none is allowed",
}
ACCESS_TYPES = {
    0: "read", 1: "write", 2: "atomic", 3: "prefetch", 4: "atomic",
    8: "read (physical)", 9: "write (physical)", 10: "atomic (physical)",
    11: "prefetch (physical)",
}

# hwwWarpEsr, low byte: what a warp did.
WARP_ERRORS = {
    0x00: "none",
    0x01: "stack error",
    0x02: "API stack error",
    0x04: "misaligned program counter",
    0x05: "program counter overflow",
    0x07: "misaligned register",
    0x08: "illegal instruction encoding",
    0x0A: "illegal instruction parameter",
    0x0D: "out-of-range register",
    0x0E: "out-of-range address of local or shared memory",
    0x0F: "misaligned address",
    0x10: "invalid address space",
    0x12: "invalid constant address or load",
    0x14: "MMU fault or bad pointer",
}
WARP_ERROR_MASK = 0xFF
WARP_ILLEGAL_INSTRUCTION = 0x08
WARP_OUT_OF_RANGE = 0x0E
WARP_MISALIGNED = 0x0F
WARP_MMU_FAULT = 0x14
