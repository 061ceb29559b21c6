"""Branches, convergence, barriers, and the rest.

The columns are explained in opcodes.py.

Source: mesa: src/nouveau/compiler/nak/sm70_encode.rs (OpBra, OpBSSy, OpBar, ...).
"""

TABLE = """
BRA | 947 | 91=0 33=0 | | P!87? L | step@85 U@32
BRA | 947 | 91=1 | | P!87? V24 L | step@85 divergent@32
BRA | 547 | >=100 91=1 32+2=1 84=0 | | P!87? Q!24 L | step@85 U
BRX | 949 | | | P!87? J24 | step@85
BSSY | 945 | <100 | | P!87? K16 N |
BSSY | 945 | >=100 | | P!87? K16 N | together@72
BSYNC | 941 | <100 | | P!87? K16 |
BSYNC | 941 | >=100 | | P!87? K16 | together@72
BREAK | 942 | <100 | | P!87? K16 |
BREAK | 942 | >=100 | | P!87? K16 | breaks@72,2
CALL | 944 | 91=0 | | P!87? L | REL NOINC@86
CALL | 943 | 91=0 81=0 | | P!87? Y | ABS NOINC@86
CALL | 343 | 91=0 | | P!87? J24.c | ABS NOINC@86
RET | 950 | 91=0 85=1 | | P!87? J24.a | ABS NODEC@86
RET | 950 | 91=0 85=0 | | P!87? J24.l | REL NODEC@86
EXIT | 94d | 84+3=0 | | P!87? |
WARPSYNC | 148/1 | <90 | | P!87? B.n | EXCLUSIVE@86
WARPSYNC | 948 | <90 | | P!87? #32+32 |
WARPSYNC | 348 | >=90 86=0 | | P!87? R24 | EXCLUSIVE@85
WARPSYNC | 348 | >=90 86=1 85=0 | | P!87? R24 L | COLLECTIVE
WARPSYNC | 948 | >=90 86=0 85=0 | | P!87? | ALL
WARPSYNC | 948 | >=90 86=1 85=0 | | P!87? L | COLLECTIVE ALL
ENDCOLLECTIVE | 91b | >=90 | | P!87? |
BMOV | 355 | | R16 | K24 | 32 CLEAR@84
BMOV | 356 | 84=0 | K24 | R32 | 32
YIELD | 946 | | | P!87? |
NOP | 918 | | | |
BPT | 95c | 84+3=3 | | #34+3? | TRAP
NANOSLEEP | 15d/14 | 83+4=0 | | P!87? B.n |
PMTRIG | 801 | | | P!87? #32+16 |
BAR | b1d | 77+2=0 79=0 | | #54+4 #42+12? | SYNC DEFER_BLOCKING@80
BAR | b1d | 77+2=1 79=0 | | #54+4 #42+12 | ARV
BAR | b1d | 77+2=2 79=0 | | #54+4 #42+12? P!87 | RED barred@74 DEFER_BLOCKING@80
BAR | 91d | 77+2=0 79=0 | | #54+4 R32 | SYNC DEFER_BLOCKING@80
BAR | 91d | 77+2=1 79=0 | | #54+4 R32 | ARV
BAR | 51d | 77+2=0 79=0 | | R32 #42+12? | SYNC DEFER_BLOCKING@80
BAR | 51d | 77+2=1 79=0 | | R32 #42+12 | ARV
BAR | 31d | 77+2=0 79=0 | | R32 R32 | SYNC DEFER_BLOCKING@80
BAR | 31d | 77+2=1 79=0 | | R32 R32 | ARV
BAR | 91d | 77+2=2 79=0 | | #54+4 R32 P!87 | RED barred@74 DEFER_BLOCKING@80
BAR | 51d | 77+2=2 79=0 | | R32 #42+12? P!87 | RED barred@74 DEFER_BLOCKING@80
BAR | 31d | 77+2=2 79=0 | | R32 R32 P!87 | RED barred@74 DEFER_BLOCKING@80
UCGABAR_ARV | 9c7 | >=90 91=1 72=0 | | |
UCGABAR_WAIT | dc7 | >=90 91=1 | | |
"""
