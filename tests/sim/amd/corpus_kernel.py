"""The text of one kernel of the corpus: an LLVM function built line by line."""

G = "ptr addrspace(1)"
L = "ptr addrspace(3)"
MANGLED = {"half": "f16", "float": "f32", "double": "f64", "bfloat": "bf16"}


class Kernel:
    """The text of one kernel: values are pushed into a body, results stored one by one."""

    def __init__(self, name, scalar=False, attributes=""):
        self.name = name
        self.attributes = attributes
        self.scalar = scalar
        self.lines = []
        self.declared = set()
        self.outputs = 0

    def emit(self, text):
        """Add an instruction that makes a value; gives its name."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def run(self, text):
        """Add an instruction without a value."""
        self.lines.append(text)

    def call(self, result, function, arguments, metadata=""):
        """Call an intrinsic, declaring it: arguments are 'type value' texts."""
        types = ", ".join(a.rsplit(" ", 1)[0] for a in arguments)
        self.declared.add(f"declare {result} @{function}({types.replace('immarg', '')})")
        text = f"call {result} @{function}({', '.join(arguments)}){metadata}"
        return self.run(text) if result == "void" else self.emit(text)

    def load(self, kind, pointer):
        """Load element number `lane` (or 0 in scalar kernels) of an argument."""
        index = "0" if self.scalar else "%lane"
        space = 4 if self.scalar else 1
        step = self.emit(f"getelementptr {kind}, ptr addrspace({space}) {pointer}, i32 {index}")
        return self.emit(f"load {kind}, ptr addrspace({space}) {step}")

    def store(self, kind, value):
        """Store a result where nothing else is."""
        self.outputs += 1
        at = self.emit(f"getelementptr i8, {G} %out, i32 %byte")
        at = self.emit(f"getelementptr i8, {G} {at}, i64 {4096 * self.outputs}")
        self.run(f"store {kind} {value}, {G} {at}")

    def text(self):
        """The module."""
        calls = "\n".join(sorted(self.declared))
        body = "\n  ".join(self.lines)
        space = 4 if self.scalar else 1
        pointer = f"ptr addrspace({space}) noalias readonly"
        return f"""
declare i32 @llvm.amdgcn.workitem.id.x()
{calls}
@lds = internal addrspace(3) global [1024 x i32] poison, align 16
define amdgpu_kernel void @k({G} noalias %out, {pointer} %a, {pointer} %b, {pointer} %c,
    i32 %n, i64 %wide, float %x) #0 {{
  %lane = call i32 @llvm.amdgcn.workitem.id.x()
  %byte = shl i32 %lane, 4
  {body}
  ret void
}}
attributes #0 = {{ "amdgpu-flat-work-group-size"="1,256" "amdgpu-no-dispatch-ptr"
  "amdgpu-no-queue-ptr" "amdgpu-no-dispatch-id" "amdgpu-no-implicitarg-ptr"
  "amdgpu-no-workitem-id-y" "amdgpu-no-workitem-id-z" {self.attributes} }}
!0 = !{{}}
"""
