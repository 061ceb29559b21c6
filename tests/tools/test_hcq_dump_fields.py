"""hcq-dump cat --fields of NVIDIA words: every bit field, zeros too, and where it lies."""

import io
import json
import sys

import pytest

from tools.hcq_dump.__main__ import main


@pytest.fixture
def below(capsys, monkeypatch):
    """The lines of the bit fields, from the offset on."""

    def run(words, kind, arch="sm_89"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(words.encode())))
        main(["cat", "--as", kind, "--arch", arch, "--fields", "-"])
        lines = [text.split(" b0 ")[1] for text in capsys.readouterr().out.splitlines()]
        return [text for text in lines if text[7:10] == "   "]

    return run


def test_a_method_has_a_line_for_each_field_of_header_and_word(below):
    assert below("2001001B 3100001", "pushbuffer") == [
        "+0x0000   w0[11:0] METHOD_ADDRESS=0x1b",
        "+0x0000   w0[15:13] METHOD_SUBCHANNEL=0",
        "+0x0000   w0[28:16] METHOD_COUNT=1",
        "+0x0000   w0[31:29] SEC_OP=1",
        "+0x0004   w1[2:0] SEM_EXECUTE.OPERATION=RELEASE",
        "+0x0004   w1[12:12] SEM_EXECUTE.ACQUIRE_SWITCH_TSG=DIS",
        "+0x0004   w1[20:20] SEM_EXECUTE.RELEASE_WFI=EN",
        "+0x0004   w1[24:24] SEM_EXECUTE.PAYLOAD_SIZE=64BIT",
        "+0x0004   w1[25:25] SEM_EXECUTE.RELEASE_TIMESTAMP=EN",
        "+0x0004   w1[30:27] SEM_EXECUTE.REDUCTION=IMIN",
        "+0x0004   w1[31:31] SEM_EXECUTE.REDUCTION_FORMAT=SIGNED",
    ]


def test_each_method_of_a_run_has_its_own_name(below):
    names = [line.split()[2].split("=")[0] for line in below("20040017 1000 2 7 0", "pushbuffer")]
    assert names[4:] == ["SEM_ADDR_LO.OFFSET", "SEM_ADDR_HI.OFFSET", "SEM_PAYLOAD_LO",
                         "SEM_PAYLOAD_HI"]  # fmt: skip


def test_data_in_a_header_lies_in_the_header(below):
    assert below("20012000 C9C0 8001254A", "pushbuffer")[-4:] == [
        "+0x0008   w0[15:13] METHOD_SUBCHANNEL=1",
        "+0x0008   w0[16:16] SET_SHADER_EXCEPTIONS.ENABLE=TRUE",
        "+0x0008   w0[28:16] IMMD_DATA=1",
        "+0x0008   w0[31:29] SEC_OP=4",
    ]


def test_data_for_one_method_has_a_line_a_word(below):
    found = below("20012000 C9C0 6002206D A 0", "pushbuffer")
    assert found[-2:] == [
        "+0x000c   w1[31:0] LOAD_INLINE_DATA=0xa",
        "+0x0010   w2[31:0] LOAD_INLINE_DATA=0",
    ]


def test_bits_without_a_field_are_a_line_too(below):
    assert below("2001001E 6", "pushbuffer")[-2:] == [
        "+0x0004   w1[0:0] WFI.SCOPE=CURRENT_VEID",
        "+0x0004   w1[31:0] WFI.reserved=?0x6",
    ]


def test_a_ring_entry_has_a_line_for_each_field(below):
    assert below("20001000 8000427F", "gpfifo") == [
        "+0x0000   w0[0:0] FETCH=UNCONDITIONAL",
        "+0x0000   w0[31:2] GET=0x8000400",
        "+0x0004   w1[7:0] GET_HI=0x7f",
        "+0x0004   w1[9:9] LEVEL=SUBROUTINE",
        "+0x0004   w1[30:10] LENGTH=0x10",
        "+0x0004   w1[31:31] SYNC=WAIT",
    ]


def test_a_control_entry_has_a_line_for_each_field(below):
    assert below("5 2", "gpfifo") == [
        "+0x0000   w0[31:0] OPERAND=0x5",
        "+0x0004   w1[7:0] OPCODE=GP_CRC",
        "+0x0004   w1[30:10] LENGTH=0x0",
    ]


def test_a_launch_record_has_a_line_for_each_field_at_its_word(below):
    words = ["0"] * 64
    words[12], words[18] = "4", "1000030"
    found = below(" ".join(words), "qmd", "sm_86")
    assert "+0x0030   w12[31:0] CTA_RASTER_WIDTH=4" in found
    assert "+0x0048   w18[31:16] CTA_THREAD_DIMENSION0=0x100" in found
    assert "+0x0048   w18[7:4] QMD_MAJOR_VERSION=3" in found
    assert "+0x00c0   w48[31:0] PROGRAM_ADDRESS_LOWER=0" in found
    assert len(found) == 91  # the fields of the table


@pytest.mark.parametrize(
    ("words", "kind", "wanted"),
    [
        (
            "2001001B 3100001",
            "pushbuffer",
            {"name": "SEM_EXECUTE.OPERATION", "word": 1, "high": 2, "low": 0, "value": 1,
             "means": "RELEASE"},
        ),
        (
            "20001000 407F",
            "gpfifo",
            {"name": "SYNC", "word": 1, "high": 31, "low": 31, "value": 0, "means": "PROCEED"},
        ),
        (
            " ".join(["0"] * 18 + ["30"] + ["0"] * 45),
            "qmd",
            {"name": "CTA_RASTER_WIDTH", "word": 12, "high": 31, "low": 0, "value": 0},
        ),
    ],
    ids=["pushbuffer", "gpfifo", "qmd"],
)  # fmt: skip
def test_json_lines_carry_every_field(capsys, monkeypatch, words, kind, wanted):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(words.encode())))
    main(["cat", "--as", kind, "--arch", "sm_86", "--fields", "--jsonl", "-"])
    packet = json.loads(capsys.readouterr().out)
    assert wanted in packet["bits"]
