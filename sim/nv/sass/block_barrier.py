"""LLVM text of the barriers that the warps of a block meet at, and of what they reduce there.

`i32 barrier(thread, warp, number, threads, sum, arrives)`: a warp comes to a barrier, or looks
again whether it has opened. threads: how many have to come, 0 for all the block's; sum: what the
warp brings to a BAR.RED; arrives: it does not wait. The result is OPEN, SHUT (look again
later) or STUCK (no warp of the block can run). The warp that opens a barrier tells those that
wait what the sum is, so it does not matter who runs on how far.

A BAR.SYNC 0 of the whole block does not need this while nobody uses the barrier in another
way: the loop over warps (native_run.py) opens it. Warps that wait so are counted here.

Source: PTX ISA, "bar, barrier".
"""

from sim.isa import state
from sim.nv.sass import frame

SHUT, OPEN, STUCK = 0, 1, 2
PATIENCE = 3  # looks at a barrier, each after all other warps have had a turn


def _word(name: str, word: int) -> str:
    return f"""
  %{name}p = getelementptr i8, ptr %w, i64 {4 * word}
  %{name} = load i32, ptr %{name}p"""


_COME = f"""
define internal i32 @barrier(ptr %t, ptr %w, i32 %any, i32 %threads, i32 %sum, i32 %arrives) #0 {{
entry:{_word("waiting", frame.WAITING)}{_word("tries", frame.TRIES)}
  %number = and i32 %any, 15
  %key = add i32 %number, 1
  %l = load ptr, ptr %t
  %countp = getelementptr i8, ptr %l, i64 {state.WAVES}
  %count = load i64, ptr %countp
  %stridep = getelementptr i8, ptr %l, i64 {state.WAVE_STRIDE}
  %stride = load i64, ptr %stridep
  %firstp = getelementptr i8, ptr %t, i64 {state.WAVES_AT}
  %first = load ptr, ptr %firstp
  %words = getelementptr i32, ptr %first, i32 %number
  %arrivedp = getelementptr i8, ptr %words, i64 {4 * frame.ARRIVED}
  %sumsp = getelementptr i8, ptr %words, i64 {4 * frame.SUMS}
  %released = icmp eq i32 %waiting, {frame.RELEASED}
  br i1 %released, label %pass, label %comes
comes:
  %isnew = icmp eq i32 %waiting, 0
  br i1 %isnew, label %new, label %look
new:
  %came0 = load i32, ptr %arrivedp
  %came1 = add i32 %came0, 1
  store i32 %came1, ptr %arrivedp
  %sum0 = load i32, ptr %sumsp
  %sum1 = add i32 %sum0, %sum
  store i32 %sum1, ptr %sumsp
  store i32 0, ptr %triesp
  %waits = icmp eq i32 %arrives, 0
  %mine = select i1 %waits, i32 %key, i32 0
  store i32 %mine, ptr %waitingp
  br label %look
"""

_LOOK = f"""
look:
  br label %warp
warp:
  %i = phi i64 [ 0, %look ], [ %i1, %warp ]
  %ended = phi i32 [ 0, %look ], [ %ended1, %warp ]
  %simple = phi i32 [ 0, %look ], [ %simple1, %warp ]
  %held = phi i32 [ 0, %look ], [ %held1, %warp ]
  %at = mul i64 %i, %stride
  %other = getelementptr i8, ptr %first, i64 %at
  %statusp = getelementptr i8, ptr %other, i64 {state.STATUS}
  %status = load i32, ptr %statusp
  %isended = icmp eq i32 %status, {state.ENDED}
  %isended32 = zext i1 %isended to i32
  %ended1 = add i32 %ended, %isended32
  %issimple = icmp eq i32 %status, {state.BARRIER}
  %issimple32 = zext i1 %issimple to i32
  %simple1 = add i32 %simple, %issimple32
  %itsp = getelementptr i8, ptr %other, i64 {4 * frame.WAITING}
  %its = load i32, ptr %itsp
  %its1 = sub i32 %its, 1
  %iswaiting = icmp ult i32 %its1, 16
  %notended = xor i1 %isended, true
  %isheld = and i1 %iswaiting, %notended
  %isheld32 = zext i1 %isheld to i32
  %held1 = add i32 %held, %isheld32
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %count
  br i1 %more, label %warp, label %decide
decide:
  %count32 = trunc i64 %count to i32
  %there = sub i32 %count32, %ended1
  %whole = icmp eq i32 %threads, 0
  %up = add i32 %threads, 31
  %some = lshr i32 %up, 5
  %need = select i1 %whole, i32 %there, i32 %some
  %came = load i32, ptr %arrivedp
  %iszero = icmp eq i32 %number, 0
  %also = select i1 %iszero, i32 %simple1, i32 0
  %have = add i32 %came, %also
  %opens = icmp uge i32 %have, %need
  br i1 %opens, label %open, label %shut
shut:
  %still = add i32 %simple1, %held1
  %dead0 = icmp uge i32 %still, %there
  %waits1 = icmp eq i32 %arrives, 0
  %dead = and i1 %dead0, %waits1
  %tries0 = load i32, ptr %triesp
  %tries1 = add i32 %tries0, 1
  %tries2 = select i1 %dead, i32 %tries1, i32 0
  store i32 %tries2, ptr %triesp
  %hopeless = icmp ugt i32 %tries2, {PATIENCE}
  %answer = select i1 %hopeless, i32 {STUCK}, i32 %arrives
  ret i32 %answer
"""

_OPEN = f"""
open:
  %total = load i32, ptr %sumsp
  store i32 0, ptr %arrivedp
  store i32 0, ptr %sumsp
  br label %tell
tell:
  %j = phi i64 [ 0, %open ], [ %j1, %told ]
  %jat = mul i64 %j, %stride
  %one = getelementptr i8, ptr %first, i64 %jat
  %onep = getelementptr i8, ptr %one, i64 {4 * frame.WAITING}
  %onewaits = load i32, ptr %onep
  %ishere = icmp eq i32 %onewaits, %key
  br i1 %ishere, label %free, label %next
free:
  store i32 {frame.RELEASED}, ptr %onep
  %resultp = getelementptr i8, ptr %one, i64 {4 * frame.REDUCTION}
  store i32 %total, ptr %resultp
  br label %next
next:
  %onestatusp = getelementptr i8, ptr %one, i64 {state.STATUS}
  %onestatus = load i32, ptr %onestatusp
  %onesimple0 = icmp eq i32 %onestatus, {state.BARRIER}
  %onesimple = and i1 %onesimple0, %iszero
  br i1 %onesimple, label %run, label %told
run:
  store i32 {state.RUN}, ptr %onestatusp
  br label %told
told:
  %j1 = add i64 %j, 1
  %jmore = icmp ult i64 %j1, %count
  br i1 %jmore, label %tell, label %pass
pass:
  store i32 0, ptr %waitingp
  ret i32 {OPEN}
}}
"""

BLOCK_BARRIER = _COME + _LOOK + _OPEN
