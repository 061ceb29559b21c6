"""Float arithmetic of every width, comparisons and conversions.

The columns are explained in opcodes.py.

Source: mesa: src/nouveau/compiler/nak/sm70_encode.rs (OpFAdd, OpHFma2, OpF2F, ...).
"""

TABLE = """
FADD | 021/1 | <100 | R16 | A.f Z.f | FTZ@80 rnd@78 SAT@77
FADD | 021/1 | >=100 81=0 | R16 | A.f Z.f | FTZ@80 rnd@78 SAT@77
FADD | 021/237 | | R16 | A.f C.f | FTZ@80 rnd@78 SAT@77
FHADD | 021/1 | >=100 81=1 | R16 | A.p83 Z.f | BF16@82 rnd@78 SAT@77
FMUL | 020/1456 | | R16 | A.f B.f | flush@76+80 scale@84 rnd@78 SAT@77
FHFMA | 023/1 | >=100 81=1 | R16 | A.p83 B.p84 C.f | BF16@82 rnd@78 SAT@77
FFMA | 023/1234567 | | R16 | A.f B.f C.f | flush@76+80 rnd@78 SAT@77
FMNMX | 009/1456 | <86 | R16 | A.f B.f P!87 | FTZ@80 NAN@81
FMNMX | 009/1456 | >=86 | R16 | A.f B.f P!87 | FTZ@80 NAN@81 XORSIGN@82
FMNMX3 | 076/1 | =100 | R16 | A.f B.f C.f P!87 | FTZ@80 NAN@81
FSEL | 008/1456 | | R16 | A.f B.f P!87 | FTZ@80
FSET | 00a/1456 | | R16 | A.f B.f P!87 | BF cmp@76 FTZ@80 bool@74
FSETP | 00b/1456 | | P81 P84 | A.f B.f P!87 | cmp@76 FTZ@80 bool@74
MUFU | 108/1456 | 74+4=6 78+2=0 72+2=0 | R16 | B.e | RCP64H
MUFU | 108/1456 | 74+4=7 78+2=0 72+2=0 | R16 | B.e | RSQ64H
MUFU | 108/1456 | 78+2=0 72+2=0 | R16 | B.f | mufu@74
MUFU | 108/1 | <90 78+2=0 | R16 | B.y | mufuhalf@74 oldmufufmt@72
MUFU | 108/1 | >=90 78+2=0 | R16 | B.y | mufuhalf@74 mufufmt@72
FCHK | 102/1456 | | P81 | A.f B.f |
DADD | 029/1237 | | R16:2 | A.d C.d | rnd@78
DMUL | 028/1456 | | R16:2 | A.d B.d | rnd@78
DFMA | 02b/1234567 | | R16:2 | A.d B.d C.d | rnd@78
DSETP | 02a/1 | | P81 P84 | A.d Z.d P!87 | dcmp@76 bool@74
DSETP | 02a/237 | | P81 P84 | A.d C.d P!87 | dcmp@76 bool@74
FADD2 | 04b/1 | =100 | R16:2 | A.t81 Z.u84 | FTZ@80 rnd@78
FMUL2 | 04a/1 | =100 | R16:2 | A.t81 B.v87 | flush@76+80 rnd@78
FFMA2 | 049/1 | =100 | R16:2 | A.t81 B.v87 C.u84 | flush@76+80 rnd@78
HADD2 | 030/1 | <90 78=0 | R16 | A.h Z.h | FTZ@80 SAT@77
HADD2 | 030/1 | 78=1 73=0 | R16 | A.h Z.h | F32 FTZ@80 SAT@77
HADD2 | 030/37 | 78=1 73=0 | R16 | A.h C.h | F32 FTZ@80 SAT@77
HADD2 | 030/1 | >=90 | R16 | A.h Z.h | BF16_V2@85 FTZ@80 SAT@77
HADD2 | 030/23 | <90 78=0 | R16 | A.h C.h | FTZ@80 SAT@77
HADD2 | 030/237 | >=90 | R16 | A.h C.h | BF16_V2@85 FTZ@80 SAT@77
HMUL2 | 032/1456 | <90 | R16 | A.h B.h | flush@76+80 SAT@77
HMUL2 | 032/1456 | >=90 | R16 | A.h B.h | BF16_V2@85 flush@76+80 SAT@77
HFMA2 | 031/1234567 | 79=1 87+3=7 | R16 | A.h B.h C.h | BF16_V2@85 flush@76+80 RELU
HFMA2 | 031/1234567 | 79=0 | R16 | A.h B.h C.h | BF16_V2@85 flush@76+80 SAT@77
HFMA2 | 035/1234567 | 79=1 87+3=7 <90 | R16 | A.m B.m C.m | MMA flush@76+80 RELU
HFMA2 | 035/1234567 | 79=1 87+3=7 =90 | R16 | A.m B.m C.m | MMA BF16_V2@85 flush@76+80 RELU
HFMA2 | 035/1234567 | 79=0 <90 | R16 | A.m B.m C.m | MMA flush@76+80 SAT@77
HFMA2 | 035/1234567 | 79=0 =90 | R16 | A.m B.m C.m | MMA BF16_V2@85 flush@76+80 SAT@77
HMNMX2 | 040/1456 | <86 | R16 | A.h B.h P!87 | BF16_V2@85 FTZ@80 NAN@81
HMNMX2 | 040/1456 | >=86 | R16 | A.h B.h P!87 | BF16_V2@85 FTZ@80 NAN@81 XORSIGN@82
HSET2 | 033/1 | <90 65=0 | R16 | A.h Z.h P!87 | BF@71 cmp@76 FTZ@80 bool@69
HSET2 | 033/1 | >=90 | R16 | A.h Z.h P!87 | BF16_V2@65 BF@71 cmp@76 FTZ@80 bool@69
HSET2 | 033/23 | <90 65=0 | R16 | A.h C.h P!87 | BF@71 cmp@76 FTZ@80 bool@69
HSET2 | 033/23 | >=90 | R16 | A.h C.h P!87 | BF16_V2@65 BF@71 cmp@76 FTZ@80 bool@69
HSETP2 | 034/1 | <90 65=0 | P81 P84 | A.h Z.h P!87 | cmp@76 H_AND@71 FTZ@80 bool@69
HSETP2 | 034/1 | >=90 | P81 P84 | A.h Z.h P!87 | BF16_V2@65 cmp@76 H_AND@71 FTZ@80 bool@69
HSETP2 | 034/23 | <90 65=0 | P81 P84 | A.h C.h P!87 | cmp@76 H_AND@71 FTZ@80 bool@69
HSETP2 | 034/23 | >=90 | P81 P84 | A.h C.h P!87 | BF16_V2@65 cmp@76 H_AND@71 FTZ@80 bool@69
F2F | 110/1456 | <90 | R16:q | B.f:q | FTZ@80 oldfloat@75,3 oldfloat@84,3 rnd@78
F2F | 104/1456 | <90 | R16:q | B.f:q | FTZ@80 float@75,3 oldfloat@84,3 rnd@78
F2F | 104/1456,110/1456 | >=90 | R16:q | B.f:q | FTZ@80 float@75,3 float@84,3 rnd@78
FRND | 107/1456 | <90 | R16 | B.f | FTZ@80 oldfrnd@77+76+75+86+85+84,1 toward@78
FRND | 107/1456 | >=90 | R16 | B.f | FTZ@80 frnd@77+76+75+86+85+84,1 toward@78
FRND | 113/1456 | | R16:2 | B.d | FTZ@80 frnd64@77+76+75+86+85+84,1 toward@78
F2I | 105/1456,111/1456 | <90 | R16:q | B.f:q | \
    FTZ@80 int@72+76+75,1 oldfloat32@84,3 toward@78 NTZ@77
F2I | 105/1456,111/1456 | >=90 | R16:q | B.f:q | FTZ@80 int@72+76+75,1 float32@84,3 toward@78 NTZ@77
I2F | 106/1456,112/1456 | <90 | R16:q | B.b:q | oldfloat32@75,3 int@74+85+84,1 rnd@78
I2F | 106/1456,112/1456 | >=90 | R16:q | B.b:q | float32@75,3 int@74+85+84,1 rnd@78
I2FP | 045/1456 | >=86 | R16 | B.n | i2fp@75 int32@74+85+84,1 rz@78
I2I | 038/1456 | | R16 | B.ns | narrow@77+76,1 S32 SAT
F2IP | 043/1 | >=86 73=0 77=0 | R16 | A.n B.n C.q72 | a8@76 F32 chop@78 NTZ@74 RELU@75
F2FP | 03e/1 | <89 78=1 81=0 | R16 | B.n C.q72 | SATFINITE@77 RELU@75 BF16@76 MERGE_C rz@79
F2FP | 03e/1 | >=89 78=1 81=0 73+2=0 86+5=0 | R16 | B.n C.q72 | \
    SATFINITE@77 RELU@75 half@76 F32 MERGE_C rz@79
F2FP | 03e/1456 | <89 78=0 81=0 | R16 | A.n B.n | SATFINITE@77 RELU@75 BF16@76 PACK_AB rz@79
F2FP | 03e/1456 | >=89 78=0 81=0 72+3=0 86+5=0 | R16 | A.n B.n | RELU@75 half@76 F32 PACK_AB rz@79
F2FP | 03e/1 | >=89 76=0 73+2=3 77+2=0 79+3=0 86+2=0 89+2=1 | R16 | B.q88 | \
    RELU@75 F16 E4M3 UNPACK_B
F2FP | 03e/1 | >=89 76=0 73+2=2 77+2=0 79+3=0 86+2=0 89+2=1 | R16 | B.q88 | \
    RELU@75 F16 E5M2 UNPACK_B
F2FP | 03e/1 | >=89 73+2=1 78=0 79+3=0 86+5=12 | R16 | B.n C.n | \
    SATFINITE@77 RELU@75 fp8@76 F16 UNPACK_B_MERGE_C
F2FP | 03e/1 | >=89 73+2=0 78=1 79+3=0 86+5=12 | R16 | A.n B.n C.n | \
    SATFINITE@77 RELU@75 fp8@76 F32 PACK_AB_MERGE_C
"""
