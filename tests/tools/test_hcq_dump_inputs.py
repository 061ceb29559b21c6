"""hcq-dump cat: forms of input, what is said about them, what is refused."""

import json

import pytest

PM4 = ("--as", "pm4")
WORDS = "80000000 C0001000 7"


# Words


@pytest.mark.parametrize(
    "data",
    [
        "0x80000000, 0xC0001000, 7",
        "{0x80000000u, 0xC0001000u, 0x7u};",
        "[2147483648, 3221229568, 7]",
        b"\x00\x00\x00\x80\x00\x10\x00\xc0\x07\x00\x00\x00",
        "# the first packet\n80000000 // filler \u2014 one word\nC0001000 /* NOP */ 7\n",
        "const uint32_t words[3] = { 0x80000000u, 0xC0001000u, 7 };\n",
        "static unsigned ring[] = {\n  0x80000000, // filler\n  0xC0001000, 0x7,\n};",
        "words = [0x80000000, 0xC0001000, 0x7]",
        "self.words: list[int] = [0x80000000, 3221229568, 7]",
        "array([2147483648, 3221229568,          7], dtype=uint32)",
        "[np.uint32(2147483648), np.uint32(3221229568), np.uint32(7)]",
        "words = (0x80000000, 0xC000_1000, 0x7)",
        "std::vector<uint32_t> words{0x80000000, 0xC0001000, 0x7};",
    ],
    ids=["hex", "braces", "brackets", "binary", "commented", "c-array", "c-array-lines", "python",
         "annotated", "numpy", "numpy-scalars", "tuple", "vector"],
)  # fmt: skip
def test_input_forms_give_the_same_packets(dump, data):
    _, lines, _ = dump(data, *PM4)
    assert [text.split("PM4  ")[1] for text in lines] == ["FILLER", "NOP words=1"]


@pytest.mark.refusal
def test_text_that_is_no_words_is_refused_with_how_to_write_them(dump):
    code, lines, err = dump("packets of the first queue: C0001000 7", *PM4)
    assert (code, lines) == (2, [])
    assert "this is text, but not of 32-bit words" in err
    assert "hint: write words in hex" in err


@pytest.mark.refusal
def test_a_list_in_the_middle_of_prose_is_not_taken_for_words(dump):
    code, _, err = dump("The grid was (4, 2, 3) that day. " + "And so on. " * 30, *PM4)
    assert code == 2
    assert "this is text, but not of 32-bit words" in err


@pytest.mark.refusal
def test_two_lists_are_not_one(dump):
    code, _, err = dump("a = [1, 2]\nb = [3, 4]\n", *PM4)
    assert code == 2
    assert "2 lists of numbers: which one is it?" in err


@pytest.mark.refusal
def test_bare_decimal_words_are_told_that_bare_words_are_hex(dump):
    code, _, err = dump("536944640, 51648", "--as", "pushbuffer")
    assert code == 2
    assert "536944640 is wider than 32 bits, read as hex" in err
    assert "hint: tokens outside brackets are read as hex; decimal words stand in brackets" in err


@pytest.mark.refusal
def test_a_word_that_is_too_wide_either_way_has_no_such_hint(dump):
    code, _, err = dump("123456789ABC 0", *PM4)
    assert code == 2
    assert "123456789ABC is wider than 32 bits, read as hex" in err
    assert "hint" not in err


def test_bytes_that_begin_like_a_comment_are_words(dump):
    assert dump(b"#\xff\xff\xff", *PM4)[1:] != ([], "0 packets, 0 of 0 words used, 0 unknown\n")


@pytest.mark.refusal
def test_raw_words_need_a_kind(dump):
    code, _, err = dump("80000000")
    assert code == 2
    assert "holds raw words: what are they?" in err
    assert "--as pm4" in err


# Own lines


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (WORDS, PM4),
        ("1 FFFF 0 1000 1 2000 2", ("--as", "sdma")),
        ("20012000 CBC0 200120AD 100 0 0", ("--as", "pushbuffer", "--arch", "sm_90")),
        ("20001000 407F 0 0", ("--as", "gpfifo", "--arch", "sm_90")),
        (" ".join(["0"] * 18 + ["30"] + ["0"] * 45), ("--as", "qmd", "--arch", "sm_86")),
    ],
    ids=["pm4", "sdma", "pushbuffer", "gpfifo", "qmd"],
)
@pytest.mark.parametrize("more", [(), ("--fields",)], ids=["lines", "fields"])
def test_lines_with_words_can_be_read_again(dump, words, options, more):
    _, lines, _ = dump(words, *options, "-x", *more)
    again = dump("\n".join(lines), "-x", "-q", *more)
    assert again == (0, lines, "")


@pytest.mark.refusal
def test_lines_without_words_cannot_be_read_again(dump):
    _, lines, _ = dump(WORDS, *PM4)
    code, _, err = dump("\n".join(lines))
    assert code == 2
    assert "line 1 of hcq-dump has not its 1 words" in err
    assert "hint: print the words too: hcq-dump cat -x" in err


@pytest.mark.refusal
def test_other_text_between_lines_is_refused_by_number(dump):
    _, lines, _ = dump(WORDS, *PM4, "-x")
    code, _, err = dump("\n".join([lines[0], "and then", lines[1]]))
    assert code == 2
    assert "line 2 is none of hcq-dump" in err


def test_lines_keep_the_classes_of_their_engine_column(dump):
    # The class was bound in a part that is not there.
    line = "NV:0/compute0 s5 b1 +0x0000 [ 2] C9C0 SEND_PCAS_A subch=1 ; 200120ad 00000100"
    code, lines, err = dump(line)
    assert code == 0
    assert "[ 2] C9C0 SEND_PCAS_A" in lines[0]
    assert "no --arch: the words bind ADA_COMPUTE_A, taken as those of sm_89" in err


# Chips


@pytest.mark.parametrize(
    ("kind", "words", "note"),
    [
        ("pushbuffer", "2001001E 0", "no --arch: pushbuffer words are read as those of sm_90"),
        (
            "pushbuffer",
            "20012000 C9C0 2001001E 0",
            "no --arch: the words bind ADA_COMPUTE_A, taken as those of sm_89",
        ),
        (
            "pushbuffer",
            "20018000 C7B5",
            "no --arch: the words bind AMPERE_DMA_COPY_B, taken as those of sm_86",
        ),
        ("gpfifo", "0 0", "no --arch: gpfifo words are read as those of sm_90"),
        (
            "qmd",
            " ".join(["0"] * 18 + ["30"] + ["0"] * 45),
            "no --arch: the record is of version 3, taken as one of sm_80",
        ),
    ],
)
def test_a_chip_that_nobody_named_is_said(dump, kind, words, note):
    code, _, err = dump(words, "--as", kind)
    assert code == 0
    assert err.splitlines()[0] == f"hcq-dump: {note}"


def test_the_chip_that_the_words_tell_of_is_used(dump):
    _, lines, _ = dump("20012000 C9C0 2001001E 0", "--as", "pushbuffer")
    assert " C56F WFI " in lines[1]


def test_a_chip_that_was_named_needs_no_words(dump):
    _, _, err = dump("2001001E 0", "--as", "pushbuffer", "--arch", "sm_90")
    assert err == "1 packets, 2 of 2 words used, 0 unknown\n"


def test_quiet_leaves_notes_out_as_well(dump):
    assert dump("2001001E 0", "--as", "pushbuffer", "-q")[2] == ""


def test_a_class_of_another_chip_than_the_named_one_is_said(dump):
    code, _, err = dump("20012000 C9C0", "--as", "pushbuffer", "--arch", "sm_90")
    assert code == 0
    assert "hcq-dump: --arch sm_90, but the words bind ADA_COMPUTE_A, of sm_89\n" in err


# What is no input


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x7fELF\x02\x01\x01" + bytes(57), "is an ELF file, not words of a queue"),
        (b"\x1f\x8b\x08" + bytes(20), "is compressed (gzip)"),
        ("# hcq\n\nA GPU driver stack in userspace, in Python.\n", "this is text, but not of"),
        ('{"record":"ioctl","seq":1,"fd":3}\n', "a recording without its beginning"),
        ('{"name": "hcq"}\n', "is JSON, but no recording"),
    ],
    ids=["elf", "gzip", "text", "headless", "json"],
)
@pytest.mark.parametrize("options", [(), PM4], ids=["bare", "as"])
def test_files_that_hold_no_words_are_named_for_what_they_are(dump, data, text, options):
    code, lines, err = dump(data, *options)
    assert (code, lines) == (2, [])
    assert text in err


@pytest.mark.refusal
@pytest.mark.parametrize("options", [("--as", "pm4"), ("--arch", "sm_90")])
def test_options_of_raw_words_are_refused_for_a_recording(dump, options):
    head = json.dumps({"record": "capture", "seq": 0, "schema": "0.2"})
    code, _, err = dump(head + "\n", *options)
    assert code == 2
    assert f"{options[0]} is not for a recording, which - holds" in err


@pytest.mark.refusal
@pytest.mark.parametrize(
    "options", [("--queue", "compute0"), ("--sub", "0"), ("--no-ioctl",)], ids=lambda o: o[0]
)
def test_options_of_recordings_are_refused_for_raw_words(dump, options):
    code, _, err = dump(WORDS, *PM4, *options)
    assert code == 2
    assert f"{options[0]} is not for raw words" in err


@pytest.mark.refusal
def test_a_kind_is_refused_for_own_lines(dump):
    _, lines, _ = dump(WORDS, *PM4, "-x")
    code, _, err = dump("\n".join(lines), *PM4)
    assert code == 2
    assert "--as is not for hcq-dump's own lines" in err
