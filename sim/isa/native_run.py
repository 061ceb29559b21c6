"""LLVM text of the loop that runs work-groups: no Python per wave.

`run(thread)` takes work-groups from the launch record until none is left. The
waves of a group take turns; a wave runs until it ends, reaches a barrier, wants
code that is not translated, or has made enough backward branches to give others
a turn. A barrier opens once no wave of the group can run. Everything is in the
records, so `run` may return (to ask Python whether to stop) and go on later.
"""

from __future__ import annotations

from sim.isa import state

BUDGET = 1000  # backward branches in one turn of a wave


def run_function(width: int) -> str:
    """The function `run`, for waves of `width` lanes."""
    text = (_HEAD + _GROUP + _PASS).replace("$W", str(width))
    text = text.replace("$RANGE_BYTES", str(16 * state.RANGE_COUNT))
    text = text.replace("$RANGES", str(state.RANGES))
    return text.replace("$ALL", str((1 << width) - 1))


def _field(name: str, record: str, offset: int, kind: str = "i64") -> str:
    return f"""
  %{name}p = getelementptr i8, ptr {record}, i64 {offset}
  %{name} = load {kind}, ptr %{name}p"""


_HEAD = f"""
define i32 @run(ptr %t) #0 {{
entry:{_field("l", "%t", state.LAUNCH, "ptr")}{_field("count", "%l", state.GROUP_COUNT)}
{_field("gx", "%l", state.GROUPS_X)}{_field("gy", "%l", state.GROUPS_Y)}
{_field("waves", "%l", state.WAVES)}{_field("stride", "%l", state.WAVE_STRIDE)}
{_field("template", "%l", state.TEMPLATE, "ptr")}{_field("ids", "%l", state.IDS, "ptr")}
{_field("masks", "%l", state.MASKS, "ptr")}{_field("full", "%l", state.FULL_CODE, "ptr")}
{_field("part", "%l", state.PART_CODE, "ptr")}{_field("ssize", "%l", state.SCRATCH_SIZE)}
{_field("idx", "%l", state.GROUP_ID_AT)}{_field("idy", "%l", state.GROUP_ID_AT + 8)}
{_field("idz", "%l", state.GROUP_ID_AT + 16)}{_field("first", "%t", state.WAVES_AT, "ptr")}
{_field("scratch", "%t", state.SCRATCH)}{_field("active", "%t", state.ACTIVE)}
  %stopp = getelementptr i8, ptr %l, i64 {state.STOP}
  %nextp = getelementptr i8, ptr %l, i64 {state.NEXT_GROUP}
  %slicep = getelementptr i8, ptr %t, i64 {state.SLICE}
  %budgetp = getelementptr i8, ptr %t, i64 {state.BUDGET}
  %faultp = getelementptr i8, ptr %t, i64 {state.FAULT}
  %wavep = getelementptr i8, ptr %t, i64 {state.WAVE}
  %satp = getelementptr i8, ptr %t, i64 {state.SCRATCH_AT}
  %seenp = getelementptr i8, ptr %t, i64 {state.SEEN_TABLE}
  %tablep = getelementptr i8, ptr %t, i64 {state.TABLE}
  %cell = load ptr, ptr %tablep
  %wcp = getelementptr i8, ptr %t, i64 {state.WAVE_COUNT}
  br label %begin
begin:
  %isactive = icmp ne i64 %active, 0
  br i1 %isactive, label %pass, label %take
"""

_GROUP = f"""
take:
  %stop0 = load volatile i64, ptr %stopp
  %stopped0 = icmp ne i64 %stop0, 0
  br i1 %stopped0, label %stopped, label %take1
take1:
  %s0 = load i64, ptr %slicep
  %s0o = icmp sle i64 %s0, 0
  br i1 %s0o, label %sliced, label %take2
take2:
  %s1 = sub i64 %s0, 1
  store i64 %s1, ptr %slicep
  %g = atomicrmw add ptr %nextp, i64 1 seq_cst
  %some = icmp ult i64 %g, %count
  br i1 %some, label %init, label %finished
finished:
  ret i32 {state.DONE}
init:
  %x = urem i64 %g, %gx
  %yz = udiv i64 %g, %gx
  %y = urem i64 %yz, %gy
  %z = udiv i64 %yz, %gy
  %x32 = trunc i64 %x to i32
  %y32 = trunc i64 %y to i32
  %z32 = trunc i64 %z to i32
  %wc0 = load i64, ptr %wcp
  %wc1 = add i64 %wc0, %waves
  store i64 %wc1, ptr %wcp
  br label %wave
wave:
  %i = phi i64 [ 0, %init ], [ %i1, %wave ]
  %wo = mul i64 %i, %stride
  %w = getelementptr i8, ptr %first, i64 %wo
  %regs = load <32 x i32>, ptr %template, align 64   ; s32 to s95 keep what they held
  store <32 x i32> %regs, ptr %w, align 64
  %special = getelementptr i8, ptr %w, i64 384
  store <32 x i32> zeroinitializer, ptr %special, align 64
  %xp = getelementptr i32, ptr %w, i64 %idx
  store i32 %x32, ptr %xp
  %yp = getelementptr i32, ptr %w, i64 %idy
  store i32 %y32, ptr %yp
  %zp = getelementptr i32, ptr %w, i64 %idz
  store i32 %z32, ptr %zp
  %mp = getelementptr i64, ptr %masks, i64 %i
  %m = load i64, ptr %mp
  %ep = getelementptr i32, ptr %w, i64 {state.EXEC}
  store i64 %m, ptr %ep, align 4
  %idp = getelementptr <$W x i32>, ptr %ids, i64 %i
  %id = load <$W x i32>, ptr %idp, align 64
  %vp = getelementptr i8, ptr %w, i64 {state.VECTORS}
  store <$W x i32> %id, ptr %vp, align 64
  %sccp = getelementptr i8, ptr %w, i64 {state.SCC}
  store <4 x i32> zeroinitializer, ptr %sccp, align 16
  %i1 = add i64 %i, 1
  %imore = icmp ult i64 %i1, %waves
  br i1 %imore, label %wave, label %started
started:
  %ap1 = getelementptr i8, ptr %t, i64 {state.ACTIVE}
  store i64 1, ptr %ap1
  br label %pass
"""

_PASS = f"""
pass:
  br label %turn
turn:
  %j = phi i64 [ 0, %pass ], [ %j1, %turned ]
  %runs = phi i64 [ 0, %pass ], [ %runs1, %turned ]
  %waits = phi i64 [ 0, %pass ], [ %waits1, %turned ]
  %jo = mul i64 %j, %stride
  %jw = getelementptr i8, ptr %first, i64 %jo
  %stp = getelementptr i8, ptr %jw, i64 {state.STATUS}
  %st = load i32, ptr %stp
  %canrun = icmp eq i32 %st, {state.RUN}
  br i1 %canrun, label %go, label %turned
go:
  %table = load volatile i64, ptr %cell
  %seen = load i64, ptr %seenp
  %same = icmp eq i64 %table, %seen
  br i1 %same, label %call, label %forget
forget:                                   ; the page table changed: remembered ranges may be stale
  %fi = phi i64 [ 0, %go ], [ %fi1, %forget ]
  %fo = add i64 %fi, $RANGES
  %fptr = getelementptr i8, ptr %t, i64 %fo
  store <8 x i64> zeroinitializer, ptr %fptr, align 64
  %fi1 = add i64 %fi, 64
  %fmore = icmp ult i64 %fi1, $RANGE_BYTES
  br i1 %fmore, label %forget, label %forgot
forgot:
  store i64 %table, ptr %seenp
  br label %call
call:
  store ptr %jw, ptr %wavep
  %so = mul i64 %j, %ssize
  %sa = add i64 %scratch, %so
  store i64 %sa, ptr %satp
  store i64 {BUDGET}, ptr %budgetp
  %jmp = getelementptr i64, ptr %masks, i64 %j
  %jm = load i64, ptr %jmp
  %isfull = icmp eq i64 %jm, $ALL
  %code = select i1 %isfull, ptr %full, ptr %part
  %got = call i32 %code(ptr %t, ptr %jw)
  store i32 %got, ptr %stp
  %fault = load i64, ptr %faultp
  %faulty = icmp ne i64 %fault, 0
  br i1 %faulty, label %faulted, label %went
went:
  %jumped = icmp eq i32 %got, {state.JUMPED}
  br i1 %jumped, label %wants, label %turned
turned:
  %now = phi i32 [ %st, %turn ], [ %got, %went ]
  %isrun = icmp eq i32 %now, {state.RUN}
  %isrun64 = zext i1 %isrun to i64
  %runs1 = add i64 %runs, %isrun64
  %iswait = icmp eq i32 %now, {state.BARRIER}
  %iswait64 = zext i1 %iswait to i64
  %waits1 = add i64 %waits, %iswait64
  %j1 = add i64 %j, 1
  %jmore = icmp ult i64 %j1, %waves
  br i1 %jmore, label %turn, label %after
after:
  %stop1 = load volatile i64, ptr %stopp
  %stopped1 = icmp ne i64 %stop1, 0
  br i1 %stopped1, label %stopped, label %after1
after1:
  %anyrun = icmp ne i64 %runs1, 0
  br i1 %anyrun, label %again, label %after2
again:                                    ; some wave used up its turn
  %s2 = load i64, ptr %slicep
  %s3 = sub i64 %s2, 1
  store i64 %s3, ptr %slicep
  %s3o = icmp sle i64 %s3, 0
  br i1 %s3o, label %sliced, label %pass
after2:
  %anywait = icmp ne i64 %waits1, 0
  br i1 %anywait, label %open, label %ended
open:
  %k = phi i64 [ 0, %after2 ], [ %k1, %open ]
  %ko = mul i64 %k, %stride
  %kw = getelementptr i8, ptr %first, i64 %ko
  %ksp = getelementptr i8, ptr %kw, i64 {state.STATUS}
  %ks = load i32, ptr %ksp
  %kb = icmp eq i32 %ks, {state.BARRIER}
  %kn = select i1 %kb, i32 {state.RUN}, i32 %ks
  store i32 %kn, ptr %ksp
  %k1 = add i64 %k, 1
  %kmore = icmp ult i64 %k1, %waves
  br i1 %kmore, label %open, label %pass
ended:
  %ap2 = getelementptr i8, ptr %t, i64 {state.ACTIVE}
  store i64 0, ptr %ap2
  br label %take
sliced:
  ret i32 {state.SLICED}
stopped:
  ret i32 {state.STOPPED}
faulted:
  ret i32 {state.FAULTED}
wants:
  store i32 {state.RUN}, ptr %stp
  ret i32 {state.WANTS_CODE}
}}
"""
