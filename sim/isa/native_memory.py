"""LLVM text of checked memory accesses: `width` lanes at once, fastest pattern first.

An access has two halves. An *address* function turns an instruction's registers
into one host address per lane (kept in the thread record) and returns the lanes
that take part. A *core* moves the data between those addresses and registers:
lanes in a row, all lanes at one place, groups of eight, gather or scatter, and
lane by lane as the last resort, which is also what finds the exact bad address.
Every core checks against the page table (native_check.py) before it touches anything.

Source of the patterns: measurements of what compiled kernels do.
"""

from __future__ import annotations

from sim.isa import state


class Core:
    """Text of one load or store core: `bits` per lane, for `width` lanes."""

    def __init__(self, width: int, bits: int, action: str, strict: bool = False) -> None:
        self.width = width
        self.strict = strict  # addresses must be multiples of the size
        self.bits = bits
        self.action = action
        self.size = bits // 8
        self.words = max(1, bits // 32)
        self.element = f"i{min(bits, 32)}"
        self.access = state.READ if action == "load" else state.WRITE
        self.out: list[str] = []
        self.count = 0

    @property
    def name(self) -> str:
        """What the core is called in the library."""
        return f"{self.action}_{self.bits}"

    def text(self) -> str:
        """The whole function."""
        self._open()
        self._row()
        self._same_place()
        self._groups()
        self._gather()
        self._lane_by_lane()
        return "\n".join(self.out)

    # --- pieces of the function, in order

    def _open(self) -> None:
        w = self.width
        mask = f"i{w}"
        addresses = f"<{w} x i64>"
        self._put(f"""
define void @{self.name}(ptr %t, {mask} %mask, ptr %data, i32 %pc) #0 {{
entry:
  %ap = getelementptr i8, ptr %t, i64 {state.ADDRESSES}
  %empty = icmp eq {mask} %mask, 0
  br i1 %empty, label %done, label %some
done:
  ret void
some:
  %addr = load {addresses}, ptr %ap, align 64
  %lanes = bitcast {mask} %mask to <{w} x i1>
  %isfull = icmp eq {mask} %mask, -1
  %first = call {mask} @llvm.cttz.{mask}({mask} %mask, i1 true)
  %lead = call {mask} @llvm.ctlz.{mask}({mask} %mask, i1 true)
  %last = sub {mask} {w}, %lead
  %first64 = {self._to64("%first")}
  %last64 = {self._to64("%last")}
  %fp = getelementptr i64, ptr %ap, i64 %first64
  %a0 = load i64, ptr %fp
  %back = mul i64 %first64, {self.size}
  %origin = sub i64 %a0, %back
  %extent = mul i64 %last64, {self.size}
  %end = add i64 %origin, %extent""")
        if self.strict and self.size > 1:
            self._alignment()
        steps = [lane * self.size for lane in range(w)]
        self._all_equal("row", self._plus("%origin", steps), "%rowtest", "%rows")
        self._branch("%rows", "row", "notrow")

    def _alignment(self) -> None:
        """The first lane whose address is no multiple of the size is a fault."""
        w = self.width
        self._put(f"""  %low3 = and <{w} x i64> %addr, splat (i64 {self.size - 1})
  %oddv = icmp ne <{w} x i64> %low3, zeroinitializer
  %oddm = bitcast <{w} x i1> %oddv to i{w}
  %odd = and i{w} %oddm, %mask
  %even = icmp eq i{w} %odd, 0
  br i1 %even, label %aligned, label %misaligned
misaligned:
  %oddlane = call i{w} @llvm.cttz.i{w}(i{w} %odd, i1 true)
  %oddp = getelementptr i64, ptr %ap, i{w} %oddlane
  %odda = load i64, ptr %oddp
  call void @FAULT(ptr %t, i64 {state.FAULT_MISALIGNED}, i64 %odda, i64 {self.access}, i32 %pc)
  ret void
aligned:""")

    def _row(self) -> None:
        """Lanes side by side in memory."""
        self._label("row")
        self._check("%rowfits", "%a0", "%end", report=False)
        self._branch("%rowfits", "rowok", "each")
        self._label("rowok")
        self._branch("%isfull", "rowfull", "rowpart")
        self._label("rowfull")
        self._put("  %rowp = inttoptr i64 %origin to ptr")
        self._wide("%rowp")
        self._jump("done")
        self._label("rowpart")
        if self.words > 1:
            self._jump("gathering")
            return
        self._put("  %rowq = inttoptr i64 %origin to ptr")
        self._masked_row("%rowq")
        self._jump("done")

    def _same_place(self) -> None:
        """All lanes at one address."""
        self._label("notrow")
        self._all_equal("same", self._splat("i64", "%a0"), "%sametest", "%sames")
        self._branch("%sames", "same", "notsame")
        self._label("same")
        self._put(f"  %sameend = add i64 %a0, {self.size}")
        self._check("%samefits", "%a0", "%sameend", report=False)
        self._branch("%samefits", "sameok", "each")
        self._label("sameok")
        self._put("  %samep = inttoptr i64 %a0 to ptr")
        for word in range(self.words):
            if self.action == "load":
                value = self._widened(self._load(self.element, self._at("%samep", 4 * word)))
                self._store_register(word, self._splat("i32", value), masked=True)
            else:
                # The highest lane writes last and stays.
                top = self._name("sub i64 %last64, 1")
                place = self._name(f"getelementptr i32, ptr {self._register(word)}, i64 {top}")
                value = self._narrowed(self._load("i32", place))
                self._put(
                    f"  store {self.element} {value}, ptr {self._at('%samep', 4 * word)}, align 1"
                )
        self._jump("done")

    def _groups(self) -> None:
        """Each eight lanes side by side, or (loads) at one place, as tiled kernels do."""
        self._label("notsame")
        if self.bits < 32:
            self._jump("each")
            return
        self._branch("%isfull", "grouped", "gathering")
        self._label("grouped")
        w = self.width
        kind = f"<{w} x i64>"
        heads = ", ".join(f"i32 {lane // 8 * 8}" for lane in range(w))
        self._put(f"  %heads = shufflevector {kind} %addr, {kind} poison, <{w} x i32> <{heads}>")
        steps = ", ".join(f"i64 {lane % 8 * self.size}" for lane in range(w))
        self._put(f"  %expect8 = add {kind} %heads, <{steps}>")
        self._put(f"  %row8v = icmp eq {kind} %addr, %expect8")
        self._put(f"  %row8m = bitcast <{w} x i1> %row8v to i{w}")
        self._put(f"  %isrow8 = icmp eq i{w} %row8m, -1")
        bases = [self._load("i64", self._at("%ap", 64 * g), 8) for g in range(w // 8)]
        low, high = bases[0], bases[0]
        for base in bases[1:]:
            low = self._intrinsic("umin", low, base)
            high = self._intrinsic("umax", high, base)
        self._branch("%isrow8", "row8", "notrow8")
        self._label("row8")
        end = self._name(f"add i64 {high}, {8 * self.size}")
        self._check("%row8fits", low, end, report=False)
        self._branch("%row8fits", "row8ok", "gathering")
        self._label("row8ok")
        for group, base in enumerate(bases):
            self._wide(self._name(f"inttoptr i64 {base} to ptr"), group)
        self._jump("done")
        self._label("notrow8")
        if self.action == "store":
            self._jump("gathering")
            return
        self._same_groups(bases, low, high)

    def _same_groups(self, bases: list[str], low: str, high: str) -> None:
        w = self.width
        self._put(f"  %same8v = icmp eq <{w} x i64> %addr, %heads")
        self._put(f"  %same8m = bitcast <{w} x i1> %same8v to i{w}")
        self._put(f"  %issame8 = icmp eq i{w} %same8m, -1")
        self._branch("%issame8", "same8", "gathering")
        self._label("same8")
        end = self._name(f"add i64 {high}, {self.size}")
        self._check("%same8fits", low, end, report=False)
        self._branch("%same8fits", "same8ok", "gathering")
        self._label("same8ok")
        for group, base in enumerate(bases):
            pointer = self._name(f"inttoptr i64 {base} to ptr")
            for word in range(self.words):
                value = self._load("i32", self._at(pointer, 4 * word))
                vector = self._splat("i32", value, 8)
                self._put(
                    f"  store <8 x i32> {vector}, ptr {self._register(word, 8 * group)}, align 32"
                )
        self._jump("done")

    def _gather(self) -> None:
        """Any addresses inside one range."""
        if self.bits < 32:
            return
        self._label("gathering")
        if self.words in (2, 4):
            self._branch("%isfull", "pieces", "gather")
            self._pieces()
            self._label("gather")
        if self.action == "store" and self.words > 1:
            self._jump("each")  # lanes may overlap: a lane's words stay together, in lane order
            return
        self._lowest_and_highest("")
        self._check("%gatherfits", "%low", "%highend", report=False)
        self._branch("%gatherfits", "gatherok", "each")
        self._label("gatherok")
        w = self.width
        kind, mask = f"<{w} x i64>", f"<{w} x i1>"
        vector, data = f"<{w} x ptr>", f"<{w} x i32>"
        for word in range(self.words):
            moved = self._name(f"add {kind} %addr, splat (i64 {4 * word})")
            places = self._name(f"inttoptr {kind} {moved} to {vector}")
            if self.action == "load":
                value = self._name(
                    f"call {data} @llvm.masked.gather.v{w}i32.v{w}p0({vector} align 4 {places}, "
                    f"{mask} %lanes, {data} zeroinitializer)"
                )
                self._store_register(word, value, masked=True)
            else:
                value = self._load(data, self._register(word), 64)
                self._put(
                    f"  call void @llvm.masked.scatter.v{w}i32.v{w}p0({data} {value}, "
                    f"{vector} align 4 {places}, {mask} %lanes)"
                )
        self._jump("done")

    def _lowest_and_highest(self, tag: str) -> None:
        """%low: the lowest address; %highend: one past the highest byte."""
        w = self.width
        kind, mask = f"<{w} x i64>", f"<{w} x i1>"
        ones = f"{kind} splat (i64 -1)"
        self._put(f"  %lowv{tag} = select {mask} %lanes, {kind} %addr, {ones}")
        self._put(f"  %highv{tag} = select {mask} %lanes, {kind} %addr, {kind} zeroinitializer")
        self._put(f"  %low{tag} = call i64 @llvm.vector.reduce.umin.v{w}i64({kind} %lowv{tag})")
        self._put(f"  %high{tag} = call i64 @llvm.vector.reduce.umax.v{w}i64({kind} %highv{tag})")
        self._put(f"  %highend{tag} = add i64 %high{tag}, {self.size}")

    def _pieces(self) -> None:
        """All lanes, each with two or four words: a whole piece of memory per lane."""
        self._label("pieces")
        self._lowest_and_highest("p")
        self._check("%piecesfit", "%lowp", "%highendp", report=False)
        self._branch("%piecesfit", "piecesok", "each")
        self._label("piecesok")
        w, piece = self.width, f"<{self.words} x i32>"
        places = []
        for lane in range(w):
            address = self._load("i64", self._at("%ap", 8 * lane), 8)
            places.append(self._name(f"inttoptr i64 {address} to ptr"))
        if self.action == "load":
            values = [self._load(piece, place) for place in places]
            self._spread(self._joined(values, self.words), w, 0)
        else:
            column = f"<{w} x i32>"
            parts = [self._load(column, self._register(word), 64) for word in range(self.words)]
            row = f"<{w * self.words} x i32>"
            value = self._interleaved(parts, w)
            for lane, place in enumerate(places):
                pick = ", ".join(f"i32 {lane * self.words + word}" for word in range(self.words))
                part = self._name(
                    f"shufflevector {row} {value}, {row} poison, <{self.words} x i32> <{pick}>"
                )
                self._put(f"  store {piece} {part}, ptr {place}, align 1")
        self._jump("done")

    def _joined(self, values: list[str], size: int) -> str:
        """Vectors of `size` words one behind the other; their number is a power of two."""
        while len(values) > 1:
            kind, order = f"<{size} x i32>", ", ".join(f"i32 {i}" for i in range(2 * size))
            values = [
                self._name(f"shufflevector {kind} {a}, {kind} {b}, <{2 * size} x i32> <{order}>")
                for a, b in zip(values[::2], values[1::2], strict=True)
            ]
            size *= 2
        return values[0]

    def _lane_by_lane(self) -> None:
        """One checked access per lane; lanes that may not, fault, and read 0."""
        mask = f"i{self.width}"
        self._put(f"""each:
  br label %lane
lane:
  %todo = phi {mask} [ %mask, %each ], [ %rest, %lanedone ]
  %which = call {mask} @llvm.cttz.{mask}({mask} %todo, i1 true)
  %which64 = {self._to64("%which")}
  %lower = sub {mask} %todo, 1
  %rest = and {mask} %todo, %lower
  %lap = getelementptr i64, ptr %ap, i64 %which64
  %la = load i64, ptr %lap
  %lend = add i64 %la, {self.size}
  %lp = inttoptr i64 %la to ptr""")
        self._check("%lanefits", "%la", "%lend", report=True)
        self._branch("%lanefits", "laneyes", "laneno")
        self._label("laneyes")
        for word in range(self.words):
            place = self._name(f"getelementptr i32, ptr {self._register(word)}, i64 %which64")
            if self.action == "load":
                value = self._widened(self._load(self.element, self._at("%lp", 4 * word)))
                self._put(f"  store i32 {value}, ptr {place}")
            else:
                value = self._narrowed(self._load("i32", place))
                self._put(
                    f"  store {self.element} {value}, ptr {self._at('%lp', 4 * word)}, align 1"
                )
        self._jump("lanedone")
        self._label("laneno")
        if self.action == "load":
            for word in range(self.words):
                place = self._name(f"getelementptr i32, ptr {self._register(word)}, i64 %which64")
                self._put(f"  store i32 0, ptr {place}")
        self._jump("lanedone")
        self._label("lanedone")
        self._put(f"  %over = icmp eq {mask} %rest, 0")
        self._branch("%over", "done", "lane")
        self._put("}")

    # --- moving data

    def _wide(self, pointer: str, group: int | None = None) -> None:
        """`width` lanes (or eight, of a group) between a row of memory and registers."""
        lanes = self.width if group is None else 8
        start = 0 if group is None else 8 * group
        align = 64 if group is None else 32
        row, column = f"<{lanes * self.words} x {self.element}>", f"<{lanes} x i32>"
        if self.action == "load":
            self._spread(self._load(row, pointer), lanes, start)
            return
        parts = [self._load(column, self._register(w, start), align) for w in range(self.words)]
        self._put(f"  store {row} {self._interleaved(parts, lanes)}, ptr {pointer}, align 1")

    def _spread(self, value: str, lanes: int, start: int) -> None:
        """Rows (lane 0's words, lane 1's words, ...) to registers."""
        row, column = f"<{lanes * self.words} x {self.element}>", f"<{lanes} x i32>"
        for word in range(self.words):
            part = value
            if self.words > 1:
                pick = ", ".join(f"i32 {self.words * lane + word}" for lane in range(lanes))
                part = self._name(
                    f"shufflevector {row} {value}, {row} poison, <{lanes} x i32> <{pick}>"
                )
            elif self.bits < 32:
                part = self._name(f"zext {row} {value} to {column}")
            align = 64 if lanes == self.width else 32
            place = self._register(word, start)
            self._put(f"  store {column} {part}, ptr {place}, align {align}")

    def _interleaved(self, parts: list[str], lanes: int) -> str:
        """Columns as rows: lane 0's words, lane 1's words, and so on."""
        column = f"<{lanes} x i32>"
        if self.bits < 32:
            return self._name(f"trunc {column} {parts[0]} to <{lanes} x {self.element}>")
        if self.words == 1:
            return parts[0]
        joined, words = parts[0], 1
        for part in parts[1:]:
            have = f"<{lanes * words} x i32>"
            spread = part
            if words > 1:
                grow = ", ".join(
                    f"i32 {i if i < lanes else 'poison'}" for i in range(lanes * words)
                )
                spread = self._name(
                    f"shufflevector {column} {part}, {column} poison, "
                    f"<{lanes * words} x i32> <{grow}>"
                )
            order = ", ".join(f"i32 {i}" for i in range(lanes * (words + 1)))
            joined = self._name(
                f"shufflevector {have} {joined}, {have} {spread}, "
                f"<{lanes * (words + 1)} x i32> <{order}>"
            )
            words += 1
        row = f"<{lanes * words} x i32>"
        pick = ", ".join(f"i32 {w * lanes + lane}" for lane in range(lanes) for w in range(words))
        return self._name(
            f"shufflevector {row} {joined}, {row} poison, <{lanes * words} x i32> <{pick}>"
        )

    def _masked_row(self, pointer: str) -> None:
        w = self.width
        row, column, mask = f"<{w} x {self.element}>", f"<{w} x i32>", f"<{w} x i1>"
        suffix = f"v{w}{self.element}.p0"
        if self.action == "load":
            value = self._name(
                f"call {row} @llvm.masked.load.{suffix}(ptr align 1 {pointer}, "
                f"{mask} %lanes, {row} zeroinitializer)"
            )
            part = value if self.bits == 32 else self._name(f"zext {row} {value} to {column}")
            self._store_register(0, part, masked=True)
            return
        value = self._load(column, self._register(0), 64)
        if self.bits < 32:
            value = self._name(f"trunc {column} {value} to {row}")
        self._put(
            f"  call void @llvm.masked.store.{suffix}({row} {value}, "
            f"ptr align 1 {pointer}, {mask} %lanes)"
        )

    def _store_register(self, word: int, value: str, *, masked: bool) -> None:
        w = self.width
        column = f"<{w} x i32>"
        place = self._register(word)
        if masked:
            # Not a masked store: the host cannot forward from one to the load that follows.
            old = self._name(f"load volatile {column}, ptr {place}, align 64")
            value = self._name(f"select <{w} x i1> %lanes, {column} {value}, {column} {old}")
        self._put(f"  store {column} {value}, ptr {place}, align 64")

    # --- small pieces of text

    def _put(self, text: str) -> None:
        self.out.append(text)

    def _name(self, text: str) -> str:
        self.count += 1
        self._put(f"  %n{self.count} = {text}")
        return f"%n{self.count}"

    def _label(self, name: str) -> None:
        self._put(f"{name}:")

    def _jump(self, name: str) -> None:
        self._put(f"  br label %{name}")

    def _branch(self, condition: str, yes: str, no: str) -> None:
        self._put(f"  br i1 {condition}, label %{yes}, label %{no}")

    def _load(self, kind: str, pointer: str, align: int = 1) -> str:
        return self._name(f"load {kind}, ptr {pointer}, align {align}")

    def _at(self, pointer: str, offset: int) -> str:
        if not offset:
            return pointer
        return self._name(f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def _register(self, word: int, lane: int = 0) -> str:
        return self._at("%data", 4 * (word * self.width + lane))

    def _widened(self, value: str) -> str:
        return value if self.bits >= 32 else self._name(f"zext {self.element} {value} to i32")

    def _narrowed(self, value: str) -> str:
        return value if self.bits >= 32 else self._name(f"trunc i32 {value} to {self.element}")

    def _to64(self, value: str) -> str:
        return f"zext i32 {value} to i64" if self.width == 32 else f"or i64 {value}, 0"

    def _splat(self, kind: str, value: str, lanes: int = 0) -> str:
        vector = f"<{lanes or self.width} x {kind}>"
        first = self._name(f"insertelement {vector} poison, {kind} {value}, i64 0")
        zero = f"<{lanes or self.width} x i32> zeroinitializer"
        return self._name(f"shufflevector {vector} {first}, {vector} poison, {zero}")

    def _plus(self, scalar: str, steps: list[int]) -> str:
        vector = f"<{self.width} x i64>"
        numbers = ", ".join(f"i64 {step}" for step in steps)
        return self._name(f"add {vector} {self._splat('i64', scalar)}, <{numbers}>")

    def _all_equal(self, tag: str, expected: str, name: str, result: str) -> None:
        """result: every active lane's address is the expected one."""
        w = self.width
        self._put(f"  {name} = icmp eq <{w} x i64> %addr, {expected}")
        self._put(f"  %{tag}bits = bitcast <{w} x i1> {name} to i{w}")
        self._put(f"  %{tag}idle = xor i{w} %mask, -1")
        self._put(f"  %{tag}hit = or i{w} %{tag}bits, %{tag}idle")
        self._put(f"  {result} = icmp eq i{w} %{tag}hit, -1")

    def _intrinsic(self, name: str, a: str, b: str) -> str:
        return self._name(f"call i64 @llvm.{name}.i64(i64 {a}, i64 {b})")

    def _check(self, name: str, start: str, end: str, *, report: bool) -> None:
        self._put(
            f"  {name} = call i1 @OK(ptr %t, i64 {start}, i64 {end}, i64 {self.access}, "
            f"i32 %pc, i1 {'true' if report else 'false'})"
        )
