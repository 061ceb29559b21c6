"""LLVM text of the check before every access: may these bytes be read or written?

A check first looks at the range that the same instruction used last, then
searches the page table, in native memory too (sim/memory.py has its layout). A
refusal becomes the thread's fault: the first bad byte, the access, the place in
the code. Only the first fault of a thread is kept.
"""

from __future__ import annotations

from sim.isa import state

SEARCH_ARGUMENTS = (
    "ptr %t, i64 %start, i64 %end, i64 %access, ptr %slot, i32 %pc, i1 %report"
)

CHECK = f"""
; The slow half of a check: search the table, remember the range for this site.
define i1 @SEARCH({SEARCH_ARGUMENTS}) #0 {{
entry:
  %forward = icmp ult i64 %start, %end
  br i1 %forward, label %begun, label %bad0
begun:
  %ldsp = getelementptr i8, ptr %t, i64 {state.LDS}
  %lds = load i64, ptr %ldsp
  %lsp = getelementptr i8, ptr %t, i64 {state.LDS_SIZE}
  %ls = load i64, ptr %lsp
  %lend = add i64 %lds, %ls
  %l0 = icmp uge i64 %start, %lds
  %l1 = icmp ule i64 %end, %lend
  %l2 = and i1 %l0, %l1
  br i1 %l2, label %inlds, label %table
inlds:
  store i64 %lds, ptr %slot
  %slote0 = getelementptr i8, ptr %slot, i64 8
  store i64 %lend, ptr %slote0
  ret i1 true
table:
  %tpp = getelementptr i8, ptr %t, i64 {state.TABLE}
  %cell = load ptr, ptr %tpp
  %tab = load ptr, ptr %cell
  %count = load i64, ptr %tab
  %rows = getelementptr i8, ptr %tab, i64 16
  br label %bisect
bisect:
  %low = phi i64 [ 0, %table ], [ %low2, %step ]
  %high = phi i64 [ %count, %table ], [ %high2, %step ]
  %more = icmp ult i64 %low, %high
  br i1 %more, label %step, label %found
step:
  %sum = add i64 %low, %high
  %mid = lshr i64 %sum, 1
  %mo = mul i64 %mid, 24
  %mp = getelementptr i8, ptr %rows, i64 %mo
  %ms = load i64, ptr %mp
  %after = icmp ugt i64 %ms, %start
  %mid1 = add i64 %mid, 1
  %low2 = select i1 %after, i64 %low, i64 %mid1
  %high2 = select i1 %after, i64 %mid, i64 %high
  br label %bisect
found:
  %none = icmp eq i64 %low, 0
  br i1 %none, label %bad0, label %walk0
bad0:
  br label %bad
walk0:
  %index0 = sub i64 %low, 1
  br label %walk
walk:
  %index = phi i64 [ %index0, %walk0 ], [ %index1, %next ]
  %at = phi i64 [ %start, %walk0 ], [ %stop, %next ]
  %inside = icmp ult i64 %index, %count
  br i1 %inside, label %row, label %bad
row:
  %ro = mul i64 %index, 24
  %rp = getelementptr i8, ptr %rows, i64 %ro
  %begin = load i64, ptr %rp
  %ep = getelementptr i8, ptr %rp, i64 8
  %stop = load i64, ptr %ep
  %fp = getelementptr i8, ptr %rp, i64 16
  %flags = load i64, ptr %fp
  %c0 = icmp uge i64 %at, %begin
  %c1 = icmp ult i64 %at, %stop
  %fa = and i64 %flags, %access
  %c2 = icmp eq i64 %fa, %access
  %c01 = and i1 %c0, %c1
  %c = and i1 %c01, %c2
  br i1 %c, label %part, label %bad
part:
  %whole = icmp ule i64 %end, %stop
  br i1 %whole, label %good, label %next
next:
  %index1 = add i64 %index, 1
  br label %walk
good:
  %first = icmp eq i64 %at, %start
  br i1 %first, label %keep, label %yes
keep:
  store i64 %begin, ptr %slot
  %slote = getelementptr i8, ptr %slot, i64 8
  store i64 %stop, ptr %slote
  br label %yes
yes:
  ret i1 true
bad:
  %wrong = phi i64 [ %start, %bad0 ], [ %at, %walk ], [ %at, %row ]
  br i1 %report, label %tell, label %no
tell:
  call void @FAULT(ptr %t, i64 {state.FAULT_MEMORY}, i64 %wrong, i64 %access, i32 %pc)
  br label %no
no:
  ret i1 false
}}

; Remember the first fault, and make the wave yield at its next backward branch.
define void @FAULT(ptr %t, i64 %kind, i64 %address, i64 %access, i32 %pc) #0 {{
entry:
  %kp = getelementptr i8, ptr %t, i64 {state.FAULT}
  %old = load i64, ptr %kp
  %first = icmp eq i64 %old, 0
  br i1 %first, label %note, label %end
note:
  store i64 %kind, ptr %kp
  %ap = getelementptr i8, ptr %t, i64 {state.FAULT_ADDRESS}
  store i64 %address, ptr %ap
  %write = and i64 %access, {state.WRITE}
  %isw = icmp ne i64 %write, 0
  %kind1 = select i1 %isw, i64 {state.WRITE}, i64 %access
  %cp = getelementptr i8, ptr %t, i64 {state.FAULT_ACCESS}
  store i64 %kind1, ptr %cp
  %pp = getelementptr i8, ptr %t, i64 {state.FAULT_PC}
  %pc64 = zext i32 %pc to i64
  store i64 %pc64, ptr %pp
  %bp = getelementptr i8, ptr %t, i64 {state.BUDGET}
  store i64 0, ptr %bp
  br label %end
end:
  ret void
}}

; Whether [start, end) may be accessed so; `report` makes a refusal a fault.
define internal i1 @OK(ptr %t, i64 %start, i64 %end, i64 %access, i32 %pc, i1 %report) #1 {{
  %site = lshr i32 %pc, 2
  %index = and i32 %site, {state.RANGE_COUNT - 1}
  %i64 = zext i32 %index to i64
  %io = mul i64 %i64, 16
  %io2 = add i64 %io, {state.RANGES}
  %slot = getelementptr i8, ptr %t, i64 %io2
  %s = load i64, ptr %slot
  %ep = getelementptr i8, ptr %slot, i64 8
  %e = load i64, ptr %ep
  %a = icmp uge i64 %start, %s
  %b = icmp ule i64 %end, %e
  %c = icmp ult i64 %start, %end
  %ab = and i1 %a, %b
  %abc = and i1 %ab, %c
  br i1 %abc, label %fast, label %slow
fast:
  ret i1 true
slow:
  %found = call i1 @SEARCH({SEARCH_ARGUMENTS})
  ret i1 %found
}}

; The same for code outside this library.
define i1 @CHECK(ptr %t, i64 %start, i64 %end, i64 %access, i32 %pc) #0 {{
  %r = call i1 @OK(ptr %t, i64 %start, i64 %end, i64 %access, i32 %pc, i1 true)
  ret i1 %r
}}
"""
