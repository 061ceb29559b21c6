"""LLVM text of the choice of lanes that run next, for a warp whose lanes stand apart.

`i32 dispatch(thread, warp)` picks the lanes at the lowest place among those that do not wait
at a convergence point, and returns that place. If all wait, the barrier that will never be
complete is given up for the lanes that wait lowest. After a turn that did not end (a loop
around a lock), the choice goes to other lanes, so that whoever holds the lock gets on. Lanes
whose loop has a YIELD are not waited for then.
"""

from sim.isa import state
from sim.nv.sass import frame


def _word(name: str, word: int) -> str:
    return f"""
  %{name}p = getelementptr i8, ptr %w, i64 {4 * word}
  %{name} = load i32, ptr %{name}p"""


_MINIMUM = "call i32 @llvm.vector.reduce.smin.v32i32(<32 x i32>"

DISPATCHER = f"""
define internal i32 @dispatch(ptr %t, ptr %w) #0 {{
entry:{_word("live", frame.LIVE)}{_word("blocked", frame.BLOCKED)}{_word("rotate", frame.ROTATE)}
{_word("leader", frame.LEADER)}{_word("yielded", frame.YIELDED)}
  %activep = getelementptr i8, ptr %w, i64 {4 * frame.ACTIVE}
  %limitp = getelementptr i8, ptr %w, i64 {4 * frame.LIMIT}
  %rowp = getelementptr i8, ptr %w, i64 {frame.row_offset(frame.PLACES)}
  %places = load <32 x i32>, ptr %rowp, align 64
  %open = xor i32 %blocked, -1
  %free = and i32 %live, %open
  %stuck = icmp eq i32 %free, 0
  %able = select i1 %stuck, i32 %live, i32 %free
  %ablev = bitcast i32 %able to <32 x i1>
  %ranked = select <32 x i1> %ablev, <32 x i32> %places, <32 x i32> splat (i32 {frame.NEVER})
  %lowest = {_MINIMUM} %ranked)
  %turns = icmp ne i32 %rotate, 0
  br i1 %turns, label %other, label %choose
other:                                    ; the first lane behind the last leader, at another place
  %last = load i32, ptr %activep
  %notlast = xor i32 %last, -1
  %gaveway = icmp ne i32 %yielded, 0
  %any = select i1 %gaveway, i32 %live, i32 %able
  store i32 0, ptr %yieldedp
  %others = and i32 %any, %notlast
  %none = icmp eq i32 %others, 0
  %pool = select i1 %none, i32 %any, i32 %others
  %next = add i32 %leader, 1
  %shift = and i32 %next, 31
  %turned = call i32 @llvm.fshr.i32(i32 %pool, i32 %pool, i32 %shift)
  %zeros = call i32 @llvm.cttz.i32(i32 %turned, i1 true)
  %sum = add i32 %zeros, %shift
  %who = and i32 %sum, 31
  store i32 %who, ptr %leaderp
  store i32 0, ptr %rotatep
  %itsp = getelementptr i32, ptr %rowp, i32 %who
  %its = load i32, ptr %itsp
  br label %choose
choose:
  %place = phi i32 [ %lowest, %entry ], [ %its, %other ]
  %from = phi i32 [ %able, %entry ], [ %any, %other ]
  %first = insertelement <32 x i32> poison, i32 %place, i64 0
  %placev = shufflevector <32 x i32> %first, <32 x i32> poison, <32 x i32> zeroinitializer
  %herev = icmp eq <32 x i32> %places, %placev
  %here = bitcast <32 x i1> %herev to i32
  %group = and i32 %here, %from
  %apart = xor i32 %group, -1
  %kept = and i32 %blocked, %apart
  store i32 %kept, ptr %blockedp
  store i32 %group, ptr %activep
  %waiting = and i32 %free, %apart
  %waitingv = bitcast i32 %waiting to <32 x i1>
  %rest = select <32 x i1> %waitingv, <32 x i32> %places, <32 x i32> splat (i32 {frame.NEVER})
  %nearest = {_MINIMUM} %rest)
  %limit = select i1 %turns, i32 {frame.NEVER}, i32 %nearest
  store i32 %limit, ptr %limitp
  ret i32 %place
}}

; Whether the lanes `need` have all come to a convergence point; if so they run, else they wait.
define internal i1 @arrive(ptr %t, ptr %w, i32 %need, i32 %after) #0 {{
entry:{_word("live", frame.LIVE)}{_word("blocked", frame.BLOCKED)}{_word("active", frame.ACTIVE)}
  %rowp = getelementptr i8, ptr %w, i64 {frame.row_offset(frame.PLACES)}
  %places = load <32 x i32>, ptr %rowp, align 64
  %first = insertelement <32 x i32> poison, i32 %after, i64 0
  %afterv = shufflevector <32 x i32> %first, <32 x i32> poison, <32 x i32> zeroinitializer
  %herev = icmp eq <32 x i32> %places, %afterv
  %here = bitcast <32 x i1> %herev to i32
  %waits = and i32 %here, %blocked
  %come = or i32 %waits, %active
  %wanted = and i32 %need, %live
  %missing0 = xor i32 %come, -1
  %missing = and i32 %wanted, %missing0
  %all = icmp eq i32 %missing, 0
  br i1 %all, label %go, label %wait
go:
  store i32 %come, ptr %activep
  %gone = xor i32 %come, -1
  %left = and i32 %blocked, %gone
  store i32 %left, ptr %blockedp
  ret i1 true
wait:
  %more = or i32 %blocked, %active
  store i32 %more, ptr %blockedp
  %activev = bitcast i32 %active to <32 x i1>
  %moved = select <32 x i1> %activev, <32 x i32> %afterv, <32 x i32> %places
  store <32 x i32> %moved, ptr %rowp, align 64
  ret i1 false
}}
declare i32 @llvm.vector.reduce.smin.v32i32(<32 x i32>)
declare i32 @llvm.fshr.i32(i32, i32, i32)
"""


# i64 reduction(thread, warp): over the warps of the block that were at the warp's last BAR.RED, the
# lanes where its predicate held, and (high half) the lanes that took part. Another warp may be
# one BAR.RED ahead, or have ended since.
REDUCTION = f"""
define internal i64 @reduction(ptr %t, ptr %w) #0 {{
entry:
  %formp = getelementptr i8, ptr %w, i64 {4 * frame.REDUCTION_FORM}
  %form = load i32, ptr %formp
  %number = lshr i32 %form, 1
  %turn = and i32 %number, 1
  %turn64 = zext i32 %turn to i64
  %l = load ptr, ptr %t
  %countp = getelementptr i8, ptr %l, i64 {state.WAVES}
  %count = load i64, ptr %countp
  %stridep = getelementptr i8, ptr %l, i64 {state.WAVE_STRIDE}
  %stride = load i64, ptr %stridep
  %firstp = getelementptr i8, ptr %t, i64 {state.WAVES_AT}
  %first = load ptr, ptr %firstp
  br label %warp
warp:
  %i = phi i64 [ 0, %entry ], [ %next, %done ]
  %sum = phi i64 [ 0, %entry ], [ %total, %done ]
  %at = mul i64 %i, %stride
  %other = getelementptr i8, ptr %first, i64 %at
  %otherp = getelementptr i8, ptr %other, i64 {4 * frame.REDUCTION_FORM}
  %otherform = load i32, ptr %otherp
  %othernumber = lshr i32 %otherform, 1
  %skip = icmp ult i32 %othernumber, %number
  br i1 %skip, label %done, label %add
add:
  %words = getelementptr i32, ptr %other, i64 %turn64
  %yesp = getelementptr i8, ptr %words, i64 {4 * frame.REDUCTION}
  %yes = load i32, ptr %yesp
  %lanesp = getelementptr i8, ptr %words, i64 {4 * frame.REDUCTION_LANES}
  %lanes = load i32, ptr %lanesp
  %a = call i32 @llvm.ctpop.i32(i32 %yes)
  %b = call i32 @llvm.ctpop.i32(i32 %lanes)
  %a64 = zext i32 %a to i64
  %b64 = zext i32 %b to i64
  %up = shl i64 %b64, 32
  %both = or i64 %up, %a64
  %more = add i64 %sum, %both
  br label %done
done:
  %total = phi i64 [ %sum, %warp ], [ %more, %add ]
  %next = add i64 %i, 1
  %again = icmp ult i64 %next, %count
  br i1 %again, label %warp, label %out
out:
  ret i64 %total
}}
"""
