"""Integer arithmetic, logic, shifts and comparisons.

The columns are explained in opcodes.py. IMAD gets a further modifier
for what compilers use it for (MOV, IADD, SHL) in decode.py.

Source: mesa: src/nouveau/compiler/nak/sm70_encode.rs (OpIAdd3, OpIMad, OpLea, OpLop3, ...).
"""

TABLE = """
IADD3 | 010/1456 | 74=0 *77+4 *87+4 | R16 P81?<100 P84?<100 | A.i B.is C.is |
IADD3 | 010/1456 | 74=1 | R16 P81?<100 P84?<100 | A.x B.xs C.xs P!87 P!77 | X
IADD | 035/1456 | >=120 74=0 *77+4 *87+4 73=0 | R16 P81? | A.i B.is |
IADD | 035/1456 | >=120 74=1 *77+4 73=0 | R16 P81? | A.x B.xs P!87 | X
IADD | 035/1456 | >=120 74=0 *77+4 *87+4 73=1 | R16:2 P81? | A.i:2 B.is:2 | 64
IADD | 035/1456 | >=120 74=1 *77+4 73=1 | R16:2 P81? | A.x:2 B.xs:2 P!87 | 64 X
VIADD | 036/1456 | >=90 <120 | R16 | A.n B.i | 16x2@73
VIADD | 036/1456 | =120 | R16 | A.i B.i | viadd@73,3 ISAT@80
IMAD | 024/1234567 | 74=0 *81+3 *87+4 | R16 | A.n B.ns C.is | unsigned@73
IMAD | 024/1234567 | 74=1 *81+3 | R16 | A.n B.ns C.xs P!87 | unsigned@73 X
IMAD | 025/134567 | 74=0 *87+4 | R16:2 P81? | A.n B.ns C.is:2 | WIDE unsigned@73
IMAD | 025/134567 | 74=1 | R16:2 P81? | A.n B.ns C.xs:2 P!87 | WIDE unsigned@73 X
IMAD | 027/134567 | 74=0 *87+4 | R16 P81? | A.n B.ns C.is:2 | HI unsigned@73
IMAD | 027/134567 | 74=1 | R16 P81? | A.n B.ns C.xs:2 P!87 | HI unsigned@73 X
LEA | 011/1456 | 80=0 74=0 *87+4 | R16 P81? | A.i B.i #75+5 |
LEA | 011/1456 | 80=0 74=1 | R16 P81? | A.x B.x #75+5 P!87 | X
LEA | 011/1456 | 80=1 74=0 *87+4 73=1 | R16 P81? | A.i B.i #75+5 | HI SX32
LEA | 011/1456 | 80=1 74=1 73=1 | R16 P81? | A.x B.x #75+5 P!87 | HI X SX32
LEA | 011/1456 | 80=1 74=0 *87+4 | R16 P81? | A.i B.i C.n #75+5 | HI
LEA | 011/2 | 80=1 74=0 *87+4 | R16 P81? | A.i B.n C.n #75+5 | HI
LEA | 011/1456 | 80=1 74=1 | R16 P81? | A.x B.x C.n #75+5 P!87 | HI X
LEA | 011/2 | 80=1 74=1 | R16 P81? | A.x B.n C.n #75+5 P!87 | HI X
LOP3 | 012/1456 | | P81? R16 | A.n B.n C.n #72+8 P!87 | LUT PAND@80
SHF | 019/1234567 | | R16 | A.n B.n C.n | direction@76 W@75 shift@73 HI@80
ISETP | 00c/1456 | <120 72=0 *68+4 | P81 P84 | A.n B.ns P!87 | icmp@76 unsigned@73 bool@74
ISETP | 00c/1456 | <120 72=1 | P81 P84 | A.n B.ns P!87 P!68 | icmp@76 unsigned@73 bool@74 EX
ISETP | 00c/1456 | >=120 72=0 *68+4 80=0 | P81 P84 | A.n B.ns P!87 | icmp@76 unsigned@73 bool@74
ISETP | 00c/1456 | >=120 72=1 80=0 | P81 P84 | A.n B.ns P!87 P!68 | icmp@76 unsigned@73 bool@74 EX
ISETP | 00c/1456 | >=120 72=0 *68+4 80=1 | P81 P84 | A.n:2 B.ns:2 P!87 | icmp@76 int64@80+73 bool@74
IMNMX | 017/1456 | <100 | R16 | A.n B.ns P!87 | unsigned@73
IMNMX | 017/1456 | =120 74=1 | P81 P84 R16:2 | A.n:2 B.ns:2 P!87 P!77 | u64@74+73
VIMNMX | 048/1456 | >=90 <100 81+6=3f | R16 | A.n B.ns P!87 | vimnmx@72 RELU@76
VIMNMX | 048/1456 | =100 | R16 P81 P84 | A.n B.ns P!87 | vimnmx@72 RELU@76
VIMNMX | 048/1456 | >=120 81+6=3f | R16 | A.n B.ns P!87 | vimnmx120@72,3 RELU@76
VIMNMX3 | 00f/145 | >=90 <120 | R16 | A.n B.n C.n P!87 | vimnmx@72 RELU@76
VIADDMNMX | 046/1234567 | >=90 <120 | R16 | A.n B.i C.n P!87 | vimnmx@72 RELU@76
IDP | 026/156 | 76=0 77=0 | R16 | A.n B.n C.i | 4A a8@73 a8@74
IDP | 026/156 | 76=1 | R16 | A.n B.n C.i | 2A half2@77 a16@73 a8@74
IABS | 013/1456 | | R16 | B.ns |
POPC | 109/1456 | | R16 | B.x |
FLO | 100/1456 | | R16 P81? | B.x | unsigned@73 SH@74
BREV | 101/1456 | | R16 | B.n |
SGXT | 01a/1456 | | R16 | A.n B.n | W@75 unsigned@73
BMSK | 01b/1456 | | R16 | A.n B.n | W@75
PRMT | 016/1234567 | | R16 | A.n B.n C.n | prmt@72
SEL | 007/1456 | | R16 | A.n B.n P!87 |
SEL | 407 | >=120 | R16:2 | R24.n:2 ~32+33:2 P!87 | 64
SEL | e07 | >=120 91=1 | R16:2 | R24.n:2 U32:2 P!87 | 64
SEL | 607 | >=120 | R16:2 | R24.n:2 R32.n:2 P!87 | 64
VABSDIFF | 014/1456 | <120 | R16 P81? | A.n B.n C.n | unsigned@73
VABSDIFF4 | 015/1456 | <120 | R16 P81? | A.n B.n C.n | !U8@73 ACC@75
"""
