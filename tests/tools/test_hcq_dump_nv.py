"""hcq-dump cat of NVIDIA words: pushbuffers.

Words are worked out from the class headers: clc56f.h, clc86f.h (host), clcbc0.h
(compute), clc8b5.h (copy).
"""

import json

import pytest

# Pushbuffers: host methods

SEMAPHORE = "C86F SEM_ADDR_LO subch=0 form=INC SEM_ADDR_LO:HI=0x200001000"


def test_a_line_has_the_columns_of_every_packet(dump):
    code, lines, err = dump("2001001E 0", "--as", "pushbuffer", "--arch", "sm_89")
    assert code == 0
    assert lines == [
        "raw/pushbuffer s0   b0 +0x0000 [ 2] C56F WFI subch=0 form=INC SCOPE=CURRENT_VEID"
    ]
    assert err == "1 packets, 2 of 2 words used, 0 unknown\n"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            "20050017 1000 2 7 0 3100001",
            f"{SEMAPHORE} SEM_PAYLOAD_LO:HI=0x7 SEM_EXECUTE.OPERATION=RELEASE "
            "SEM_EXECUTE.RELEASE_WFI=EN SEM_EXECUTE.PAYLOAD_SIZE=64BIT "
            "SEM_EXECUTE.RELEASE_TIMESTAMP=EN",
        ),
        (
            "20050017 1000 2 29 0 1000003",
            f"{SEMAPHORE} SEM_PAYLOAD_LO:HI=0x29 SEM_EXECUTE.OPERATION=ACQ_CIRC_GEQ "
            "SEM_EXECUTE.PAYLOAD_SIZE=64BIT",
        ),
        (
            "20050017 1000 2 29 0 0",
            f"{SEMAPHORE} SEM_PAYLOAD_LO:HI=0x29 SEM_EXECUTE.OPERATION=ACQUIRE "
            "SEM_EXECUTE.PAYLOAD_SIZE=32BIT",
        ),
        (
            "2001001B 28000006",
            "C86F SEM_EXECUTE subch=0 form=INC OPERATION=REDUCTION PAYLOAD_SIZE=32BIT "
            "REDUCTION=IADD REDUCTION_FORMAT=SIGNED",
        ),
        (
            "2002000C 0 28000000",
            "C86F MEM_OP_C subch=0 form=INC MEMBAR_TYPE=SYS_MEMBAR MEM_OP_D.OPERATION=MEMBAR",
        ),
        (
            "2004000A 800 0 1 48000000",
            "C86F MEM_OP_A subch=0 form=INC TLB_INVALIDATE_INVAL_SCOPE=ALL_TLBS "
            "TLB_INVALIDATE_SYSMEMBAR=EN MEM_OP_B=0 MEM_OP_C.TLB_INVALIDATE_PDB=ALL "
            "MEM_OP_C.TLB_INVALIDATE_GPC=ENABLE MEM_OP_C.TLB_INVALIDATE_PAGE_TABLE_LEVEL=ALL "
            "MEM_OP_D.OPERATION=MMU_TLB_INVALIDATE",
        ),
        ("80010008", "C86F NON_STALL_INTERRUPT subch=0 form=IMMD NON_STALL_INTERRUPT=1"),
        ("20012000 CBC0", "C86F SET_OBJECT subch=1 form=INC NVCLASS=HOPPER_COMPUTE_A"),
        ("20010020 3", "C86F YIELD subch=0 form=INC OP=TSG"),
        ("20010014 7", "C86F SET_REFERENCE subch=0 form=INC SET_REFERENCE=7"),
    ],
)
def test_host_methods(packets, words, text):
    assert packets(words) == (0, [text])


# Pushbuffers: forms of headers


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("20022060 4 1", "LINE_LENGTH_IN subch=1 form=INC LINE_LENGTH_IN=4 LINE_COUNT=1"),
        (
            "6003206D A B C",
            "LOAD_INLINE_DATA subch=1 form=NON_INC LOAD_INLINE_DATA=0xa,0xb,0xc",
        ),
        (
            "A0032060 4 1 1",
            "LINE_LENGTH_IN subch=1 form=1INC LINE_LENGTH_IN=4 LINE_COUNT=0x1,0x1",
        ),
        ("80002044", "WAIT_FOR_IDLE subch=1 form=IMMD WAIT_FOR_IDLE=0"),
        ("80012555", "SET_RENDER_ENABLE_B subch=1 form=IMMD SET_RENDER_ENABLE_B=1"),
        ("00082180 4 1", "LINE_LENGTH_IN subch=1 form=OLD_INC LINE_LENGTH_IN=4 LINE_COUNT=1"),
        (
            "400C21B4 A B C",
            "LOAD_INLINE_DATA subch=1 form=OLD_NON_INC LOAD_INLINE_DATA=0xa,0xb,0xc",
        ),
    ],
    ids=["INC", "NON_INC", "1INC", "IMMD", "IMMD-pair", "OLD_INC", "OLD_NON_INC"],
)
def test_forms_of_headers(packets, words, text):
    code, found = packets("20012000 CBC0 " + words)
    assert (code, found[1]) == (0, "CBC0 " + text)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("00010FF0", "PB   SET_SUB_DEV_MASK SUBDEVICE_MASK=0xff"),
        ("00020010", "PB   STORE_SUB_DEV_MASK SUBDEVICE_MASK=0x1"),
        ("00030000", "PB   USE_SUB_DEV_MASK SUBDEVICE_MASK=0x0"),
        ("0 0 0", "PB   NOP"),
    ],
)
def test_headers_without_methods(packets, words, text):
    assert packets(words) == (0, [text])


def test_nothing_is_fetched_behind_the_end_of_a_segment(packets):
    assert packets("E0000000 2001001E 0") == (
        0,
        ["PB   END_PB_SEGMENT", "PB   UNFETCHED words=2"],
    )


@pytest.mark.refusal
def test_a_word_that_is_no_header_does_not_hide_the_rest(packets):
    code, found = packets("C0000001 2001001E 0")
    assert code == 3
    assert found == [
        "PB   ?0xc0000001 sec_op=6 tert_op=0 | no method header",
        "C86F WFI subch=0 form=INC SCOPE=CURRENT_VEID",
    ]


# Pushbuffers: classes


@pytest.mark.parametrize(
    ("words", "name", "text"),
    [
        ("200120AD 7F20FA4", "SEND_PCAS_A", "QMD_ADDRESS_SHIFTED8=0x7f20fa4 | qmd=0x7f20fa400"),
        ("200120B0 9", "SEND_SIGNALING_PCAS2_B", "PCAS_ACTION=PREFETCH_SCHEDULE"),
        (
            "200221E4 7F 12340000",
            "SET_SHADER_LOCAL_MEMORY_A",
            "SET_SHADER_LOCAL_MEMORY_A:B=0x7f12340000",
        ),
        (
            "200320B9 0 80000 FF",
            "SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A",
            "SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A:B=0x80000 "
            "SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_C.MAX_SM_COUNT=0xff",
        ),
        (
            "2001206C 41",
            "LAUNCH_DMA",
            "DST_MEMORY_LAYOUT=PITCH COMPLETION_TYPE=FLUSH_DISABLE SYSMEMBAR_DISABLE=TRUE",
        ),
        (
            "200125A6 1011",
            "INVALIDATE_SHADER_CACHES_NO_WFI",
            "INSTRUCTION=TRUE GLOBAL_DATA=TRUE CONSTANT=TRUE",
        ),
        ("200120C8 5", "LOAD_INLINE_QMD_DATA(0)", "LOAD_INLINE_QMD_DATA(0)=5"),
        ("200120C9 5", "LOAD_INLINE_QMD_DATA(1)", "LOAD_INLINE_QMD_DATA(1)=5"),
        (
            "2003255D 7F 20000000 FFF",
            "SET_TEX_HEADER_POOL_A",
            "SET_TEX_HEADER_POOL_A:B=0x7f20000000 SET_TEX_HEADER_POOL_C.MAXIMUM_INDEX=0xfff",
        ),
        (
            "20032557 7F 20000000 3F",
            "SET_TEX_SAMPLER_POOL_A",
            "SET_TEX_SAMPLER_POOL_A:B=0x7f20000000 SET_TEX_SAMPLER_POOL_C.MAXIMUM_INDEX=0x3f",
        ),
        ("2001254A 1", "SET_SHADER_EXCEPTIONS", "ENABLE=TRUE"),
        ("2001254A 0", "SET_SHADER_EXCEPTIONS", "ENABLE=FALSE"),
        (
            "20022056 7 0",
            "SET_REPORT_SEMAPHORE_PAYLOAD_LOWER",
            "SET_REPORT_SEMAPHORE_PAYLOAD_LOWER:UPPER=0x7",
        ),
        (
            "2001205A 8",
            "REPORT_SEMAPHORE_EXECUTE",
            "OPERATION=RELEASE STRUCTURE_SIZE=SEMAPHORE_ONE_WORD",
        ),
        ("20022E02 2 0", "CALL_MME_MACRO(1)", "CALL_MME_MACRO(1)=2 CALL_MME_DATA(1)=0"),
        ("20022063 0 1000", "OFFSET_OUT", "OFFSET_OUT=0 PITCH_OUT=0x1000"),
        ("20022062 7F 1000", "OFFSET_OUT_UPPER", "OFFSET_OUT_UPPER:OFFSET_OUT=0x7f00001000"),
    ],
)
def test_compute_methods(packets, words, name, text):
    code, found = packets("20012000 CBC0 " + words)
    assert (code, found[1]) == (0, f"CBC0 {name} subch=1 form=INC {text}")


def test_copy_methods(packets):
    code, found = packets("20018000 C8B5 20048100 1 1000 2 2000 20018106 10000 200180C0 182")
    assert code == 0
    assert found[1:] == [
        "C8B5 OFFSET_IN_UPPER subch=4 form=INC OFFSET_IN_UPPER:LOWER=0x100001000 "
        "OFFSET_OUT_UPPER:LOWER=0x200002000",
        "C8B5 LINE_LENGTH_IN subch=4 form=INC LINE_LENGTH_IN=0x10000",
        "C8B5 LAUNCH_DMA subch=4 form=INC DATA_TRANSFER_TYPE=NON_PIPELINED "
        "SRC_MEMORY_LAYOUT=PITCH DST_MEMORY_LAYOUT=PITCH",
    ]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            "200180C0 14",
            "LAUNCH_DMA subch=4 form=INC DATA_TRANSFER_TYPE=NONE FLUSH_ENABLE=TRUE "
            "SEMAPHORE_TYPE=RELEASE_FOUR_WORD_SEMAPHORE FLUSH_TYPE=SYS "
            "SEMAPHORE_PAYLOAD_SIZE=ONE_WORD",
        ),
        (
            "200180C0 8000008",
            "LAUNCH_DMA subch=4 form=INC DATA_TRANSFER_TYPE=NONE "
            "SEMAPHORE_TYPE=RELEASE_ONE_WORD_SEMAPHORE SEMAPHORE_PAYLOAD_SIZE=TWO_WORD",
        ),
        (
            "200181C2 3030004",
            "SET_REMAP_COMPONENTS subch=4 form=INC DST_X=CONST_A DST_Y=SRC_X DST_Z=SRC_X "
            "DST_W=SRC_X COMPONENT_SIZE=FOUR NUM_SRC_COMPONENTS=ONE NUM_DST_COMPONENTS=FOUR",
        ),
        (
            "20028090 7F 1000",
            "SET_SEMAPHORE_A subch=4 form=INC SET_SEMAPHORE_A:B=0x7f00001000",
        ),
        (
            "200281C3 1020 200",
            "SET_DST_BLOCK_SIZE subch=4 form=INC HEIGHT=FOUR_GOBS GOB_HEIGHT=GOB_HEIGHT_FERMI_8 "
            "SET_DST_WIDTH=0x200",
        ),
    ],
)
def test_what_a_copy_does_has_the_names_of_the_header(packets, words, text):
    code, found = packets("20018000 C8B5 " + words)
    assert (code, found[1]) == (0, "C8B5 " + text)


def test_a_subchannel_can_be_bound_anew(packets):
    # Subchannel 1 takes the copy class: 0x0300 is then LAUNCH_DMA of the copy engine.
    code, found = packets(
        "20012000 C7C0 20012000 C7B5 200120C0 14", "pushbuffer", "--arch", "sm_86"
    )
    assert code == 0
    assert found[2].startswith(
        "C7B5 LAUNCH_DMA subch=1 form=INC DATA_TRANSFER_TYPE=NONE FLUSH_ENABLE=TRUE "
        "SEMAPHORE_TYPE=RELEASE_FOUR_WORD_SEMAPHORE"
    )


def test_a_class_bound_elsewhere_is_taken_from_the_chip_and_said(packets):
    code, found = packets("200120AD 100 200120AD 200", "pushbuffer", "--arch", "sm_120")
    assert code == 0
    assert found == [
        "CEC0 SEND_PCAS_A subch=1 form=INC QMD_ADDRESS_SHIFTED8=0x100 "
        "| subchannel 1 is bound elsewhere, taken as cec0; qmd=0x10000",
        "CEC0 SEND_PCAS_A subch=1 form=INC QMD_ADDRESS_SHIFTED8=0x200 | qmd=0x20000",
    ]


def test_inline_to_memory_is_a_class_of_its_own(packets):
    code, found = packets("20014000 A140 2001406C 1")
    assert code == 0
    assert found[1] == (
        "A140 LAUNCH_DMA subch=2 form=INC DST_MEMORY_LAYOUT=PITCH COMPLETION_TYPE=FLUSH_DISABLE"
    )


@pytest.mark.refusal
def test_methods_of_a_class_without_a_table_are_shown_by_number_and_counted(packets):
    code, found = packets("20010000 C997 20010500 5 80010500", "pushbuffer", "--arch", "sm_89")
    note = "| ADA_A: its methods have no names here"
    assert code == 3
    assert found == [
        "C56F SET_OBJECT subch=0 form=INC NVCLASS=ADA_A",
        f"C997 ?0x1400 subch=0 form=INC words=0x5 {note}",
        f"C997 ?0x1400 subch=0 form=IMMD words=0x1 {note}",
    ]


@pytest.mark.parametrize(
    ("number", "name"), [("902D", "FERMI_TWOD_A"), ("A140", "KEPLER_INLINE_TO_MEMORY_B")]
)
def test_other_classes_have_their_names(packets, number, name):
    assert packets("20016000 " + number) == (
        0,
        [f"C86F SET_OBJECT subch=3 form=INC NVCLASS={name}"],
    )


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("200127FF 5", "CBC0 ?0x1ffc subch=1 form=INC ?0x1ffc=0x5 "
            "| unknown method on subchannel 1"),
        ("2001A0AD 5", "SUB5 ?0x02b4 subch=5 form=INC words=0x5 | subchannel 5 is not bound"),
        ("2001003C 5", "C86F ?0x00f0 subch=0 form=INC ?0x00f0=0x5 "
            "| unknown method on subchannel 0"),
        ("20016000 1234", "C86F SET_OBJECT subch=3 form=INC NVCLASS=?0x1234"),
        ("20010000 FFE0CBC0", "C86F SET_OBJECT subch=0 form=INC NVCLASS=HOPPER_COMPUTE_A "
            "reserved=?0xffe00000"),
        ("200120B0 4", "CBC0 SEND_SIGNALING_PCAS2_B subch=1 form=INC PCAS_ACTION=?0x4"),
    ],
    ids=["method", "subchannel", "host", "class", "reserved", "value"],
)  # fmt: skip
def test_what_is_unknown_is_marked_and_counted(packets, words, text):
    code, found = packets("20012000 CBC0 " + words + " 0")
    assert code == 3
    assert found[1:] == [text, "PB   NOP"]


@pytest.mark.refusal
def test_the_oldest_class_lacks_the_newer_report_semaphore(packets):
    code, found = packets("20012000 C6C0 2001205A 0", "pushbuffer", "--arch", "sm_80")
    assert code == 3
    assert found[1].startswith("C6C0 ?0x0168")


@pytest.mark.refusal
def test_cut_methods_print_what_is_there(dump):
    code, lines, err = dump("20050017 1000 2", "--as", "pushbuffer")
    assert code == 3
    assert lines == [
        "raw/pushbuffer s0   b0 +0x0000 [ 3] C86F SEM_ADDR_LO subch=0 form=INC "
        "SEM_ADDR_LO:HI=0x200001000 "
        "| !torn needs 5, has 2"
    ]
    assert "1 torn" in err


@pytest.mark.refusal
def test_a_header_alone_is_torn(packets):
    assert packets("20050017") == (3, ["C86F SEM_ADDR_LO subch=0 form=INC | !torn needs 5, has 0"])


@pytest.mark.parametrize("kind", ["pushbuffer", "qmd", "gpfifo"])
def test_no_words_are_no_packets(dump, kind):
    assert dump("", "--as", kind) == (0, [], "0 packets, 0 of 0 words used, 0 unknown\n")


@pytest.mark.refusal
def test_words_of_the_other_vendors_chip_are_refused(dump):
    code, lines, err = dump("0", "--as", "pushbuffer", "--arch", "gfx1100")
    assert (code, lines) == (2, [])
    assert "pushbuffer words are of no gfx1100" in err
    assert "accepted=sm_80, sm_86" in err


def test_json_lines_name_engine_and_fields(dump):
    _, lines, _ = dump("20012000 CBC0", "--as", "pushbuffer", "--jsonl")
    packet = json.loads(lines[0])
    assert (packet["engine"], packet["op"]) == ("C86F", "SET_OBJECT")
    assert packet["fields"] == {
        **{"subch": 1, "form": "INC", "NVCLASS": "HOPPER_COMPUTE_A"},
    }
