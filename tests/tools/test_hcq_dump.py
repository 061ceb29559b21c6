"""hcq-dump cat: raw words, cut streams, unknown packets."""

import json

import pytest

from tools.hcq_dump.__main__ import main

PM4 = ("--as", "pm4", "--arch", "gfx1100")


# FR-CMD-01


def test_filler_and_counts_keep_the_decoder_in_step(dump):
    code, lines, err = dump("80000000 C0021000 a b c C0031502 2 3 4 1", *PM4)
    assert code == 0
    assert lines == [
        "raw/pm4      s0   b0 +0x0000 [ 1] PM4  FILLER",
        "raw/pm4      s0   b0 +0x0004 [ 4] PM4  NOP words=3",
        "raw/pm4      s0   b0 +0x0014 [ 5] PM4  DISPATCH_DIRECT x=2 y=3 z=4 COMPUTE_SHADER_EN=1",
    ]
    assert err == "3 packets, 10 of 10 words used, 0 unknown\n"


# FR-CMD-02


@pytest.mark.refusal
def test_cut_packet_prints_what_is_there(dump):
    code, lines, err = dump("C0064902 1 2 3", *PM4)
    assert code == 3
    assert lines == [
        "raw/pm4      s0   b0 +0x0000 [ 4] PM4  RELEASE_MEM words=0x1,0x2,0x3 "
        "| !torn needs 7, has 3"
    ]
    assert "1 torn" in err


def test_empty_stream_has_no_packets(dump):
    assert dump("", *PM4) == (0, [], "0 packets, 0 of 0 words used, 0 unknown\n")


@pytest.mark.refusal
def test_three_bytes_are_refused(dump):
    code, lines, err = dump(b"\x01\x02\x03", *PM4)
    assert (code, lines) == (2, [])
    assert "3 bytes are no whole number of 32-bit words" in err


# FR-CMD-03


def test_unknown_opcode_does_not_hide_the_rest(dump):
    code, lines, err = dump("C001FE00 5 6 C0001000 7", *PM4)
    assert code == 3
    assert lines == [
        "raw/pm4      s0   b0 +0x0000 [ 3] PM4  ?0xfe words=0x5,0x6 | unknown opcode 0xFE, 2 words",
        "raw/pm4      s0   b0 +0x000c [ 2] PM4  NOP words=1",
    ]
    assert "1 unknown" in err


def test_missing_file_is_named(capsys):
    assert main(["cat", "--as", "pm4", "no-such-file"]) == 2
    assert "no-such-file: No such file" in capsys.readouterr().err


# Packets, as literal words


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("C0053C00 15 1000 2 29 FFFFFFFF 4",
         "WAIT_REG_MEM func=>= mem=0x200001000 ref=0x29 mask=~0"),
        ("C0027600 20C 12345600 7F", "SET_SH_REG COMPUTE_PGM_LO=0x12345600 COMPUTE_PGM_HI=0x7f"),
        ("C0007600 20C", "SET_SH_REG w0=0x20c | SET_SH_REG has 2 words, this one 1"),
        ("C0023F00 4000 7F 800010", "INDIRECT_BUFFER ib=0x7f00004000 ndw=16 valid=1"),
        ("C0004600 407", "EVENT_WRITE event=CS_PARTIAL_FLUSH index=4"),
        (
            "C0064900 30528 42000000 1000 2 7 0 0",
            "RELEASE_MEM event=BOTTOM_OF_PIPE_TS GL2_RANGE=1 GL2_US=1 data_sel=2 "
            "mem=0x200001000 data=0x7 int_sel=2 ctxid=0",
        ),
    ],
)  # fmt: skip
def test_pm4_packets(dump, words, text):
    _, lines, _ = dump(words, *PM4)
    assert [found.split("PM4  ")[1] for found in lines] == [text]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("1 FFFF 0 1000 1 2000 2", "COPY_LINEAR n=65536 src=0x100001000 dst=0x200002000"),
        ("30005 1000 2 7", "FENCE mem=0x200001000 data=7 mtype=3"),
        ("D0000008 1000 2 29 FFFFFFFF FFF000A",
         "POLL_REGMEM func=>= mem=0x200001000 ref=0x29 mask=~0"),
        ("6 5", "TRAP ctxid=5"),
        ("8000000B 1000 2 AB FC", "CONST_FILL n=256 dst=0x200001000 value=0xab"),
        ("20D 1000 2", "TIMESTAMP_GET_GLOBAL mem=0x200001000"),
        ("2 1000 2 1 AA BB", "WRITE_LINEAR dst=0x200001000 data=0xaa,0xbb"),
    ],
)  # fmt: skip
def test_sdma_packets(dump, words, text):
    _, lines, _ = dump(words, "--as", "sdma")
    assert [found.split("SDMA ")[1] for found in lines] == [text]


def test_unknown_sdma_operation_is_named(dump):
    code, lines, _ = dump("FF 0", "--as", "sdma")
    assert code == 3
    assert "unknown operation 0xFF sub 0x00" in lines[0]


def test_raw_words_at_the_end_of_the_line(dump):
    _, lines, _ = dump("C0001000 7", *PM4, "-x")
    assert lines[0].endswith("; c0001000 00000007")


def test_every_bit_field_is_a_line_with_its_place(dump):
    _, lines, _ = dump("C0027600 213 8F 1", *PM4, "--fields")
    bits = [line.split("raw/pm4      s0   b0 ")[1] for line in lines]
    assert bits[0].startswith("+0x0000 [ 4] PM4  SET_SH_REG COMPUTE_PGM_RSRC2=0x8f ")
    assert bits[1:5] == [
        "+0x0000   w0[0:0] predicate=0",
        "+0x0000   w0[1:1] shader_type=0",
        "+0x0000   w0[15:8] opcode=0x76",
        "+0x0000   w0[29:16] count=2",
    ]
    assert "+0x0008   w2[0:0] COMPUTE_PGM_RSRC2.scratch_en=1" in bits
    assert "+0x0008   w2[5:1] COMPUTE_PGM_RSRC2.user_sgpr=7" in bits
    assert "+0x0008   w2[8:8] COMPUTE_PGM_RSRC2.tgid_y_en=0" in bits
    assert bits[-1].startswith("+0x000c   w3[")


@pytest.mark.parametrize(
    ("words", "options", "wanted"),
    [
        (
            "C0053C00 15 1000 2 29 FFFFFFFF 4",
            PM4,
            ["+0x0004   w1[2:0] function=5", "+0x0008   w2[31:0] value=0x1000",
             "+0x0018   w6[15:0] poll_interval=4"],
        ),
        (
            "C0064900 30528 42000000 1000 2 7 0 0",
            PM4,
            ["+0x0008   w2[31:29] data_sel=2", "+0x001c   w7[27:0] int_ctxid=0"],
        ),
        (
            "1 FFFF 0 1000 1 2000 2",
            ("--as", "sdma"),
            ["+0x0000   w0[7:0] op=1", "+0x0000   w0[18:18] tmz=0",
             "+0x0004   w1[29:0] count=0xffff", "+0x0018   w6[31:0] value=2"],
        ),
    ],
    ids=["WAIT_REG_MEM", "RELEASE_MEM", "COPY_LINEAR"],
)  # fmt: skip
def test_control_words_have_their_bit_fields(dump, words, options, wanted):
    _, lines, _ = dump(words, *options, "--fields")
    found = [line.split(" b0 ")[1] for line in lines[1:]]
    assert [line for line in wanted if line not in found] == []


def test_json_lines_can_carry_every_bit_field(dump):
    _, lines, _ = dump("C0017600 213 8F", *PM4, "--fields", "--jsonl")
    (packet,) = [json.loads(line) for line in lines]
    assert {"name": "count", "word": 0, "high": 29, "low": 16, "value": 1} in packet["bits"]
    found = {bits["name"]: bits["value"] for bits in packet["bits"]}
    assert found["COMPUTE_PGM_RSRC2.user_sgpr"] == 7
    assert found["COMPUTE_PGM_RSRC2.tgid_y_en"] == 0


def test_json_lines_have_no_bit_fields_unless_asked(dump):
    _, lines, _ = dump("C0017600 213 8F", *PM4, "--jsonl")
    assert "bits" not in json.loads(lines[0])


def test_json_lines(dump):
    _, lines, _ = dump("C0001000 7", *PM4, "--jsonl")
    packet = json.loads(lines[0])
    assert packet["op"] == "NOP"
    assert packet["dw"] == ["0xc0001000", "0x00000007"]
