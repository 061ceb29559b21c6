"""LLVM text of the commonest access, before anything general: all lanes active and in a row.

Works on the 32-bit registers as they are, without making 64-bit lane addresses.
Leaves to label %general whatever is not so simple; jumps to no other label.
"""

from __future__ import annotations

from sim.isa import state
from sim.isa.native_memory import Core

WAVES_AHEAD = 4  # how far ahead of a row memory is prefetched, in rows
ACTIONS = ("load", "store")
MANY_KINDS = ("global", "saddr")
FAST_KINDS = ("global", "saddr", "lds")


def fast_row(width: int, kind: str, action: str, bits: int, strict: bool = False) -> str:
    """Text from the entry of a move function to `br label %general`."""
    core = _FastCore(width, bits, action, strict)
    core.row(kind, f"{width * bits // 8}")
    core.branch("fast")
    core.prefetched_row(kind)
    return "\n" + "\n".join(core.out)


def many_functions(width: int, strict: bool = False) -> str:
    """Several rows with one look at the address register, for instructions in sequence.

    `many_KIND_ACTION_32(thread, register, base, lanes, data registers, pc, step, count)`: row i
    is at base + i * step, its data in register i, its instruction at pc + 8 * i.
    """
    return "\n".join(
        _many(width, kind, action, strict) for kind in MANY_KINDS for action in ACTIONS
    )


def many_names() -> list[str]:
    """The names of many_functions."""
    return [f"many_{kind}_{action}_32" for kind in MANY_KINDS for action in ACTIONS]


def _many(width: int, kind: str, action: str, strict: bool) -> str:
    core = _FastCore(width, 32, action, strict)
    mask = f"i{width}"
    core.row(kind, "%extent")
    core.branch("fast")
    core.rows()
    arguments = f"ptr %t, ptr %reg, i64 %gb, {mask} %mask, ptr %gd, i32 %gpc"
    body = "\n".join(core.out)
    return f"""
define void @many_{kind}_{action}_32(ptr %t, ptr %reg, i64 %base, {mask} %mask, ptr %data, i32 %pc,
    i64 %step, i64 %count) #0 {{
entry:
  %before = sub i64 %count, 1
  %reach = mul i64 %before, %step
  %extent = add i64 %reach, {4 * width}
{body}
general:
  %g = phi i64 [ 0, %entry ], [ %g1, %general ]
  %go = mul i64 %g, %step
  %gb = add i64 %base, %go
  %gr = mul i64 %g, {4 * width}
  %gd = getelementptr i8, ptr %data, i64 %gr
  %g32 = trunc i64 %g to i32
  %gp = mul i32 %g32, 8
  %gpc = add i32 %pc, %gp
  call void @any_{kind}_{action}_32({arguments})
  %g1 = add i64 %g, 1
  %gmore = icmp ult i64 %g1, %count
  br i1 %gmore, label %general, label %out
out:
  ret void
}}"""


class _FastCore(Core):
    """A core's way of moving a row, under other names."""

    def _name(self, text: str) -> str:
        self.count += 1
        self._put(f"  %f{self.count} = {text}")
        return f"%f{self.count}"

    def row(self, kind: str, extent: str) -> None:
        """%fgo: all lanes are active, in a row from %fstart, and `extent` bytes may be accessed."""
        w, size = self.width, self.size
        short = f"<{w} x i32>"
        steps = ", ".join(f"i32 {lane * size}" for lane in range(w))
        self._put(f"""  %flo = load {short}, ptr %reg, align 64
  %flo0 = load i32, ptr %reg, align 64
  %flof = insertelement {short} poison, i32 %flo0, i64 0
  %flov = shufflevector {short} %flof, {short} poison, <{w} x i32> zeroinitializer
  %fexpect = add {short} %flov, <{steps}>
  %frow = icmp eq {short} %flo, %fexpect
  %frowm = bitcast <{w} x i1> %frow to i{w}
  %flo64 = zext i32 %flo0 to i64
  %flast = add i64 %flo64, {w * size}
  %fhigh = lshr i64 %flast, 32
  %fnowrap = icmp eq i64 %fhigh, 0""")
        if kind == "global":
            self._same_high()
        else:
            self._put(f"  %fm = and i{w} %frowm, %mask\n  %fa = add i64 %flo64, %base")
        self._put(f"""  %fall = icmp eq i{w} %fm, -1
  %fsimple = and i1 %fall, %fnowrap
  %fe = add i64 %fa, {extent}""")
        if kind == "lds":
            self._inside_lds()
        else:
            self._put("  %fstart = add i64 %fa, 0")
            self._check_site()

    def branch(self, label: str) -> None:
        """To `label` if the access is simple."""
        simple = "%fgo"
        if self.strict:
            low = self._name(f"and i64 %fstart, {self.size - 1}")
            even = self._name(f"icmp eq i64 {low}, 0")
            simple = self._name(f"and i1 %fgo, {even}")
        self._branch(simple, label, "general")
        self._label(label)
        self._put("  %fp = inttoptr i64 %fstart to ptr")

    def prefetched_row(self, kind: str) -> None:
        """One row, to the end of the function."""
        if kind != "lds":
            self._prefetch("%fp")
        self._wide("%fp")
        self._put("  ret void")

    def rows(self) -> None:
        """%count rows, to the end of the function."""
        w = self.width
        column = f"<{w} x i32>"
        self._put(f"""  br label %rowloop
rowloop:
  %r = phi i64 [ 0, %fast ], [ %r1, %rowloop ]
  %ro = mul i64 %r, %step
  %rp = getelementptr i8, ptr %fp, i64 %ro
  %rr = mul i64 %r, {4 * w}
  %rd = getelementptr i8, ptr %data, i64 %rr""")
        self._prefetch_rows("%rp")
        if self.action == "load":
            self._put(f"  %rv = load {column}, ptr %rp, align 1")
            self._put(f"  store {column} %rv, ptr %rd, align 64")
        else:
            self._put(f"  %rv = load {column}, ptr %rd, align 64")
            self._put(f"  store {column} %rv, ptr %rp, align 1")
        self._put("""  %r1 = add i64 %r, 1
  %rmore = icmp ult i64 %r1, %count
  br i1 %rmore, label %rowloop, label %rowend
rowend:
  ret void""")

    def _prefetch_rows(self, pointer: str) -> None:
        """Ask for the same row of the next wave, which mostly lies behind all of this one's."""
        write = 0 if self.action == "load" else 1
        for line in range(0, 4 * self.width, 64):
            near = self._at(pointer, line)
            self._put(f"  %pf{line} = getelementptr i8, ptr {near}, i64 %extent")
            self._put(
                f"  call void @llvm.prefetch.p0(ptr %pf{line}, i32 {write}, i32 3, i32 1)"
            )

    def _prefetch(self, pointer: str) -> None:
        """Ask for what later waves will want: consecutive waves mostly walk through memory."""
        write = 0 if self.action == "load" else 1
        row = self.width * self.size
        for line in range(0, row, 64):
            ahead = self._at(pointer, WAVES_AHEAD * row + line)
            self._put(f"  call void @llvm.prefetch.p0(ptr {ahead}, i32 {write}, i32 3, i32 1)")

    def _same_high(self) -> None:
        w = self.width
        short = f"<{w} x i32>"
        self._put(f"""  %fhip = getelementptr i8, ptr %reg, i64 {4 * w}
  %fhi = load {short}, ptr %fhip, align 64
  %fhi0 = load i32, ptr %fhip, align 64
  %fhif = insertelement {short} poison, i32 %fhi0, i64 0
  %fhiv = shufflevector {short} %fhif, {short} poison, <{w} x i32> zeroinitializer
  %fsame = icmp eq {short} %fhi, %fhiv
  %fsamem = bitcast <{w} x i1> %fsame to i{w}
  %fboth = and i{w} %fsamem, %frowm
  %fm = and i{w} %fboth, %mask
  %fhi64 = zext i32 %fhi0 to i64
  %fup = shl i64 %fhi64, 32
  %fpair = or i64 %fup, %flo64
  %fa = add i64 %fpair, %base""")

    def _inside_lds(self) -> None:
        self._put(f"""  %flsp = getelementptr i8, ptr %t, i64 {state.LDS_SIZE}
  %fls = load i64, ptr %flsp
  %finside = icmp ule i64 %fe, %fls
  %fgo = and i1 %fsimple, %finside
  %flp = getelementptr i8, ptr %t, i64 {state.LDS}
  %fl = load i64, ptr %flp
  %fstart = add i64 %fa, %fl""")

    def _check_site(self) -> None:
        """The range this site used last, without a search."""
        self._put(f"""  %fsite = lshr i32 %pc, 2
  %findex = and i32 %fsite, {state.RANGE_COUNT - 1}
  %findex64 = zext i32 %findex to i64
  %fio = mul i64 %findex64, 16
  %fio2 = add i64 %fio, {state.RANGES}
  %fslot = getelementptr i8, ptr %t, i64 %fio2
  %fs = load i64, ptr %fslot
  %fep = getelementptr i8, ptr %fslot, i64 8
  %fend = load i64, ptr %fep
  %fb = icmp uge i64 %fa, %fs
  %fc = icmp ule i64 %fe, %fend
  %fd = icmp ult i64 %fa, %fe
  %fbc = and i1 %fb, %fc
  %fbcd = and i1 %fbc, %fd
  %fgo = and i1 %fsimple, %fbcd""")
