"""The text of one kernel of the corpus: an LLVM function built line by line."""

import re

G = "ptr addrspace(1)"
S = "ptr addrspace(3)"
CHIPS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
INTEGERS = ("i8", "i16", "i32", "i64")
FLOATS = ("half", "bfloat", "float", "double")
MANGLED = {"half": "f16", "float": "f32", "double": "f64", "bfloat": "bf16"}
LETTERS = {"i16": "h", "i32": "r", "i64": "l", "float": "f", "double": "d", "half": "h"}
FLOAT_COMPARES = [
    "oeq",
    "one",
    "olt",
    "ole",
    "ogt",
    "oge",
    "ord",
    "uno",
    "ueq",
    "une",
    "ult",
    "uge",
    "ugt",
    "ule",
]
INTEGER_COMPARES = ["eq", "ne", "ult", "ule", "ugt", "uge", "slt", "sle", "sgt", "sge"]

KERNELS = []


class Kernel:
    """The text of one kernel: values are loaded from %a, %b, %c, results stored one by one."""

    def __init__(self, name, chips=CHIPS, attributes=""):
        self.name = re.sub(r"\W", "_", name)
        self.chips = chips
        self.attributes = attributes
        self.lines = []
        self.declared = set()
        self.outputs = 0
        KERNELS.append(self)

    def emit(self, text):
        """Add an instruction that makes a value; gives its name."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def run(self, text):
        """Add an instruction without a value."""
        self.lines.append(text)
        return self

    def load(self, kind, letter, tail=""):
        """Load this thread's element of an argument."""
        at = self.emit(f"getelementptr {kind}, {G} %{letter}, i64 %i")
        return self.emit(f"load {kind}, {G} {at}{tail}")

    def loads(self, kind, letters="abc"):
        return [self.load(kind, letter) for letter in letters]

    def store(self, kind, value):
        """Store a result where nothing else is."""
        self.outputs += 1
        at = self.emit(f"getelementptr i8, {G} %mine, i64 {4096 * self.outputs}")
        self.run(f"store {kind} {value}, {G} {at}")

    def keep(self, kind, text):
        """Compute and store."""
        self.store(kind, self.emit(text))

    def call(self, result, function, arguments, metadata=""):
        """Call an intrinsic, declaring it: arguments are 'type value' texts."""
        types = ", ".join(a.rsplit(" ", 1)[0] for a in arguments)
        self.declared.add(f"declare {result} @{function}({types})")
        text = f"call {result} @{function}({', '.join(arguments)}){metadata}"
        return self.run(text) if result == "void" else self.emit(text)

    def asm(self, result, text, *arguments):
        """Inline PTX; arguments are 'type value' texts. Stores the result, if there is one."""
        inputs = [LETTERS.get(a.split(" ")[0], "l") for a in arguments]
        outputs = ["=" + LETTERS[result]] if result else []
        constraints = ",".join(outputs + inputs + ["~{memory}"])
        body = f'call {result or "void"} asm sideeffect "{text}", "{constraints}"'
        body += f"({', '.join(arguments)})"
        if result:
            self.keep(result, body)
        else:
            self.run(body)

    def text(self):
        """The definition."""
        body = "\n  ".join(self.lines)
        pointers = ", ".join(f"{G} noalias %{x}" for x in ("a", "b", "c"))
        return f"""
define ptx_kernel void @{self.name}({G} noalias %out, {pointers},
    i32 %n, i64 %wide, float %x, double %y, ptr %generic) #0 {self.attributes} {{
entry:
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %ctaid = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %ntid = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %base = mul i32 %ctaid, %ntid
  %sum = add i32 %base, %tid
  %i = zext i32 %sum to i64
  %mine = getelementptr i128, {G} %out, i64 %i
  {body}
  ret void
}}
"""
