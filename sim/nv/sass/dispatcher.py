"""LLVM text of how the lanes of a warp that stand apart wait, meet, and take turns.

`i32 dispatch(thread, warp)` picks the lanes at the lowest place among those that do not wait
at a convergence point, and returns that place; STUCK if all wait for ever. After a turn that did
not end (a loop around a lock), the choice goes to other lanes, so that whoever holds the lock
gets on. Lanes whose loop has a YIELD are not waited for at a BSYNC then.

`i1 meet(thread, warp, key, after, sync)`: the lanes that run have come to a convergence point,
with the lanes that each waits for in WANTED. Whoever they complete goes on: true if that is the
lanes that run now, false if dispatch has to find out. Lanes that end or leave a barrier
complete others' waits too; dispatch sees to that.
"""

from sim.isa import state
from sim.isa.native import FUNCTION_AT
from sim.nv.sass import frame


def _word(name: str, word: int) -> str:
    return f"""
  %{name}p = getelementptr i8, ptr %w, i64 {4 * word}
  %{name} = load i32, ptr %{name}p"""


def _row(name: str, row: int) -> str:
    return f"""
  %{name}p = getelementptr i8, ptr %w, i64 {frame.row_offset(row)}
  %{name} = load <32 x i32>, ptr %{name}p, align 64"""


def _spread(name: str, value: str) -> str:
    return f"""
  %{name}1 = insertelement <32 x i32> poison, i32 {value}, i64 0
  %{name} = shufflevector <32 x i32> %{name}1, <32 x i32> poison, <32 x i32> zeroinitializer"""


_MINIMUM = "call i32 @llvm.vector.reduce.smin.v32i32(<32 x i32>"

_DISPATCH = f"""
define internal i32 @dispatch(ptr %t, ptr %w) #0 {{
entry:
  br label %again
again:{_word("live", frame.LIVE)}{_word("blocked", frame.BLOCKED)}{_word("rotate", frame.ROTATE)}
{_word("leader", frame.LEADER)}{_word("yielded", frame.YIELDED)}
{_word("exclusive", frame.EXCLUSIVE)}{_word("syncing", frame.SYNCING)}{_row("places", frame.PLACES)}
  %activep = getelementptr i8, ptr %w, i64 {4 * frame.ACTIVE}
  %limitp = getelementptr i8, ptr %w, i64 {4 * frame.LIMIT}
  %open = xor i32 %blocked, -1
  %free = and i32 %live, %open
  %first = and i32 %free, %exclusive
  %isfirst = icmp ne i32 %first, 0
  %still = select i1 %isfirst, i32 %exclusive, i32 0
  store i32 %still, ptr %exclusivep
  %able = select i1 %isfirst, i32 %first, i32 %free
  %turns = icmp ne i32 %rotate, 0
  %nobody = icmp eq i32 %able, 0
  %notfirst = xor i1 %isfirst, true
  %lookround = and i1 %turns, %notfirst
  %look = or i1 %nobody, %lookround
  br i1 %look, label %waits, label %pick
waits:                                    ; does somebody wait for lanes that are gone?
  %waiting0 = and i32 %live, %blocked
  %group0 = call i32 @complete(ptr %w, i32 %waiting0)
  %freed = icmp ne i32 %group0, 0
  br i1 %freed, label %free0, label %others
free0:
  call void @release(ptr %w, i32 %group0)
  br label %again
others:
  %gaveway = icmp ne i32 %yielded, 0
  %notheld = xor i32 %syncing, -1
  %loose0 = and i32 %live, %notheld
  %isloose = icmp ne i32 %loose0, 0
  %mayturn = and i1 %isloose, %turns
  %gives = and i1 %gaveway, %mayturn
  %stays = xor i1 %gives, true
  %stuck = and i1 %nobody, %stays
  br i1 %stuck, label %never, label %pick
never:
  %livev = bitcast i32 %live to <32 x i1>
  %alls = select <32 x i1> %livev, <32 x i32> %places, <32 x i32> splat (i32 {frame.NEVER})
  %where = {_MINIMUM} %alls)
  store i32 %where, ptr %leaderp
  ret i32 {frame.STUCK}
pick:
  %ablev = bitcast i32 %able to <32 x i1>
  %ranked = select <32 x i1> %ablev, <32 x i32> %places, <32 x i32> splat (i32 {frame.NEVER})
  %lowest = {_MINIMUM} %ranked)
  br i1 %turns, label %other, label %choose
other:                                    ; the first lane behind the last leader, at another place
  %last = load i32, ptr %activep
  %notlast = xor i32 %last, -1
  %gave = icmp ne i32 %yielded, 0
  %held = xor i32 %syncing, -1
  %loose = and i32 %live, %held
  %all = select i1 %isfirst, i32 %able, i32 %loose
  %any = select i1 %gave, i32 %all, i32 %able
  store i32 0, ptr %yieldedp
  %rest0 = and i32 %any, %notlast
  %none = icmp eq i32 %rest0, 0
  %pool = select i1 %none, i32 %any, i32 %rest0
  %next = add i32 %leader, 1
  %shift = and i32 %next, 31
  %turned = call i32 @llvm.fshr.i32(i32 %pool, i32 %pool, i32 %shift)
  %zeros = call i32 @llvm.cttz.i32(i32 %turned, i1 true)
  %sum = add i32 %zeros, %shift
  %who = and i32 %sum, 31
  store i32 %who, ptr %leaderp
  store i32 0, ptr %rotatep
  %itsp = getelementptr i32, ptr %placesp, i32 %who
  %its = load i32, ptr %itsp
  br label %choose
choose:
  %place = phi i32 [ %lowest, %pick ], [ %its, %other ]
  %from = phi i32 [ %able, %pick ], [ %any, %other ]{_spread("placev", "%place")}
  %herev = icmp eq <32 x i32> %places, %placev
  %here = bitcast <32 x i1> %herev to i32
  %group = and i32 %here, %from
  %apart = xor i32 %group, -1
  %kept = and i32 %blocked, %apart
  store i32 %kept, ptr %blockedp
  store i32 %group, ptr %activep
  %waiting = and i32 %able, %apart
  %waitingv = bitcast i32 %waiting to <32 x i1>
  %rest = select <32 x i1> %waitingv, <32 x i32> %places, <32 x i32> splat (i32 {frame.NEVER})
  %nearest = {_MINIMUM} %rest)
  %limit = select i1 %turns, i32 {frame.NEVER}, i32 %nearest
  store i32 %limit, ptr %limitp
  ret i32 %place
}}
"""

_MEET = f"""
define internal i1 @meet(ptr %t, ptr %w, i32 %key, i32 %after, i32 %sync) #0 {{
entry:{_word("blocked", frame.BLOCKED)}{_word("syncing", frame.SYNCING)}
{_word("active", frame.ACTIVE)}{_row("places", frame.PLACES)}{_row("keys", frame.KEYS_OF_WAITS)}
  %exclusivep = getelementptr i8, ptr %w, i64 {4 * frame.EXCLUSIVE}
  store i32 0, ptr %exclusivep{_spread("afterv", "%after")}{_spread("keyv", "%key")}
  %activev = bitcast i32 %active to <32 x i1>
  %moved = select <32 x i1> %activev, <32 x i32> %afterv, <32 x i32> %places
  store <32 x i32> %moved, ptr %placesp, align 64
  %named = select <32 x i1> %activev, <32 x i32> %keyv, <32 x i32> %keys
  store <32 x i32> %named, ptr %keysp, align 64
  %more = or i32 %blocked, %active
  store i32 %more, ptr %blockedp
  %syncs = and i32 %active, %sync
  %moresyncs = or i32 %syncing, %syncs
  store i32 %moresyncs, ptr %syncingp
  %kind = add i32 %key, 1
  %kindbit = and i32 %kind, 2
  %alone0 = and i32 %kindbit, %sync
  %alone = icmp ne i32 %alone0, 0
  br label %look
look:
  %pending = phi i32 [ %active, %entry ], [ %left, %some ]
  %come = phi i32 [ 0, %entry ], [ %come1, %some ]
  %group = call i32 @complete(ptr %w, i32 %pending)
  %none = icmp eq i32 %group, 0
  br i1 %none, label %over, label %some
some:
  call void @release(ptr %w, i32 %group)
  %come1 = or i32 %come, %group
  %notgroup = xor i32 %group, -1
  %left = and i32 %pending, %notgroup
  %noneleft = icmp eq i32 %left, 0
  %stop = or i1 %noneleft, %alone
  br i1 %stop, label %over, label %look
over:
  %all = phi i32 [ %come, %look ], [ %come1, %some ]
  %herev = icmp eq <32 x i32> %moved, %afterv
  %here = bitcast <32 x i1> %herev to i32
  %away = xor i32 %here, -1
  %elsewhere = and i32 %all, %away
  %together = icmp eq i32 %elsewhere, 0
  %anybody = icmp ne i32 %all, 0
  %notalone = xor i1 %alone, true
  %a = and i1 %together, %anybody
  %go = and i1 %a, %notalone
  br i1 %go, label %on, label %off
on:
  store i32 %all, ptr %activep
  ret i1 true
off:
  ret i1 false
}}
"""

# i32 complete(warp, candidates): the first group of waiting lanes, one of the candidates among
# them, of whom nobody is missing; 0 if there is none.
_COMPLETE = f"""
define internal i32 @complete(ptr %w, i32 %candidates) #0 {{
entry:{_word("live", frame.LIVE)}{_word("blocked", frame.BLOCKED)}
{_row("wanted", frame.WANTED)}{_row("keys", frame.KEYS_OF_WAITS)}
  br label %look
look:
  %pending = phi i32 [ %candidates, %entry ], [ %left, %no ]
  %none = icmp eq i32 %pending, 0
  br i1 %none, label %nothing, label %lane
lane:
  %number = call i32 @llvm.cttz.i32(i32 %pending, i1 true)
  %maskp = getelementptr i32, ptr %wantedp, i32 %number
  %mask = load i32, ptr %maskp
  %keyp = getelementptr i32, ptr %keysp, i32 %number
  %key = load i32, ptr %keyp{_spread("maskv", "%mask")}{_spread("keyv", "%key")}
  %samemask = icmp eq <32 x i32> %wanted, %maskv
  %samekey = icmp eq <32 x i32> %keys, %keyv
  %samev = and <32 x i1> %samemask, %samekey
  %same0 = bitcast <32 x i1> %samev to i32
  %same = and i32 %same0, %blocked
  %notsame = xor i32 %same, -1
  %needed = and i32 %mask, %live
  %missing = and i32 %needed, %notsame
  %all = icmp eq i32 %missing, 0
  br i1 %all, label %yes, label %no
no:
  %bit = shl i32 1, %number
  %seen = or i32 %same, %bit
  %notseen = xor i32 %seen, -1
  %left = and i32 %pending, %notseen
  br label %look
yes:
  ret i32 %same
nothing:
  ret i32 0
}}

; A group goes on: at one place and before others if its key says so.
define internal void @release(ptr %w, i32 %group) #0 {{
entry:{_word("live", frame.LIVE)}{_word("blocked", frame.BLOCKED)}
{_word("syncing", frame.SYNCING)}
  %number = call i32 @llvm.cttz.i32(i32 %group, i1 true)
  %keysp = getelementptr i8, ptr %w, i64 {frame.row_offset(frame.KEYS_OF_WAITS)}
  %keyp = getelementptr i32, ptr %keysp, i32 %number
  %key = load i32, ptr %keyp
  %not = xor i32 %group, -1
  %left = and i32 %blocked, %not
  store i32 %left, ptr %blockedp
  %leftsyncs = and i32 %syncing, %not
  store i32 %leftsyncs, ptr %syncingp
  %sync0 = lshr i32 %syncing, %number
  %sync = and i32 %sync0, 1
  %kind0 = add i32 %key, 1
  %kind1 = lshr i32 %kind0, 1
  %kind = and i32 %kind1, %sync
  %first = icmp ne i32 %kind, 0
  br i1 %first, label %alone, label %out
alone:{_row("places", frame.PLACES)}
  %exclusivep = getelementptr i8, ptr %w, i64 {4 * frame.EXCLUSIVE}
  %whole = icmp eq i32 %group, %live
  %others = select i1 %whole, i32 0, i32 %group
  store i32 %others, ptr %exclusivep
  %placep = getelementptr i32, ptr %placesp, i32 %number
  %place = load i32, ptr %placep{_spread("placev", "%place")}
  %groupv = bitcast i32 %group to <32 x i1>
  %moved = select <32 x i1> %groupv, <32 x i32> %placev, <32 x i32> %places
  store <32 x i32> %moved, ptr %placesp, align 64
  br label %out
out:
  ret void
}}

; Nobody who waits at a BSYNC with this barrier's number waits for the lanes `gone` any more.
define internal void @leave(ptr %w, i32 %barrier, i32 %gone) #0 {{
entry:{_word("blocked", frame.BLOCKED)}{_word("syncing", frame.SYNCING)}
{_row("wanted", frame.WANTED)}{_row("keys", frame.KEYS_OF_WAITS)}
  %notsyncing = xor i32 %syncing, -1
  %here = and i32 %blocked, %notsyncing
  %herev = bitcast i32 %here to <32 x i1>
  %numbers = and <32 x i32> %keys, splat (i32 15){_spread("barrierv", "%barrier")}
  %same = icmp eq <32 x i32> %numbers, %barrierv
  %which = and <32 x i1> %same, %herev
  %not = xor i32 %gone, -1{_spread("notv", "%not")}
  %less = and <32 x i32> %wanted, %notv
  %new = select <32 x i1> %which, <32 x i32> %less, <32 x i32> %wanted
  store <32 x i32> %new, ptr %wantedp, align 64
  ret void
}}
declare i32 @llvm.vector.reduce.smin.v32i32(<32 x i32>)
declare i32 @llvm.fshr.i32(i32, i32, i32)
"""

# What a warp does whose lanes wait for ever; LEADER is the lowest place where one does.
STUCK_LINES = f"""{_word("waits", frame.LEADER)}
  %halved = ashr i32 %waits, 1            ; as frame.fault_place
  %faultpp = getelementptr i8, ptr %t, i64 {FUNCTION_AT["FAULT"]}
  %faultp = load ptr, ptr %faultpp
  call void %faultp(ptr %t, i64 {state.FAULT_STUCK}, i64 0, i64 0, i32 %halved)
  ret i32 {state.ENDED}"""

DISPATCHER = _DISPATCH + _MEET + _COMPLETE
