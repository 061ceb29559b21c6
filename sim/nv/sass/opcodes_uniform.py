"""The uniform datapath: one value for the whole warp.

The columns are explained in opcodes.py. Bit 91 is set in all of these.

Source: mesa: src/nouveau/compiler/nak/sm70_encode.rs (encode_ualu).
"""

TABLE = """
UIADD3 | u090/14 | 74=0 *77+4 *87+4 | U16 Q81?<100 Q84?<100 | A.i B.is C.is |
UIADD3 | u090/14 | 74=1 | U16 Q81?<100 Q84?<100 | A.x B.xs C.xs Q!87 Q!77 | X
UIADD3 | u097/14 | >=120 74=0 *77+4 *87+4 | U16:2 Q81 Q84 | A.i:2 B.is:2 C.is:2 | 64
UIADD3 | u097/14 | >=120 74=1 | U16:2 Q81 Q84 | A.x:2 B.xs:2 C.xs:2 Q!87 Q!77 | 64 X
UIMAD | u0a4/124 | 74=0 *81+3 *87+4 | U16 | A.n B.ns C.is | unsigned@73
UIMAD | u0a4/124 | 74=1 *81+3 | U16 | A.n B.ns C.xs Q!87 | unsigned@73 X
UIMAD | u0a5/14 | 74=0 *87+4 | U16:2 Q81? | A.n B.ns C.is:2 | WIDE unsigned@73
UIMAD | u0a5/14 | 74=1 | U16:2 Q81? | A.n B.ns C.xs:2 Q!87 | WIDE unsigned@73 X
UIMAD | u0a6/14 | =120 74=0 *87+4 | U16 Q81? | A.n B.ns C.is:2 | HI unsigned@73
ULEA | u091/14 | 80=0 74=0 *87+4 | U16 Q81? | A.i B.i #75+5 |
ULEA | u091/14 | 80=0 74=1 | U16 Q81? | A.x B.x #75+5 Q!87 | X
ULEA | u091/14 | 80=1 74=0 *87+4 73=1 | U16 Q81? | A.i B.i #75+5 | HI SX32
ULEA | u091/14 | 80=1 74=1 73=1 | U16 Q81? | A.x B.x #75+5 Q!87 | HI X SX32
ULEA | u091/14 | 80=1 74=0 *87+4 | U16 Q81? | A.i B.i C.n #75+5 | HI
ULEA | u091/2 | 80=1 74=0 *87+4 | U16 Q81? | A.i B.n C.n #75+5 | HI
ULEA | u091/14 | 80=1 74=1 | U16 Q81? | A.x B.x C.n #75+5 Q!87 | HI X
ULEA | u091/2 | 80=1 74=1 | U16 Q81? | A.x B.n C.n #75+5 Q!87 | HI X
ULOP3 | u092/14 | | Q81? U16 | A.n B.n C.n #72+8 Q!87 | LUT PAND@80
USHF | u099/124 | | U16 | A.n B.n C.n | direction@76 W@75 shift@73 HI@80
UISETP | u08c/14 | 72=0 *68+4 80=0 | Q81 Q84 | A.n B.ns Q!87 | icmp@76 unsigned@73 bool@74
UISETP | u08c/14 | 72=1 80=0 | Q81 Q84 | A.n B.ns Q!87 Q!68 | icmp@76 unsigned@73 bool@74 EX
UISETP | u08c/14 | >=120 72=0 *68+4 80=1 | Q81 Q84 | A.n:2 B.ns:2 Q!87 | icmp@76 int64@80+73 bool@74
USEL | u087/14 | | U16 | A.n B.n Q!87 |
UPRMT | u096/14 | 72+3=0 | U16 | A.n B.n C.n |
UMOV | 882 | <120 | U16 | #32+32 |
UMOV | u082/6 | <120 | U16 | B.n |
UMOV | 882 | >=120 80=0 | U16 | #32+32 |
UMOV | u082/6 | >=120 80=0 | U16 | B.n |
UMOV | u082/6 | >=120 80=1 | U16:2 | B.n:2 | 64
UPOPC | u0bf/14 | | U16 | B.x |
UFLO | u0bd/14 | | U16 Q81? | B.x | unsigned@73 SH@74
UBREV | u0be/14 | | U16 | B.n |
USGXT | u09a/14 | | U16 | A.n B.n | W@75 unsigned@73
UBMSK | u09b/14 | | U16 | A.n B.n | W@75
UFFMA | u055/124 | =120 | U16 | A.f B.f C.f | flush@76+80 rnd@78 SAT@77
UI2F | u05a/14 | =120 | U16 | B.n | ui2f@75 uint32@74+85+84,1 rnd@78
UI2FP | u05e/1 | =120 | U16 | B.n | i2fp@75 int32@74+85+84,1 rz@78
UPLOP3 | 89c | | Q81 Q84 | Q!87 Q!77 Q!68 T64 #16+8 | LUT
VOTEU | 886 | | U16? Q81 | P!87 | vote@72
USEL | 487 | =120 91=1 | U16:2 | U24:2 ~32+33:2 Q!87 | 64
USEL | c87 | =120 91=1 | U16:2 | U24:2 U32:2 Q!87 | 64
UMOV | 482 | =120 91=1 | U16:2 | W | 64
UIABS | u04d/14 | =120 | U16 | B.ns |
UVIADD | u049/14 | =120 | U16 | A.i B.i | viadd@73,3 ISAT@80
UVIMNMX | u04a/14 | =120 81+6=3f | U16 | A.n B.ns Q!87 | vimnmx120@72,3 RELU@76
UIMNMX | u085/14 | =120 74=1 | Q81 Q84 U16:2 | A.n:2 B.ns:2 Q!87 Q!77 | u64@74+73
UFADD | u054/12 | =120 | U16 | A.f C.f | FTZ@80 rnd@78 SAT@77
UFMUL | u056/14 | =120 | U16 | A.f B.f | flush@76+80 scale@84 rnd@78 SAT@77
UFMNMX | u050/14 | =120 | U16 | A.f B.f Q!87 | FTZ@80 NAN@81 XORSIGN@82
UFSEL | u051/14 | =120 | U16 | A.f B.f Q!87 | FTZ@80
UFSET | u052/14 | =120 | U16 | A.f B.f Q!87 | BF cmp@76 FTZ@80 bool@74
UFSETP | u053/14 | =120 | Q81 Q84 | A.f B.f Q!87 | cmp@76 FTZ@80 bool@74
CS2UR | 8cb | =120 80=0 91=1 | U16 | S72 | 32
CS2UR | 8cb | =120 80=1 91=1 | U16:2 | S72 |
"""
