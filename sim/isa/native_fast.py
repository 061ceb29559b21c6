"""LLVM text of the commonest access, before anything general: all lanes active and in a row.

Works on the 32-bit registers as they are, without making 64-bit lane addresses.
Leaves to label %general whatever is not so simple; jumps to no other label.
"""

from __future__ import annotations

from sim.isa import state
from sim.isa.native_memory import Core

WAVES_AHEAD = 4  # how far ahead of a row memory is prefetched, in rows
FAST_KINDS = ("global", "saddr", "lds")


def fast_row(width: int, kind: str, action: str, bits: int) -> str:
    """Text from the entry of a move function to `br label %general`."""
    core = _FastCore(width, bits, action)
    core.row(kind)
    return "\n" + "\n".join(core.out)


class _FastCore(Core):
    """A core's way of moving a row, under other names."""

    def _name(self, text: str) -> str:
        self.count += 1
        self._put(f"  %f{self.count} = {text}")
        return f"%f{self.count}"

    def row(self, kind: str) -> None:
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
  %fe = add i64 %fa, {w * size}""")
        if kind == "lds":
            self._inside_lds()
        else:
            self._put("  %fstart = add i64 %fa, 0")
            self._check_site()
        self._branch("%fgo", "fast", "general")
        self._label("fast")
        self._put("  %fp = inttoptr i64 %fstart to ptr")
        if kind != "lds":
            self._prefetch("%fp")
        self._wide("%fp")
        self._put("  ret void")

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
