"""Loads, stores, atomics, copies into shared memory and cache control.

The columns are explained in opcodes.py. In an address, U is there when bit 91 is set;
`@76` is the bit that makes it a descriptor instead of an offset, `*78` two bits of scale.

Source: mesa: src/nouveau/compiler/nak/sm70_encode.rs (OpLd, OpSt, OpAtom, OpLdc, ...).
"""

TABLE = """
LDG | 381 | 91=0 64+4=0 | P81? R16:w | [R24e+I40] | E@72 evict@84 ltc@68 size@73 order@77
LDG | 981 | 91=1 64+4=0 | P81? R16:w | [R24e+U32@76!90+I40] | E@72 evict@84 ltc@68 size@73 order@77
LD | 980 | 64+4=0 | R16:w | [R24e+U32@76!90+I40] | E@72 evict@84 ltc@68 size@73 order@77
STG | 386 | <100 91=0 | | [R24e+I40] R32:w | E@72 evict@84 size@73 strong@77
STG | 386 | >=100 91=0 | | [R24e+I40] R32:w | E@72 evict@84 size@73 ordered@77
STG | 986 | <100 91=1 | | [R24e+U64@76!90+I40] R32:w | E@72 evict@84 size@73 strong@77
STG | 986 | >=100 91=1 | | [R24e+U64@76!90+I40] R32:w | E@72 evict@84 size@73 ordered@77
ST | 385 | 91=0 | | [R24e+I32+32] R64:w | E@72 evict@84 size@73 strong@77
ST | 985 | 91=1 | | [R24e+U64@76!90+I40] R32:w | E@72 evict@84 size@73 strong@77
LDL | 983 | | R16:w | [R24+U32+I40] | evict@84 size@73
STL | 387 | | | [R24+I40] R32:w | evict@84 size@73
STL | 987 | 91=1 | | [R24+U64+I40] R32:w | evict@84 size@73
LDS | 984 | | R16:w | [R24*78+U32+I40] | size@73
STS | 388 | 91=0 | | [R24*78+I40] R32:w | size@73
STS | 988 | 91=1 | | [R24*78+U64+I40] R32:w | size@73
LDC | b82 | | R16:w | C24+16 | constsize@73 index@78
ULDC | ab9 | <100 91=0 | U16:w | C0+16 | constsize@73
LDCU | 7ac | >=100 91=1 | U16:w | CU24+17 | size@73
ATOMG | 3a8 | 91=0 <90 76=0 | P81 R16:w | [R24e+I40] R32:w | \
    E@72 atom@87 evict@84 oldatomtype@73 strong@77
ATOMG | 9a8 | 91=1 <90 76=0 | P81 R16:w | [R24e+U64@71!70+I40] R32:w | \
    E@72 atom@87 evict@84 oldatomtype@73 strong@77
ATOMG | 3a8 | 91=0 >=90 <100 76=0 | P81 R16:w | [R24e+I40] R32:w | \
    E@72 atom@87 evict@84 atomtype@73 strong@77
ATOMG | 9a8 | 91=1 >=90 <100 76=0 | P81 R16:w | [R24e+U64@71!70+I40] R32:w | \
    E@72 atom@87 evict@84 atomtype@73 strong@77
ATOMG | 3a8 | 91=0 >=100 | P81 R16:w | [R24e+I40] R32:w | \
    E@72 atom@87 evict@84 atomtype@73,3 strong@77
ATOMG | 9a8 | 91=1 >=100 63=1 | P81 R16:w | [R24e+U64@63!76+I40+23] R32:w | \
    E@72 atom@87 evict@84 atomtype@73,3 strong@77
ATOMG | 3a3 | 91=0 >=90 <100 | P81 R16:w | [R24e+I40] R32:w | \
    E@72 fatom@87 evict@84 fatomtype@73 strong@77
ATOMG | 9a3 | 91=1 >=90 <100 | P81 R16:w | [R24e+U64@71!70+I40] R32:w | \
    E@72 fatom@87 evict@84 fatomtype@73 strong@77
ATOMG | 3a3 | 91=0 >=100 | P81 R16:w | [R24e+I40] R32:w | \
    E@72 fatom@87,3 evict@84 fatomtype@73 strong@77
ATOMG | 9a3 | 91=1 >=100 63=1 | P81 R16:w | [R24e+U64@63!90+I40+23] R32:w | \
    E@72 fatom@87,3 evict@84 fatomtype@73 strong@77
ATOMG | 3a9 | <90 | P81 R16:w | [R24e+I40] R32:w R64:w | E@72 CAS evict@84 oldcastype@73 strong@77
ATOMG | 3a9 | >=90 | P81 R16:w | [R24e+I40] R32:w R64:w | E@72 CAS evict@84 castype@73 strong@77
ATOM | 38a | 91=0 <90 76=0 | P81 R16:w | [R24e+I40] R32:w | \
    E@72 sharedop@87 evict@84 oldatomtype@73 strong@77
ATOM | 98a | 91=1 <90 76=0 | P81 R16:w | [R24e+U64@71!70+I40] R32:w | \
    E@72 sharedop@87 evict@84 oldatomtype@73 strong@77
ATOM | 38a | 91=0 >=90 <100 76=0 | P81 R16:w | [R24e+I40] R32:w | \
    E@72 sharedop@87 evict@84 atomtype@73 strong@77
ATOM | 98a | 91=1 >=90 <100 76=0 | P81 R16:w | [R24e+U64@71!70+I40] R32:w | \
    E@72 sharedop@87 evict@84 atomtype@73 strong@77
ATOM | 38a | 91=0 >=100 | P81 R16:w | [R24e+I40] R32:w | \
    E@72 sharedop@87 evict@84 atomtype@73,3 strong@77
ATOM | 98a | 91=1 >=100 63=1 | P81 R16:w | [R24e+U64@63!76+I40+23] R32:w | \
    E@72 sharedop@87 evict@84 atomtype@73,3 strong@77
ATOM | 38b | <90 | P81 R16:w | [R24e+I40] R32:w R64:w | E@72 CAS evict@84 oldcastype@73 strong@77
ATOM | 38b | >=90 | P81 R16:w | [R24e+I40] R32:w R64:w | E@72 CAS evict@84 castype@73 strong@77
RED | 98e | <90 76=0 | | [R24e+U64@71!90+I40] R32:w | E@72 red@87 evict@84 oldatomtype@73 strong@77
REDG | 98e | >=90 <100 76=0 | | [R24e+U64@71!90+I40] R32:w | \
    E@72 red@87 evict@84 redtype@73 strong@77
REDG | 98e | >=100 76=0 | | [R24e+U64@81!90+I40] R32:w | E@72 red@87 evict@84 redtype@73 strong@77
REDG | 9a6 | >=90 <100 | | [R24e+U64@71!90+I40] R32:w | \
    E@72 fatom@87,3 evict@84 fatomtype@73 strong@77
REDG | 9a6 | >=100 | | [R24e+U64@81!90+I40] R32:w | E@72 fatom@87,3 evict@84 fatomtype@73 strong@77
ATOMS | 38c | <90 91=0 | R16:w | [R24*78+I40] R32:w | sharedop@87 sharedatom@73
ATOMS | 38c | >=90 91=0 | R16:w | [R24*78+I40] R32:w | sharedop@87 widesharedatom@73
ATOMS | 98c | <90 91=1 | R16:w | [R24*78+U64+I40] R32:w | sharedop@87 sharedatom@73
ATOMS | 98c | >=90 91=1 | R16:w | [R24*78+U64+I40] R32:w | sharedop@87 widesharedatom@73
ATOMS | 38d | <90 | R16:w | [R24*78+I40] R32:w R64:w | cas@87 sharedatom@73
ATOMS | 38d | >=90 | R16:w | [R24*78+I40] R32:w R64:w | cas@87 widesharedatom@73
ATOMS | 58d | >=100 | P81 | [R24*78+I40] R32:w R64:w | cast@87 sharedatom@73
ATOMS | f8c | <90 87+4=a 91=1 73+3=0 | R16 | [R24*78+U64+I40] | POPC INC 32
ATOMS | f8c | >=90 87+4=b 91=1 73+3=0 | R16 | [R24*78+U64+I40] | POPC INC 32
LDSM | 83b | 78+3=0 | R16:w | [R24+U32+I40] | 16 M88 count@72
LDSM | 83b | 78+3=1 | R16:w | [R24+U32+I40] | 16 MT88 count@72
STSM | 844 | >=90 78+2=0 | | [R24+U64+I40] R32:w | 16 M88 count@72
STSM | 844 | >=90 78+2=1 | | [R24+U64+I40] R32:w | 16 MT88 count@72
LDGSTS | fae | <100 | | [R16+I44+20] [R24w+U64@76!70+I32+12] P!87? | \
    E !BYPASS@81 evict@84 ltc@71 oldcopysize@73 ZFILL@82 copyorder@77
LDGSTS | fae | >=100 | | [R16+I44+20] [R24w+U64@76!83+I32+12] P!87? | \
    E !BYPASS@81 evict@84 ltc@72 copysize@74 ZFILL@82 copyorder@77
QSPC | 3aa | | P81 R16 | [R24e+I40] | E@72 space@73
QSPC | 9aa | 91=1 72=1 | P81 R16 | [R24w+U32@76!90+I40] | E space@73
CCTL | 98f | 89=1 24+8=ff | | | cached@78 cctlall@87,4
CCTL | 98f | | | [R24e+I32+32] | E@72 cached@78 cctl@87,4
MEMBAR | 992 | <90 72=0 | | | membar@79 oldscope@76,3
MEMBAR | 992 | >=90 72=0 | | | membar@79 scope@76
ERRBAR | 9ab | | | |
CGAERRBAR | 5ab | >=90 | | |
LDGDEPBAR | 9af | | | |
DEPBAR | 91a | 47=1 32+6=0 | | D44 #38+6 | LE
"""
