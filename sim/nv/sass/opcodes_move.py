"""Moves, special registers, predicates, and what lanes tell each other.

The columns are explained in opcodes.py.

Source: mesa: src/nouveau/compiler/nak/sm70_encode.rs (OpMov, OpPLop3, OpShfl, OpVote, ...).
"""

TABLE = """
MOV | 002/6 | >=100 88=1 | R16 | B.n | SPILL lanes@72
MOV | 002/1456 | <120 | R16 | B.n | lanes@72
MOV | 002/1456 | >=120 80=0 | R16 | B.n | lanes@72
MOV | 002/16 | >=120 80=1 72+4=f | R16:2 | B.n:2 | 64
MOV | 002/2 | >=120 | R16:2 | W | 64
S2R | 919 | | R16 | S72 |
CS2R | 805 | 80=1 | R16:2 | S72 |
CS2R | 805 | 80=0 | R16 | S72 | 32
S2UR | 9c3 | | U16 | S72 |
R2UR | 3c2 | <90 84=0 | P81? U16 | R24 |
R2UR | 3c2 | <90 84=1 | P81 U16 | R24 | OR
R2UR | 2ca | =90 84=0 | P81? U16 | R24.n |
R2UR | 2ca | =90 84=1 | P81 U16 | R24.n | OR
R2UR | 2ca | >=100 84=0 | P81? U16 | R24.n | FILL@86
R2UR | 2ca | >=100 84=1 | P81 U16 | R24.n | OR FILL@86
P2R | 003/14 | <90 | R16 | PR A.n B.ns | byte@76
P2R | 003/146 | >=90 | R16 | PR A.n B.n | byte@76
R2P | 004/14 | | PR | A.o76 B.ns |
PLOP3 | 81c | 67=0 | P81 P84 | P!87 P!77 P!68 T64 #16+8 | LUT
PLOP3 | 81c | 67=1 | P81 P84 | P!87 P!77 Q!68 T64 #16+8 | LUT
PLOP3 | 01f/1 | | P81 P84 | A.g B.g C.g #72+8 #16+8 | LUT
SHFL | 389 | | P81 R16 | R24 R32 R64 | shfl@58
SHFL | 589 | | P81 R16 | R24 R32 #40+13 | shfl@58
SHFL | 989 | | P81 R16 | R24 #53+5 R64 | shfl@58
SHFL | f89 | | P81 R16 | R24 #53+5 #40+13 | shfl@58
VOTE | 806 | | R16? P81 | P!87 | vote@72
MATCH | 3a1 | 79=1 73=0 *81+3 | R16 | R24 | ANY
MATCH | 3a1 | 79=1 73=1 *81+3 | R16 | R24:2 | ANY U64
MATCH | 3a1 | 79=0 73=0 | P81 R16 | R24 | ALL
MATCH | 3a1 | 79=0 73=1 | P81 R16 | R24:2 | ALL U64
REDUX | 3c4 | 78+3=0 | U16 | R24 | S32@73
REDUX | 3c4 | | U16 | R24 | reduxand@78 S32@73
CREDUX | 2cc | =100 74=0 | U16 | R24.n | credux@78 S32@73
ELECT | 82f | >=90 | P81 U16 | P!87 |
B2R | 31c | 78+2=1 | R16 P81? | | RESULT
B2R | 31c | 78+2=0 | R16 | #54+4 |
"""
