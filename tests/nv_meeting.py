"""PTX of kernels whose lanes and warps wait for each other; parameters as in nv_programs.py."""

from nv_programs import PARAMETERS

GROUPS = """
  .reg .b32 %lane, %mask; mov.u32 %lane, %laneid;
  and.b32 %r1, %lane, 1;
  setp.ne.u32 %p1, %r1, 0;
  selp.b32 %mask, 0xAAAAAAAA, 0x55555555, %p1;
  setp.ge.u32 %p2, %lane, 0;
"""
ARMS = """
  .shared .align 4 .u32 room[64];
  .reg .b32 %lane, %mine, %other; mov.u32 %lane, %laneid;
  mov.u32 %r1, room;
  mad.lo.u32 %mine, %thread, 4, %r1;
  xor.b32 %r2, %thread, 16;
  mad.lo.u32 %other, %r2, 4, %r1;
  mov.u32 %r5, %thread;
  st.volatile.shared.u32 [%mine], %r5;
  setp.lt.u32 %p1, %lane, 16;
"""
STORE = "st.global.u32 [%ct], "


def two_arms(body):
    """Three times the same in the arms of a branch, which differ in a factor."""
    arms = [3 * body.replace("FACTOR", factor) for factor in ("3", "5")]
    return f"{ARMS}@!%p1 bra ELSE; {arms[0]} bra DONE;\nELSE: {arms[1]}\nDONE: {STORE}%r5;"


MEETINGS = {
    "exits_before_a_barrier": f"""
  setp.ge.u32 %p1, %thread, 50;
  @%p1 exit;
  bar.sync 0;
  {STORE}1;""",
    "atomics_between_barriers": f"""
  .shared .u32 sum;
  setp.eq.u32 %p2, %thread, 0;
  @%p2 st.shared.u32 [sum], 0;
  bar.sync 0;
  setp.ge.u32 %p1, %thread, 50;
  @%p1 exit;
  atom.shared.add.u32 %r2, [sum], 1;
  bar.sync 0;
  ld.shared.u32 %r1, [sum];
  red.global.add.u32 [%out+512], 1;
  bar.sync 0;
  ld.volatile.global.u32 %r3, [%out+512];
  mad.lo.u32 %r1, %r1, 1000, %r3;
  {STORE}%r1;""",
    "barrier_or": f"""
  setp.lt.u32 %p1, %thread, 32;
  barrier.red.or.pred %p2, 0, %p1;
  selp.u32 %r1, 1, 0, %p2;
  {STORE}%r1;""",
    "barrier_and": f"""
  setp.lt.u32 %p1, %thread, 63;
  barrier.red.and.pred %p2, 0, %p1;
  selp.u32 %r1, 1, 0, %p2;
  setp.lt.u32 %p1, %thread, 64;
  barrier.red.and.pred %p2, 0, %p1;
  selp.u32 %r2, 10, 0, %p2;
  add.u32 %r1, %r1, %r2;
  {STORE}%r1;""",
    "barrier_count": f"""
  setp.ge.u32 %p1, %thread, 0;
  barrier.red.popc.u32 %r1, 0, %p1;
  {STORE}%r1;""",
    "barrier_count_of_some": f"""
  setp.ge.u32 %p1, %thread, 50;
  @%p1 exit;
  setp.lt.u32 %p2, %thread, 45;
  barrier.red.popc.u32 %r1, 0, %p2;
  {STORE}%r1;""",
    "ballot_in_groups": f"{GROUPS} vote.sync.ballot.b32 %r3, %p2, %mask; {STORE}%r3;",
    "any_in_groups": f"{GROUPS} vote.sync.any.pred %p3, %p1, %mask; selp.u32 %r3, 1, 0, %p3;"
    f"{STORE}%r3;",
    "sum_in_groups": f"{GROUPS} redux.sync.add.u32 %r3, %lane, %mask; {STORE}%r3;",
    "match_all_in_groups": f"{GROUPS} match.all.sync.b32 %r3, %r1, %mask; {STORE}%r3;",
    "match_any_in_groups": f"""{GROUPS}
  and.b32 %r2, %lane, 3;
  match.any.sync.b32 %r3, %r2, %mask;
  {STORE}%r3;""",
    "shuffle_in_groups": f"{GROUPS} shfl.sync.bfly.b32 %r3, %thread, 2, 31, %mask; {STORE}%r3;",
    "warp_barrier_in_two_arms": two_arms("""
  bar.warp.sync -1;
  ld.volatile.shared.u32 %r6, [%other];
  mad.lo.u32 %r5, %r5, FACTOR, %r6;
  bar.warp.sync -1;
  st.volatile.shared.u32 [%mine], %r5;"""),
    "barrier_in_two_arms": two_arms("""
  barrier.sync 0;
  ld.volatile.shared.u32 %r6, [%other];
  mad.lo.u32 %r5, %r5, FACTOR, %r6;
  barrier.sync 0;
  st.volatile.shared.u32 [%mine], %r5;"""),
    "shuffle_in_two_arms": two_arms("""
  shfl.sync.bfly.b32 %r6, %r5, 16, 31, -1;
  mad.lo.u32 %r5, %r5, FACTOR, %r6;"""),
    "ballot_in_two_arms": f"""
  .reg .b32 %lane; mov.u32 %lane, %laneid;
  ld.global.u32 %r8, [%a];
  and.b32 %r7, %lane, 1;
  setp.eq.u32 %p1, %r7, 0;
  mov.pred %p3, 1;
  @!%p1 bra ELSE;
  vote.sync.ballot.b32 %r6, %p3, %r8;
  bra DONE;
ELSE:
  vote.sync.ballot.b32 %r6, %p3, %r8;
  add.u32 %r6, %r6, 1;
DONE:
  {STORE}%r6;""",
    "barrier_count_in_two_arms": f"""
  setp.lt.u32 %p1, %thread, 16;
  @%p1 bra ELSE;
  barrier.red.popc.u32 %r1, 1, 64, %p1;
  bra DONE;
ELSE:
  barrier.red.popc.u32 %r1, 1, 64, %p1;
  add.u32 %r1, %r1, 1;
DONE:
  {STORE}%r1;""",
    "one_warp_apart_at_a_barrier": f"""
  setp.lt.u32 %p1, %thread, 16;
  @!%p1 bra ELSE;
  st.volatile.global.u32 [%ct+1024], 7;
  barrier.sync 0;
  ld.volatile.global.u32 %r1, [%out+1276];
  bra DONE;
ELSE:
  st.volatile.global.u32 [%ct+1024], 9;
  barrier.sync 0;
  ld.volatile.global.u32 %r1, [%out+1024];
DONE:
  {STORE}%r1;""",
    "different_barriers": """
  setp.lt.u32 %p1, %thread, 32;
  @%p1 bar.sync 0;
  @!%p1 bar.sync 1;""",
    "exits_while_others_wait": f"""
  .reg .b32 %lane; mov.u32 %lane, %laneid;
  setp.lt.u32 %p1, %lane, 16;
  @!%p1 bra ELSE;
  shfl.sync.bfly.b32 %r1, %thread, 3, 31, -1;
  bar.warp.sync -1;
  vote.sync.ballot.b32 %r2, %p1, -1;
  mad.lo.u32 %r1, %r2, 256, %r1;
  {STORE}%r1;
  bra DONE;
ELSE:
  st.volatile.global.u32 [%out+1024], 1;
  setp.lt.u32 %p2, %lane, 99;
  @%p2 exit;
DONE:""",
    "spins_while_others_meet": f"""
  .shared .u32 flags[2];
  .reg .b32 %lane; mov.u32 %lane, %laneid;
  mov.u32 %r9, flags;
  setp.ge.u32 %p3, %thread, 32;
  @%p3 add.u32 %r9, %r9, 4;
  st.volatile.shared.u32 [%r9], 0;
  bar.sync 0;
  setp.lt.u32 %p1, %lane, 16;
  @!%p1 bra ELSE;
SPIN:
  ld.volatile.shared.u32 %r1, [%r9];
  setp.ne.u32 %p2, %r1, 5;
  @%p2 bra SPIN;
  {STORE}%r1;
  bra DONE;
ELSE:
  bar.warp.sync 0xffff0000;
  st.volatile.shared.u32 [%r9], 5;
  bar.warp.sync 0xffff0000;
  {STORE}6;
DONE:""",
    "producer_and_consumer": f"""
  .shared .align 4 .u32 room[32];
  mov.u32 %r9, room;
  and.b32 %r10, %thread, 31;
  mad.lo.u32 %r9, %r10, 4, %r9;
  mov.u32 %r2, 0;
  mov.u32 %r5, 0;
  setp.lt.u32 %p1, %thread, 32;
  @!%p1 bra CONSUME;
PRODUCE:
  bar.sync 2, 64;
  mad.lo.u32 %r3, %r2, 100, %thread;
  st.shared.u32 [%r9], %r3;
  bar.arrive 1, 64;
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p2, %r2, 5;
  @%p2 bra PRODUCE;
  bra DONE;
CONSUME:
  bar.arrive 2, 64;
  bar.sync 1, 64;
  ld.shared.u32 %r3, [%r9];
  mad.lo.u32 %r5, %r5, 3, %r3;
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p2, %r2, 5;
  @%p2 bra CONSUME;
DONE:
  {STORE}%r5;""",
}


def meetings(chip):
    """All of them."""
    text = f".version 8.7\n.target {chip}\n.address_size 64\n"
    for name, body in MEETINGS.items():
        text += f".visible .entry {name}{PARAMETERS.format(threads=64)}{body}\n  ret;\n}}\n"
    return text
