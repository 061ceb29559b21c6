"""LLVM text of address functions: an instruction's registers -> one address per lane.

Each takes (thread, vector register, base, lanes, element size) and leaves the
addresses in the thread record; it returns the lanes that take part. Around them
stand the functions that kernels call, one per address kind, action and width.

Source: AMD "RDNA3" Instruction Set Architecture, chapter 11 (flat, global, scratch)
and chapter 12 (data share); LLVM AMDGPUUsage (apertures, swizzled scratch).
"""

from __future__ import annotations

from collections.abc import Callable

from sim.isa import state
from sim.isa.native_fast import FAST_KINDS, fast_row, many_names

KINDS = ("global", "saddr", "lds", "scratch", "flat")
WIDTHS = (8, 16, 32, 64, 96, 128)
ACTIONS = ("load", "store")
BYTE = 8  # bits of what lies anywhere
SCALAR_COUNTS = (1, 2, 4, 8, 16)


def names() -> list[str]:
    """Functions kernels call, in the order of the thread record's function table."""
    moves = [f"{k}_{a}_{b}" for k in KINDS for a in ACTIONS for b in WIDTHS]
    scalars = [f"scalar_load_{words}" for words in SCALAR_COUNTS]
    addresses = [f"{kind}_address" for kind in KINDS]
    return [*moves, *addresses, *scalars, *many_names(), "CHECK", "FAULT"]


def address_functions(width: int, strict: bool = False) -> str:
    """The five address functions."""
    w, mask = width, f"i{width}"
    head = f"(ptr %t, ptr %reg, i64 %base, {mask} %mask, i64 %size) #0 {{"
    long, short = f"<{w} x i64>", f"<{w} x i32>"
    splat = _splat(w)
    first = f"""
  %ap = getelementptr i8, ptr %t, i64 {state.ADDRESSES}
  %lo = load {short}, ptr %reg, align 64
  %lo64 = zext {short} %lo to {long}"""
    pair = f"""{first}
  %hip = getelementptr i8, ptr %reg, i64 {4 * w}
  %hi = load {short}, ptr %hip, align 64
  %hi64 = zext {short} %hi to {long}
  %up = shl {long} %hi64, splat (i64 32)
  %address = or {long} %up, %lo64"""
    keep = f"""
  store {long} %result, ptr %ap, align 64"""
    return f"""
define {mask} @global_address{head}{pair}{splat("base")}
  %result = add {long} %address, %basev{keep}
  ret {mask} %mask
}}
define {mask} @saddr_address{head}{first}{splat("base")}
  %result = add {long} %lo64, %basev{keep}
  ret {mask} %mask
}}
define {mask} @lds_address{head}{first}{splat("base")}
  %linear = add {long} %lo64, %basev
  %offset = and {long} %linear, splat (i64 4294967295){_lds_bound(w)}{keep}
  %active = and {mask} %mask, %insidem
  ret {mask} %active
}}
define {mask} @scratch_address{head}
entry:
  %ap = getelementptr i8, ptr %t, i64 {state.ADDRESSES}
  %null = icmp eq ptr %reg, null
  br i1 %null, label %join, label %vector
vector:
  %lo = load {short}, ptr %reg, align 64
  %lo64 = zext {short} %lo to {long}
  br label %join
join:
  %part = phi {long} [ zeroinitializer, %entry ], [ %lo64, %vector ]{splat("base")}
  %offset = add {long} %part, %basev{_private_bound(w) if strict else ""}{_swizzle(w)}
  %result = add {long} %swizzled, zeroinitializer{keep}
  ret {mask} {"%kept" if strict else "%mask"}
}}
define {mask} @flat_address{head}{pair}{splat("base")}
  %linear = add {long} %address, %basev
  %top = lshr {long} %linear, splat (i64 32)
  %sap = getelementptr i8, ptr %t, i64 {state.SHARED_APERTURE}
  %sa = load i64, ptr %sap{splat("sa")}
  %isl = icmp eq {long} %top, %sav
  %pap = getelementptr i8, ptr %t, i64 {state.PRIVATE_APERTURE}
  %pa = load i64, ptr %pap{splat("pa")}
  %isp = icmp eq {long} %top, %pav
  %offset = and {long} %linear, splat (i64 4294967295){_lds_bound(w, "ldsplace")}{_swizzle(w)}
  %one = select <{w} x i1> %isl, {long} %ldsplace, {long} %linear
  %result = select <{w} x i1> %isp, {long} %swizzled, {long} %one{keep}
  %pm = bitcast <{w} x i1> %isp to {mask}
  %pp = getelementptr i8, ptr %t, i64 {state.STAGING}
  store {mask} %pm, ptr %pp
  %lm = bitcast <{w} x i1> %isl to {mask}
  %notlds = xor {mask} %lm, -1
  %fine = or {mask} %notlds, %insidem
  %active = and {mask} %mask, %fine
  ret {mask} %active
}}
"""


def move_functions(width: int, strict: bool = False) -> str:
    """What kernels call: (thread, register, base, lanes, data registers, pc)."""
    parts = [_move(width, kind, action, bits, strict)
             for kind in KINDS for action in ACTIONS for bits in WIDTHS]
    return "\n".join(parts + [_scalar_load(words) for words in SCALAR_COUNTS])


def _move(w: int, kind: str, action: str, bits: int, strict: bool) -> str:
    mask = f"i{w}"
    parameters = f"ptr %t, ptr %reg, i64 %base, {mask} %mask, ptr %data, i32 %pc"
    arguments = f"ptr %t, ptr %reg, i64 %base, {mask} %mask, i64 {bits // 8}"
    name, before = f"{kind}_{action}_{bits}", ""
    if kind in FAST_KINDS and bits >= 32:
        # On its own, so that it needs no stack frame.
        before = f"""
define void @{name}({parameters}) #0 {{
entry:{fast_row(w, kind, action, bits, strict)}
general:
  tail call void @any_{name}({parameters})
  ret void
}}"""
        name = f"any_{name}"
    text = f"""{before}
define void @{name}({parameters}) #0 {{
entry:
  %active = call {mask} @{kind}_address({arguments})"""
    if kind in ("lds", "flat"):
        text += _fault_outside(w, action)
    if kind == "scratch" and strict:
        text += _fault_private(w, action)
        if bits > BYTE:
            text += _fault_misaligned(w, action, bits // 8)
    if kind in ("lds", "flat") and action == "load":
        text += _zero_outside(w, max(1, bits // 32))
    words = bits // 32
    whole = f"""
  call void @{action}_{bits}(ptr %t, {mask} %active, ptr %data, i32 %pc)
  ret void
}}"""
    if words <= 1 or kind not in ("scratch", "flat"):
        return text + whole
    pieces = _by_words(w, action, words, "private" if kind == "flat" else "all")
    if kind == "scratch":
        return text + pieces
    return f"""{text}
  %pp = getelementptr i8, ptr %t, i64 {state.STAGING}
  %pm = load {mask}, ptr %pp
  %pa = and {mask} %pm, %active
  %plain = icmp eq {mask} %pa, 0
  br i1 %plain, label %whole, label %pieces
pieces:{pieces[:-2]}
whole:{whole}"""


def _by_words(w: int, action: str, words: int, which: str) -> str:
    """A wide access one register at a time: in scratch a lane's words are not neighbours."""
    long = f"<{w} x i64>"
    text = f"""
  %ap = getelementptr i8, ptr %t, i64 {state.ADDRESSES}
  %start = load {long}, ptr %ap, align 64"""
    if which == "private":
        text += f"""
  %pv = bitcast i{w} %pm to <{w} x i1>
  %step = select <{w} x i1> %pv, {long} splat (i64 {4 * w}), {long} splat (i64 4)"""
    else:
        text += f"""
  %step = add {long} zeroinitializer, splat (i64 {4 * w})"""
    for word in range(words):
        text += f"""
  %far{word} = mul {long} %step, splat (i64 {word})
  %place{word} = add {long} %start, %far{word}
  store {long} %place{word}, ptr %ap, align 64
  %data{word} = getelementptr i8, ptr %data, i64 {4 * w * word}
  call void @{action}_32(ptr %t, i{w} %active, ptr %data{word}, i32 %pc)"""
    return text + "\n  ret void\n}"


def _fault_outside(w: int, action: str) -> str:
    """Where LDS is strict, the first lane beyond its end is a fault at its offset."""
    access = state.READ if action == "load" else state.WRITE
    return f"""
  %outside = xor i{w} %active, %mask
  %sp = getelementptr i8, ptr %t, i64 {state.STRICT_LDS}
  %strict = load i64, ptr %sp
  %lenient = icmp eq i64 %strict, 0
  %none = icmp eq i{w} %outside, 0
  %fine = or i1 %lenient, %none
  br i1 %fine, label %inside, label %beyond
beyond:
  %bw = call i{w} @llvm.cttz.i{w}(i{w} %outside, i1 true)
  %bp0 = getelementptr i8, ptr %t, i64 {state.ADDRESSES}
  %bp = getelementptr i64, ptr %bp0, i{w} %bw
  %ba = load i64, ptr %bp
  %blp = getelementptr i8, ptr %t, i64 {state.LDS}
  %bl = load i64, ptr %blp
  %bo = sub i64 %ba, %bl
  call void @FAULT(ptr %t, i64 {state.FAULT_LDS}, i64 %bo, i64 {access}, i32 %pc)
  br label %inside
inside:"""


def _private_bound(w: int) -> str:
    """%kept: the lanes whose %offset lies in their scratch; all offsets stay in staging."""
    splat = _splat(w)
    return f"""
  %stp = getelementptr i8, ptr %t, i64 {state.STAGING}
  store <{w} x i64> %offset, ptr %stp, align 64
  %psp = getelementptr i8, ptr %t, i64 {state.PRIVATE_START}
  %ps = load i64, ptr %psp{splat("ps")}
  %pep = getelementptr i8, ptr %t, i64 {state.PRIVATE_END}
  %pe = load i64, ptr %pep
  %pl = sub i64 %pe, %size{splat("pl")}
  %pge = icmp uge <{w} x i64> %offset, %psv
  %ple = icmp ule <{w} x i64> %offset, %plv
  %pin = and <{w} x i1> %pge, %ple
  %pm = bitcast <{w} x i1> %pin to i{w}
  %kept = and i{w} %mask, %pm"""


def _fault_private(w: int, action: str) -> str:
    """The first lane outside its scratch is a fault at its offset."""
    access = state.READ if action == "load" else state.WRITE
    return f"""
  %outside = xor i{w} %active, %mask
  %within = icmp eq i{w} %outside, 0
  br i1 %within, label %inside, label %beyond
beyond:
  %bw = call i{w} @llvm.cttz.i{w}(i{w} %outside, i1 true)
  %bs = getelementptr i8, ptr %t, i64 {state.STAGING}
  %bp = getelementptr i64, ptr %bs, i{w} %bw
  %bo = load i64, ptr %bp
  call void @FAULT(ptr %t, i64 {state.FAULT_PRIVATE}, i64 %bo, i64 {access}, i32 %pc)
  br label %inside
inside:"""


def _fault_misaligned(w: int, action: str, size: int) -> str:
    """The first lane whose offset in its scratch is no multiple of the size is a fault there."""
    access = state.READ if action == "load" else state.WRITE
    return f"""
  %ms = getelementptr i8, ptr %t, i64 {state.STAGING}
  %mv = load <{w} x i64>, ptr %ms, align 64
  %mlow = and <{w} x i64> %mv, splat (i64 {size - 1})
  %mne = icmp ne <{w} x i64> %mlow, zeroinitializer
  %mbits = bitcast <{w} x i1> %mne to i{w}
  %modd = and i{w} %mbits, %active
  %meven = icmp eq i{w} %modd, 0
  br i1 %meven, label %aligned, label %misaligned
misaligned:
  %mw = call i{w} @llvm.cttz.i{w}(i{w} %modd, i1 true)
  %mp = getelementptr i64, ptr %ms, i{w} %mw
  %mo = load i64, ptr %mp
  call void @FAULT(ptr %t, i64 {state.FAULT_MISALIGNED}, i64 %mo, i64 {access}, i32 %pc)
  ret void
aligned:"""


def _zero_outside(w: int, words: int) -> str:
    """Lanes beyond the end of LDS read 0."""
    text = f"""
  %allin = icmp eq i{w} %outside, 0
  br i1 %allin, label %go, label %zero
zero:
  %ov = bitcast i{w} %outside to <{w} x i1>"""
    store = f"call void @llvm.masked.store.v{w}i32.p0(<{w} x i32> zeroinitializer"
    for word in range(words):
        text += f"""
  %zp{word} = getelementptr i8, ptr %data, i64 {4 * w * word}
  {store}, ptr align 64 %zp{word}, <{w} x i1> %ov)"""
    return text + "\n  br label %go\ngo:"


def _splat(w: int) -> Callable[[str], str]:
    """A function that writes %namev, the vector of %name."""

    def text(name: str) -> str:
        return f"""
  %{name}f = insertelement <{w} x i64> poison, i64 %{name}, i64 0
  %{name}v = shufflevector <{w} x i64> %{name}f, <{w} x i64> poison, <{w} x i32> zeroinitializer"""

    return text


def _lds_bound(w: int, result: str = "result") -> str:
    """%offset -> host address in LDS, and %insidem: lanes wholly inside."""
    splat = _splat(w)
    return f"""
  %ldsp = getelementptr i8, ptr %t, i64 {state.LDS}
  %lds = load i64, ptr %ldsp{splat("lds")}
  %{result} = add <{w} x i64> %offset, %ldsv
  %lsp = getelementptr i8, ptr %t, i64 {state.LDS_SIZE}
  %ls = load i64, ptr %lsp{splat("ls")}{splat("size")}
  %oend = add <{w} x i64> %offset, %sizev
  %inside = icmp ule <{w} x i64> %oend, %lsv
  %insidem = bitcast <{w} x i1> %inside to i{w}"""


def _swizzle(w: int) -> str:
    """%offset in a lane's scratch -> address: words of neighbouring lanes are neighbours."""
    lanes = ", ".join(f"i64 {4 * lane}" for lane in range(w))
    splat = _splat(w)
    return f"""
  %wp = getelementptr i8, ptr %t, i64 {state.SCRATCH_AT}
  %ws = load i64, ptr %wp{splat("ws")}
  %words = and <{w} x i64> %offset, splat (i64 -4)
  %rows = mul <{w} x i64> %words, splat (i64 {w})
  %byte = and <{w} x i64> %offset, splat (i64 3)
  %s1 = add <{w} x i64> %rows, %byte
  %s2 = add <{w} x i64> %s1, <{lanes}>
  %swizzled = add <{w} x i64> %s2, %wsv"""


def _scalar_load(words: int) -> str:
    """(thread, address, scalar registers, pc): consecutive words into consecutive registers."""
    row = f"<{words} x i32>"
    return f"""
define void @scalar_load_{words}(ptr %t, i64 %address, ptr %data, i32 %pc) #0 {{
entry:
  %a = and i64 %address, -4
  %end = add i64 %a, {4 * words}
  %ok = call i1 @OK(ptr %t, i64 %a, i64 %end, i64 {state.READ}, i32 %pc, i1 true)
  br i1 %ok, label %read, label %fail
read:
  %from = inttoptr i64 %a to ptr
  %got = load {row}, ptr %from, align 4
  store {row} %got, ptr %data, align 4
  ret void
fail:
  store {row} zeroinitializer, ptr %data, align 4
  ret void
}}
"""
