"""What a wave can ask about itself and the time: hardware registers and messages with an answer.

Time is the launch's tick of the 100 MHz counter plus one for each instruction that was
executed since, so it goes on and is the same in every run of a seeded machine.

Source: AMD "RDNA3" Instruction Set Architecture, sections 3.3 (state), 16.5 (S_GETREG_B32), 16.6
(S_SENDMSG_RTN_B32); LLVM AMDGPUUsage, hwreg and sendmsg.
"""

from hcq.errors import SimFault
from sim.amd.rdna.mode import HWREG, MODE_ID, mode_register
from sim.amd.rdna.semantics import scalar
from sim.isa.value import U32, U64, Value, constant

SHADER_CYCLES_ID = 29
SHADER_CYCLES_BITS = 20
GET_REALTIME = 131  # a message


@scalar("s_getreg_b32", to=U32, reads=("imm", "denormals", "clock"))
def s_getreg_b32(immediate: int, denormals: int, clock: Value) -> Value:
    field = HWREG.unpack(immediate & 0xFFFF)
    if field["id"] == MODE_ID:
        register = constant(clock, U32, mode_register(denormals))
    elif field["id"] == SHADER_CYCLES_ID:
        register = clock.to(U32) & (1 << SHADER_CYCLES_BITS) - 1
    else:
        raise SimFault(f"s_getreg_b32 of hardware register {field['id']} is not simulated")
    return register >> field["offset"] & (1 << field["size"] + 1) - 1


def _time(message: int, clock: Value) -> Value:
    if message != GET_REALTIME:
        raise SimFault(f"s_sendmsg_rtn of message {message} is not simulated")
    return clock


@scalar("s_sendmsg_rtn_b32", to=U32, reads=("message", "clock"))
def s_sendmsg_rtn_b32(message: int, clock: Value) -> Value:
    return _time(message, clock).to(U32)


@scalar("s_sendmsg_rtn_b64", to=U64, reads=("message", "clock"))
def s_sendmsg_rtn_b64(message: int, clock: Value) -> Value:
    return _time(message, clock)
