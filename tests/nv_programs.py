"""PTX of kernels that do more than one result per thread: parameters out, a, b, c, n."""

PARAMETERS = """(
    .param .u64 out, .param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
.maxntid {threads}, 1, 1
{{
  .reg .b64 %out, %a, %b, %c, %at, %bt, %ct, %l<16>;
  .reg .b32 %n, %thread, %cta, %i, %r<64>;
  .reg .f32 %f<32>;
  .reg .f64 %d<8>;
  .reg .pred %p<8>;
  ld.param.u64 %out, [out]; ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; ld.param.u64 %c, [c];
  ld.param.u32 %n, [n];
  mov.u32 %thread, %tid.x; mov.u32 %cta, %ctaid.x;
  mad.lo.u32 %i, %cta, {threads}, %thread;
  mad.wide.u32 %at, %i, 4, %a; mad.wide.u32 %bt, %i, 4, %b; mad.wide.u32 %ct, %i, 4, %out;
"""

FUNCTIONS = """
.func (.param .b32 result) square_plus(.param .b32 x)
{
  .reg .b32 %r<4>;
  ld.param.u32 %r1, [x];
  mad.lo.u32 %r2, %r1, %r1, 1;
  st.param.b32 [result], %r2;
  ret;
}
.func (.param .b32 result) factorial(.param .b32 x)
{
  .reg .b32 %r<8>;
  .reg .pred %p1;
  ld.param.u32 %r1, [x];
  setp.lt.u32 %p1, %r1, 2;
  @%p1 bra ONE;
  sub.u32 %r2, %r1, 1;
  { .param .b32 p; .param .b32 q;
    st.param.b32 [p], %r2;
    call (q), factorial, (p);
    ld.param.b32 %r3, [q]; }
  mul.lo.u32 %r4, %r3, %r1;
  st.param.b32 [result], %r4;
  ret;
ONE:
  st.param.b32 [result], 1;
  ret;
}
"""

BODIES = {
    "warp_sum": """
  ld.global.f32 %f1, [%at];
  shfl.sync.bfly.b32 %f2, %f1, 16, 31, -1; add.f32 %f1, %f1, %f2;
  shfl.sync.bfly.b32 %f2, %f1, 8, 31, -1; add.f32 %f1, %f1, %f2;
  shfl.sync.bfly.b32 %f2, %f1, 4, 31, -1; add.f32 %f1, %f1, %f2;
  shfl.sync.bfly.b32 %f2, %f1, 2, 31, -1; add.f32 %f1, %f1, %f2;
  shfl.sync.bfly.b32 %f2, %f1, 1, 31, -1; add.f32 %f1, %f1, %f2;
  st.global.f32 [%ct], %f1;""",
    "scan": """
  .reg .b32 %lane; mov.u32 %lane, %laneid;
  ld.global.u32 %r1, [%at];
  mov.u32 %r3, 1;
LOOP:
  shfl.sync.up.b32 %r2|%p1, %r1, %r3, 0, -1;
  @%p1 add.u32 %r1, %r1, %r2;
  shl.b32 %r3, %r3, 1;
  setp.lt.u32 %p2, %r3, 32;
  @%p2 bra LOOP;
  st.global.u32 [%ct], %r1;""",
    "block_sum": """
  .shared .align 4 .f32 room[256];
  mov.u32 %r1, room;
  mad.lo.u32 %r2, %thread, 4, %r1;
  ld.global.f32 %f1, [%at];
  st.shared.f32 [%r2], %f1;
  bar.sync 0;
  mov.u32 %r3, 64;
LOOP:
  setp.ge.u32 %p1, %thread, %r3;
  @%p1 bra SKIP;
  mad.lo.u32 %r4, %r3, 4, %r2;
  ld.shared.f32 %f2, [%r4];
  ld.shared.f32 %f3, [%r2];
  add.f32 %f3, %f3, %f2;
  st.shared.f32 [%r2], %f3;
SKIP:
  bar.sync 0;
  shr.u32 %r3, %r3, 1;
  setp.ne.u32 %p2, %r3, 0;
  @%p2 bra LOOP;
  ld.shared.f32 %f4, [room];
  st.global.f32 [%ct], %f4;""",
    "histogram": """
  .shared .align 4 .u32 counts[16];
  mov.u32 %r1, counts;
  setp.ge.u32 %p1, %thread, 16;
  mad.lo.u32 %r2, %thread, 4, %r1;
  @!%p1 st.shared.u32 [%r2], 0;
  bar.sync 0;
  ld.global.u32 %r3, [%at];
  and.b32 %r3, %r3, 15;
  mad.lo.u32 %r4, %r3, 4, %r1;
  atom.shared.add.u32 %r5, [%r4], 1;
  bar.sync 0;
  @%p1 exit;
  ld.shared.u32 %r6, [%r2];
  mad.wide.u32 %l1, %thread, 4, %out;
  red.global.add.u32 [%l1], %r6;""",
    "atomics": """
  ld.global.u32 %r1, [%at];
  red.global.add.u32 [%out], %r1;
  red.global.max.s32 [%out+4], %r1;
  red.global.min.u32 [%out+8], %r1;
  red.global.xor.b32 [%out+12], %r1;
  atom.global.inc.u32 %r2, [%out+16], 9;
  cvt.u64.u32 %l1, %r1;
  red.global.add.u64 [%out+24], %l1;
  cvt.rn.f32.u32 %f1, %thread;
  red.global.add.f32 [%out+32], %f1;
  cvt.rn.f64.u32 %d1, %thread;
  red.global.add.f64 [%out+40], %d1;
TRY:
  ld.volatile.global.u32 %r3, [%out+48];
  add.u32 %r4, %r3, 3;
  atom.global.cas.b32 %r5, [%out+48], %r3, %r4;
  setp.ne.u32 %p1, %r5, %r3;
  @%p1 bra TRY;""",
    "spin_lock": """
TRY:
  atom.global.cas.b32 %r1, [%out], 0, 1;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra TRY;
  membar.gl;
  ld.volatile.global.u32 %r2, [%out+4];
  add.u32 %r2, %r2, 1;
  st.volatile.global.u32 [%out+4], %r2;
  membar.gl;
  atom.global.exch.b32 %r3, [%out], 0;""",
    "local_array": """
  .local .align 4 .u32 room[16];
  mov.u32 %r1, 0;
  mov.u64 %l1, room;
FILL:
  mad.lo.u32 %r2, %r1, %r1, %thread;
  mad.wide.u32 %l2, %r1, 4, %l1;
  st.local.u32 [%l2], %r2;
  add.u32 %r1, %r1, 1;
  setp.lt.u32 %p1, %r1, 16;
  @%p1 bra FILL;
  ld.global.u32 %r3, [%at];
  and.b32 %r3, %r3, 15;
  mad.wide.u32 %l3, %r3, 4, %l1;
  ld.local.u32 %r4, [%l3];
  cvta.local.u64 %l4, %l3;
  ld.u32 %r5, [%l4];
  add.u32 %r4, %r4, %r5;
  st.global.u32 [%ct], %r4;""",
    "calls": """
  ld.global.u32 %r1, [%at];
  and.b32 %r1, %r1, 7;
  { .param .b32 p; .param .b32 q;
    st.param.b32 [p], %r1;
    call (q), square_plus, (p);
    ld.param.b32 %r2, [q]; }
  { .param .b32 p; .param .b32 q;
    st.param.b32 [p], %r1;
    call (q), factorial, (p);
    ld.param.b32 %r3, [q]; }
  add.u32 %r4, %r2, %r3;
  st.global.u32 [%ct], %r4;""",
    "switch": """
  ld.global.u32 %r1, [%at];
  and.b32 %r1, %r1, 7;
  mov.u32 %r2, 0;
TABLE: .branchtargets C0, C1, C2, C3, C4, C5, C6, C7;
  brx.idx %r1, TABLE;
C0: add.u32 %r2, %thread, 100; bra DONE;
C1: mul.lo.u32 %r2, %thread, 3; bra DONE;
C2: xor.b32 %r2, %thread, 77; bra DONE;
C3: shl.b32 %r2, %thread, 5; bra DONE;
C4: sub.u32 %r2, 1000, %thread; bra DONE;
C5: not.b32 %r2, %thread; bra DONE;
C6: popc.b32 %r2, %thread; bra DONE;
C7: mov.u32 %r2, 7;
DONE:
  st.global.u32 [%ct], %r2;""",
    "collatz": """
  ld.global.u32 %r1, [%at];
  mov.u32 %r2, 0;
LOOP:
  setp.le.u32 %p1, %r1, 1;
  @%p1 bra DONE;
  and.b32 %r3, %r1, 1;
  setp.eq.u32 %p2, %r3, 0;
  @%p2 bra EVEN;
  mad.lo.u32 %r1, %r1, 3, 1;
  bra NEXT;
EVEN:
  shr.u32 %r1, %r1, 1;
NEXT:
  add.u32 %r2, %r2, 1;
  bra LOOP;
DONE:
  redux.sync.max.u32 %r5, %r2, -1;
  shl.b32 %r5, %r5, 16;
  or.b32 %r2, %r2, %r5;
  st.global.u32 [%ct], %r2;""",
    "votes": """
  ld.global.u32 %r1, [%at];
  setp.gt.s32 %p1, %r1, 0;
  vote.sync.ballot.b32 %r2, %p1, -1;
  match.any.sync.b32 %r3, %r1, -1;
  redux.sync.add.s32 %r4, %r1, -1;
  redux.sync.max.s32 %r5, %r1, -1;
  mad.wide.u32 %l1, %i, 16, %out;
  st.global.v4.u32 [%l1], {%r2, %r3, %r4, %r5};""",
    "numbers": """
  .reg .b32 %x, %y, %z;
  mov.u32 %x, %ntid.x; mov.u32 %y, %nctaid.x; mov.u32 %z, %laneid;
  mad.wide.u32 %l1, %i, 16, %out;
  st.global.v4.u32 [%l1], {%thread, %cta, %x, %y};""",
    "early_exit": """
  setp.ge.u32 %p1, %i, %n;
  @%p1 exit;
  ld.global.f32 %f1, [%at];
  mul.f32 %f1, %f1, 0f40000000;
  st.global.f32 [%ct], %f1;""",
    "exponential": """
  ld.global.f32 %f1, [%at];
  mul.f32 %f2, %f1, 0f3FB8AA3B;
  ex2.approx.f32 %f3, %f2;
  add.f32 %f4, %f3, 0f3F800000;
  lg2.approx.f32 %f5, %f4;
  sin.approx.f32 %f6, %f1;
  cos.approx.f32 %f7, %f1;
  rsqrt.approx.f32 %f8, %f4;
  tanh.approx.f32 %f9, %f1;
  rcp.approx.f32 %f10, %f4;
  mad.wide.u32 %l1, %i, 32, %out;
  st.global.v4.f32 [%l1], {%f3, %f5, %f6, %f7};
  st.global.v4.f32 [%l1+16], {%f8, %f9, %f10, %f4};""",
    "transpose": """
  .shared .align 4 .u32 tile[1056];
  mov.u32 %r1, tile;
  mov.u32 %r2, 0;
FILL:
  mad.lo.u32 %r3, %r2, 32, %thread;
  mad.wide.u32 %l1, %r3, 4, %a;
  ld.global.u32 %r4, [%l1];
  mad.lo.u32 %r5, %r2, 33, %thread;
  mad.lo.u32 %r5, %r5, 4, %r1;
  st.shared.u32 [%r5], %r4;
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, 32;
  @%p1 bra FILL;
  bar.sync 0;
  mov.u32 %r2, 0;
DRAIN:
  mad.lo.u32 %r5, %thread, 33, %r2;
  mad.lo.u32 %r5, %r5, 4, %r1;
  ld.shared.u32 %r4, [%r5];
  mad.lo.u32 %r3, %r2, 32, %thread;
  mad.wide.u32 %l1, %r3, 4, %out;
  st.global.u32 [%l1], %r4;
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, 32;
  @%p1 bra DRAIN;""",
    "matmul": """
  .shared .align 4 .f32 left[256];
  .shared .align 4 .f32 right[256];
  and.b32 %r1, %thread, 15; shr.u32 %r2, %thread, 4;
  shr.u32 %r3, %n, 4;
  rem.u32 %r4, %cta, %r3; div.u32 %r5, %cta, %r3;
  mad.lo.u32 %r6, %r5, 16, %r2;
  mad.lo.u32 %r7, %r4, 16, %r1;
  mov.f32 %f1, 0f00000000;
  mov.u32 %r8, 0;
  mov.u32 %r10, left; mov.u32 %r11, right;
  mad.lo.u32 %r12, %thread, 4, %r10; mad.lo.u32 %r13, %thread, 4, %r11;
LOOP:
  add.u32 %r14, %r8, %r1; mad.lo.u32 %r14, %r6, %n, %r14;
  mad.wide.u32 %l1, %r14, 4, %a; ld.global.f32 %f2, [%l1]; st.shared.f32 [%r12], %f2;
  add.u32 %r15, %r8, %r2; mad.lo.u32 %r15, %r15, %n, %r7;
  mad.wide.u32 %l2, %r15, 4, %b; ld.global.f32 %f3, [%l2]; st.shared.f32 [%r13], %f3;
  bar.sync 0;
  mov.u32 %r16, 0;
INNER:
  mad.lo.u32 %r17, %r2, 16, %r16; mad.lo.u32 %r17, %r17, 4, %r10; ld.shared.f32 %f4, [%r17];
  mad.lo.u32 %r18, %r16, 16, %r1; mad.lo.u32 %r18, %r18, 4, %r11; ld.shared.f32 %f5, [%r18];
  fma.rn.f32 %f1, %f4, %f5, %f1;
  add.u32 %r16, %r16, 1;
  setp.lt.u32 %p1, %r16, 16;
  @%p1 bra INNER;
  bar.sync 0;
  add.u32 %r8, %r8, 16;
  setp.lt.u32 %p2, %r8, %n;
  @%p2 bra LOOP;
  mad.lo.u32 %r19, %r6, %n, %r7;
  mad.wide.u32 %l3, %r19, 4, %out;
  st.global.f32 [%l3], %f1;""",
    "barrier_result": """
  ld.global.u32 %r1, [%at];
  setp.gt.s32 %p1, %r1, 0;
  bar.red.popc.u32 %r2, 0, %p1;
  bar.red.and.pred %p2, 0, %p1;
  bar.red.or.pred %p3, 0, %p1;
  selp.u32 %r3, 1, 0, %p2; selp.u32 %r4, 1, 0, %p3;
  mad.wide.u32 %l1, %i, 16, %out;
  st.global.v4.u32 [%l1], {%r2, %r3, %r4, %r1};""",
    "counted_barrier": """
  .shared .align 4 .u32 room[128];
  mov.u32 %r1, room;
  mad.lo.u32 %r2, %thread, 4, %r1;
  st.shared.u32 [%r2], %thread;
  bar.sync 1, 128;
  xor.b32 %r3, %thread, 127;
  mad.lo.u32 %r4, %r3, 4, %r1;
  ld.shared.u32 %r5, [%r4];
  st.global.u32 [%ct], %r5;""",
    "part_barrier": """
  bar.sync 1, 64;
  st.global.u32 [%ct], %thread;""",
    "endless_barrier": """
  bar.sync 1, 256;
  st.global.u32 [%ct], %thread;""",
    "packed": """
  ld.global.u32 %r1, [%at]; ld.global.u32 %r2, [%bt];
  add.f16x2 %r3, %r1, %r2;
  mul.f16x2 %r4, %r1, %r2;
  fma.rn.f16x2 %r5, %r1, %r2, %r1;
  max.f16x2 %r6, %r1, %r2;
  mad.wide.u32 %l1, %i, 16, %out;
  st.global.v4.u32 [%l1], {%r3, %r4, %r5, %r6};""",
    "async_copy": """
  .shared .align 16 .b8 room[2048];
  mov.u32 %r1, room;
  mad.lo.u32 %r2, %thread, 16, %r1;
  mad.wide.u32 %l1, %thread, 16, %a;
  cp.async.cg.shared.global [%r2], [%l1], 16;
  cp.async.commit_group;
  cp.async.wait_group 0;
  bar.sync 0;
  xor.b32 %r3, %thread, 1;
  mad.lo.u32 %r4, %r3, 16, %r1;
  ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r4];
  mad.wide.u32 %l2, %thread, 16, %out;
  st.global.v4.u32 [%l2], {%r5, %r6, %r7, %r8};""",
    "filled_copy": """
  .shared .align 16 .b8 room[2048];
  mov.u32 %r1, room;
  mad.lo.u32 %r2, %thread, 16, %r1;
  mad.wide.u32 %l1, %thread, 16, %a;
  rem.u32 %r3, %thread, 17;
  cp.async.cg.shared.global [%r2], [%l1], 16, %r3;
  cp.async.wait_all;
  ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r2];
  mad.wide.u32 %l2, %thread, 16, %out;
  st.global.v4.u32 [%l2], {%r5, %r6, %r7, %r8};""",
    "fixed_copies": """
  .shared .align 16 .b8 room[6144];
  mov.u32 %r1, room;
  mad.lo.u32 %r2, %thread, 48, %r1;
  st.shared.v4.u32 [%r2], {%thread, %thread, %thread, %thread};
  st.shared.v4.u32 [%r2+16], {%thread, %thread, %thread, %thread};
  st.shared.v4.u32 [%r2+32], {%thread, %thread, %thread, %thread};
  mad.wide.u32 %l1, %thread, 16, %a;
  and.b32 %r3, %thread, 1;
  setp.ne.u32 %p1, %r3, 0;
  cp.async.cg.shared.global [%r2], [%l1], 16, 8;
  cp.async.cg.shared.global [%r2+16], [%l1], 16, %p1;
  cp.async.ca.shared.global [%r2+32], [%l1], 8, 0;
  cp.async.wait_all;
  mad.wide.u32 %l2, %thread, 48, %out;
  ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r2];
  st.global.v4.u32 [%l2], {%r5, %r6, %r7, %r8};
  ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r2+16];
  st.global.v4.u32 [%l2+16], {%r5, %r6, %r7, %r8};
  ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r2+32];
  st.global.v4.u32 [%l2+32], {%r5, %r6, %r7, %r8};""",
    "negative_powers": """
  mad.wide.u32 %l1, %thread, 8, %a;
  mad.wide.u32 %l2, %thread, 16, %out;
  ld.global.u64 %l3, [%l1];
  mul.lo.s64 %l4, %l3, -2;
  mul.lo.s64 %l5, %l3, -1024;
  st.global.u64 [%l2], %l4;
  st.global.u64 [%l2+8], %l5;""",
    "bad_store": """
  setp.ne.u32 %p1, %thread, 5;
  @%p1 bra FINE;
  st.global.u32 [%b], %thread;
FINE:
  st.global.u32 [%ct], %thread;""",
    "bad_shared": """
  .shared .align 4 .u32 room[32];
  mov.u32 %r1, room;
  mad.lo.u32 %r2, %n, 4, %r1;
  st.shared.u32 [%r2], %thread;
  ld.shared.u32 %r3, [%r1];
  st.global.u32 [%ct], %r3;""",
    "misaligned": """
  cvt.u64.u32 %l1, %n;
  add.u64 %l2, %ct, %l1;
  st.global.u32 [%l2], %thread;""",
    "misaligned_shared": """
  .shared .align 4 .u32 room[256];
  mov.u32 %r1, room;
  add.u32 %r2, %r1, %n;
  mad.lo.u32 %r2, %thread, 4, %r2;
  st.shared.u32 [%r2], %thread;
  ld.shared.u32 %r3, [%r1];
  st.global.u32 [%ct], %r3;""",
    "bad_local": """
  .local .align 4 .u32 room[16];
  mov.u64 %l1, room;
  mad.wide.u32 %l2, %n, 4, %l1;
  st.local.u32 [%l2], %thread;
  ld.local.u32 %r3, [%l1];
  st.global.u32 [%ct], %r3;""",
    "endless": """
LOOP:
  ld.volatile.global.u32 %r1, [%a];
  setp.ne.u32 %p1, %r1, 99;
  @%p1 bra LOOP;
  st.global.u32 [%ct], %r1;""",
    "trapped": """
  setp.eq.u32 %p1, %n, 3;
  @%p1 trap;
  st.global.u32 [%ct], %thread;""",
}
THREADS = {"transpose": 32, "matmul": 256}


def mma(shape, types, registers, kind="b32"):
    """One product: A from a, B from b, C from c, D to out, each lane's registers in a row."""
    count_a, count_b, count_c = registers
    names = {
        x: [f"%r{10 * at + i}" for i in range(n)]
        for at, (x, n) in enumerate((("a", count_a), ("b", count_b), ("c", count_c)), 1)
    }
    names["d"] = [f"%r{40 + i}" for i in range(count_c)]
    is_float = types.startswith("f32") or types.endswith("f32")
    loads = ""
    for x, at in (("a", 1), ("b", 2), ("c", 3)):
        loads += f"  mad.wide.u32 %l{at}, %thread, {4 * len(names[x])}, %{x};\n"
        loads += "".join(
            f"  ld.global.u32 {r}, [%l{at}+{4 * i}];\n" for i, r in enumerate(names[x])
        )
    c, d = names["c"], names["d"]
    before = after = ""
    if is_float:
        before = "".join(f"  mov.b32 %f{i}, {r};\n" for i, r in enumerate(c))
        after = "".join(f"  mov.b32 {r}, %f{10 + i};\n" for i, r in enumerate(d))
        c, d = ([f"%f{base + i}" for i in range(count_c)] for base in (0, 10))
    listed = ["{" + ", ".join(x) + "}" for x in (d, names["a"], names["b"], c)]
    stores = f"  mad.wide.u32 %l4, %thread, {4 * count_c}, %out;\n"
    stores += "".join(f"  st.global.u32 [%l4+{4 * i}], {r};\n" for i, r in enumerate(names["d"]))
    return (f"{loads}{before}  mma.sync.aligned.{shape}.row.col.{types} {', '.join(listed)};\n"
            f"{after}{stores}")  # fmt: skip


MATRICES = {
    "mma_f16": ("m16n8k16", "f32.f16.f16.f32", (4, 2, 4)),
    "mma_bf16": ("m16n8k16", "f32.bf16.bf16.f32", (4, 2, 4)),
    "mma_f16_f16": ("m16n8k16", "f16.f16.f16.f16", (4, 2, 2)),
    "mma_f16_k8": ("m16n8k8", "f32.f16.f16.f32", (2, 1, 4)),
    "mma_tf32": ("m16n8k8", "f32.tf32.tf32.f32", (4, 2, 4)),
    "mma_s8": ("m16n8k32", "s32.s8.s8.s32", (4, 2, 4)),
}


def ptx(chip):
    """All kernels."""
    text = f".version 8.7\n.target {chip}\n.address_size 64\n{FUNCTIONS}"
    bodies = {**BODIES, **{name: mma(*what) for name, what in MATRICES.items()}}
    for name, body in bodies.items():
        threads = 32 if name in MATRICES else THREADS.get(name, 128)
        text += f".visible .entry {name}{PARAMETERS.format(threads=threads)}{body}\n  ret;\n}}\n"
    return text
