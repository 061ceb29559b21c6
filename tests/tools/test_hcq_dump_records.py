"""hcq-dump cat of NVIDIA words: ring entries and launch records.

Words are worked out from the class headers: clc56f.h, clc86f.h (host), clc7c0qmd.h,
clcbc0qmd.h, clcdc0qmd.h (launch records).
"""

import pytest

# Ring entries


@pytest.mark.parametrize(
    ("words", "text"),
    [
        # 0x7f_20001000, 16 words
        ("20001000 407F", "ENTRY pb=0x7f20001000 ndw=16"),
        ("20001000 8000427F", "ENTRY pb=0x7f20001000 ndw=16 level=SUBROUTINE sync=WAIT"),
        ("20001001 407F", "ENTRY pb=0x7f20001000 ndw=16 fetch=CONDITIONAL"),
        ("0 0", "NOP"),
        ("5 1", "ILLEGAL operand=0x5"),
        ("5 2", "GP_CRC operand=0x5"),
        ("5 3", "PB_CRC operand=0x5"),
        ("1FFFF00 4", "SET_PB_SEGMENT_EXTENDED_BASE base=0x1ffff0000000000"),
    ],
)
def test_ring_entries(packets, words, text):
    assert packets(words, "gpfifo") == (0, ["GP   " + text])


def test_an_extended_base_holds_for_the_entries_behind_it(packets):
    _, found = packets("100 4 20001000 407F 0 4 20001000 407F", "gpfifo")
    assert found[1] == "GP   ENTRY pb=0x17f20001000 ndw=16"
    assert found[3] == "GP   ENTRY pb=0x7f20001000 ndw=16"


@pytest.mark.refusal
def test_an_unknown_ring_opcode_does_not_hide_the_rest(packets):
    code, found = packets("7 FE 20001000 407F", "gpfifo")
    assert code == 3
    assert found == ["GP   ?0xfe operand=0x7", "GP   ENTRY pb=0x7f20001000 ndw=16"]


@pytest.mark.refusal
def test_before_hopper_there_is_no_extended_base(packets):
    code, found = packets("100 4 20001000 407F", "gpfifo", "--arch", "sm_89")
    assert code == 3
    assert found == ["GP   ?0x04 operand=0x100", "GP   ENTRY pb=0x7f20001000 ndw=16"]


@pytest.mark.refusal
def test_half_an_entry_is_torn(packets):
    code, found = packets("0 0 20001000", "gpfifo")
    assert (code, found[1]) == (3, "GP   ENTRY words=0x20001000 | !torn needs 2, has 1")


# Launch records


def record(count, **words):
    """Words of a record: w12=0x100 sets word 12."""
    found = [0] * count
    for name, word in words.items():
        found[int(name[1:])] = word
    return " ".join(f"{word:x}" for word in found)


VERSION_3 = {
    **{"w12": 4, "w13": 2, "w14": 3},  # grid
    **{"w15": 0x200040, "w16": 0x13},  # dependent: address >> 8; enable, schedule, prefetch
    **{"w17": 0x400},  # shared memory
    **{"w18": 0x01000030, "w19": 0x00010001},  # version 3; block 256, 1, 1
    **{"w20": 0x2001, "w23": 0x08000000},  # 32 registers, bank 0 valid; 1 barrier
    **{"w24": 0x1000, "w25": 0x00800002, "w26": 7},  # release: enable
    **{"w32": 0x20005000, "w33": 0x0108007F},  # bank 0: size 0x21 << 4
    **{"w48": 0x20004000, "w49": 0x7F, "w50": 0x40},  # program; local memory
}
VERSION_4 = {
    **{"w0": 0x01000000, "w11": 0x00130000, "w13": 1, "w14": 0x200040},
    **{"w18": 0x00040040},
    **{"w32": 4, "w33": 2, "w34": 3},
    **{"w36": 0x00010100, "w37": 0x08200001, "w38": 0x20004000, "w39": 0x7F},
    **{"w48": 0xFC800140, "w49": 0x01080001},  # 0x7f20005000 >> 6
}
VERSION_5 = {
    **{"w4": 0x01000000, "w10": 0x00130000, "w12": 0x200040, "w14": 0x00500000},
    **{"w32": 0xF2000400, "w33": 7},  # 0x7f20004000 >> 4
    **{"w34": 0x00010100, "w35": 0x00022001, "w36": 8, "w37": 0x00040000},
    **{"w39": 4, "w40": 2, "w41": 3},
    **{"w42": 0xFC800140, "w43": 0x01080001, "w58": 1},
}
LAUNCH = "program=0x7f20004000 grid=4,2,3 block=256,1,1 registers=32 barriers=1 shared=1024"


@pytest.mark.parametrize(
    ("arch", "words", "text"),
    [
        (
            "sm_86",
            record(64, **VERSION_3),
            f"QMDV03_00 {LAUNCH} local=64 c0=0x7f20005000+0x210 release=0x200001000 payload=7 "
            "then0=0x20004000",
        ),
        ("sm_90", record(96, **VERSION_4), f"QMDV04_00 {LAUNCH} c0=0x7f20005000+0x210 "
            "then0=0x20004000"),
        ("sm_120", record(96, **VERSION_5), f"QMDV05_00 {LAUNCH} local=64 "
            "c0=0x7f20005000+0x210 then0=0x20004000"),
    ],
    ids=["3", "4", "5"],
)  # fmt: skip
def test_records_by_version(packets, arch, words, text):
    code, found = packets(words, "qmd", "--arch", arch)
    assert (code, found[0]) == (0, "QMD  " + text)


def test_hopper_takes_version_3_too(packets):
    code, found = packets(record(64, **VERSION_3), "qmd", "--arch", "sm_90")
    assert code == 0
    assert found[0].startswith("QMD  QMDV03_00 program=0x7f20004000")


def test_records_follow_at_multiples_of_256_bytes(dump):
    pad = " 0" * 32 + " "
    words = record(96, **VERSION_4) + pad + record(96, **VERSION_4)
    code, lines, _ = dump(words, "--as", "qmd")
    assert code == 0
    assert [line.split("+")[1].split(" c0")[0][:24] for line in lines] == [
        "0x0000 [96] QMD  QMDV04_",
        "0x0180 [32] QMD  PADDING",
        "0x0200 [96] QMD  QMDV04_",
    ]


def test_a_record_in_the_methods_is_read_as_one(packets):
    # SET_INLINE_QMD_ADDRESS_A, _B, LOAD_INLINE_QMD_DATA(0) and on: 66 words.
    words = "20012000 C9C0 204220C6 0 7F20FA4 " + record(64, **VERSION_3)
    code, found = packets(words, "pushbuffer", "--arch", "sm_89")
    assert code == 0
    assert found[1].startswith("C9C0 SET_INLINE_QMD_ADDRESS_A subch=1 form=INC ")
    assert f" | qmd=0x7f20fa400; QMDV03_00 {LAUNCH} local=64 c0=0x7f20005000+0x210 " in found[1]


@pytest.mark.refusal
def test_bits_that_no_field_covers_are_marked(packets):
    code, found = packets(record(64, **VERSION_3, w2=0x80), "qmd", "--arch", "sm_86")
    assert code == 3
    assert found[0].endswith(" ?w2=0x80")


@pytest.mark.refusal
def test_a_cut_record_prints_what_is_there(packets):
    code, found = packets("1 2 3", "qmd", "--arch", "sm_89")
    assert (code, found) == (3, ["QMD  QMDV03 words=0x1,0x2,0x3 | !torn needs 64, has 3"])


@pytest.mark.refusal
def test_a_record_of_another_version_is_not_guessed(packets):
    code, found = packets(record(64), "qmd", "--arch", "sm_89")
    assert code == 3
    assert found[0].startswith("QMD  ?QMDV00 words=0x0,0x0")
    assert found[0].endswith("| version 0 is none of sm_89")


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("arch", "words", "text"),
    [
        ("sm_90", VERSION_5, "looks like version 5, of --arch sm_100 or sm_120"),
        ("sm_120", VERSION_3, "looks like version 3, of --arch sm_80 or sm_86 or sm_89 or sm_90"),
        ("sm_86", VERSION_4, "looks like version 4, of --arch sm_90"),
    ],
)
def test_a_record_of_another_chip_says_which(packets, arch, words, text):
    code, found = packets(record(96, **words), "qmd", "--arch", arch)
    assert code == 3
    assert found[0].endswith(f"| no record of {arch}: this {text}")
