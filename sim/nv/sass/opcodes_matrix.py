"""Matrix products of a warp, and moves between matrix layouts.

The columns are explained in opcodes.py. Register counts depend on the shape:
operands.matrix_counts.

Source: NVIDIA CUDA Binary Utilities, "Instruction Set Reference" (names).
"""

TABLE = """
HMMA | 03c/1 | 73=1 | R16:x | A.i:x B.i:x C.n:x R40.j50 #48+2 | \
    SP hmmasp@78+75,1 accumulate@76 hmmafmt@82
HMMA | 03c/1 | 73=0 | R16:x | A.i:x B.i:x C.n:x | hmma@78+75,1 accumulate@76 hmmafmt@82
IMMA | 037/1 | 72+3=5 | R16:x | A.r:x B.c:x C.n:x R40.j50 #48+2 | \
    SP immasp@86+85+75,1 a8@76 a8@78 SAT@82
IMMA | 037/1 | <90 72+3=4 83+2=3 | R16:x | A.r:x B.c:x C.n:x | imma4@86+85+75,1 a4@76 a4@78 SAT@82
IMMA | 037/1 | <100 72+3=4 | R16:x | A.r:x B.c:x C.n:x | imma@86+85+75,1 a8@76 a8@78 SAT@82
IMMA | 037/1 | >=100 72+3=4 86=1 85=0 | R16:x | A.r:x B.c:x C.n:x | newimma@75 a8@76 a8@78 SAT@82
BMMA | 03d/1 | <90 72+3=4 79+2=2 | R16:x | A.r:x B.c:x C.n:x | bmma@75 bits@78 POPC
BMMA | 03d/1 | =90 72+3=4 78+3=5 | R16:x | A.r:x B.c:x C.n:x | bmma@75 AND POPC
DMMA | 03f/1 | <90 76+2=0 | R16:x | A.d B.d C.d | 884 rnd@78
DMMA | 03f/1 | =90 | R16:x | A.d:x B.d:x C.d:x | dmma@76 rnd@78
DMMA | 03f/1 | >=100 76+2=0 | R16:x | A.d:x B.d:x C.d:x | 8x8x4 rnd@78
QMMA | 07a/1 | =89 80=0 73+2=2 | R16:x | A.ri:x B.ci:x C.n:x | \
    qmma@76+75,1 accumulate@77 fp8q@78 fp8q@79
QMMA | 07a/1 | =120 80=0 *73+2 | R16:x | A.i:x B.i:x C.n:x | \
    qmma@76+75,1 accumulate@77 fp8q@78 fp8q@79
MOVM | 03a/1 | >=100 75=1 | R16 | R24 | U4TO8 movm@78
MOVM | 03a/1 | | R16 | R24 | 16 movm@78
"""
